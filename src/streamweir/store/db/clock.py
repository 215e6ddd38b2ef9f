"""The wall clock, for what is stored, and a time limit that does not fire too early after the event loop was blocked.

Everything that waits or measures uses the monotonic clock instead.

A timer fires as soon as its time has passed, before data that arrived in the meantime is processed. So after the loop
was blocked, a limit would be over although the disk or the database answered in time. `time_limit` is counted in
parts, each with its own timer: a blocked loop uses up one part, however long it was blocked, and what arrived
meanwhile is processed before the limit is over. On a loop that runs freely it is the plain limit.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


def now_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


_PARTS = 16


class Deadline:
    """Calls `expired` once, after `limit_s` in which the event loop ran freely, unless it is cancelled before."""

    __slots__ = ("_expired", "_loop", "_part_s", "_parts_left", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._part_s = limit_s / _PARTS
        self._parts_left = _PARTS
        self._expired = expired
        self._timer = loop.call_later(self._part_s, self._end_part)

    def cancel(self) -> None:
        self._timer.cancel()

    def _end_part(self) -> None:
        self._parts_left -= 1
        if self._parts_left:
            self._timer = self._loop.call_later(self._part_s, self._end_part)
        else:
            self._expired()


@asynccontextmanager
async def time_limit(limit_s: float) -> AsyncIterator[None]:
    """As `asyncio.timeout`, by a `Deadline`: raises TimeoutError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        deadline = Deadline(loop, limit_s, lambda: limit.reschedule(loop.time()))
        try:
            yield
        finally:
            deadline.cancel()
