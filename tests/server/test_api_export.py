"""The log of requests as a file: what is in it, who may have it, and that half of it never looks like the whole."""

import csv
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from msgspec import structs
from sqlalchemy import Connection

from streamweir.server.control.api.requests.export import pieces_of
from streamweir.server.control.api.view import RequestView
from streamweir.server.http.asgi import Bridge
from streamweir.server.http.message import Answer, Request, Response
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.journal.entries import Refused
from streamweir.store.ledger.posting import apply
from streamweir.store.requests.requests import MAX_ROWS, Page, RequestFilter, list_requests
from support.api import Api, api_on, app_of, bearer
from support.common_entries import settle
from support.flaky_store import FlakyStore
from support.http_app import Serving, SmallApp, get, serving
from support.raw_client import CutShort, RawClient
from support.stores import one_database

T = TypeVar("T")


async def export(api: Api, role: dict[str, Any], **params: Any) -> httpx2.Response:
    reply = await api.ask("GET", "/api/requests/export", params=params, **role)
    assert reply.status_code == 200, reply.text
    return reply


def cells(reply: httpx2.Response) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(reply.text, newline="")))


async def fill(api: Api, count: int) -> None:
    """So many rows, each a millisecond after the last."""
    row = settle("", None).row
    rows = [
        structs.replace(
            row, request_id=f"req_{number:028x}", workspace_id=api.one.workspace.id, at_ms=api.clock.at_ms + number
        )
        for number in range(count)
    ]
    await api.storage.store.write(lambda conn: apply(conn, [Refused(row=each) for each in rows]))


