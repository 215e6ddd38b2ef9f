"""Everything that is known about one request at its end: the source of log line, metrics and row of the request log."""

from typing import Any

from msgspec import Struct, field

from streamweir.core.call_trace import CallTrace
from streamweir.core.delivered import DeliveredPart
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.policy.attribution import NOTHING, Attribution
from streamweir.policy.trace_context import RequestTrace
from streamweir.server.telemetry.timeline import Timeline


class AttemptRecord(Struct, kw_only=True, gc=False):
    """One candidate that was tried."""

    target: str
    """`{provider}/{model}`."""
    credential: str = ""
    """The name of the provider's credential. Empty: it has only one."""
    error: str | None = None
    """The code it failed with, before or after the first byte of the answer."""
    start_s: float = 0.0
    """Since the arrival of the request."""
    duration_s: float = 0.0
    resends: int = 0
    status: int = 0
    """The provider's HTTP status. 0: it did not answer."""
    provider_request_id: str | None = None
    provider_code: str | None = None
    """As the provider names its error. All texts of it are scrubbed and bounded."""
    provider_type: str | None = None
    provider_param: str | None = None
    provider_message: str | None = None
    """Not if it may quote the prompt, unless the key stores content (`server.request.attempt.attempt_report`)."""
    advice: str | None = None
    """What to do about the failure, in the gateway's own words, where that is known."""
    trace: CallTrace | None = None
    first_byte_s: float | None = None
    """From the sending of the request to the head of the response."""
    model: str | None = None
    """The model that answered, as the provider names it."""
    members: dict[str, Any] | None = None
    """What `server.telemetry.attempt_members` has made of it, once for the log line and the row."""


class Gaps(Struct, frozen=True, kw_only=True, gc=False):
    """The pieces of an answer, and the time between them."""

    count: int = 0
    p50_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0


class RequestRecord(Struct, kw_only=True, gc=False):
    id: str
    client_id: str | None = None
    """The caller's `x-request-id`, if it is harmless."""
    client_ids: dict[str, str] | None = None
    """Other ids that it sent, of a session or an agent, by header. They are only in the log line."""
    method: str
    path: str
    peer: str = ""
    client: str | None = None
    """The caller's `user-agent`."""
    dialect: str | None = None
    key: str | None = None
    """The name of the key, never the secret."""
    key_id: str | None = None
    workspace_id: str | None = None
    model: str | None = None
    """As requested, or the default model."""
    attribution: Attribution = NOTHING
    """What the caller says about it, as it may be recorded."""
    stream: bool = False
    attempts: list[AttemptRecord] = field(default_factory=list)
    status: int = 0
    """499 if the caller disconnected before there was one."""
    verdict: Verdict | None = None
    error: str | None = None
    """The code of the error."""
    completion_id: str | None = None
    at_ms: int = 0
    """The arrival, in Unix milliseconds."""
    arrived_s: float = 0.0
    """The arrival by the loop's clock, as all following times."""
    admitted_s: float | None = None
    """From its arrival until its reservation was written."""
    ttft_s: float | None = None
    """From the arrival of the request to the first token written."""
    duration_s: float = 0.0
    settled_s: float | None = None
    """From its arrival until it was settled."""
    bytes_in: int = 0
    """The size of the request's body."""
    bytes_out: int = 0
    gaps: Gaps | None = None
    timeline: Timeline | None = None
    """For a stream: when its pieces were sent."""
    resumed: int | None = None
    """How often a reader of a resumable stream came back, or came in addition."""
    reader_gaps: tuple[tuple[float, float | None], ...] = ()
    """When nobody read it, since its arrival. An end of None: nobody came back."""
    reader_gap_count: int = 0
    """`reader_gaps` has the first of them."""
    usage: Usage | None = None
    """Does not change any more once `tokens` was read."""
    known_tokens: tuple[int, int] | None = None
    """See `tokens`."""
    usage_source: UsageSource | None = None
    flags: tuple[str, ...] = ()
    """Anomalies: `usage_anomaly`, `usage_cut`, `missing_done`, `junk_after_done`, `finish_inferred`. Changes of the
    output limit: `max_tokens_set`, `max_tokens_lowered`, `max_tokens_clamped`. `over_reserved`: it is charged more
    than was reserved, on a budget or credit: the provider exceeded its limit. `by_chat`: a text completion was
    answered as a chat completion. `fallback`: the target belongs to a fallback of the requested model.
    `resume_given_up`: a resumable stream whose events could not be kept."""
    held: int | None = None
    cost: int | None = None
    """What the provider asks for it, in nano-dollars. None: nothing was booked, or that is not known."""
    price: int | None = None
    """What it is sold for, and charged. None: nothing was booked, or the model has no price."""
    charge_rule: str | None = None
    """Of a request that went wrong: the case and its rule, such as `caller_left:used`."""
    delivered: DeliveredPart | None = None
    """Of an answer with a reported usage: the part that was sent to the caller, if it may not be all of it."""
    price_version: str | None = None
    rates: str | None = None
    """The rates of the price: `policy.pricing.prices.Rates`, as JSON."""
    cost_rates: str | None = None
    """The rates of the cost, if they are others."""
    service_tier: str | None = None
    """As the provider reported it; after the settlement, else as requested."""
    finish: str | None = None
    parameters: str | None = None
    """Those that were sent: `store.db.request_log.ParametersView`, as JSON."""
    refusal: str | None = None
    """Why the gateway refused it, without asking a provider: `store.db.request_log.RefusalView`, as JSON."""
    dropped: tuple[str, ...] = ()
    """JSON paths that the provider does not support. Callers choose some of these names: sanitize before printing."""
    has_content: bool = False
    trace: RequestTrace | None = None
    """If requests are traced, and the caller has a valid key."""
    has_row: bool = True
    """In the request log of the database. Not for requests of the console, of probes, and for lists of models."""

    @property
    def tokens(self) -> tuple[int, int]:
        """Of the prompt and of the completion: summed up once, for the settlement, the row and the log line."""
        if self.known_tokens is None:
            usage = self.usage
            self.known_tokens = (usage.prompt_tokens, usage.completion_tokens) if usage is not None else (0, 0)
        return self.known_tokens

    @property
    def target(self) -> str | None:
        return self.attempts[-1].target if self.attempts else None

    @property
    def credential(self) -> str:
        """That of the last attempt."""
        return self.attempts[-1].credential if self.attempts else ""
