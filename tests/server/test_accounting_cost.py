"""The cost of a request: by the prices of its admission, for the usage that was shown (U30 to U33, C27, G20, G22).

A token of the model `m` costs a thousandth of a dollar, so amounts read as tokens. The usage that a caller gets is the
usage of its row, and determines the cost. Credit and budgets use the same sums.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from streamweir.core.usage import Usage
from streamweir.policy.pricing.prices import Rates, cost_of, max_cost
from streamweir.server.accounting.token_count import vocabulary_of
from streamweir.server.request.runtime.config import built_in_prices
from streamweir.store.db.clock import now_ms
from streamweir.store.keys.credit import add_credit
from support.accounting_gateway import (
    MILLI,
    MODEL,
    PROMPT,
    UNPRICED,
    answers,
    each_form,
    error_of,
    keeping,
    max_prompt,
    path_of,
    set_clock,
)
from support.answers import (
    TEXTS,
    anthropic_frames,
    error_body,
    gemini_frames,
    openai_frames,
    openai_stream,
    openai_whole,
)
from support.gateway import KEY, chat_request, configured, frames_of, providers, text_of
from support.script import End, Head, Send, Step, Wait, in_turn, stream, whole
from support.stores import one_database

BUDGET = 1000 * MILLI
HELD = (max_prompt(model="m", max_tokens=9) + 9) * MILLI
"""For a whole answer of nine tokens."""
BEGUN = b"".join(openai_frames()[:3])
"""Two words of an answer."""


# Prices.

ALIAS = """
[[models]]
id = "alias"
targets = [{ provider = "up", model = "gpt-4o" }, { provider = "spare", model = "gpt-4o-mini" }]
"""


def listed(model: str) -> Rates:
    rates = built_in_prices().table.find("openai", model, now_ms())
    assert rates is not None
    return rates


async def test_the_most_expensive_target_is_held_and_the_one_that_answers_is_billed(tmp_path: Path) -> None:
    """Failing over keeps the one hold."""
    down = whole(error_body("down"), 500)
    async with keeping(down, tmp_path, ALIAS, others={"spare": answers(is_streamed=True)}) as setup:
        dear, cheap = listed("gpt-4o"), listed("gpt-4o-mini")
        prompt = max_prompt(model="alias", stream=True, max_tokens=20)
        assert max_cost(dear, prompt, 20) > max_cost(cheap, prompt, 20)
        secret = await setup.new_key(budget_nano=BUDGET)
        reply = await setup.gate.ask(key=secret, model="alias", stream=True, max_tokens=20)
        assert text_of(reply.body) == "".join(TEXTS)
        row = await setup.row()
        assert [each["target"] for each in row.attempts] == ["up/gpt-4o", "spare/gpt-4o-mini"]
        assert row.target == "spare/gpt-4o-mini"
        assert row.held == max_cost(dear, prompt, 20)
        assert row.price == cost_of(Usage(input_uncached=7, output=5), cheap)
        assert row.price_version == built_in_prices().table.version
        assert [kind for kind, _, _ in await setup.ledger()] == ["hold", "settle"]


async def test_a_price_is_that_of_the_admission(tmp_path: Path) -> None:
    """Whatever a reload brings in the midst of a stream (G20, G22)."""
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(openai_stream(TEXTS[2:], usage=(7, 5))), End()]
    async with keeping(script, tmp_path) as setup, await setup.gate.connect() as client:
        await client.send(chat_request(model="m", stream=True))
        await client.head()
        dearer = MODEL.replace("1000.0", "2000.0")
        store = '[store]\nurl = "sqlite:///streamweir.db"\n'
        setup.gate.gateway.reload(configured(providers(up=setup.up.base_url) + store + dearer))
        go_on.set()
        await client.read_until(b"[DONE]")
        assert (await setup.row()).price == 12 * MILLI
        assert (await setup.gate.ask(model="m", stream=True)).status == 200
        assert (await setup.row(2)).price == 24 * MILLI


TARGET_COST = """
[[models]]
id = "m"
targets = [{ provider = "up", model = "gpt-4o", cost = { input = 1000.0, output = 3000.0, per_request = 0.5 } }]
affinity = false
"""
ACCOUNTS = """
[[providers]]
name = "up"
kind = "openai"
base_url = "{}"
api_keys = [{{ name = "full", key = "sk-full" }}, {{ name = "half", key = "sk-half", discount_percent = 50 }}]
"""


@one_database
async def test_a_request_costs_what_the_target_and_the_account_cost(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sold for the model's price if there is one, else at cost. Who pays less is known when it was asked."""
    script = in_turn(*[answers(is_streamed=False)] * 5)
    async with keeping(script, tmp_path, TARGET_COST, database=database) as setup:
        assert (await setup.gate.ask(model="m")).status == 200
        accounts, priced = ACCOUNTS.format(setup.up.base_url), "price = { input = 2000.0, output = 2000.0 }\n"
        for toml in (TARGET_COST, TARGET_COST + priced):
            changed = configured(accounts + toml)
            setup.gate.gateway.reload(structs.replace(changed, store=setup.gate.gateway.runtime.config.store))
            for drawn in (0.0, 0.99):  # the account is drawn
                monkeypatch.setattr("streamweir.server.request.request.random", lambda drawn=drawn: drawn)
                assert (await setup.gate.ask(model="m")).status == 200
        await setup.gate.settled(5)
        first, *rows = await setup.rows()
        assert first.cost == first.price == (7 + 15 + 500) * MILLI
        assert first.price_version == f"{built_in_prices().table.version}+config"
        costs = {"full": 522 * MILLI, "half": 261 * MILLI}
        used = [row.attempts[-1]["credential"] for row in rows]
        assert sorted(used) == ["full", "full", "half", "half"]
        assert [row.cost for row in rows] == [costs[name] for name in used]
        assert [row.price for row in rows] == [*(costs[name] for name in used[:2]), 24 * MILLI, 24 * MILLI]
        assert rows[0].held == rows[1].held, "whichever it will be"


