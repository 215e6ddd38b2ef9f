"""Recovery after dead processes: their journals are applied, and their open requests are settled, once.

A journal is applied segment by segment, in the order in which it was written, and each segment is removed when all of
it is applied: if this is interrupted at any point, the rest is found and repeated, with the same effect. The dead
process may have applied entries itself, so every batch is applied with `check_existing`. While the database is
unavailable this waits. A segment with an unreadable part is not removed but set aside, and reported. The last segment
is removed when everything else is done for the dead process: its existence shows that the process is dead.

The server supplies a function that computes the cost of an orphan. If its own process settles it after all, or another
node does so at the same time, the ledger has one settlement, and the later one changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from sqlalchemy import Connection

from streamweir.store.db.base import StoreUnavailable
from streamweir.store.journal.entries import Entry, Settle
from streamweir.store.journal.files import OrphanedJournal, OrphanedSegment
from streamweir.store.journal.journal import ReportEvent
from streamweir.store.ledger.batch import MAX_BATCH_ENTRIES, Batcher, retry_s
from streamweir.store.ledger.posting import apply
from streamweir.store.requests.live import OpenRequest, opened_by

SettleDead = Callable[[], Awaitable[None]]

_MAX_FAILURES = 12
"""Failures in a row, which take half a minute: then the start fails with the reason."""


async def replay(
    dead: OrphanedJournal, batcher: Batcher, report: ReportEvent, settle_dead: SettleDead | None = None
) -> int:
    """The number of its entries. `settle_dead` is called when all of them are applied, before the last file is
    removed."""
    count = 0
    try:
        while dead.segments:
            is_last = len(dead.segments) == 1
            count += await _replay_segment(
                dead.instance, dead.segments[0], batcher, report, settle_dead if is_last else None
            )
            del dead.segments[0]
    finally:
        dead.close()
    report("journal_replayed", {"instance": dead.instance, "entries": count})
    return count


async def _replay_segment(
    instance: str, segment: OrphanedSegment, batcher: Batcher, report: ReportEvent, settle_dead: SettleDead | None
) -> int:
    entries, unknown, dropped_bytes = await asyncio.to_thread(segment.read)
    for payload in unknown:
        await _set_aside(payload, batcher, report)
    for start in range(0, len(entries), MAX_BATCH_ENTRIES):
        await _apply(entries[start : start + MAX_BATCH_ENTRIES], batcher, report)
    if settle_dead is not None:
        await settle_dead()
    if dropped_bytes:
        report("journal_torn", {"instance": instance, "entries": len(entries), "dropped_bytes": dropped_bytes})
        await asyncio.to_thread(segment.set_aside)
    else:
        await asyncio.to_thread(segment.remove)
    return len(entries)


async def _apply(entries: Sequence[Entry], batcher: Batcher, report: ReportEvent) -> None:
    """Raises `StoreUnavailable` if nothing was written for too long: the files stay for the next start."""
    applied, failures = 0, 0

    def done(count: int) -> None:
        nonlocal applied, failures
        applied, failures = applied + count, 0

    while applied < len(entries):
        try:
            await batcher.apply(entries[applied:], done, check_existing=True)
        except StoreUnavailable as reason:
            failures += 1
            await _wait(reason, failures, report)


async def _set_aside(payload: bytes, batcher: Batcher, report: ReportEvent) -> None:
    failures = 0
    while True:
        try:
            return await batcher.set_aside("unknown", payload, None)
        except StoreUnavailable as reason:
            failures += 1
            await _wait(reason, failures, report)


async def _wait(reason: StoreUnavailable, failures: int, report: ReportEvent) -> None:
    if failures >= _MAX_FAILURES:
        raise reason
    report("replay_waits", {"reason": str(reason), "failures": failures})
    await asyncio.sleep(retry_s(failures))


MAX_ORPHANS = 200


def settle_orphans(
    conn: Connection,
    instances: Collection[str],
    now_ms: int,
    settle: Callable[[OpenRequest, int], Settle],
    limit: int = MAX_ORPHANS,
) -> int:
    """The number of settled orphans: if it is `limit`, there may be more; if it is 0, there are none.

    With `check_existing`: a process that dies while a refusal is being undone has also left a row in the log.
    """
    found = opened_by(conn, instances, limit) if instances else []
    return apply(conn, [settle(request, now_ms) for request in found], check_existing=True).settled
