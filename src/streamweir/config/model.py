"""The types of the configuration, against which a file is validated.

The names of the fields are the keys of the TOML file, their types and defaults are what
docs/configuration.md lists (a test compares the two). A `Config` is a value: it can be compared,
and its printed form contains no secret. Checks of several fields are in `config.check`.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, field, structs

from streamweir.config.cloud import AwsAuth, EntraAuth, GoogleAuth
from streamweir.config.oidc import Oidc
from streamweir.config.secret_text import Secret as Secret
from streamweir.config.secret_text import SecretText, SecretUrl, WithSecrets
from streamweir.config.telemetry import Telemetry
from streamweir.policy.alert import Group
from streamweir.policy.end_user import EndUserRule
from streamweir.policy.limits.key_limits import KeyLimits, PerMinute, Streams, with_limits
from streamweir.policy.limits.limit_rule import Anonymous, Per
from streamweir.policy.pricing.charge_rule import DEFAULT_RULES, ChargeRules
from streamweir.policy.routing.route import Strategy

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
SecondsOrNone = Annotated[float, Meta(ge=0, le=86_400)]
"""0 disables the timeout."""
Bytes = Annotated[int, Meta(ge=1024, le=2**30)]
Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
Percent = Annotated[float, Meta(ge=-100, le=100_000)]
BudgetPercent = Annotated[int, Meta(ge=1, le=100)]
Name = Annotated[str, Meta(min_length=1, max_length=64)]
Wire = Literal["chat", "responses", "messages", "converse", "gemini"]
Weight = Annotated[int, Meta(ge=1, le=1_000_000)]
Retries = Annotated[int, Meta(ge=0, le=20)]
Failures = Annotated[int, Meta(ge=0, le=1_000_000)]
Attempts = Annotated[int, Meta(ge=1, le=20)]


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    connect_s: Seconds = 5.0
    first_event_s: Seconds = 120.0
    idle_s: Seconds = 60.0
    assembly_s: Seconds = 30.0
    total_s: Seconds = 600.0
    max_request_s: Seconds | None = None
    commit_s: SecondsOrNone = 10.0
    keepalive_s: Seconds = 15.0
    write_stall_s: Seconds = 30.0
    lame_duck_s: SecondsOrNone = 5.0
    drain_s: SecondsOrNone = 600.0
    header_s: Seconds = 10.0
    body_s: Seconds = 30.0
    keep_s: Seconds = 75.0
    silence_s: SecondsOrNone = 2.0
    abandoned_s: SecondsOrNone = 30.0


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    header_bytes: Bytes = 32_768
    header_fields: Annotated[int, Meta(ge=8, le=10_000)] = 100
    body_bytes: Bytes = 8_388_608
    body_memory_bytes: Annotated[int, Meta(ge=2**20, le=2**50)] | None = None
    response_bytes: Bytes = 67_108_864
    abandoned: Annotated[int, Meta(ge=0, le=100_000)] = 64
    connections: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    memory_bytes: Annotated[int, Meta(ge=2**26, le=2**50)] | None = None
    lag_s: Seconds = 1.0
    turn_s: Seconds = 0.03


class Tls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cert_file: str
    key_file: str


class Log(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["auto", "text", "json"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Cors(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    origins: tuple[str, ...]


class Server(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    listen: str = "127.0.0.1:8080"
    health_listen: str | None = None
    node: Name | None = None
    dialect: str = "openai"
    default_model: str | None = None
    timeouts: Timeouts = Timeouts()
    limits: Limits = Limits()
    tls: Tls | None = None
    trusted_proxies: tuple[str, ...] = ()
    metrics_local: bool = False
    metrics_public: bool = False
    log: Log = Log()
    cors: Cors | None = None


class Store(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secrets = ("url",)

    url: SecretUrl = "sqlite:///streamweir.db"
    retention_days: Annotated[float, Meta(gt=0, le=36_500)] = 30.0
    hold_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] = 1024
    budget_wait_s: Annotated[float, Meta(ge=0, le=600)] = 30.0
    anomaly_tokens: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 10_000_000
    answer_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] = 4096
    remote_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] = 131_072
    prompt_bytes_per_token: Annotated[int, Meta(ge=1, le=4)] = 1
    outbox_bytes: Annotated[int, Meta(ge=2**20, le=2**40)] = 67_108_864
    redact: tuple[str, ...] = ()
    end_user: EndUserRule = "plain"

    @property
    def is_none(self) -> bool:
        """There is no accounting."""
        return self.url == "none"


class Shared(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secrets = ("url",)

    url: SecretUrl


class ProviderTimeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Override the server's timeouts."""

    connect_s: Seconds | None = None
    first_event_s: Seconds | None = None
    idle_s: Seconds | None = None
    assembly_s: Seconds | None = None
    total_s: Seconds | None = None
    commit_s: SecondsOrNone | None = None
    keepalive_s: Seconds | None = None
    silence_s: SecondsOrNone | None = None
    abandoned_s: SecondsOrNone | None = None


