"""Reasoning comes back as it went out: thinking and redacted blocks, their signatures and their places."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.completion import Accumulator, FoldedChoice
from streamweir.core.events import Event, ReasoningDelta
from streamweir.core.request import read_request
from streamweir.providers.anthropic import PROVIDER
from streamweir.providers.base import Target
from streamweir.wire.sse import Splitter

FIXTURES = Path(__file__).parent.parent / "fixtures" / "anthropic"
STREAMS = ("thinking_then_tool_call", "thinking_text_omitted", "redacted_thinking", "content_in_message_start")


def blocks_on_the_wire(body: bytes) -> list[dict[str, Any]]:
    """The content of the message, put together from its deltas the plain way."""
    content: list[dict[str, Any]] = []
    pieces: dict[int, str] = {}
    for line in body.decode().splitlines():
        signal = json.loads(line[6:]) if line.startswith("data: ") else {}
        if signal.get("type") == "message_start":
            content += signal["message"]["content"]
        elif signal.get("type") == "content_block_start":
            content.append(signal["content_block"])
        elif signal.get("type") == "content_block_delta":
            for name in ("text", "thinking", "signature"):
                if name in signal["delta"]:
                    content[-1][name] = content[-1].get(name, "") + signal["delta"][name]
            index = len(content) - 1
            pieces[index] = pieces.get(index, "") + signal["delta"].get("partial_json", "")
    for index, piece in pieces.items():
        if content[index]["type"] == "tool_use":
            content[index]["input"] = json.loads(piece)
    return content


def fold(events: list[Event]) -> FoldedChoice:
    accumulator = Accumulator()
    for event in events:
        accumulator.feed(event)
    return accumulator.fold().choices[0]


def sent_back(choice: FoldedChoice, details: list[dict[str, Any]]) -> Any:
    message = {
        "role": "assistant",
        "content": choice.text,
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in choice.calls
        ],
        "reasoning_content": choice.reasoning,
        "reasoning_details": details,
    }
    turn = [{"role": "user", "content": "Go."}, message, {"role": "user", "content": "On."}]
    request = PROVIDER.build_request(read_request({"model": "m", "messages": turn}), Target(model="claude-opus-5"))
    assert request.dropped == ()
    return json.loads(request.body)["messages"][1]["content"]


@pytest.mark.parametrize("case", STREAMS)
def test_blocks_come_back_unchanged_at_their_positions(case: str) -> None:
    body = (FIXTURES / case / "response.sse").read_bytes()
    splitter, decoder = Splitter(), PROVIDER.decoder()
    events = [event for frame in splitter.feed(body) for event in decoder.feed(frame)]
    choice = fold(events)
    pieces = [dict(entry) for event in events if isinstance(event, ReasoningDelta) for entry in event.details]
    original = blocks_on_the_wire(body)
    assert sent_back(choice, choice.reasoning_details) == original
    assert sent_back(choice, pieces) == original


def test_a_whole_answer_comes_back_too() -> None:
    body = (FIXTURES / "whole_message" / "response.json").read_bytes()
    choice = fold(list(PROVIDER.decode_whole(body)))
    assert [block["type"] for block in sent_back(choice, choice.reasoning_details)] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
        "tool_use",
    ]


def thinking(text: str, signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


DETAILS: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
    # Pieces without an index belong together until the signature.
    (
        [
            {"type": "reasoning.text", "text": "a"},
            {"type": "reasoning.text", "text": "b", "signature": "1"},
            {"type": "reasoning.text", "text": "c"},
            {"type": "reasoning.text", "text": None, "signature": "2"},
        ],
        [thinking("ab", "1"), thinking("c", "2")],
    ),
    # One index for two blocks: the signature is the last piece of a block.
    (
        [
            {"type": "reasoning.text", "text": "a", "signature": "1", "index": 0},
            {"type": "reasoning.text", "text": "b", "signature": "2", "index": 0},
        ],
        [thinking("a", "1"), thinking("b", "2")],
    ),
    (
        [
            {"type": "reasoning.encrypted", "data": "x", "index": 0},
            {"type": "reasoning.text", "text": "b", "signature": "2", "index": 0, "format": "anthropic-claude-v1"},
        ],
        [{"type": "redacted_thinking", "data": "x"}, thinking("b", "2")],
    ),
    # A place far off is after everything else.
    ([{"type": "reasoning.text", "signature": "1", "index": 9}], [thinking("", "1")]),
]


@pytest.mark.parametrize(("details", "expected"), DETAILS)
def test_pieces_are_joined(details: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    choice = FoldedChoice(0, None, None, [], None, [], None, {}, None, "")
    assert sent_back(choice, details) == expected


def test_blank_text_keeps_its_position_but_is_not_sent() -> None:
    choice = FoldedChoice(0, "\n\n", None, [], None, [], None, {}, None, "")
    details = [
        {"type": "reasoning.text", "text": "a", "signature": "1", "index": 0},
        {"type": "reasoning.text", "text": "b", "signature": "2", "index": 2},
    ]
    assert sent_back(choice, details) == [thinking("a", "1"), thinking("b", "2")]
