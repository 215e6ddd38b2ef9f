"""Events to the frames of the Messages API, and to its whole bodies: blocks, signatures, stop reasons, usage."""

from typing import Any

import pytest

from streamweir.core.completion import Accumulator
from streamweir.core.errors import CALLER_CODES, CODES, GATEWAY_CODES, CallerError, GatewayFault, UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.carried import CarriedReader
from streamweir.frontends.messages.errors import document_of, words_of
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.wire import jsonio
from support.messages import documents_of, read_stream

STARTED = StreamStarted(id="x", model="upstream-model-v2")
STOP = ChoiceFinished(0, FinishReason.STOP, "stop")
USAGE = UsageReported(Usage(input_uncached=7, output=5))
CLAUDE: dict[str, Any] = {"format": "anthropic-claude-v1", "type": "reasoning.text"}


def reply(**members: Any) -> Reply:
    names: dict[str, Any] = {"model": "asked", "target_model": "upstream-model"}
    return Reply(id="msg_1", now=lambda: 0, request_id="req_1", prompt_tokens=11, **names, **members)


def written(*events: Event, **members: Any) -> dict[str, Any]:
    """The message of a stream of these events, which must be the whole body as well."""
    every = (STARTED, *events, *(() if any(isinstance(e, ChoiceFinished) for e in events) else (STOP,)), USAGE)
    encoder, fold = MESSAGES.encoder(reply(**members)), Accumulator()
    frames: list[bytes] = []
    for event in (*every, StreamCompleted()):
        frames += encoder.feed(event)
        fold.feed(event)
    assert not encoder.feed(TextDelta(0, "more"))
    message = read_stream(b"".join(frames))
    assert jsonio.decode(MESSAGES.write_whole(fold.fold(), reply(**members)).body) == message
    return message


def content(*events: Event, **members: Any) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = written(*events, **members)["content"]
    return blocks


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def test_an_answer_has_the_members_of_a_message() -> None:
    assert written(TextDelta(0, "a"), TextDelta(0, "b"), LogprobsDelta(0, None)) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "asked",
        "content": [text("ab")],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 5,
        },
    }


def test_an_answer_without_text_has_one_empty_text() -> None:
    assert content() == content(TextDelta(0, "")) == [text("")]


def test_other_choices_are_not_shown() -> None:
    assert content(TextDelta(1, "no"), TextDelta(0, "a"), TextDelta(1, "no"), ToolCallStarted(1, 0, "i", "n")) == [
        text("a")
    ]


def test_a_call_that_was_left_open_takes_its_arguments_beside_another() -> None:
    blocks = content(
        ToolCallStarted(0, 0, "a", "f"),
        ToolCallDelta(0, 0, '{"x":'),
        ToolCallStarted(0, 1, "b", "g"),
        ToolCallDelta(0, 1, '{"y":2}'),
        ToolCallDelta(0, 0, "1}"),
        TextDelta(0, "said"),
    )
    assert blocks == [
        {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "g", "input": {"y": 2}},
        text("said"),
    ]


def test_a_whole_call_is_closed_when_the_next_one_begins() -> None:
    encoder = MESSAGES.encoder(reply())
    events = (STARTED, ToolCallStarted(0, 0, "a", "f"), ToolCallDelta(0, 0, "{}"), ToolCallStarted(0, 1, "b", "g"))
    documents = documents_of(b"".join(frame for event in events for frame in encoder.feed(event)))
    assert [(document["type"], document.get("index")) for document in documents[1:]] == [
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
    ]


def test_calls_without_an_id_or_with_the_same_have_one_of_their_own() -> None:
    calls = [ToolCallStarted(0, 0, None, "f"), ToolCallStarted(0, 1, "same", "f"), ToolCallStarted(0, 2, "same", "f")]
    ids = [block["id"] for block in content(*calls)]
    assert ids[1] == "same"
    assert len(set(ids)) == 3
    assert all(id.startswith("toolu_") and len(id) == 30 for id in (ids[0], ids[2]))
    assert ids == [block["id"] for block in content(*calls)]


def test_a_call_has_the_name_that_the_caller_knows() -> None:
    (block,) = content(ToolCallStarted(0, 0, "a", "short"), tool_names={"short": "mcp__a.long/name"})
    assert (block["name"], block["input"]) == ("mcp__a.long/name", {})


