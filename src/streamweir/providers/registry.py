"""Which provider answers to which name.

The names are the `kind`s of the configuration: the protocols, and every row of
`providers.compatible`. Modules are imported when they are asked for, so that a command that
needs one protocol does not pay for the others at its start. A module of a protocol gives its
one stateless provider as `PROVIDER`.
"""

from importlib import import_module

from streamweir.providers.base import Provider
from streamweir.wire.native import NativeWire

_MODULES = {
    "anthropic": "anthropic",
    "azure": "azure",
    "gemini": "gemini",
    "vertex": "gemini",
}


_STOP_ON_ABORT = frozenset({"anthropic", "azure"})
"""By OpenRouter's published list; Google's services are not on it."""
_BASE_URLS = {
    "anthropic": "https://api.anthropic.com/v1",
    "azure": "https://RESOURCE.openai.azure.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "vertex": "https://LOCATION-aiplatform.googleapis.com/v1",
}


def provider_names() -> list[str]:
    return sorted([*_MODULES, *import_module("streamweir.providers.compatible").VENDORS])


def provider_named(name: str) -> Provider:
    """The provider, or `KeyError` where nobody has this name."""
    module = _MODULES.get(name)
    if module is not None:
        provider: Provider = import_module(f"streamweir.providers.{module}").PROVIDER
        return provider
    compatible = import_module("streamweir.providers.compatible")
    vendor: Provider = compatible.provider_of(compatible.VENDORS[name])
    return vendor


def native_wire(name: str) -> NativeWire | None:
    """The wire that this provider writes to the byte, so that its frames may be passed on as they came."""
    if name in _MODULES:
        return None
    wire: NativeWire | None = import_module("streamweir.providers.compatible").VENDORS[name].native_wire
    return wire


def abort_stops_billing(name: str) -> bool:
    """Whether closing the connection ends the provider's work and its bill."""
    if name in _MODULES:
        return name in _STOP_ON_ABORT
    stops: bool = import_module("streamweir.providers.compatible").VENDORS[name].abort_stops_billing
    return stops


def default_base_url(name: str) -> str:
    """The provider's public address. Where it has a place for the customer's own name, that is in capitals."""
    if name in _MODULES:
        return _BASE_URLS[name]
    address: str = import_module("streamweir.providers.compatible").VENDORS[name].base_url
    return address
