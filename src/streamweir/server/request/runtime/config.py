"""The configuration as objects: one immutable snapshot for the requests that start under it.

A reload makes a new `RuntimeConfig`; a request keeps the one it started with. Upstreams (with their open connections)
whose address and headers did not change are reused; the others are closed after their last call. The health of
targets and the known refusals survive a reload.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from pathlib import Path

from msgspec import Struct, structs

from streamweir.config.address import BUILT_IN, base_url_of
from streamweir.config.error import ConfigError, member
from streamweir.config.model import Config, Secret, Timeouts
from streamweir.config.model import Provider as ProviderConfig
from streamweir.config.price import own_prices, price_groups, target_costs
from streamweir.config.route import routes_of
from streamweir.config.secret import secrets_for
from streamweir.core.errors import CallerError
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import Frontend
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.body_rules import BodyRules, rules_of
from streamweir.pipeline.meter import Meter
from streamweir.policy.access import KeyRing
from streamweir.policy.attribution import Recorder
from streamweir.policy.limits.key_limits import KeyLimits, limits_in, limits_of
from streamweir.policy.limits.target_limits import TargetLimits
from streamweir.policy.pricing.pricebook import PriceBook
from streamweir.policy.pricing.pricetable import PriceTable
from streamweir.policy.routing.credentials import WeightedName, renaming
from streamweir.policy.routing.health import HealthSettings, TargetId
from streamweir.policy.routing.quota import Quotas
from streamweir.policy.routing.retry import RetryBudget
from streamweir.policy.routing.route import RouteTable
from streamweir.policy.routing.router import Router
from streamweir.policy.routing.target_memory import TargetMemory
from streamweir.policy.trace_context import TracePolicy
from streamweir.providers.advice import UNKNOWN_HOST
from streamweir.providers.base import Target, UpstreamRequest, Wire
from streamweir.providers.compatible import VENDORS, provider_of
from streamweir.providers.embedding import EmbeddingService, provider_for
from streamweir.providers.prompts import PromptsProvider
from streamweir.providers.registry import (
    abort_stops_billing,
    embedding_service,
    has_text,
    name_on,
    native_wire,
    text_provider,
    wires_of,
)
from streamweir.server.request.attribution import recorder_of
from streamweir.server.request.lookup.model_lists import ModelLists
from streamweir.server.request.runtime.authorization import authorizer_for, is_authorized
from streamweir.server.request.runtime.file_keys import key_ring
from streamweir.server.request.runtime.model_limits import ModelLimitsTable, outputs_of
from streamweir.server.request.runtime.route_prices import RoutePrices
from streamweir.server.request.runtime.target_settings import OwnSettings, server_of, settings_of_targets
from streamweir.server.request.runtime.wires import ProviderWire, WireTable, wire_named
from streamweir.server.request.tracing import trace_policy_of
from streamweir.store.prices.file import load_prices
from streamweir.upstream.authorized import AuthorizedUpstream, connections_in
from streamweir.upstream.base import Endpoint, Upstream
from streamweir.upstream.batch import BatchUpstream
from streamweir.upstream.http1 import Http1Upstream
from streamweir.upstream.sim import SimUpstream

_LOCAL = structs.replace(
    VENDORS["llamacpp"],
    # Its template has no tools, and it reports the usage of only one of several choices.
    refuses=frozenset({"function_call", "functions", "n", "parallel_tool_calls", "tool_choice", "tools"}),
    takes_text_only=True,
)
"""The embedded model is a llama.cpp server with one small model."""


class TargetTimeouts(Struct, frozen=True, kw_only=True):
    """The timeouts of one provider or target: the server's, unless it has its own."""

    connect_s: float
    first_event_s: float
    idle_s: float
    assembly_s: float
    total_s: float
    commit_s: float
    keepalive_s: float
    silence_s: float
    abandoned_s: float


class ProviderRuntime(Struct, frozen=True, kw_only=True):
    """A configured provider: its protocol, its address, and what is known about it. Or one of its targets, with the
    settings that this has of its own."""

    name: str
    config: ProviderConfig
    first: ProviderWire
    """The provider on its first wire."""
    wires: Mapping[Wire, ProviderWire]
    """The provider on each of its wires."""
    upstream: Upstream
    target: Target
    """A template: the model and the secret are set for each request."""
    secrets: Mapping[str, str]
    """By the name of the credential. If there is only one, its name is empty (`policy.routing.health.Candidate`)."""
    timeouts: TargetTimeouts
    abort_stops_billing: bool
    embeddings: EmbeddingService | None = None
    health: HealthSettings = HealthSettings()
    rules: BodyRules | None = None
    """What the operator changes in the bodies of requests."""

    def has_text(self, model: str, prompts: int) -> bool:
        """It has the path of legacy text completions for this model, and for so many prompts."""
        return self.config.kind not in ("local", "sim") and has_text(self.config.kind, model, prompts)

    def upstream_for(self, request: UpstreamRequest, meter: Meter) -> Upstream:
        """A request may be several calls. Those that were not made are not billed."""
        if not request.more and request.count_header is None:
            return self.upstream
        return BatchUpstream(self.upstream, self.first.provider.read_error, partial(setattr, meter, "sent_share"))


