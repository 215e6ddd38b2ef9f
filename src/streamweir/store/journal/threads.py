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

_MAX_WRITE_BYTES = 1 << 20
"""With one call: of a long backlog all that the disk still takes gets written."""
_FIRST_RETRY_S, _MAX_RETRY_S = 0.1, 2.0
_SYNC_DELAY_S = 0.002
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

    def on_failed(self, operation: str, error: OSError, /) -> None:
        """`write` or `sync`. Until `on_recovered` says the same."""
        ...

    def on_recovered(self, operation: str, /) -> None:
        """Also of what had not failed."""
        ...

    def on_ended(self, lost: int, is_fault: bool, /) -> None:
        """After this nothing is reported. `lost` entries had to be written and were not."""
        ...


class _Written(NamedTuple):
    segment: SegmentFile
    groups: list[Group]


class _FailedSync(NamedTuple):
    groups: list[Group]
    failures: int


Item = TypeVar("Item")


class _Worker(ABC, Generic[Item]):
    """A thread and what it is given to do; None is its end."""

    def __init__(self, name: str, reports: Reports) -> None:
        self.reports = reports
        self.queue: SimpleQueue[Item | None] = SimpleQueue()
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
            self.queue.put(None)  # the event loop was closed before us: nobody is left to hear it

    def take(self, timeout_s: float | None = None) -> list[Item | None]:
        """All that is there; waits for the first, and at most so long."""
        try:
            taken = [self.queue.get(timeout=timeout_s)]
        except Empty:
            return []
        taken.extend([self.queue.get() for _ in range(self.queue.qsize())])
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
    """`full_segments`: the segments before the one that is written, the oldest first. It alone takes from it."""

    def __init__(self, reports: Reports) -> None:
        super().__init__("journal-sync", reports)
        self.applied = 0
        """Up to here all is in the database. Set by the event loop."""
        self.full_segments: deque[SegmentFile] = deque()
        self.failed_syncs: SimpleQueue[Group | _FailedSync | None] | None = None
        """Where groups go whose sync failed; None while nobody can write them again."""
        self.lost = 0
        self._failures = 0

    def work(self) -> None:
        is_ending = False
        while not is_ending:
            by_segment: dict[SegmentFile, list[Group]] = {}
            for item in self.take():
                if isinstance(item, _Written):
                    by_segment.setdefault(item.segment, []).extend(item.groups)
                elif item is None:
                    is_ending = True
            for segment, groups in by_segment.items():
                self._sync(segment, groups)
            while self.full_segments and self.full_segments[0].end <= self.applied:
                self.full_segments.popleft().remove()
        while self.full_segments:
            self.full_segments.popleft().release()
        self.post(self.reports.on_ended, self.lost, False)

    def _sync(self, segment: SegmentFile, groups: list[Group]) -> None:
        if not segment.is_removed:  # else the database has them
            if not segment.has_failed_sync:
                try:
                    segment.sync()
                except OSError as error:
                    self._failures += 1
                    self.post(self.reports.on_failed, "sync", error)
            if segment.has_failed_sync:
                if self.failed_syncs is not None:
                    self.failed_syncs.put(_FailedSync(groups, self._failures))
                return
            if self._failures:
                self._failures = 0
                self.post(self.reports.on_recovered, "sync")
        self.post(self.reports.on_durable, groups)


class WriterThread(_Worker[Group | _FailedSync]):
    """Makes its first segment at once: OSError where it cannot."""

    def __init__(self, folder: Path, instance: str, segment_bytes: int, reports: Reports) -> None:
        super().__init__("journal-write", reports)
        self.sync_thread = SyncThread(reports)
        self.sync_thread.failed_syncs = self.queue
        self.retry_at = 0.0
        """By the monotonic clock: before this nothing is tried. 0 while all is well."""
        self._folder = folder
        self._instance = instance
        self._segment_bytes = segment_bytes
        self._backlog: list[Group] = []
        self._unsynced: list[_Written] = []
        """For the binder, at `_sync_at`."""
        self._sync_at = 0.0
        self._failures = 0
        self._number = 0
        self._segment = self._make_segment()
        self._segment.sync()

    def work(self) -> None:
        is_ending = False
        while not is_ending:
            groups: list[Group] = []
            for item in self.take(self._wait_s()):
                if isinstance(item, Group):
                    groups.append(item)
                elif item is None:
                    is_ending = True
                else:
                    self._backlog += item.groups
                    self._schedule_retry(item.failures)
            if self.retry_at and self.retry_at > time.monotonic() and not is_ending:
                self._keep_required(groups)
            else:
                groups, self._backlog = self._backlog + groups, []
                if self.retry_at:
                    groups = self._drop_applied(groups)
                if groups:
                    self._write(groups)
                elif self.retry_at and not is_ending:
                    self._probe()
            if self._unsynced and (is_ending or self._sync_at <= time.monotonic()):
                for written in self._unsynced:
                    self.sync_thread.queue.put(written)
                self._unsynced.clear()
        self.sync_thread.lost = sum(len(group.handles) for group in self._backlog)
        self.sync_thread.failed_syncs = None
        self.sync_thread.full_segments.append(self._segment)
        self.sync_thread.queue.put(None)

    def _wait_s(self) -> float | None:
        """For how long nothing is to be done, unless something comes. None: without end."""
        due = []
        if self._backlog or self.retry_at:
            due.append(self.retry_at)
        if self._unsynced:
            due.append(self._sync_at)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _write(self, groups: list[Group]) -> None:
        """In as few calls as may be."""
        while groups:
            size, count = 0, 0
            while count < len(groups) and size < _MAX_WRITE_BYTES:
                size += groups[count].size
                count += 1
            chunk = groups[:count]
            try:
                segment = self._open_segment()
                segment.write(b"".join([frame for group in chunk for frame in group.frames]))
            except OSError as error:
                self._fail(error)
                self._keep_required(groups)
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
            if not self._unsynced:
                self._sync_at = time.monotonic() + _SYNC_DELAY_S
            self._unsynced.append(_Written(segment, to_sync))

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
        self._schedule_retry(self._failures)
        self.post(self.reports.on_failed, "write", error)

    def _schedule_retry(self, failures: int) -> None:
        self.retry_at = time.monotonic() + min(_MAX_RETRY_S, _FIRST_RETRY_S * 2 ** (failures - 1))

    def _keep_required(self, groups: list[Group]) -> None:
        """What must be written is kept; of the rest it is said that it will not be."""
        refusals: list[Refusal] = []
        for group in groups:
            retried = group.required_part()
            if retried is not group:
                refusals.append((group, retried))
            if retried is not None:
                self._backlog.append(retried)
        if refusals:
            self.post(self.reports.on_refused, refusals)

    def _drop_applied(self, groups: list[Group]) -> list[Group]:
        """The database may have what waited here: it needs no journal any more."""
        applied = [group for group in groups if group.end <= self.sync_thread.applied]
        if not applied:
            return groups
        self.post(self.reports.on_durable, applied)
        return [group for group in groups if group.end > self.sync_thread.applied]

    def _open_segment(self) -> SegmentFile:
        segment = self._segment
        if segment.is_sealed or segment.size >= self._segment_bytes:
            self._segment = self._make_segment()
            self._segment.end = segment.end  # never before an older one's: they are removed in order
            self.sync_thread.full_segments.append(segment)
        return self._segment

    def _make_segment(self) -> SegmentFile:
        self._number += 1
        return SegmentFile.make(self._folder, self._instance, self._number)
