"""Decisions about money that the database makes: the queue of requests that wait for one, and the decision itself.

A request waits in the queue until the writer takes it into a transaction with others. It waits for a limited time and
may be cancelled at any moment; a reservation that is accepted all the same must be released, or its money would be
reserved for as long as the process lives. After a lost commit nobody knows whether it was done: such a reservation is
in doubt, and is looked for when the database is back. A request that continues without the database (its reservation
is put into the journal) is adopted: then nothing is released.

`decide_batch` and what it calls run inside a transaction. Several reservations and extensions are decided at once, in
their order, under the locks of their workspaces, so that a decision is exact whoever else decides at the same time.
Only what fits is written. Asked again about the same request, because an answer was lost, it gives the same answer.
The limit of a workspace is what it was granted, read from the locked account; the limit of a key comes with the
request.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic

from sqlalchemy import Connection, select

from streamweir.policy.budget import workspace_account
from streamweir.policy.limit_request import UNKNOWN, BudgetCharge
from streamweir.store.db.base import StoreUnavailable
from streamweir.store.db.clock import time_limit
from streamweir.store.db.tables import idempotency
from streamweir.store.journal.entries import Extend, Hold
from streamweir.store.ledger import accounts as account
from streamweir.store.ledger.accounts import Sums
from streamweir.store.ledger.posting import PROMISE_MS, apply, find_open, find_posted

MOST_QUESTIONS = 200
"""Of one transaction."""
DOUBT_S = 10.0
"""So long after the database is back, a lost commit has been done or never will be."""
LOOK_S = 1.0


class PendingDecision:
    __slots__ = ("answer", "charges", "entry", "is_begun")

    def __init__(self, entry: Hold | Extend, charges: Sequence[BudgetCharge]) -> None:
        self.entry = entry
        self.charges = charges
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.is_begun = False


class AdmissionQueue:
    """`wake` is called when there is a new question, `abandon` with an accepted hold that nobody waits for."""

    def __init__(self, wake: Callable[[], None], abandon: Callable[[Hold], None]) -> None:
        self._wake = wake
        self._abandon = abandon
        self._waiting: deque[PendingDecision] = deque()
        self._begun: list[PendingDecision] = []
        self._left: dict[str, Hold] = {}
        """Those who asked have gone while the transaction ran."""
        self._doubts: dict[str, Hold] = {}
        self._doubt_until = 0.0
        self._look_at = 0.0

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting)

    @property
    def has_doubts(self) -> bool:
        return bool(self._doubts)

    async def ask(self, entry: Hold | Extend, charges: Sequence[BudgetCharge], limit_s: float) -> str | None:
        """The error's code, or None: accepted. StoreUnavailable: it is as if nobody had asked."""
        question = PendingDecision(entry, charges)
        self._waiting.append(question)
        self._wake()
        try:
            async with time_limit(limit_s):
                return await question.answer
        except TimeoutError:
            self._leave(question)
            raise StoreUnavailable(f"no decision within {limit_s:g} s") from None
        except asyncio.CancelledError:
            self._leave(question)
            raise

    def take(self) -> list[PendingDecision]:
        """The next that somebody waits for. They are answered or failed before the next are taken."""
        while self._waiting and len(self._begun) < MOST_QUESTIONS:
            question = self._waiting.popleft()
            if not question.answer.done():
                question.is_begun = True
                self._begun.append(question)
        return self._begun

    def answer(self, question: PendingDecision, verdict: str | None) -> None:
        self._begun.remove(question)
        if not question.answer.done():
            question.answer.set_result(verdict)
        elif verdict is None:
            self._release(question.entry)
        else:
            self._left.pop(question.entry.request_id, None)

    def fail(self, reason: str, *, is_unsure: bool = False) -> None:
        """What was begun has failed. Where that is not sure, the holds are in doubt."""
        for question in self._begun:
            entry, is_there = question.entry, not question.answer.done()
            if is_there:
                question.answer.set_exception(StoreUnavailable(reason))
            was_left = self._left.pop(entry.request_id, None) is not None
            if is_unsure and isinstance(entry, Hold) and (is_there or was_left):
                self._doubts[entry.request_id] = entry
                self._doubt_until = 0.0
                self._look_at = monotonic() + LOOK_S
        self._begun.clear()

    def fail_one(self, question: PendingDecision, fault: Exception) -> None:
        """For what it asks: no other try will help it."""
        self._begun.remove(question)
        self._left.pop(question.entry.request_id, None)
        if not question.answer.done():
            question.answer.set_exception(fault)

    def fail_all(self, reason: str) -> None:
        """Those that wait as well."""
        self.fail(reason)
        while self.take():
            self.fail(reason)

    def adopt(self, request_id: str) -> None:
        """The request has its hold in the journal now. Who asked does so in the turn in which asking failed."""
        self._left.pop(request_id, None)
        self._doubts.pop(request_id, None)

    def doubtful_ids(self) -> list[str]:
        """To be looked for now, in a database that is back; empty also where it is not time yet."""
        now = monotonic()
        if not self._doubts or now < self._look_at:
            return []
        if not self._doubt_until:
            self._doubt_until = now + DOUBT_S
        self._look_at = now + LOOK_S
        return list(self._doubts)

    def found(self, request_ids: Sequence[str]) -> None:
        """Those of the doubtful that the database has."""
        for request_id in request_ids:
            hold = self._doubts.pop(request_id, None)
            if hold is not None:
                self._abandon(hold)
        if self._doubt_until and monotonic() >= self._doubt_until:
            self._doubts.clear()

    def _leave(self, question: PendingDecision) -> None:
        answer = question.answer
        if answer.done() and not answer.cancelled():
            if answer.exception() is None and answer.result() is None and isinstance(question.entry, Hold):
                self._abandon(question.entry)
        elif question.is_begun and isinstance(question.entry, Hold):
            self._left[question.entry.request_id] = question.entry
        answer.cancel()

    def _release(self, entry: Hold | Extend) -> None:
        hold = self._left.pop(entry.request_id, None)
        if hold is not None:
            self._abandon(hold)