class _CredentialNames(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secrets = ("key",)

    name: Name | None = None
    key: SecretText | None = None
    file: str | None = None
    weight: Weight = 1
    discount_percent: Annotated[float, Meta(ge=0, le=100)] = 0.0


if TYPE_CHECKING:

    class _CredentialAndLimits(_CredentialNames, KeyLimits, frozen=True): ...

else:
    _CredentialAndLimits = with_limits(_CredentialNames)


class Credential(_CredentialAndLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of a provider's `api_keys`. After loading it has a name, and `key` also if it comes from `file`."""


class Provider(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secrets = ("api_key", "proxy", "headers")

    name: Name
    kind: str
    base_url: str | None = None
    api_key: SecretText = ""
    api_key_file: str | None = None
    api_keys: Annotated[tuple[Credential, ...], Meta(extra={"secret": True})] = ()
    api_version: str | None = None
    project: str | None = None
    location: str | None = None
    region: str | None = None
    aws: AwsAuth | None = None
    google: GoogleAuth | None = None
    entra: EntraAuth | None = None
    proxy: SecretUrl | None = None
    ca_file: str | None = None
    headers: dict[str, SecretText] = field(default_factory=dict)
    max_connections: Annotated[int, Meta(ge=1, le=65_535)] = 1000
    timeouts: ProviderTimeouts = ProviderTimeouts()
    cancel_stops_billing: bool | None = None
    send_traceparent: bool | None = None
    models: tuple[str, ...] = ()
    list_models: bool | None = None
    wire: Wire | None = None
    retries: Retries = 2
    max_failures: Failures = 5
    ejection_s: SecondsOrNone = 30.0
    cooldown_s: SecondsOrNone = 1.0
    defaults: dict[str, Any] = field(default_factory=dict)
    override: dict[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    rpm: PerMinute | None = None
    tpm: PerMinute | None = None
    max_streams: Streams | None = None
    stream_whole: bool | None = None

    @property
    def credentials(self) -> tuple[Credential, ...]:
        """Its `api_keys`, or its one key. Never empty. If there is only one, its name is empty."""
        if len(self.api_keys) > 1:
            return self.api_keys
        return tuple(structs.replace(each, name="") for each in self.api_keys) or (
            Credential(name="", key=self.api_key),
        )


class PriceParts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What providers charge for, in US dollars per million tokens, and for each request and search."""

    input: Dollars | None = None
    output: Dollars | None = None
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None
    audio_input: Dollars | None = None
    audio_output: Dollars | None = None
    image_input: Dollars | None = None
    image_output: Dollars | None = None
    reasoning: Dollars | None = None
    per_request: Dollars | None = None
    per_search: Dollars | None = None


class PriceTier(PriceParts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs from a price for requests whose prompt has more tokens than `above`."""

    above: Annotated[int, Meta(ge=1, le=1_000_000_000)]


class ServiceTier(PriceParts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What differs from a price in a service tier of the provider."""

    name: Name
    tiers: tuple[PriceTier, ...] = ()


class Price(PriceParts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: Dollars
    output: Dollars
    tiers: tuple[PriceTier, ...] = ()
    service_tiers: tuple[ServiceTier, ...] = ()


class Target(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it sets besides `stage` and `weight` overrides its provider's setting, whatever name it is asked for by."""

    secrets = ("proxy", "headers")

    provider: str
    model: str
    weight: Weight = 1
    stage: Annotated[int, Meta(ge=1, le=100)] = 1
    cost: Price | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    wire: Wire | None = None
    base_url: str | None = None
    proxy: SecretUrl | None = None
    headers: dict[str, SecretText] = field(default_factory=dict)
    timeouts: ProviderTimeouts = ProviderTimeouts()
    retries: Retries | None = None
    max_failures: Failures | None = None
    ejection_s: SecondsOrNone | None = None
    cooldown_s: SecondsOrNone | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    override: dict[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    rpm: PerMinute | None = None
    tpm: PerMinute | None = None
    max_streams: Streams | None = None
    stream_whole: bool | None = None


class DatedPrice(Price, frozen=True, kw_only=True, forbid_unknown_fields=True):
    starts: datetime | None = field(default=None, name="from")


class GroupPrice(DatedPrice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one model: a price, or a markup on its cost."""

    model: str
    input: Dollars | None = None  # type: ignore[assignment]
    output: Dollars | None = None  # type: ignore[assignment]
    markup_percent: Percent | None = None


class PriceGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    markup_percent: Percent | None = None
    prices: tuple[GroupPrice, ...] = ()
    charge: ChargeRules = DEFAULT_RULES


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    targets: tuple[Target, ...]
    strategy: Strategy = "priority"
    affinity: bool = True
    fallbacks: tuple[str, ...] = ()
    context_fallbacks: tuple[str, ...] = ()
    content_filter_fallbacks: tuple[str, ...] = ()
    max_attempts: Attempts | None = None
    price: Annotated[tuple[DatedPrice, ...], Meta(extra={"or_one": True})] = ()


class _KeyNames(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secrets = ("key",)

    name: Name
    key: SecretText
    dialect: str | None = None
    models: tuple[str, ...] | None = None
    scopes: tuple[Literal["chat", "models", "admin", "metrics"], ...] = ("chat", "models")
    expires: datetime | None = None


if TYPE_CHECKING:

    class _NamesAndLimits(_KeyNames, KeyLimits, frozen=True): ...

else:
    _NamesAndLimits = with_limits(_KeyNames)


class Key(_NamesAndLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    budget_usd: Annotated[float, Meta(ge=0, le=1_000_000_000)] | None = None
    budget_period: Literal["day", "week", "month", "total"] | None = None
    workspace: Name | None = None
    log_content: bool = False
    show_routing: bool = False
    show_cost: bool = False
    resumable: bool = False
    price_group: Name | None = None


class LimitRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit of what may be spent, for each end user, key or workspace that it applies to."""

    name: Name
    per: Per
    budget_usd: Annotated[float, Meta(ge=0, le=1_000_000_000)]
    budget_period: Literal["day", "week", "month", "total"] = "total"
    workspace: Name | None = None
    key: Name | None = None
    anonymous: Anonymous | None = None
    alert_percent: tuple[BudgetPercent, ...] | None = None


class Routing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_attempts: Attempts = 3
    affinity_s: SecondsOrNone = 600.0


class Webhook(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Its URL may contain a token, as those of chat services do."""

    secrets = ("url", "secret", "old_secret", "proxy")

    name: Name
    url: SecretUrl
    secret: SecretText
    old_secret: SecretText | None = None
    workspace: Name | None = None
    events: tuple[Group, ...] = ()
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 10.0
    proxy: SecretUrl | None = None
    ca_file: str | None = None


class Alerts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    budget_percent: tuple[BudgetPercent, ...] = (50, 80, 100)
    credit_low_usd: Dollars = 5.0
    provider_down_s: Seconds = 30.0
    error_percent: Annotated[float, Meta(ge=0, le=100)] = 20.0
    error_requests: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
    error_minutes: Annotated[int, Meta(ge=1, le=1440)] = 5
    ledger_behind_s: SecondsOrNone = 30.0


class Payments(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secrets = ("webhook_secret", "secret_key")

    provider: Literal["stripe"] = "stripe"
    webhook_secret: SecretText
    tolerance_s: Annotated[float, Meta(ge=1, le=3600)] = 300.0
    secret_key: SecretText | None = None
    success_url: str | None = None
    cancel_url: str | None = None
    api_url: str = "https://api.stripe.com"
    min_usd: Annotated[float, Meta(ge=0.01, le=1_000_000)] = 1.0
    max_usd: Annotated[float, Meta(ge=0.01, le=1_000_000)] = 10_000.0


class ResumableStreams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    grace_s: SecondsOrNone = 60.0
    keep_s: SecondsOrNone = 300.0
    max_bytes: Annotated[int, Meta(ge=2**16, le=2**40)] = 16_777_216
    total_bytes: Annotated[int, Meta(ge=2**16, le=2**50)] = 268_435_456
    max_per_key: Annotated[int, Meta(ge=1, le=1_000_000)] = 64


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    server: Server = Server()
    store: Store = Store()
    shared: Shared | None = None
    routing: Routing = Routing()
    payments: Payments | None = None
    oidc: Oidc | None = None
    providers: tuple[Provider, ...] = ()
    models: tuple[Model, ...] = ()
    price_groups: tuple[PriceGroup, ...] = ()
    keys: tuple[Key, ...] = ()
    streams: ResumableStreams = ResumableStreams()
    alerts: Alerts = Alerts()
    webhooks: tuple[Webhook, ...] = ()
    telemetry: Telemetry = Telemetry()
    limits: tuple[LimitRule, ...] = ()
