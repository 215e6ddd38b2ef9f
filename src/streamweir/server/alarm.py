"""One timer for all the deadlines of a connection, and the judgement whether its writing stands still.

A deadline that moves back costs nothing: the timer stays where it is and, when it comes, whoever
is woken looks at what is due and sets it anew. Only an earlier deadline moves it.
"""

import asyncio
from collections.abc import Callable
from math import inf


class Alarm:
    __slots__ = ("_due", "_loop", "_timer", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf

    def by(self, when: float) -> None:
        """Wakes at that time of the loop's clock, or earlier."""
        if when >= self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = when
        self._timer = self._loop.call_at(when, self._ring)

    def end(self) -> None:
        """Never again. Whoever would have been woken is let go of, too."""
        self._due = -inf
        self._wake = _nobody
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._due = inf
        self._wake()


def _nobody() -> None:
    """Is woken by an alarm that has ended."""


class Stall:
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
