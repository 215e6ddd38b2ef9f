"""What another family's model needs back of its reasoning goes through a Responses client and returns to that model.

A client such as Codex sends back the items that it got, and nothing else: reasoning, text and calls, then the results.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from support.gateway import Gate, gateway_to
from support.responses import ask, read_stream
from support.script import stream

FIXTURES = Path(__file__).parents[1] / "fixtures"
TOOLS = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("f", "get_weather")]
QUESTION = {"role": "user", "content": "How is the weather?"}
REASONING: dict[str, Any] = {"effort": "high", "summary": "auto"}

CALL = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2lnbmF0dXJl"}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [CALL]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12},
    "modelVersion": "gemini-3-pro-preview-11-2025",
}


def fixture(name: str) -> bytes:
    return (FIXTURES / name / "response.sse").read_bytes()


async def first_answer(gate: Gate, model: str) -> list[dict[str, Any]]:
    response = read_stream((await ask(gate, model=model, input=[QUESTION], tools=TOOLS, reasoning=REASONING)).body)
    items: list[dict[str, Any]] = response["output"]
    return items


async def continue_with(gate: Gate, model: str, items: list[dict[str, Any]]) -> None:
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": id, "output": "fine"} for id in calls]
    more = [] if calls else [{"role": "user", "content": "Go on."}]
    reply = await ask(gate, model=model, input=[QUESTION, *items, *results, *more], tools=TOOLS, reasoning=REASONING)
    assert reply.status == 200


@pytest.mark.parametrize("case", ["thinking_then_tool_call", "redacted_thinking", "thinking_text_omitted"])
async def test_the_blocks_of_anthropics_thinking_return_as_they_came(case: str) -> None:
    body = fixture(f"anthropic/{case}")
    sent = [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: {")]
    signatures = [d["delta"]["signature"] for d in sent if d.get("delta", {}).get("type") == "signature_delta"]
    blocks = [d["content_block"] for d in sent if d["type"] == "content_block_start"]
    sealed = [block["data"] for block in blocks if block["type"] == "redacted_thinking"]
    assert signatures or sealed
    async with gateway_to(stream(body), kind="anthropic") as (gate, up):
        items = await first_answer(gate, "up/claude-opus-4-8")
        assert items[0]["type"] == "reasoning"
        await continue_with(gate, "up/claude-opus-4-8", items)
        answer = json.loads(up.requests[-1].body)["messages"][1]["content"]
        kinds = [block["type"] for block in answer]
        assert kinds == [block["type"] for block in blocks], "in their order, each in its place"
        assert [block["signature"] for block in answer if block["type"] == "thinking"] == signatures
        assert [block["data"] for block in answer if block["type"] == "redacted_thinking"] == sealed
        records = await gate.settled(2)
        assert not [path for path in records[-1].dropped if path.startswith("input")]


async def test_a_signature_returns_to_the_model_that_wrote_it_and_to_no_other() -> None:
    body = b"data: " + json.dumps(GEMINI).encode() + b"\r\n\r\n"
    async with gateway_to(stream(body), kind="gemini") as (gate, up):
        items = await first_answer(gate, "up/gemini-3-pro")
        assert [item["type"] for item in items] == ["reasoning", "function_call"]
        signatures = []
        for model in ("up/gemini-3-pro", "up/gemini-3-flash", "up/gemini-2.5-pro"):
            await continue_with(gate, model, items)
            (part,) = json.loads(up.requests[-1].body)["contents"][1]["parts"]
            assert part["functionCall"]["args"] == {"a": 1}
            signatures.append(part.get("thoughtSignature"))
        assert signatures == ["c2lnbmF0dXJl", "skip_thought_signature_validator", None]
        records = await gate.settled(4)
        assert ["input[].encrypted_content" in record.dropped for record in records] == [False, False, True, True]


@pytest.mark.parametrize("summary", ["auto", None])
async def test_the_text_of_reasoning_returns_to_vendors_that_want_it(summary: str | None) -> None:
    async with gateway_to(stream(fixture("deepseek/reasoning_content")), kind="deepseek") as (gate, up):
        members: dict[str, Any] = {"reasoning": {"summary": summary}} if summary else {}
        response = read_stream((await ask(gate, input=[QUESTION], **members)).body)
        thought, said = response["output"]
        text = (thought["summary"] if summary else thought["content"])[0]["text"]
        assert text
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": "c", "output": "x"}
        await ask(gate, input=[QUESTION, thought, said, call, result])
        message = json.loads(up.requests[-1].body)["messages"][1]
        assert message["reasoning_content"] == text
        assert len(message["tool_calls"]) == 1
        await gate.settled(2)


async def test_reasoning_of_one_family_is_left_out_for_another() -> None:
    body = fixture("anthropic/thinking_then_tool_call")
    async with gateway_to(stream(body), kind="anthropic") as (gate, _):
        items = await first_answer(gate, "up/claude-opus-4-8")
        await gate.settled()
    async with gateway_to(stream(fixture("deepseek/reasoning_content"))) as (gate, up):
        await continue_with(gate, "up/gpt-4o", items)
        assert b"sw1." not in up.requests[-1].body
        message = json.loads(up.requests[-1].body)["messages"][1]
        assert message.keys() == {"role", "content", "tool_calls"}
        (record,) = await gate.settled()
        assert {"input[].encrypted_content", "input[].summary"} <= set(record.dropped)
