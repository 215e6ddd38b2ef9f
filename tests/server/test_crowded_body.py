"""Bodies of very many small things: within the limit they are served and nobody waits for them; beyond it, refused.

The tests' event loop fails a test in which one turn of the gateway takes too long.
"""

import json
from typing import Any

import pytest

from streamweir.wire.jsonio import MAX_ELEMENTS
from support.answers import anthropic_stream, gemini_stream, openai_stream
from support.gateway import gateway_to
from support.raw_client import Reply
from support.script import stream

ANSWERS = {"openai": openai_stream(), "anthropic": anthropic_stream(), "gemini": gemini_stream()}


def parts(count: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "a"}] * count}]


def calls(count: int) -> list[dict[str, Any]]:
    asked = [{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in range(count)]
    return [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": asked}]


MESSAGES = {"parts": parts(MAX_ELEMENTS // 3 - 10), "calls": calls(MAX_ELEMENTS // 7)}


def code_of(reply: Reply) -> str:
    code: str = json.loads(reply.body)["error"]["code"]
    return code


@pytest.mark.diagonal
@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize("kind", ANSWERS)
async def test_many_small_things_are_served(kind: str, messages: list[dict[str, Any]]) -> None:
    async with gateway_to(stream(ANSWERS[kind]), kind=kind) as (gate, up):
        reply = await gate.ask(model="up/m", stream=True, messages=messages)
        assert reply.status == 200
        assert len(up.requests) == 1


MANY = {
    "parts": {"messages": parts(MAX_ELEMENTS // 3 + 10)},
    "numbers": {"messages": parts(1), "unknown": [1] * (MAX_ELEMENTS + 10)},
    "texts": {"messages": parts(1), "unknown": [""] * (MAX_ELEMENTS + 10)},
    "lists": {"messages": parts(1), "unknown": [[]] * (MAX_ELEMENTS + 10)},
    "keys": {"messages": parts(1), "unknown": [{f"k{i}": 1 for i in range(1000)}] * (MAX_ELEMENTS // 1000 + 1)},
}


@pytest.mark.parametrize("members", MANY.values(), ids=MANY)
async def test_too_many_elements_are_refused(members: dict[str, Any]) -> None:
    async with gateway_to(stream(openai_stream())) as (gate, up):
        reply = await gate.ask(model="up/m", stream=True, **members)
        assert (reply.status, code_of(reply)) == (400, "invalid_value")
        assert str(MAX_ELEMENTS) in json.loads(reply.body)["error"]["message"]
        assert up.requests == []


async def test_a_long_text_is_one_value_whatever_it_contains() -> None:
    text = '[{"a":1,"b":"\\\\"},]' * 100_000
    async with gateway_to(stream(openai_stream())) as (gate, up):
        reply = await gate.ask(model="up/m", stream=True, messages=[{"role": "user", "content": text}])
        assert reply.status == 200
        assert up.requests[0].json["messages"][0]["content"] == text
