"""`GET /v1/models`: the models that a key may use, and what they are sold to it for.

Listed are the models that are known in advance (`server.request.lookup.model_names`). If several targets can answer for
a model, the highest of each of their rates is shown, so that no caller pays more than what was shown; if one of them
has no price, none is shown.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import unquote

from streamweir.frontends.base import Frontend
from streamweir.frontends.model_list import ListedModel
from streamweir.policy.access import Key
from streamweir.policy.pricing.prices import highest_rates, in_dollars
from streamweir.policy.routing.route import Route
from streamweir.server.http.answers import json_answer
from streamweir.server.http.message import Answer
from streamweir.server.request.lookup.model_names import OURS, known_models, unusable_model
from streamweir.server.request.runtime.config import RuntimeConfig

PER_TURN = 25
"""Models that are looked up in one turn of the event loop, if there are many."""


def answer_models(
    runtime: RuntimeConfig, key: Key, group: str | None, frontend: Frontend, model: str, query: str, at_ms: int
) -> Answer:
    """`group`: the price group of the key. `model`: the part after `/v1/models/` in the URL; empty: all models. Raises
    `CallerError`."""
    if model:
        return json_answer(frontend.write_model(_find(runtime, key, group, unquote(model), at_ms)))
    models = [_listed(runtime, route, group, owner, at_ms) for route, owner in _routes(runtime, key)]
    return json_answer(frontend.write_models(models, query))


async def answer_many(
    runtime: RuntimeConfig, key: Key, group: str | None, frontend: Frontend, query: str, at_ms: int
) -> Answer:
    """All models, in several turns of the event loop: the price of a model that was not looked up yet takes a while."""
    models = []
    for route, owner in _routes(runtime, key):
        models.append(_listed(runtime, route, group, owner, at_ms))
        if len(models) % PER_TURN == 0:
            await asyncio.sleep(0)
    return json_answer(frontend.write_models(models, query))


def has_many(runtime: RuntimeConfig) -> bool:
    return next(islice(known_models(runtime), 4 * PER_TURN, None), None) is not None


def _routes(runtime: RuntimeConfig, key: Key) -> Iterator[tuple[Route, str]]:
    """Of the models that the key may use, with their owners."""
    for model, owner in known_models(runtime):
        if key.may_use(model) and (route := runtime.routes.resolve(model)) is not None:
            yield route, owner


def model_ids(runtime: RuntimeConfig) -> list[str]:
    """The models that are listed for a key that may use every model."""
    return [model for model, _ in known_models(runtime) if runtime.routes.resolve(model) is not None]


def _find(runtime: RuntimeConfig, key: Key, group: str | None, model: str, at_ms: int) -> ListedModel:
    """Any model that a request could name, listed or not. Raises `CallerError` if the key cannot use it."""
    route = runtime.routes.resolve(model)
    if route is None or not key.may_use(model):
        raise unusable_model(runtime, key, model)
    owner = OURS if route.pattern is not None else dict(known_models(runtime)).get(model)
    owner = owner or route.targets[0].target.provider
    return _listed(runtime, route, group, owner, at_ms)


def _listed(runtime: RuntimeConfig, route: Route, group: str | None, owner: str, at_ms: int) -> ListedModel:
    limits = runtime.model_limits.of(route)
    return ListedModel(
        id=route.id,
        owner=owner,
        pricing=_pricing(runtime, route, group, at_ms),
        context_window=limits.answers[0].smallest_window,
        max_output_tokens=limits.longest,
    )


def _pricing(runtime: RuntimeConfig, route: Route, group: str | None, at_ms: int) -> dict[str, Any] | None:
    if group is not None and group not in runtime.quotes.groups:
        return None
    quote, _ = runtime.quotes.of(route, at_ms, group)
    known = [rates for rates in quote.sold.values() if rates is not None]
    if not known or len(known) < len(quote.sold):
        return None
    return {"currency": "USD", "unit": "1M tokens", **in_dollars(highest_rates(known)), "version": quote.version}