def test_the_input_of_a_free_form_call_is_a_member_of_an_object() -> None:
    events = [
        ToolCallStarted(0, 0, "c1", "patch", custom=True),
        ToolCallDelta(0, 0, 'say "'),
        ToolCallDelta(0, 0, "\n\ud83d"),
        ToolCallStarted(0, 1, "c2", "empty", custom=True),
        ToolCallDelta(0, 0, "\ude00"),
    ]
    inputs = [block["input"] for block in content(*events)]
    assert inputs == [{"input": 'say "\n\U0001f600'}, {"input": ""}]


def test_arguments_that_are_no_object_are_shown_in_a_whole_body() -> None:
    fold = Accumulator()
    for event in (STARTED, ToolCallStarted(0, 0, "a", "f"), ToolCallDelta(0, 0, '{"x'), STOP, StreamCompleted()):
        fold.feed(event)
    (block,) = jsonio.decode(MESSAGES.write_whole(fold.fold(), reply()).body)["content"]
    assert block["input"] == {"INVALID_JSON": '{"x'}


# Reasoning.


def test_a_signature_of_anthropic_is_unchanged_and_last_in_its_block() -> None:
    blocks = content(
        ReasoningDelta(0, "hm", ({**CLAUDE, "text": "hm", "index": 0},)),
        ReasoningDelta(0, "", ({**CLAUDE, "signature": "c2ln", "index": 0},)),
        ReasoningDelta(0, "more", ({**CLAUDE, "text": "more", "index": 1},)),
        ReasoningDelta(0, "", ({**CLAUDE, "signature": "MnNpZw", "index": 1},)),
        ReasoningDelta(0, "", ({"type": "reasoning.encrypted", "data": "ZA", "format": CLAUDE["format"], "index": 2},)),
        TextDelta(0, "so"),
    )
    assert blocks == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "thinking", "thinking": "more", "signature": "MnNpZw"},
        {"type": "redacted_thinking", "data": "ZA"},
        text("so"),
    ]


def test_reasoning_of_others_has_an_envelope() -> None:
    plain, said = content(ReasoningDelta(0, "h"), ReasoningDelta(0, "m"), TextDelta(0, "so"))
    assert (plain["thinking"], said) == ("hm", text("so"))
    assert CarriedReader().open(plain["signature"]).entries == []
    entry = {"type": "reasoning.encrypted", "data": "ZA", "format": "google-gemini-v1", "id": "call:0", "index": 0}
    thinking, call = content(ReasoningDelta(0, "hm"), ReasoningDelta(0, "", (entry,)), ToolCallStarted(0, 0, "a", "f"))
    assert CarriedReader().open(thinking["signature"]).entries == [entry]
    assert call["type"] == "tool_use"
    redacted, call = content(ReasoningDelta(0, "", (entry,)), ToolCallStarted(0, 0, "a", "f"))
    assert redacted["type"] == "redacted_thinking"
    carried = CarriedReader().open(redacted["data"])
    assert (carried.model, carried.entries) == ("upstream-model", [entry])


def test_hidden_reasoning_is_an_empty_block_that_carries_its_text() -> None:
    events = (ReasoningDelta(0, "secret "), ReasoningDelta(0, "thoughts"), TextDelta(0, "so"))
    thinking, said = content(*events, hides_reasoning=True)
    assert (thinking["thinking"], said) == ("", text("so"))
    assert CarriedReader().open(thinking["signature"]).text == "secret thoughts"
    signed = ReasoningDelta(0, "secret", ({**CLAUDE, "text": "secret", "signature": "c2ln", "index": 0},))
    assert content(signed, hides_reasoning=True) == [{"type": "thinking", "thinking": "", "signature": "c2ln"}]


# The end.


