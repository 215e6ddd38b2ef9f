"""The writer copies the entries of this process into the database: one task, in order, in batches.

`put` writes an entry into the journal and queues it; nobody waits for the database. If the database is slow or
unavailable, entries wait in memory, which is bounded, and in the journal. Requests about whose money the database
decides (`decide`, `extend`) are decided in batches, after everything that was queued before them. `replay` applies
the journals of dead processes. Nothing is logged here: `report` reports what an operator should know.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, StatementError

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.policy.limits.limit_request import BudgetCharge
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.clock import time_limit
from streamweir.store.journal.entries import Entry, Extend, Hold, Settle
from streamweir.store.journal.files import OrphanedJournal
from streamweir.store.journal.handle import Group, JournalUnavailable, State, WriteHandle
from streamweir.store.journal.journal import Journal, ReportEvent
from streamweir.store.ledger import posting
from streamweir.store.ledger.admissions import CHECK_INTERVAL_S, AdmissionQueue, PendingDecision, decide_batch
from streamweir.store.ledger.batch import (
    APPLY_S,
    MAX_BATCH_ENTRIES,
    Batcher,
    Quarantine,
    is_about_rows,
    reason_of,
    retry_s,
)
from streamweir.store.ledger.recovery import SettleDead, replay
from streamweir.store.ledger.request_state import find_open

DECISION_S = 2.0
_JOURNAL_S = 0.5
"""The time within which an entry must be written. If the disk hangs longer, the entries behind it do not wait."""


_Queued = tuple[Entry, WriteHandle]


class Writer:
    """Counters: those of `batcher`, and `refused`. `settle_abandoned` makes the settlement of an unused hold."""

    def __init__(
        self,
        store: Store,
        journal: Journal | None,
        *,
        pause_s: float = 0.2,
        max_entries: int = 100_000,
        decision_s: float = DECISION_S,
        apply_s: float = APPLY_S,
        settle_abandoned: Callable[[Hold], Settle],
        report: ReportEvent = lambda *_: None,
    ) -> None:
        self.is_unavailable = False
        """The last attempt failed."""
        self.refused = 0
        quarantine = None if journal is None else Quarantine(journal.folder)
        self.batcher = Batcher(store, quarantine, report, timeout_s=apply_s)
        self._store = store
        self._journal = journal
        self._pause_s = pause_s
        self._max_entries = max_entries
        self._decision_s = decision_s
        self._settle_abandoned = settle_abandoned
        self._report = report
        self._queue: deque[_Queued] = deque()
        self._batch: list[_Queued] = []
        """The entries that are being applied."""
        self._check_existing = False
        self._must_check = False
        """The database is asked for an empty transaction, although there is no work."""
        self._admission_queue = AdmissionQueue(self._skip_pause, self._abandon)
        self._put_count = self._done_count = 0
        self._flushes: list[tuple[int, asyncio.Future[bool]]] = []
        self._wake = asyncio.Event()
        self._is_idle = False
        """It waits for `_wake`."""
        self._pause_skipped = asyncio.Event()
        self._task: BackgroundTask | None = None
        self._is_closed = False

    def start(self, background: BackgroundTasks | None = None) -> None:
        """`background` restarts the task after a failure and reports it; None: failures are not reported."""
        self._task = (background or BackgroundTasks()).start("writer", self._run)

    @property
    def waiting(self) -> int:
        """Entries that the database does not have yet."""
        return len(self._batch) + len(self._queue)

    @property
    def lag_s(self) -> float:
        """The age of the oldest entry that the database does not have yet."""
        oldest = self._batch[0] if self._batch else self._queue[0] if self._queue else None
        return 0.0 if oldest is None else monotonic() - oldest[1].group.created_at

    def put(self, entry: Entry, *, required: bool = False) -> WriteHandle:
        """Raises JournalUnavailable if the queue or the journal is full, unless the entry is required."""
        if self._is_closed:
            raise JournalUnavailable("accounting is closed")
        if not required and len(self._queue) >= self._max_entries:
            self.refused += 1
            raise JournalUnavailable("too many entries are waiting for the database")
        handle = self._append_to_journal(entry, required)
        if type(entry) is Hold:
            self._admission_queue.adopt(entry.request_id)
        self._queue.append((entry, handle))
        self._put_count += 1
        if self._is_idle:
            self._wake.set()
        return handle

    @property
    def mark(self) -> int:
        """The number of entries that were put so far: see `has_applied`."""
        return self._put_count

    @property
    def has_spare_capacity(self) -> bool:
        """Whether there is capacity for entries that can be left out."""
        return self._journal is None or not self._journal.is_half_full

    def has_applied(self, mark: int) -> bool:
        return self._done_count >= mark

    def abandon(self, hold: Hold) -> None:
        """A reservation was accepted, but its request will not be sent."""
        self._abandon(hold)

    async def decide(self, hold: Hold, charges: Sequence[BudgetCharge], limit_s: float | None = None) -> str | None:
        """Reserves the amount if it fits all charges: None, or the error's code. After StoreUnavailable nothing is
        reserved, unless the reservation is put into the journal in the same turn: so a request continues without the
        database. `limit_s`: the time limit, if it is shorter than usual."""
        return await self._request_decision(hold, charges, limit_s)

    async def extend(self, entry: Extend, charges: Sequence[BudgetCharge]) -> str | None:
        """As `decide`, for an extension of a reservation."""
        return await self._request_decision(entry, charges)

    async def flush(self, timeout_s: float) -> bool:
        """Waits until the database has all entries that were put so far. False: not in time."""
        if self._done_count >= self._put_count:
            return True
        flushed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flushes.append((self._put_count, flushed))
        self._skip_pause()
        try:
            async with time_limit(timeout_s):
                return await flushed
        except TimeoutError:
            self._flushes = [pair for pair in self._flushes if pair[1] is not flushed]
            return False

    def check_database(self) -> None:
        """Something else has not reached the database: finds out whether it is away, although there is no work."""
        if not self.is_unavailable:
            self._must_check = True
            self._wake.set()

    async def close(self, timeout_s: float) -> bool:
        """Accepts no more entries and flushes. False: not in time; the remaining entries are in the journal."""
        if self._task is None:
            return True
        self._is_closed = True
        task, self._task = self._task, None
        task.expect_end()
        is_flushed = await self.flush(0 if task.task is None else timeout_s)
        self._admission_queue.fail_all("accounting is closed")
        await task.stop()
        if not is_flushed:
            self._report("database_behind", {"entries": self.waiting})
        return is_flushed

    async def replay(self, dead: OrphanedJournal, settle_dead: SettleDead | None = None) -> int:
        """Applies and removes the journal of a dead process (`store.ledger.recovery`). The number of its entries."""
        return await replay(dead, self.batcher, self._report, settle_dead)

    def _append_to_journal(self, entry: Entry, required: bool) -> WriteHandle:
        if self._journal is None:
            return WriteHandle(0, Group(0), required)
        try:
            return self._journal.append(entry, required=required)
        except JournalUnavailable:
            if not required:
                raise
            return WriteHandle(
                self._journal.bytes, Group(0), required
            )  # it has failed for good: the database is all there is

    async def _request_decision(
        self, entry: Hold | Extend, charges: Sequence[BudgetCharge], limit_s: float | None = None
    ) -> str | None:
        if self._is_closed or self.is_unavailable:
            raise StoreUnavailable("accounting is closed" if self._is_closed else "the database is away")
        return await self._admission_queue.decide(entry, charges, self._decision_s if limit_s is None else limit_s)

    def _abandon(self, hold: Hold) -> None:
        if not self._is_closed:  # else it is settled as an orphan
            self.put(self._settle_abandoned(hold), required=True)

    def _skip_pause(self) -> None:
        self._pause_skipped.set()
        self._wake.set()

    async def _run(self) -> None:
        """Runs until a bug ends it. Until it is started again, the journal accepts entries, and nothing is decided."""
        self.is_unavailable = False
        try:
            await self._process_forever()
        finally:
            self.is_unavailable = self._check_existing = (
                True  # a transaction that was under way may have been committed
            )
            self._admission_queue.fail("the writer has failed", maybe_committed=True)
            self._admission_queue.fail_all("the writer has failed")
            if self._is_closed:  # it is not started again: ends all waits
                for _, flushed in self._flushes:
                    if not flushed.done():
                        flushed.set_result(False)

    async def _process_forever(self) -> None:
        failures = 0
        while True:
            if not self.is_unavailable:
                await self._wait_for_work()
            try:
                await self._process_next()
            except StoreUnavailable as fault:
                failures += 1
                self._check_existing = self._check_existing or fault.maybe_committed
                self._admission_queue.fail("the database is away", maybe_committed=fault.maybe_committed)
                self._admission_queue.fail_all("the database is away")
                if not self.is_unavailable:
                    self.is_unavailable = True
                    self._report("database_away", {"reason": str(fault)})
                await self._pause(retry_s(failures))
            else:
                failures = 0
                if self.is_unavailable:
                    self.is_unavailable = False
                    self._report("database_back", {"waiting": self.waiting})

    async def _wait_for_work(self) -> None:
        """Waits until there is work, and a little longer, so that batches are larger."""
        if not self.waiting and not self._admission_queue.has_waiting and not self._must_check:
            self._wake.clear()
            self._is_idle = True
            try:
                async with asyncio.timeout(CHECK_INTERVAL_S if self._admission_queue.has_uncertain else None):
                    await self._wake.wait()
            except TimeoutError:
                return
            finally:
                self._is_idle = False
        if self._admission_queue.has_waiting or self._flushes or self.waiting >= MAX_BATCH_ENTRIES:
            return
        await self._pause(self._pause_s)

    async def _pause(self, max_s: float) -> None:
        """`_skip_pause` ends it early."""
        self._pause_skipped.clear()
        try:
            async with asyncio.timeout(max_s):
                await self._pause_skipped.wait()
        except TimeoutError:
            return

    async def _process_next(self) -> None:
        await self._take()
        # Decisions come after all entries that were queued before them.
        decisions = self._admission_queue.take() if not self._queue or len(self._batch) < MAX_BATCH_ENTRIES else []
        if decisions:
            await self._decide(list(decisions))
        elif self._batch:
            await self.batcher.apply(
                [entry for entry, _ in self._batch], self._applied, check_existing=self._check_existing
            )
        elif self.is_unavailable or self._must_check:
            self._must_check = False
            await self._store.write(_empty_transaction, timeout_s=self._decision_s)
        self._check_existing = False
        uncertain = self._admission_queue.uncertain_ids()
        if uncertain:
            self._admission_queue.found(list(await self._store.read(lambda conn: find_open(conn, uncertain))))

    async def _take(self) -> None:
        """Fills the next batch with entries that are in the journal or required, and drops refused ones."""
        waits = True
        while self._queue and len(self._batch) < MAX_BATCH_ENTRIES:
            handle = self._queue[0][1]
            if handle.state is State.PENDING and not handle.required and self._journal is not None:
                if not waits or self._batch:
                    return
                waits = False
                await _until_written(handle)
                continue
            item = self._queue.popleft()
            if handle.state is State.REFUSED:
                self._count(1)
            else:
                self._batch.append(item)

    async def _decide(self, decisions: list[PendingDecision]) -> None:
        entries, check_existing = [entry for entry, _ in self._batch], self._check_existing

        def work(conn: Connection) -> tuple[posting.ApplyResult | None, list[str | None]]:
            posting.lock_for(conn, [*entries, *(decision.entry for decision in decisions)])
            applied = posting.apply(conn, entries, check_existing=check_existing) if entries else None
            return applied, decide_batch(conn, decisions)

        try:
            applied, codes = await self._store.write(work, timeout_s=self._decision_s)
        except (DBAPIError, StatementError, ValueError, OverflowError) as fault:
            if not is_about_rows(fault):
                raise StoreUnavailable(f"the database refuses to work: {reason_of(fault)}") from fault
        else:
            self.batcher.count(len(entries), applied)
            self._applied(len(entries))
            for decision, code in zip(decisions, codes, strict=True):
                self._admission_queue.resolve(decision, code)
            return
        # Something in it cannot be written: first the entries, then each decision alone.
        await self.batcher.apply(entries, self._applied, check_existing=True)
        for decision in decisions:
            await self._decide_alone(decision)

    async def _decide_alone(self, decision: PendingDecision) -> None:
        try:
            (code,) = await self._store.write(lambda conn: decide_batch(conn, [decision]), timeout_s=self._decision_s)
        except (DBAPIError, StatementError, ValueError, OverflowError) as fault:
            if not is_about_rows(fault):
                raise StoreUnavailable(f"the database refuses to work: {reason_of(fault)}") from fault
            self._admission_queue.fail_one(decision, fault)
        else:
            self._admission_queue.resolve(decision, code)

    def _applied(self, count: int) -> None:
        applied, self._batch = self._batch[:count], self._batch[count:]
        if not applied:
            return
        if self._journal is not None:
            self._journal.applied(applied[-1][1].position)
        if self._journal is None or self._journal.is_failing:
            for _, handle in applied:
                handle.mark_applied()
        self._count(len(applied))

    def _count(self, count: int) -> None:
        self._done_count += count
        if self._flushes:
            for target, flushed in self._flushes:
                if target <= self._done_count and not flushed.done():
                    flushed.set_result(True)
            self._flushes = [pair for pair in self._flushes if not pair[1].done()]


async def _until_written(handle: WriteHandle) -> None:
    try:
        async with asyncio.timeout(_JOURNAL_S):
            await handle.written()
    except (TimeoutError, JournalUnavailable):
        return


def _empty_transaction(_: Connection) -> None:
    """Checks whether the database accepts a transaction."""
