"""What the fixtures do not show of the Anthropic decoder: ends, odd frames, counts, failed responses."""

import json
from typing import Any

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.events import Event, StreamFailed, StreamStarted, TextDelta, ToolCallDelta, UsageReported
from streamweir.core.usage import Usage
from streamweir.providers.anthropic import PROVIDER
from streamweir.providers.anthropic.usage import UsageFold
from streamweir.providers.base import Decoder
from streamweir.wire.sse import Frame
from support.event_rules import assert_valid_events

START = {
    "type": "message_start",
    "message": {"id": "m", "model": "c", "usage": {"input_tokens": 3, "output_tokens": 1}},
}
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}


def frame(document: Any, event: bytes = b"") -> Frame:
    return Frame(b"", document if isinstance(document, bytes) else json.dumps(document).encode(), event)


def fed(*documents: Any) -> tuple[Decoder, list[Event]]:
    decoder = PROVIDER.decoder()
    events: list[Event] = []
    for document in documents:
        events += decoder.feed(document if isinstance(document, Frame) else frame(document))
    return decoder, events


def code_of(event: Event) -> str:
    assert isinstance(event, StreamFailed)
    return event.error.code


def test_a_failure_ends_it_once_and_nothing_follows() -> None:
    decoder, events = fed(START, TEXT)
    error = UpstreamError("upstream_stream_reset", "The connection was lost.")
    events += decoder.fail(error)
    assert events[-1] == StreamFailed(error)
    assert_valid_events(events)
    for late in (TEXT, START, {"type": "message_stop"}, b"{", {"type": "error", "error": {}}):
        assert not decoder.feed(frame(late))
    assert not decoder.feed(Frame(b"error: {}\n\n", None))
    assert not decoder.fail(error)
    assert not decoder.finish()


def test_a_failure_outside_any_data_line() -> None:
    decoder, events = fed(START, Frame(b": a comment\n\n", None))
    assert isinstance(events[-1], UsageReported)
    assert code_of(decoder.feed(Frame(b'error: {"type":"overloaded_error"}\n\n', None))[0]) == "upstream_overloaded"


ERRORS: list[tuple[Frame, str]] = [
    (frame({"type": "error", "error": {"type": "api_error", "message": "x"}}), "upstream_server_error"),
    (frame({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}), "upstream_overloaded"),
    (frame({"type": "error", "error": {"type": "timeout_error", "message": "x"}}), "upstream_timeout"),
    (frame({"type": "error"}), "upstream_server_error"),
    (frame({"error": {"code": 529}}), "upstream_overloaded"),
    (frame({"message": "x"}, b"error"), "upstream_server_error"),
    (frame(b"Bad Gateway", b"error"), "upstream_server_error"),
    (frame(b"[]"), "upstream_invalid_frame"),
    (frame(b'{"type":"pi\xffng"}'), "upstream_invalid_frame"),
]


@pytest.mark.parametrize(("odd", "code"), ERRORS)
def test_errors_in_the_stream(odd: Frame, code: str) -> None:
    _, events = fed(START, odd)
    assert code_of(events[-1]) == code
    assert_valid_events(events)


def test_an_error_that_carries_usage_reports_it_first() -> None:
    failure = {"type": "error", "error": {"type": "api_error"}, "usage": {"output_tokens": 9}}
    _, events = fed(START, failure)
    assert events[-2] == UsageReported(Usage(input_uncached=3, output=9))
    _, events = fed(failure)
    assert_valid_events(events)


def test_frames_without_content() -> None:
    _, events = fed(START, b"", b" ", b"[DONE]", {}, {"type": "ping", "error": None}, {"type": "content_block_delta"})
    assert [type(event) for event in events] == [StreamStarted, UsageReported]


def test_blocks_without_an_index_are_taken_in_their_order() -> None:
    _, events = fed(
        START,
        {"type": "content_block_start", "content_block": {"type": "text", "text": "A"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "B"}},
        {"type": "content_block_delta", "delta": {"type": "citations_delta", "citation": {}}},
        {"type": "content_block_stop"},
        {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "f", "input": '{"a":1}'}},
        {"type": "content_block_stop"},
        {"type": "content_block_stop"},
    )
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["A", "B"]
    assert events[-1] == ToolCallDelta(0, 0, '{"a":1}')


