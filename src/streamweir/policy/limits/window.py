"""Counts over a sliding window of time, in bounded memory.

Events are counted in short ticks, so the memory depends on the length of the window and not on the number of events. A
tick counts until all of it is outside the window: a count is never too low, and too high by one tick at most. Time is
an argument and may stand still or jump: a step back counts as no time.
"""

from collections import deque
from math import floor


class SlidingCount:
    __slots__ = ("_last", "_shift", "_span", "_tick_s", "_ticks", "_total")

    def __init__(self, span_s: float, tick_s: float) -> None:
        self._tick_s = tick_s
        self._span = round(span_s / tick_s)
        self._ticks: deque[list[int]] = deque()  # [tick, number], oldest first
        self._total = 0
        self._last = float("-inf")
        self._shift = 0.0

    def count(self, now: float) -> int:
        ticks = self._ticks
        if not ticks:  # then nothing depends on the time, even if it was set back
            return 0
        oldest = floor(self._monotonic(now) / self._tick_s) - self._span
        while ticks and ticks[0][0] < oldest:
            self._total -= ticks.popleft()[1]
        return self._total

    def add(self, now: float) -> None:
        tick = floor(self._monotonic(now) / self._tick_s)
        if self._ticks and self._ticks[-1][0] == tick:
            self._ticks[-1][1] += 1
        else:
            self.count(now)  # so that there are never more ticks than fit into the span
            self._ticks.append([tick, 1])
        self._total += 1

    def empty_in_s(self, now: float) -> float:
        """The time until the last of the counted events leaves the span; 0 if there are none."""
        if not self.count(now):
            return 0.0
        return (self._ticks[-1][0] + self._span + 1) * self._tick_s - self._monotonic(now)

    def _monotonic(self, now: float) -> float:
        """Monotonic time: the clock plus the total by which it was set back."""
        if now < self._last:
            self._shift += self._last - now
        self._last = now
        return now + self._shift


MINUTE_S = 60.0
MINUTE_TICK_S = 0.5
_MINUTE_TICKS = round(MINUTE_S / MINUTE_TICK_S)

REQUESTS, TOKENS = 1, 2
"""Their indexes in a tick of `MinuteUsage`."""


class MinuteUsage:
    """Requests and tokens of the last minute, by the tick of the request that they belong to.

    The same rule as `SlidingCount`, for callers that compute the monotonic time themselves and correct a tick later.
    `tick_at` returns the tick, which is valid while it is counted.
    """

    __slots__ = ("_ticks", "totals")

    def __init__(self) -> None:
        self.totals = [0, 0, 0]
        self._ticks: deque[list[int]] = deque()  # [tick, requests, tokens], oldest first

    def tick_at(self, at: float) -> list[int]:
        """After `drop_before`. It is counted once something is added to it."""
        number = floor(at / MINUTE_TICK_S)
        ticks = self._ticks
        if not ticks or ticks[-1][0] != number:
            ticks.append([number, 0, 0])
        return ticks[-1]

    def drop_before(self, at: float) -> None:
        """Must be called first: drops the ticks that are a minute old at `at`."""
        oldest = floor(at / MINUTE_TICK_S) - _MINUTE_TICKS
        ticks, totals = self._ticks, self.totals
        while ticks and ticks[0][0] < oldest:
            _, requests, tokens = ticks.popleft()
            totals[REQUESTS] -= requests
            totals[TOKENS] -= tokens

    def add(self, tick: list[int], requests: int, tokens: int) -> None:
        """Changes a tick of `tick_at`; no effect if it is no longer counted."""
        if self._ticks and tick[0] >= self._ticks[0][0]:
            tick[REQUESTS] += requests
            tick[TOKENS] += tokens
            self.totals[REQUESTS] += requests
            self.totals[TOKENS] += tokens

    def freed_in_s(self, kind: int, amount: int, at: float) -> float:
        """The time until `amount` of what is counted now leaves the minute; a minute if there is not so much."""
        for tick in self._ticks:
            amount -= tick[kind]
            if amount <= 0:
                return expires_in_s(tick, at)
        return MINUTE_S

    def empty_in_s(self, kind: int, at: float) -> float:
        for tick in reversed(self._ticks):
            if tick[kind]:
                return expires_in_s(tick, at)
        return 0.0


def expires_in_s(tick: list[int], at: float) -> float:
    """The time until all of a tick of `MinuteUsage` leaves the minute."""
    return (tick[0] + _MINUTE_TICKS + 1) * MINUTE_TICK_S - at
