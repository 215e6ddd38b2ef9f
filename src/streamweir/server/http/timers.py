"""Timers for many deadlines with one timer of the event loop, and the detection of stalled writes.

A deadline that moves to a later time costs nothing: the timer stays, and when it fires, its target checks what is due
and sets it again. Only an earlier deadline changes the timer. A timer of the event loop needs more than half a
kilobyte, and every open stream needs several. So the loop has one timer for the earliest deadline, and a heap has the
rest.
"""

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Protocol

SLACK_S = 0.001
"""The clock of the loop counts milliseconds: a timer may fire that much too early."""
_MIN_STALE = 64
"""The heap may always have so many stale entries before it is rebuilt."""


class TimerTarget(Protocol):
    def on_timer(self) -> None: ...


class TimerQueue:
    """All timers of one event loop."""

    __slots__ = ("_due", "_heap", "_order", "_stale", "_timer")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, DeadlineTimer]] = []
        self._order = count()
        self._stale = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf

    def add(self, when: float, timer: "DeadlineTimer") -> None:
        heappush(self._heap, (when, next(self._order), timer))
        if when < self._due:
            self._schedule(when)

    def note_stale(self) -> None:
        """An entry of the heap is stale: its timer has ended, or has another time."""
        self._stale += 1
        if self._stale > max(_MIN_STALE, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if entry[2].due == entry[0]]
            heapify(self._heap)
            self._stale = 0

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, inf

    def _schedule(self, when: float) -> None:
        self.stop()
        self._due = when
        self._timer = asyncio.get_running_loop().call_at(when, self._fire_due)

    def _fire_due(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, self._due = None, inf
        now = loop.time() + SLACK_S
        while self._heap and self._heap[0][0] <= now:
            when, _, timer = heappop(self._heap)
            if timer.due == when:
                loop.call_soon(timer.fire)  # in its own callback: a fault of one must not stop the others
            else:
                self._stale -= 1
        if self._heap:
            self._schedule(self._heap[0][0])


class DeadlineTimer:
    __slots__ = ("_target", "_timers", "due")

    def __init__(self, timers: TimerQueue, target: TimerTarget) -> None:
        self._timers = timers
        self._target: TimerTarget | None = target
        self.due = inf

    def fire_by(self, when: float) -> None:
        """Fires at that time of the loop's clock, or earlier."""
        if when >= self.due:
            return
        was_set, self.due = self.due < inf, when
        if was_set:
            self._timers.note_stale()
        self._timers.add(when, self)

    def end(self) -> None:
        """It never fires again, and holds no reference to its target."""
        was_set, self.due = -inf < self.due < inf, -inf
        self._target = None
        if was_set:
            self._timers.note_stale()

    def fire(self) -> None:
        if self._target is not None:
            self.due = inf
            self._target.on_timer()


class WriteStall:
    """Since when the caller has read no buffered byte. Checked from time to time."""

    __slots__ = ("_since", "_taken")

    def __init__(self) -> None:
        self._taken = -1
        self._since = inf

    def duration_s(self, written: int, waiting: int, now: float) -> float:
        """`written`: all bytes ever written to the transport. The result is late by at most one check."""
        taken = written - waiting
        if not waiting:
            self._since = inf
        elif taken != self._taken or self._since > now:
            self._since = now
        self._taken = taken
        return now - self._since if waiting else 0.0
