"""Those who look on at what runs: what each gets, when, and that all of them together cost one look."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs
from sqlalchemy import Connection, delete

from streamweir.background import BackgroundTasks, Backoff, TaskEnd
from streamweir.core.errors import GatewayFault
from streamweir.server.accounting.intervals import Intervals
from streamweir.server.control.api.actor import ADMIN_SECRET
from streamweir.server.control.api.live_feed import MAX_SHOWN, LiveFeed, LiveScope
from streamweir.server.control.api.operation import Call, Nothing
from streamweir.server.control.api.requests.live import watch_live
from streamweir.server.http.message import Request
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.tables import sessions
from streamweir.store.requests.live import cancel
from streamweir.wire.sse import Splitter
from support.api import Api, api_on, app_of, bearer
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import until
from support.stores import one_database

T = TypeVar("T")
QUICK = Intervals(live_interval_s=0.001, live_check_s=1000.0)
STILL = Intervals(live_interval_s=1000.0, live_check_s=1000.0)
COMMENT = b": still here\n"


class CountedStore(Store):
    """A real one, whose reads are counted; `fault` is what the next ones fail with."""

    def __init__(self, store: Store) -> None:
        self.is_sqlite = store.is_sqlite
        self.reads = 0
        self.fault: Exception | None = None
        self._store = store

    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        self.reads += 1
        if self.fault is not None:
            raise self.fault
        return await self._store.read(work, timeout_s=timeout_s)

    async def write(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        return await self._store.write(work, timeout_s=timeout_s)

    write_content = write

    async def close(self) -> None: ...

    async def looked(self, times: int = 3) -> None:
        """Until it was read so often from now on: the last but one of these began after this."""
        wanted = self.reads + times
        await until(lambda: self.reads >= wanted)


class Viewer:
    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        self._pieces = pieces
        self._next: asyncio.Task[bytes] | None = None

    async def frame(self) -> bytes:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            task, self._next = self._next, None
            return await (task or self._ask())

    async def event(self) -> tuple[str, Any]:
        (frame,) = Splitter().feed(await self.frame())
        assert frame.data is not None
        return frame.event.decode(), json.loads(frame.data)

    async def ids(self) -> list[str]:
        name, document = await self.event()
        assert name == "live"
        return [row["request_id"] for row in document["data"]]

    @property
    def waits(self) -> bool:
        """Nothing more has come."""
        if self._next is None:
            self._next = self._ask()
        return not self._next.done()

    async def is_over(self) -> bool:
        try:
            await self.frame()
        except StopAsyncIteration:
            return True
        return False

    def _ask(self) -> "asyncio.Task[bytes]":
        return asyncio.ensure_future(anext(self._pieces))

    async def leave(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait({self._next})
        await self._pieces.aclose()


ALL = LiveScope(None, True)


async def always() -> bool:
    return True


@asynccontextmanager
async def looking(feed: LiveFeed, reach: LiveScope = ALL, is_good: Any = always) -> AsyncIterator[Viewer]:
    viewer = Viewer(feed.watch(reach, is_good))
    try:
        yield viewer
    finally:
        await viewer.leave()


@asynccontextmanager
async def feeding(
    folder: Path,
    intervals: Intervals = QUICK,
    database: str = "sqlite",
    most: int = 64,
    background: BackgroundTasks | None = None,
) -> AsyncIterator[tuple[Api, LiveFeed, CountedStore]]:
    async with api_on(database, folder) as api:
        store = CountedStore(api.storage.store)
        feed = LiveFeed(
            store,
            api.storage.accounting,
            clock_ms=api.clock,
            intervals=intervals,
            max_viewers=most,
            background=background,
        )
        tasks = asyncio.all_tasks()
        yield api, feed, store
        assert len(feed) == 0
        await until(lambda: not asyncio.all_tasks() - tasks)


@one_database
async def test_running_requests_are_sent_at_once_and_on_changes(database: str, tmp_path: Path) -> None:
    async with feeding(tmp_path, database=database) as (api, feed, store):
        first = await api.new_open(api.one)
        async with looking(feed) as viewer:
            name, document = await viewer.event()
            shown = (await api.ask("GET", "/api/live", **api.operator)).json()["data"]
            assert (name, document) == ("live", {"at_ms": api.clock.at_ms, "total": 1, "data": shown})
            assert [row["request_id"] for row in shown] == [first]
            assert viewer.waits
            await store.looked()
            assert viewer.waits, "nothing has changed"
            second = await api.new_open(api.two)
            assert await viewer.ids() == [second, first]
            await api.storage.store.write(lambda conn: cancel(conn, first, None, api.clock.at_ms))
            _, document = await viewer.event()
            assert [row["is_being_stopped"] for row in document["data"]] == [False, True]


async def test_nothing_runs(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (api, feed, _), looking(feed) as viewer:
        assert await viewer.event() == ("live", {"at_ms": api.clock.at_ms, "total": 0, "data": []})


async def test_each_identity_sees_only_its_own_workspace(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (api, feed, store):
        one, two = await api.new_open(api.one), await api.new_open(api.two)
        async with looking(feed) as operator, looking(feed, LiveScope(api.one.workspace.id, False)) as admin:
            assert await operator.ids() == [two, one]
            assert await admin.ids() == [one]
            assert admin.waits
            newest = await api.new_open(api.two)
            assert await operator.ids() == [newest, two, one]
            await store.looked()
            assert admin.waits


async def test_all_of_them_cost_one_query(tmp_path: Path) -> None:
    async with feeding(tmp_path, STILL) as (api, feed, store):
        onlookers = [Viewer(feed.watch(ALL, always)) for _ in range(20)]
        frames = await asyncio.gather(*(each.frame() for each in onlookers))
        assert (len(set(frames)), len(feed), store.reads) == (1, 20, 1)
        async with looking(feed, LiveScope(api.one.workspace.id, False)) as other:
            await other.frame()
            assert store.reads == 2, "of him nothing was known"
        for each in onlookers:
            await each.leave()


async def test_the_newest_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (api, feed, _):
        ids = [await api.new_open(api.one) for _ in range(MAX_SHOWN + 2)]
        async with looking(feed) as viewer:
            _, document = await viewer.event()
            assert document["total"] == MAX_SHOWN + 2
            assert [row["request_id"] for row in document["data"]] == ids[:1:-1]


async def test_a_slow_reader_gets_the_newest_state(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (api, feed, store), looking(feed) as viewer:
        await viewer.frame()
        ids: list[str] = []
        for _ in range(4):
            ids.insert(0, await api.new_open(api.one))
            await store.looked()
        assert await viewer.ids() == ids
        assert viewer.waits


async def test_a_keep_alive_and_an_access_check_from_time_to_time(tmp_path: Path) -> None:
    frames: list[bytes] = []

    async def is_good() -> bool:
        return len(set(frames)) < 2 or frames.count(COMMENT) < 3

    intervals = structs.replace(QUICK, live_check_s=0.001)
    async with feeding(tmp_path, intervals) as (_, feed, _store), looking(feed, ALL, is_good) as viewer:
        while not frames or not frames[-1].startswith(b"event: over"):
            frames.append(await viewer.frame())
        assert frames[-1] == b"event: over\ndata: {}\n\n"
        assert frames.count(COMMENT) >= 3
        assert len(set(frames)) == 3
        assert await viewer.is_over()
        assert len(feed) == 0


async def test_it_is_asked_though_there_is_always_something_new(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    async with feeding(tmp_path, structs.replace(QUICK, live_check_s=0.0)) as (api, feed, _):
        await api.new_open(api.one)
        async with looking(feed, ALL, never) as viewer:
            assert (await viewer.event())[0] == "over"


async def test_an_unavailable_database(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (api, feed, store), looking(feed) as viewer:
        await viewer.frame()
        store.fault = StoreUnavailable("it is away")
        assert await viewer.event() == ("away", {"at_ms": api.clock.at_ms})
        assert viewer.waits
        await store.looked()
        assert viewer.waits, "it is told once"
        async with looking(feed, LiveScope(api.one.workspace.id, False)) as late:
            assert (await late.event())[0] == "away"
        store.fault = None
        assert await viewer.ids() == [], "nothing has changed, but it is back"


async def test_so_many_and_no_more(tmp_path: Path) -> None:
    async with feeding(tmp_path, most=2) as (api, feed, _):
        context = structs.replace(api.context, feed=feed)
        await api.serve(app_of(context))
        async with looking(feed) as first, looking(feed) as second:
            await first.frame()
            await second.frame()
            reply = await api.ask("GET", "/api/live/events", **api.operator)
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "overloaded")
            assert reply.headers["retry-after"]
            async with looking(feed) as third:
                assert await third.is_over(), "let in at the same moment as another"
            await second.leave()
            assert (await api.ask("GET", "/api/live/events", **bearer(api.one.admin.secret))).status_code == 200


async def test_the_end_is_at_once_and_for_all(tmp_path: Path) -> None:
    async with feeding(tmp_path, STILL) as (api, feed, _):
        async with looking(feed) as first, looking(feed, LiveScope(api.one.workspace.id, False)) as second:
            await first.frame()
            await second.frame()
            assert first.waits
            feed.end()
            assert await first.is_over()
            assert await second.is_over()
        closed = feed.why_closed()
        assert isinstance(closed, GatewayFault)
        assert closed.code == "server_shutting_down"
        async with looking(feed) as late:
            assert await late.is_over()


async def test_without_viewers_there_are_no_queries(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (_, feed, store):
        assert store.reads == 0
        for _ in range(2):
            async with looking(feed) as viewer:
                await viewer.frame()
        reads = store.reads
        for _ in range(20):
            await asyncio.sleep(0)
        assert store.reads == reads


async def test_a_viewer_that_never_reads_takes_no_slot(tmp_path: Path) -> None:
    async with feeding(tmp_path) as (_, feed, _store), aclosing(feed.watch(ALL, always)):
        assert len(feed) == 0


async def test_a_bug_is_reported_and_viewers_see_when_it_is_over(tmp_path: Path) -> None:
    ends: asyncio.Queue[TaskEnd] = asyncio.Queue()
    background = BackgroundTasks(ends.put_nowait, backoff=Backoff(first_s=0.001))
    async with feeding(tmp_path, background=background) as (_, feed, store), looking(feed) as viewer:
        assert await viewer.ids() == []
        store.fault = ZeroDivisionError()
        name, _document = await viewer.event()
        assert name == "away"
        end = await ends.get()
        assert (end.name, end.fault) == ("live feed", store.fault)
        store.fault = None
        assert await viewer.ids() == []


async def test_head_has_no_events(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        reply = await api.ask("HEAD", "/api/live/events", **api.operator)
        assert (reply.status_code, reply.content, len(api.context.feed)) == (200, b"", 0)
        reply = await api.ask("GET", "/api/live/events", **api.operator)
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert reply.content.startswith(b"event: live\ndata: {")


async def test_a_question_that_cannot_be_answered_is_no_end(tmp_path: Path) -> None:
    async with feeding(tmp_path, structs.replace(QUICK, live_check_s=0.001)) as (api, feed, store):
        role = await api.session()
        call = Call(
            context=structs.replace(api.context, store=store, feed=feed),
            actor=structs.replace(ADMIN_SECRET, by_session=True),
            request=Request(id="", method="GET", path="", headers=role["headers"], arrived_s=0.0),
            path={},
            query=Nothing(),
            body=Nothing(),
            at_ms=api.clock.at_ms,
        )
        viewer = Viewer((await watch_live(call)).pieces)
        store.fault = StoreUnavailable("it is away")
        while await viewer.frame() != COMMENT:
            pass
        assert await viewer.frame() in (COMMENT, b'event: away\ndata: {"at_ms":%d}\n\n' % api.clock.at_ms)
        store.fault = None
        await api.storage.store.write(lambda conn: conn.execute(delete(sessions)).close())
        while not (await viewer.frame()).startswith(b"event: over"):
            pass
        assert await viewer.is_over()
