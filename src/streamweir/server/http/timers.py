"""One deadline at a time for each of many, one timer for all, and whether a write makes progress.

A deadline that moves back costs nothing: the timer stays as it is, and when it fires its owner checks what is due and
sets it again. Only an earlier deadline moves it. A timer of the loop takes more than half a kilobyte, and every open
stream needs some: so there is one for the earliest deadline, and a heap for the rest.
"""

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Protocol

SLACK_S = 0.001
"""The loop's clock counts milliseconds: a timer may come that much early."""
_FEW = 64
"""So many places in the heap may be taken by alarms that will never ring, however many others there are."""


class TimerTarget(Protocol):
    def wake(self) -> None: ...


class TimerQueue:
    """All alarms of one loop."""

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
            self._wait(when)

    def forget(self) -> None:
        """An alarm that was added is not due any more, or not then."""
        self._stale += 1
        if self._stale > max(_FEW, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if entry[2].due == entry[0]]
            heapify(self._heap)
            self._stale = 0

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, inf

    def _wait(self, when: float) -> None:
        self.stop()
        self._due = when
        self._timer = asyncio.get_running_loop().call_at(when, self._ring)

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, self._due = None, inf
        now = loop.time() + SLACK_S
        while self._heap and self._heap[0][0] <= now:
            when, _, timer = heappop(self._heap)
            if timer.due == when:
                loop.call_soon(timer.ring)  # so that what goes wrong with one does not keep the others from ringing
            else:
                self._stale -= 1
        if self._heap:
            self._wait(self._heap[0][0])


class DeadlineTimer:
    __slots__ = ("_clock", "_sleeper", "due")

    def __init__(self, clock: TimerQueue, sleeper: TimerTarget) -> None:
        self._clock = clock
        self._sleeper: TimerTarget | None = sleeper
        self.due = inf

    def by(self, when: float) -> None:
        """Wakes at that time of the loop's clock, or earlier."""
        if when >= self.due:
            return
        was_set, self.due = self.due < inf, when
        if was_set:
            self._clock.forget()
        self._clock.add(when, self)

    def end(self) -> None:
        """Never again. Whoever would have been woken is let go of, too."""
        was_set, self.due = -inf < self.due < inf, -inf
        self._sleeper = None
        if was_set:
            self._clock.forget()

    def ring(self) -> None:
        if self._sleeper is not None:
            self.due = inf
            self._sleeper.wake()


class WriteStall:
    """Looked at from time to time: since when no waiting byte has been taken."""

    __slots__ = ("_since", "_taken")

    def __init__(self) -> None:
        self._taken = -1
        self._since = inf

    def lasts_s(self, given: int, waiting: int, now: float) -> float:
        """`given`: all bytes ever handed to the transport. Seen late at most by the time between two looks."""
        taken = given - waiting
        if not waiting:
            self._since = inf
        elif taken != self._taken or self._since > now:
            self._since = now
        self._taken = taken
        return now - self._since if waiting else 0.0
