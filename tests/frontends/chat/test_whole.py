"""Whole bodies: the same events, folded; what the deltas concatenate to."""

import json
from typing import Any

from msgspec import UNSET

from streamweir.core.completion import Accumulator
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    Extra,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.chat.dialect import call_id
from streamweir.frontends.chat.table import DIALECTS
from streamweir.frontends.chat.whole import encode_whole

STOP = ChoiceFinished(0, FinishReason.STOP, "stop")


def whole(dialect: str, *events: Event, **changes: Any) -> dict[str, Any]:
    accumulator = Accumulator()
    for event in [*events, StreamCompleted()]:
        accumulator.feed(event)
    reply = Reply(**{"id": "ours-1", "now": lambda: 7, "model": "openai/gpt-4o", **changes})
    body: dict[str, Any] = json.loads(encode_whole(accumulator.fold(), DIALECTS[dialect], reply))
    return body


def message(dialect: str, *events: Event, **changes: Any) -> dict[str, Any]:
    shown: dict[str, Any] = whole(dialect, StreamStarted(), *events, **changes)["choices"][0]["message"]
    return shown


def test_openai_body() -> None:
    usage = Usage(input_uncached=9, output=12)
    started = StreamStarted("chatcmpl-u000000000000001", "gpt-4o-2024", 5, "fp_1")
    body = whole("openai", started, StreamTagged(service_tier="flex"), TextDelta(0, "Hi"), STOP, UsageReported(usage))
    counts = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}
    assert list(body) == [
        "id",
        "object",
        "created",
        "model",
        "system_fingerprint",
        "service_tier",
        "choices",
        "usage",
    ]
    assert body["choices"] == [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]
    assert (body["id"], body["object"], body["created"], body["model"]) == (
        "chatcmpl-u000000000000001",
        "chat.completion",
        5,
        "gpt-4o-2024",
    )
    assert {name: body["usage"][name] for name in counts} == counts


def test_ids_times_and_models_follow_the_dialect() -> None:
    started = StreamStarted("chatcmpl-u000000000000001", "gpt-4o-2024", 5)
    aivene = whole("aivene", started, TextDelta(0, "Hi"), STOP)
    assert (aivene["id"], aivene["model"]) == ("ours-1", "openai/gpt-4o")
    assert "system_fingerprint" not in aivene
    assert whole("aivene", started, STOP, model=None)["model"] == "gpt-4o-2024"
    pinned = whole("openai", started, STOP, pinned=True, created=3)
    assert (pinned["id"], pinned["created"]) == ("ours-1", 3)
    assert whole("openai", StreamStarted(), STOP, target_model="t")["model"] == "t"
    assert whole("openai", StreamStarted(), STOP)["created"] == 7


def test_content_is_null_beside_calls_and_empty_in_an_empty_answer() -> None:
    call = ToolCallStarted(0, 0, "call_1", "f")
    assert message("openai", call, STOP)["content"] is None
    assert message("openai", STOP)["content"] == ""
    assert message("openai", RefusalDelta(0, "no"), STOP) == {"role": "assistant", "content": None, "refusal": "no"}
    assert message("opentoken", TextDelta(0, "a"), RefusalDelta(0, "no"), STOP)["content"] == "ano"


def test_calls() -> None:
    events = [
        ToolCallStarted(0, 0, "call_1", "f"),
        ToolCallStarted(0, 1, None, "g"),
        ToolCallDelta(0, 0, '{"x"'),
        ToolCallDelta(0, 0, ":1}"),
    ]
    made = call_id("ours-1", 0, 1)
    assert message("openai", *events, STOP)["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": made, "type": "function", "function": {"name": "g", "arguments": ""}},
    ]


def test_legacy_call() -> None:
    events = [ToolCallStarted(0, 0, None, "f", legacy=True), ToolCallDelta(0, 0, "{}")]
    finish = ChoiceFinished(0, FinishReason.OTHER, "odd")
    body = whole("openai", StreamStarted(), *events, finish)
    assert body["choices"][0]["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    assert body["choices"][0]["finish_reason"] == "function_call"
    assert message("aivene", *events, finish)["tool_calls"][0]["function"]["name"] == "f"


def test_free_form_call() -> None:
    events = [ToolCallStarted(0, 0, "c", "patch", custom=True), ToolCallDelta(0, 0, "any text"), STOP]
    assert message("openai", *events)["tool_calls"] == [
        {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "any text"}}
    ]
    assert message("aivene", *events)["tool_calls"][0]["function"]["arguments"] == "any text"


def test_reasoning_and_its_details() -> None:
    text = {"type": "reasoning.text", "text": "a", "index": 0}
    events = [
        ReasoningDelta(0, "a", (text,)),
        ReasoningDelta(0, "b", ({**text, "text": "b"},)),
        ReasoningDelta(0, "", ({"type": "reasoning.text", "signature": "s", "index": 0},)),
        TextDelta(0, "t"),
        STOP,
    ]
    shown = message("openai", *events)
    assert shown["reasoning_content"] == "ab"
    assert shown["reasoning_details"] == [{"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s"}]
    assert "reasoning_details" not in message("aivene", *events)
    assert "reasoning_content" not in message("openai", *events, exclude_reasoning=True)


def test_logprobs_and_extras() -> None:
    events = [
        LogprobsDelta(0, None),
        LogprobsDelta(0, {"content": [1], "refusal": None}),
        TextDelta(0, "a"),
        LogprobsDelta(0, {"content": [2], "refusal": None}),
        LogprobsDelta(0, UNSET),
        Extra(0, {"annotations": [1]}),
        Extra(0, {"annotations": [2]}),
        Extra(0, {"audio": {"id": "a", "data": "AA"}}),
        Extra(0, {"audio": {"id": "a", "data": "BB", "expires_at": 1}}),
        Extra(None, {"citations": ["x"], "moderation": {}}),
        STOP,
    ]
    body = whole("openai", StreamStarted(), *events)
    choice = body["choices"][0]
    assert choice["logprobs"] == {"content": [1, 2], "refusal": None}
    assert choice["message"]["annotations"] == [1, 2]
    assert choice["message"]["audio"] == {"id": "a", "data": "AABB", "expires_at": 1}
    assert body["citations"] == ["x"]
    assert "moderation" not in body
    assert "logprobs" not in whole("aivene", StreamStarted(), *events)["choices"][0]
    assert whole("openai", StreamStarted(), LogprobsDelta(0, None), STOP)["choices"][0]["logprobs"] is None


def test_an_emoji_that_was_cut_in_two_is_one_again() -> None:
    assert message("openai", TextDelta(0, "\ud83d"), TextDelta(0, "\ude00"), STOP)["content"] == "😀"


def test_usage_is_counted_where_none_was_reported() -> None:
    body = whole("aivene", StreamStarted(), STOP, count_usage=lambda: Usage(output=2))
    assert body["usage"] == {"prompt_tokens": 0, "completion_tokens": 2, "total_tokens": 2}
