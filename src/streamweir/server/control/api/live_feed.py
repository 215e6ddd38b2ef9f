"""The live feed of running requests: one query for all viewers, and a frame only when something changed.

Each viewer gets the newest state of the requests that it may see, whenever it has read the previous frame; states in
between are skipped. The query is repeated for as long as there are viewers. While the database is unavailable they
are told so, once, and the feed continues when it is back. Whether a viewer still has access is asked repeatedly
(`has_access`); how that is decided is not known here.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Set
from contextlib import aclosing, suppress
from functools import partial

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.core.errors import GatewayFault
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.accounting.intervals import DEFAULT_INTERVALS, Intervals
from streamweir.server.control.api.view import LiveView, view_live
from streamweir.server.http.pressure import retry_after_s
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.requests.live import LiveInstances, OpenRequest, count_open, open_of
from streamweir.wire import jsonio, sse

MAX_VIEWERS = 64
MAX_SHOWN = 200
_FLUSH_S = 1.0
"""For what this process has in its journal to be seen too."""
_OVER = sse.write_event(b"over", b"{}")
_KEEP_ALIVE = sse.write_comment(b"still here")

Reach = str | None
"""A workspace, or all of them."""


class Snapshot(Struct, frozen=True, kw_only=True):
    total: int
    rows: list[OpenRequest]


class LiveEvent(Struct, frozen=True, kw_only=True):
    at_ms: int
    total: int
    """Of all that run; `data` has the newest of them."""
    data: list[LiveView]


class AwayEvent(Struct, frozen=True, kw_only=True):
    at_ms: int


class _State(Struct, frozen=True, eq=False):
    snapshot: Snapshot | None
    """None: the database is away."""
    frame: bytes


class LiveFeed:
    def __init__(
        self,
        store: Store,
        accounting: Accounting,
        *,
        clock_ms: Callable[[], int] = now_ms,
        intervals: Intervals = DEFAULT_INTERVALS,
        max_viewers: int = MAX_VIEWERS,
        background: BackgroundTasks | None = None,
    ) -> None:
        """`background`: who keeps the look-up running; None: nobody is told when that is needed."""
        self._store = store
        self._accounting = accounting
        self._clock_ms = clock_ms
        self._intervals = intervals
        self._max_viewers = max_viewers
        self._viewers: dict[object, Reach] = {}
        self._states: dict[Reach, _State] = {}
        self._background = background or BackgroundTasks()
        self._task: BackgroundTask | None = None
        self._changed = asyncio.Event()
        """Another one after each time that there were some."""
        self._poll_now = asyncio.Event()
        """Somebody came for whom nothing is known yet."""
        self._is_over = False

    def __len__(self) -> int:
        return len(self._viewers)

    def alive(self) -> LiveInstances:
        """Which processes' requests run: what a killed one had open is settled later, and is not shown until then."""
        silent_ms = int(self._intervals.hidden_after_s * 1000)
        return LiveInstances(own=self._accounting.instance, now_ms=self._clock_ms(), silent_ms=silent_ms)

    def why_closed(self) -> GatewayFault | None:
        if self._is_over:
            return GatewayFault("server_shutting_down", "The gateway is shutting down.", retry_after_s=retry_after_s())
        if len(self._viewers) >= self._max_viewers:
            return GatewayFault(
                "overloaded", "Too many live views are open on this process.", retry_after_s=retry_after_s()
            )
        return None

    def end(self) -> None:
        """For good, at once and for all: the process is about to end."""
        self._is_over = True
        self._notify()

    async def watch(self, reach: Reach, has_access: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes, None]:
        """The frames for one who looks on. He has left when this is closed."""
        if self.why_closed() is not None:  # others have come since he was let in
            return
        viewer = object()
        self._viewers[viewer] = reach
        try:
            self._ensure_state(reach)
            async with aclosing(self._frames(reach, has_access)) as frames:
                async for frame in frames:
                    yield frame
        finally:
            del self._viewers[viewer]
            if not self._viewers:
                self._stop()

    async def _frames(self, reach: Reach, has_access: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes, None]:
        loop, shown = asyncio.get_running_loop(), None
        check_at = loop.time() + self._intervals.live_check_s
        while not self._is_over and self._task is not None:
            state = self._states.get(reach)
            if loop.time() >= check_at:
                if not await has_access():
                    yield _OVER
                    return
                check_at = loop.time() + self._intervals.live_check_s
                yield _KEEP_ALIVE
            elif state is not None and state is not shown:
                shown = state
                yield state.frame
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(check_at):
                        await self._changed.wait()

    def _ensure_state(self, reach: Reach) -> None:
        if reach not in self._states:
            self._poll_now.set()
        if self._task is None:
            self._task = self._background.start("live feed", self._run)

    def _stop(self) -> None:
        task, self._task = self._task, None
        self._states = {}
        if task is not None:
            task.cancel()

    async def _run(self) -> None:
        try:
            await self._poll()
        except Exception:  # a bug of ours: what is shown is not the newest any more, and those who look on are told
            away = self._away()
            self._states = dict.fromkeys(self._viewers.values(), away)
            self._notify()
            raise

    async def _poll(self) -> None:
        while True:
            self._poll_now.clear()
            before, self._states = self._states, await self._query()
            if self._states != before:
                self._notify()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._intervals.live_interval_s):
                    await self._poll_now.wait()

    async def _query(self) -> dict[Reach, _State]:
        """The same state where nothing has changed."""
        reaches = set(self._viewers.values())
        try:
            if self._accounting.writer is not None:
                await self._accounting.writer.flush(_FLUSH_S)
            found = await self._store.read(partial(_read, reaches, self.alive()))
        except StoreUnavailable:
            away = self._away()
            return {reach: self._unchanged(reach, None) or away for reach in reaches}
        return {reach: self._unchanged(reach, snapshot) or self._state(snapshot) for reach, snapshot in found.items()}

    def _away(self) -> _State:
        return _State(None, sse.write_event(b"away", jsonio.encode(AwayEvent(at_ms=self._clock_ms()))))

    def _unchanged(self, reach: Reach, snapshot: Snapshot | None) -> _State | None:
        state = self._states.get(reach)
        return state if state is not None and state.snapshot == snapshot else None

    def _state(self, snapshot: Snapshot) -> _State:
        data = [view_live(row) for row in snapshot.rows]
        event = LiveEvent(at_ms=self._clock_ms(), total=snapshot.total, data=data)
        return _State(snapshot, sse.write_event(b"live", jsonio.encode(event)))

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _read(reaches: Set[Reach], alive: LiveInstances, conn: Connection) -> dict[Reach, Snapshot]:
    return {
        reach: Snapshot(total=count_open(conn, reach, alive), rows=open_of(conn, reach, MAX_SHOWN, alive))
        for reach in reaches
    }
