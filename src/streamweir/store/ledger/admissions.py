"""Decisions about money that the database makes: the queue of requests that wait for one, and the decision itself.

A request waits in the queue until the writer takes it into a transaction with others. It waits for a limited time and
may be cancelled at any moment; a reservation that is accepted all the same must be released, or its money would be
reserved for as long as the process lives. After a lost commit it is not known whether it was done: such a reservation
is uncertain, and is looked up when the database is back. A request that continues without the database (its
reservation is put into the journal) is adopted: then nothing is released.

`decide_batch` and what it calls run inside a transaction. Several reservations and extensions are decided at once, in
their order, under the locks of their workspaces, so that a decision is exact even if others decide at the same time.
Only what fits is written. If the same request is decided again, because an answer was lost, the result is the same.
The limit of a workspace is its credit, read from the locked account; the limits of keys and rules come with the
request.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic

from sqlalchemy import Connection, select

from streamweir.policy.limits.budget import workspace_account
from streamweir.policy.limits.limit_request import UNKNOWN, BudgetCharge
from streamweir.store.db.base import StoreUnavailable
from streamweir.store.db.clock import time_limit
from streamweir.store.db.tables import idempotency
from streamweir.store.journal.entries import Extend, Hold
from streamweir.store.ledger import accounts as account
from streamweir.store.ledger.accounts import Sums
from streamweir.store.ledger.posting import IDEMPOTENCY_MS, apply
from streamweir.store.ledger.request_state import find_open, find_posted

MAX_BATCH_DECISIONS = 200
"""Decisions in one transaction."""
UNCERTAIN_S = 10.0
"""After the database has been back for this time, a lost commit is either done or never will be."""
CHECK_INTERVAL_S = 1.0


class PendingDecision:
    __slots__ = ("charges", "entry", "is_started", "result")

    def __init__(self, entry: Hold | Extend, charges: Sequence[BudgetCharge]) -> None:
        self.entry = entry
        self.charges = charges
        self.result: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.is_started = False


class AdmissionQueue:
    """`wake` is called when there is a new decision, `abandon` with an accepted reservation whose caller was
    cancelled."""

    def __init__(self, wake: Callable[[], None], abandon: Callable[[Hold], None]) -> None:
        self._wake = wake
        self._abandon = abandon
        self._waiting: deque[PendingDecision] = deque()
        self._started: list[PendingDecision] = []
        self._cancelled: dict[str, Hold] = {}
        """Reservations whose caller was cancelled while the transaction ran."""
        self._uncertain: dict[str, Hold] = {}
        self._uncertain_until = 0.0
        self._next_check_at = 0.0

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def has_uncertain(self) -> bool:
        return bool(self._uncertain)

    async def decide(self, entry: Hold | Extend, charges: Sequence[BudgetCharge], limit_s: float) -> str | None:
        """The error's code, or None: accepted. After StoreUnavailable nothing is reserved."""
        decision = PendingDecision(entry, charges)
        self._waiting.append(decision)
        self._wake()
        try:
            async with time_limit(limit_s):
                return await decision.result
        except TimeoutError:
            self._cancel(decision)
            raise StoreUnavailable(f"no decision within {limit_s:g} s") from None
        except asyncio.CancelledError:
            self._cancel(decision)
            raise

    def take(self) -> list[PendingDecision]:
        """The next decisions that have a waiter. They are resolved or failed before the next ones are taken."""
        while self._waiting and len(self._started) < MAX_BATCH_DECISIONS:
            decision = self._waiting.popleft()
            if not decision.result.done():
                decision.is_started = True
                self._started.append(decision)
        return self._started

    def resolve(self, decision: PendingDecision, code: str | None) -> None:
        self._started.remove(decision)
        if not decision.result.done():
            decision.result.set_result(code)
        elif code is None:
            self._release(decision.entry)
        else:
            self._cancelled.pop(decision.entry.request_id, None)

    def fail(self, reason: str, *, maybe_committed: bool = False) -> None:
        """The started decisions have failed. `maybe_committed`: their reservations are uncertain."""
        for decision in self._started:
            entry, is_waiting = decision.entry, not decision.result.done()
            if is_waiting:
                decision.result.set_exception(StoreUnavailable(reason))
            was_cancelled = self._cancelled.pop(entry.request_id, None) is not None
            if maybe_committed and isinstance(entry, Hold) and (is_waiting or was_cancelled):
                self._uncertain[entry.request_id] = entry
                self._uncertain_until = 0.0
                self._next_check_at = monotonic() + CHECK_INTERVAL_S
        self._started.clear()

    def fail_one(self, decision: PendingDecision, fault: Exception) -> None:
        """It failed because of its own values: a further attempt would fail too."""
        self._started.remove(decision)
        self._cancelled.pop(decision.entry.request_id, None)
        if not decision.result.done():
            decision.result.set_exception(fault)

    def fail_all(self, reason: str) -> None:
        """The waiting decisions too."""
        self.fail(reason)
        while self.take():
            self.fail(reason)

    def adopt(self, request_id: str) -> None:
        """The reservation is in the journal now. Must be called in the turn in which the decision failed."""
        self._cancelled.pop(request_id, None)
        self._uncertain.pop(request_id, None)

    def uncertain_ids(self) -> list[str]:
        """The uncertain reservations to look up now, in a database that is back. Empty also before the next check."""
        now = monotonic()
        if not self._uncertain or now < self._next_check_at:
            return []
        if not self._uncertain_until:
            self._uncertain_until = now + UNCERTAIN_S
        self._next_check_at = now + CHECK_INTERVAL_S
        return list(self._uncertain)

    def found(self, request_ids: Sequence[str]) -> None:
        """The uncertain reservations that the database has."""
        for request_id in request_ids:
            hold = self._uncertain.pop(request_id, None)
            if hold is not None:
                self._abandon(hold)
        if self._uncertain_until and monotonic() >= self._uncertain_until:
            self._uncertain.clear()

    def _cancel(self, decision: PendingDecision) -> None:
        result = decision.result
        if result.done() and not result.cancelled():
            if result.exception() is None and result.result() is None and isinstance(decision.entry, Hold):
                self._abandon(decision.entry)
        elif decision.is_started and isinstance(decision.entry, Hold):
            self._cancelled[decision.entry.request_id] = decision.entry
        result.cancel()

    def _release(self, entry: Hold | Extend) -> None:
        hold = self._cancelled.pop(entry.request_id, None)
        if hold is not None:
            self._abandon(hold)


