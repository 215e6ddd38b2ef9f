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

Tell = Callable[[str, dict[str, Any]], None]
"""What an operator should know: the name of a fact, and its details."""

_LAZY_S = 0.005
"""What nobody waits for goes with the next that somebody does, or after this: a thread is not woken for it."""
_SLACK = (Progress, Refused)
"""Nothing is lost with the money when a power failure takes these: they are written, not synced."""


class Journal:
    """One of a process, used from one event loop. `most_bytes` bounds what is not applied yet; what must be
    written goes beyond it. Counters: `entries`, `groups`, `bytes`, `refused`, `failures`."""

    def __init__(
        self,
        folder: Path,
        instance: str,
        *,
        segment_bytes: int = 8 << 20,
        most_bytes: int = 64 << 20,
        tell: Tell = lambda *_: None,
    ) -> None:
        self.entries = self.groups = self.bytes = self.refused = self.failures = 0
        self._folder = folder
        self._instance = instance
        # A segment goes as a whole: one that held all the room would never leave any.
        self._segment_bytes = min(segment_bytes, most_bytes // 2)
        self._most_bytes = most_bytes
        self._tell = tell
        self._scribe: WriterThread | None = None
        self._loop: AbstractEventLoop | None = None
        self._open_group: Group | None = None
        self._is_due = False
        """The open group is handed over at the end of this turn of the loop: somebody waits for it."""
        self._lazily: TimerHandle | None = None
        self._unfinished: set[Group] = set()
        self._kept_bytes = 0
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
        self._scribe = WriterThread(self._folder, self._instance, self._segment_bytes, self)

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
        return 2 * self.unapplied_bytes >= self._most_bytes

    def append(self, entry: Entry, *, must: bool = False) -> WriteHandle:
        """Raises JournalUnavailable where there is no room or the disk fails, unless it must be written."""
        if not must:
            self._check_room()
        elif self._is_closed:
            raise JournalUnavailable("the journal is closed")  # or has failed for good
        frame = encode_frame(entry)
        is_slack = type(entry) in _SLACK
        group = self._open_group or self._begin_group()
        if not must and not is_slack:
            if not self._is_due:
                self._is_due = True
                (self._loop or self._start()).call_soon(self._hand_over)
        elif self._lazily is None and not self._is_due:
            self._lazily = (self._loop or self._start()).call_later(_LAZY_S, self._hand_over)
        self.bytes = position = self.bytes + len(frame)
        handle = WriteHandle(position, group, must)
        group.frames.append(frame)
        group.handles.append(handle)
        group.needs_sync |= not is_slack
        return handle

    def applied(self, position: int) -> None:
        """All up to here (`WriteHandle.position`) is in the database: it is durable there, and segments before it
        go."""
        self._applied = position
        if self._scribe is not None:
            binder = self._scribe.binder
            binder.applied = position
            if binder.full:
                binder.given.put(True)
        slow = [group for group in self._unfinished if group.state is State.WRITTEN and group.end <= position]
        if slow:
            self.on_durable(slow)

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Writes and syncs what is left; files of which all is applied are removed. False: not in time."""
        scribe = self._scribe
        if scribe is None or self._is_closed:
            return True
        self._is_closed = True
        if self._loop is None:
            self._start()
        self._hand_over()
        self._ended = get_running_loop().create_future()
        scribe.given.put(None)
        try:
            async with timeout(timeout_s):
                await self._ended
        except TimeoutError:
            self._tell("journal_stuck", {"entries": sum(len(group.handles) for group in self._unfinished)})
            return False
        scribe.thread.join()
        scribe.binder.thread.join()
        return True

    def _check_room(self) -> None:
        if self._is_closed:
            raise JournalUnavailable("the journal is closed")
        if self.bytes - self._applied >= self._most_bytes or self._kept_bytes >= self._most_bytes:
            self.refused += 1
            raise JournalUnavailable("the journal is full")
        # When the time has come, whoever comes next may be the one to find out that the disk takes it again.
        if self._failing and self._scribe is not None and monotonic() < self._scribe.retry_at:
            self.refused += 1
            raise JournalUnavailable("the journal cannot be written")

    def _begin_group(self) -> Group:
        group = self._open_group = Group(self.bytes)
        self._unfinished.add(group)
        return group

    def _start(self) -> AbstractEventLoop:
        if self._scribe is None:
            raise RuntimeError("the journal is not open")
        self._loop = loop = get_running_loop()
        self._scribe.start(loop)
        self._scribe.binder.start(loop)
        return loop

    def _hand_over(self) -> None:
        group, self._open_group = self._open_group, None
        self._is_due = False
        if self._lazily is not None:
            self._lazily.cancel()
            self._lazily = None
        if group is not None and self._scribe is not None:
            group.end = self.bytes
            self.entries += len(group.frames)
            self.groups += 1
            self._kept_bytes += group.size
            self._scribe.given.put(group)

    def on_written(self, groups: list[Group], /) -> None:
        for group in groups:
            if group.state is not State.DURABLE:  # one that is written again
                group.settle(State.WRITTEN)
            if not group.needs_sync:
                self._finish(group)

    def on_durable(self, groups: list[Group], /) -> None:
        calls: list[Callable[[], None]] = []
        for group in groups:
            calls += [call for _, call in group.settle(State.DURABLE)]
            self._finish(group)
        if calls:
            calls.reverse()
            self._call(calls)

    def on_refused(self, refusals: list[Refusal], /) -> None:
        for group, rest in refusals:
            self.refused += len(group.handles) - (0 if rest is None else len(rest.handles))
            group.refuse(rest)
            self._finish(group)
            if rest is not None:
                self._unfinished.add(rest)
                self._kept_bytes += rest.size

    def on_failed(self, what: str, error: OSError, /) -> None:
        self.failures += 1
        if what not in self._failing:
            self._failing[what] = os.strerror(error.errno) if error.errno else str(error)
            self._tell("journal_failing", {"what": what, "error": errno.errorcode.get(error.errno or 0, str(error))})
            self._tell_state()

    def on_recovered(self, what: str, /) -> None:
        if self._failing.pop(what, None) is not None:
            self._tell("journal_recovered", {"what": what})
            self._tell_state()

    def _tell_state(self) -> None:
        reason = next(iter(self._failing.values()), None)
        self.on_state(None if reason is None else f"the journal cannot be written: {reason}")

    def on_ended(self, lost: int, is_fault: bool, /) -> None:
        self._is_closed = True
        for group in list(self._unfinished):
            if group.state is State.PENDING:
                group.refuse(None)
                self._finish(group)
        if lost:
            self._tell("journal_lost", {"entries": lost})
        if is_fault:
            self._failing["fault"] = "a fault"
            self._tell("journal_fault", {})
            self.on_state("the journal has failed: restart this process")
            if self._scribe is not None:  # for the thread that is left
                self._scribe.given.put(None)
                self._scribe.binder.given.put(None)
        elif self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _finish(self, group: Group) -> None:
        if group in self._unfinished:
            self._unfinished.discard(group)
            self._kept_bytes -= group.size
        group.forget()

    def _call(self, calls: list[Callable[[], None]]) -> None:
        """One after the other, the last first; what one of them raises does not concern the others."""
        try:
            while calls:
                calls.pop()()
        finally:
            if calls and self._loop is not None:
                self._loop.call_soon(self._call, calls)
