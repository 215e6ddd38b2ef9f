"""How late the event loop is: a timer that measures itself.

Whatever holds up the loop holds up every stream of the process, and this timer. One callback every
quarter of a second, no task. Knows neither who held it up nor who reads the figures.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter

EVERY_S = 0.25


class LagProbe:
    """Tells `observe`, from `start` to `stop`, by how much each of its timers was late."""

    def __init__(self, observe: Callable[[float], None], every_s: float = EVERY_S) -> None:
        self._observe = observe
        self._every_s = every_s
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._measured_at = perf_counter()

    def idle_s(self) -> float:
        """How long ago it last measured. From any thread."""
        return perf_counter() - self._measured_at

    def start(self) -> None:
        if self._timer is None:
            self._schedule(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        # Not the loop's own clock: uvloop reads it once per turn, in whole milliseconds.
        self._due = perf_counter() + self._every_s
        self._timer = loop.call_later(self._every_s, self._measure, loop)

    def _measure(self, loop: asyncio.AbstractEventLoop) -> None:
        self._measured_at = perf_counter()
        late_s = max(perf_counter() - self._due, 0.0)
        self._schedule(loop)  # first: a fault in what observes must not be the last of it
        self._observe(late_s)
