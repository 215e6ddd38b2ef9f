"""The encoder's rules, dialect by dialect (docs/spec/dialects.md)."""

import json
from typing import Any

import pytest
from msgspec import UNSET

from streamweir.core.errors import CallerError, GatewayFault, UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    Extra,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
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
from streamweir.frontends.chat.encoder import Encoder
from streamweir.frontends.chat.table import DIALECTS

ALL = ["openai", "opentoken", "aivene", "bitseek"]
STOP = ChoiceFinished(0, FinishReason.STOP, "stop")
CALLS = ChoiceFinished(0, FinishReason.TOOL_CALLS, "tool_calls")


def reply(**changes: Any) -> Reply:
    return Reply(**{"id": "ours-1", "now": lambda: 7, "model": "openai/gpt-4o", **changes})


def frames(dialect: str, *events: Event, **changes: Any) -> list[Any]:
    """The documents of the frames; the sentinel as the string it is."""
    encoder = Encoder(DIALECTS[dialect], reply(**changes))
    body = b"".join(frame for event in events for frame in encoder.feed(event)).decode()
    assert encoder.finish() == []
    blocks = body.split("\n\n")
    assert blocks.pop() == ""
    documents = [block.removeprefix("data: ") for block in blocks]
    return [text if text == "[DONE]" else json.loads(text) for text in documents]


def deltas(documents: list[Any]) -> list[Any]:
    return [d["choices"][0]["delta"] for d in documents if d != "[DONE]" and d.get("choices")]


def finishes(documents: list[Any]) -> list[str]:
    chunks = [d for d in documents if d != "[DONE]" and d.get("choices")]
    return [d["choices"][0]["finish_reason"] for d in chunks if d["choices"][0]["finish_reason"]]


def answer(*events: Event) -> list[Event]:
    return [StreamStarted("chatcmpl-u000000000000001", "gpt-4o-2024", 5), *events, StreamCompleted()]


@pytest.mark.parametrize("dialect", ALL)
def test_nothing_follows_the_terminator(dialect: str) -> None:
    ended = [*answer(TextDelta(0, "a"), STOP)]
    once = frames(dialect, *ended)
    assert once == frames(dialect, *ended, TextDelta(0, "late"), STOP, StreamCompleted())


@pytest.mark.parametrize(
    ("dialect", "upstream", "expected"),
    [
        ("openai", "chatcmpl-u000000000000001", "chatcmpl-u000000000000001"),
        ("openai", "gen-1", "ours-1"),
        ("openai", None, "ours-1"),
        ("opentoken", "chatcmpl-u000000000000001", "chatcmpl-u000000000000001"),
        ("aivene", "chatcmpl-u000000000000001", "ours-1"),
        ("bitseek", "chatcmpl-u000000000000001", "ours-1"),
    ],
)
def test_the_upstreams_id_is_kept_only_where_it_has_the_dialects_form(
    dialect: str, upstream: str | None, expected: str
) -> None:
    documents = frames(dialect, StreamStarted(upstream), TextDelta(0, "a"), STOP, StreamCompleted())
    assert {d["id"] for d in documents if d != "[DONE]"} == {expected}


def test_a_pinned_id_and_time_win_over_the_upstreams() -> None:
    documents = frames("openai", *answer(TextDelta(0, "a"), STOP), pinned=True, created=0)
    assert {(d["id"], d["created"]) for d in documents[:-1]} == {("ours-1", 0)}


@pytest.mark.parametrize(
    ("dialect", "asked", "target", "upstream", "expected"),
    [
        ("openai", "asked/m", "m", "m-2024", "m-2024"),
        ("openai", "asked/m", "m", None, "m"),
        ("openai", "asked/m", "", None, "asked/m"),
        ("openai", None, "", None, ""),
        ("opentoken", "asked/m", "m", "m-2024", "asked/m"),
        ("aivene", "asked/m", "m", "m-2024", "asked/m"),
        ("aivene", None, "m", "m-2024", "m-2024"),
        ("bitseek", "asked/m", "m", "m-2024", "asked/m"),
        ("bitseek", None, "m", "m-2024", ""),
    ],
)
def test_the_model_that_is_shown(
    dialect: str, asked: str | None, target: str, upstream: str | None, expected: str
) -> None:
    events = [StreamStarted(None, upstream), TextDelta(0, "a"), STOP, StreamCompleted()]
    assert frames(dialect, *events, model=asked, target_model=target)[0]["model"] == expected


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (FinishReason.STOP, ["stop", "stop", "stop", "stop"]),
        (FinishReason.LENGTH, ["length", "length", "length", "stop"]),
        (FinishReason.TOOL_CALLS, ["tool_calls", "tool_calls", "tool_calls", "tool_calls"]),
        (FinishReason.CONTENT_FILTER, ["content_filter", "content_filter", "content_filter", "stop"]),
        (FinishReason.FUNCTION_CALL, ["function_call", "tool_calls", "tool_calls", "tool_calls"]),
        (FinishReason.OTHER, ["stop", "stop", "stop", "stop"]),
    ],
)
def test_finish_reasons(reason: FinishReason, words: list[str]) -> None:
    got = [finishes(frames(d, *answer(TextDelta(0, "a"), ChoiceFinished(0, reason, "x")))) for d in ALL]
    assert got == [[word] for word in words]


