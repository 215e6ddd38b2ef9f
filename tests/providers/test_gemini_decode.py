"""Gemini's decoder where a fixture would say too little: ends, arrays given whole, odd types, times."""

import json
from typing import Any

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    Extra,
    FinishReason,
    ReasoningDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.providers.base import invalid_frame, truncated
from streamweir.providers.gemini import PROVIDER, Gemini
from streamweir.providers.gemini.arguments import PartialArguments, UnreadablePath, whole_arguments
from streamweir.providers.gemini.logprob import logprobs_of
from streamweir.wire.sse import Frame
from support.event_rules import assert_valid_events


def frame(value: Any, *, terminated: bool = True) -> Frame:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Frame(b"data: " + data, data, terminated=terminated)


def decode(*values: Any) -> list[Event]:
    decoder = PROVIDER.decoder()
    events: list[Event] = []
    for value in values:
        events += decoder.feed(value if isinstance(value, Frame) else frame(value))
    events += decoder.finish()
    assert_valid_events(events)
    return events


def answer(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": "STOP", **candidate}]}


def test_nothing_follows_the_end() -> None:
    error = UpstreamError("upstream_stream_reset", "reset")
    decoder = PROVIDER.decoder()
    assert decoder.feed(frame(answer({"text": "a"})))
    assert decoder.finish()[-1] == StreamCompleted()
    assert not decoder.finish()
    assert not decoder.fail(error)
    assert not decoder.feed(frame(answer({"text": "b"})))


def test_a_failure_from_outside_ends_it() -> None:
    error = UpstreamError("upstream_stream_reset", "reset")
    decoder = PROVIDER.decoder()
    decoder.feed(frame(answer({"text": "a"})))
    assert list(decoder.fail(error)) == [StreamFailed(error)]
    assert not decoder.finish()


def test_no_frame_at_all_is_truncated() -> None:
    assert decode() == [truncated()]
    assert decode(b"[DONE]") == [truncated()]


@pytest.mark.parametrize("data", [b"", b"null", b"7", b'"x"', b"[]", b"[{}]", b'{"a"', b"\xff", b'{"a":"\xff"}'])
def test_a_frame_that_is_no_object_cannot_be_read(data: bytes) -> None:
    assert decode(data) == [invalid_frame()]
    assert decode(frame(data, terminated=False)) == [truncated()]


@pytest.mark.parametrize("raw", [b": ping\n\n", b"event: x\n\n", b"id: 1\n\n"])
def test_a_block_without_data_means_nothing(raw: bytes) -> None:
    assert decode(Frame(raw, None), answer({"text": "a"}))[-1] == StreamCompleted()


def test_a_bare_array_with_an_error_is_a_failure_too() -> None:
    raw = b'[{"error": {"code": 503, "status": "UNAVAILABLE"}}]\n\n'
    (failed,) = decode(Frame(raw, None))
    assert isinstance(failed, StreamFailed)
    assert failed.error.code == "upstream_overloaded"


def test_an_error_beside_usage_comes_after_it_even_at_the_start() -> None:
    events = decode({"error": {"code": 500}, "usageMetadata": {"promptTokenCount": 3}, "responseId": "r"})
    assert [type(event) for event in events] == [StreamStarted, UsageReported, StreamFailed]


@pytest.mark.parametrize("error", [None, False, {}, ""])
def test_an_empty_error_is_no_error(error: object) -> None:
    assert decode({**answer({"text": "a"}), "error": error})[-1] == StreamCompleted()


@pytest.mark.parametrize(
    ("time", "created"),
    [
        ("2026-04-02T17:03:50.399550Z", 1775149430),
        ("2026-04-02T17:03:50.399550123Z", 1775149430),
        ("2026-04-02T19:03:50+02:00", 1775149430),
        ("2026-04-02T17:03:50", 1775149430),
        ("1970-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("yesterday", None),
        ("", None),
        (7, None),
    ],
)
def test_created_is_the_time_in_seconds(time: object, created: int | None) -> None:
    assert decode({**answer({"text": "a"}), "createTime": time})[0] == StreamStarted(created=created)


@pytest.mark.parametrize(
    ("word", "reason", "raw"),
    [
        ("STOP", FinishReason.STOP, "STOP"),
        ("MAX_TOKENS", FinishReason.LENGTH, "MAX_TOKENS"),
        ("SAFETY", FinishReason.CONTENT_FILTER, "SAFETY"),
        ("RECITATION", FinishReason.CONTENT_FILTER, "RECITATION"),
        ("BLOCKLIST", FinishReason.CONTENT_FILTER, "BLOCKLIST"),
        ("PROHIBITED_CONTENT", FinishReason.CONTENT_FILTER, "PROHIBITED_CONTENT"),
        ("SPII", FinishReason.CONTENT_FILTER, "SPII"),
        ("MODEL_ARMOR", FinishReason.CONTENT_FILTER, "MODEL_ARMOR"),
        ("IMAGE_SAFETY", FinishReason.CONTENT_FILTER, "IMAGE_SAFETY"),
        ("LANGUAGE", FinishReason.OTHER, "LANGUAGE"),
        ("OTHER", FinishReason.OTHER, "OTHER"),
        (1, FinishReason.STOP, "STOP"),
        (2, FinishReason.LENGTH, "MAX_TOKENS"),
        (8, FinishReason.CONTENT_FILTER, "SPII"),
        (10, FinishReason.CONTENT_FILTER, "MODEL_ARMOR"),
        (15, FinishReason.OTHER, "UNEXPECTED_TOOL_CALL"),
        (99, FinishReason.OTHER, "99"),
        (-3, FinishReason.OTHER, "-3"),
    ],
)
def test_finish_reasons(word: str | int, reason: FinishReason, raw: str) -> None:
    assert decode(answer({"text": "a"}, finishReason=word))[-2] == ChoiceFinished(0, reason, raw)
    called = decode(answer({"functionCall": {"name": "f"}}, finishReason=word))[-2]
    expected = FinishReason.TOOL_CALLS if reason is FinishReason.STOP else reason
    assert called == ChoiceFinished(0, expected, raw), "only STOP is overridden"


@pytest.mark.parametrize("word", [None, "", 0, "FINISH_REASON_UNSPECIFIED", True, [], 1.5])
def test_an_unspecified_reason_is_no_reason(word: object) -> None:
    assert decode(answer({"text": "a"}, finishReason=word))[-1] == truncated()


@pytest.mark.parametrize("reason", [None, "", 0, "BLOCKED_REASON_UNSPECIFIED"])
def test_feedback_without_a_reason_blocks_nothing(reason: object) -> None:
    assert decode({"promptFeedback": {"blockReason": reason}})[-1] == truncated()


def test_feedback_beside_an_answer_blocks_nothing() -> None:
    block = {"promptFeedback": {"blockReason": 1}}
    assert decode({**answer({"text": "a"}), **block})[-2] == ChoiceFinished(0, FinishReason.STOP, "STOP")
    assert decode(answer({"text": "a"}), block)[-2] == ChoiceFinished(0, FinishReason.STOP, "STOP")
    assert decode(block)[-2] == ChoiceFinished(0, FinishReason.CONTENT_FILTER, "1")


def test_parts_of_no_use_are_passed_over() -> None:
    blobs = [{"mimeType": "application/zip", "data": "AA"}, {"mimeType": "image/png"}, {"data": "AA"}]
    events = decode(answer({"text": "a"}, *({"inlineData": blob} for blob in blobs), {"thought": True, "text": ""}))
    assert [type(event) for event in events] == [StreamStarted, TextDelta, ChoiceFinished, StreamCompleted]


def test_a_signature_on_a_thought_or_an_image_is_kept() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "AA"}, "thoughtSignature": "two"}
    events = decode(answer({"text": "hm", "thought": True, "thoughtSignature": "one"}, image))
    details = [detail for event in events if isinstance(event, ReasoningDelta) for detail in event.details]
    assert [(detail["data"], detail["id"], detail["index"]) for detail in details] == [
        ("one", "text:0-0", 0),
        ("two", "part", 1),
    ]
    assert any(isinstance(event, Extra) for event in events)


