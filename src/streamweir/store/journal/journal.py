"""The journal on the event loop: entries are written to a local file before anything is done because of them.

`append` encodes an entry and returns a `WriteHandle`. The threads of `store.journal.threads` write it (`written`: it
survives a killed process) and sync it if it concerns money (`durable`: it survives a power failure). `applied` reports
that the database has entries, so that their segments can be removed. An entry that cannot be written is refused, at
once or through its handle. A required entry is kept in memory until it is written. This module touches no file.
"""

import errno
import os
from asyncio import AbstractEventLoop, Future, TimerHandle, get_running_loop, timeout
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from streamweir.store.journal.entries import Entry, Progress, Refused
from streamweir.store.journal.files import make_folder
from streamweir.store.journal.frames import encode_frame
from streamweir.store.journal.handle import Group, JournalUnavailable, State, WriteHandle
from streamweir.store.journal.threads import Refusal, WriterThread

ReportEvent = Callable[[str, dict[str, Any]], None]
"""Reports an event to the operator: its name and its details."""

_HAND_OVER_DELAY_S = 0.005
"""An entry without a waiter is handed over with the next one that has a waiter, or after this time, so that it does
not wake the thread."""
_NOT_SYNCED = (Progress, Refused)
"""These entries are written, but not synced: a power failure may lose them, and no money is lost with them."""