@pytest.mark.parametrize("dialect", ALL)
def test_an_unknown_reason_is_tool_calls_where_a_call_was_sent(dialect: str) -> None:
    call = [ToolCallStarted(0, 0, "call_1", "f"), ToolCallDelta(0, 0, "{}")]
    assert finishes(frames(dialect, *answer(*call, ChoiceFinished(0, FinishReason.OTHER, "x")))) == ["tool_calls"]


def test_an_empty_answer_has_its_first_delta_and_its_finish() -> None:
    assert deltas(frames("openai", *answer(STOP))) == [{"role": "assistant", "content": ""}, {}]
    assert deltas(frames("opentoken", *answer(STOP))) == [{"role": "assistant"}, {}]
    assert deltas(frames("bitseek", *answer(STOP))) == [{"content": ""}]


def test_each_choice_has_its_own_role_and_finish() -> None:
    documents = frames(
        "openai",
        *answer(
            TextDelta(1, "b"),
            TextDelta(0, "a"),
            TextDelta(1, "B"),
            ChoiceFinished(1, FinishReason.LENGTH),
            ChoiceFinished(0, FinishReason.STOP),
        ),
    )
    seen = [(c["index"], c["delta"], c["finish_reason"]) for d in documents[:-1] for c in d["choices"]]
    first = {"role": "assistant", "content": ""}
    assert seen == [
        (1, first, None),
        (1, {"content": "b"}, None),
        (0, first, None),
        (0, {"content": "a"}, None),
        (1, {"content": "B"}, None),
        (1, {}, "length"),
        (0, {}, "stop"),
    ]


def test_a_choice_beyond_those_of_the_dialect_is_left_out() -> None:
    late = [
        TextDelta(1, "b"),
        RefusalDelta(1, "b"),
        ToolCallStarted(1, 0, None, "f"),
        ToolCallDelta(1, 0, "{}"),
        LogprobsDelta(1, None),
        ChoiceFinished(1, FinishReason.STOP),
    ]
    assert frames("bitseek", *answer(TextDelta(0, "a"), *late, STOP)) == frames(
        "bitseek", *answer(TextDelta(0, "a"), STOP)
    )
    beyond = LogprobsDelta(200, None)
    assert frames("openai", *answer(beyond, TextDelta(0, "a"), STOP)) == frames(
        "openai", *answer(TextDelta(0, "a"), STOP)
    )


def test_tool_calls_are_an_opener_and_pieces() -> None:
    events = answer(
        ToolCallStarted(0, 0, "call_1", "f"), ToolCallDelta(0, 0, "{}"), ToolCallStarted(0, 1, None, "g"), CALLS
    )
    for dialect in ("openai", "opentoken", "aivene"):
        documents = frames(dialect, *events)
        made = call_id(documents[0]["id"], 0, 1)
        function = {"name": "f", "arguments": ""}
        assert [d["tool_calls"] for d in deltas(documents) if "tool_calls" in d] == [
            [{"index": 0, "id": "call_1", "type": "function", "function": function}],
            [{"index": 0, "function": {"arguments": "{}"}}],
            [{"index": 1, "id": made, "type": "function", "function": {"name": "g", "arguments": ""}}],
        ]


def calls_of(documents: list[Any]) -> list[tuple[str, str]]:
    calls = [d["tool_calls"] for d in deltas(documents) if "tool_calls" in d]
    assert all(len(call) == 1 for call in calls)
    return [(call[0]["function"]["name"], call[0]["function"]["arguments"]) for call in calls]


