"""The settings of targets: those of the provider, with what the entries of `[[models.targets]]` set over them.

The result is a `Provider` of the configuration, as if the target had a provider of its own. Settings belong to the
target, however a request names it: all entries of one target are merged (`config.checks.target_check` refuses entries
that contradict each other). A target without settings of its own is not in the result.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import structs

from streamweir.config.checks.target_check import own_settings
from streamweir.config.error import entry, member
from streamweir.config.model import Config, Provider, ProviderTimeouts
from streamweir.pipeline.body_rules import merged, path_of, without
from streamweir.policy.limits.key_limits import NAMES
from streamweir.policy.routing.health import TargetId

_OF_OTHERS = frozenset({"max_output_tokens", "wire", *NAMES})
"""Settings of a target that a provider does not have, or that are applied elsewhere."""


_OF_SERVER = (
    "kind",
    "base_url",
    "api_version",
    "project",
    "location",
    "region",
    "aws",
    "google",
    "entra",
    "proxy",
    "ca_file",
    "headers",
    "max_connections",
)
"""The settings that choose the server, and how it is connected. A connection can be used with any key."""


class OwnSettings(NamedTuple):
    target: TargetId
    provider: Provider
    """With the target's settings."""
    where: str
    """The place in the file, for messages."""


def settings_of_targets(config: Config) -> Iterator[OwnSettings]:
    providers = {provider.name: provider for provider in config.providers}
    found: dict[TargetId, tuple[str, dict[str, Any]]] = {}
    for model in config.models:
        for index, target in enumerate(model.targets):
            own = {name: value for name, value in own_settings(target).items() if _is_of_provider(name)}
            if own:
                at = entry(f"{member('models', model.id)}.targets", index)
                found.setdefault(TargetId(target.provider, target.model), (at, {}))[1].update(own)
    for target_id, (at, own) in found.items():
        yield OwnSettings(target_id, _merged(providers[target_id.provider], own), at)


def _is_of_provider(name: str) -> bool:
    return name not in _OF_OTHERS and name in Provider.__struct_fields__


def _merged(provider: Provider, own: dict[str, Any]) -> Provider:
    changes = {**own}
    if "headers" in own:
        names = {name.lower() for name in own["headers"]}
        kept = {name: value for name, value in provider.headers.items() if name.lower() not in names}
        changes["headers"] = {**kept, **own["headers"]}
    if "timeouts" in own:
        changes["timeouts"] = _over(provider.timeouts, own["timeouts"])
    dropped = [path_of(name) for name in own.get("drop", ())]
    changes["defaults"] = merged(without(provider.defaults, dropped), own.get("defaults", {}))
    changes["override"] = merged(without(provider.override, dropped), own.get("override", {}))
    changes["drop"] = tuple(dict.fromkeys((*provider.drop, *own.get("drop", ()))))
    return structs.replace(provider, **changes)


def _over(timeouts: ProviderTimeouts, own: ProviderTimeouts) -> ProviderTimeouts:
    return structs.replace(
        timeouts, **{name: value for name, value in structs.asdict(own).items() if value is not None}
    )


def server_of(provider: Provider) -> list[object]:
    """Equal for two providers that are the same server, connected in the same way."""
    return [getattr(provider, name) for name in _OF_SERVER]
