"""The two threads of a journal: the `WriterThread` writes, the `SyncThread` makes durable and takes away.

The scribe takes all groups that were handed over since its last write and writes them with one
call. The binder syncs, so that a write never waits for the platter; it alone closes files. Neither
knows what an entry means. When the disk does not take a write, what must be written stays here and
is tried again, ever more slowly, and the rest is refused; where nothing must be written the disk is
probed as often, for nobody else may come to find out that it is well again. When a sync fails, nobody
knows what the disk has: a new segment is begun, and all that was not durable is written again into
that. What happened is reported to the event loop (`Reports`), once for all groups of a write.
"""

import threading
import time
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from streamweir.store.journal.files import SegmentFile, probe_disk
from streamweir.store.journal.handle import Group

_MOST_WRITE_BYTES = 1 << 20
"""With one call: of a long backlog all that the disk still takes gets written."""
_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 2.0
_GATHER_S = 0.002
"""Between a write and its sync, for more to come that it serves as well. It is waited for by the caller's first byte,
which waits for the upstream's anyway; a sync a group cost half as much again as all else here. The binder is woken
after it, and not at once only to sleep: else it is in the way of the event loop, for which an upstream waits."""

Refusal = tuple[Group, Group | None]


class Reports(Protocol):
    """All made on the event loop."""

    def on_written(self, groups: list[Group], /) -> None: ...

    def on_durable(self, groups: list[Group], /) -> None: ...

    def on_refused(self, refusals: list[Refusal], /) -> None:
        """Each with those of its entries that are tried again."""
        ...

    def on_failed(self, what: str, error: OSError, /) -> None:
        """`write` or `sync`. Until `on_recovered` says the same."""
        ...

    def on_recovered(self, what: str, /) -> None:
        """Also of what had not failed."""
        ...

    def on_ended(self, lost: int, is_fault: bool, /) -> None:
        """After this nothing is reported. `lost` entries had to be written and were not."""
        ...


class _Written(NamedTuple):
    segment: SegmentFile
    groups: list[Group]


class _Unsynced(NamedTuple):
    groups: list[Group]
    failures: int


Item = TypeVar("Item")