def test_bitseek_sends_a_call_when_its_arguments_are_complete() -> None:
    events = answer(
        ToolCallStarted(0, 0, "a", "f"),
        ToolCallStarted(0, 1, "b", "g"),
        ToolCallDelta(0, 1, "{}"),
        ToolCallDelta(0, 0, '{"x":'),
        ToolCallDelta(0, 0, "1}"),
        ToolCallStarted(0, 2, "c", "h"),
        CALLS,
    )
    assert calls_of(frames("bitseek", *events)) == [("f", '{"x":1}'), ("g", "{}"), ("h", "{}")]


@pytest.mark.parametrize(
    ("arguments", "reason", "expected"),
    [
        ('{"x":', FinishReason.TOOL_CALLS, []),  # OpenRouter says so of calls that were cut by their length
        ('{"x":', FinishReason.STOP, []),
        ('{"x":1}', FinishReason.LENGTH, [("f", '{"x":1}')]),
        ("print(1)", FinishReason.TOOL_CALLS, [("f", "print(1)")]),  # the input of a custom tool is any text
        (" ", FinishReason.STOP, [("f", "{}")]),
    ],
)
def test_bitseek_does_not_send_an_unfinished_call(arguments: str, reason: FinishReason, expected: list[object]) -> None:
    events = answer(ToolCallStarted(0, 0, "a", "f"), ToolCallDelta(0, 0, arguments), ChoiceFinished(0, reason))
    assert calls_of(frames("bitseek", *events)) == expected


@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.CONTENT_FILTER])
@pytest.mark.parametrize("arguments", ["", '{"x":', '{"x":1}', "print("])
def test_bitseek_sends_a_call_that_the_limit_cut_as_far_as_it_came(arguments: str, reason: FinishReason) -> None:
    """Its finish reason is not that of calls to run."""
    events: list[Event] = [ToolCallStarted(0, 0, "a", "f"), ToolCallStarted(0, 1, "b", "g")]
    if arguments:
        events.append(ToolCallDelta(0, 1, arguments))
    documents = frames("bitseek", *answer(*events, ChoiceFinished(0, reason)))
    assert calls_of(documents) == [("f", "{}"), ("g", arguments)]
    assert documents[-1]["choices"][0]["finish_reason"] == "stop"


def test_bitseek_sends_no_call_of_a_stream_that_fails() -> None:
    failed = StreamFailed(UpstreamError("upstream_stream_truncated", "cut"))
    documents = frames("bitseek", StreamStarted(), ToolCallStarted(0, 0, "a", "f"), ToolCallDelta(0, 0, "{}"), failed)
    error = {"message": "cut", "type": "stream_error", "code": "upstream_stream_truncated"}
    assert documents == [
        {
            "id": "ours-1",
            "object": "chat.completion",
            "created": 7,
            "model": "openai/gpt-4o",
            "choices": [],
            "error": error,
        }
    ]


def test_legacy_calls_stay_in_openai_and_become_tool_calls_elsewhere() -> None:
    events = answer(
        ToolCallStarted(0, 0, None, "f", legacy=True),
        ToolCallDelta(0, 0, "{}"),
        ChoiceFinished(0, FinishReason.FUNCTION_CALL, "function_call"),
    )
    documents = frames("openai", *events)
    assert deltas(documents)[1:] == [
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{}"}},
        {},
    ]
    assert finishes(documents) == ["function_call"]
    for dialect in ("opentoken", "aivene", "bitseek"):
        documents = frames(dialect, *events)
        opener = next(d for d in deltas(documents) if "tool_calls" in d)["tool_calls"][0]
        assert opener["id"].startswith("call_")
        assert finishes(documents) == ["tool_calls"]


def test_free_form_calls_are_custom_in_openai_and_functions_elsewhere() -> None:
    events = answer(
        ToolCallStarted(0, 0, "c1", "f"),
        ToolCallStarted(0, 1, "c2", "patch", custom=True),
        ToolCallDelta(0, 1, "*** Begin"),
        ToolCallDelta(0, 0, "{}"),
        ChoiceFinished(0, FinishReason.TOOL_CALLS, "tool_calls"),
    )
    assert [delta["tool_calls"][0] for delta in deltas(frames("openai", *events)) if "tool_calls" in delta] == [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 1, "id": "c2", "type": "custom", "custom": {"name": "patch", "input": ""}},
        {"index": 1, "custom": {"input": "*** Begin"}},
        {"index": 0, "function": {"arguments": "{}"}},
    ]
    for dialect in ("opentoken", "aivene", "bitseek"):
        sent = [d["tool_calls"][0] for d in deltas(frames(dialect, *events)) if "tool_calls" in d]
        assert not any("custom" in call for call in sent)


