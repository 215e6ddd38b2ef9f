"""A key never spends more than its budget, whatever is requested and however much of it is billed.

The upstream bills a token for every byte that it could read of the request, and an answer as long as the limit that it
got: the maximum for a provider that keeps the limit. Requests come at once, streamed and whole, with and without
limits, and with text in members that an estimate does not count.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.accounting_gateway import MILLI, MODEL, keeping, max_prompt
from support.answers import openai_frames, openai_stream, openai_whole
from support.fleet import fleet
from support.gateway import MESSAGES
from support.script import Hang, Head, Seen, Send, Step, stream, whole
from support.stores import each_database

UNKNOWN = MODEL.replace("gpt-4o", "made-up")
"""No tokenizer is known for it."""
ADDED = ("max_completion_tokens", "stream_options")
"""By the gateway: it is no part of any prompt."""


def dearest(seen: Seen) -> Sequence[Step]:
    """Most of the answer is reasoning that is not shown."""
    limit = seen.json["max_completion_tokens"] * seen.json.get("n", 1)
    prompt = {name: value for name, value in seen.json.items() if name not in ADDED}
    usage = (len(json.dumps(prompt)), limit)
    if not seen.json.get("stream"):
        return whole(openai_whole("42", usage=usage))
    return stream(openai_stream(["42"], usage=usage))


def request_of(chance: Random) -> dict[str, Any]:
    members: dict[str, Any] = {"stream": chance.random() < 0.5}
    text = "1234567890" * chance.randrange(200)
    if chance.random() < 0.5:
        members["max_tokens"] = chance.choice([1, 50, 1000, 100_000])
    where = chance.randrange(4)
    if where == 0:
        members["messages"] = [{"role": "user", "content": text or "x"}]
    elif where == 1:
        members["messages"] = [{"role": "assistant", "content": "x", "reasoning_content": text}, *MESSAGES]
    elif where == 2:
        schema = {"name": "a", "schema": {"description": text}}
        members["response_format"] = {"type": "json_schema", "json_schema": schema}
    return members


@each_database
@pytest.mark.parametrize("seed", range(3))
async def test_no_budget_is_overspent(seed: int, database: str, tmp_path: Path) -> None:
    chance = Random(seed)
    async with fleet(dearest, tmp_path, database=database, toml=UNKNOWN) as nodes:
        (setup,) = nodes.setups
        budget = chance.randrange(500, 20_000) * MILLI
        secret = await nodes.new_key(budget_nano=budget)
        for _ in range(2):
            asking = [setup.gate.ask(key=secret, model="m", **request_of(chance)) for _ in range(6)]
            statuses = {reply.status for reply in await asyncio.gather(*asking)}
            assert statuses <= {200, 429}
        await setup.gate.vacated()
        spent, held = await nodes.spent_and_held()
        assert held == 0
        assert 0 < spent <= budget


async def test_the_provider_gets_the_remaining_limit_and_the_row_shows_it(tmp_path: Path) -> None:
    async with keeping(dearest, tmp_path, UNKNOWN) as setup:
        prompt = max_prompt(model="m", max_tokens=1000)
        secret = await setup.new_key(budget_nano=(prompt + 300) * MILLI)
        assert (await setup.gate.ask(key=secret, model="m", max_tokens=1000)).status == 200
        assert setup.up.requests[0].json["max_completion_tokens"] == 300
        row = await setup.row()
        assert (row.flags, row.held) == (["max_tokens_lowered"], (prompt + 300) * MILLI)
        poor = await setup.new_key("poor", budget_nano=(prompt + 63) * MILLI)
        assert (await setup.gate.ask(key=poor, model="m", max_tokens=1000)).status == 429


async def test_without_a_limit_on_money_the_request_goes_out_as_it_came(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        assert (await setup.gate.ask(model="m", stream=True)).status == 200
        assert not {"max_tokens", "max_completion_tokens"} & setup.up.requests[0].json.keys()
        assert (await setup.row()).flags == []


async def test_a_long_prompt_that_does_not_fit_by_its_bytes_is_counted_by_the_tokenizer(tmp_path: Path) -> None:
    """20,000 bytes, and a fifth as many tokens."""
    async with keeping(stream(openai_stream(usage=(4100, 5))), tmp_path) as setup:
        secret = await setup.new_key(budget_nano=8000 * MILLI)
        messages = [{"role": "user", "content": "word " * 4000}]
        reply = await setup.gate.ask(key=secret, model="m", stream=True, max_tokens=20, messages=messages)
        assert reply.status == 200
        row = await setup.row()
        assert 4000 * MILLI < (row.held or 0) <= 8000 * MILLI
        assert (row.flags, row.price) == ([], 4105 * MILLI)


@pytest.mark.parametrize(("left", "is_counted"), [(100, False), (2000, True)])
async def test_a_prompt_that_cannot_fit_by_any_count_is_not_counted(
    left: int, is_counted: bool, tmp_path: Path
) -> None:
    """20,000 bytes: a count takes a while, and whoever has spent everything could ask for it again and again."""
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        secret = await setup.new_key(budget_nano=left * MILLI)
        messages = [{"role": "user", "content": "word " * 4000}]
        assert (await setup.gate.ask(key=secret, model="m", messages=messages)).status == 429
        assert ("o200k_base" in setup.gate.gateway._requests._vocabularies._loaded) == is_counted


async def test_digits_beyond_the_limit_are_cut_by_the_tokenizers_count(tmp_path: Path) -> None:
    """They are three to a token, and were counted four to one."""
    frames = openai_frames(["123"] * 3000, usage=None)[:-3]
    async with keeping([Head(), *(Send(frame) for frame in frames), Hang()], tmp_path) as setup:
        await asyncio.to_thread(setup.gate.gateway._requests._vocabularies.load, "o200k_base")
        budget = (max_prompt(model="m", stream=True, max_tokens=1000) + 1000) * MILLI
        secret = await setup.new_key(budget_nano=budget)
        await setup.gate.ask(key=secret, model="m", stream=True, max_tokens=1000)
        row = await setup.row()
        assert row.error == "budget_exceeded"
        assert (row.price or 0) <= budget


@pytest.mark.parametrize("pictures", [0, 1, 6])
async def test_an_image_does_not_reduce_the_answer(pictures: int, tmp_path: Path) -> None:
    """A megabyte of it is a thousand tokens or two, and not more than a context window has."""
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        secret = await setup.new_key(budget_nano=10**9 * MILLI)
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 500_000}}
        messages = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, *[picture] * pictures]}]
        assert (await setup.gate.ask(key=secret, model="m", stream=True, messages=messages)).status == 200
        assert setup.up.requests[0].json["max_completion_tokens"] == 16_384


async def test_what_is_to_be_thought_is_reserved_beside_the_answer(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path, UNKNOWN) as setup:
        secret = await setup.new_key(budget_nano=10_000 * MILLI)
        thinking = {"type": "enabled", "budget_tokens": 2000}
        assert (await setup.gate.ask(key=secret, model="m", stream=True, thinking=thinking)).status == 200
        told = setup.up.requests[0].json
        assert (told["max_completion_tokens"], told["thinking"]["budget_tokens"]) == (1024 + 2000, 2000)


async def test_thinking_for_which_too_little_is_left_is_named_as_left_out(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path, UNKNOWN) as setup:
        thinking = {"type": "enabled", "budget_tokens": 2000}
        prompt = max_prompt(model="m", stream=True, thinking=thinking)
        secret = await setup.new_key(budget_nano=(prompt + 500) * MILLI)
        assert (await setup.gate.ask(key=secret, model="m", stream=True, thinking=thinking)).status == 200
        told = setup.up.requests[0].json
        assert (told["max_completion_tokens"], "thinking" in told) == (500, False)
        assert (await setup.row()).dropped == ["thinking"]
