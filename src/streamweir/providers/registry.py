"""Provider names, and what is known about each provider outside of its module.

The names are the values of `kind` in the configuration: the protocols in `FAMILIES`, and every row of
`providers.compatible`. Provider modules are imported on first use, so that a command that needs one protocol starts
without the others. Each of them exports one stateless provider as `PROVIDER`.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct

from streamweir.providers.base import Provider, Wire
from streamweir.providers.embedding import EmbeddingProvider, EmbeddingService
from streamweir.providers.prompts import PromptsProvider
from streamweir.wire.native import NativeWire

if TYPE_CHECKING:
    from streamweir.providers.openai.vendor import Vendor

_ENDINGS = ("/chat/completions", "/messages", "/responses", "/embeddings", "/completions")
_RESPONSES = f"-{Wire.RESPONSES}"
"""Ends the name of a provider on this wire, if it is not its first."""


class Variant(Struct, frozen=True, kw_only=True):
    """A provider for some models of a wire, whose answers are read in another way."""

    suffix: str
    """Of the provider's name."""
    provider: str
    """Its name in the module."""
    models: str
    """A regular expression."""


class WireRow(Struct, frozen=True, kw_only=True):
    """One of several wires of a family."""

    wire: Wire
    module: str
    provider: str = "PROVIDER"
    """Its name in the module."""
    native_wire: NativeWire | None = None
    """The wire that this provider writes exactly; see `native_wire`."""
    models: str | None = None
    """A regular expression: models that are asked on this wire, if the operator has not chosen one."""
    variant: Variant | None = None


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
    wires: tuple[WireRow, ...] = ()
    """The first is the default. Empty: its own wire alone, which is called `chat`."""
    embeddings: str = ""
    """The module of its `EMBEDDINGS`, if it is another than that of the family."""


_BEDROCK_ENDINGS = (*_ENDINGS, "/openai", "/openai/v1", "/anthropic", "/v1", "/model")
_CLAUDE = r"(?:^|[./])anthropic\.claude"
"""Claude at Bedrock. An ARN that does not name its model is asked on the first wire."""
_BEDROCK_RESPONSES = r"(?:^|[./])(?:openai\.gpt-\d|xai\.)"
"""Models that Bedrock serves as Responses, and some of them in no other way."""
_BEDROCK_CHAT = r"(?:^|[./])google\.gemma-[4-9]"
_OPENAI_MODELS = Variant(suffix="openai", provider="OPENAI_MODELS", models=r"(?:^|[./])openai\.")

