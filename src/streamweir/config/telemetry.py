"""The settings for an OpenTelemetry collector: a type of `config.model`, which explains the rules of such types."""

from typing import Annotated, Literal

from msgspec import Meta, field

from streamweir.config.secret_text import SecretText, SecretUrl, WithSecrets
from streamweir.policy.trace_context import Callers


class Telemetry(WithSecrets, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traces and metrics for an OpenTelemetry collector."""

    secrets = ("headers", "proxy")

    endpoint: str | None = None
    headers: dict[str, SecretText] = field(default_factory=dict)
    traces: bool = True
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    callers: Callers = "join"
    send_traceparent: bool = True
    content: bool = False
    costs: bool = False
    metrics: bool = True
    metrics_interval_s: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    service_name: Annotated[str, Meta(min_length=1, max_length=64)] = "streamweir"
    resource: dict[str, str] = field(default_factory=dict)
    compression: Literal["none", "gzip"] = "none"
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 10.0
    proxy: SecretUrl | None = None
    ca_file: str | None = None

    @property
    def has_traces(self) -> bool:
        return self.endpoint is not None and self.traces
