"""The interface of a limiter, which decides whether a request fits its limits, and the limiter of a single process.

A single process on SQLite decides in memory, because no other process spends the same money. All other setups need
Valkey and the database (`server.accounting.shared_limiter`). Everything that was reserved is released by `settle` or
`release`, exactly once, however the request ends. Times are seconds of a monotonic clock.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from streamweir.core.errors import GatewayFault
from streamweir.policy.access import Key
from streamweir.policy.limits.limit_request import BudgetCharge, Decision, LimitRequest
from streamweir.policy.limits.limit_rule import is_rule_account
from streamweir.policy.limits.local import LocalLimits
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.journal.entries import Extend, Hold
from streamweir.store.journal.handle import WriteHandle
from streamweir.store.ledger.accounts import used_of
from streamweir.store.ledger.writer import DECISION_S, Writer


class LimitDecision(Struct, frozen=True, kw_only=True):
    decision: Decision
    is_recorded: bool = False
    """The hold is already in the database, or in the journal."""
    handle: WriteHandle | None = None
    """The write handle of the journal, if the hold is there."""
    code: str | None = None
    """Why the database refused it."""


class AccountState(Struct, frozen=True):
    """An account that a request is charged to, at a moment."""

    charge: BudgetCharge
    spent: int
    held: int
    """By running requests, as far as is known."""

    @property
    def free(self) -> int:
        """Negative if it is overspent."""
        return self.charge.limit - self.spent - self.held


class Limiter(Protocol):
    is_degraded: bool
    """The shared counters are unavailable at the moment."""

    def reserve_at_once(self, request: LimitRequest, hold: Hold) -> Decision | None:
        """As `reserve`, if no waiting is necessary and the hold need not be written. None: use `reserve`; nothing is
        reserved."""
        ...

    def begin(self, account: str) -> None:
        """For the account of a period that has just begun: this process knows that nothing was spent in it."""
        ...

    async def reserve(self, request: LimitRequest, hold: Hold) -> LimitDecision:
        """Raises `GatewayFault` if no decision is possible. A refused request holds nothing. Must not be cancelled."""
        ...

    async def remaining(self, charges: Sequence[BudgetCharge], *, exactly: bool = False) -> int | None:
        """How much of the smallest account is neither spent nor held, as far as is known; negative if it is overspent.
        None: not known now. `exactly`: asks the authority, not a cache. Raises `GatewayFault` if nothing could be
        reserved either."""
        ...

    async def states(self, charges: Sequence[BudgetCharge]) -> list[AccountState]:
        """Of the accounts that are known now, by the authority. Raises `GatewayFault`, as `remaining`."""
        ...

    async def recheck(self, charges: Sequence[BudgetCharge]) -> bool:
        """A request is about to be refused although the authority says that it fits: whether the sums that refused it
        were too high, and are right now."""
        ...

    async def extend(self, entry: Extend, request: LimitRequest) -> bool:
        """Whether more may be held. If so, it is held, and recorded if the database decided."""
        ...

    def count_tokens(self, request_id: str, tokens: int) -> None:
        """A running answer has more tokens than were estimated."""
        ...

    def settle(self, request_id: str, tokens: int, cost: int) -> None: ...

    def release(self, request_id: str) -> None:
        """The request was not sent, and does not count."""
        ...

    def rules_changed(self, accounts: Mapping[str, Sequence[str]]) -> None:
        """`accounts`: those of the rules that apply now, for each open request."""
        ...

    def check_rate(self, key: Key) -> Decision | None:
        """Why any request of the key would be refused now, of any size. None: it would not, or that is not known
        here."""
        ...

    async def rates_used(self, key_id: str) -> tuple[int, int, int] | None:
        """The requests and tokens of the last minute, and the streams at the moment. None: not known now."""
        ...

    def renew(self, request_ids: Iterable[str]) -> None: ...

    def send_heartbeat(self) -> None:
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
        for _ in range(_MAX_READS):
            for charge in request.charges:
                if not self._limits.has_account(charge.account):
                    await self._seed(charge.account, deadline)
            decision = self._limits.reserve(request, time.monotonic())
            if not decision.missing:
                break
        else:  # again and again, an account was evicted, or forgotten by a reload, while another one was loaded
            raise unavailable()
        if decision.refusal is not None or hold.idempotency is None or self._writer is None:
            return LimitDecision(decision=decision)
        try:
            code = await self._writer.decide(hold, (), self._remaining_s(deadline))
        except BaseException as reason:  # also when it is cancelled: what was counted is not used
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

    async def states(self, charges: Sequence[BudgetCharge]) -> list[AccountState]:
        states = []
        for charge in charges:
            used, held = self._limits.used(charge.account), self._limits.held(charge.account)
            if used is not None:
                states.append(AccountState(charge, used - held, held))
        return states

    async def recheck(self, charges: Sequence[BudgetCharge]) -> bool:  # noqa: ARG002
        return False  # its sums are the authority

    async def extend(self, entry: Extend, request: LimitRequest) -> bool:
        id, amount = request.request_id, entry.amount
        deadline = time.monotonic() + self._decision_s
        for charge in request.charges:
            if not self._limits.has_account(charge.account):  # a reload has changed the rules
                try:
                    await self._seed(charge.account, deadline)
                except GatewayFault:
                    return False
        return self._limits.extend(id, amount, request.charges, takes_rest=request.takes_rest) is None

    def count_tokens(self, request_id: str, tokens: int) -> None:
        self._limits.count_tokens(request_id, tokens)

    def settle(self, request_id: str, tokens: int, cost: int) -> None:
        self._limits.settle(request_id, tokens, cost, time.monotonic())

    def release(self, request_id: str) -> None:
        self._limits.release(request_id, time.monotonic())

    def rules_changed(self, accounts: Mapping[str, Sequence[str]]) -> None:
        self._limits.recount(is_rule_account, accounts)

    def check_rate(self, key: Key) -> Decision | None:
        return self._limits.find_refusal(key.id, key, time.monotonic())

    async def rates_used(self, key_id: str) -> tuple[int, int, int] | None:
        return self._limits.usage(key_id, time.monotonic())

    def renew(self, request_ids: Iterable[str]) -> None:
        self._limits.renew(request_ids, time.monotonic())

    def send_heartbeat(self) -> None:
        return  # there are no other processes

    def instance_ended(self, instance: str) -> None:  # noqa: ARG002
        return  # its counts were in its own memory

    async def correct(self) -> None:
        return  # no other process has counted

    async def close(self) -> None:
        return

    def _remaining_s(self, deadline: float) -> float:
        return remaining_s(deadline, self._decision_s)

    async def _seed(self, account: str, deadline: float) -> None:
        """Loads the used amount of an account when it is needed first: everything that is written so far."""
        if self._store is None or self._writer is None:
            raise GatewayFault("ledger_unavailable", 'Budgets need a database, and store.url is "none".')
        for _ in range(_MAX_READS):
            missed = self._limits.missed(account)
            try:
                if not await self._writer.flush(self._remaining_s(deadline)):
                    raise unavailable()
                used = await self._store.read(
                    lambda conn: used_of(conn, [account]), timeout_s=self._remaining_s(deadline)
                )
            except StoreUnavailable:
                raise unavailable() from None
            if self._limits.has_account(account):  # another request has loaded it meanwhile
                return
            if self._limits.missed(account) == missed:
                break
        self._limits.seed(account, used[account])


_MAX_READS = 8
"""How often an account is read, while requests that were running before change it."""
_MIN_PART = 4


def remaining_s(deadline: float, limit_s: float) -> float:
    """The remaining time before `deadline`, out of `limit_s`. A part of it always remains: the time may have passed
    while the event loop was blocked, and then the other side has not had any of it."""
    return max(limit_s / _MIN_PART, deadline - time.monotonic())


def unavailable() -> GatewayFault:
    return GatewayFault("ledger_unavailable", "Accounting is unavailable at the moment. Try again later.")