def test_a_call_without_a_name_is_not_lost_and_an_end_without_a_call_is_nothing() -> None:
    events = decode(answer({"functionCall": {}}, {"functionCall": {"args": {"a": 1}}}))
    assert events[1:3] == [ToolCallStarted(0, 0, None, ""), ToolCallDelta(0, 0, '{"a":1}')]


def test_a_signature_may_come_with_a_later_piece_of_a_call() -> None:
    first = {"functionCall": {"name": "f", "willContinue": True}}
    last = {"functionCall": {"args": None}, "thoughtSignature": "sig"}
    events = decode(answer(first), answer(last))
    assert [type(event) for event in events[1:4]] == [ToolCallStarted, ReasoningDelta, ToolCallDelta]
    assert isinstance(events[2], ReasoningDelta)
    assert events[2].details[0]["id"] == "call:0"


def test_an_invalid_escape_makes_the_frame_unreadable() -> None:
    body = rb'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"\x"}}}]}}]}'
    assert decode(body)[-1] == invalid_frame()


@pytest.mark.parametrize(
    "value",
    [
        {"candidates": {}},
        {"candidates": [None, 1, {"content": []}, {"content": {"parts": {}}}, {"content": {"parts": [[]]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": 1, "args": [1], "willContinue": "y"}}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "partialArgs": "x", "id": 2}}]}}]},
        {"candidates": [{"index": True}, {"index": -1.5}], "usageMetadata": []},
        {"candidates": [{"index": "x", "content": {"parts": [{"inlineData": {"mimeType": 1, "data": 2}}]}}]},
        {"promptFeedback": {"blockReason": []}, "usageMetadata": {"promptTokensDetails": [1, {"modality": []}]}},
    ],
)
def test_wrong_types_never_break_it(value: dict[str, Any]) -> None:
    assert decode(value, answer({"text": "a"}), {**value, "x": "\ud83d"})


def test_a_whole_body_may_be_an_array() -> None:
    array = b"\xef\xbb\xbf [" + json.dumps(answer({"text": "a"})).encode() + b",\n{}]\n"
    events = list(Gemini().decode_whole(array))
    assert_valid_events(events)
    assert events[1] == TextDelta(0, "a")
    assert events[-1] == StreamCompleted()
    assert list(PROVIDER.decode_whole(array[:-2]))[-1] == truncated()
    assert list(PROVIDER.decode_whole(b"[]")) == [truncated()]


def test_a_byte_order_mark_before_a_whole_body_is_passed_over() -> None:
    body = b"\xef\xbb\xbf" + json.dumps(answer({"text": "a"})).encode()
    assert list(PROVIDER.decode_whole(body))[-1] == StreamCompleted()


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"candidates": [', b"null"])
def test_a_whole_body_that_cannot_be_read(body: bytes) -> None:
    assert list(PROVIDER.decode_whole(body)) == [invalid_frame()]


def test_a_whole_body_that_is_an_error() -> None:
    body = b'{"error": {"code": 404, "message": "models/x is not found", "status": "NOT_FOUND"}}'
    (failed,) = PROVIDER.decode_whole(body)
    assert isinstance(failed, StreamFailed)
    assert failed.error.code == "upstream_model_not_found"


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"", "{}"),
        (b"null", "{}"),
        (b"{}", "{}"),
        (b'{ "a": [1, 2.0], "b": "x y" }', '{"a":[1,2.0],"b":"x y"}'),
        (b'{"a": "\\ud83d"}', '{"a":"\\ud83d"}'),
        (b"[ 1 ]", "[1]"),
    ],
)
def test_whole_arguments(sent: bytes, text: str) -> None:
    assert whole_arguments(sent) == text


@pytest.mark.parametrize(
    "pieces",
    [
        [{"stringValue": "x"}],
        [{"jsonPath": 7, "stringValue": "x"}],
        [{"jsonPath": "a", "stringValue": "x"}],
        [{"jsonPath": "$", "stringValue": "x"}],
        [{"jsonPath": "$.", "stringValue": "x"}],
        [{"jsonPath": "$.a[x]", "stringValue": "x"}],
        [{"jsonPath": "$[0]", "stringValue": "x"}],
        [{"jsonPath": "$.a[10000]", "stringValue": "x"}],
        [{"jsonPath": "$.a[5000]", "stringValue": "x"}, {"jsonPath": "$.b[5000]", "numberValue": 1}],
        [{"jsonPath": "$" + ".a" * 65, "stringValue": "x"}],
        [{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": "$.a.b", "boolValue": True}],
        [{"jsonPath": "$.a[0]", "numberValue": 1}, {"jsonPath": "$.a.b", "boolValue": True}],
    ],
)
def test_a_path_that_cannot_be(pieces: list[dict[str, Any]]) -> None:
    arguments = PartialArguments()

    def add_all() -> None:
        for piece in pieces:
            arguments.add(piece)

    with pytest.raises(UnreadablePath):
        add_all()


def test_positions_are_filled_in_any_order() -> None:
    arguments = PartialArguments()
    arguments.replace(b"[1]")
    for path, value in [("$.a[2]", "c"), ("$.a[0]", "a"), ("$['it\\'s'][\"x\"]", "q"), ("$.a[2]", "!")]:
        arguments.add({"jsonPath": path, "stringValue": value})
    arguments.add({"jsonPath": "$.a[2]", "numberValue": 3})
    assert json.loads(arguments.text()) == {"a": ["a", None, 3], "it's": {"x": "q"}}


def test_a_text_grows_from_what_was_there() -> None:
    arguments = PartialArguments()
    arguments.replace(b'{"a":"x"}')
    for piece in ("y", "\ud83d", "\ude00", "z"):
        arguments.add({"jsonPath": "$.a", "stringValue": piece})
    assert json.loads(arguments.text()) == {"a": "xy\U0001f600z"}


@pytest.mark.parametrize("result", [{}, {"chosenCandidates": 3}, {"topCandidates": [{}]}, {"chosenCandidates": ["x"]}])
def test_logprobs_without_a_token_are_ignored(result: dict[str, Any]) -> None:
    assert logprobs_of(result) is None
    assert decode(answer({"text": "a"}, logprobsResult=result))[1] == TextDelta(0, "a")


def test_logprobs_of_odd_tokens() -> None:
    tops = [{"candidates": [{"token": None}]}, 7]
    chosen = [{"token": "a"}, {"token": "b", "logProbability": True}, {"token": "\ud83d", "logProbability": -1}]
    result = logprobs_of({"chosenCandidates": chosen, "topCandidates": tops})
    assert result is not None
    assert [(entry["logprob"], len(entry["top_logprobs"])) for entry in result["content"]] == [(0, 1), (0, 0), (-1, 0)]
