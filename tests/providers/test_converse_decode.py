"""Converse's answers: what the fixtures do not show."""

import json
from typing import Any

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.pipeline.intake import Intake
from streamweir.providers.converse import PROVIDER
from streamweir.wire.sse import Frame
from support.amazon_body import answer, frame
from support.event_rules import assert_valid_events


def events_of(*frames: bytes) -> list[Event]:
    intake = Intake(PROVIDER)
    events = [*intake.feed(b"".join(frames)), *intake.finish()]
    assert_valid_events(events)
    return events


def code_of(events: list[Event]) -> str:
    failed = events[-1]
    assert isinstance(failed, StreamFailed)
    return failed.error.code


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("guardrail_intervened", FinishReason.CONTENT_FILTER),
        ("content_filtered", FinishReason.CONTENT_FILTER),
        ("something_new", FinishReason.OTHER),
        ("", FinishReason.OTHER),
    ],
)
def test_stop_reasons(stop: str, reason: FinishReason) -> None:
    assert ChoiceFinished(0, reason, stop) in events_of(answer("a", stop=stop))


@pytest.mark.parametrize("stop", ["malformed_model_output", "malformed_tool_use"])
def test_an_unusable_answer_fails_and_its_usage_counts(stop: str) -> None:
    events = events_of(answer("a", stop=stop))
    assert code_of(events) == "upstream_server_error"
    assert isinstance(events[-2], UsageReported)


USAGE: list[tuple[dict[str, Any], Usage | None]] = [
    ({"inputTokens": 3, "outputTokens": 5, "totalTokens": 8}, Usage(input_uncached=3, output=5)),
    (
        {
            "inputTokens": 2,
            "outputTokens": 5,
            "totalTokens": 29,
            "cacheReadInputTokens": 10,
            "cacheWriteInputTokens": 12,
        },
        Usage(input_uncached=2, cache_read=10, cache_write_5m=12, output=5),
    ),
    (
        {
            "inputTokens": 2,
            "outputTokens": 5,
            "cacheWriteInputTokens": 12,
            "cacheDetails": [{"ttl": "5m", "inputTokens": 4}, {"ttl": "1h", "inputTokens": 8}, {"ttl": "1h"}, 7],
        },
        Usage(input_uncached=2, cache_write_5m=4, cache_write_1h=8, output=5),
    ),
    (
        {
            "inputTokens": 2,
            "outputTokens": 5,
            "cacheWriteInputTokens": 3,
            "cacheDetails": [{"ttl": "1h", "inputTokens": 8}],
        },
        Usage(input_uncached=2, cache_write_5m=0, cache_write_1h=3, output=5),
    ),
    (
        {"inputTokens": 2, "outputTokens": 5, "cacheDetails": [{"ttl": "1h", "inputTokens": 8}]},
        Usage(input_uncached=2, cache_write_1h=8, output=5),
    ),
    (
        {"inputTokens": 20, "outputTokens": 5, "totalTokens": 25, "cacheReadInputTokens": 15},
        Usage(input_uncached=5, cache_read=15, output=5),
    ),
    (
        {"inputTokens": 2, "outputTokens": 5, "cacheReadInputTokenCount": 7, "cacheWriteInputTokenCount": 1},
        Usage(input_uncached=2, cache_read=7, cache_write_5m=1, output=5),
    ),
    ({"inputTokens": 3}, None),
    ({}, None),
]


@pytest.mark.parametrize(("report", "usage"), USAGE)
def test_usage(report: dict[str, Any], usage: Usage | None) -> None:
    body = {"output": {"message": {"content": [{"text": "a"}]}}, "stopReason": "end_turn", "usage": report}
    whole = PROVIDER.decode_whole(json.dumps(body).encode())
    reported = [event.usage for event in whole if isinstance(event, UsageReported)]
    assert reported == ([] if usage is None else [usage])
    streamed = events_of(answer("a", usage=report or {"totalTokens": 1}))
    assert [event.usage for event in streamed if isinstance(event, UsageReported)] == reported


@pytest.mark.parametrize("count", [-1, 2**60, "3", 1.5, True])
def test_an_invalid_count_discards_the_report(count: object) -> None:
    events = events_of(answer("a", usage={"inputTokens": count, "outputTokens": 1}))
    assert UsageDiscarded() in events
    assert isinstance(events[-1], StreamCompleted)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (":exception/throttlingException", "upstream_rate_limited"),
        (":exception/ModelNotReadyException", "upstream_overloaded"),
        (":exception/serviceUnavailableException", "upstream_overloaded"),
        (":exception/internalServerException", "upstream_server_error"),
        (":exception/modelStreamErrorException", "upstream_server_error"),
        (":exception/modelTimeoutException", "upstream_timeout"),
        (":exception/validationException", "invalid_value"),
        (":exception/somethingNew", "upstream_server_error"),
        (":error/InternalError", "upstream_server_error"),
    ],
)
def test_failures_inside_a_stream(name: str, code: str) -> None:
    begun = [frame("messageStart", {}), frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}})]
    events = events_of(*begun, frame(name, {"message": "Wait."}), frame("messageStop", {"stopReason": "end_turn"}))
    assert events[:2] == [StreamStarted(), TextDelta(0, "a")]
    assert code_of(events) == code