def decide_batch(conn: Connection, questions: Sequence[PendingDecision]) -> list[str | None]:
    """What the database says of each, in their order. Holds are decided together, extensions one by one."""
    holds = [(question.entry, question.charges) for question in questions if isinstance(question.entry, Hold)]
    said = iter(decide_holds(conn, holds) if holds else [])
    verdicts: list[str | None] = []
    for question in questions:
        if isinstance(question.entry, Hold):
            verdicts.append(next(said))
        else:
            verdicts.append(extend_if_fits(conn, question.entry, question.charges))
    return verdicts


_Promise = tuple[str, bytes, bool, int]
"""Of an Idempotency-Key: the request, its body's digest, whether it is over, until when it is remembered."""


def decide_holds(conn: Connection, holds: Sequence[tuple[Hold, Sequence[BudgetCharge]]]) -> list[str | None]:
    """Of each the error's code; None: it is held."""
    owners = {
        charge.account: hold.workspace_id for hold, charges in holds for charge in charges if _is_of_key(charge.account)
    }
    owners |= {hold.account: hold.workspace_id for hold, _ in holds if hold.account is not None}
    sums = account.lock(conn, {hold.workspace_id for hold, _ in holds}, owners)
    decided = set(find_posted(conn, [hold.request_id for hold, _ in holds]))
    promises = _find_promises(conn, [hold for hold, _ in holds])
    more: dict[str, int] = dict.fromkeys(sums, 0)
    accepted: list[Hold] = []
    codes: list[str | None] = []
    for hold, charges in holds:
        if hold.request_id in decided:
            codes.append(None)
            continue
        code = _objection(hold, promises) or _refusal(hold.amount, charges, sums, more)
        codes.append(code)
        if code is not None:
            continue
        decided.add(hold.request_id)
        accepted.append(hold)
        more[workspace_account(hold.workspace_id)] += hold.amount
        if hold.account is not None:
            more[hold.account] += hold.amount
        if hold.idempotency is not None:
            promise = (hold.request_id, hold.body_digest or b"", False, hold.at_ms + PROMISE_MS)
            promises[hold.key_id, hold.idempotency] = promise
    apply(conn, accepted)
    return codes


def extend_if_fits(conn: Connection, entry: Extend, charges: Sequence[BudgetCharge]) -> str | None:
    """The error's code; None: it is held. For a request that is not open nothing more can be held."""
    found = find_open(conn, [entry.request_id]).get(entry.request_id)
    if found is None:
        return UNKNOWN
    owners = {charge.account: found.workspace_id for charge in charges if _is_of_key(charge.account)}
    sums = account.lock(conn, [found.workspace_id], owners)
    posted = find_posted(conn, [entry.request_id])[entry.request_id]
    if f"extend.{entry.number}" in posted.kinds:
        return None
    if posted.ending is not None:
        return UNKNOWN
    code = _refusal(entry.amount, charges, sums, {})
    if code is None:
        apply(conn, [entry])
    return code


def _refusal(
    amount: int, charges: Iterable[BudgetCharge], sums: Mapping[str, Sums], more: Mapping[str, int]
) -> str | None:
    for charge in charges:
        account = sums[charge.account]
        limit = charge.limit if _is_of_key(charge.account) else account.granted
        if account.used + more.get(charge.account, 0) + amount > limit:
            return charge.code
    return None


def _objection(hold: Hold, promises: Mapping[tuple[str, bytes], _Promise]) -> str | None:
    if hold.idempotency is None:
        return None
    promise = promises.get((hold.key_id, hold.idempotency))
    if promise is None:
        return None
    request_id, body_digest, is_over, until_ms = promise
    if until_ms <= hold.at_ms or request_id == hold.request_id:
        return None
    if body_digest != (hold.body_digest or b""):
        return "idempotency_key_reused"
    return "idempotency_completed" if is_over else "idempotency_in_progress"


def _find_promises(conn: Connection, holds: Sequence[Hold]) -> dict[tuple[str, bytes], _Promise]:
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
