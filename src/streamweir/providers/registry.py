"""Provider names, and what is known about each provider outside of its module.

The names are the values of `kind` in the configuration: the protocols in `FAMILIES`, and every row of
`providers.compatible`. Provider modules are imported on first use, so that a command that needs one protocol starts
without the others. Each of them exports one stateless provider as `PROVIDER`.
"""

from importlib import import_module

from msgspec import Struct

from streamweir.providers.base import Provider
from streamweir.wire.native import NativeWire

_ENDINGS = ("/chat/completions", "/messages")


class Family(Struct, frozen=True, kw_only=True):
    """A protocol with a module of its own, under one of its names."""

    module: str
    base_url: str
    """The public address. A part that differs between customers is written in capitals."""
    abort_stops_billing: bool = False
    """Closing the connection stops the provider's work and its billing, according to OpenRouter's published list."""
    settings: tuple[str, ...] = ()
    """Settings of `[[providers]]` that only some families have, this one among them."""
    endings: tuple[str, ...] = _ENDINGS
    """Paths that a `base_url` must not end with, because the gateway appends them."""
    native_wire: NativeWire | None = None
    """The wire that this provider writes exactly; see `native_wire`."""
    prices: str | None = None
    """The provider's name in the price list. None: it has no prices."""


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
    """The provider of this name; `KeyError` if there is none."""
    family = FAMILIES.get(name)
    if family is not None:
        provider: Provider = import_module(f"streamweir.providers.{family.module}").PROVIDER
        return provider
    compatible = import_module("streamweir.providers.compatible")
    vendor: Provider = compatible.provider_of(compatible.VENDORS[name])
    return vendor


def native_wire(name: str) -> NativeWire | None:
    """The streaming format that this provider writes exactly, so that its frames can be passed on unchanged."""
    if name in FAMILIES:
        return FAMILIES[name].native_wire
    wire: NativeWire | None = import_module("streamweir.providers.compatible").VENDORS[name].native_wire
    return wire


def abort_stops_billing(name: str) -> bool:
    """Whether closing the connection stops the provider's work and its billing."""
    if name in FAMILIES:
        return FAMILIES[name].abort_stops_billing
    stops: bool = import_module("streamweir.providers.compatible").VENDORS[name].abort_stops_billing
    return stops


def default_base_url(name: str) -> str:
    """The provider's public address; see `Family.base_url`."""
    if name in FAMILIES:
        return FAMILIES[name].base_url
    address: str = import_module("streamweir.providers.compatible").VENDORS[name].base_url
    return address


def path_endings(name: str) -> tuple[str, ...]:
    """Paths that the `base_url` of this provider must not end with."""
    return FAMILIES[name].endings if name in FAMILIES else _ENDINGS
