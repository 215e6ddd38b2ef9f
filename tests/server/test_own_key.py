"""What callers can ask about themselves: `GET /v1/key` and `GET /v1/generations/{id}`, on both databases.

A caller sees its own key and its own requests, by any id that it has of them, and of money only what it pays.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from streamweir.policy.access import Key
from streamweir.policy.limits.budget import NANO
from streamweir.policy.limits.limit_rule import LimitRule
from streamweir.server.request.lookup import lookups
from streamweir.server.request.lookup.own_key import usd
from support.accounting_gateway import MILLI, AccountingSetup, error_of, set_clock
from support.answers import TEXTS, openai_frames, openai_stream, openai_whole
from support.deadlines import PROGRAM_TIMEOUT_S
from support.fleet import fleet
from support.gateway import KEY, Gate, chat_request, gateway, gateway_to, providers, until
from support.outage import ANSWER, ask
from support.program_deadlines import LONG_INTERVALS
from support.raw_client import Reply
from support.script import End, Head, Script, Seen, Send, Step, Wait, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.stores import migrated_url, one_database
from support.valkey import ValkeyServer

NOON = 1_793_793_600_000
"""2026-11-04, 12:00 UTC."""
MODEL = """
[[models]]
id = "m"
targets = [{ provider = "up", model = "gpt-4o" }]
price = { input = 1000.0, output = 1000.0 }
"""
PRICE = 12 * MILLI
PATHS = {
    "openai": "/v1/chat/completions",
    "bitseek": "/bitseek/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}


@asynccontextmanager
async def keeping(database: str, folder: Path, script: Script, toml: str = "") -> AsyncIterator[AccountingSetup]:
    url = await migrated_url(database, folder)
    async with ScriptedUpstream(script) as up:
        config = f'{providers(up=up.base_url)}[store]\nurl = "{url}"\n{MODEL}{toml}'
        async with gateway(config, data_dir=folder, intervals=LONG_INTERVALS) as gate:
            yield AccountingSetup(gate, up)
            await gate.vacated()


def answer(request: Seen) -> list[Step]:
    return stream(openai_stream()) if request.json.get("stream") else whole(openai_whole())


async def get(gate: Gate, path: str, secret: str | None, method: str = "GET", headers: str = "") -> Reply:
    async with await gate.connect() as client:
        key = f"authorization: Bearer {secret}\r\n" if secret is not None else ""
        await client.send(f"{method} {path} HTTP/1.1\r\nhost: gateway\r\n{key}{headers}\r\n".encode())
        return await client.response(has_body=method != "HEAD")


async def shown(setup: AccountingSetup, path: str, secret: str) -> dict[str, Any]:
    reply = await get(setup.gate, path, secret)
    assert (reply.status, reply.header("content-type")) == (200, "application/json"), reply.body
    assert reply.header("cache-control") == "no-store"
    document: dict[str, Any] = json.loads(reply.body)
    return document


@one_database
async def test_a_key_sees_its_limits_and_what_is_left(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, NOON)
    async with keeping(database, tmp_path, answer) as setup:
        workspace = await setup.new_workspace("team", 5000 * MILLI)
        limits: dict[str, Any] = {"rpm": 60, "tpm": 100_000, "max_streams": 3}
        secret = await setup.new_key(
            workspace_id=workspace, budget_nano=4000 * MILLI, budget_period="month", models=("m",), **limits
        )
        other = await setup.new_key("other", workspace)
        for each in (secret, secret, other):
            assert (await setup.gate.ask(key=each, model="m", max_tokens=100)).status == 200
        await setup.gate.settled(3)
        document = await shown(setup, "/v1/key", secret)
        rates = document.pop("limits")
        assert document == {
            "object": "key",
            "id": setup.key_id(secret),
            "name": "key",
            "workspace": "team",
            "scopes": ["chat", "models"],
            "models": ["m"],
            "dialect": None,
            "expires_at": None,
            "show_cost": False,
            "resumable": False,
            "budgets": [
                {
                    "scope": "key",
                    "per": "key",
                    "period": "month",
                    "limit_usd": "4",
                    "spent_usd": "0.024",
                    "reserved_usd": "0",
                    "left_usd": "3.976",
                    "resets_at": "2026-12-01T00:00:00Z",
                },
                {
                    "scope": "workspace",
                    "per": "workspace",
                    "period": "total",
                    "limit_usd": "5",
                    "spent_usd": "0.036",
                    "reserved_usd": "0",
                    "left_usd": "4.964",
                    "resets_at": None,
                },
            ],
            "left_usd": "3.976",
            "spent": {"day_usd": "0.024", "month_usd": "0.024"},
        }
        assert {name: rate["limit"] for name, rate in rates.items()} == limits
        assert rates["rpm"] == {"limit": 60, "used": 2, "left": 58}
        assert rates["max_streams"] == {"limit": 3, "used": 0, "left": 3}
        assert rates["tpm"]["used"] == 24
        document = await shown(setup, "/v1/key", other)
        assert (document["limits"], [each["scope"] for each in document["budgets"]]) == ({}, ["workspace"])
        assert document["spent"] == {"day_usd": "0.012", "month_usd": "0.012"}


@one_database
async def test_rules_are_budgets_of_the_keys_that_they_apply_to(database: str, tmp_path: Path) -> None:
    rules = """
