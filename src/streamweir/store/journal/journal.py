"""Where everything is written down first: entries go to a local file before anything is done on their word.

The event loop's side. `append` makes a frame of an entry and gives a `WriteHandle`; the threads of
`store.journal.threads` write it (`written`: it survives a killed process) and sync it (`durable`: it survives
a power failure) where money hangs on it. When the database has an entry, `applied` lets its segment
go. What cannot be taken is refused at once or through the ticket, except what must be written: that
stays in memory until it is. It never touches a file, and does not know what becomes of an entry.
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
"""What an operator should know: the name of a fact, and its details."""

_HAND_OVER_DELAY_S = 0.005
"""What nobody waits for goes with the next that somebody does, or after this: a thread is not woken for it."""
_NOT_SYNCED = (Progress, Refused)
"""Nothing is lost with the money when a power failure takes these: they are written, not synced."""


class Journal:
    """One of a process, used from one event loop. `max_bytes` bounds what is not applied yet; what must be
    written goes beyond it. Counters: `entries`, `groups`, `bytes`, `refused`, `failures`."""

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
        # A segment goes as a whole: one that held all the room would never leave any.
        self._segment_bytes = min(segment_bytes, max_bytes // 2)
        self._max_bytes = max_bytes
        self._report = report
        self._writer_thread: WriterThread | None = None
        self._loop: AbstractEventLoop | None = None
        self._open_group: Group | None = None
        self._is_hand_over_scheduled = False
        """The open group is handed over at the end of this turn of the loop: somebody waits for it."""
        self._delayed_hand_over: TimerHandle | None = None
        self._unfinished: set[Group] = set()
        self._buffered_bytes = 0
        """In memory: not written, or not durable."""
        self._applied = 0
        self._failing: dict[str, str] = {}
        """What does not work, and why."""
        self._ended: Future[None] | None = None
        self._is_closed = False
        self.on_state: Callable[[str | None], None] = lambda _: None
        """Called with the reason when it cannot be written any more, and with None when it can again. After a fault
        of ours, which ends its threads, it never can."""

    def open(self) -> None:
        """Makes and locks its first file: OSError where it cannot. Blocks: for the start."""
        make_folder(self._folder)
        self._writer_thread = WriterThread(self._folder, self._instance, self._segment_bytes, self)

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def is_failing(self) -> bool:
        """The disk does not take what is to be written: new requests are better refused."""
        return bool(self._failing) or self._is_closed

    @property
    def unapplied_bytes(self) -> int:
        return self.bytes - self._applied

    @property
    def is_half_full(self) -> bool:
        return 2 * self.unapplied_bytes >= self._max_bytes

    def append(self, entry: Entry, *, required: bool = False) -> WriteHandle:
        """Raises JournalUnavailable where there is no room or the disk fails, unless it must be written."""
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
        """All up to here (`WriteHandle.position`) is in the database: it is durable there, and segments before it
        go."""
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
        """Writes and syncs what is left; files of which all is applied are removed. False: not in time."""
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
        # When the time has come, whoever comes next may be the one to find out that the disk takes it again.
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
            if self._writer_thread is not None:  # for the thread that is left
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
        """One after the other, the last first; what one of them raises does not concern the others."""
        try:
            while callbacks:
                callbacks.pop()()
        finally:
            if callbacks and self._loop is not None:
                self._loop.call_soon(self._run_callbacks, callbacks)
