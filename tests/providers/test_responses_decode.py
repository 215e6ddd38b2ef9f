"""What the fixtures do not show of the decoder of Responses: odd orders, sizes, ends, counts, failed responses."""

import json
from typing import Any

import pytest

from streamweir.core.completion import Accumulator, Completion
from streamweir.core.errors import CallerError, StreamweirError, UpstreamError
from streamweir.core.events import (
    Event,
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
from streamweir.providers.base import Decoder
from streamweir.providers.registry import provider_named
from streamweir.providers.responses.item import MAX_PARTS
from streamweir.providers.responses.usage import read_usage
from streamweir.wire.native import NativeWire
from streamweir.wire.sse import Frame
from support.event_rules import assert_valid_events
from support.responses_body import ResponsesAnswer

PROVIDER = provider_named("openai-responses")
CREATED: dict[str, Any] = {"type": "response.created", "response": {"id": "resp_1", "model": "m"}}
COMPLETED = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}
FAILED = {"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}}


def frame(document: Any, event: bytes = b"") -> Frame:
    return Frame(b"", document if isinstance(document, bytes) else json.dumps(document).encode(), event)


def fed(*documents: Any) -> tuple[Decoder, list[Event]]:
    decoder = PROVIDER.decoder()
    events: list[Event] = []
    for document in documents:
        events += decoder.feed(document if isinstance(document, Frame) else frame(document))
    return decoder, events


def folded(*documents: Any) -> Completion:
    decoder, events = fed(*documents)
    events += decoder.finish()
    assert_valid_events(events)
    fold = Accumulator()
    for event in events:
        fold.feed(event)
    return fold.fold()


def text(delta: str, index: int = 0, part: int = 0) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "content_index": part, "delta": delta}


def added(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def arguments(index: int, delta: str) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta}


def message(*texts: str) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": each} for each in texts]}


def call(arguments: str, name: str = "f", **members: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c", "name": name, "arguments": arguments, **members}


def code_of(events: Any) -> str:
    (event,) = [each for each in events if isinstance(each, StreamFailed)]
    return event.error.code


def test_a_failure_ends_it_once_and_nothing_follows() -> None:
    decoder, events = fed(CREATED, text("Hi"))
    error = UpstreamError("upstream_stream_reset", "The connection was lost.")
    events += decoder.fail(error)
    assert events[-1] == StreamFailed(error)
    for late in (text("more"), CREATED, COMPLETED, FAILED, b"{", {"type": "error", "error": {}}):
        assert not decoder.feed(frame(late))
    assert not decoder.feed(Frame(b"error: {}\n\n", None))
    assert not decoder.fail(error)
    assert not decoder.finish()


def test_an_answer_completes_once() -> None:
    _, events = fed(CREATED, text("Hi"), COMPLETED, COMPLETED, text("more"), FAILED)
    assert [event for event in events if isinstance(event, StreamCompleted | StreamFailed)] == [StreamCompleted()]
    assert sum(isinstance(event, TextDelta) for event in events) == 1


def test_items_are_distinguished_by_any_index() -> None:
    huge = 2**60
    made = folded(
        CREATED,
        added(huge, **call("")),
        added(-5, **message()),
        text("a", -5),
        arguments(huge, '{"x"'),
        text("b", -5),
        arguments(huge, ":1}"),
        done(huge, **call('{"x":1}')),
        done(-5, **message("ab")),
        COMPLETED,
    )
    assert made.choices[0].text == "ab"
    assert [each.arguments for each in made.choices[0].calls] == ['{"x":1}']


def test_a_second_item_of_the_same_index_replaces_the_first() -> None:
    made = folded(
        CREATED,
        added(0, **message()),
        text("a"),
        done(0, **message("a")),
        added(0, **call("")),
        done(0, **call("{}")),
        text("late"),
        COMPLETED,
    )
    assert made.choices[0].text == "a"
    assert [each.arguments for each in made.choices[0].calls] == ["{}"]


def test_an_end_of_another_kind_than_its_item_is_ignored() -> None:
    made = folded(CREATED, added(0, **message()), text("a"), done(0, **call("{}")), COMPLETED)
    assert made.choices[0].text == "a"
    assert made.choices[0].calls == []


def test_what_is_done_brings_the_rest_and_never_repeats() -> None:
    said = {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "abcd"}
    made = folded(CREATED, text("ab"), said, said, done(0, **message("abcdef", "gh")), COMPLETED)
    assert made.choices[0].text == "abcdefgh"
    assert folded(CREATED, text("abcd"), {**said, "text": "xy"}, COMPLETED).choices[0].text == "abcd"


def test_parts_of_a_message_are_counted_apart() -> None:
    made = folded(CREATED, text("a"), text("b", part=1), text("c"), done(0, **message("ac", "bd")), COMPLETED)
    assert made.choices[0].text == "abcd"


def test_very_long_arguments_come_whole() -> None:
    long = json.dumps({"x": "y" * 1_000_000})
    pieces = [arguments(0, long[i : i + 4096]) for i in range(0, len(long), 4096)]
    made = folded(CREATED, added(0, **call("")), *pieces, done(0, **call(long)), COMPLETED)
    assert made.choices[0].calls[0].arguments == long


def test_a_call_that_has_no_name_yet_comes_with_its_end() -> None:
    _, events = fed(CREATED, added(0, type="function_call", call_id="c"), arguments(0, "{"), done(0, **call("{}")))
    assert events[1:] == [ToolCallStarted(0, 0, "c", "f"), ToolCallDelta(0, 0, "{}")]


def test_a_call_that_never_gets_a_name_fails_the_answer() -> None:
    nameless = {"type": "function_call", "call_id": "c"}
    for lost in ([arguments(0, "{}")], [added(0, **nameless)], [arguments(0, "{}"), done(0, **nameless)]):
        end = fed(CREATED, text("Done.", 1), *lost, COMPLETED)[1][-1]
        assert isinstance(end, StreamFailed)
        assert end.error.code == "upstream_invalid_frame"


def test_only_a_function_that_is_never_done_gets_empty_arguments() -> None:
    for kind, said in (("function_call", "{}"), ("custom_tool_call", "")):
        made = folded(CREATED, added(0, **{**call(""), "type": kind}), COMPLETED)
        assert made.choices[0].calls[0].arguments == said


def test_a_call_cut_by_a_length_gets_no_default_arguments() -> None:
    cut = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}}
    assert folded(CREATED, added(0, **call("")), cut).choices[0].calls[0].arguments == ""
    ended = folded(CREATED, added(0, **call("")), done(0, **call("", status="incomplete")), cut)
    assert ended.choices[0].calls[0].arguments == ""
    assert folded(CREATED, added(0, **call("")), COMPLETED).choices[0].calls[0].arguments == "{}"


