"""The names of models: those that are known in advance, and the error for a name that cannot be used.

Any model of a configured provider can be requested by name. Known in advance are the aliases that are not patterns, the
models that the operator named, those of the built-in providers, and those that a cloud has listed.

A key with a list of models gets one answer for every name outside of it, whether there is such a model or not: the key
may not use it, and which it may. So nothing is revealed of models that it may not use (docs/spec/failures.md C20).
"""

from collections.abc import Iterator, Sequence

from streamweir.core.errors import CallerError
from streamweir.policy.access import Key
from streamweir.policy.routing.near_name import near_names
from streamweir.policy.routing.route import is_pattern
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.upstream import local, sim

OURS = "streamweir"
MAX_SHOWN = 10
"""Models of a key that are named in an error."""
_MAX_SUGGESTED = 3
_MAX_CONSIDERED = 12
"""Near names, of which those that the key may use are suggested."""
_BUILT_IN = {"sim": sim.MODELS, "local": (local.MODEL,)}


def known_models(runtime: RuntimeConfig) -> Iterator[tuple[str, str]]:
    """The names, with the owner of each."""
    for alias in runtime.config.models:
        if not is_pattern(alias.id):
            yield alias.id, OURS
    for provider in runtime.config.providers:
        for name in provider.models or _BUILT_IN.get(provider.kind) or runtime.model_lists.names_of(provider):
            yield f"{provider.name}/{name}", provider.name


def unusable_model(runtime: RuntimeConfig, key: Key, model: str) -> CallerError:
    """Why this key cannot use this name."""
    message = f'model "{model}" not found'
    if key.models is not None and not key.may_use(model):
        message = f'This key may not use the model "{model}". {_usable(key.models, model)}'
    elif suggested := _suggested(runtime, key, model):
        message = f"{message}. Did you mean {_listed(suggested, 'or')}?"
    return CallerError("model_not_found", message, param="model")


def _usable(models: Sequence[str], model: str) -> str:
    if not models:
        return "It may use no model."
    names = list(dict.fromkeys(models))
    if len(names) > MAX_SHOWN:  # the near ones first
        names = list(dict.fromkeys([*near_names(model, names, MAX_SHOWN), *names]))
    shown = [f'"{name}"' for name in names[:MAX_SHOWN]]
    if len(names) > MAX_SHOWN:
        shown.append(f"and {len(names) - MAX_SHOWN} more")
    return f"It may use: {', '.join(shown)}."


def _suggested(runtime: RuntimeConfig, key: Key, model: str) -> list[str]:
    near = near_names(model, _possible_names(runtime, model), _MAX_CONSIDERED)
    usable = (name for name in near if key.may_use(name) and runtime.routes.resolve(name) is not None)
    return [name for _, name in zip(range(_MAX_SUGGESTED), usable, strict=False)]


def _possible_names(runtime: RuntimeConfig, model: str) -> Iterator[str]:
    """What the caller can have meant: the same model of another provider, or a name that is known."""
    _, has_provider, rest = model.partition("/")
    if has_provider and rest:
        yield from (f"{provider.name}/{rest}" for provider in runtime.config.providers)
    yield from (name for name, _ in known_models(runtime))


def _listed(names: Sequence[str], word: str) -> str:
    *others, last = [f'"{name}"' for name in names]
    return f"{', '.join(others)} {word} {last}" if others else last
