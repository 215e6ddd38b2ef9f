"""The interface of a limiter, which decides whether a request fits its limits, and the limiter of a single process.

One process on SQLite decides by itself, in memory: nobody else spends the same money. Everywhere
else it takes Valkey and the database (`server.accounting.shared_limiter`). Whatever was reserved is given back
by `settle` or `release`, exactly once, however the request ends. Moments here are seconds of a clock
that does not jump.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from streamweir.core.errors import GatewayFault
from streamweir.policy.access import Key
from streamweir.policy.limit_request import BudgetCharge, Decision, LimitRequest
from streamweir.policy.limits import LocalLimits
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.journal.entries import Extend, Hold
from streamweir.store.journal.handle import WriteHandle
from streamweir.store.ledger.accounts import used_of
from streamweir.store.ledger.writer import DECISION_S, Writer


class LimitDecision(Struct, frozen=True, kw_only=True):
    decision: Decision
    is_recorded: bool = False
    """The hold is in the database, or in the journal already."""
    handle: WriteHandle | None = None
    """Of the journal, where it is there."""
    code: str | None = None
    """Why it was refused after all, by the database."""


class Limiter(Protocol):
    is_degraded: bool
    """The shared counters are unavailable at the moment."""

    def reserve_at_once(self, request: LimitRequest, hold: Hold) -> Decision | None:
        """As `reserve`, where nobody need be waited for and the hold is not booked. None: somebody must be, and
        nothing is reserved."""
        ...

    def begin(self, account: str) -> None:
        """Of a period that has only begun: this process knows that nothing is spent in it yet."""
        ...

    async def reserve(self, request: LimitRequest, hold: Hold) -> LimitDecision:
        """Raises `GatewayFault` where nobody can tell. What is refused holds nothing. Must not be cancelled."""
        ...

    async def remaining(self, charges: Sequence[BudgetCharge], *, exactly: bool = False) -> int | None:
        """How much of the smallest account is neither spent nor held, as far as is known: below 0 where it is
        overspent. None: that is not known now. `exactly`: by whoever has the last word. Raises `GatewayFault` where
        nothing could be reserved either."""
        ...

    async def extend(self, entry: Extend, request: LimitRequest) -> bool:
        """Whether more may be held; where it may, it is, and booked where the database decided."""
        ...

    def settle(self, request_id: str, tokens: int, cost: int) -> None: ...

    def release(self, request_id: str) -> None:
        """The request was not made, and does not count."""
        ...

    def check_rate(self, key: Key) -> Decision | None:
        """Why any request of the key would be refused now, whatever its size. None: none, or that is not known here."""
        ...

    def renew(self, request_ids: Iterable[str]) -> None: ...

    def beat(self) -> None:
        """Once a second: the heartbeat of this process."""
        ...

    def instance_ended(self, instance: str) -> None:
        """Another process is dead: its reservations are released."""
        ...

    async def correct(self) -> None:
        """From time to time. Raises `StoreUnavailable`."""
        ...

    async def close(self) -> None: ...


class MemoryLimiter:
    """For a single process. Without a store (None) there are no budgets."""

    is_degraded = False

    def __init__(self, store: Store | None, writer: Writer | None, decision_s: float = DECISION_S) -> None:
        self._store = store
        self._writer = writer
        self._decision_s = decision_s
        self._limits = LocalLimits()

    def reserve_at_once(self, request: LimitRequest, hold: Hold) -> Decision | None:
        if hold.idempotency is not None:
            return None
        decision = self._limits.reserve(request, time.monotonic())
        return None if decision.missing else decision

    def begin(self, account: str) -> None:
        self._limits.seed(account, 0)

    async def reserve(self, request: LimitRequest, hold: Hold) -> LimitDecision:
        deadline = time.monotonic() + self._decision_s
        for charge in request.charges:
            if not self._limits.knows(charge.account):
                await self._seed(charge.account, deadline)
        decision = self._limits.reserve(request, time.monotonic())
        if decision.missing:  # forgotten again while another was being seeded
            raise unavailable()
        if decision.refusal is not None or hold.idempotency is None or self._writer is None:
            return LimitDecision(decision=decision)
        try:
            code = await self._writer.decide(hold, (), self._remaining_s(deadline))
        except BaseException as reason:
            self.release(request.request_id)
            if isinstance(reason, StoreUnavailable):
                raise unavailable() from None
            raise
        if code is not None:
            self.release(request.request_id)
        return LimitDecision(decision=decision, is_recorded=True, code=code)

    async def remaining(self, charges: Sequence[BudgetCharge], *, exactly: bool = False) -> int | None:  # noqa: ARG002 (it always is)
        deadline = 0.0
        smallest: int | None = None
        for charge in charges:
            used = self._limits.used(charge.account)
            if used is None:
                deadline = deadline or time.monotonic() + self._decision_s
                await self._seed(charge.account, deadline)
                used = self._limits.used(charge.account)
            if used is not None and (smallest is None or charge.limit - used < smallest):
                smallest = charge.limit - used
        return smallest

    async def extend(self, entry: Extend, request: LimitRequest) -> bool:
        return self._limits.extend(request.request_id, entry.amount, request.charges) is None

    def settle(self, request_id: str, tokens: int, cost: int) -> None:
        self._limits.settle(request_id, tokens, cost, time.monotonic())

    def release(self, request_id: str) -> None:
        self._limits.release(request_id, time.monotonic())

    def check_rate(self, key: Key) -> Decision | None:
        return self._limits.find_refusal(key.id, key, time.monotonic())

    def renew(self, request_ids: Iterable[str]) -> None:
        self._limits.renew(request_ids, time.monotonic())

    def beat(self) -> None:
        return  # nobody else counts

    def instance_ended(self, instance: str) -> None:  # noqa: ARG002
        return  # what it had counted went with it

    async def correct(self) -> None:
        return  # nobody else has counted

    async def close(self) -> None:
        return

    def _remaining_s(self, deadline: float) -> float:
        return remaining_s(deadline, self._decision_s)

    async def _seed(self, account: str, deadline: float) -> None:
        """What it has used, when it is drawn on for the first time: all that is written so far, and nothing else."""
        if self._store is None or self._writer is None:
            raise GatewayFault("ledger_unavailable", 'Budgets need a database, and store.url is "none".')
        try:
            if not await self._writer.flush(self._remaining_s(deadline)):
                raise unavailable()
            used = await self._store.read(lambda conn: used_of(conn, [account]), timeout_s=self._remaining_s(deadline))
        except StoreUnavailable:
            raise unavailable() from None
        if not self._limits.knows(account):  # another request may have been faster
            self._limits.seed(account, used[account])


_MIN_PART = 4


def remaining_s(deadline: float, limit_s: float) -> float:
    """Of a limit that ends with `deadline`. A part of it is always left: the time may have passed while the event loop
    stood still, and then those who are asked have had none of it."""
    return max(limit_s / _MIN_PART, deadline - time.monotonic())


def unavailable() -> GatewayFault:
    return GatewayFault("ledger_unavailable", "Accounting is unavailable at the moment. Try again later.")