def test_a_failure_after_the_stop_is_a_failure() -> None:
    stop = frame("messageStop", {"stopReason": "end_turn"})
    assert (
        code_of(events_of(stop, frame(":exception/throttlingException", {"message": "x"}))) == "upstream_rate_limited"
    )


def test_the_answer_may_end_when_nothing_follows_the_stop() -> None:
    decoder = PROVIDER.decoder()
    assert not decoder.may_end_when_idle
    decoder.feed(Frame(b"", b'{"contentBlockIndex":0,"delta":{"text":"a"}}', b"contentBlockDelta"))
    assert not decoder.may_end_when_idle
    decoder.feed(Frame(b"", b'{"stopReason":"end_turn"}', b"messageStop"))
    assert decoder.may_end_when_idle
    assert not decoder.lacks_terminator
    assert decoder.finish()[-1] == StreamCompleted()
    assert decoder.feed(Frame(b"", b"{}", b"messageStop")) == ()
    assert decoder.fail(UpstreamError("upstream_timeout", "Late.")) == ()


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([frame("messageStart", {})], "upstream_stream_truncated"),
        ([frame("messageStart", {}), frame("contentBlockDelta", [1])], "upstream_invalid_frame"),
        ([answer("a")[:-3]], "upstream_stream_truncated"),
        ([b"{}"], "upstream_bad_response"),
        ([b'{"message": "Try later.", "__type": "ThrottlingException"}'], "upstream_rate_limited"),
        ([b'{"output": {"message": 7}}'], "upstream_bad_response"),
    ],
)
def test_what_cannot_be_an_answer(frames: list[bytes], code: str) -> None:
    assert code_of(events_of(*frames)) == code


def test_every_cut_of_a_stream() -> None:
    """It is complete only if it ends cleanly after messageStop; the usage may be missing then."""
    body = answer("a", "b")
    metadata = body.rindex(b":event-type") - 13
    for size in range(len(body)):
        events = events_of(body[:size]) if size else []
        if size == metadata:
            assert [type(event) for event in events[-2:]] == [ChoiceFinished, StreamCompleted]
        elif size:
            assert code_of(events) in ("upstream_stream_truncated", "upstream_empty_response")
            assert not any(isinstance(event, ChoiceFinished) for event in events)


def test_frames_that_are_not_in_order() -> None:
    """Indexes and starts may be missing; what belongs to no block of the answer is passed over."""
    events = events_of(
        frame("contentBlockDelta", {"delta": {"text": "a"}}),
        frame("contentBlockStart", {"start": {"toolUse": {"toolUseId": "c", "name": "f"}}}),
        frame("contentBlockDelta", {"delta": {"toolUse": {"input": "{}"}}}),
        frame("contentBlockStop", {}),
        frame("contentBlockDelta", {"contentBlockIndex": 9, "delta": {"toolUse": {"input": "lost"}}}),
        frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": None}),
        frame("contentBlockStart", {"contentBlockIndex": 5, "start": {"toolUse": {"name": "g"}}}),
        frame("contentBlockStart", {"contentBlockIndex": 5, "start": {}}),
        frame("newThing", {"text": "x"}),
        frame("messageStop", {"stopReason": "tool_use"}),
    )
    assert events == [
        StreamStarted(),
        TextDelta(0, "a"),
        ToolCallStarted(0, 0, "c", "f"),
        ToolCallDelta(0, 0, "{}"),
        ToolCallStarted(0, 1, None, "g"),
        ToolCallDelta(0, 1, "{}"),
        ChoiceFinished(0, FinishReason.TOOL_CALLS, "tool_use"),
        StreamCompleted(),
    ]


def test_reasoning_data_that_is_no_base64_stays_as_it_came() -> None:
    delta = {"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": "?"}}}
    events = events_of(frame("contentBlockDelta", delta), frame("messageStop", {"stopReason": "end_turn"}))
    entry = {"type": "reasoning.encrypted", "data": "?", "format": "bedrock-converse-v1", "index": 0}
    assert ReasoningDelta(0, "", (entry,)) in events


def test_another_message_inside_an_answer() -> None:
    again = frame("messageStart", {"role": "assistant"})
    begun = frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}})
    assert isinstance(events_of(again, again, answer("a"))[-1], StreamCompleted)
    assert code_of(events_of(begun, again)) == "upstream_stream_truncated"


@pytest.mark.parametrize(
    ("status", "name", "body", "code"),
    [
        (429, "ThrottlingException:http://internal/", b'{"message":"Too many"}', "upstream_rate_limited"),
        (400, "ValidationException", b'{"message":"Bad temperature."}', "invalid_value"),
        (400, "ValidationException", b'{"message":"Input is too long for this model."}', "context_length_exceeded"),
        (503, "", b"<html>", "upstream_overloaded"),
    ],
)
def test_failed_responses(status: int, name: str, body: bytes, code: str) -> None:
    assert PROVIDER.read_error(status, {"x-amzn-errortype": name}, body).code == code