TOOLS: list[tuple[list[Any], str, bool]] = [
    ([], "custom_tool_call", True),
    ([{"type": "custom", "name": "f"}], "custom_tool_call", True),
    ([{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "f"}]}], "custom_tool_call", True),
    ([{"type": "x_search"}], "custom_tool_call", False),
    ([{"type": "function", "name": "g"}], "custom_tool_call", False),
    ([{"type": "web_search"}], "function_call", False),
    ([{"type": "function", "function": {"name": "f"}}], "function_call", True),
    ([{"type": "function", "name": "g"}], "function_call", True),  # made up: the caller's to refuse
]


@pytest.mark.parametrize(("tools", "kind", "is_callers"), TOOLS)
def test_calls_of_the_providers_own_tools_are_not_the_callers(tools: list[Any], kind: str, is_callers: bool) -> None:
    created = {"type": "response.created", "response": {"tools": tools}}
    item = {**call("{}"), "type": kind, "input": "{}"}
    made = folded(created, added(0, **item), arguments(0, "{}"), done(0, **item), COMPLETED)
    assert len(made.choices[0].calls) == is_callers


def test_an_error_waits_for_the_usage_behind_it_and_no_longer() -> None:
    error = {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "Slow down."}}
    decoder, events = fed(CREATED, text("Hi"), error)
    assert decoder.may_end_when_idle
    assert not any(isinstance(event, StreamFailed) for event in events)
    assert code_of(decoder.finish()) == "upstream_rate_limited"
    for late in (text("more"), COMPLETED, b"{", Frame(b"error: {}\n\n", None)):
        decoder, _ = fed(CREATED, text("Hi"), error)
        assert code_of(decoder.feed(late if isinstance(late, Frame) else frame(late))) == "upstream_rate_limited"
    decoder, _ = fed(CREATED, text("Hi"), error)
    assert code_of(decoder.fail(UpstreamError("upstream_stream_reset", "x"))) == "upstream_rate_limited"


ERRORS: list[tuple[Frame, str]] = [
    (frame({"type": "error", "code": "server_error", "message": "x"}), "upstream_server_error"),
    (frame({"type": "error", "message": "x"}), "upstream_server_error"),
    (frame({"error": {"type": "server_error", "message": "x"}}), "upstream_server_error"),
    (frame({"type": "error", "error": {"code": "server_is_overloaded", "message": "x"}}), "upstream_overloaded"),
    (frame({"type": "error", "error": {"code": "insufficient_quota", "message": "x"}}), "upstream_quota_exhausted"),
    (frame({"type": "error", "error": {"code": "invalid_prompt", "message": "x"}}), "invalid_value"),
    (frame({"type": "error", "error": {"code": "context_length_exceeded", "message": "x"}}), "context_length_exceeded"),
    (frame(FAILED), "upstream_server_error"),
    (frame({"type": "response.failed", "response": None}), "upstream_server_error"),
    (frame({"type": "response.cancelled", "response": {"status": "cancelled"}}), "upstream_stream_truncated"),
    (frame(b"{"), "upstream_invalid_frame"),
    (frame(b"[1]"), "upstream_invalid_frame"),
    (frame(b"out of order", b"error"), "upstream_server_error"),
    (Frame(b'error: {"code":"server_is_overloaded"}\n\n', None), "upstream_overloaded"),
    (Frame(b"", b'{"type":"resp', terminated=False), "upstream_stream_truncated"),
]


