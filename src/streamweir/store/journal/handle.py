"""The write handle of a journal entry: it tells when the entry is written, and when it is durable.

    pending -> written (survives a killed process) -> durable (survives a power failure)
            -> refused (the disk did not accept it)

The entries of one turn of the event loop form a group and share its state, so that there is one object to wait for
per turn, not one per entry. When a group is refused, its required entries move to a group that is tried again.
Groups are changed on the event loop only. The threads read the frames and handles of a group, which do not change
after the group was handed over, and report results.
"""

from asyncio import AbstractEventLoop, Future, TimerHandle, get_running_loop
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from time import monotonic

from msgspec import Struct

from streamweir.store.db.clock import Deadline

_GRACE = 4
"""When a time limit has passed by the clock, a quarter of it is added, in which the event loop must run. So a report
that arrived while the loop was blocked is processed before the wait is given up."""


class JournalUnavailable(Exception):
    """The journal or the disk is full: an action that needs a journal entry first cannot be done now."""


class State(IntEnum):
    REFUSED = -1
    PENDING = 0
    WRITTEN = 1
    DURABLE = 2


class WriteHandle(Struct, eq=False):
    """`position` is the end of the entry, in bytes from the start of the journal. `required`: the entry must be written
    in any case, so it is kept in memory and tried again."""

    position: int
    group: "Group"
    required: bool

    @property
    def state(self) -> State:
        return self.group.state

    @property
    def is_durable(self) -> bool:
        return self.group.state is State.DURABLE

    async def written(self, limit_s: float | None = None) -> None:
        """Waits until the entry is written. Raises JournalUnavailable if it is refused, TimeoutError after `limit_s`.
        After a timeout or a cancellation it is not known whether the entry will be written."""
        group = self.group
        while group.state is State.PENDING:
            await group.change_future(get_running_loop(), limit_s)
            group = self.group
        if group.state is State.REFUSED:
            raise JournalUnavailable("the journal cannot be written")

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Calls `callback` on the event loop: at once if the entry is already durable, never if it is refused."""
        if self.group.state is State.DURABLE:
            callback()
        else:
            self.group.callbacks.append((self, callback))

    def mark_applied(self) -> None:
        """The database has the entry. Changes only an entry without a journal: others have their group's state."""
        group = self.group
        if group.state is State.PENDING and not group.handles:
            for _, callback in group.set_state(State.DURABLE):
                callback()


class Group:
    """Between the positions `start` and `end`."""

    __slots__ = (
        "_timed_waiters",
        "_timer",
        "_waiters",
        "callbacks",
        "created_at",
        "end",
        "frames",
        "handles",
        "needs_sync",
        "start",
        "state",
        "was_written",
    )

    def __init__(self, start: int) -> None:
        self.frames: list[bytes] = []
        self.handles: list[WriteHandle] = []
        self.start = start
        self.end = start
        self.created_at = monotonic()
        self.needs_sync = False
        self.state = State.PENDING
        self.was_written = False
        """Set by the writer thread, which may have to write the group again."""
        self.callbacks: list[tuple[WriteHandle, Callable[[], None]]] = []
        self._waiters: list[Future[None]] = []
        self._timed_waiters: list[Future[None]] = []
        self._timer: TimerHandle | Deadline | None = None

    @property
    def size(self) -> int:
        return self.end - self.start

    def required_part(self) -> "Group | None":
        """The required entries as a group of their own. `refuse` moves their handles to it."""
        if self.was_written or all(handle.required for handle in self.handles):
            return self
        kept = [pair for pair in zip(self.frames, self.handles, strict=True) if pair[1].required]
        if not kept:
            return None
        required_part = Group(self.start)
        required_part.created_at = self.created_at
        required_part.end = self.end
        required_part.frames = [frame for frame, _ in kept]
        required_part.handles = [handle for _, handle in kept]
        required_part.needs_sync = self.needs_sync
        return required_part

    def change_future(self, loop: AbstractEventLoop, limit_s: float | None = None) -> Future[None]:
        """A future that is done when the group is no longer pending, or its entries have moved. There is one per
        waiter, because a waiter may be cancelled.

        The first `limit_s` is used for all waiters of the group, which start in the same turn. `_GRACE` is added to it.
        """
        waiter = loop.create_future()
        if limit_s is None:
            self._waiters.append(waiter)
            return waiter
        self._timed_waiters.append(waiter)
        if self._timer is None:
            self._timer = loop.call_later(limit_s, self._start_grace, loop, limit_s / _GRACE)
        return waiter

    def set_state(self, state: State) -> list[tuple[WriteHandle, Callable[[], None]]]:
        """Written or durable: wakes the waiters. The caller must call the callbacks that it returns."""
        self.state = state
        if self._waiters or self._timed_waiters:
            self._wake()
        if state is not State.DURABLE:
            return []
        callbacks, self.callbacks = self.callbacks, []
        return callbacks

    def refuse(self, required_part: "Group | None") -> None:
        self.state = State.REFUSED
        if required_part is not None:
            for handle in required_part.handles:
                handle.group = required_part
            required_part.callbacks.extend(pair for pair in self.callbacks if pair[0].required)
        self.discard_entries()
        self.callbacks = []
        self._wake()

    def discard_entries(self) -> None:
        """The entries are stored, or have moved: they need not be kept in memory."""
        self.frames = []
        self.handles = []

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiters, self._waiters, self._timed_waiters = [*self._waiters, *self._timed_waiters], [], []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _start_grace(self, loop: AbstractEventLoop, grace_s: float) -> None:
        self._timer = Deadline(loop, grace_s, partial(self._time_out, loop, grace_s))

    def _time_out(self, loop: AbstractEventLoop, grace_s: float) -> None:
        """Ends the waits that have a time limit. The group stays pending, and can be waited for again."""
        if self.was_written:  # its report will arrive
            self._start_grace(loop, grace_s)
            return
        self._timer = None
        waiters, self._timed_waiters = self._timed_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(TimeoutError())
