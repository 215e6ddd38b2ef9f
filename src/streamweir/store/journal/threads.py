"""The two threads of a journal: the `WriterThread` writes entries, the `SyncThread` syncs and removes segments.

The writer thread takes all groups that were handed over since its last write and writes them with one call. The sync
thread syncs, so that a write never waits for the disk; it alone closes files. Neither knows what an entry means.

If a write fails, required entries are kept and tried again with increasing pauses, and all others are refused. If
there are no required entries, the disk is probed with the same pauses, because there may be no further write that
shows its recovery. If a sync fails, it is not known what the disk has: a new segment is started, and all groups that
were not durable are written to it again. Results are reported on the event loop (`Reports`), once for all groups of a
write.
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
"""Of one write. A long backlog is written in parts, so that a nearly full disk accepts some of them."""
_FIRST_RETRY_S, _MAX_RETRY_S = 0.1, 2.0
_SYNC_DELAY_S = 0.002
"""The pause between a write and its sync, so that one sync serves several writes. It delays the first byte to the
caller, which waits for the upstream anyway; a sync per group cost half as much again as everything else here. The sync
thread is woken after the pause, because waking it twice would take time from the event loop."""

Refusal = tuple[Group, Group | None]


class Reports(Protocol):
    """Callbacks, all called on the event loop."""

    def on_written(self, groups: list[Group], /) -> None: ...

    def on_durable(self, groups: list[Group], /) -> None: ...

    def on_refused(self, refusals: list[Refusal], /) -> None:
        """Each refused group with the group of its entries that are tried again."""
        ...

    def on_failed(self, operation: str, error: OSError, /) -> None:
        """`operation`: `write` or `sync`. It fails until `on_recovered`."""
        ...

    def on_recovered(self, operation: str, /) -> None:
        """May also be called if nothing had failed."""
        ...

    def on_ended(self, lost: int, is_fault: bool, /) -> None:
        """The last report. `lost`: the number of required entries that were not written."""
        ...


class _Written(NamedTuple):
    segment: SegmentFile
    groups: list[Group]


class _FailedSync(NamedTuple):
    groups: list[Group]
    failures: int


Item = TypeVar("Item")


class _Worker(ABC, Generic[Item]):
    """A thread with a queue of work; None in the queue ends it."""

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
            self.queue.put(None)  # the event loop is closed: no report can be delivered

    def take(self, timeout_s: float | None = None) -> list[Item | None]:
        """All items of the queue. Waits for the first one, at most `timeout_s`."""
        try:
            taken = [self.queue.get(timeout=timeout_s)]
        except Empty:
            return []
        taken.extend([self.queue.get() for _ in range(self.queue.qsize())])
        return taken

    @abstractmethod
    def work(self) -> None:
        """Runs until None is in the queue."""

    def _run(self) -> None:
        is_done = False
        try:
            self.work()
            is_done = True
        finally:
            if not is_done:  # the exception is printed; the report ends all waits
                self.post(self.reports.on_ended, 0, True)


class SyncThread(_Worker[_Written | bool]):
    """`full_segments`: the segments before the current one, the oldest first. Only this thread removes them."""

    def __init__(self, reports: Reports) -> None:
        super().__init__("journal-sync", reports)
        self.applied = 0
        """The database has all entries up to this position. Set by the event loop."""
        self.full_segments: deque[SegmentFile] = deque()
        self.failed_syncs: SimpleQueue[Group | _FailedSync | None] | None = None
        """The queue for groups whose sync failed; None if they cannot be written again."""
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
        if not segment.is_removed:  # a removed one is in the database
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
    """Creates its first segment at once. Raises OSError if that fails."""

    def __init__(self, folder: Path, instance: str, segment_bytes: int, reports: Reports) -> None:
        super().__init__("journal-write", reports)
        self.sync_thread = SyncThread(reports)
        self.sync_thread.failed_syncs = self.queue
        self.retry_at = 0.0
        """The time of the next attempt, by the monotonic clock. 0: the disk works."""
        self._folder = folder
        self._instance = instance
        self._segment_bytes = segment_bytes
        self._backlog: list[Group] = []
        self._unsynced: list[_Written] = []
        """For the sync thread, at `_sync_at`."""
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
        """The time until the next action, if nothing is handed over. None: no limit."""
        due = []
        if self._backlog or self.retry_at:
            due.append(self.retry_at)
        if self._unsynced:
            due.append(self._sync_at)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _write(self, groups: list[Group]) -> None:
        """With as few calls as possible."""
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
        """There is nothing to write: checks whether the disk works again.

        Failures are counted until an entry is written, because a disk may accept the probe and not an entry.
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
        """Keeps the required entries, and reports the others as refused."""
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
        """Drops groups that the database already has: they need not be written."""
        applied = [group for group in groups if group.end <= self.sync_thread.applied]
        if not applied:
            return groups
        self.post(self.reports.on_durable, applied)
        return [group for group in groups if group.end > self.sync_thread.applied]

    def _open_segment(self) -> SegmentFile:
        segment = self._segment
        if segment.is_sealed or segment.size >= self._segment_bytes:
            self._segment = self._make_segment()
            self._segment.end = segment.end  # never less than the previous one's: segments are removed in order
            self.sync_thread.full_segments.append(segment)
        return self._segment

    def _make_segment(self) -> SegmentFile:
        self._number += 1
        return SegmentFile.make(self._folder, self._instance, self._number)