async def test_cached_and_reasoned_tokens_have_their_own_rates(tmp_path: Path) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    body = json.loads(openai_whole())
    priced = MODEL.replace("output = 1000.0", "output = 3000.0, cache_read = 100.0")
    async with keeping(whole(json.dumps({**body, "usage": usage}).encode()), tmp_path, priced) as setup:
        assert (await setup.gate.ask(model="m", max_tokens=50)).status == 200
        row = await setup.row()
        assert row.usage == {"input_uncached": 40, "cache_read": 60, "output": 20, "reasoning": 30}
        assert row.price == (40 + 6 + 150) * MILLI


async def test_q42_cached_tokens_that_are_no_part_of_the_prompt_are_billed(tmp_path: Path) -> None:
    """docs/spec/quirks.md Q42: cut down to the prompt, 156 of them would be free."""
    *frames, report, done = openai_frames()
    document = json.loads(report[6:])
    document["usage"] = {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "total_tokens": 12,
        "prompt_tokens_details": {"text_tokens": 7, "cached_tokens": 163},
    }
    body = b"".join([*frames, b"data: " + json.dumps(document).encode() + b"\n\n", done])
    priced = MODEL.replace("output = 1000.0", "output = 3000.0, cache_read = 100.0")
    async with keeping(stream(body), tmp_path, priced) as setup:
        reply = await setup.gate.ask(model="m", stream=True, stream_options={"include_usage": True})
        row = await setup.row()
        assert row.usage == {"input_uncached": 7, "cache_read": 163, "output": 5}
        assert row.price == 7 * MILLI + 163 * MILLI // 10 + 15 * MILLI
        assert frames_of(reply.body)[-2]["usage"]["prompt_tokens"] == row.prompt_tokens == 170


# Usage.


@each_form
async def test_explicit_zero_is_zero(is_streamed: bool, tmp_path: Path) -> None:
    """U31: the provider has said so."""
    async with keeping(answers(is_streamed, (0, 0)), tmp_path) as setup:
        reply = await setup.gate.ask(model="m", stream=is_streamed)
        assert reply.status == 200
        row = await setup.row()
        assert (row.price, row.prompt_tokens, row.completion_tokens, row.usage_source) == (0, 0, 0, "provider")
        assert row.flags == []


ABSURD: list[Any] = [
    {"prompt_tokens": -7, "completion_tokens": 5, "total_tokens": -2},
    {"prompt_tokens": 7, "completion_tokens": 10**18, "total_tokens": 10**18},
    {"prompt_tokens": "seven", "completion_tokens": 5.5, "total_tokens": None},
]


def reporting(usage: Any, is_streamed: bool) -> list[Step]:
    if not is_streamed:
        return whole(json.dumps({**json.loads(openai_whole()), "usage": usage}).encode())
    *frames, done = openai_frames(usage=None)
    last = {"id": "chatcmpl-Scripted0123456789", "object": "chat.completion.chunk", "created": 1744220042}
    last |= {"model": "gpt-4o-2024", "choices": [], "usage": usage}
    return stream(b"".join([*frames, b"data: %b\n\n" % json.dumps(last).encode(), done]))


