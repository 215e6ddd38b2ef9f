"""One request in accounting, from its reservation to its settlement.

A reservation is made before the upstream is called and settled once, when the request is over, however it
ended. It keeps the prices of the moment at which it was made; later prices do not change it.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec import Struct

from streamweir.policy.access import Key
from streamweir.policy.attribution import NOTHING, Attribution
from streamweir.policy.limits.limit_request import LimitRequest
from streamweir.policy.limits.reserve import Need
from streamweir.policy.pricing.prices import Quote
from streamweir.policy.routing.health import TargetId
from streamweir.server.accounting.budget_line import Turn
from streamweir.store.journal.entries import Hold
from streamweir.store.journal.handle import WriteHandle
from streamweir.store.ledger.writer import DECISION_S


class ReservationSizes(Protocol):
    """The amount that must be reserved for a request; needed only if its budget is limited."""

    def need(self, hold_tokens: int) -> Need: ...

    def max_answer(self, target: TargetId) -> int | None:
        """The longest answer that is requested from a target if the caller set no limit. None: not known."""
        ...

    async def count(self) -> int | None:
        """A better bound for the prompt, in tokens, which takes longer. None: there is none."""
        ...


class BudgetWait(Struct, frozen=True):
    """How a request waits for money that others hold."""

    begins: Callable[[], None]
    """Called before it waits: it may take long."""
    max_s: float | None
    """The most that it may wait, if that is less than usual."""


class ReservationRequest(Struct, frozen=True):
    """What accounting needs to know about a request before it is sent."""

    request_id: str
    at_ms: int
    key: Key
    dialect: str
    model: str
    stream: bool
    quote: Quote
    quote_text: str
    prompt_tokens: int
    output_tokens: int | None
    """The caller's limit, for all choices together. None: there is none."""
    service_tier: str | None = None
    """As requested: some tiers have their own prices."""
    idempotency: tuple[bytes, bytes] | None = None
    """The digests of its `Idempotency-Key` and of what was asked with it."""
    wait: BudgetWait | None = None
    measure: ReservationSizes | None = None
    """None: its size is the estimate."""
    attribution: Attribution = NOTHING


class AttemptProgress(NamedTuple):
    """The progress of a request."""

    target: str
    """The target that answers."""
    tokens: int
    """The tokens of the answer so far, by the rule of thumb."""
    first_ms: int | None = None
    """When the first token of a stream was sent. None: none was."""
    last_ms: int | None = None
    """When its last piece was sent."""
    readers: tuple[int, int, int | None] | None = None
    """Of a resumable stream: how many read it, how often nobody did, and since when nobody does."""


class Reservation(Struct, eq=False):
    request: ReservationRequest
    hold: Hold
    limit_request: LimitRequest
    held: int
    allowance: int | None
    """How many tokens of answer are reserved. None: no limit."""
    prompt_tokens: int = 0
    """How many tokens of prompt are reserved."""
    limit: int | None = None
    """The output limit for the provider, in tokens per choice, instead of the caller's. None: the caller's own."""
    choices: int = 1
    flags: tuple[str, ...] = ()
    """Changes of the request: `max_tokens_set`, `max_tokens_lowered`."""
    longest: int | None = None
    """The limit of the answer, of all choices together. None: it is reserved whole, or there is no limit on money."""
    bytes_per_token: float = 1.0
    """The fewest in the last answers of its model."""
    reasons: bool = False
    shown_bytes: Callable[[], int] | None = None
    """The size of everything that the caller could see of the answer."""
    rate_tokens: int | None = None
    """How many tokens of answer are counted for `tpm`. None: they need not be counted before the end."""
    turn: Turn | None = None
    """While an extension waits."""
    came_at_once: bool = False
    """More of the answer than was reserved came in one piece with its end: it could not have been cut in time."""
    extensions: int = 0
    step: int | None = None
    """The tokens of the last extension."""
    handle: WriteHandle | None = None
    """None: the hold is in the database, or there is no database."""
    progress: Callable[[], AttemptProgress] | None = None
    """None: no attempt was made yet, or the request is over."""
    written_progress: AttemptProgress | None = None
    """The progress that was last written to the journal."""
    is_settled: bool = False
    decision_s: float = DECISION_S
    """How long its hold may take to be written."""

    @property
    def is_sliced(self) -> bool:
        """Less is reserved than the answer may need: it is extended while it is streamed."""
        return self.longest is not None and self.allowance is not None and self.allowance < self.longest

    @property
    def workspace_id(self) -> str:
        return self.hold.workspace_id

    async def written(self) -> None:
        """Returns when the hold is durable. Raises `JournalUnavailable` if it cannot be written, and `TimeoutError` if
        that is not known: the disk hangs."""
        if self.handle is not None:
            await self.handle.written(self.decision_s)
