"""What one gets for an entry of the journal: when it is written, and when it is durable.

    pending -> written (survives a killed process) -> durable (survives a power failure)
            -> refused (the disk did not take it)

The entries of one turn of the event loop form a group and share its fate, so that waiting costs one
object a turn and not one an entry. When a group is refused, those of its entries that must be
written move to a group that is tried again. All of this belongs to the event loop: the threads read
a group's frames and tickets, which do not change any more when it is handed to them, and report.
"""

from asyncio import AbstractEventLoop, Future, TimerHandle, get_running_loop
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from time import monotonic

from msgspec import Struct

from streamweir.store.db.clock import Deadline

_GRACE = 4
"""The part of a limit that is added when it has passed by the clock, in which the event loop must run: a report that
came while it stood still is heard before anybody is told that there is none."""


class JournalUnavailable(Exception):
    """The journal is full, or the disk is: what must be written before it is done cannot be done now."""


class State(IntEnum):
    REFUSED = -1
    PENDING = 0
    WRITTEN = 1
    DURABLE = 2


class WriteHandle(Struct, eq=False):
    """`position` is the end of the entry in all that was ever appended, in bytes."""

    position: int
    group: "Group"
    must: bool

    @property
    def state(self) -> State:
        return self.group.state

    @property
    def is_durable(self) -> bool:
        return self.group.state is State.DURABLE

    async def written(self, limit_s: float | None = None) -> None:
        """Raises JournalUnavailable where it never will be. Who is cancelled here does not know, nor who gets a
        TimeoutError after `limit_s`."""
        group = self.group
        while group.state is State.PENDING:
            await group.change(get_running_loop(), limit_s)
            group = self.group
        if group.state is State.REFUSED:
            raise JournalUnavailable("the journal cannot be written")

    def when_durable(self, call: Callable[[], None]) -> None:
        """`call` is made on the event loop, at once where it is durable already; never where it is refused."""
        if self.group.state is State.DURABLE:
            call()
        else:
            self.group.calls.append((self, call))

    def settle(self) -> None:
        """The database has it. Says something new of an entry that is in no journal: others know by their group."""
        group = self.group
        if group.state is State.PENDING and not group.handles:
            for _, call in group.settle(State.DURABLE):
                call()


class Group:
    """Between the positions `start` and `end`."""

    __slots__ = (
        "_expiry",
        "_impatient",
        "_waiters",
        "calls",
        "end",
        "frames",
        "handles",
        "needs_sync",
        "since",
        "start",
        "state",
        "was_written",
    )

    def __init__(self, start: int) -> None:
        self.frames: list[bytes] = []
        self.handles: list[WriteHandle] = []
        self.start = start
        self.end = start
        self.since = monotonic()
        self.needs_sync = False
        self.state = State.PENDING
        self.was_written = False
        """By the writing thread, which may be asked to write it again."""
        self.calls: list[tuple[WriteHandle, Callable[[], None]]] = []
        self._waiters: list[Future[None]] = []
        self._impatient: list[Future[None]] = []
        self._expiry: TimerHandle | Deadline | None = None

    @property
    def size(self) -> int:
        return self.end - self.start

    def rest(self) -> "Group | None":
        """Those of it that must be written, as a group of their own. The tickets follow by `refuse`."""
        if self.was_written or all(handle.must for handle in self.handles):
            return self
        kept = [pair for pair in zip(self.frames, self.handles, strict=True) if pair[1].must]
        if not kept:
            return None
        rest = Group(self.start)
        rest.since = self.since
        rest.end = self.end
        rest.frames = [frame for frame, _ in kept]
        rest.handles = [handle for _, handle in kept]
        rest.needs_sync = self.needs_sync
        return rest

    def change(self, loop: AbstractEventLoop, limit_s: float | None = None) -> Future[None]:
        """When it is no longer pending, or its entries have moved. Each waits for himself: one may be cancelled.

        `limit_s` is that of the first who has one: those of a group come in the same moment. It is a little longer
        than that: see `_GRACE`.
        """
        waiter = loop.create_future()
        if limit_s is None:
            self._waiters.append(waiter)
            return waiter
        self._impatient.append(waiter)
        if self._expiry is None:
            self._expiry = loop.call_later(limit_s, self._expire, loop, limit_s / _GRACE)
        return waiter

    def settle(self, state: State) -> list[tuple[WriteHandle, Callable[[], None]]]:
        """Written or durable: whoever waits for that goes on. What it returns is to be called."""
        self.state = state
        if self._waiters or self._impatient:
            self._wake()
        if state is not State.DURABLE:
            return []
        calls, self.calls = self.calls, []
        return calls

    def refuse(self, rest: "Group | None") -> None:
        self.state = State.REFUSED
        if rest is not None:
            for handle in rest.handles:
                handle.group = rest
            rest.calls.extend(pair for pair in self.calls if pair[0].must)
        self.forget()
        self.calls = []
        self._wake()

    def forget(self) -> None:
        """Its entries are where they belong and need not be kept in memory."""
        self.frames = []
        self.handles = []

    def _wake(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        waiters, self._waiters, self._impatient = [*self._waiters, *self._impatient], [], []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _expire(self, loop: AbstractEventLoop, grace_s: float) -> None:
        self._expiry = Deadline(loop, grace_s, partial(self._give_up, loop, grace_s))

    def _give_up(self, loop: AbstractEventLoop, grace_s: float) -> None:
        """Nobody knows what becomes of it; whoever asks now waits anew."""
        if self.was_written:  # the report is on its way
            self._expire(loop, grace_s)
            return
        self._expiry = None
        waiters, self._impatient = self._impatient, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(TimeoutError())
