"""The streams in flight, as they come and go. One that is stopped ends for its caller as its dialect says."""

import asyncio
import re
from typing import Any

from playwright.sync_api import Page, expect
from sqlalchemy import Connection

from streamweir.store.db.clock import now_ms
from streamweir.store.ledger.posting import apply
from streamweir.store.requests.instances import write_heartbeat
from support.accounting_gateway import EACH_DIALECT, path_of
from support.answers import TEXTS, openai_frames
from support.console_server import Console
from support.console_session import storage_of
from support.entries import hold
from support.gateway import KEY, chat_request, frames_of
from support.page_elements import figure, panel, row, visit
from support.raw_client import RawClient, Reply
from support.script import End, Head, Send, Wait

BEGUN = re.compile("streaming|quiet|stalled")
"""Which of them is a matter of seconds."""
UNWANTED = "The request was stopped by the operator."


class Caller:
    """One whose stream has begun."""

    def __init__(self, console: Console, client: RawClient, head: Reply, body: bytes) -> None:
        self.request_id = head.header("x-request-id") or ""
        self._stream_id = head.header("x-streamweir-stream")
        self._console = console
        self._client = client
        self._body = body

    async def lose(self) -> None:
        """Its connection."""
        await self._client.__aexit__(None, None, None)

    async def come_back(self) -> None:
        self._client = await self._console.gate.connect()
        lines = [f"GET /v1/streams/{self._stream_id} HTTP/1.1", "host: gateway", f"authorization: Bearer {KEY}"]
        await self._client.send("\r\n".join([*lines, "", ""]).encode())
        await self._client.head()

    async def rest(self) -> bytes:
        """The whole body, when it has ended."""
        async with self._client as client:
            while chunk := await client.chunk():
                self._body += chunk
        return self._body


async def begin(console: Console, dialect: str, **members: Any) -> Caller:
    client = await console.gate.connect()
    await client.send(chat_request(path=path_of(dialect), model="smart", stream=True, **members))
    head = await client.head()
    body = b""
    while TEXTS[1].encode() not in body:
        body += await client.chunk()
    return Caller(console, client, head, body)


def test_a_stream_is_shown_and_stopped_and_its_caller_gets_the_error(page: Page, console: Console) -> None:
    go_on, frames = asyncio.Event(), openai_frames()
    console.play([Head(), *map(Send, frames[:3]), Wait(go_on), *map(Send, frames[3:]), End()])
    console.sign_in(page)
    visit(page, "Live")
    expect(page.get_by_text("No running requests")).to_be_visible()
    callers = {dialect: console.call(begin(console, dialect)) for dialect in EACH_DIALECT}
    last = console.call(begin(console, "openai"))
    rows = page.get_by_role("region", name="Running requests").locator("tbody").get_by_role("row")
    expect(rows).to_have_count(5)
    for caller in callers.values():
        stop = page.get_by_role("button", name=f"Stop {caller.request_id}", exact=True)
        cells = rows.filter(has=stop).get_by_role("cell")
        expect(cells.nth(1)).to_have_text("smartup/gpt-4o-mini")
        expect(cells.nth(2)).to_have_text("test")
        expect(cells.nth(10)).to_have_text(BEGUN)
        stop.click()
        dialog = page.get_by_role("dialog", name="Stop this request?")
        expect(figure(dialog, "Key")).to_have_text("test")
        dialog.get_by_role("button", name="Cancel").click()
        expect(stop).to_be_enabled()
        stop.click()
        dialog.get_by_role("button", name="Stop the request").click()
        expect(dialog).to_have_count(0)
    for dialect, caller in callers.items():
        documents = frames_of(console.call(caller.rest()))
        assert (documents[-1] == "[DONE]") == (dialect != "bitseek")
        error = next(each for each in reversed(documents) if each != "[DONE]")["error"]
        assert error["message"] == UNWANTED
    expect(rows).to_have_count(1)
    expect(rows.get_by_role("button", name=f"Stop {last.request_id}", exact=True)).to_be_enabled()
    console.soon(go_on.set)
    assert frames_of(console.call(last.rest()))[-1] == "[DONE]"
    expect(page.get_by_text("No running requests")).to_be_visible()

    page.goto(f"{console.base_url}/console/requests/{callers['openai'].request_id}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Stopped · smart · test")


