"""What is known of one request when it is over: the source of log line, metrics and row of the request log."""

from msgspec import Struct, field

from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.server.telemetry.timeline import Timeline


class AttemptRecord(Struct, kw_only=True, gc=False):
    """One target that was tried."""

    target: str
    """`{provider}/{model}`."""
    error: str | None = None
    """The code it failed with before the commit."""
    start_s: float = 0.0
    """Since the arrival of the request."""
    duration_s: float = 0.0
    resends: int = 0


class Gaps(Struct, frozen=True, kw_only=True, gc=False):
    """The pieces of an answer, and the time between them."""

    count: int = 0
    p50_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0


class RequestRecord(Struct, kw_only=True, gc=False):
    id: str
    client_id: str | None = None
    """What the caller sent as `x-request-id`, where it is harmless."""
    client_ids: dict[str, str] | None = None
    """Other ids that it sent, of a session or an agent, by their headers. They are in the log line alone."""
    method: str
    path: str
    peer: str = ""
    client: str | None = None
    """What it says that it is: its `user-agent`."""
    dialect: str | None = None
    key: str | None = None
    """Its name, never itself."""
    key_id: str | None = None
    workspace_id: str | None = None
    model: str | None = None
    """As asked for, or the one that is meant where none is."""
    stream: bool = False
    attempts: list[AttemptRecord] = field(default_factory=list)
    status: int = 0
    """499 where the caller left before there was one."""
    verdict: Verdict | None = None
    error: str | None = None
    """The code of what went wrong."""
    completion_id: str | None = None
    at_ms: int = 0
    """When it arrived, by the world's clock."""
    arrived_s: float = 0.0
    """The same by the loop's clock, which all that follows is told by."""
    admitted_s: float | None = None
    """From its arrival until the hold for it was written down."""
    ttft_s: float | None = None
    """From the arrival of the request to the first token written."""
    duration_s: float = 0.0
    settled_s: float | None = None
    """From its arrival until it was settled."""
    bytes_in: int = 0
    """Of the request's body."""
    bytes_out: int = 0
    gaps: Gaps | None = None
    timeline: Timeline | None = None
    """Of a stream: when its pieces went out."""
    usage: Usage | None = None
    usage_source: UsageSource | None = None
    flags: tuple[str, ...] = ()
    """What was odd: `usage_anomaly`, `usage_cut`, `missing_done`, `junk_after_done`; what was done to the limit of its
    answer: `max_tokens_set`, `max_tokens_lowered`, `max_tokens_clamped`."""
    held: int | None = None
    cost: int | None = None
    """Nano-dollars. None: nothing was booked, or the model has no price."""
    price_version: str | None = None
    rates: str | None = None
    """What the cost was reckoned by: `policy.prices.Rates`, as JSON."""
    service_tier: str | None = None
    """As the provider reported it; from the settlement on, else as it was asked for."""
    finish: str | None = None
    dropped: tuple[str, ...] = ()
    """JSON paths that the provider could not take. Callers choose some of these names: clean before printing."""
    has_content: bool = False

    @property
    def target(self) -> str | None:
        return self.attempts[-1].target if self.attempts else None
