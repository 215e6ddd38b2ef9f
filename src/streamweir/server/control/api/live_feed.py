"""The live feed of running requests: one query for all viewers, and a frame only when something changed.

Each viewer gets the newest state of the requests that it may see, whenever it has read the previous frame; states in
between are skipped. The query is repeated for as long as there are viewers. While the database is unavailable they get
one event about that, and the feed continues when it is available again. `has_access` is called repeatedly to check
whether a viewer still has access.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Set
from contextlib import aclosing, suppress
from functools import partial
from typing import NamedTuple

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
"""Timeout for writing this process's journal to the database before a query."""
_OVER = sse.write_event(b"over", b"{}")
_KEEP_ALIVE = sse.write_comment(b"still here")


class LiveScope(NamedTuple):
    """What a viewer is shown."""

    workspace_id: str | None
    """None: all of them."""
    sees_cost: bool


class Snapshot(Struct, frozen=True, kw_only=True):
    total: int
    rows: list[OpenRequest]


class LiveEvent(Struct, frozen=True, kw_only=True):
    at_ms: int
    total: int
    """The number of all running requests; `data` has the newest of them."""
    data: list[LiveView]


class UnavailableEvent(Struct, frozen=True, kw_only=True):
    at_ms: int


class _State(Struct, frozen=True, eq=False):
    snapshot: Snapshot | None
    """None: the database is unavailable."""
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
        """`background` keeps the query running; None: it is not restarted after a fault."""
        self._store = store
        self._accounting = accounting
        self._clock_ms = clock_ms
        self._intervals = intervals
        self._max_viewers = max_viewers
        self._viewers: dict[object, LiveScope] = {}
        self._states: dict[LiveScope, _State] = {}
        self._background = background or BackgroundTasks()
        self._task: BackgroundTask | None = None
        self._changed = asyncio.Event()
        """Set on a change; then replaced by a new one."""
        self._poll_now = asyncio.Event()
        """A viewer came for whom there is no state yet."""
        self._is_over = False

    def __len__(self) -> int:
        return len(self._viewers)

    def alive(self) -> LiveInstances:
        """Processes whose requests are running: those of a killed process are settled later, and not shown until
        then."""
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
        """Ends all feeds permanently, because the process ends."""
        self._is_over = True
        self._notify()

    async def watch(self, scope: LiveScope, has_access: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes, None]:
        """The frames for one viewer. Closing the generator removes the viewer."""
        if self.why_closed() is not None:  # the limit may have been reached since the check
            return
        viewer = object()
        self._viewers[viewer] = scope
        try:
            self._ensure_state(scope)
            async with aclosing(self._frames(scope, has_access)) as frames:
                async for frame in frames:
                    yield frame
        finally:
            del self._viewers[viewer]
            if not self._viewers:
                self._stop()

    async def _frames(self, scope: LiveScope, has_access: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes, None]:
        loop, shown = asyncio.get_running_loop(), None
        check_at = loop.time() + self._intervals.live_check_s
        while not self._is_over and self._task is not None:
            state = self._states.get(scope)
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

    def _ensure_state(self, scope: LiveScope) -> None:
        if scope not in self._states:
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
        except Exception:  # a bug: what is shown is out of date, and viewers get an event about that
            unavailable = self._unavailable_state()
            self._states = dict.fromkeys(self._viewers.values(), unavailable)
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

    async def _query(self) -> dict[LiveScope, _State]:
        """The same state object if nothing has changed."""
        scopes = set(self._viewers.values())
        try:
            if self._accounting.writer is not None:
                await self._accounting.writer.flush(_FLUSH_S)
            found = await self._store.read(partial(_read, scopes, self.alive()))
        except StoreUnavailable:
            unavailable = self._unavailable_state()
            return {scope: self._unchanged(scope, None) or unavailable for scope in scopes}
        return {scope: self._unchanged(scope, each) or self._state(scope, each) for scope, each in found.items()}

    def _unavailable_state(self) -> _State:
        return _State(None, sse.write_event(b"away", jsonio.encode(UnavailableEvent(at_ms=self._clock_ms()))))

    def _unchanged(self, scope: LiveScope, snapshot: Snapshot | None) -> _State | None:
        state = self._states.get(scope)
        return state if state is not None and state.snapshot == snapshot else None

    def _state(self, scope: LiveScope, snapshot: Snapshot) -> _State:
        data = [view_live(row, sees_cost=scope.sees_cost) for row in snapshot.rows]
        event = LiveEvent(at_ms=self._clock_ms(), total=snapshot.total, data=data)
        return _State(snapshot, sse.write_event(b"live", jsonio.encode(event)))

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _read(scopes: Set[LiveScope], alive: LiveInstances, conn: Connection) -> dict[LiveScope, Snapshot]:
    found = {
        id: Snapshot(total=count_open(conn, id, alive), rows=open_of(conn, id, MAX_SHOWN, alive))
        for id in {scope.workspace_id for scope in scopes}
    }
    return {scope: found[scope.workspace_id] for scope in scopes}