def decide_batch(conn: Connection, decisions: Sequence[PendingDecision]) -> list[str | None]:
    """The result of each, in their order. Reservations are decided together, extensions one by one."""
    holds = [(decision.entry, decision.charges) for decision in decisions if isinstance(decision.entry, Hold)]
    codes = iter(decide_holds(conn, holds) if holds else [])
    results: list[str | None] = []
    for decision in decisions:
        if isinstance(decision.entry, Hold):
            results.append(next(codes))
        else:
            results.append(extend_if_fits(conn, decision.entry, decision.charges))
    return results


_IdempotencyRecord = tuple[str, bytes, bool, int]
"""Of an Idempotency-Key: the request, its body's digest, whether it has ended, when the record expires."""


def decide_holds(conn: Connection, holds: Sequence[tuple[Hold, Sequence[BudgetCharge]]]) -> list[str | None]:
    """The error's code for each; None: it is reserved."""
    owners = {
        charge.account: hold.workspace_id for hold, charges in holds for charge in charges if _is_of_key(charge.account)
    }
    owners |= {hold.account: hold.workspace_id for hold, _ in holds if hold.account is not None}
    owners |= {account: hold.workspace_id for hold, _ in holds for account in hold.accounts}
    sums = account.lock(conn, {hold.workspace_id for hold, _ in holds}, owners)
    decided = set(find_posted(conn, [hold.request_id for hold, _ in holds]))
    idempotency_records = _find_idempotency_records(conn, [hold for hold, _ in holds])
    added: dict[str, int] = dict.fromkeys(sums, 0)
    accepted: list[Hold] = []
    codes: list[str | None] = []
    for hold, charges in holds:
        if hold.request_id in decided:
            codes.append(None)
            continue
        code = _idempotency_conflict(hold, idempotency_records) or _refusal(hold.amount, charges, sums, added)
        codes.append(code)
        if code is not None:
            continue
        decided.add(hold.request_id)
        accepted.append(hold)
        added[workspace_account(hold.workspace_id)] += hold.amount
        if hold.account is not None:
            added[hold.account] += hold.amount
        for of_rule in hold.accounts:
            added[of_rule] += hold.amount
        if hold.idempotency is not None:
            idempotency_record = (hold.request_id, hold.body_digest or b"", False, hold.at_ms + IDEMPOTENCY_MS)
            idempotency_records[hold.key_id, hold.idempotency] = idempotency_record
    apply(conn, accepted)
    return codes


