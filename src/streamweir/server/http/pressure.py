"""Overload by memory or by a slow event loop: when to refuse requests, and when to end a stream.

Memory near its limit, or an event loop that cannot keep up, turn a slow gateway into a dead one. So new requests are
refused early (`SHED`: a quick 503 that says when to come back), and where that is not enough the stream that holds
the most is ended with an error frame (`CUT`). No stream is cut for what request bodies hold: to end it would give
nothing of that back, and they have a limit of their own (`server.http.body_memory`). Control routes are always
answered. What is decided here is pure; how much memory there is, is read at the bottom.

How late the event loop is, is measured by a timer: whatever holds up the loop holds up every stream of the process, and
this timer. It is one callback every quarter of a second, and no task.
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
"""Of the newest lag in the running mean: a single long callback is no overload."""


class Level(IntEnum):
    CALM = 0
    SHED = 1
    CUT = 2


class Pressure:
    """`memory_bytes`: what this process may use, None where nothing bounds it. `most_lag_s`: see `limits.lag_s`."""

    def __init__(self, memory_bytes: int | None, most_lag_s: float) -> None:
        self.level = Level.CALM
        self._memory_bytes = memory_bytes
        self._most_lag_s = most_lag_s
        self._lag_s = 0.0

    def sample(self, used_bytes: int, lag_s: float, body_bytes: int = 0) -> Level:
        """`body_bytes`: of those used, what request bodies hold."""
        self._lag_s += _WEIGHT * (max(lag_s, 0.0) - self._lag_s)
        most = self._memory_bytes or inf
        if used_bytes - body_bytes >= most * CUT_SHARE:
            self.level = Level.CUT
        elif used_bytes >= most * SHED_SHARE or self._lag_s >= self._most_lag_s:
            self.level = Level.SHED
        else:
            self.level = Level.CALM
        return self.level


def retry_after_s() -> float:
    """Everybody who is refused comes back: not all at the same moment."""
    return uniform(1, 5)  # noqa: S311 (no secret)


def used_memory_bytes() -> int:
    """The resident set of this process; 0 where the system does not say."""
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
    """Of our own group and of all above it. A container sees its own as the uppermost, whatever the path says."""
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
