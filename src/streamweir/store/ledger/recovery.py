"""What a dead process left in its journal is brought into the database, once, by whoever finds it.

Segment by segment, in the order they were written, and each is removed when all of it is applied:
killed at any point, the rest is found and repeated, to the same effect. Entries may have been applied
by the dead process itself, so every batch is applied with care. As long as the database is away it
waits. A segment with a part that cannot be read is not removed but set aside, and told of. The last
one goes when all else is done that must be done for the dead process: it tells that it is dead.

Requests that were open when their process died: settled once, by whoever comes first.

What one costs is said by a function that the server gives. If its own process settles it after all,
or another node does so at the same time, the ledger has one settlement and the later changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from sqlalchemy import Connection

from streamweir.store.db.engine import StoreUnavailable
from streamweir.store.journal.entries import Entry, Settle
from streamweir.store.journal.files import OrphanedJournal, OrphanedSegment
from streamweir.store.journal.journal import Tell
from streamweir.store.ledger.batch import MOST_AT_ONCE, Batcher, retry_s
from streamweir.store.ledger.posting import apply
from streamweir.store.requests.live import OpenRequest, opened_by

Bury = Callable[[], Awaitable[None]]

_MOST_FAILURES = 12
"""In a row, which takes half a minute: then the start fails, and says why."""


async def replay(dead: OrphanedJournal, batcher: Batcher, tell: Tell, bury: Bury | None = None) -> int:
    """How many entries it held. `settle_dead_instances` is called once all of them are applied, before the last of the
    files goes."""
    count = 0
    try:
        while dead.segments:
            is_last = len(dead.segments) == 1
            count += await _replay_segment(dead.instance, dead.segments[0], batcher, tell, bury if is_last else None)
            del dead.segments[0]
    finally:
        dead.close()
    tell("journal_replayed", {"instance": dead.instance, "entries": count})
    return count


async def _replay_segment(
    instance: str, segment: OrphanedSegment, batcher: Batcher, tell: Tell, bury: Bury | None
) -> int:
    entries, unknown, dropped_bytes = await asyncio.to_thread(segment.read)
    for payload in unknown:
        await _set_aside(payload, batcher, tell)
    for start in range(0, len(entries), MOST_AT_ONCE):
        await _apply(entries[start : start + MOST_AT_ONCE], batcher, tell)
    if bury is not None:
        await bury()
    if dropped_bytes:
        tell("journal_torn", {"instance": instance, "entries": len(entries), "dropped_bytes": dropped_bytes})
        await asyncio.to_thread(segment.set_aside)
    else:
        await asyncio.to_thread(segment.remove)
    return len(entries)


async def _apply(entries: Sequence[Entry], batcher: Batcher, tell: Tell) -> None:
    """Raises `StoreUnavailable` where nothing got into the database for too long: the files stay for the next start."""
    applied, failures = 0, 0

    def done(count: int) -> None:
        nonlocal applied, failures
        applied, failures = applied + count, 0

    while applied < len(entries):
        try:
            await batcher.apply(entries[applied:], done, careful=True)
        except StoreUnavailable as reason:
            failures += 1
            await _wait(reason, failures, tell)


async def _set_aside(payload: bytes, batcher: Batcher, tell: Tell) -> None:
    failures = 0
    while True:
        try:
            return await batcher.set_aside("unknown", payload, None)
        except StoreUnavailable as reason:
            failures += 1
            await _wait(reason, failures, tell)


async def _wait(reason: StoreUnavailable, failures: int, tell: Tell) -> None:
    if failures >= _MOST_FAILURES:
        raise reason
    tell("replay_waits", {"reason": str(reason), "failures": failures})
    await asyncio.sleep(retry_s(failures))


MOST_ORPHANS = 200


def settle_orphans(
    conn: Connection,
    instances: Collection[str],
    now_ms: int,
    settle: Callable[[OpenRequest, int], Settle],
    limit: int = MOST_ORPHANS,
) -> int:
    """How many it settled: with `limit` there may be more, with 0 there are none that another does not settle.

    With care: a process that dies while a refusal is being undone leaves a row of the log besides.
    """
    found = opened_by(conn, instances, limit) if instances else []
    return apply(conn, [settle(request, now_ms) for request in found], careful=True).settled