@one_database
async def test_the_rows_of_the_list_in_either_form(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        await api.new_request(api.one, usage='{"output":4}', flags='["usage_anomaly"]', model='a,"b"\nc')
        api.clock.at_ms += 1000
        await api.new_request(api.two, error="upstream_timeout", stream=False, cost=2 * 10**9, price=1_500_000_000)
        listed = (await api.ask("GET", "/api/requests", **api.operator)).json()["data"]
        assert len(listed) == 2

        lines = await export(api, api.operator, format="jsonl")
        assert [json.loads(line) for line in lines.text.splitlines()] == listed
        assert lines.headers["content-type"] == "text/plain; charset=utf-8"
        assert lines.headers["content-disposition"] == 'attachment; filename="requests.jsonl"'
        assert (lines.headers["cache-control"], lines.headers["x-content-type-options"]) == ("no-store", "nosniff")

        table = await export(api, api.operator)
        assert table.headers["content-disposition"] == 'attachment; filename="requests.csv"'
        found = cells(table)
        assert list(found[0]) == list(RequestView.__struct_fields__)
        assert [row["request_id"] for row in found] == [row["request_id"] for row in listed]
        assert (found[1]["model"], found[1]["usage"]) == ('a,"b"\nc', '{"output":4}')
        assert (found[1]["flags"], found[1]["error"], found[1]["stream"]) == ('["usage_anomaly"]', "", "true")
        assert (found[0]["error"], found[0]["stream"], found[0]["price_usd"]) == ("upstream_timeout", "false", "1.5")
        assert (found[0]["cost_usd"], found[0]["margin_usd"]) == ("2", "-0.5"), "a number is no formula"

        for wanted in ({"failed": "true"}, {"workspace": "two"}, {"since_ms": api.clock.at_ms}, {"min_cost_usd": "2"}):
            rows = (await api.ask("GET", "/api/requests", params=wanted, **api.operator)).json()["data"]
            some = await export(api, api.operator, format="jsonl", **wanted)
            assert [json.loads(line) for line in some.text.splitlines()] == rows, wanted


@pytest.mark.parametrize("mark", ["=", "+", "-", "@", "\t", "\r", "\n"])
async def test_no_cell_is_a_formula(mark: str, tmp_path: Path) -> None:
    text = f'{mark}HYPERLINK("http://evil.example","x")'
    async with api_on("sqlite", tmp_path) as api:
        await api.new_request(api.one, model=text, client=f"a{text}")
        (row,) = cells(await export(api, api.operator))
        assert row["model"] == f"'{text}"
        assert row["client"] == f"a{text}"
        (line,) = (await export(api, api.operator, format="jsonl")).text.splitlines()
        assert json.loads(line)["model"] == text, "nobody takes that for a formula"


async def test_an_admin_gets_its_own_workspace_and_the_audit_log_records_it(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        own, foreign = await api.new_request(api.one), await api.new_request(api.two)
        admin = bearer(api.one.admin.secret)
        found = cells(await export(api, admin, key="sk-" + "a" * 40, until_ms=api.clock.at_ms + 1))
        assert found == []
        assert [row["request_id"] for row in cells(await export(api, admin))] == [own]
        assert {row["request_id"] for row in cells(await export(api, api.operator))} == {own, foreign}
        reply = await api.ask("GET", "/api/requests/export", params={"workspace": "two"}, **admin)
        assert reply.status_code == 404
        rows = (await api.ask("GET", "/api/audit", **api.operator)).json()["data"]
        told = [(row["actor"], row["workspace"], row["detail"]) for row in rows if row["action"] == "requests.export"]
        actor, one = f"key:{api.one.admin.key.id}", api.one.workspace.id
        assert told == [
            ("admin", None, {"format": "csv"}),
            (actor, one, {"format": "csv"}),
            (actor, one, {"format": "csv", "key": "***", "until_ms": api.clock.at_ms + 1}),
        ]


async def test_what_cannot_be_asked_for(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for wrong in ("format=xlsx", "limit=1", "cursor=x", "failed=perhaps", "format=csv&format=csv"):
            assert (await api.ask("GET", f"/api/requests/export?{wrong}", **api.operator)).status_code == 400, wrong
        assert (await api.ask("GET", "/api/requests/export", **bearer(api.one.chat.secret))).status_code == 403
        reply = await api.ask("HEAD", "/api/requests/export", **api.operator)
        assert (reply.status_code, reply.content) == (200, b"")


async def test_it_is_read_page_by_page_and_has_an_end(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await fill(api, 2 * MAX_ROWS + 500)
        ids = [row["request_id"] for row in cells(await export(api, api.operator))]
        assert ids == [f"req_{number:028x}" for number in reversed(range(2 * MAX_ROWS + 500))]
        first = await api.context.read(lambda conn: list_requests(conn, RequestFilter(), limit=MAX_ROWS))
        assert await sizes(api, first, 10**6) == [0, MAX_ROWS, MAX_ROWS, 500]
        assert await sizes(api, first, MAX_ROWS + 7) == [0, MAX_ROWS, 7]
        assert await sizes(api, first, MAX_ROWS) == [0, MAX_ROWS]
        assert await sizes(api, Page([], first.next), 10**6) == [0, MAX_ROWS, 500], "a page may be empty"


async def sizes(api: Api, first: Page, most: int) -> list[int]:
    """How many rows each piece has."""

    def encode(rows: Any) -> bytes:
        return b"%d" % len(rows)

    return [int(each) async for each in pieces_of(api.context, RequestFilter(), first, encode, most)]


class FailingReads(FlakyStore):
    """Only so many reads of it succeed."""

    def __init__(self, store: Store, reads: int) -> None:
        super().__init__(store)
        self.reads = reads

    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        self.reads -= 1
        if self.reads < 0:
            raise StoreUnavailable("it has gone")
        return await super().read(work, timeout_s=timeout_s)


class Bridged(SmallApp):
    def __init__(self, bridge: Bridge) -> None:
        super().__init__()
        self.bridge = bridge

    def begin(self, request: Request, response: Response, /) -> bool:
        self.begun.append(request)
        self.bridge.serve(request, response)
        return True


@asynccontextmanager
async def on_a_socket(api: Api, store: Store) -> AsyncIterator[tuple[Serving, list[BaseException]]]:
    faults: list[BaseException] = []

    def fault(_: Request, reason: BaseException) -> Answer:
        faults.append(reason)
        return Answer(status=500)

    bridge = Bridge(app_of(structs.replace(api.context, store=store)), fault)
    async with serving(Bridged(bridge)) as at:
        yield at, faults
        await bridge.close()


async def test_if_the_database_becomes_unavailable_the_connection_is_cut(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await fill(api, 2 * MAX_ROWS + 1)
        auth = f"authorization: Bearer {api.one.admin.secret}"
        async with on_a_socket(api, FailingReads(api.storage.store, 2)) as (at, faults):
            async with await RawClient.open(at.address) as client:
                await client.send(get("/api/requests/export?format=jsonl", auth))
                await client.head()
                for _ in range(2):
                    assert (await client.chunk()).count(b"\n") == MAX_ROWS
                with pytest.raises(CutShort):
                    await client.chunk()
            async with await RawClient.open(at.address) as client:
                await client.send(get("/api/requests/export?format=jsonl", auth))
                assert (await client.response()).status == 503, "nothing had gone out"
            assert faults == []


async def test_reading_stops_when_the_caller_leaves(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        await fill(api, 20 * MAX_ROWS)
        store = FailingReads(api.storage.store, 1000)
        async with on_a_socket(api, store) as (at, faults):
            async with await RawClient.open(at.address, receive_buffer=8192) as client:
                await client.send(get("/api/requests/export", f"authorization: Bearer {api.one.admin.secret}"))
                await client.head()
                assert await client.chunk()
            await at.emptied()
            assert faults == []
        assert 1000 - store.reads < 15, "it waited for him, and then he was gone"
