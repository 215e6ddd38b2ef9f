"""Thought signatures go out in `reasoning_details` and come back on the parts that they came with."""

import json
from typing import Any

import pytest

from streamweir.core.completion import Accumulator
from streamweir.core.events import ReasoningDelta
from streamweir.core.request import read_request
from streamweir.providers.base import Target
from streamweir.providers.gemini import PROVIDER
from streamweir.wire.sse import Frame

SKIP = "skip_thought_signature_validator"


def sent_back(message: dict[str, Any], model: str = "gemini-3-pro-preview") -> tuple[list[Any], tuple[str, ...]]:
    """The parts that Gemini gets for an assistant message, and what was dropped."""
    messages = [{"role": "user", "content": "go"}, message]
    built = PROVIDER.build_request(read_request({"model": "m", "messages": messages}), Target(model=model))
    contents = json.loads(built.body)["contents"]
    assert contents[1]["role"] == "model"
    return contents[1]["parts"], built.dropped


def message_of(frames: list[list[dict[str, Any]]], pieces: bool) -> dict[str, Any]:
    """What a client holds after the stream: its message, the details as pieces or as folded."""
    decoder = PROVIDER.decoder()
    folder = Accumulator()
    details: list[dict[str, Any]] = []
    for number, parts in enumerate(frames):
        reason = {"finishReason": "STOP"} if number == len(frames) - 1 else {}
        data = json.dumps({"candidates": [{"content": {"parts": parts}, **reason}]}).encode()
        for event in decoder.feed(Frame(data, data)):
            folder.feed(event)
            if isinstance(event, ReasoningDelta):
                details += event.details
    for event in decoder.finish():
        folder.feed(event)
    (choice,) = folder.fold().choices
    calls = [
        {
            "id": call.id or f"call_made{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for number, call in enumerate(choice.calls)
    ]
    return {
        "role": "assistant",
        "content": choice.text,
        "reasoning_details": details if pieces else choice.reasoning_details,
        **({"tool_calls": calls} if calls else {}),
        **({"reasoning_content": choice.reasoning} if choice.reasoning else {}),
    }


def call(name: str, signature: str | None = None, id: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"functionCall": {"name": name, "args": {"a": 1}, **({"id": id} if id else {})}}
    return {**made, "thoughtSignature": signature} if signature else made


STREAMS: dict[str, list[list[dict[str, Any]]]] = {
    "on a call": [[call("f", "one")]],
    "on the first of parallel calls": [[call("f", "one"), call("g")], [call("h")]],
    "on a later call": [[call("f", "one", "id-1"), call("f", None, "id-2")], [call("f", "two", "id-3")]],
    "on all of a text": [[{"text": "9", "thoughtSignature": "one"}]],
    "on the last piece of a text": [[{"text": "It is "}], [{"text": "9", "thoughtSignature": "one"}]],
    "on a piece in the midst": [[{"text": "It "}], [{"text": "is", "thoughtSignature": "one"}], [{"text": " 9"}]],
    "alone after the text": [[{"text": "It is 9"}], [{"text": "", "thoughtSignature": "one"}]],
    "alone, and nothing else": [[{"text": "", "thoughtSignature": "one"}]],
    "on text and call": [[{"text": "Now ", "thoughtSignature": "one"}], [{"text": "go"}], [call("f", "two")]],
    "twice on text": [[{"text": "a", "thoughtSignature": "one"}, {"text": "b", "thoughtSignature": "two"}]],
}


@pytest.mark.parametrize("pieces", [True, False])
@pytest.mark.parametrize("name", STREAMS)
def test_every_signature_comes_back_where_it_was(name: str, pieces: bool) -> None:
    sent = [part for frame in STREAMS[name] for part in frame]
    parts, dropped = sent_back(message_of(STREAMS[name], pieces))
    assert dropped == ()
    for part in parts:
        part.get("functionCall", {}).pop("id", None)
    for part in sent:
        part.get("functionCall", {}).pop("id", None)
    assert parts == sent


def test_thoughts_are_not_sent_back() -> None:
    thoughts = [{"text": "hm", "thought": True}]
    parts, dropped = sent_back(message_of([thoughts, [{"text": "Yes"}]], pieces=True))
    assert parts == [{"text": "Yes"}]
    assert dropped == ("messages[1].reasoning_content",)
    signed = [{"text": "Yes", "thoughtSignature": "one"}]
    parts, dropped = sent_back(message_of([thoughts, signed], pieces=True))
    assert parts == signed
    assert dropped == (), "the signature holds what was thought"


def entry(**members: Any) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "format": "google-gemini-v1", "data": "sig", **members}


def with_calls(*details: dict[str, Any]) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": id, "type": "function", "function": function} for id in ("c1", "c2")]
    return {"role": "assistant", "content": "ab", "tool_calls": calls, "reasoning_details": list(details)}


@pytest.mark.parametrize(
    ("detail", "signatures"),
    [
        (entry(id="c2"), [None, SKIP, "sig"]),
        (entry(id="call:1"), [None, SKIP, "sig"]),
        (entry(), [None, "sig", None]),
        (entry(id=None), [None, "sig", None]),
        (entry(id="text:0-2"), ["sig", SKIP, None]),
        (entry(id="text:9-99"), [None, "sig", SKIP, None]),
    ],
)
def test_places(detail: dict[str, Any], signatures: list[str | None]) -> None:
    parts, dropped = sent_back(with_calls(detail))
    assert [part.get("thoughtSignature") for part in parts] == signatures
    assert dropped == ()


@pytest.mark.parametrize(
    "detail",
    [
        entry(id="part"),
        entry(id="call:2"),
        entry(id="c9"),
        entry(format="anthropic-claude-v1"),
        entry(format=None),
        {"type": "reasoning.text", "text": "hm", "signature": "s", "format": "anthropic-claude-v1"},
    ],
)
def test_what_cannot_go_back_is_named(detail: dict[str, Any]) -> None:
    parts, dropped = sent_back(with_calls({"type": "reasoning.text", "text": "hm"}, detail))
    assert [part.get("thoughtSignature") for part in parts] == [None, SKIP, None]
    assert dropped == ("messages[1].reasoning_details[1]",)


def test_two_without_a_place_are_the_first_call_and_the_end_of_the_text() -> None:
    parts, _ = sent_back(with_calls(entry(data="x"), entry(data="y", id="")))
    assert [part.get("thoughtSignature") for part in parts] == [None, "y", "x", None]
    assert parts[1]["text"] == ""


def test_pieces_that_overlap_lose_no_text() -> None:
    details = [entry(id="text:0-2", data="x"), entry(id="text:1-1", data="y")]
    message = {"role": "assistant", "content": "abc", "reasoning_details": details}
    parts, _ = sent_back(message)
    assert "".join(part["text"] for part in parts) == "abc"
    assert [part.get("thoughtSignature") for part in parts] == ["x", "y", None]


@pytest.mark.parametrize(
    ("model", "signature"),
    [
        ("gemini-3-pro-preview", SKIP),
        ("gemini-3.5-flash", SKIP),
        ("gemini-2.5-pro", None),
        ("gemini-flash-latest", SKIP),
        ("gemini-robotics-er-1.5", None),
    ],
)
def test_a_call_of_another_model_gets_the_documented_signature(model: str, signature: str | None) -> None:
    parts, _ = sent_back(with_calls(), model)
    assert [part.get("thoughtSignature") for part in parts] == [None, signature, None]