@pytest.mark.parametrize(
    ("finish", "calls", "expected"),
    [
        (STOP, False, ("end_turn", None)),
        (STOP, True, ("tool_use", None)),
        (ChoiceFinished(0, FinishReason.STOP, "stop", "END"), False, ("stop_sequence", "END")),
        (ChoiceFinished(0, FinishReason.STOP, "stop_sequence", "END"), False, ("stop_sequence", "END")),
        (ChoiceFinished(0, FinishReason.LENGTH, "length"), True, ("max_tokens", None)),
        (
            ChoiceFinished(0, FinishReason.LENGTH, "model_context_window_exceeded"),
            False,
            ("model_context_window_exceeded", None),
        ),
        (ChoiceFinished(0, FinishReason.TOOL_CALLS, "tool_calls"), True, ("tool_use", None)),
        (ChoiceFinished(0, FinishReason.FUNCTION_CALL, "function_call"), True, ("tool_use", None)),
        (ChoiceFinished(0, FinishReason.CONTENT_FILTER, "SAFETY"), False, ("refusal", None)),
        (ChoiceFinished(0, FinishReason.OTHER, "odd"), False, ("end_turn", None)),
        (ChoiceFinished(0, FinishReason.OTHER, "odd"), True, ("tool_use", None)),
        (ChoiceFinished(0, FinishReason.OTHER, "pause_turn"), True, ("pause_turn", None)),
    ],
)
def test_stop_reasons(finish: ChoiceFinished, calls: bool, expected: tuple[str, str | None]) -> None:
    said: list[Event] = [ToolCallStarted(0, 0, "a", "f")] if calls else [TextDelta(0, "a")]
    message = written(*said, finish)
    assert (message["stop_reason"], message["stop_sequence"]) == expected


def test_a_refusal_is_a_text_and_a_reason() -> None:
    message = written(RefusalDelta(0, "I can"), RefusalDelta(0, "not."))
    assert (message["content"], message["stop_reason"]) == ([text("I cannot.")], "refusal")


def test_usage_is_what_was_neither_read_from_nor_written_to_a_cache_and_the_rest() -> None:
    usage = Usage(
        input_uncached=1, audio_input=2, cache_read=4, cache_write_5m=8, cache_write_1h=16, output=3, reasoning=9
    )
    encoder = MESSAGES.encoder(reply())
    frames = [
        *encoder.feed(UsageReported(usage)),
        *encoder.begin(),
        *encoder.feed(STOP),
        *encoder.feed(StreamCompleted()),
    ]
    start, *_, delta, _stop = documents_of(b"".join(frames))
    shown = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 24,
        "cache_read_input_tokens": 4,
        "output_tokens": 12,
        "output_tokens_details": {"thinking_tokens": 9},
    }
    assert delta["usage"] == shown
    buckets = {"ephemeral_5m_input_tokens": 8, "ephemeral_1h_input_tokens": 16}
    assert start["message"]["usage"] == {**shown, "cache_creation": buckets}


def test_the_start_comes_once_with_an_estimate_of_the_prompt() -> None:
    encoder = MESSAGES.encoder(reply())
    (start,) = documents_of(b"".join(encoder.begin()))
    assert start["message"]["usage"]["input_tokens"] == 11
    assert encoder.begin() == []
    assert b"message_start" not in b"".join(encoder.feed(TextDelta(0, "a")))


def test_an_agent_gets_a_keep_alive_long_before_it_reports_a_stall() -> None:
    assert MESSAGES.max_quiet_s == 10


def test_nothing_follows_an_error_and_no_block_is_stopped() -> None:
    encoder = MESSAGES.encoder(reply())
    frames = [frame for event in (STARTED, TextDelta(0, "a")) for frame in encoder.feed(event)]
    frames += encoder.feed(StreamFailed(UpstreamError("upstream_stream_truncated", "Cut.")))
    last = documents_of(b"".join(frames))[-1]
    assert last == {"type": "error", "error": {"type": "api_error", "message": "Cut."}, "request_id": "req_1"}
    assert not encoder.feed(TextDelta(0, "b")) + encoder.feed(StreamCompleted()) + encoder.begin()


# Errors.