def test_readers_of_a_stream_and_when_it_had_none_are_shown(page: Page, console: Console) -> None:
    go_on, frames = asyncio.Event(), openai_frames()
    console.play([Head(), *map(Send, frames[:3]), Wait(go_on), *map(Send, frames[3:]), End()])
    caller = console.call(begin(console, "openai", headers=(("x-streamweir-resumable", "true"),)))
    console.sign_in(page)
    visit(page, "Live")
    rows = page.get_by_role("region", name="Running requests").locator("tbody").get_by_role("row")
    readers = rows.get_by_role("cell").nth(9)
    expect(readers).to_have_text("1")
    console.call(caller.lose())
    expect(readers).to_have_text(re.compile(r"^none for \d+ s1 gap$"))
    page.get_by_role("link", name=caller.request_id[-8:]).click()
    so_far = panel(page, "So far")
    expect(figure(so_far, "Readers")).to_have_text(re.compile(r"^none for \d+ s$"))
    console.call(caller.come_back())
    expect(figure(so_far, "Readers")).to_have_text("1")
    expect(figure(so_far, "Nobody read it")).to_have_text("1 time")
    console.soon(go_on.set)
    assert frames_of(console.call(caller.rest()))[-1] == "[DONE]"
    facts = panel(page, "Details")
    expect(figure(facts, "Readers that came back")).to_have_text("1")
    expect(figure(facts, "Nobody read it")).to_have_text("1 time")
    away = panel(page, "Timeline").get_by_role("listitem").filter(has_text="Nobody read it")
    expect(away).to_contain_text("1 time, until somebody came back")
    expect(away).to_contain_text(re.compile(r"from [\d.]+ m?s to [\d.]+ m?s"))


def test_a_request_that_runs_has_a_page_from_which_it_is_stopped(page: Page, console: Console) -> None:
    go_on, frames = asyncio.Event(), openai_frames()
    console.play([Head(), *map(Send, frames[:3]), Wait(go_on), *map(Send, frames[3:]), End()])
    caller = console.call(begin(console, "openai", user="<b>ann</b>"))
    console.sign_in(page, path="/live")
    expect(page.get_by_role("link", name="<b>ann</b>")).to_have_attribute("href", re.compile("/requests.end_user=%3Cb"))
    page.get_by_role("link", name=caller.request_id[-8:]).click()
    main = page.get_by_role("main")
    expect(figure(main, "Key")).to_have_text("test")
    expect(figure(main, "Target")).to_have_text("up/gpt-4o-mini")
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop the request").click()
    assert UNWANTED.encode() in console.call(caller.rest())
    expect(page.get_by_role("heading", name="Outcome")).to_be_visible()
    expect(page.get_by_text("stopped_by_operator")).to_be_visible()
    console.soon(go_on.set)


def test_a_stream_of_another_node_is_shown_and_stopped_with_its_node(page: Page, console: Console) -> None:
    """How it is stopped there: tests/server/test_nodes.py."""
    go_on, frames = asyncio.Event(), openai_frames()
    console.play([Head(), *map(Send, frames[:3]), Wait(go_on), *map(Send, frames[3:]), End()])
    key = console.ask("POST", "/api/keys", {"name": "elsewhere"})["id"]
    at_ms, there = now_ms(), f"req_{7:028x}"

    def write(conn: Connection) -> None:
        write_heartbeat(conn, "of node b", "node b", at_ms + 600_000)
        apply(conn, [hold(there, 7, workspace_id="default", key_id=key, instance="of node b", at_ms=at_ms)])

    console.call(storage_of(console.gate).store.write(write))
    caller = console.call(begin(console, "openai"))
    console.sign_in(page, path="/live")
    expect(page.get_by_role("columnheader", name="Node")).to_have_count(1)
    other = row(page, "Running requests", there[-8:])
    expect(other.get_by_role("cell", name="node b")).to_have_count(1)
    expect(row(page, "Running requests", caller.request_id[-8:]).get_by_role("cell", name="node b")).to_have_count(0)
    other.get_by_role("button", name=f"Stop {there}").click()
    dialog = page.get_by_role("dialog", name="Stop this request?")
    expect(figure(dialog, "Node")).to_have_text("node b")
    dialog.get_by_role("button", name="Stop the request").click()
    expect(other).to_contain_text("stopping")
    console.soon(go_on.set)
    console.call(caller.rest())
