"""The time of day, for what is written down. Everything that waits or measures goes by a clock that does not jump.

Time limits that an event loop which stood still cannot exceed on behalf of others.

A timer fires as soon as its moment has passed, before what arrived in the meantime has had its turn. So
after a standstill a limit is over although the disk or the database answered in time. Here a limit is
counted in parts, each with a timer of its own: a standstill takes one part, however long it was, and
whatever arrived during it is read before the limit is over. On a loop that runs freely it is the limit.
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

    __slots__ = ("_expired", "_left", "_loop", "_part_s", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_s: float, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._part_s = limit_s / _PARTS
        self._left = _PARTS
        self._expired = expired
        self._timer = loop.call_later(self._part_s, self._pass)

    def cancel(self) -> None:
        self._timer.cancel()

    def _pass(self) -> None:
        self._left -= 1
        if self._left:
            self._timer = self._loop.call_later(self._part_s, self._pass)
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
