"""Which provider answers to which name.

The names are the `kind`s of the configuration: the protocols, and every row of
`providers.compatible`. Modules are imported when they are asked for, so that a command that
needs one protocol does not pay for the others at its start. A module of a protocol gives its
one stateless provider as `PROVIDER`.
"""

from importlib import import_module

from msgspec import Struct

from streamweir.providers.base import Provider
from streamweir.wire.native import NativeWire

_ENDINGS = ("/chat/completions", "/messages")


class Family(Struct, frozen=True, kw_only=True):
    """A protocol of its own, under one of its names: all that is known of it outside of its module."""

    module: str
    base_url: str
    """Its public address. Where that has a place for the customer's own name, the place is in capitals."""
    abort_stops_billing: bool = False
    """Closing the connection ends the provider's work and its bill: by OpenRouter's published list."""
    settings: tuple[str, ...] = ()
    """Settings of `[[providers]]` that apply to some families only, and to this one."""
    endings: tuple[str, ...] = _ENDINGS
    """What a `base_url` must not end in, for the gateway adds it."""
    native_wire: NativeWire | None = None
    """That it writes to the byte."""
    prices: str | None = None
    """The provider of the price list. None: it has no prices."""


FAMILIES = {
    "anthropic": Family(
        module="anthropic",
        base_url="https://api.anthropic.com/v1",
        abort_stops_billing=True,
        native_wire=NativeWire.ANTHROPIC_MESSAGES,
        prices="anthropic",
    ),
    "azure": Family(
        module="azure",
        base_url="https://RESOURCE.openai.azure.com",
        abort_stops_billing=True,
        settings=("api_version",),
        endings=("/openai", "/openai/v1", "/chat/completions"),
        prices="azure",
    ),
    "gemini": Family(
        module="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        settings=("project", "location"),
        prices="google",
    ),
    "vertex": Family(
        module="gemini",
        base_url="https://LOCATION-aiplatform.googleapis.com/v1",
        settings=("project", "location"),
        prices="google",
    ),
}


def provider_names() -> list[str]:
    return sorted([*FAMILIES, *import_module("streamweir.providers.compatible").VENDORS])


def provider_named(name: str) -> Provider:
    """The provider, or `KeyError` where nobody has this name."""
    family = FAMILIES.get(name)
    if family is not None:
        provider: Provider = import_module(f"streamweir.providers.{family.module}").PROVIDER
        return provider
    compatible = import_module("streamweir.providers.compatible")
    vendor: Provider = compatible.provider_of(compatible.VENDORS[name])
    return vendor


def native_wire(name: str) -> NativeWire | None:
    """The wire that this provider writes to the byte, so that its frames may be passed on as they came."""
    if name in FAMILIES:
        return FAMILIES[name].native_wire
    wire: NativeWire | None = import_module("streamweir.providers.compatible").VENDORS[name].native_wire
    return wire


def abort_stops_billing(name: str) -> bool:
    """Whether closing the connection ends the provider's work and its bill."""
    if name in FAMILIES:
        return FAMILIES[name].abort_stops_billing
    stops: bool = import_module("streamweir.providers.compatible").VENDORS[name].abort_stops_billing
    return stops


def default_base_url(name: str) -> str:
    """The provider's public address, as `Family.base_url`."""
    if name in FAMILIES:
        return FAMILIES[name].base_url
    address: str = import_module("streamweir.providers.compatible").VENDORS[name].base_url
    return address


def path_endings(name: str) -> tuple[str, ...]:
    """What its `base_url` must not end in."""
    return FAMILIES[name].endings if name in FAMILIES else _ENDINGS