@each_form
async def test_absurd_numbers_are_flagged_and_never_billed(is_streamed: bool, tmp_path: Path) -> None:
    """U33: what was delivered is counted in their place, and shown."""
    async with keeping(in_turn(*(reporting(usage, is_streamed) for usage in ABSURD)), tmp_path) as setup:
        options: dict[str, Any] = {"stream_options": {"include_usage": True}} if is_streamed else {}
        for number, usage in enumerate(ABSURD, start=1):
            reply = await setup.gate.ask(model="m", stream=is_streamed, **options)
            row = await setup.row(number)
            assert (row.verdict, row.flags) == ("completed", ["usage_anomaly"]), usage
            assert row.usage_source in ("tokenizer", "estimate")
            assert row.completion_tokens in (5, 6)
            assert row.price == ((row.prompt_tokens or 0) + row.completion_tokens) * MILLI
            assert shown_usage(reply.body, is_streamed) == (row.prompt_tokens, row.completion_tokens)


async def test_an_hour_in_the_cache_has_a_rate_of_its_own(tmp_path: Path) -> None:
    """As Anthropic tells it: which of the writes are kept for how long."""
    *others, stop = anthropic_frames(usage=(7, 5))
    split = b'"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":10,'
    split += b'"ephemeral_1h_input_tokens":20},"input_tokens":7'
    body = b"".join([each.replace(b'"input_tokens":7', split) for each in others]) + stop
    assert split in body
    for price, rate in (("", 1600), (", cache_write_1h = 3000.0", 3000)):
        toml = MODEL.replace("output = 1000.0", f"output = 1000.0, cache_write = 1000.0{price}")
        folder = tmp_path / str(rate)
        folder.mkdir()
        async with keeping(stream(body), folder, toml, kind="anthropic") as setup:
            assert (await setup.gate.ask(model="m", stream=True)).status == 200
            row = await setup.row()
            assert row.usage is not None
            assert (row.usage["cache_write_5m"], row.usage["cache_write_1h"]) == (10, 20)
            assert row.price == (7 + 5 + 10) * MILLI + 20 * rate * MILLI // 1000


BEYOND: list[tuple[tuple[int, int], tuple[int, int], list[str]]] = [
    ((7, 400_000), (7, 400_000), ["usage_anomaly"]),
    ((400_000, 5), (400_000, 5), ["usage_anomaly"]),
    ((0, 10**9), (0, 500_000), ["usage_anomaly", "usage_cut"]),
    ((3 * 10**8, 10**8), (375_000, 125_000), ["usage_anomaly", "usage_cut"]),
]
"""What is reported, what is billed of it, and the flags."""


@each_form
async def test_more_than_the_request_can_have_used_is_billed_up_to_the_bound(is_streamed: bool, tmp_path: Path) -> None:
    """It may be true: a guess of our own would bill next to nothing. What is billed is what is shown."""
    scripts = [answers(is_streamed, reported) for reported, _, _ in BEYOND]
    async with keeping(in_turn(*scripts), tmp_path, store="anomaly_tokens = 500_000") as setup:
        options: dict[str, Any] = {"stream_options": {"include_usage": True}} if is_streamed else {}
        for number, (_, billed, flags) in enumerate(BEYOND, start=1):
            reply = await setup.gate.ask(model="m", stream=is_streamed, **options)
            row = await setup.row(number)
            assert (row.verdict, row.flags, row.usage_source) == ("completed", flags, "provider")
            assert (row.prompt_tokens, row.completion_tokens) == billed == shown_usage(reply.body, is_streamed)
            assert row.price == sum(billed) * MILLI


FRAMES: dict[str, Callable[..., list[bytes]]] = {
    "openai": openai_frames,
    "anthropic": anthropic_frames,
    "gemini": gemini_frames,
}
REMOTE: dict[str, tuple[str, dict[str, Any]]] = {
    "a cache of Gemini's": ("gemini", {"cached_content": "cachedContents/abc"}),
    "servers that Anthropic asks": (
        "anthropic",
        {"mcp_servers": [{"type": "url", "url": "https://mcp.example.com", "name": "x"}]},
    ),
    "a search": ("openai", {"web_search_options": {}}),
    "none": ("openai", {}),
}


@pytest.mark.parametrize("case", REMOTE)
async def test_usage_for_content_outside_the_request_is_accepted(case: str, tmp_path: Path) -> None:
    kind, members = REMOTE[case]
    script = stream(b"".join(FRAMES[kind](usage=(500_020, 2))))
    async with keeping(script, tmp_path, kind=kind) as setup:
        assert (await setup.gate.ask(model="m", stream=True, **members)).status == 200
        row = await setup.row()
        assert (row.prompt_tokens, row.usage_source) == (500_020, "provider")
        assert row.price == (500_020 + (row.completion_tokens or 0)) * MILLI
        assert row.flags == (["usage_anomaly"] if case == "none" else [])


