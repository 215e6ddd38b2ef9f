"""What is known of one request when it is over: the source of its log line and its metrics."""

from msgspec import Struct, field

from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.stages.meter import UsageSource


class Attempt(Struct, kw_only=True):
    """One target that was tried."""

    target: str
    """`{provider}/{model}`."""
    error: str | None = None
    """The code it failed with before the commit."""
    duration_s: float = 0.0
    resends: int = 0


class RequestFacts(Struct, kw_only=True):
    id: str
    client_id: str | None = None
    """What the caller sent as `x-request-id`, where it is harmless."""
    method: str
    path: str
    peer: str = ""
    dialect: str | None = None
    key: str | None = None
    """Its name, never itself."""
    model: str | None = None
    """As asked for."""
    stream: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    status: int = 0
    """499 where the caller left before there was one."""
    verdict: Verdict | None = None
    error: str | None = None
    """The code of what went wrong."""
    completion_id: str | None = None
    ttft_s: float | None = None
    """From the arrival of the request to the first token written."""
    duration_s: float = 0.0
    bytes_out: int = 0
    usage: Usage | None = None
    usage_source: UsageSource | None = None
    finish: str | None = None
    dropped: tuple[str, ...] = ()
    """JSON paths that the provider could not take. Callers choose some of these names: clean before printing."""

    @property
    def target(self) -> str | None:
        return self.attempts[-1].target if self.attempts else None