class Journal:
    """The journal of a process, used from one event loop. `max_bytes` limits the entries that are not applied yet;
    required entries may exceed it. Counters: `entries`, `groups`, `bytes`, `refused`, `failures`."""

    def __init__(
        self,
        folder: Path,
        instance: str,
        *,
        segment_bytes: int = 8 << 20,
        max_bytes: int = 64 << 20,
        report: ReportEvent = lambda *_: None,
    ) -> None:
        self.entries = self.groups = self.bytes = self.refused = self.failures = 0
        self._folder = folder
        self._instance = instance
        # Segments are removed as a whole: one segment must not use the whole capacity.
        self._segment_bytes = min(segment_bytes, max_bytes // 2)
        self._max_bytes = max_bytes
        self._report = report
        self._writer_thread: WriterThread | None = None
        self._loop: AbstractEventLoop | None = None
        self._open_group: Group | None = None
        self._is_hand_over_scheduled = False
        """The open group has a waiter: it is handed over at the end of this turn of the loop."""
        self._delayed_hand_over: TimerHandle | None = None
        self._unfinished: set[Group] = set()
        self._buffered_bytes = 0
        """Bytes in memory that are not written, or not durable."""
        self._applied = 0
        self._failing: dict[str, str] = {}
        """The failing operations, and the reasons."""
        self._ended: Future[None] | None = None
        self._is_closed = False
        self.on_state: Callable[[str | None], None] = lambda _: None
        """Called with the reason when the journal can no longer be written, and with None when it can again. After a
        bug that ended its threads it cannot recover."""

    def open(self) -> None:
        """Creates and locks the first file. Raises OSError if that fails. Blocks: for the start of the program."""
        make_folder(self._folder)
        self._writer_thread = WriterThread(self._folder, self._instance, self._segment_bytes, self)

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def is_failing(self) -> bool:
        """Writes fail: new requests should be refused."""
        return bool(self._failing) or self._is_closed

    @property
    def unapplied_bytes(self) -> int:
        return self.bytes - self._applied

    @property
    def is_half_full(self) -> bool:
        return 2 * self.unapplied_bytes >= self._max_bytes

    def append(self, entry: Entry, *, required: bool = False) -> WriteHandle:
        """Raises JournalUnavailable if the journal is full or the disk fails, unless the entry is required."""
        if not required:
            self._check_capacity()
        elif self._is_closed:
            raise JournalUnavailable("the journal is closed")  # or has failed for good
        frame = encode_frame(entry)
        skips_sync = type(entry) in _NOT_SYNCED
        group = self._open_group or self._begin_group()
        if not required and not skips_sync:
            if not self._is_hand_over_scheduled:
                self._is_hand_over_scheduled = True
                (self._loop or self._start()).call_soon(self._hand_over)
        elif self._delayed_hand_over is None and not self._is_hand_over_scheduled:
            self._delayed_hand_over = (self._loop or self._start()).call_later(_HAND_OVER_DELAY_S, self._hand_over)
        self.bytes = position = self.bytes + len(frame)
        handle = WriteHandle(position, group, required)
        group.frames.append(frame)
        group.handles.append(handle)
        group.needs_sync |= not skips_sync
        return handle

    def applied(self, position: int) -> None:
        """The database has all entries up to here (`WriteHandle.position`): they are durable, and their segments can be
        removed."""
        self._applied = position
        if self._writer_thread is not None:
            sync_thread = self._writer_thread.sync_thread
            sync_thread.applied = position
            if sync_thread.full_segments:
                sync_thread.queue.put(True)
        slow = [group for group in self._unfinished if group.state is State.WRITTEN and group.end <= position]
        if slow:
            self.on_durable(slow)

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Writes and syncs the remaining entries, and removes applied files. False: not in time."""
        writer_thread = self._writer_thread
        if writer_thread is None or self._is_closed:
            return True
        self._is_closed = True
        if self._loop is None:
            self._start()
        self._hand_over()
        self._ended = get_running_loop().create_future()
        writer_thread.queue.put(None)
        try:
            async with timeout(timeout_s):
                await self._ended
        except TimeoutError:
            self._report("journal_stuck", {"entries": sum(len(group.handles) for group in self._unfinished)})
            return False
        writer_thread.thread.join()
        writer_thread.sync_thread.thread.join()
        return True

    def _check_capacity(self) -> None:
        if self._is_closed:
            raise JournalUnavailable("the journal is closed")
        if self.bytes - self._applied >= self._max_bytes or self._buffered_bytes >= self._max_bytes:
            self.refused += 1
            raise JournalUnavailable("the journal is full")
        # From `retry_at` on, the next entry is accepted: it shows whether the disk works again.
        if self._failing and self._writer_thread is not None and monotonic() < self._writer_thread.retry_at:
            self.refused += 1
            raise JournalUnavailable("the journal cannot be written")

    def _begin_group(self) -> Group:
        group = self._open_group = Group(self.bytes)
        self._unfinished.add(group)
        return group

    def _start(self) -> AbstractEventLoop:
        if self._writer_thread is None:
            raise RuntimeError("the journal is not open")
        self._loop = loop = get_running_loop()
        self._writer_thread.start(loop)
        self._writer_thread.sync_thread.start(loop)
        return loop

    def _hand_over(self) -> None:
        group, self._open_group = self._open_group, None
        self._is_hand_over_scheduled = False
        if self._delayed_hand_over is not None:
            self._delayed_hand_over.cancel()
            self._delayed_hand_over = None
        if group is not None and self._writer_thread is not None:
            group.end = self.bytes
            self.entries += len(group.frames)
            self.groups += 1
            self._buffered_bytes += group.size
            self._writer_thread.queue.put(group)

    def on_written(self, groups: list[Group], /) -> None:
        for group in groups:
            if group.state is not State.DURABLE:  # one that is written again
                group.set_state(State.WRITTEN)
            if not group.needs_sync:
                self._finish(group)

    def on_durable(self, groups: list[Group], /) -> None:
        callbacks: list[Callable[[], None]] = []
        for group in groups:
            callbacks += [call for _, call in group.set_state(State.DURABLE)]
            self._finish(group)
        if callbacks:
            callbacks.reverse()
            self._run_callbacks(callbacks)

    def on_refused(self, refusals: list[Refusal], /) -> None:
        for group, retried in refusals:
            self.refused += len(group.handles) - (0 if retried is None else len(retried.handles))
            group.refuse(retried)
            self._finish(group)
            if retried is not None:
                self._unfinished.add(retried)
                self._buffered_bytes += retried.size

    def on_failed(self, operation: str, error: OSError, /) -> None:
        self.failures += 1
        if operation not in self._failing:
            self._failing[operation] = os.strerror(error.errno) if error.errno else str(error)
            self._report(
                "journal_failing", {"what": operation, "error": errno.errorcode.get(error.errno or 0, str(error))}
            )
            self._report_state()

    def on_recovered(self, operation: str, /) -> None:
        if self._failing.pop(operation, None) is not None:
            self._report("journal_recovered", {"what": operation})
            self._report_state()

    def _report_state(self) -> None:
        reason = next(iter(self._failing.values()), None)
        self.on_state(None if reason is None else f"the journal cannot be written: {reason}")

    def on_ended(self, lost: int, is_fault: bool, /) -> None:
        self._is_closed = True
        for group in list(self._unfinished):
            if group.state is State.PENDING:
                group.refuse(None)
                self._finish(group)
        if lost:
            self._report("journal_lost", {"entries": lost})
        if is_fault:
            self._failing["fault"] = "a fault"
            self._report("journal_fault", {})
            self.on_state("the journal has failed: restart this process")
            if self._writer_thread is not None:  # ends the other thread
                self._writer_thread.queue.put(None)
                self._writer_thread.sync_thread.queue.put(None)
        elif self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _finish(self, group: Group) -> None:
        if group in self._unfinished:
            self._unfinished.discard(group)
            self._buffered_bytes -= group.size
        group.discard_entries()

    def _run_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        """Calls them from the last to the first. If one raises, the others are called all the same."""
        try:
            while callbacks:
                callbacks.pop()()
        finally:
            if callbacks and self._loop is not None:
                self._loop.call_soon(self._run_callbacks, callbacks)