INVALID = "invalid_request_error"
TOLD = {
    # By status and type, all codes that there are.
    (400, INVALID): (
        "invalid_json duplicate_key json_too_deep invalid_type invalid_value missing_required_parameter"
        " unknown_parameter context_length_exceeded content_filter previous_response_not_found invalid_after"
    ),
    (401, "authentication_error"): "invalid_api_key missing_api_key expired_api_key key_revoked",
    (402, "billing_error"): "insufficient_quota budget_exceeded",
    (403, "permission_error"): "insufficient_permissions",
    (404, "not_found_error"): "model_not_found unknown_url not_found stream_not_found",
    (405, INVALID): "method_not_allowed",
    (426, INVALID): "upgrade_required",
    (408, "timeout_error"): "request_timeout",
    (409, "conflict_error"): "conflict idempotency_in_progress idempotency_key_reused idempotency_completed",
    (410, "not_found_error"): "stream_not_resumable",
    (413, "request_too_large"): "request_too_large",
    (415, INVALID): "unsupported_media_type unsupported_content_encoding",
    (429, "rate_limit_error"): "rate_limit_exceeded concurrency_limit_exceeded upstream_rate_limited",
    (431, INVALID): "headers_too_large",
    (500, "api_error"): "internal_error",
    (502, "api_error"): (
        "upstream_connect_failed upstream_dns_failed upstream_tls_failed upstream_auth_failed upstream_bad_response"
        " upstream_bad_encoding upstream_empty_response upstream_redirect_blocked upstream_model_not_found"
        " upstream_server_error upstream_stream_truncated upstream_stream_reset upstream_invalid_frame"
        " upstream_frame_too_large response_too_large"
    ),
    (503, "api_error"): "stream_lost stopped_by_operator",
    (503, "overloaded_error"): (
        "no_available_deployment upstream_quota_exhausted overloaded server_shutting_down ledger_unavailable"
        " model_unpriced streams_unavailable"
    ),
    (504, "timeout_error"): "upstream_timeout stream_idle_timeout stream_deadline_exceeded",
    (529, "overloaded_error"): "upstream_overloaded",
}


def test_every_code_is_told_by_its_status_and_type() -> None:
    kinds = {**dict.fromkeys(CALLER_CODES, CallerError), **dict.fromkeys(GATEWAY_CODES, GatewayFault)}
    told = {code: words for words, codes in TOLD.items() for code in codes.split()}
    assert {code: words_of(kinds.get(code, UpstreamError)(code, "m")) for code in CODES} == told


@pytest.mark.parametrize(
    ("message", "begins"),
    [
        ("prompt is too long: 9 tokens > 8 maximum", "prompt is too long: 9 tokens > 8 maximum"),
        (
            "This model's maximum context length is 8,192 tokens. However, your messages resulted in 9001 tokens.",
            "prompt is too long: 9001 tokens > 8192 maximum. This",
        ),
        ("The request exceeds the context size.", "prompt is too long: The request"),
    ],
)
def test_a_prompt_that_is_too_long_is_reported_with_the_text_that_clients_recognise(message: str, begins: str) -> None:
    told = document_of(CallerError("context_length_exceeded", message), "")
    assert told["error"]["message"].startswith(begins)
    assert told["error"]["type"] == "invalid_request_error"


def test_arguments_too_large_to_be_read_on_the_event_loop_stay_open_to_the_end() -> None:
    arguments = '{"a":"' + "x" * jsonio.FAST_BYTES + '"}'
    encoder = MESSAGES.encoder(reply())
    for event in (STARTED, ToolCallStarted(0, 0, "a", "f"), ToolCallDelta(0, 0, arguments)):
        encoder.feed(event)
    kinds = [each["type"] for each in documents_of(b"".join(encoder.feed(TextDelta(0, "more"))))]
    assert kinds == ["content_block_start", "content_block_delta"]
    calls = (ToolCallStarted(0, 0, "a", "f"), ToolCallDelta(0, 0, arguments), TextDelta(0, "more"))
    assert content(*calls)[0]["input"] == {"a": "x" * jsonio.FAST_BYTES}


def test_the_pieces_of_an_entry_are_joined_as_they_come_and_carried_as_one() -> None:
    first = {"type": "reasoning.text", "text": "a", "format": "x", "index": 0, "signature": None}
    pieces = [ReasoningDelta(0, "a", ({**first, "signature": "s" if i == 999 else None},)) for i in range(1000)]
    other = ReasoningDelta(0, "b", ({"type": "reasoning.summary", "summary": "b", "index": 0},))
    (block,) = content(*pieces, other)
    assert CarriedReader().open(block["signature"], "t").entries == [
        {**first, "signature": "s", "text": "t"},
        {"type": "reasoning.summary", "index": 0},
    ]