def test_an_unknown_reason_after_a_legacy_call_is_function_call() -> None:
    events = answer(ToolCallStarted(0, 0, None, "f", legacy=True), ChoiceFinished(0, FinishReason.OTHER, "x"))
    assert finishes(frames("openai", *events)) == ["function_call"]


DETAIL = {"type": "reasoning.text", "signature": "s", "index": 0}


def test_reasoning() -> None:
    events = answer(ReasoningDelta(0, "hm"), ReasoningDelta(0, "", (DETAIL,)), TextDelta(0, "a"), STOP)
    shown = {d: [x for x in deltas(frames(d, *events)) if "content" not in x and x] for d in ALL}
    text, details = {"reasoning_content": "hm"}, {"reasoning_details": [DETAIL]}
    role = {"role": "assistant"}
    assert shown == {"openai": [text, details], "opentoken": [role, text, details], "aivene": [text], "bitseek": []}


def test_reasoning_is_left_out_when_the_caller_excludes_it() -> None:
    events = answer(ReasoningDelta(0, "hm", (DETAIL,)), TextDelta(0, "a"), STOP)
    assert frames("opentoken", *events, exclude_reasoning=True) == frames("opentoken", *answer(TextDelta(0, "a"), STOP))


def test_a_refusal_is_never_lost() -> None:
    events = answer(RefusalDelta(0, "no"), STOP)
    assert {"refusal": "no"} in deltas(frames("openai", *events))
    for dialect in ("opentoken", "aivene", "bitseek"):
        assert {"content": "no"} in deltas(frames(dialect, *events))


def logprobs_of(documents: list[Any]) -> list[Any]:
    return [d["choices"][0].get("logprobs", "absent") for d in documents if d != "[DONE]" and d["choices"]]


def test_logprobs_stand_only_where_the_upstream_sent_them() -> None:
    one, two = {"content": [{"token": "a"}], "refusal": None}, {"content": [{"token": "b"}], "refusal": None}
    events = answer(
        LogprobsDelta(0, None),
        LogprobsDelta(0, one),
        TextDelta(0, "a"),
        TextDelta(0, "-"),
        LogprobsDelta(0, UNSET),
        TextDelta(0, "+"),
        LogprobsDelta(0, one),
        LogprobsDelta(0, None),
        LogprobsDelta(0, two),
        TextDelta(0, "ab"),
        STOP,
    )
    both = {"content": [{"token": "a"}, {"token": "b"}], "refusal": None}
    assert logprobs_of(frames("openai", *events)) == [None, one, None, "absent", both, None]
    for dialect in ("opentoken", "aivene", "bitseek"):
        assert set(logprobs_of(frames(dialect, *events))) == {"absent"}


def test_waiting_logprobs_keep_what_only_one_of_them_has() -> None:
    events = answer(
        LogprobsDelta(0, {"content": [1], "reasoning_content": None}),
        LogprobsDelta(0, {"content": None, "reasoning_content": [2]}),
        LogprobsDelta(0, {"content": [3], "reasoning_content": None}),
        TextDelta(0, "a"),
        LogprobsDelta(0, {"content": [4]}),
        TextDelta(0, "b"),
        STOP,
    )
    assert logprobs_of(frames("openai", *events))[1:3] == [
        {"content": [1, 3], "reasoning_content": [2]},
        {"content": [4]},
    ]


def test_joining_logprobs_leaves_the_events_as_they_were() -> None:
    pieces = [{"content": [1]}, {"content": [2]}, {"content": [3]}]
    events = [LogprobsDelta(0, piece) for piece in pieces]
    twice = answer(*events, TextDelta(0, "a"), *events, LogprobsDelta(0, None), TextDelta(0, "b"), STOP)
    assert logprobs_of(frames("openai", *twice)) == ["absent", {"content": [1, 2, 3]}, {"content": [1, 2, 3]}, None]
    assert pieces == [{"content": [1]}, {"content": [2]}, {"content": [3]}]


def test_labels_stand_on_every_chunk_from_when_they_are_known() -> None:
    started = StreamStarted("chatcmpl-u000000000000001", "m", 5, None)
    events = [started, TextDelta(0, "a"), StreamTagged("fp", "flex"), StreamTagged(), STOP, StreamCompleted()]
    documents = frames("openai", *events)[:-1]
    labels = [(d.get("system_fingerprint", "absent"), d.get("service_tier", "absent")) for d in documents]
    assert labels == [(None, "absent"), (None, "absent"), ("fp", "flex")]
    assert list(documents[-1])[4:6] == ["system_fingerprint", "service_tier"]
    assert all("service_tier" not in d for d in frames("opentoken", *events)[:-1])


