"""A limit beyond what a target gives is lowered to that, for each target that is tried; the record says so.

Claude Code asks for 128,000 tokens of every model, and most providers answer a limit that is too high with an error.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from support.accounting_gateway import MILLI, MODEL, PROMPT, keeping, max_prompt
from support.answers import (
    anthropic_whole,
    error_body,
    gemini_whole,
    openai_whole,
)
from support.gateway import MESSAGES, chat_request, gateway, gateway_to, providers
from support.script import whole
from support.scripted_upstream import ScriptedUpstream

CLAMPED = ("max_tokens_clamped",)
ANSWER = whole(openai_whole())
WANTED = 128_000


def alias(model: str, maximum: str = "", provider: str = "up") -> str:
    return f'[[models]]\nid = "m"\ntargets = [{{ provider = "{provider}", model = "{model}"{maximum} }}]\n'


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_a_limit_above_the_models_maximum_is_lowered_where_it_stands_in_the_body(name: str) -> None:
    async with gateway_to(ANSWER, kind="openai-compatible") as (gate, up):
        members: dict[str, Any] = {"seed": 1, name: WANTED, "temperature": 0.5}
        assert (await gate.ask(model="up/gpt-4o", **members)).status == 200
        sent = up.requests[0].json
        assert list(sent) == ["messages", "model", *members]
        assert sent[name] == 16_384
        (record,) = await gate.settled()
        assert (record.flags, record.dropped) == (CLAMPED, ())


@pytest.mark.parametrize(
    ("model", "wanted"), [("gpt-4o", 16_384), ("made-up", WANTED), ("claude-of-another-house", WANTED)]
)
async def test_a_limit_that_the_model_accepts_is_passed_on_unchanged(model: str, wanted: int) -> None:
    async with gateway_to(ANSWER, kind="openai-compatible") as (gate, up):
        assert (await gate.ask(model=f"up/{model}", max_tokens=wanted)).status == 200
        assert up.requests[0].json["max_tokens"] == wanted
        assert (await gate.settled())[0].flags == ()


async def test_a_request_without_a_limit_gets_none() -> None:
    async with gateway_to(ANSWER, alias("made-up", ", max_output_tokens = 500")) as (gate, up):
        assert (await gate.ask(model="m")).status == 200
        assert not {"max_tokens", "max_completion_tokens"} & up.requests[0].json.keys()
        assert (await gate.settled())[0].flags == ()


@pytest.mark.parametrize(("model", "maximum"), [("made-up", 500), ("gpt-4o", 20_000)])
@pytest.mark.parametrize("asked", ["m", "up/{}"])
async def test_the_operators_maximum_counts_by_whatever_name_the_target_is_asked_for(
    model: str, maximum: int, asked: str
) -> None:
    toml = alias(model, f", max_output_tokens = {maximum}")
    async with gateway_to(ANSWER, toml, kind="openai-compatible") as (gate, up):
        assert (await gate.ask(model=asked.format(model), max_tokens=WANTED)).status == 200
        assert up.requests[0].json["max_tokens"] == maximum
        assert (await gate.settled())[0].flags == CLAMPED


@pytest.mark.parametrize("budget", [WANTED - 1, 20_000, 10_000])
async def test_a_thinking_budget_stays_below_the_lowered_limit(budget: int) -> None:
    """Anthropic answers a budget that is not below max_tokens with 400."""
    thinking = {"type": "enabled", "budget_tokens": budget}
    async with gateway_to(whole(anthropic_whole()), kind="anthropic") as (gate, up):
        target = "up/claude-opus-4-1"
        assert (await gate.ask(model=target, max_tokens=WANTED, thinking=thinking)).status == 200
        sent = up.requests[0].json
        assert sent["max_tokens"] == 32_000
        assert sent["thinking"]["budget_tokens"] == (25_600 if budget > 32_000 else budget)
        assert (await gate.settled())[0].flags == CLAMPED


@pytest.mark.parametrize(("maximum", "sent"), [("", 32_000), (", max_output_tokens = 9_000", 9_000)])
async def test_a_limit_that_anthropic_requires_and_the_caller_has_not_set_is_not_above_the_maximum(
    maximum: str, sent: int
) -> None:
    async with gateway_to(whole(anthropic_whole()), alias("claude-opus-4-8", maximum), kind="anthropic") as (gate, up):
        assert (await gate.ask(model="m")).status == 200
        assert up.requests[0].json["max_tokens"] == sent
        assert (await gate.settled())[0].flags == ()


async def test_gemini_gets_its_own_maximum_and_a_budget_within_it() -> None:
    toml = alias("gemini-2.5-pro", ", max_output_tokens = 10_000")
    async with gateway_to(whole(gemini_whole()), toml, kind="gemini") as (gate, up):
        assert (await gate.ask(model="up/gemini-3-pro", max_tokens=WANTED)).status == 200
        assert up.requests[0].json["generationConfig"]["maxOutputTokens"] == 65_535
        reasoning = {"max_tokens": 30_000}
        assert (await gate.ask(model="m", max_tokens=WANTED, reasoning=reasoning)).status == 200
        config = up.requests[1].json["generationConfig"]
        assert (config["maxOutputTokens"], config["thinkingConfig"]["thinkingBudget"]) == (10_000, 8000)


@pytest.mark.parametrize(
    ("models", "limits", "flags"),
    [(("gpt-4o", "made-up"), (16_384, WANTED), ()), (("made-up", "gpt-4.1"), (WANTED, 32_768), CLAMPED)],
)
async def test_each_target_that_is_tried_gets_its_own_maximum(
    models: tuple[str, str], limits: tuple[int, int], flags: tuple[str, ...]
) -> None:
    """And the record tells of the one that answered."""
    targets = ", ".join(
        f'{{ provider = "{name}", model = "{model}" }}' for name, model in zip(("a", "b"), models, strict=True)
    )
    async with ScriptedUpstream(whole(error_body("no"), 500)) as a, ScriptedUpstream(ANSWER) as b:
        toml = (
            providers("openai-compatible", a=a.base_url, b=b.base_url)
            + f'[[models]]\nid = "m"\ntargets = [{targets}]\n'
        )
        async with gateway(toml) as gate:
            assert (await gate.ask(model="m", max_tokens=WANTED)).status == 200
            assert (a.requests[0].json["max_tokens"], b.requests[0].json["max_tokens"]) == limits
            assert (await gate.settled())[0].flags == flags


async def test_a_large_request_is_lowered_too() -> None:
    """It is written in a thread."""
    body = {"model": "up/gpt-4o", "messages": [{"role": "user", "content": "x" * 300_000}], "max_tokens": WANTED}
    async with gateway_to(ANSWER, kind="openai-compatible") as (gate, up):
        async with await gate.connect() as client:
            await client.send(chat_request(body=json.dumps(body).encode()))
            assert (await client.response()).status == 200
        assert up.requests[0].json["max_tokens"] == 16_384


# The Messages API.


async def test_a_body_that_is_passed_on_keeps_all_but_the_limit_and_its_budget() -> None:
    """As older versions of Claude Code ask: a budget just below the limit."""
    members: dict[str, Any] = {
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "max_tokens": WANTED,
        "thinking": {"budget_tokens": WANTED - 1, "type": "enabled"},
        "made_up": {"b": 1, "a": [1.0, None]},
    }
    async with gateway_to(whole(anthropic_whole()), kind="anthropic") as (gate, up):
        body = {"messages": MESSAGES, "model": "up/claude-sonnet-4-5", **members}
        request = chat_request(path="/v1/messages", body=json.dumps(body).encode())
        async with await gate.connect() as client:
            await client.send(request)
            assert (await client.response()).status == 200
        thinking = {"budget_tokens": 51_200, "type": "enabled"}
        sent = {**body, "model": "claude-sonnet-4-5", "max_tokens": 64_000, "thinking": thinking}
        assert json.dumps(up.requests[0].json) == json.dumps(sent), "in the same order"
        assert (await gate.settled())[0].flags == CLAMPED


@pytest.mark.parametrize(("kind", "model"), [("openai", "gpt-4o"), ("gemini", "gemini-2.0-flash")])
async def test_a_messages_request_that_is_translated_is_lowered(kind: str, model: str) -> None:
    answer = whole(openai_whole() if kind == "openai" else gemini_whole())
    async with gateway_to(answer, kind=kind) as (gate, up):
        assert (await gate.ask(path="/v1/messages", model=f"up/{model}", max_tokens=WANTED)).status == 200
        sent = up.requests[0].json
        limit = sent["max_completion_tokens"] if kind == "openai" else sent["generationConfig"]["maxOutputTokens"]
        assert limit == (16_384 if kind == "openai" else 8192)
        assert (await gate.settled())[0].flags == CLAMPED


# What is reserved.


async def test_no_more_is_reserved_than_any_target_can_answer_with(tmp_path: Path) -> None:
    members: dict[str, Any] = {"model": "m", "max_tokens": WANTED}
    async with keeping(ANSWER, tmp_path, MODEL) as setup:
        held = (max_prompt(**members) + 16_384) * MILLI
        secret = await setup.new_key(budget_nano=held)
        assert (await setup.gate.ask(key=secret, **members)).status == 200
        row = await setup.row()
        assert (row.flags, row.held) == (["max_tokens_clamped"], held)


async def test_what_is_left_may_be_less_than_the_maximum(tmp_path: Path) -> None:
    members: dict[str, Any] = {"model": "m", "max_tokens": WANTED}
    async with keeping(ANSWER, tmp_path, MODEL) as setup:
        secret = await setup.new_key(budget_nano=(max_prompt(**members) + 300) * MILLI)
        assert (await setup.gate.ask(key=secret, **members)).status == 200
        assert setup.up.requests[0].json["max_completion_tokens"] == 300
        assert (await setup.row()).flags == ["max_tokens_lowered"]


async def test_no_more_counts_against_a_limit_of_tokens_than_can_be_answered(tmp_path: Path) -> None:
    async with keeping(ANSWER, tmp_path, MODEL, store="hold_tokens = 30_000") as setup:
        secret = await setup.new_key(tpm=20_000)
        reply = await setup.gate.ask(key=secret, model="m", max_tokens=WANTED)
        assert dict(reply.headers)["x-ratelimit-remaining-tokens"] == str(20_000 - PROMPT - 16_384)
        await setup.row()


# The Responses API.


@pytest.mark.parametrize(("kind", "model"), [("openai", "gpt-4o"), ("gemini", "gemini-2.0-flash")])
async def test_a_responses_request_that_is_translated_is_lowered(kind: str, model: str) -> None:
    answer = whole(openai_whole() if kind == "openai" else gemini_whole())
    async with gateway_to(answer, kind=kind) as (gate, up):
        asked: dict[str, Any] = {"model": f"up/{model}", "input": "Hi", "max_output_tokens": WANTED}
        assert (await gate.ask(path="/v1/responses", **asked)).status == 200
        sent = up.requests[0].json
        limit = sent["max_completion_tokens"] if kind == "openai" else sent["generationConfig"]["maxOutputTokens"]
        assert limit == (16_384 if kind == "openai" else 8192)
        assert (await gate.settled())[0].flags == CLAMPED
