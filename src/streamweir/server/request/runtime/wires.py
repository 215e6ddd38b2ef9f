"""The wire (chat completions, Responses, Messages or a cloud's own) on which requests to a target are sent.

It is the configured wire of the target, else that of its provider, else the wire that a refusal of the target named
(`learned`), else what is known about the model. An attempt uses one result of `wire_of`, which is in its request.
"""

import re
from collections.abc import Mapping
from copy import copy
from typing import NamedTuple

from streamweir.config.model import Config
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.target_memory import TargetMemory
from streamweir.providers.base import Provider, Wire
from streamweir.providers.registry import has_responses, native_wire, provider_named, variant_of, wire_for
from streamweir.wire.native import NativeWire

_MAX_CHOSEN = 4096
"""Targets, because callers choose model names."""


class ProviderWire(NamedTuple):
    """A provider on one of its wires."""

    provider: Provider
    native_wire: NativeWire | None
    variant: "WireVariant | None" = None


class WireVariant(NamedTuple):
    """For some models of this wire."""

    models: re.Pattern[str]
    wire: ProviderWire


def wire_named(name: str) -> ProviderWire:
    """`name`: of the provider, in `providers.registry`."""
    found = variant_of(name)
    variant = None if found is None else WireVariant(found[0], wire_named(found[1]))
    return ProviderWire(provider_named(name), native_wire(name), variant)


class WireTable:
    def __init__(self, config: Config, learned: TargetMemory | None = None) -> None:
        self.learned = learned if learned is not None else TargetMemory()
        self._base: WireTable | None = None
        self._chosen: dict[TargetId, Wire] = {}  # needed several times in every request
        self._kinds: Mapping[str, str] = {provider.name: provider.kind for provider in config.providers}
        self._of_provider = {provider.name: Wire(provider.wire) for provider in config.providers if provider.wire}
        self._of_target = {
            TargetId(target.provider, target.model): Wire(target.wire)
            for model in config.models
            for target in model.targets
            if target.wire
        }

    def wire_of(self, target: TargetId) -> Wire:
        wire = self._chosen.get(target)
        if wire is None:
            if len(self._chosen) >= _MAX_CHOSEN:
                self._chosen.clear()
            wire = self._chosen[target] = self._choose(target)
        return wire

    def _choose(self, target: TargetId) -> Wire:
        chosen = self._of_target.get(target) or self._of_provider.get(target.provider)
        if chosen is not None:
            return chosen
        kind = self._kinds[target.provider]
        return Wire.RESPONSES if has_responses(kind) and target in self.learned else wire_for(kind, target.model)

    def has_choice(self, target: TargetId) -> bool:
        """False: the operator chose its wire, or it has no other."""
        if target in self._of_target or target.provider in self._of_provider:
            return False
        return has_responses(self._kinds[target.provider])

    def note_responses_only(self, target: TargetId) -> None:
        """The target, which has a choice, refuses the other wire."""
        table = self._base or self
        table.learned.note(target)
        table._chosen[target] = Wire.RESPONSES

    def including(self, target: TargetId) -> "WireTable":
        """The same with this target on the Responses wire, for one request: others do not know it."""
        table = copy(self)
        table._base = self._base or self
        table.learned, table._chosen = self.learned.including(target), {target: Wire.RESPONSES}
        return table