@pytest.mark.parametrize(("sent", "code"), ERRORS)
def test_failures_in_the_stream(sent: Frame, code: str) -> None:
    for before in ((), (CREATED,), (CREATED, text("Hi"))):
        decoder, events = fed(*before, sent)
        events += decoder.finish()
        assert_valid_events(events)
        assert code_of(events) == code


def test_keep_alives_and_unknown_frames_are_ignored() -> None:
    odd = [{"type": "keepalive", "sequence_number": 3}, {"type": "response.queued"}, {"type": "response.in_progress"}]
    odd += [{"type": None}, {"type": "response."}, {"type": "response.delta", "delta": "x"}, {}]
    _, events = fed(CREATED, *odd * 50, b"[DONE]", b" ")
    assert events == [StreamStarted(id="resp_1", model="m")]


def test_too_many_items_end_the_answer() -> None:
    decoder, _ = fed(CREATED)
    made: list[Event] = []
    for index in range(MAX_PARTS + 1):
        made += decoder.feed(frame(added(index, type="message")))
    assert code_of(made) == "response_too_large"


USAGES: list[tuple[Any, Usage | None]] = [
    ({"input_tokens": 9, "output_tokens": 4}, Usage(input_uncached=9, output=4)),
    (
        {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
            "output_tokens": 8,
            "output_tokens_details": {"reasoning_tokens": 6},
        },
        Usage(input_uncached=2, cache_read=4, cache_write_5m=3, output=2, reasoning=6),
    ),
    (
        {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 7},
        },
        Usage(input_uncached=0, cache_read=9, cache_write_5m=5, output=0, reasoning=1),
    ),
    ({"input_tokens": 9, "input_tokens_details": 3, "output_tokens": 4.0}, Usage(input_uncached=9, output=4)),
    ({"input_tokens": 9}, None),
    ({"input_tokens": "9", "output_tokens": 4}, None),
    ({"input_tokens": -1, "output_tokens": 4}, None),
    ({"input_tokens": 9, "output_tokens": True}, None),
]


@pytest.mark.parametrize(("report", "usage"), USAGES)
def test_counts(report: Any, usage: Usage | None) -> None:
    assert read_usage(report) == usage
    completed = {**COMPLETED, "response": {"status": "completed", "usage": report}}
    _, events = fed(CREATED, completed)
    reported = [event for event in events if isinstance(event, UsageReported | UsageDiscarded)]
    if usage is not None:
        assert reported == [UsageReported(usage)]
    else:
        assert reported == ([] if report == {"input_tokens": 9} else [UsageDiscarded(is_final=True)])


def refused(status: int, body: bytes) -> StreamweirError:
    return PROVIDER.read_error(status, {}, body)


def test_a_failed_response_keeps_the_providers_text() -> None:
    body = b'{"error":{"message":"Bad input at https://secret.test/x","type":"invalid_request_error",'
    error = refused(400, body + b'"param":"input[2]","code":"invalid_encrypted_content"}}')
    assert isinstance(error, CallerError)
    assert error.native == (
        NativeWire.OPENAI_RESPONSES,
        400,
        "invalid_request_error",
        "Bad input at ***",
        "invalid_encrypted_content",
        "input[2]",
    )
    assert refused(500, b"<html>").native is None
    assert refused(429, b'{"error":{"message":"","type":"x"}}').native is None
    flat = refused(400, b'{"type":"error","message":"Not so.","code":"two words"}').native
    assert flat is not None
    assert (flat.type, flat.message, flat.code) == ("", "Not so.", None)


def test_a_whole_body_has_the_content_of_a_stream() -> None:
    answer = ResponsesAnswer(usage=(40, 60, 16, 32), tools=[{"type": "custom", "name": "p"}])
    answer.reasoning(["One"], ["Two"], encrypted="ZW5j").text("a", "b").call("f", "{}").custom("p", "any").refusal("no")
    folds = []
    for events in (fed(*map(json.loads, split(answer.stream())))[1], list(PROVIDER.decode_whole(answer.whole()))):
        assert_valid_events(events)
        fold = Accumulator()
        for event in events:
            fold.feed(event)
        made = fold.fold()
        for choice in made.choices:
            for run in choice.runs:
                run.details = []
        folds.append(made)
    assert folds[0] == folds[1]
    assert folds[0].choices[0].reasoning == "One\n\nTwo"


def split(stream: bytes) -> list[bytes]:
    return [line[6:] for line in stream.split(b"\n") if line.startswith(b"data: ")]
