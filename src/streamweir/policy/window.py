"""How many there were in the last seconds, in bounded memory.

Moments are counted in short ticks, so the memory depends on the span and not on the number. A tick
counts until the whole of it is out of the span: what is counted is never too little, and too much
by one tick at most. Time is handed in and may stand still or jump: a step back is taken for no time
at all, so that it neither frees nor holds anything.
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
        oldest = floor(self._steady(now) / self._tick_s) - self._span
        ticks = self._ticks
        while ticks and ticks[0][0] < oldest:
            self._total -= ticks.popleft()[1]
        return self._total

    def add(self, now: float) -> None:
        tick = floor(self._steady(now) / self._tick_s)
        if self._ticks and self._ticks[-1][0] == tick:
            self._ticks[-1][1] += 1
        else:
            self.count(now)  # so that there are never more ticks than the span holds
            self._ticks.append([tick, 1])
        self._total += 1

    def until_fewer_s(self, now: float) -> float:
        """How long until the first of those counted now is out of the span; 0 where there are none."""
        return self._until_out_s(self._ticks[0][0], now) if self.count(now) else 0.0

    def until_none_s(self, now: float) -> float:
        return self._until_out_s(self._ticks[-1][0], now) if self.count(now) else 0.0

    def _until_out_s(self, tick: int, now: float) -> float:
        return (tick + self._span + 1) * self._tick_s - self._steady(now)

    def _steady(self, now: float) -> float:
        """The time that only goes on: shifted by all that the clock was ever set back."""
        if now < self._last:
            self._shift += self._last - now
        self._last = now
        return now + self._shift
