"""Reasoning comes back as it went out: signed and redacted blocks, and their places."""

import json
from typing import Any

import pytest

from streamweir.core.completion import Accumulator, FoldedChoice
from streamweir.core.events import Event, ReasoningDelta
from streamweir.core.request import read_request
from streamweir.pipeline.intake import Intake
from streamweir.providers.base import Target
from streamweir.providers.converse import PROVIDER
from support.fixture_bodies import ROOT, body_in

CLAUDE, GPT = "anthropic.claude-opus-5", "us.openai.gpt-5.6-sol"


def blocks_on_the_wire(text: str) -> list[dict[str, Any]]:
    """The content of the message, put together from its deltas the plain way."""
    blocks: dict[int, dict[str, Any]] = {}
    for line in text.splitlines():
        event = json.loads(line[6:]) if line.startswith("data: ") else {}
        block = blocks.setdefault(event["contentBlockIndex"], {}) if "contentBlockIndex" in event else {}
        if "start" in event:
            tool = event["start"]["toolUse"]
            block["toolUse"] = {"toolUseId": tool["toolUseId"], "name": tool["name"], "input": ""}
        for name, piece in event.get("delta", {}).items():
            if name == "text":
                block["text"] = block.get("text", "") + piece
            elif name == "toolUse":
                block["toolUse"]["input"] += piece["input"]
            elif "redactedContent" in piece:
                block["reasoningContent"] = piece
            else:
                joined = block.setdefault("reasoningContent", {}).setdefault("reasoningText", {})
                joined.update({member: joined.get(member, "") + value for member, value in piece.items()})
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return [block for _, block in sorted(blocks.items())]


def fold(events: list[Event]) -> FoldedChoice:
    accumulator = Accumulator()
    for event in events:
        accumulator.feed(event)
    return accumulator.fold().choices[0]


def sent_back(choice: FoldedChoice, details: list[dict[str, Any]], model: str) -> Any:
    message = {
        "role": "assistant",
        "content": choice.text,
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in choice.calls
        ],
        "reasoning_details": details,
    }
    turn = [{"role": "user", "content": "Go."}, message, {"role": "user", "content": "On."}]
    request = PROVIDER.build_request(read_request({"model": "m", "messages": turn}), Target(model=model))
    assert request.dropped == ()
    return json.loads(request.body)["messages"][1]["content"]


@pytest.mark.parametrize(
    ("case", "model"),
    [
        ("signed_reasoning", CLAUDE),
        ("redacted_reasoning", CLAUDE),
        ("tool_calls_between_reasoning", CLAUDE),
        ("sealed_reasoning_of_another_vendor", GPT),
    ],
)
def test_blocks_come_back_unchanged_at_their_positions(case: str, model: str) -> None:
    folder = ROOT / "bedrock" / case
    intake = Intake(PROVIDER)
    events = [*intake.feed(body_in(folder)), *intake.finish()]
    choice = fold(events)
    pieces = [dict(entry) for event in events if isinstance(event, ReasoningDelta) for entry in event.details]
    original = blocks_on_the_wire((folder / "response.frames").read_text())
    assert sent_back(choice, choice.reasoning_details, model) == original
    assert sent_back(choice, pieces, model) == original


def test_a_whole_answer_comes_back_too() -> None:
    body = body_in(ROOT / "bedrock" / "whole_message")
    choice = fold(list(PROVIDER.decode_whole(body)))
    assert sent_back(choice, choice.reasoning_details, CLAUDE) == json.loads(body)["output"]["message"]["content"]