FAMILIES = {
    "anthropic": Family(
        module="anthropic",
        base_url="https://api.anthropic.com/v1",
        abort_stops_billing=True,
        native_wire=NativeWire.ANTHROPIC_MESSAGES,
        prices="anthropic",
    ),
    "azure": Family(
        module="azure.chat",
        base_url="https://RESOURCE.openai.azure.com",
        abort_stops_billing=True,
        settings=("api_version", "entra"),
        endings=(
            "/openai",
            "/openai/v1",
            "/chat/completions",
            "/responses",
            "/anthropic",
            "/anthropic/v1",
            "/messages",
        ),
        prices="azure",
        wires=(
            WireRow(wire=Wire.CHAT, module="azure.chat"),
            WireRow(wire=Wire.RESPONSES, module="azure.responses", native_wire=NativeWire.OPENAI_RESPONSES),
            WireRow(
                wire=Wire.MESSAGES,
                module="azure.messages",
                native_wire=NativeWire.ANTHROPIC_MESSAGES,
                models=r"^claude-",
            ),
        ),
    ),
    "bedrock": Family(
        module="converse",
        base_url="https://bedrock-runtime.REGION.amazonaws.com",
        settings=("region", "aws"),
        endings=_BEDROCK_ENDINGS,
        prices="aws",
        wires=(
            WireRow(wire=Wire.CONVERSE, module="converse", variant=_OPENAI_MODELS),
            WireRow(
                wire=Wire.MESSAGES,
                module="bedrock.invoke",
                native_wire=NativeWire.ANTHROPIC_MESSAGES,
                models=_CLAUDE,
            ),
            WireRow(wire=Wire.CHAT, module="bedrock.openai", provider="CHAT", models=_BEDROCK_CHAT),
            WireRow(
                wire=Wire.RESPONSES,
                module="bedrock.openai",
                provider="RESPONSES",
                native_wire=NativeWire.OPENAI_RESPONSES,
                models=_BEDROCK_RESPONSES,
            ),
        ),
        embeddings="bedrock.embedding",
    ),
    "bedrock-mantle": Family(
        module="bedrock.openai",
        base_url="https://bedrock-mantle.REGION.api.aws",
        settings=("region", "aws"),
        endings=_BEDROCK_ENDINGS,
        prices="aws",
        wires=(
            WireRow(wire=Wire.CHAT, module="bedrock.openai", provider="MANTLE_CHAT"),
            WireRow(
                wire=Wire.RESPONSES,
                module="bedrock.openai",
                provider="MANTLE_RESPONSES",
                native_wire=NativeWire.OPENAI_RESPONSES,
                models=_BEDROCK_RESPONSES,
            ),
            WireRow(
                wire=Wire.MESSAGES,
                module="bedrock.mantle",
                native_wire=NativeWire.ANTHROPIC_MESSAGES,
                models=_CLAUDE,
            ),
        ),
    ),
    "gemini": Family(
        module="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        settings=("project", "location"),
        prices="google",
    ),
    "vertex": Family(
        module="vertex.gemini",
        base_url="https://LOCATION-aiplatform.googleapis.com/v1",
        settings=("project", "location", "google"),
        prices="google",
        wires=(
            WireRow(wire=Wire.GEMINI, module="vertex.gemini"),
            WireRow(
                wire=Wire.MESSAGES,
                module="vertex.messages",
                native_wire=NativeWire.ANTHROPIC_MESSAGES,
                models=r"^(publishers/anthropic/models/|anthropic/)?claude-",
            ),
            WireRow(wire=Wire.CHAT, module="vertex.chat", models=r"^(?!publishers/|models/)[^/]+/"),
        ),
    ),
}


_OTHER_WIRES = {f"{kind}-{row.wire}": row for kind, family in FAMILIES.items() for row in family.wires[1:]}
"""By the names of the providers."""
_FIRST_WIRES = {kind: family.wires[0] for kind, family in FAMILIES.items() if family.wires}
_VARIANTS = {
    f"{name}-{row.variant.suffix}": row
    for name, row in (_FIRST_WIRES | _OTHER_WIRES).items()
    if row.variant is not None
}
"""The wires that have one, by the name of the variant's provider."""


def provider_names() -> list[str]:
    return sorted([*FAMILIES, *import_module("streamweir.providers.compatible").VENDORS])


def provider_named(name: str) -> Provider:
    """The provider of this name; `KeyError` if there is none. `KIND-WIRE` is a kind on another wire than its first."""
    row = _OTHER_WIRES.get(name) or _FIRST_WIRES.get(name) or _VARIANTS.get(name)
    if row is not None:
        of_some = row.variant if name in _VARIANTS else None
        member = row.provider if of_some is None else of_some.provider
        cloud: Provider = getattr(import_module(f"streamweir.providers.{row.module}"), member)
        return cloud
    if name.endswith(_RESPONSES):
        second: Provider = import_module("streamweir.providers.responses").provider_of(
            vendor_of(name.removesuffix(_RESPONSES))
        )
        return second
    prefix, _, rest = name.partition("/")
    if rest:
        return _OTHERS[prefix](rest)
    family = FAMILIES.get(name)
    if family is not None:
        provider: Provider = import_module(f"streamweir.providers.{family.module}").PROVIDER
        return provider
    compatible = import_module("streamweir.providers.compatible")
    vendor: Provider = compatible.provider_of(compatible.VENDORS[name])
    return vendor


def wires_of(kind: str) -> tuple[Wire, ...]:
    """The first is the default."""
    family = FAMILIES.get(kind)
    if family is not None and family.wires:
        return tuple(row.wire for row in family.wires)
    return (Wire.CHAT, Wire.RESPONSES) if has_responses(kind) else (Wire.CHAT,)