USAGE = Usage(input_uncached=3, cache_read=4, cache_write_5m=2, cache_write_1h=1, output=5, reasoning=6)


@pytest.mark.parametrize(
    ("dialect", "asked", "count"),
    [
        ("openai", False, 0),
        ("openai", True, 1),
        ("opentoken", False, 1),
        ("opentoken", True, 1),
        ("aivene", False, 0),
        ("aivene", True, 1),
        ("bitseek", False, 0),
        ("bitseek", True, 1),
    ],
)
def test_usage_comes_exactly_once_where_it_is_due(dialect: str, asked: bool, count: int) -> None:
    events = answer(UsageReported(Usage(output=1)), TextDelta(0, "a"), UsageReported(USAGE), STOP, UsageReported(USAGE))
    documents = [d for d in frames(dialect, *events, include_usage=asked) if d != "[DONE]"]
    shown = [d for d in documents if d.get("usage")]
    assert len(shown) == count
    if shown:
        assert documents[-1] is shown[0]
        usage = shown[0]["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (10, 11, 21)
        assert bool(shown[0]["choices"]) is (dialect == "bitseek")
    nulls = [d for d in documents if "usage" in d and d["usage"] is None]
    assert len(nulls) == (len(documents) - 1 if dialect == "openai" and asked else 0)


def test_usage_is_counted_by_the_gateway_where_the_upstream_reported_none() -> None:
    counted = Usage(input_uncached=1, output=2)
    documents = frames("opentoken", *answer(TextDelta(0, "a"), STOP), count_usage=lambda: counted)
    assert documents[-2]["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def test_extras_go_out_in_openai_alone() -> None:
    note = [{"type": "url_citation"}]
    events = answer(
        Extra(None, {"citations": ["x"], "prompt_filter_results": [1]}),
        TextDelta(0, "a"),
        Extra(0, {"annotations": note}),
        Extra(0, {"content_filter_results": {"hate": 1}}),
        STOP,
    )
    documents = frames("openai", *events)
    assert [d.get("citations") for d in documents[:-1]] == [["x"], None, None, None]
    assert deltas(documents)[2] == {"annotations": note}
    for dialect in ("opentoken", "aivene", "bitseek"):
        plain = frames(dialect, *answer(TextDelta(0, "a"), STOP))
        assert frames(dialect, *events) == plain


def test_the_error_frame_carries_no_usage_member() -> None:
    failed = StreamFailed(GatewayFault("internal_error", "oops", event_id="ev_1"))
    documents = frames("openai", StreamStarted(), TextDelta(0, "a"), failed, include_usage=True)
    error = {"message": "oops", "type": "server_error", "param": None, "code": "internal_error", "event_id": "ev_1"}
    assert documents[-2:] == [{"error": error}, "[DONE]"]


def test_a_stream_that_fails_before_its_start_still_has_an_error_frame() -> None:
    failed = StreamFailed(CallerError("context_length_exceeded", "too long", param="messages"))
    error = {"message": "too long", "type": "stream_error", "param": None, "code": "upstream_server_error"}
    assert frames("openai", failed) == [{"error": error}, "[DONE]"]


@pytest.mark.parametrize("dialect", ALL)
def test_a_delta_before_the_start_is_written_with_what_we_have(dialect: str) -> None:
    assert frames(dialect, TextDelta(0, "a"))[0]["id"] == "ours-1"


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("text", ["\n\ndata: [DONE]\n\n", "\r\r", "\u2028", "\x00", "a\nb", '"', "\ud83d", "\x85"])
def test_no_text_can_forge_a_frame(dialect: str, text: str) -> None:
    encoder = Encoder(DIALECTS[dialect], reply())
    body = b"".join(frame for event in answer(TextDelta(0, text), STOP) for frame in encoder.feed(event))
    lines = body.split(b"\n")
    assert all(line == b"" or line.startswith(b"data: ") for line in lines)
    assert b"\r" not in body
    assert b"\x00" not in body
    ends = 0 if dialect == "bitseek" else 1
    assert lines.count(b"data: [DONE]") == ends
    assert text in [d.get("content") for d in deltas(frames(dialect, *answer(TextDelta(0, text), STOP)))]
