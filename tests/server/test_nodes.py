"""Two nodes of one database: each shows the streams and the health of the other, and stops its streams."""

import asyncio
import json
from pathlib import Path
from typing import Any

from msgspec import structs

from streamweir.store.db.clock import now_ms
from support.accounting_gateway import MODEL
from support.answers import TEXTS
from support.console_session import Page, sign_in
from support.fleet import Fleet, fleet
from support.gateway import chat_request
from support.program_deadlines import LONG_INTERVALS
from support.script import End, Hang, Head, Send, Step, Wait
from support.serve_process import BEGUN, REST
from support.stores import one_database

QUICK = structs.replace(
    LONG_INTERVALS, tick_s=0.01, report_s=0.01, report_all_s=0.02, live_interval_s=0.01, hidden_after_s=600.0
)
CLOSED = """
[[providers]]
name = "closed"
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
retries = 0
max_failures = 1
ejection_s = 600

[[models]]
id = "gone"
targets = [{ provider = "closed", model = "x" }]
"""


async def shown(page: Page, path: str) -> Any:
    """What a node answers to a person who is logged in."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in page.safe_fields)
    async with await page._gate.connect() as client:
        await client.send(f"GET {path} HTTP/1.1\r\nhost: gateway\r\n{fields}\r\n".encode())
        reply = await client.response()
    assert reply.status == 200, reply.body
    return json.loads(reply.body)["data"]


async def stopped(page: Page, request_id: str) -> int:
    fields = "".join(f"{name}: {value}\r\n" for name, value in page.fields)
    async with await page._gate.connect() as client:
        path = f"/api/live/{request_id}/cancel"
        await client.send(f"POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-length: 0\r\n{fields}\r\n".encode())
        return (await client.response()).status


async def pages_of(nodes: Fleet) -> list[Page]:
    """The same session on each."""
    first = await sign_in(nodes.gateways[0])
    return [Page(gate, first.token) for gate in nodes.gateways]


@one_database
async def test_a_node_shows_and_stops_the_streams_of_another(database: str, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with fleet(script, tmp_path, count=2, database=database, intervals=QUICK, named=True) as nodes:
        secret, pages = await nodes.new_key(), await pages_of(nodes)
        async with await nodes.gateways[0].connect() as one, await nodes.gateways[1].connect() as other:
            for client in (one, other):
                await client.send(chat_request(key=secret, model="m", stream=True))
                await client.read_until(TEXTS[0].encode())
            for page in pages:
                rows = await shown(page, "/api/live")
                while len(rows) != 2:  # each writes what it has begun by itself
                    rows = await shown(page, "/api/live")
                assert {row["node"] for row in rows} == {"node0", "node1"}
            (of_other,) = [row for row in rows if row["node"] == "node1"]
            assert await stopped(pages[0], of_other["request_id"]) == 200
            assert "stopped_by_operator" in (await other.read_until(b"[DONE]")).decode()
            go_on.set()
            rest = await one.read_until(b"[DONE]")
            assert "error" not in rest.decode(), "the other stream goes on"
        while any(row["request_id"] == of_other["request_id"] for row in await shown(pages[0], "/api/live")):
            pass  # it settles what was sent
        assert await stopped(pages[0], of_other["request_id"]) == 404


@one_database
async def test_a_node_shows_the_health_that_another_has_seen(database: str, tmp_path: Path) -> None:
    async with fleet(
        [Hang()], tmp_path, count=2, database=database, intervals=QUICK, toml=MODEL + CLOSED, named=True
    ) as nodes:
        secret, pages = await nodes.new_key(), await pages_of(nodes)

        async def closed(page: Page) -> Any:
            found = next(each for each in await shown(page, "/api/providers") if each["name"] == "closed")
            return found["targets"][0]

        for page in pages:
            while (await closed(page))["processes"] != 2:
                pass
        assert (await nodes.gateways[1].ask(key=secret, model="gone")).status == 502
        for page in pages:
            while (found := await closed(page))["away"] != 1:
                pass
            assert (found["state"], found["processes"], found["error"]) == ("away", 2, "upstream_connect_failed")
            assert 500 < found["away_for_s"] <= 600
            assert abs(found["error_at_ms"] - now_ms()) < 60_000
        seen = {each["node"]: each for each in await shown(pages[0], "/api/nodes?provider=closed")}
        assert [each["state"] for each in seen["node1"]["targets"]] == ["away"]
        assert seen["node0"]["targets"] == []
        await nodes.setups[1].maintenance.stop()
        await nodes.setups[1].maintenance.retire()  # as at its end
        while (await closed(pages[0]))["processes"] != 1:
            pass
        assert (await closed(pages[0]))["state"] == "well"