def test_an_index_may_be_used_again_for_another_block() -> None:
    _, events = fed(
        START,
        TEXT,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use"}},
        TEXT,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "redacted_thinking", "data": ""}},
        {"type": "content_block_start", "index": 0},
    )
    assert sum(isinstance(event, TextDelta) for event in events) == 1


def test_a_call_that_got_no_stop_is_closed_by_the_finish() -> None:
    _, events = fed(
        START,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "f"}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 8}},
        {"type": "message_delta"},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    )
    assert ToolCallDelta(0, 0, "{}") in events
    assert_valid_events(events)


def test_the_same_message_may_start_again_in_its_middle() -> None:
    _, events = fed(START, TEXT, START, TEXT)
    assert sum(isinstance(event, TextDelta) for event in events) == 2


REPORTS: list[tuple[list[dict[str, Any]], Usage | None]] = [
    ([{}], None),
    ([{"output_tokens": 5}], None),
    ([{"input_tokens": 5}], None),
    ([{"input_tokens": 5, "output_tokens": None}, {"output_tokens": 2}], Usage(input_uncached=5, output=2)),
    ([{"input_tokens": 5, "output_tokens": 1}, {"output_tokens": -1}], None),
    ([{"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 10**18}], None),
    ([{"input_tokens": 5, "output_tokens": "7"}], None),
    ([{"input_tokens": 0, "output_tokens": 0}], Usage()),
    (
        [{"input_tokens": 1, "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 9}}],
        Usage(input_uncached=1, output=0, reasoning=5),
    ),
    (
        [{"input_tokens": 1, "output_tokens": 5, "cache_creation_input_tokens": 7}],
        Usage(input_uncached=1, output=5, cache_write_5m=7),
    ),
    (
        [{"input_tokens": 1, "output_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 7}}],
        Usage(input_uncached=1, output=5, cache_write_1h=7),
    ),
    (
        # The total has grown: what is new went where the rest did.
        [
            {
                "input_tokens": 1,
                "output_tokens": 5,
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 7},
            },
            {"cache_creation_input_tokens": 9},
        ],
        Usage(input_uncached=1, output=5, cache_write_5m=0, cache_write_1h=9),
    ),
    (
        [
            {
                "input_tokens": 1,
                "output_tokens": 5,
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            },
            {"cache_creation_input_tokens": 9},
        ],
        Usage(input_uncached=1, output=5, cache_write_5m=5, cache_write_1h=4),
    ),
]


@pytest.mark.parametrize(("reports", "expected"), REPORTS)
def test_counts(reports: list[dict[str, Any]], expected: Usage | None) -> None:
    fold = UsageFold()
    assert [fold.add(report) for report in reports][-1] == expected


def test_a_whole_body_that_is_no_message() -> None:
    for body in (b"", b"<html>", b"[]", b'{"content":"text"}'):
        assert [code_of(event) for event in PROVIDER.decode_whole(body)] == ["upstream_bad_response"]


RESPONSES: list[tuple[int, str, str, str]] = [
    (400, "invalid_request_error", "max_tokens: Field required", "invalid_value"),
    (400, "invalid_request_error", "prompt is too long: 2 tokens > 1 maximum", "context_length_exceeded"),
    (400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 9", "context_length_exceeded"),
    (400, "invalid_request_error", "Your credit balance is too low to access the API.", "upstream_quota_exhausted"),
    (401, "authentication_error", "invalid x-api-key", "upstream_auth_failed"),
    (403, "permission_error", "no", "upstream_auth_failed"),
    (404, "not_found_error", "model: claude-9", "upstream_model_not_found"),
    (413, "request_too_large", "Request exceeds the maximum size", "request_too_large"),
    (429, "rate_limit_error", "slow down", "upstream_rate_limited"),
    (500, "api_error", "Internal server error", "upstream_server_error"),
    (529, "overloaded_error", "Overloaded", "upstream_overloaded"),
]


@pytest.mark.parametrize(("status", "kind", "message", "code"), RESPONSES)
def test_failed_responses(status: int, kind: str, message: str, code: str) -> None:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    assert PROVIDER.read_error(status, {}, body).code == code