[[limits]]
name = "all"
per = "workspace"
budget_usd = 2.0

[[limits]]
name = "users"
per = "user"
budget_usd = 0.5
budget_period = "day"

[[limits]]
name = "others"
key = "somebody"
per = "key"
budget_usd = 1.0
"""
    async with keeping(database, tmp_path, answer, rules) as setup:
        secret, other = await setup.new_key(), await setup.new_key("other")
        for each in (secret, other):
            assert (await setup.gate.ask(key=each, model="m", max_tokens=5, user="ann")).status == 200
        await setup.gate.settled(2)
        document = await shown(setup, "/v1/key", secret)
        whole_workspace, users = document["budgets"]
        assert (whole_workspace["scope"], whole_workspace["per"]) == ("all", "workspace")
        assert (whole_workspace["spent_usd"], whole_workspace["left_usd"]) == ("0.024", "1.976")
        assert (users["scope"], users["per"], users["limit_usd"]) == ("users", "user", "0.5")
        assert (users["spent_usd"], users["left_usd"]) == (None, None), "it has a sum for each user"
        assert users["resets_at"] is not None
        assert document["left_usd"] == "1.976"


@one_database
async def test_a_request_is_found_by_every_id(database: str, tmp_path: Path) -> None:
    async with keeping(database, tmp_path, answer) as setup:
        secret = await setup.new_key()
        for number, (api, path) in enumerate(PATHS.items(), start=1):
            reply = await setup.gate.ask(path=path, key=secret, model="m", stream=True)
            (*_, record) = await setup.gate.settled(number)
            assert record.completion_id is not None
            assert record.completion_id.encode() in reply.body, "the id that the caller has"
            found = await shown(setup, f"/v1/generations/{reply.header('x-request-id')}", secret)
            assert await shown(setup, f"/v1/generations/{record.completion_id}", secret) == found
            assert await shown(setup, f"/openai/v1/generations/{found['id']}", secret) == found
            timings = found.pop("timings")
            assert found == {
                "object": "generation",
                "id": record.id,
                "completion_id": record.completion_id,
                "is_running": False,
                "api": api,
                "model": "m",
                "stream": True,
                "status": 200,
                "outcome": "completed",
                "error": None,
                "finish_reason": "stop",
                "usage": {
                    "prompt_tokens": 7,
                    "completion_tokens": 5,
                    "total_tokens": 12,
                    "details": {"input_uncached": 7, "output": 5},
                    "source": "provider",
                    "cost": PRICE / NANO,
                },
                "price_usd": "0.012",
                "arrived_ms": record.at_ms,
                "end_user": None,
                "session": None,
                "tags": [],
            }
            assert 0 <= timings["admitted_ms"] <= timings["first_token_ms"] <= timings["duration_ms"]
        rows = await setup.rows()
        assert len(rows) == len(PATHS), "looking leaves no row"


@one_database
async def test_a_caller_sees_requests_of_its_own_key_only(database: str, tmp_path: Path) -> None:
    async with keeping(database, tmp_path, answer) as setup:
        secret, sibling = await setup.new_key(), await setup.new_key("sibling")
        admin = await setup.new_key("admin", scopes=("admin",))
        reply = await setup.gate.ask(key=secret, model="m")
        (record,) = await setup.gate.settled()
        id = reply.header("x-request-id")
        assert (await get(setup.gate, f"/v1/generations/{id}", secret)).status == 200
        unknown = await get(setup.gate, "/v1/generations/req_nothing", sibling)
        for wanted in (id, record.completion_id):
            for other in (sibling, admin):
                reply = await get(setup.gate, f"/v1/generations/{wanted}", other)
                assert (reply.status, reply.body) == (unknown.status, unknown.body), "as if there were none"
        assert error_of(unknown)["code"] == "not_found"
        for path in ("/v1/key", f"/v1/generations/{id}"):
            assert (await get(setup.gate, path, None)).status == 401
            assert (await get(setup.gate, path, "sk-sw-wrong")).status == 401
            assert (await get(setup.gate, path, secret, "POST")).status == 405
            assert (await get(setup.gate, path, secret, "HEAD")).status == 200
        rotated = await setup.rotate(secret, 0)
        assert (await get(setup.gate, f"/v1/generations/{id}", rotated)).status == 200
        await setup.revoke(rotated)
        assert (await get(setup.gate, "/v1/key", rotated)).status == 401


async def test_neither_cost_nor_routing_is_shown(tmp_path: Path) -> None:
    async with keeping("sqlite", tmp_path, answer) as setup:
        secret = await setup.new_key()
        reply = await setup.gate.ask(key=secret, model="m")
        await setup.gate.settled()
        path = f"/v1/generations/{reply.header('x-request-id')}"
        found = await get(setup.gate, path, secret)
        row = await setup.row()
        assert row.cost not in (None, row.price), "what the provider asks is known, and something else"
        assert usd(row.cost or 0).encode() not in found.body
        for hidden in (b"gpt-4o", b'"up', b"charge", b"rates", b"cost_usd", b"margin"):
            assert hidden not in found.body
        await setup.change(secret, show_routing=True)
        document = await shown(setup, path, secret)
        assert (document["target"], document["attempts"]) == ("up/gpt-4o", 1)


@one_database
async def test_a_running_request_is_shown(database: str, tmp_path: Path) -> None:
    goes_on = asyncio.Event()
    frames = openai_frames()
    script: list[Step] = [Head(), Send(b"".join(frames[:3])), Wait(goes_on), Send(b"".join(frames[3:])), End()]
    async with keeping(database, tmp_path, script) as setup:
        secret, other = await setup.new_key(budget_nano=NANO), await setup.new_key("other")
        async with await setup.gate.connect() as client:
            await client.send(chat_request(key=secret, model="m", stream=True, max_tokens=50))
            head = await client.read_until(TEXTS[1].encode())
            id = head.partition(b"x-request-id: ")[2].partition(b"\r\n")[0].decode()
            running = await shown(setup, f"/v1/generations/{id}", secret)
            assert (running["is_running"], running["price_usd"], running["outcome"]) == (True, None, None)
            assert float(running["reserved_usd"]) > 0
            by_completion = await shown(setup, "/v1/generations/chatcmpl-Scripted0123456789", secret)
            assert by_completion["id"] == id
            assert (await get(setup.gate, f"/v1/generations/{id}", other)).status == 404
            (budget,) = (await shown(setup, "/v1/key", secret))["budgets"]
            assert (budget["spent_usd"], budget["reserved_usd"]) == ("0", running["reserved_usd"])
            goes_on.set()
            await client.read_until(b"0\r\n\r\n")
        await setup.gate.settled()
        assert (await shown(setup, f"/v1/generations/{id}", secret))["price_usd"] == "0.012"


async def test_nodes_count_the_limits_of_a_key_together(tmp_path: Path) -> None:
    """And a request that one of them has answered is found on the other."""
    with ValkeyServer() as valkey:
        async with fleet(ANSWER, tmp_path, count=2, database="postgres", valkey=valkey) as nodes:
            secret = await nodes.new_key("both", rpm=10)
            first, second = nodes.setups
            for setup in (first, second, second):
                reply = await ask(setup.gate, secret)
                await setup.gate.vacated()
            assert await second.writer.flush(PROGRAM_TIMEOUT_S)
            assert (await shown(first, "/v1/key", secret))["limits"] == {"rpm": {"limit": 10, "used": 3, "left": 7}}
            found = await shown(first, f"/v1/generations/{reply.header('x-request-id')}", secret)
            assert found["outcome"] == "completed"
            valkey.kill()
            assert (await shown(first, "/v1/key", secret))["limits"] == {
                "rpm": {"limit": 10, "used": None, "left": None}
            }


async def test_an_error_has_the_form_of_the_caller_s_api(tmp_path: Path) -> None:
    async with keeping("sqlite", tmp_path, answer) as setup:
        secret = await setup.new_key()
        reply = await get(setup.gate, "/v1/generations/msg_x", secret, headers="anthropic-version: 2023-06-01\r\n")
        assert (reply.status, json.loads(reply.body)["type"]) == (404, "error")
        for path in ("/v1/generations/", "/v1/generations/" + "x" * 300):
            assert (await get(setup.gate, path, secret)).status == 404, path


async def test_readers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MAX_AT_ONCE", 0)
    monkeypatch.setattr(lookups, "MAX_WAITING", 0)
    async with keeping("sqlite", tmp_path, answer) as setup:
        reply = await get(setup.gate, "/v1/key", await setup.new_key())
        assert (reply.status, error_of(reply)["code"]) == (503, "overloaded")


async def test_one_key_does_not_keep_others_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, busy = asyncio.Event(), list[str]()
    read = lookups.Lookups._key_document

    async def blocked(self: lookups.Lookups, key: Key, rules: Iterable[LimitRule]) -> dict[str, Any]:
        if key.name == "busy":
            busy.append(key.id)
            await go_on.wait()
        return await read(self, key, rules)

    monkeypatch.setattr(lookups.Lookups, "_key_document", blocked)
    async with keeping("sqlite", tmp_path, answer) as setup:
        secret, other = await setup.new_key("busy"), await setup.new_key("other")
        asking = [asyncio.create_task(get(setup.gate, "/v1/key", secret)) for _ in range(lookups.MAX_OF_KEY)]
        await until(lambda: setup.gate.gateway._lookups._open == lookups.MAX_OF_KEY)
        refused = await get(setup.gate, "/v1/key", secret)
        assert (refused.status, error_of(refused)["code"]) == (429, "concurrency_limit_exceeded")
        assert (await get(setup.gate, "/v1/key", other)).status == 200
        assert len(busy) == lookups.MAX_AT_ONCE // 2
        go_on.set()
        assert {reply.status for reply in await asyncio.gather(*asking)} == {200}
        assert setup.gate.gateway._lookups._keys == {}


async def test_without_a_database_a_key_sees_what_is_known() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _):
        reply = await get(gate, "/v1/key", KEY)
        assert (reply.status, json.loads(reply.body)["budgets"], json.loads(reply.body)["spent"]) == (200, [], None)
        assert (await get(gate, "/v1/generations/req_x", KEY)).status == 404


async def test_the_sdk_can_ask(tmp_path: Path) -> None:
    async with keeping("sqlite", tmp_path, answer) as setup:
        secret = await setup.new_key(show_cost=True)
        async with AsyncOpenAI(base_url=f"{setup.gate.base_url}/v1", api_key=secret, max_retries=0) as client:
            made = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
            await setup.gate.settled()
            found = await client.get(f"/generations/{made.id}", cast_to=dict[str, Any])
            key = await client.get("/key", cast_to=dict[str, Any])
        assert made.usage is not None
        assert (made.usage.model_extra or {})["cost"] == found["usage"]["cost"] == PRICE / NANO
        assert key["spent"]["day_usd"] == found["price_usd"]