class _Worker(ABC, Generic[Item]):
    """A thread and what it is given to do; None is its end."""

    def __init__(self, name: str, reports: Reports) -> None:
        self.reports = reports
        self.given: SimpleQueue[Item | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._loop: AbstractEventLoop | None = None

    def start(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self.thread.start()

    def post(self, call: Callable[..., None], *args: Any) -> None:
        if self._loop is None:
            raise RuntimeError("not started")
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            self.given.put(None)  # the event loop was closed before us: nobody is left to hear it

    def take(self, timeout_s: float | None = None) -> list[Item | None]:
        """All that is there; waits for the first, and at most so long."""
        try:
            taken = [self.given.get(timeout=timeout_s)]
        except Empty:
            return []
        taken.extend([self.given.get() for _ in range(self.given.qsize())])
        return taken

    @abstractmethod
    def work(self) -> None:
        """Until it is given None."""

    def _run(self) -> None:
        is_done = False
        try:
            self.work()
            is_done = True
        finally:
            if not is_done:  # what it was goes to the error output; but nobody is to wait for what never comes
                self.post(self.reports.on_ended, 0, True)


class SyncThread(_Worker[_Written | bool]):
    """`full`: the segments before the one that is written, the oldest first. It alone takes from it."""

    def __init__(self, reports: Reports) -> None:
        super().__init__("journal-sync", reports)
        self.applied = 0
        """Up to here all is in the database. Set by the event loop."""
        self.full: deque[SegmentFile] = deque()
        self.unsynced: SimpleQueue[Group | _Unsynced | None] | None = None
        """Where groups go whose sync failed; None while nobody can write them again."""
        self.lost = 0
        self._failures = 0

    def work(self) -> None:
        is_over = False
        while not is_over:
            by_segment: dict[SegmentFile, list[Group]] = {}
            for item in self.take():
                if isinstance(item, _Written):
                    by_segment.setdefault(item.segment, []).extend(item.groups)
                elif item is None:
                    is_over = True
            for segment, groups in by_segment.items():
                self._sync(segment, groups)
            while self.full and self.full[0].end <= self.applied:
                self.full.popleft().remove()
        while self.full:
            self.full.popleft().release()
        self.post(self.reports.on_ended, self.lost, False)

    def _sync(self, segment: SegmentFile, groups: list[Group]) -> None:
        if not segment.is_removed:  # else the database has them
            if not segment.is_doubtful:
                try:
                    segment.sync()
                except OSError as error:
                    self._failures += 1
                    self.post(self.reports.on_failed, "sync", error)
            if segment.is_doubtful:
                if self.unsynced is not None:
                    self.unsynced.put(_Unsynced(groups, self._failures))
                return
            if self._failures:
                self._failures = 0
                self.post(self.reports.on_recovered, "sync")
        self.post(self.reports.on_durable, groups)


class WriterThread(_Worker[Group | _Unsynced]):
    """Makes its first segment at once: OSError where it cannot."""

    def __init__(self, folder: Path, instance: str, segment_bytes: int, reports: Reports) -> None:
        super().__init__("journal-write", reports)
        self.binder = SyncThread(reports)
        self.binder.unsynced = self.given
        self.retry_at = 0.0
        """By the monotonic clock: before this nothing is tried. 0 while all is well."""
        self._folder = folder
        self._instance = instance
        self._segment_bytes = segment_bytes
        self._backlog: list[Group] = []
        self._unbound: list[_Written] = []
        """For the binder, at `_bind_at`."""
        self._bind_at = 0.0
        self._failures = 0
        self._number = 0
        self._segment = self._make_segment()
        self._segment.sync()

    def work(self) -> None:
        is_over = False
        while not is_over:
            groups: list[Group] = []
            for item in self.take(self._wait_s()):
                if isinstance(item, Group):
                    groups.append(item)
                elif item is None:
                    is_over = True
                else:
                    self._backlog += item.groups
                    self._put_off(item.failures)
            if self.retry_at and self.retry_at > time.monotonic() and not is_over:
                self._hold_back(groups)
            else:
                groups, self._backlog = self._backlog + groups, []
                if self.retry_at:
                    groups = self._without_applied(groups)
                if groups:
                    self._write(groups)
                elif self.retry_at and not is_over:
                    self._probe()
            if self._unbound and (is_over or self._bind_at <= time.monotonic()):
                for written in self._unbound:
                    self.binder.given.put(written)
                self._unbound.clear()
        self.binder.lost = sum(len(group.handles) for group in self._backlog)
        self.binder.unsynced = None
        self.binder.full.append(self._segment)
        self.binder.given.put(None)

    def _wait_s(self) -> float | None:
        """For how long nothing is to be done, unless something comes. None: without end."""
        due = []
        if self._backlog or self.retry_at:
            due.append(self.retry_at)
        if self._unbound:
            due.append(self._bind_at)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _write(self, groups: list[Group]) -> None:
        """In as few calls as may be."""
        while groups:
            size, count = 0, 0
            while count < len(groups) and size < _MOST_WRITE_BYTES:
                size += groups[count].size
                count += 1
            chunk = groups[:count]
            try:
                segment = self._open_segment()
                segment.write(b"".join([frame for group in chunk for frame in group.frames]))
            except OSError as error:
                self._fail(error)
                self._hold_back(groups)
                return
            groups = groups[count:]
            segment.end = max(segment.end, chunk[-1].end)
            self._report(segment, chunk)

    def _report(self, segment: SegmentFile, chunk: list[Group]) -> None:
        if self.retry_at or self._failures:
            self.retry_at = 0.0
            if self._failures:
                self._failures = 0
                self.post(self.reports.on_recovered, "write")
        self.post(self.reports.on_written, chunk)
        to_sync = [group for group in chunk if group.needs_sync]
        if to_sync:
            for group in to_sync:
                group.was_written = True
            if not self._unbound:
                self._bind_at = time.monotonic() + _GATHER_S
            self._unbound.append(_Written(segment, to_sync))

    def _probe(self) -> None:
        """All that had to be written is, or the database has it: whether the disk is well nobody else would find out.

        It goes on counting failures until an entry is written: a disk may take the one and not the other.
        """
        try:
            probe_disk(self._folder, self._instance)
        except OSError as error:
            self._fail(error)
            return
        self.retry_at = 0.0
        self.post(self.reports.on_recovered, "write")
        self.post(self.reports.on_recovered, "sync")

    def _fail(self, error: OSError) -> None:
        self._failures += 1
        self._put_off(self._failures)
        self.post(self.reports.on_failed, "write", error)

    def _put_off(self, failures: int) -> None:
        self.retry_at = time.monotonic() + min(_LAST_RETRY_S, _FIRST_RETRY_S * 2 ** (failures - 1))

    def _hold_back(self, groups: list[Group]) -> None:
        """What must be written is kept; of the rest it is said that it will not be."""
        refusals: list[Refusal] = []
        for group in groups:
            rest = group.rest()
            if rest is not group:
                refusals.append((group, rest))
            if rest is not None:
                self._backlog.append(rest)
        if refusals:
            self.post(self.reports.on_refused, refusals)

    def _without_applied(self, groups: list[Group]) -> list[Group]:
        """The database may have what waited here: it needs no journal any more."""
        applied = [group for group in groups if group.end <= self.binder.applied]
        if not applied:
            return groups
        self.post(self.reports.on_durable, applied)
        return [group for group in groups if group.end > self.binder.applied]

    def _open_segment(self) -> SegmentFile:
        segment = self._segment
        if segment.is_over or segment.size >= self._segment_bytes:
            self._segment = self._make_segment()
            self._segment.end = segment.end  # never before an older one's: they are removed in order
            self.binder.full.append(segment)
        return self._segment

    def _make_segment(self) -> SegmentFile:
        self._number += 1
        return SegmentFile.make(self._folder, self._instance, self._number)
