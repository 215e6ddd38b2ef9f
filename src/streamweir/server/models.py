"""`GET /v1/models`: the models that a key may use.

Any model of a configured provider can be asked for by name; listed are those that are known
beforehand: the aliases, the models that the operator named, and those of the built-in providers.
"""

from typing import Any

from streamweir.core.errors import CallerError
from streamweir.policy.access import Key
from streamweir.server.message import Answer
from streamweir.server.respond import json_answer
from streamweir.server.setup import Setup
from streamweir.upstream import local, sim

_BUILT_IN = {"sim": sim.MODELS, "local": (local.MODEL,)}


def list_models(setup: Setup, key: Key) -> Answer:
    rows = [_row(model, owner) for model, owner in _models(setup) if key.may_use(model)]
    return json_answer({"object": "list", "data": rows})


def show_model(setup: Setup, key: Key, model: str) -> Answer:
    """Any model that a request could name, listed or not; what the key may not use is as good as unknown."""
    route = setup.router.resolve(model)
    if route is None or not key.may_use(model):
        raise CallerError("model_not_found", f'model "{model}" not found', param="model")
    return json_answer(_row(model, dict(_models(setup)).get(model) or route.targets[0].target.provider))


def _models(setup: Setup) -> list[tuple[str, str]]:
    found = [(alias.id, "streamweir") for alias in setup.config.models]
    for provider in setup.config.providers:
        names = provider.models or _BUILT_IN.get(provider.kind, ())
        found += [(f"{provider.name}/{name}", provider.name) for name in names]
    return found


def _row(model: str, owner: str) -> dict[str, Any]:
    # No service says when a model of another's was made; the member is required by clients, and 0 is not a lie.
    return {"id": model, "object": "model", "created": 0, "owned_by": owner}
