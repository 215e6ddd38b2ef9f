"""Overload by memory or by a slow event loop: when to refuse requests, and when to end a stream.

New requests are refused (`SHED`: a 503 with a `retry-after`) when memory is near its limit or the event loop is late.
If memory still grows, the stream that uses the most is ended with an error frame (`CUT`). The memory of request bodies
does not count for `CUT`: ending a stream would not free it, and it has its own limit (`server.http.body_memory`).
Control routes are always answered. The decision is pure; the functions at the end read the memory of the system.

`LagProbe` measures how late the event loop is with a timer: what delays the loop delays every stream and this timer. It
is one callback every quarter of a second, not a task.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from enum import IntEnum
from math import inf
from pathlib import Path
from random import uniform
from time import perf_counter

SHED_SHARE = 0.85
CUT_SHARE = 0.95
_WEIGHT = 0.3
"""Weight of the newest lag in the running mean: a single long callback is not an overload."""


class Level(IntEnum):
    CALM = 0
    SHED = 1
    CUT = 2


class Pressure:
    """`memory_bytes`: what this process may use; None: no limit. `max_lag_s`: see `limits.lag_s`."""

    def __init__(self, memory_bytes: int | None, max_lag_s: float) -> None:
        self.level = Level.CALM
        self._memory_bytes = memory_bytes
        self._max_lag_s = max_lag_s
        self._lag_s = 0.0

    def sample(self, used_bytes: int, lag_s: float, body_bytes: int = 0) -> Level:
        """`body_bytes`: the part of `used_bytes` that request bodies use."""
        self._lag_s += _WEIGHT * (max(lag_s, 0.0) - self._lag_s)
        limit_bytes = self._memory_bytes or inf
        if used_bytes - body_bytes >= limit_bytes * CUT_SHARE:
            self.level = Level.CUT
        elif used_bytes >= limit_bytes * SHED_SHARE or self._lag_s >= self._max_lag_s:
            self.level = Level.SHED
        else:
            self.level = Level.CALM
        return self.level


def retry_after_s() -> float:
    """A random delay, so that refused callers do not all come back at the same moment."""
    return uniform(1, 5)  # noqa: S311 (no secret)


def used_memory_bytes() -> int:
    """The resident set of this process; 0: not known."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """The tightest of the limits of our control groups (cgroup v2 or v1) and the machine's memory."""
    limits = []
    for file in _limit_files(root):
        text = _read(file)
        if text.isdecimal():
            limits.append(int(text))
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            limits.append(int(line.split()[1]) * 1024)
    return min(limits, default=None)


def _limit_files(root: Path) -> Iterator[Path]:
    """Of our own group and its parents. In a container the own group is the top one, whatever the path says."""
    for line in _read(root / "proc/self/cgroup").splitlines() or ["0::/"]:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        is_v2 = not controllers
        top = root / ("sys/fs/cgroup" if is_v2 else "sys/fs/cgroup/memory")
        own = top / path.lstrip("/")
        for group in (own, *own.parents):
            if group.is_relative_to(top):
                yield group / ("memory.max" if is_v2 else "memory.limit_in_bytes")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


INTERVAL_S = 0.25


class LagProbe:
    """Calls `observe` with the delay of each of its timers, from `start` to `stop`."""

    def __init__(self, observe: Callable[[float], None], interval_s: float = INTERVAL_S) -> None:
        self._observe = observe
        self._interval_s = interval_s
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._measured_at = perf_counter()

    def idle_s(self) -> float:
        """Seconds since the last measurement. May be called from any thread."""
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
        self._due = perf_counter() + self._interval_s
        self._timer = loop.call_later(self._interval_s, self._measure, loop)

    def _measure(self, loop: asyncio.AbstractEventLoop) -> None:
        self._measured_at = perf_counter()
        late_s = max(perf_counter() - self._due, 0.0)
        self._schedule(loop)  # first: a fault in `observe` must not stop the measurements
        self._observe(late_s)
