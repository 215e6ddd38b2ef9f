"""`GET /v1/models`: the models that a key may use, and their prices.

Any model of a configured provider can be requested by name. Listed are those that are known in advance: the aliases
that are not patterns, the models that the operator named, and those of the built-in providers. If several targets can
answer for a model, the highest of each of their rates is shown, so that no caller pays more than what was shown; if one
of them has no price, none is shown.
"""

from typing import Any
from urllib.parse import unquote

from streamweir.core.errors import CallerError
from streamweir.frontends.base import Frontend
from streamweir.frontends.model_list import ListedModel
from streamweir.policy.access import Key
from streamweir.policy.prices import highest_rates, in_dollars
from streamweir.policy.route import Route, is_pattern
from streamweir.server.http.answers import json_answer
from streamweir.server.http.message import Answer
from streamweir.server.request.runtime import RuntimeConfig
from streamweir.upstream import local, sim

_OURS = "streamweir"
_BUILT_IN = {"sim": sim.MODELS, "local": (local.MODEL,)}


def answer_models(runtime: RuntimeConfig, key: Key, frontend: Frontend, model: str, query: str, at_ms: int) -> Answer:
    """`model`: the part after `/v1/models/` in the URL; empty: all models. Raises `CallerError`."""
    if model:
        return json_answer(frontend.write_model(_find(runtime, key, unquote(model), at_ms)))
    models = [
        _listed(runtime, route, owner, at_ms)
        for model, owner in _models(runtime)
        if key.may_use(model) and (route := runtime.routes.resolve(model)) is not None
    ]
    return json_answer(frontend.write_models(models, query))


def model_ids(runtime: RuntimeConfig) -> list[str]:
    """The models that are listed for a key that may use every model."""
    return [model for model, _ in _models(runtime) if runtime.routes.resolve(model) is not None]


def _find(runtime: RuntimeConfig, key: Key, model: str, at_ms: int) -> ListedModel:
    """Any model that a request could name, listed or not. A model that the key may not use is treated as unknown."""
    route = runtime.routes.resolve(model)
    if route is None or not key.may_use(model):
        raise CallerError("model_not_found", f'model "{model}" not found', param="model")
    owner = _OURS if route.pattern is not None else dict(_models(runtime)).get(model)
    owner = owner or route.targets[0].target.provider
    return _listed(runtime, route, owner, at_ms)


def _models(runtime: RuntimeConfig) -> list[tuple[str, str]]:
    found = [(alias.id, _OURS) for alias in runtime.config.models if not is_pattern(alias.id)]
    for provider in runtime.config.providers:
        names = provider.models or _BUILT_IN.get(provider.kind, ())
        found += [(f"{provider.name}/{name}", provider.name) for name in names]
    return found


def _listed(runtime: RuntimeConfig, route: Route, owner: str, at_ms: int) -> ListedModel:
    limits = runtime.model_limits.of(route)
    return ListedModel(
        id=route.id,
        owner=owner,
        pricing=_pricing(runtime, route, at_ms),
        context_window=limits.answers[0].smallest_window,
        max_output_tokens=limits.longest,
    )


def _pricing(runtime: RuntimeConfig, route: Route, at_ms: int) -> dict[str, Any] | None:
    quote, _ = runtime.quotes.of(route, at_ms)
    known = [rates for rates in quote.rates.values() if rates is not None]
    if not known or len(known) < len(quote.rates):
        return None
    return {"currency": "USD", "unit": "1M tokens", **in_dollars(highest_rates(known)), "version": quote.version}