class RuntimeConfig(Struct, frozen=True, kw_only=True):
    config: Config
    frontend: Frontend
    """The frontend if neither the path nor the key determines it."""
    default_model: str | None
    timeouts: Timeouts
    max_response_bytes: int
    keys: KeyRing
    routes: RouteTable
    router: Router
    budget: RetryBudget
    refusals: TargetMemory
    """Targets that have refused `stream_options`."""
    unstreamed: TargetMemory
    """Targets that have refused to stream."""
    quotes: RoutePrices
    model_limits: ModelLimitsTable
    providers: Mapping[str, ProviderRuntime]
    targets: Mapping[TargetId, ProviderRuntime]
    """Of targets with settings of their own."""
    secrets: Mapping[str, Collection[str]]
    """What the gateway sends to each provider, and must not be seen if the provider quotes it."""
    wires: WireTable
    target_limits: TargetLimits | None
    """None: nothing is limited."""
    attribution: Recorder
    tracing: TracePolicy | None
    """None: requests are not traced."""
    reported_quotas: Quotas | None
    """What providers report of their own limits. None: no request has a choice of candidates."""
    model_lists: ModelLists
    reloaded: asyncio.Event
    """Set when a reload makes another one."""

    def provider_for(self, target: TargetId) -> ProviderRuntime:
        """The target's provider, with the target's own settings."""
        own = self.targets.get(target) if self.targets else None  # most files have none
        return own or self.providers[target.provider]

    def upstreams(self) -> Iterator[tuple[str, Upstream]]:
        """Each once, with the name of its provider."""
        seen: set[int] = set()
        for each in (*self.providers.values(), *self.targets.values()):
            if id(each.upstream) not in seen:
                seen.add(id(each.upstream))
                yield each.name, each.upstream

    def chat_wire(self, target: TargetId, wire: Wire | None = None) -> ProviderWire:
        """On the wire of an attempt that was made, or (None) of the next."""
        found = self.providers[target.provider].wires[wire or self.wires.wire_of(target)]
        variant = found.variant
        return variant.wire if variant is not None and variant.models.search(target.model) is not None else found

    def other_wire(self, target: TargetId, chat: ChatRequest, wire: Wire | None = None) -> ProviderWire:
        """For a request of another API than chat. `refusal_of` must have been asked."""
        provider = self.providers[target.provider]
        if chat.api == "embeddings" and provider.embeddings is not None:
            known = structs.replace(provider.target, model=target.model)
            return ProviderWire(provider_for(provider.embeddings, chat, known), None)
        if provider.has_text(target.model, chat.prompts):
            return ProviderWire(text_provider(provider.config.kind), None)
        asked = self.chat_wire(target, wire).provider
        return ProviderWire(PromptsProvider(asked, chat.prompts, chat.n // chat.prompts), None)

    def refusal_of(self, target: TargetId, chat: ChatRequest) -> CallerError | None:
        """Why the target cannot serve a request of another API than chat."""
        provider = self.providers[target.provider]
        if chat.api == "embeddings" and provider.embeddings is None:
            code = "model_not_found" if provider.config.kind == "local" else "invalid_value"
            message = f"The provider '{provider.name}' has no embeddings. Choose a model that makes them."
            return CallerError(code, message, param="model")
        return self.other_wire(target, chat).provider.refusal_of(chat, target.model)


def build_runtime_config(
    config: Config,
    open_local: Callable[[ProviderConfig], Upstream],
    old: RuntimeConfig | None = None,
    prices: PriceBook | None = None,
) -> RuntimeConfig:
    """`open_local` returns the upstream of the embedded model; its process is managed elsewhere.

    `prices`: if None, the old ones; without old ones, those of the installed version.
    """
    providers = open_providers(config, open_local, old)
    targets = {own.target: _target_runtime(config, own, providers, old) for own in settings_of_targets(config)}
    routes = routes_of(config)
    kinds = {provider.name: provider.kind for provider in config.providers}
    book = prices or (old.quotes.prices if old is not None else built_in_prices())
    if old is not None:
        old.reloaded.set()  # nobody who waits for it goes on before the new one is in use
    return RuntimeConfig(
        config=config,
        frontend=FRONTENDS.by_name[config.server.dialect],
        default_model=config.server.default_model,
        timeouts=config.server.timeouts,
        max_response_bytes=config.server.limits.response_bytes,
        keys=key_ring(config),
        routes=routes,
        router=_make_router(config, routes, providers, targets, old),
        budget=old.budget if old is not None else RetryBudget(),
        refusals=old.refusals if old is not None else TargetMemory(),
        unstreamed=old.unstreamed if old is not None else TargetMemory(),
        quotes=RoutePrices(book, kinds, own_prices(config), price_groups(config), target_costs(config)),
        model_limits=ModelLimitsTable(
            kinds,
            book,
            config.store,
            outputs_of(config),
            lambda target: (targets.get(target) or providers[target.provider]).rules,
        ),
        providers=providers,
        targets=targets,
        secrets={name: tuple(map(Secret, secrets_for(config, name))) for name in providers},
        wires=WireTable(config, old.wires.learned if old is not None else None),
        target_limits=_target_limits(config),
        attribution=recorder_of(config),
        tracing=trace_policy_of(config),
        reported_quotas=_reported_quotas(config, old),
        model_lists=old.model_lists if old is not None else ModelLists(),
        reloaded=asyncio.Event(),
    )


def open_providers(
    config: Config, open_local: Callable[[ProviderConfig], Upstream], old: RuntimeConfig | None
) -> dict[str, ProviderRuntime]:
    """By name. Those that connect as before keep their connections."""
    providers: dict[str, ProviderRuntime] = {}
    for provider in config.providers:
        before = old.providers.get(provider.name) if old is not None else None
        timeouts = _timeouts(config, provider)
        if before is not None and _connects_alike(before, provider, timeouts):
            upstream = before.upstream
        else:
            upstream = _open_upstream(provider, timeouts, open_local, member("providers", provider.name))
        providers[provider.name] = _provider_runtime(provider, timeouts, upstream)
    return providers


def _make_router(
    config: Config,
    routes: RouteTable,
    providers: Mapping[str, ProviderRuntime],
    targets: Mapping[TargetId, ProviderRuntime],
    old: RuntimeConfig | None,
) -> Router:
    """With the health that the old one has observed."""
    scripted = [provider.name for provider in config.providers if provider.kind == "sim"]
    router = Router(
        routes,
        providers.keys(),
        scripted=scripted,
        affinity_s=config.routing.affinity_s,
        settings_of=lambda target: (targets.get(target) or providers[target.provider]).health,
        credentials={
            provider.name: [WeightedName(each.name or "", each.weight) for each in provider.api_keys]
            for provider in config.providers
            if len(provider.api_keys) > 1
        },
    )
    if old is not None:
        secrets = [{name: each.secrets for name, each in known.items()} for known in (old.providers, providers)]
        router.adopt(old.router, _changed(providers, targets, old), renaming(*secrets))
    return router


def _changed(
    providers: Mapping[str, ProviderRuntime], targets: Mapping[TargetId, ProviderRuntime], old: RuntimeConfig
) -> set[str | TargetId]:
    """The providers and targets that are another server than before: nothing is known about their health."""

    def is_other(before: ProviderRuntime | None, now: ProviderRuntime | None) -> bool:
        return before is None or now is None or server_of(before.config) != server_of(now.config)

    changed: set[str | TargetId] = {name for name, now in providers.items() if is_other(old.providers.get(name), now)}
    for target in {*targets, *old.targets}:
        before = old.targets.get(target) or old.providers.get(target.provider)
        if is_other(before, targets.get(target) or providers.get(target.provider)):
            changed.add(target)
    return changed


def _connects_alike(before: ProviderRuntime, provider: ProviderConfig, timeouts: TargetTimeouts) -> bool:
    """The connections of `before` can be used on."""
    if server_of(before.config) != server_of(provider) or is_authorized(before.config) != is_authorized(provider):
        return False
    return before.timeouts.connect_s == timeouts.connect_s


def _target_runtime(
    config: Config, own: OwnSettings, providers: Mapping[str, ProviderRuntime], old: RuntimeConfig | None
) -> ProviderRuntime:
    """With connections of its own, if it connects to another address or in another way than its provider."""
    timeouts, provider = _timeouts(config, own.provider), providers[own.target.provider]
    before = old.targets.get(own.target) if old is not None else None
    if provider.config.kind in BUILT_IN or _connects_alike(provider, own.provider, timeouts):
        upstream = provider.upstream
    elif before is not None and _connects_alike(before, own.provider, timeouts):
        upstream = before.upstream
    else:
        upstream = open_http(own.provider, timeouts, own.where)
    return _provider_runtime(own.provider, timeouts, upstream)


def _timeouts(config: Config, provider: ProviderConfig) -> TargetTimeouts:
    own, server = provider.timeouts, config.server.timeouts
    chosen = {}
    for name in TargetTimeouts.__struct_fields__:
        value = getattr(own, name)
        chosen[name] = value if value is not None else getattr(server, name)
    return TargetTimeouts(**chosen)


def _open_upstream(
    provider: ProviderConfig, timeouts: TargetTimeouts, open_local: Callable[[ProviderConfig], Upstream], where: str
) -> Upstream:
    if provider.kind == "sim":
        return SimUpstream()
    return open_local(provider) if provider.kind == "local" else open_http(provider, timeouts, where)


def open_http(provider: ProviderConfig, timeouts: TargetTimeouts, where: str) -> Upstream:
    """`where`: its place in the file."""
    address = base_url_of(provider)
    assert address is not None  # noqa: S101 (`config.check` guarantees it)
    endpoint = Endpoint(
        base_url=address,
        headers=tuple(provider.headers.items()),
        proxy=provider.proxy,
        ca_file=provider.ca_file,
        max_connections=provider.max_connections,
        connect_s=timeouts.connect_s,
        unknown_host=UNKNOWN_HOST.get(provider.kind, ""),
    )
    try:
        upstream, authorizer = Http1Upstream(endpoint), authorizer_for(provider)
    except ValueError as reason:  # an error that is found only when the upstream is created
        raise ConfigError(where, str(reason)) from None
    return upstream if authorizer is None else AuthorizedUpstream(upstream, authorizer)


def _provider_runtime(provider: ProviderConfig, timeouts: TargetTimeouts, upstream: Upstream) -> ProviderRuntime:
    wire = {"sim": "openai", "local": "llamacpp"}.get(provider.kind, provider.kind)
    if provider.kind == "local":
        wires = {Wire.CHAT: ProviderWire(provider_of(_LOCAL), native_wire(wire))}
    else:
        names = {each: name_on(wire, each) for each in wires_of(provider.kind)}
        wires = {each: wire_named(name) for each, name in names.items()}
    stops = provider.cancel_stops_billing
    return ProviderRuntime(
        name=provider.name,
        config=provider,
        first=next(iter(wires.values())),
        wires=wires,
        upstream=upstream,
        target=Target(
            model="",
            api_version=provider.api_version,
            project=provider.project,
            location=provider.location,
            region=provider.region,
        ),
        secrets={each.name or "": each.key or "" for each in provider.credentials},
        timeouts=timeouts,
        abort_stops_billing=stops if stops is not None else abort_stops_billing(wire),
        embeddings=embedding_service(wire) if provider.kind != "local" else None,
        health=HealthSettings(provider.max_failures, provider.ejection_s, provider.cooldown_s),
        rules=rules_of(provider.drop, provider.defaults, provider.override),
    )


def _target_limits(config: Config) -> TargetLimits | None:
    targets: dict[TargetId, KeyLimits] = {}
    for model in config.models:
        for target in model.targets:
            # Entries of one target do not contradict each other; each may have another of the limits.
            id, own = TargetId(target.provider, target.model), limits_of(limits_in(target))
            before = targets.get(id, KeyLimits())
            targets[id] = structs.replace(before, **{name: limit for name, limit in own.items() if limit is not None})
    limits = TargetLimits(
        targets,
        {provider.name: limits_in(provider) for provider in config.providers},
        {(provider.name, each.name or ""): each for provider in config.providers for each in provider.credentials},
    )
    return limits if limits.all_scopes() else None


def _reported_quotas(config: Config, old: RuntimeConfig | None) -> Quotas | None:
    """What the providers have reported of their own limits, if a request has a choice."""
    has_choice = any(len(model.targets) > 1 or model.fallbacks for model in config.models)
    if not has_choice and all(len(provider.credentials) == 1 for provider in config.providers):
        return None
    known = old.reported_quotas if old is not None else None
    return known if known is not None else Quotas()


@cache
def built_in_prices() -> PriceBook:
    return open_prices(None)


def open_prices(data_dir: Path | None) -> PriceBook:
    """The newer of the installed price list and the one that `streamweir prices update` has stored."""
    return PriceBook(PriceTable(load_prices(data_dir)[0]))


def connections_of(runtime: RuntimeConfig) -> Iterator[tuple[str, int, int]]:
    """For each provider: its name, the connections in use, and the idle ones, with those of its targets."""
    counts: dict[str, tuple[int, int]] = {}
    for name, upstream in runtime.upstreams():
        if (connections := connections_in(upstream)) is not None:
            in_use, idle = counts.get(name, (0, 0))
            counts[name] = in_use + connections.in_use, idle + connections.idle
    yield from ((name, in_use, idle) for name, (in_use, idle) in counts.items())


def close_idle(runtime: RuntimeConfig) -> None:
    for _, upstream in runtime.upstreams():
        if (connections := connections_in(upstream)) is not None:
            connections.close_idle()
