"""`GET /api/live/events` over real sockets: by cookie or by secret, for as long as either is good, and no longer."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import structs
from sqlalchemy import select

from streamweir.server.control.api.context import MAX_TRIES
from streamweir.server.control.api.live_feed import LiveFeed
from streamweir.server.http.security_headers import SECURITY_HEADERS
from streamweir.store.db.clock import now_ms
from streamweir.store.db.tables import sessions
from streamweir.store.keys.sessions import TOUCH_MS, create_session, end_session, new_admin_secret, reset_admin_secret
from streamweir.wire.sse import Splitter
from support.accounting_gateway import AccountingSetup, answers, keeping
from support.answers import TEXTS
from support.console_session import Fields, Page, sign_in
from support.gateway import chat_request, until
from support.program_deadlines import LONG_INTERVALS
from support.raw_client import RawClient, Reply
from support.script import End, Hang, Head, Send, Step, Wait
from support.serve_process import BEGUN, REST

PACE = structs.replace(LONG_INTERVALS, tick_s=0.01, live_interval_s=0.005, live_check_s=0.01)
PATH = "/api/live/events"


class Stream:
    def __init__(self, client: RawClient, head: Reply) -> None:
        self.client = client
        self.head = head
        self._splitter = Splitter()
        self._events: list[tuple[str, Any]] = []

    async def event(self) -> tuple[str, Any] | None:
        """The next; None: there is none any more."""
        while not self._events:
            chunk = await self.client.chunk()
            if not chunk:
                return None
            self._events = [
                (frame.event.decode(), json.loads(frame.data))
                for frame in self._splitter.feed(chunk)
                if frame.data is not None
            ]
        return self._events.pop(0)

    async def comment(self) -> None:
        while not (await self.client.chunk()).startswith(b": "):
            pass

    async def last(self) -> str:
        """The name of the last event."""
        name = ""
        while (event := await self.event()) is not None:
            name = event[0]
        return name


def feed_of(setup: AccountingSetup) -> LiveFeed:
    feed = setup.gate.gateway._feed
    assert feed is not None
    return feed


@asynccontextmanager
async def watching(setup: AccountingSetup, fields: Fields) -> AsyncIterator[Stream]:
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    async with await setup.gate.connect() as client:
        await client.send(f"GET {PATH} HTTP/1.1\r\nhost: gateway\r\n{lines}\r\n".encode())
        yield Stream(client, await client.head())
    await until(lambda: not len(feed_of(setup)))


def bearer(secret: str) -> Fields:
    return (("authorization", f"Bearer {secret}"),)


async def used_ms(setup: AccountingSetup) -> int:
    return await setup.read(lambda conn: conn.execute(select(sessions.c.used_ms)).scalar_one())


async def test_a_stream_is_seen_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with keeping(script, tmp_path, intervals=PACE) as setup:
        page, secret = await sign_in(setup.gate), await setup.new_key("named")
        async with watching(setup, page.safe_fields) as seen, await setup.gate.connect() as client:
            assert (seen.head.status, seen.head.header("content-type")) == (200, "text/event-stream; charset=utf-8")
            assert all(seen.head.header(name) == value for name, value in SECURITY_HEADERS)
            event = await seen.event()
            assert event is not None
            assert (event[0], event[1]["total"], event[1]["data"]) == ("live", 0, [])
            await client.send(chat_request(key=secret, model="m", stream=True))
            await client.read_until(TEXTS[1].encode())
            row: dict[str, Any] = {}
            while row.get("output_tokens") != 2:
                event = await seen.event()
                assert event is not None
                assert event[0] == "live"
                row = next(iter(event[1]["data"]), {})
            assert (row["key_name"], row["model"], row["stream"]) == ("named", "m", True)
            go_on.set()
            await client.read_until(b"[DONE]")
            while event is not None and event[1]["total"]:
                event = await seen.event()
            assert event is not None
            assert event[1]["data"] == []


async def test_it_ends_with_the_session_and_does_not_keep_it_alive(tmp_path: Path) -> None:
    async with keeping([Hang()], tmp_path, intervals=PACE) as setup:
        began_ms = now_ms() - 2 * TOUCH_MS
        token = await setup.write(lambda conn: create_session(conn, actor="admin", at_ms=began_ms))
        page = Page(setup.gate, token)
        async with watching(setup, page.safe_fields) as seen:
            for _ in range(3):
                await seen.comment()
            assert await used_ms(setup) == began_ms, "it was opened, and asked about three times"
            await setup.write(lambda conn: end_session(conn, token, actor="admin", at_ms=now_ms()))
            assert await seen.last() == "over"
        async with watching(setup, page.safe_fields) as seen:
            assert seen.head.status == 401


async def test_another_use_of_the_session_does(tmp_path: Path) -> None:
    async with keeping([Hang()], tmp_path, intervals=PACE) as setup:
        began_ms = now_ms() - 2 * TOUCH_MS
        token = await setup.write(lambda conn: create_session(conn, actor="admin", at_ms=began_ms))
        async with await setup.gate.connect() as client:
            await client.send(f"GET /api/live HTTP/1.1\r\nhost: gateway\r\ncookie: streamweir={token}\r\n\r\n".encode())
            assert (await client.response()).status == 200
        assert await used_ms(setup) > began_ms


async def test_it_ends_with_the_key(tmp_path: Path) -> None:
    async with keeping(answers(False), tmp_path, intervals=PACE) as setup:
        other = await setup.new_workspace("other", 1)
        admin, chat = await setup.new_key("admin", other, scopes=("admin",)), await setup.new_key("chat")
        async with watching(setup, bearer(admin)) as seen:
            assert (await seen.event() or ("",))[0] == "live"
            assert (await setup.gate.ask(key=chat, model="m")).status == 200
            await seen.comment()
            await setup.change(admin, scopes=("chat",))
            assert await seen.last() == "over", "of another workspace nothing was seen"
        async with watching(setup, bearer(chat)) as seen:
            assert seen.head.status == 403


async def test_it_ends_with_the_secret(tmp_path: Path) -> None:
    async with keeping([Hang()], tmp_path, intervals=PACE) as setup:
        secret = await setup.write(lambda conn: reset_admin_secret(conn, actor="cli", at_ms=now_ms()))
        async with watching(setup, bearer(secret)) as seen:
            await seen.comment()
            await setup.write(lambda conn: reset_admin_secret(conn, actor="cli", at_ms=now_ms()))
            assert await seen.last() == "over"


async def test_wrong_secrets_from_the_same_address_neither_end_it_nor_keep_it(tmp_path: Path) -> None:
    async with keeping([Hang()], tmp_path, intervals=PACE) as setup:
        secret = await setup.write(lambda conn: reset_admin_secret(conn, actor="cli", at_ms=now_ms()))
        async with watching(setup, bearer(secret)) as seen:
            for status in [401] * MAX_TRIES + [429]:
                assert (await setup.gate.ask(path=PATH, key=new_admin_secret())).status == status
            await seen.comment()
            await seen.comment()
            await setup.write(lambda conn: reset_admin_secret(conn, actor="cli", at_ms=now_ms()))
            assert await seen.last() == "over"


async def test_a_page_of_another_site_sees_nothing(tmp_path: Path) -> None:
    async with keeping([Hang()], tmp_path, intervals=PACE) as setup:
        page = await sign_in(setup.gate)
        async with watching(setup, (*page.safe_fields, ("origin", "http://evil.example"))) as seen:
            assert seen.head.status == 403
        async with watching(setup, ()) as seen:
            assert seen.head.status == 401


async def test_a_viewer_that_leaves_is_removed_at_once(tmp_path: Path) -> None:
    async with keeping([Hang()], tmp_path, intervals=PACE) as setup:
        page = await sign_in(setup.gate)
        async with watching(setup, page.safe_fields) as seen:
            await seen.event()
            assert len(feed_of(setup)) == 1
        assert len(feed_of(setup)) == 0


async def test_it_does_not_delay_the_exit(tmp_path: Path) -> None:
    async with keeping(
        [Hang()], tmp_path, intervals=structs.replace(LONG_INTERVALS, live_interval_s=1000.0, live_check_s=1000.0)
    ) as setup:
        page, running = await sign_in(setup.gate), setup.gate.gateway
        async with watching(setup, page.safe_fields) as seen, await setup.gate.connect() as late:
            await seen.event()
            await late.send(b"G")
            await setup.gate.has_read()
            running.stop_admitting()
            assert await seen.event() is None, "the stream is whole, and ends without a word"
            cookie = f"cookie: streamweir={page.token}"
            await late.send(f"ET {PATH} HTTP/1.1\r\nhost: gateway\r\n{cookie}\r\n\r\n".encode())
            reply = await late.response()
            assert (reply.status, json.loads(reply.body)["error"]["code"]) == (503, "server_shutting_down")