def extend_if_fits(conn: Connection, entry: Extend, charges: Sequence[BudgetCharge]) -> str | None:
    """The error's code; None: it is reserved. A request that is not open cannot be extended."""
    found = find_open(conn, [entry.request_id]).get(entry.request_id)
    if found is None:
        return UNKNOWN
    owners = {charge.account: found.workspace_id for charge in charges if _is_of_key(charge.account)}
    sums = account.lock(conn, [found.workspace_id], owners)
    posted = find_posted(conn, [entry.request_id])[entry.request_id]
    if f"extend.{entry.number}" in posted.kinds:
        return None
    if posted.settlement is not None:
        return UNKNOWN
    code = _refusal(entry.amount, charges, sums, {})
    if code is None:
        apply(conn, [entry])
    return code


def _refusal(
    amount: int, charges: Iterable[BudgetCharge], sums: Mapping[str, Sums], added: Mapping[str, int]
) -> str | None:
    for charge in charges:
        account = sums[charge.account]
        limit = charge.limit if _is_of_key(charge.account) else account.granted
        if account.used + added.get(charge.account, 0) + amount > limit:
            return charge.code
    return None


def _idempotency_conflict(
    hold: Hold, idempotency_records: Mapping[tuple[str, bytes], _IdempotencyRecord]
) -> str | None:
    if hold.idempotency is None:
        return None
    idempotency_record = idempotency_records.get((hold.key_id, hold.idempotency))
    if idempotency_record is None:
        return None
    request_id, body_digest, is_over, until_ms = idempotency_record
    if until_ms <= hold.at_ms or request_id == hold.request_id:
        return None
    if body_digest != (hold.body_digest or b""):
        return "idempotency_key_reused"
    return "idempotency_completed" if is_over else "idempotency_in_progress"


def _find_idempotency_records(conn: Connection, holds: Sequence[Hold]) -> dict[tuple[str, bytes], _IdempotencyRecord]:
    digests = [hold.idempotency for hold in holds if hold.idempotency is not None]
    if not digests:
        return {}
    keys = {hold.key_id for hold in holds if hold.idempotency is not None}
    columns = idempotency.c
    statement = select(
        columns.key_id, columns.digest, columns.request_id, columns.body_digest, columns.is_over, columns.until_ms
    ).where(columns.key_id.in_(sorted(keys)), columns.digest.in_(digests))
    return {
        (key_id, digest): (request_id, body_digest, is_over, until_ms)
        for key_id, digest, request_id, body_digest, is_over, until_ms in conn.execute(statement)
    }


def _is_of_key(account_id: str) -> bool:
    return not account_id.startswith("ws:")