@lru_cache(maxsize=4096)
def wire_for(kind: str, model: str) -> Wire:
    """The wire on which this provider is known to serve the model."""
    family = FAMILIES.get(kind)
    for row in family.wires if family is not None else ():
        if row.models is not None and re.search(row.models, model) is not None:
            return row.wire
    return Wire.RESPONSES if is_responses_only(kind, model) else wires_of(kind)[0]


def name_on(kind: str, wire: Wire) -> str:
    """The name of the provider on one of its wires, for `provider_named` and `native_wire`."""
    return kind if wire is wires_of(kind)[0] else f"{kind}-{wire}"


def variant_of(name: str) -> tuple[re.Pattern[str], str] | None:
    """Of a provider: which models have another one, and its name."""
    row = _OTHER_WIRES.get(name) or _FIRST_WIRES.get(name)
    if row is None or row.variant is None:
        return None
    return re.compile(row.variant.models), f"{name}-{row.variant.suffix}"


def has_responses(name: str) -> bool:
    return name in _with_responses()


@lru_cache(maxsize=4096)
def is_responses_only(name: str, model: str) -> bool:
    """Whether this provider is known to serve the model on the Responses wire alone."""
    wire = vendor_of(name).responses if name in _with_responses() else None
    return wire is not None and bool(wire.only) and re.search(wire.only, model) is not None


@cache
def _with_responses() -> frozenset[str]:
    rows = import_module("streamweir.providers.compatible").VENDORS.values()
    return frozenset([row.name for row in rows if row.responses is not None] + ["azure"])


def vendor_of(name: str) -> "Vendor":
    """The row of a kind that speaks OpenAI's wires."""
    rows: dict[str, Vendor] = import_module("streamweir.providers.compatible").VENDORS
    if name in _FIRST_WIRES:
        cloud: Vendor = getattr(provider_named(name_on(name, Wire.CHAT)), "vendor")  # noqa: B009 (not of all)
        return cloud
    azure: Vendor | None = import_module("streamweir.providers.azure.chat").VENDOR if name == "azure" else None
    return azure or rows[name]


def embedding_service(name: str) -> EmbeddingService | None:
    """None: this provider has no embeddings."""
    service: EmbeddingService | None
    family = FAMILIES.get(name)
    if family is not None:
        module = family.embeddings or family.module
        service = getattr(import_module(f"streamweir.providers.{module}"), "EMBEDDINGS", None)
    else:
        compatible = import_module("streamweir.providers.compatible")
        service = compatible.embeddings_of(compatible.VENDORS[name])
    return service


@lru_cache(maxsize=4096)
def has_text(name: str, model: str, prompts: int = 1) -> bool:
    """Whether this provider serves the model, and so many prompts, on the path of legacy text completions."""
    if name in FAMILIES and name != "azure":
        return False
    vendor = vendor_of(name)
    if not vendor.completions or (prompts > 1 and not vendor.takes_prompt_lists):
        return False
    return re.search(vendor.completions, model) is not None


def text_provider(name: str) -> Provider:
    """Of legacy text completions."""
    if name == "azure":
        azure: Provider = import_module("streamweir.providers.azure.chat").TEXT
        return azure
    vendor: Provider = import_module("streamweir.providers.compatible").text_provider_of(vendor_of(name))
    return vendor


def _prompts_provider(name: str) -> Provider:
    prompts, choices, inner = name.split("/", 2)
    return PromptsProvider(provider_named(inner), int(prompts), int(choices))


def _embedding_provider(name: str) -> Provider:
    kind, dimensions, per_call = name.split("/")
    service = embedding_service(kind)
    if service is None:
        raise KeyError(name)
    return EmbeddingProvider(service, int(dimensions) or None, int(per_call))


def native_wire(name: str) -> NativeWire | None:
    """The streaming format that this provider writes exactly, so that its frames can be passed on unchanged."""
    other = _OTHER_WIRES.get(name) or _VARIANTS.get(name)
    if other is not None:
        return other.native_wire
    if name.endswith(_RESPONSES):
        return NativeWire.OPENAI_RESPONSES
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


_OTHERS: dict[str, Callable[[str], Provider]] = {
    "embeddings": _embedding_provider,
    "prompts": _prompts_provider,
    "text": text_provider,
}
"""Providers of other APIs, by the first part of their names."""
