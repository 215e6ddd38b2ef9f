"""The Messages API in keys, limits, ledger, log and metrics: as chat completions are, under its own name."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.usage import Usage
from streamweir.policy.billing.bill import FEMTO
from streamweir.policy.pricing.prices import Rates, cost_of
from streamweir.server.request.runtime.config import built_in_prices
from streamweir.store.db.clock import now_ms
from streamweir.store.requests.content import find_content
from support.accounting_gateway import MILLI, AccountingSetup, answers, each_form, keeping
from support.answers import TEXTS, anthropic_frames, anthropic_stream, anthropic_whole, openai_stream
from support.console_session import Page, sign_in
from support.gateway import until
from support.messages import QUESTION, ask, read_stream
from support.script import Script, stream, whole
from support.stores import one_database

CLAUDE = "claude-sonnet-4-6"
USAGE = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 2000,
    "cache_read_input_tokens": 10_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 1500, "ephemeral_1h_input_tokens": 500},
    "output_tokens": 5,
}
SYSTEM = [{"type": "text", "text": "word " * 20_000, "cache_control": {"type": "ephemeral"}}]
"""As long as the usage says."""


def passed(is_streamed: bool, usage: dict[str, Any]) -> Script:
    if not is_streamed:
        return whole(json.dumps({**json.loads(anthropic_whole()), "usage": usage}).encode())
    frames = anthropic_frames()
    start = json.loads(frames[0].split(b"data: ")[1])
    start["message"]["usage"] = {**usage, "output_tokens": 1}
    frames[0] = b"event: message_start\ndata: %b\n\n" % json.dumps(start).encode()
    return stream(b"".join(frames))


def listed(model: str) -> Rates:
    rates = built_in_prices().table.find("anthropic", model, now_ms())
    assert rates is not None
    return rates


@each_form
@pytest.mark.parametrize("has_buckets", [True, False], ids=["buckets", "sum"])
async def test_caches_are_billed_by_the_price_list(tmp_path: Path, is_streamed: bool, has_buckets: bool) -> None:
    """Read, and written for five minutes and for an hour: each at its own rate. A sum alone is of five minutes."""
    told = USAGE if has_buckets else {name: count for name, count in USAGE.items() if name != "cache_creation"}
    async with keeping(passed(is_streamed, told), tmp_path, "", kind="anthropic") as setup:
        secret = await setup.new_key(budget_nano=10_000 * MILLI)
        reply = await ask(setup.gate, key=secret, model=f"up/{CLAUDE}", stream=is_streamed, system=SYSTEM)
        assert reply.status == 200
        row = await setup.row()
        rates, hour = listed(CLAUDE), 500 if has_buckets else 0
        assert None not in (rates.cache_read, rates.cache_write, rates.cache_write_1h)
        assert len({rates.input, rates.cache_read, rates.cache_write, rates.cache_write_1h}) == 4
        usage = Usage(input_uncached=3, cache_read=10_000, cache_write_5m=2000 - hour, cache_write_1h=hour, output=5)
        by_hand = (
            3 * rates.input
            + 10_000 * rates.of_cache_read()
            + (2000 - hour) * rates.of_cache_write()
            + hour * rates.of_cache_write_1h()
            + 5 * rates.output
        )
        assert (row.price, 0) == divmod(by_hand, FEMTO)
        assert row.price == cost_of(usage, rates)
        assert (row.prompt_tokens, row.completion_tokens, row.usage_source) == (12_003, 5, "provider")
        assert row.flags == []
        kinds = await setup.ledger(row.request_id)
        assert [kind for kind, _, _ in kinds] == ["hold", "settle"]
        assert -sum(amount for _, amount, _ in kinds) == row.price == kinds[-1][2]
        assert (await setup.spent_and_held())[0] == row.price
        page = await sign_in(setup.gate)
        detail = (await get(setup, page, f"/api/requests/{row.request_id}"))["request"]
        lines = {line["what"]: line["tokens"] for line in detail["bill"]}
        assert {name: count for name, count in lines.items() if name.startswith("cache")} == {
            "cache_read": 10_000,
            "cache_write": 2000 - hour,
            **({"cache_write_1h": hour} if hour else {}),
        }


@one_database
@each_form
async def test_searches_are_reserved_and_billed(tmp_path: Path, is_streamed: bool, database: str) -> None:
    """As many as the request allows are reserved, and those that the provider reports are billed."""
    told = {"input_tokens": 7, "output_tokens": 5, "server_tool_use": {"web_search_requests": 2}}
    search = {"type": "web_search_20250305", "name": "web_search"}
    rates = listed(CLAUDE)
    assert rates.per_search == 10 * MILLI
    async with keeping(passed(is_streamed, told), tmp_path, "", kind="anthropic", database=database) as setup:
        secret = await setup.new_key(budget_nano=10_000 * MILLI)
        for most in (3, 5):
            tools = [{**search, "max_uses": most}]
            reply = await ask(setup.gate, key=secret, model=f"up/{CLAUDE}", stream=is_streamed, tools=tools)
            assert reply.status == 200
        await setup.gate.settled(2)
        before, row = await setup.rows()
        assert row.held is not None
        assert before.held is not None
        assert row.held - before.held == 2 * rates.per_search, "of the two that it allows more"
        assert before.held > 3 * rates.per_search
        assert row.usage == {"input_uncached": 7, "output": 5, "searches": 2}
        assert (row.prompt_tokens, row.completion_tokens) == (7, 5)
        assert row.price == cost_of(Usage(input_uncached=7, output=5), rates) + 2 * rates.per_search


async def get(setup: AccountingSetup, page: Page, path: str) -> Any:
    return json.loads(await get_bytes(setup, path, page.safe_fields))


async def get_bytes(setup: AccountingSetup, path: str, fields: tuple[tuple[str, str], ...] = ()) -> bytes:
    async with await setup.gate.connect() as client:
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        await client.send(f"GET {path} HTTP/1.1\r\nhost: gateway\r\n{head}\r\n".encode())
        reply = await client.response()
    assert reply.status == 200, reply.body
    return reply.body


async def test_the_log_names_the_api(tmp_path: Path) -> None:
    """List, filter, detail, export and metrics: `dialect` names the API."""
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        reply = await ask(setup.gate, model="m", context_management={"edits": [{}]})
        assert (await setup.gate.ask(model="m", stream=True)).status == 200
        await setup.gate.settled(2)
        row = (await setup.rows())[0]
        assert (row.dialect, row.dropped) == ("messages", ["context_management"])
        assert reply.header("x-streamweir-dropped") == "context_management"
        page = await sign_in(setup.gate)
        for dialect in ("messages", "openai"):
            (found,) = (await get(setup, page, f"/api/requests?dialect={dialect}"))["data"]
            assert found["dialect"] == dialect
            detail = (await get(setup, page, f"/api/requests/{found['request_id']}"))["request"]
            assert detail["dialect"] == dialect
        lines = (
            await get_bytes(setup, "/api/requests/export?format=jsonl&dialect=messages", page.safe_fields)
        ).splitlines()
        assert [json.loads(line)["dialect"] for line in lines] == ["messages"]
        counted = re.findall(r"requests_total\{(.*)\} (.*)", (await get_bytes(setup, "/metrics")).decode())
        assert [float(count) for labels, count in counted if 'dialect="messages"' in labels] == [1]


@each_form
async def test_what_is_not_passed_is_named_to_the_caller_too(tmp_path: Path, is_streamed: bool) -> None:
    async with keeping(passed(is_streamed, USAGE), tmp_path, "", kind="anthropic") as setup:
        model = f"up/{CLAUDE}"
        reply = await ask(setup.gate, model=model, stream=is_streamed, system=SYSTEM, speed="fast", inference_geo="eu")
        row = await setup.row()
        assert row.dropped == ["speed", "inference_geo"]
        assert reply.header("x-streamweir-dropped") == "speed, inference_geo"
        assert not {"speed", "inference_geo"} & setup.up.requests[0].json.keys()


@each_form
async def test_the_playground_answers_as_the_api_does(tmp_path: Path, is_streamed: bool) -> None:
    async with keeping(answers(is_streamed), tmp_path) as setup:
        page, key_id = await sign_in(setup.gate), setup.key_id(await setup.new_key("payer"))
        inner = json.dumps({**QUESTION, "model": "m", "stream": is_streamed}).encode()
        reply = await page.chat(key_id, dialect="messages", inner=inner)
        assert reply.status == 200
        message = read_stream(reply.body) if is_streamed else json.loads(reply.body)
        assert message["content"] == [{"type": "text", "text": "".join(TEXTS)}]
        row = await setup.row()
        assert (row.dialect, row.key_name, row.completion_id) == ("messages", "payer", message["id"])
        assert reply.header("request-id") == row.request_id
        reply = await page.chat(key_id, dialect="messages", model="m")
        assert (reply.status, json.loads(reply.body)["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"budget_nano": 1}, (402, "billing_error")),
        ({"models": ("other",)}, (404, "not_found_error")),
        ({"scopes": ("admin",)}, (403, "permission_error")),
    ],
    ids=["budget", "models", "scopes"],
)
async def test_a_key_may_what_it_may_elsewhere(tmp_path: Path, spec: Any, expected: tuple[int, str]) -> None:
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        secret = await setup.new_key("bound", **spec)
        reply = await ask(setup.gate, key=secret, model="m")
        assert (reply.status, json.loads(reply.body)["error"]["type"]) == expected
        assert setup.up.requests == []
        row = await setup.row()
        assert (row.dialect, row.status, row.key_name) == ("messages", expected[0], "bound")


async def test_content_is_stored_for_keys_with_log_content(tmp_path: Path) -> None:
    async with keeping(stream(anthropic_stream()), tmp_path, "", kind="anthropic") as setup:
        secret = await setup.new_key(log_content=True)
        reply = await ask(setup.gate, key=secret, model=f"up/{CLAUDE}")
        row = await setup.row()
        assert row.has_content
        queue = setup.storage.contents
        await until(lambda: not queue._waiting)
        found = await setup.read(lambda conn: find_content(conn, row.request_id))
        assert found is not None
        content = found.unpack()
        assert json.loads(content.prompt) == {**QUESTION, "model": f"up/{CLAUDE}", "stream": True}
        assert content.answer == "".join(TEXTS)
        for frames in (content.caller_frames, content.upstream_frames):
            assert "".join(text for _, text in frames or ()).encode() == reply.body
