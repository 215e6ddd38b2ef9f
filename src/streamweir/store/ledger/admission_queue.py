"""Requests that wait for the database to decide about their money, and what becomes of a decision nobody hears.

A question waits here until the writer takes it into a transaction with others. Who asks waits for a
limited time and may leave at any moment; a hold that is accepted all the same must be released, or
its money would be held as long as the process lives. Where a commit was lost nobody knows whether it
was done: such a hold is in doubt, and is looked for in the database once that is back. A request that
goes on by other means (its hold is put into the journal) is adopted: then nothing is released. It
runs on the event loop, except `decide_batch`, which is a function of the store.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from sqlalchemy import Connection

from streamweir.policy.claim import BudgetCharge
from streamweir.store.db.deadline import time_limit
from streamweir.store.db.engine import StoreUnavailable
from streamweir.store.journal.entries import Extend, Hold
from streamweir.store.ledger import admission

MOST_QUESTIONS = 200
"""Of one transaction."""
DOUBT_S = 10.0
"""So long after the database is back, a lost commit has been done or never will be."""
LOOK_S = 1.0


class PendingDecision:
    __slots__ = ("answer", "draws", "entry", "is_begun")

    def __init__(self, entry: Hold | Extend, draws: Sequence[BudgetCharge]) -> None:
        self.entry = entry
        self.draws = draws
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

    async def ask(self, entry: Hold | Extend, draws: Sequence[BudgetCharge], limit_s: float) -> str | None:
        """The error's code, or None: accepted. StoreUnavailable: it is as if nobody had asked."""
        question = PendingDecision(entry, draws)
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
    holds = [(question.entry, question.draws) for question in questions if isinstance(question.entry, Hold)]
    said = iter(admission.arbitrate(conn, holds) if holds else [])
    verdicts: list[str | None] = []
    for question in questions:
        if isinstance(question.entry, Hold):
            verdicts.append(next(said))
        else:
            verdicts.append(admission.extend_if_fits(conn, question.entry, question.draws))
    return verdicts