@pytest.mark.parametrize("dialect", ["openai", "opentoken", "aivene", "bitseek"])
@pytest.mark.parametrize("usage", [(7, 5), None], ids=["reported", "counted"])
async def test_what_is_shown_is_what_is_billed(dialect: str, usage: tuple[int, int] | None, tmp_path: Path) -> None:
    """Streamed and whole; from the provider, and by our own count where it says nothing (U30)."""
    scripts = {True: answers(is_streamed=True, usage=usage), False: answers(is_streamed=False, usage=usage)}

    def script(request: Any) -> list[Step]:
        return scripts[bool(request.json.get("stream"))]

    async with keeping(script, tmp_path, MODEL + UNPRICED) as setup:
        count = 0
        vocabularies = setup.gate.gateway._requests._vocabularies
        vocabularies.load(vocabulary_of("gpt-4o").vocabulary)  # else the first is an estimate
        for is_streamed in (True, False) if dialect != "bitseek" else (True,):
            for model in ("m", "free"):
                options: dict[str, Any] = {"stream_options": {"include_usage": True}} if is_streamed else {}
                reply = await setup.gate.ask(path=path_of(dialect), model=model, stream=is_streamed, **options)
                shown = shown_usage(reply.body, is_streamed)
                count += 1
                row = await setup.row(count)
                assert shown == (row.prompt_tokens, row.completion_tokens)
                assert row.price == (sum(shown) * MILLI if model == "m" else None)
                if usage is not None:
                    assert (shown, row.usage_source) == (usage, "provider")
                else:
                    assert row.usage_source == ("tokenizer" if model == "m" else "estimate")


def shown_usage(body: bytes, is_streamed: bool) -> tuple[int, int]:
    documents = frames_of(body) if is_streamed else [json.loads(body)]
    (usage,) = [each["usage"] for each in documents if each != "[DONE]" and each.get("usage") is not None]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return usage["prompt_tokens"], usage["completion_tokens"]


# Credit.


async def test_the_keys_of_a_workspace_share_its_credit(tmp_path: Path) -> None:
    async with keeping(answers(is_streamed=False), tmp_path) as setup:
        workspace = await setup.new_workspace("paid", HELD + 18 * MILLI)
        first, second = await setup.new_key("a", workspace), await setup.new_key("b", workspace, budget_nano=BUDGET)
        statuses = [(await setup.gate.ask(model="m", key=key, max_tokens=9)).status for key in (first, second, first)]
        assert statuses == [200, 200, 429]
        assert await setup.spent_and_held(workspace) == (24 * MILLI, 0)
        await setup.write(lambda conn: add_credit(conn, workspace, 6 * MILLI, actor="test", at_ms=now_ms()))
        assert (await setup.gate.ask(model="m", key=first, max_tokens=9)).status == 200
        refused = await setup.gate.ask(model="m", key=second, max_tokens=9)
        assert error_of(refused)["code"] == "insufficient_quota"
        await setup.change(second, budget_nano=12 * MILLI)  # what it has spent
        refused = await setup.gate.ask(model="m", key=second, max_tokens=9)
        assert error_of(refused)["code"] == "budget_exceeded"
        assert (await setup.gate.ask(model="m", key=KEY, max_tokens=9)).status == 200, "another workspace"
        assert await setup.spent_and_held(workspace) == (36 * MILLI, 0)
        assert await setup.spent_and_held() == (12 * MILLI, 0)


async def test_of_many_at_once_only_those_that_can_be_paid_for_are_admitted(tmp_path: Path) -> None:
    """C27, in one process; `test_accounting_race` has the others."""
    go_on = asyncio.Event()
    async with keeping([Wait(go_on), *answers(is_streamed=False)], tmp_path) as setup:
        secret = await setup.new_key(budget_nano=3 * HELD)
        asking = [asyncio.ensure_future(setup.gate.ask(model="m", key=secret, max_tokens=9)) for _ in range(20)]
        await setup.gate.settled(17)
        await setup.up.seen(3)
        go_on.set()
        replies = await asyncio.gather(*asking)
        assert sorted(reply.status for reply in replies) == [200] * 3 + [429] * 17
        await setup.gate.settled(20)
        assert await setup.spent_and_held() == (36 * MILLI, 0)


async def test_a_budget_is_that_of_its_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keeping(answers(is_streamed=False, usage=(PROMPT, 9)), tmp_path) as setup:
        secret = await setup.new_key(budget_nano=HELD + 11 * MILLI, budget_period="day")

        async def status() -> int:
            return (await setup.gate.ask(model="m", key=secret, max_tokens=9)).status

        assert [await status(), await status()] == [200, 429]
        set_clock(monkeypatch, now_ms() + 86_400_000)
        assert [await status(), await status()] == [200, 429]
        await setup.change(secret, budget_nano=HELD + 35 * MILLI, budget_period="total")
        assert [await status(), await status()] == [200, 429]
