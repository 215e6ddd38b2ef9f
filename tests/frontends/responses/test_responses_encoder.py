"""Events to the frames of the Responses API, and to its whole bodies: items, numbers, endings, errors, usage."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.completion import Accumulator
from streamweir.core.errors import CODES, CallerError, GatewayFault, StreamweirError, UpstreamError
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
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.request import ToolShape
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.carried import CarriedReader
from streamweir.frontends.responses.encoder import MAX_CHARACTERS, ResponsesEncoder
from streamweir.frontends.responses.errors import STREAM_ERRORS, document_of, stream_members
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.wire import jsonio
from support.responses import documents_of, read_stream

STARTED = StreamStarted(id="x", model="upstream-model-v2")
STOP = ChoiceFinished(0, FinishReason.STOP, "stop")
USAGE = UsageReported(Usage(input_uncached=7, cache_read=2, output=5, reasoning=3))
OWN: dict[str, Any] = {"format": "openai-responses-v1", "id": "rs_theirs", "index": 0}
TOOLS = {
    "exec": ToolShape("exec", custom=True),
    "mcp__read": ToolShape("read", namespace="mcp"),
    "mcp__patch": ToolShape("patch", custom=True, namespace="mcp"),
}


def reply(**members: Any) -> Reply:
    return Reply(id="resp_1", now=lambda: 9, **{"model": "asked", "target_model": "upstream-model", **members})


def every(*events: Event) -> list[Event]:
    finish = () if any(isinstance(event, ChoiceFinished) for event in events) else (STOP,)
    return [STARTED, *events, *finish, USAGE, StreamCompleted()]


def frames_of(*events: Event, **members: Any) -> list[Any]:
    encoder = RESPONSES.encoder(reply(**members))
    return documents_of(b"".join(frame for event in events for frame in encoder.feed(event)))


def written(*events: Event, **members: Any) -> dict[str, Any]:
    """The response at the end of a stream of these events, which must be the whole body as well."""
    encoder, fold = RESPONSES.encoder(reply(**members)), Accumulator()
    frames: list[bytes] = []
    for event in every(*events):
        frames += encoder.feed(event)
        fold.feed(event)
    assert not encoder.feed(TextDelta(0, "more"))
    assert not encoder.keep_alive()
    response = read_stream(b"".join(frames))
    assert jsonio.decode(RESPONSES.write_whole(fold.fold(), reply(**members)).body) == response
    return response


def output(*events: Event, **members: Any) -> list[dict[str, Any]]:
    """Without the ids of the items, which follow from their places."""
    items: list[dict[str, Any]] = written(*events, **members)["output"]
    assert len({item["id"] for item in items}) == len(items)
    return [{name: value for name, value in item.items() if name != "id"} for item in items]


def text_part(said: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": said}


def message(*parts: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    return {"type": "message", "status": status, "content": list(parts), "role": "assistant"}


def call(call_id: str, name: str, arguments: str, status: str = "completed") -> dict[str, Any]:
    members = {"call_id": call_id, "name": name, "arguments": arguments}
    return {"type": "function_call", "status": status, **members}


def test_an_answer_has_the_members_of_a_response() -> None:
    item = {"id": written(TextDelta(0, "ab"))["output"][0]["id"], **message(text_part("ab"))}
    assert written(TextDelta(0, "a"), TextDelta(0, "b"), LogprobsDelta(0, None)) == {
        "id": "resp_1",
        "object": "response",
        "created_at": 9,
        "status": "completed",
        "background": False,
        "completed_at": 9,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "model": "asked",
        "output": [item],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "auto",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
            "output_tokens": 8,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 17,
        },
        "user": None,
        "metadata": {},
    }


def test_ids_are_made_by_a_rule_and_have_a_prefix() -> None:
    events = (TextDelta(0, "a"), ReasoningDelta(0, "b"), ToolCallStarted(0, 0, "c", "f"))
    items = written(*events)["output"]
    assert [item["id"][:4] for item in items] == ["msg_", "rs_" + items[1]["id"][3], "fc_" + items[2]["id"][3]]
    assert {len(item["id"].partition("_")[2]) for item in items} == {48}
    assert written(*events)["output"] == items
    assert RESPONSES.make_id(bytes(range(24))) == "resp_" + bytes(range(24)).hex()


def test_an_answer_silently_has_no_items() -> None:
    assert output() == output(TextDelta(0, ""), ReasoningDelta(0, "")) == []


def test_other_choices_are_not_shown() -> None:
    assert output(TextDelta(1, "no"), TextDelta(0, "a"), TextDelta(1, "no"), ToolCallStarted(1, 0, "i", "n")) == [
        message(text_part("a"))
    ]


def test_what_was_asked_is_repeated() -> None:
    response = written(TextDelta(0, "a"), echoed={"temperature": 0.5, "metadata": {"a": "b"}})
    assert (response["temperature"], response["metadata"]) == (0.5, {"a": "b"})
    assert frames_of(StreamStarted(service_tier="flex"), TextDelta(0, "a"))[0]["response"]["service_tier"] == "flex"


# Calls.


def test_calls_that_are_interleaved_take_their_own_arguments() -> None:
    items = output(
        ToolCallStarted(0, 0, "a", "f"),
        ToolCallDelta(0, 0, '{"x":'),
        ToolCallStarted(0, 1, "b", "g"),
        ToolCallDelta(0, 1, '{"y":2}'),
        ToolCallDelta(0, 0, "1}"),
        TextDelta(0, "said"),
    )
    assert items == [call("a", "f", '{"x":1}'), call("b", "g", '{"y":2}'), message(text_part("said"))]


def test_a_whole_call_is_done_when_the_next_one_begins() -> None:
    events = (STARTED, ToolCallStarted(0, 0, "a", "f"), ToolCallDelta(0, 0, "{}"), ToolCallStarted(0, 1, "b", "g"))
    documents = frames_of(*events)
    assert [(document["type"], document.get("output_index")) for document in documents[2:]] == [
        ("response.output_item.added", 0),
        ("response.function_call_arguments.delta", 0),
        ("response.function_call_arguments.done", 0),
        ("response.output_item.done", 0),
        ("response.output_item.added", 1),
    ]
    assert (documents[4]["arguments"], documents[4]["name"]) == ("{}", "f")


def test_calls_without_an_id_or_with_the_same_have_one_of_their_own() -> None:
    items = output(ToolCallStarted(0, 0, None, "f"), ToolCallStarted(0, 1, "a", "f"), ToolCallStarted(0, 2, "a", "f"))
    ids = [item["call_id"] for item in items]
    assert len(set(ids)) == 3
    assert ids[1] == "a"
    assert all(id.startswith("call_") for id in (ids[0], ids[2]))


@pytest.mark.parametrize("blank", ["", " "])
def test_a_call_without_arguments_has_an_empty_object_unless_it_was_cut(blank: str) -> None:
    events = (ToolCallStarted(0, 0, "a", "f"), ToolCallDelta(0, 0, blank))
    (item,) = output(*events)
    assert item["arguments"] == blank + "{}"
    (cut,) = output(*events, ChoiceFinished(0, FinishReason.LENGTH))
    assert (cut["arguments"], cut["status"]) == (blank, "incomplete")


def test_a_tool_of_a_namespace_comes_back_with_its_namespace_apart() -> None:
    (item,) = output(ToolCallStarted(0, 0, "a", "mcp__read"), ToolCallDelta(0, 0, "{}"), tools=TOOLS)
    assert item == {**call("a", "read", "{}"), "namespace": "mcp"}


CUSTOM = {"type": "custom_tool_call", "status": "completed", "call_id": "a", "name": "exec"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"input": "ls\\n\\"x\\""}', 'ls\n"x"'),
        ('{"input": ""}', ""),
        ("", ""),
        ('{"cmd": "ls"}', '{"cmd": "ls"}'),
        ('{"input": 5}', '{"input": 5}'),
        ("ls -l", "ls -l"),
        ('["input"]', '["input"]'),
        ('{"input": "cut o', '{"input": "cut o'),
        ('{"input": "a", "more": 1}', "a"),
    ],
)
def test_a_custom_call_has_the_text_that_was_wrapped_or_what_came(arguments: str, said: str) -> None:
    pieces = [ToolCallDelta(0, 0, letter) for letter in arguments]
    assert output(ToolCallStarted(0, 0, "a", "exec"), *pieces, tools=TOOLS) == [{**CUSTOM, "input": said}]
    deltas = frames_of(*every(ToolCallStarted(0, 0, "a", "exec"), *pieces), tools=TOOLS)
    kind = "response.custom_tool_call_input.delta"
    assert [document["delta"] for document in deltas if document["type"] == kind] == ([said] if said else [])


def test_a_custom_call_of_the_upstream_stays_one_for_any_declaration() -> None:
    events = (ToolCallStarted(0, 0, "a", "exec", custom=True), ToolCallDelta(0, 0, "l"), ToolCallDelta(0, 0, "s"))
    for tools in (TOOLS, {}, None):
        assert output(*events, tools=tools) == [{**CUSTOM, "input": "ls"}]
    (item,) = output(ToolCallStarted(0, 0, "a", "mcp__patch", custom=True), tools=TOOLS)
    assert item == {**CUSTOM, "name": "patch", "namespace": "mcp", "input": ""}


def test_arguments_too_large_to_be_read_on_the_event_loop_stay_open_to_the_end() -> None:
    large = '{"x":"' + "y" * 70_000 + '"}'
    events = (ToolCallStarted(0, 0, "a", "f"), ToolCallDelta(0, 0, large), ToolCallStarted(0, 1, "b", "g"))
    assert not any(document["type"].endswith(".done") for document in frames_of(STARTED, *events))
    cut = ChoiceFinished(0, FinishReason.LENGTH)
    statuses = [item["status"] for item in output(*events, ToolCallDelta(0, 1, '{"y"'), cut)]
    assert statuses == ["completed", "incomplete"]


# Reasoning.


def test_reasoning_is_shown_as_text_or_as_a_summary_as_it_was_asked_for() -> None:
    events = (ReasoningDelta(0, "Hm"), ReasoningDelta(0, "."), TextDelta(0, "a"))
    (thought, _) = output(*events)
    assert (thought["summary"], thought["content"]) == ([], [{"type": "reasoning_text", "text": "Hm."}])
    (thought, _) = output(*events, summarizes_reasoning=True)
    assert thought["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert "content" not in thought
    assert output(*events, exclude_reasoning=True) == [message(text_part("a"))]


def test_hidden_reasoning_is_carried_and_not_shown() -> None:
    documents = frames_of(*every(ReasoningDelta(0, "secret"), TextDelta(0, "a")), hides_reasoning=True)
    assert [document["type"] for document in documents[2:4]] == [
        "response.output_item.added",
        "response.output_item.done",
    ]
    (thought, _) = output(ReasoningDelta(0, "secret"), TextDelta(0, "a"), hides_reasoning=True)
    assert CarriedReader().open(thought["encrypted_content"]).text == "secret"


def test_reasoning_after_text_and_between_calls_has_items_of_its_own() -> None:
    items = output(
        TextDelta(0, "a"),
        ReasoningDelta(0, "b"),
        ToolCallStarted(0, 0, "c", "f"),
        ReasoningDelta(0, "d"),
        TextDelta(0, "e"),
        TextDelta(0, "f"),
    )
    assert [item["type"] for item in items] == ["message", "reasoning", "function_call", "reasoning", "message"]
    assert items[-1] == message(text_part("ef"))


def test_two_blocks_of_reasoning_in_a_row_are_two_items() -> None:
    entry = {"type": "reasoning.text", "format": "anthropic-claude-v1"}
    items = output(
        ReasoningDelta(0, "a", ({**entry, "text": "a", "index": 0},)),
        ReasoningDelta(0, "", ({**entry, "signature": "s", "index": 0},)),
        ReasoningDelta(0, "b", ({**entry, "text": "b", "index": 1},)),
    )
    assert [item["content"][0]["text"] for item in items] == ["a", "b"]
    carried = CarriedReader().open(items[0]["encrypted_content"], "a")
    assert carried.entries == [{**entry, "signature": "s", "index": 0, "text": "a"}]
    assert carried.model == "upstream-model"


def test_a_signature_alone_is_an_item_before_its_call() -> None:
    entry = {"type": "reasoning.encrypted", "data": "sig", "format": "google-gemini-v1", "id": "call:0", "index": 0}
    items = output(ReasoningDelta(0, "", (entry,)), ToolCallStarted(0, 0, "a", "f"))
    assert [item["type"] for item in items] == ["reasoning", "function_call"]
    assert (items[0]["summary"], "content" in items[0]) == ([], False)
    assert CarriedReader().open(items[0]["encrypted_content"]).entries == [entry]


def test_sealed_content_of_the_own_family_stands_as_it_came() -> None:
    summary = {"type": "reasoning.summary", **OWN}
    sealed = {"type": "reasoning.encrypted", "data": "gAAA", **OWN}
    for events in (
        (ReasoningDelta(0, "Hm", ({**summary, "summary": "Hm"},)), ReasoningDelta(0, "", (sealed,))),
        (ReasoningDelta(0, "Hm", ({**summary, "summary": "Hm"}, sealed)),),
        (ReasoningDelta(0, "Hm"), ReasoningDelta(0, "", (sealed,))),
        (ReasoningDelta(0, "", (sealed,)),),
    ):
        assert output(*events, TextDelta(0, "a"))[0]["encrypted_content"] == "gAAA"
    foreign = {**sealed, "format": "xai-responses-v1"}
    (item,) = output(ReasoningDelta(0, "", (foreign,)))
    assert CarriedReader().open(item["encrypted_content"]).entries == [foreign]


# Text.


def test_a_refusal_is_a_part_of_the_message() -> None:
    assert output(TextDelta(0, "a"), RefusalDelta(0, "No"), RefusalDelta(0, "."), TextDelta(0, "b")) == [
        message(text_part("a"), {"type": "refusal", "refusal": "No."}, text_part("b"))
    ]


def test_log_probabilities_stand_in_the_delta_they_describe_where_they_were_asked_for() -> None:
    top = {"token": "b", "logprob": -2.0, "bytes": [98]}
    token = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": [top]}
    events = (LogprobsDelta(0, {"content": [token]}), TextDelta(0, "a"), TextDelta(0, "b"))
    assert output(*events) == [message(text_part("ab"))]
    (item,) = output(*events, shows_logprobs=True)
    assert item["content"][0]["logprobs"] == [token]
    deltas = [
        document["logprobs"]
        for document in frames_of(*every(*events), shows_logprobs=True)
        if document["type"] == "response.output_text.delta"
    ]
    plain = {"token": "a", "logprob": -0.1, "top_logprobs": [{"token": "b", "logprob": -2.0}]}
    assert deltas == [[plain], []]


def test_citations_belong_to_the_open_text_or_to_the_next() -> None:
    inner = {"url": "https://example.com", "title": "t", "start_index": 0, "end_index": 1}
    cited = Extra(0, {"annotations": [{"type": "url_citation", "url_citation": inner}]})
    flat = {"type": "url_citation", **inner}
    (item,) = output(cited, TextDelta(0, "a"), TextDelta(0, "b"), cited, TextDelta(0, "c"))
    assert item["content"] == [{**text_part("abc"), "annotations": [flat, flat]}]
    assert output(Extra(0, {"audio": {}}), Extra(None, {"annotations": [{}]}), TextDelta(0, "a")) == [
        message(text_part("a"))
    ]


def test_an_emoji_that_was_split_is_whole_at_the_end() -> None:
    assert output(TextDelta(0, "a\ud83d"), TextDelta(0, "\ude00")) == [message(text_part("a\U0001f600"))]


# The end.


@pytest.mark.parametrize(
    ("reason", "status", "told"),
    [
        (FinishReason.STOP, "completed", None),
        (FinishReason.TOOL_CALLS, "completed", None),
        (FinishReason.FUNCTION_CALL, "completed", None),
        (FinishReason.OTHER, "completed", None),
        (FinishReason.LENGTH, "incomplete", "max_output_tokens"),
        (FinishReason.CONTENT_FILTER, "incomplete", "content_filter"),
    ],
)
def test_how_it_ended(reason: FinishReason, status: str, told: str | None) -> None:
    response = written(ToolCallStarted(0, 0, "a", "f"), TextDelta(0, "cut o"), ChoiceFinished(0, reason))
    assert (response["status"], response["completed_at"]) == (status, 9 if status == "completed" else None)
    assert response["incomplete_details"] == ({"reason": told} if told is not None else None)
    assert response["output"][1]["status"] == status


def test_a_call_that_was_cut_is_incomplete_and_one_that_is_whole_is_not() -> None:
    cut = ChoiceFinished(0, FinishReason.LENGTH)
    assert output(
        ToolCallStarted(0, 0, "a", "f"),
        ToolCallDelta(0, 0, '{"x":'),
        ToolCallStarted(0, 1, "b", "f"),
        ToolCallDelta(0, 1, '{"y'),
        ToolCallDelta(0, 0, "1}"),
        cut,
    ) == [call("a", "f", '{"x":1}'), call("b", "f", '{"y', "incomplete")]


def test_usage_is_counted_where_nobody_reported_it() -> None:
    encoder = RESPONSES.encoder(reply(count_usage=lambda: Usage(input_uncached=1, output=2)))
    frames = [frame for event in (STARTED, TextDelta(0, "a"), STOP, StreamCompleted()) for frame in encoder.feed(event)]
    assert read_stream(b"".join(frames))["usage"]["total_tokens"] == 3


def test_nothing_stands_before_created_and_keep_alives_are_numbered() -> None:
    encoder = RESPONSES.encoder(reply())
    assert RESPONSES.keep_alive_in(encoder) == b""
    out = b"".join(encoder.begin())
    assert encoder.begin() == []
    out += RESPONSES.keep_alive_in(encoder) + b"".join(encoder.feed(TextDelta(0, "a")))
    out += RESPONSES.keep_alive_in(encoder)
    for event in (TextDelta(0, "b"), STOP, USAGE, StreamCompleted()):
        out += b"".join(encoder.feed(event))
    kinds = [document["type"] for document in documents_of(out)]
    assert kinds[:3] == ["response.created", "response.in_progress", "keepalive"]
    assert kinds.count("keepalive") == 2
    assert read_stream(out)["status"] == "completed"


EVENTS: list[Event] = [
    STARTED,
    ReasoningDelta(0, "Hm"),
    TextDelta(0, "a"),
    ToolCallStarted(0, 0, "c", "f"),
    ToolCallDelta(0, 0, '{"x":1}'),
    ToolCallStarted(0, 1, "d", "exec"),
    ToolCallDelta(0, 1, '{"input":"ls"}'),
    TextDelta(0, "b"),
    RefusalDelta(0, "No"),
    STOP,
    USAGE,
]


@pytest.mark.parametrize("cut", range(1, len(EVENTS) + 1))
def test_a_stream_that_fails_anywhere_ends_with_an_error_and_what_was_done(cut: int) -> None:
    encoder = RESPONSES.encoder(reply(tools=TOOLS))
    out = b"".join(encoder.begin() + [frame for event in EVENTS[:cut] for frame in encoder.feed(event)])
    failed = encoder.feed(StreamFailed(UpstreamError("upstream_stream_truncated", "It ended.")))
    assert len(failed) == 2
    assert not encoder.feed(TextDelta(0, "more"))
    assert not encoder.feed(StreamFailed(UpstreamError("upstream_stream_reset", "Again.")))
    response = read_stream(out + b"".join(failed))
    assert (response["status"], response["error"]) == ("failed", {"code": "server_error", "message": "It ended."})


def test_an_end_that_was_not_sent_can_be_replaced_by_a_failure() -> None:
    encoder = RESPONSES.encoder(reply())
    out = b"".join(frame for event in (STARTED, TextDelta(0, "a"), STOP, USAGE) for frame in encoder.feed(event))
    assert encoder.feed(StreamCompleted())
    out += b"".join(encoder.feed(StreamFailed(CallerError("budget_exceeded", "No more."))))
    assert [document["type"] for document in documents_of(out)[-2:]] == ["error", "response.failed"]
    assert not encoder.feed(StreamFailed(CallerError("budget_exceeded", "No more.")))


# Errors.

TOLD = {
    "context_length_exceeded": "context_length_exceeded",
    "insufficient_quota": "insufficient_quota",
    "budget_exceeded": "insufficient_quota",
    "overloaded": "server_is_overloaded",
    "upstream_overloaded": "server_is_overloaded",
    "rate_limit_exceeded": "rate_limit_exceeded",
    "upstream_rate_limited": "rate_limit_exceeded",
}


def error_of(code: str, message: str = "m", **members: Any) -> StreamweirError:
    for kind in (CallerError, UpstreamError, GatewayFault):
        if code in kind.codes:
            return kind(code, message, **members)
    raise KeyError(code)


def test_every_code_is_told_in_a_stream_in_the_words_that_agents_know() -> None:
    assert {code: stream_members(error_of(code))["code"] for code in CODES} == {
        code: TOLD.get(code, "server_error") for code in CODES
    }
    assert STREAM_ERRORS.keys() == TOLD.keys()


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_status_before_the_answer(code: str) -> None:
    error = error_of(code, param="input")
    answer = RESPONSES.write_error(error, "req_1")
    assert answer.status == CODES[code].status
    expected = {"message": "m", "type": CODES[code].type, "param": "input", "code": code}
    assert jsonio.decode(answer.body) == document_of(error) == {"error": expected}


def test_an_agent_is_told_how_long_to_wait() -> None:
    error = error_of("upstream_rate_limited", "Too many.", retry_after_s=7.0)
    assert stream_members(error)["message"] == "Too many. Please try again in 7s."
    error = error_of("upstream_rate_limited", "Please try again in 3s.", retry_after_s=7.0)
    assert stream_members(error)["message"] == "Please try again in 3s."
    assert stream_members(error_of("upstream_timeout", "Slow.", retry_after_s=7.0))["message"] == "Slow."


def test_only_a_context_that_is_too_long_is_told_inside_a_stream_that_has_not_begun() -> None:
    told = {code for code in CODES if RESPONSES.write_streamed_error(error_of(code), reply()) is not None}
    assert told == {"context_length_exceeded"}


def test_an_answer_beyond_any_size_is_refused_and_not_kept() -> None:
    piece = "x" * (MAX_CHARACTERS // 4)
    for event in (TextDelta(0, piece), ReasoningDelta(0, piece), RefusalDelta(0, piece), ToolCallDelta(0, 0, piece)):
        encoder = ResponsesEncoder(reply())
        encoder.feed(STARTED)
        encoder.feed(ToolCallStarted(0, 0, "a", "f"))
        for _ in range(4):
            encoder.feed(event)
        with pytest.raises(UpstreamError, match="too large"):
            encoder.feed(event)
        assert encoder.feed(StreamFailed(UpstreamError("response_too_large", "It is.")))


# Whatever an upstream sends.

TEXTS = st.sampled_from(["", "a", "b c", "\ud83d", "\ude00", '{"input":', '"x"}', "{}", "é"])
DETAILS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["reasoning.text", "reasoning.summary", "reasoning.encrypted"])},
        optional={
            "index": st.integers(0, 2),
            "data": st.sampled_from(["d", "", "e"]),
            "format": st.sampled_from(["openai-responses-v1", "anthropic-claude-v1"]),
            "signature": st.just("s"),
            "text": TEXTS,
        },
    ),
    max_size=2,
).map(tuple)
TOKENS = st.fixed_dictionaries({"content": st.lists(st.fixed_dictionaries({"token": TEXTS}), max_size=2)})
STEPS = st.lists(
    st.one_of(
        st.builds(TextDelta, st.just(0), TEXTS),
        st.builds(RefusalDelta, st.just(0), TEXTS),
        st.builds(ReasoningDelta, st.just(0), TEXTS, DETAILS),
        st.builds(LogprobsDelta, st.just(0), TOKENS | st.none()),
        st.builds(
            Extra, st.just(0), st.fixed_dictionaries({"annotations": st.lists(st.just({"type": "x"}), max_size=2)})
        ),
        st.tuples(st.sampled_from(["exec", "mcp__read", "f"]), st.sampled_from([None, "same", "other"]), st.booleans()),
        st.tuples(st.integers(0, 3), TEXTS),
    ),
    max_size=14,
)


def events_of(steps: list[Any]) -> list[Event]:
    """The calls among them get their ordinals. Arguments go to calls that were started and are not whole: no service
    sends more behind a whole object."""
    events: list[Event] = []
    arguments: list[str] = []
    for step in steps:
        if not isinstance(step, tuple):
            events.append(step)
        elif isinstance(step[0], str):
            events.append(ToolCallStarted(0, len(arguments), step[1], step[0], custom=step[2]))
            arguments.append("")
        elif arguments:
            call = step[0] % len(arguments)
            if arguments[call] not in ("{}", '{"input":"x"}'):
                events.append(ToolCallDelta(0, call, step[1]))
                arguments[call] += step[1]
    return events


@given(STEPS, st.sampled_from(FinishReason), st.booleans(), st.booleans())
def test_any_answer_is_a_stream_in_order_and_the_same_as_a_whole_body(
    steps: list[Any], finish: FinishReason, hides: bool, shows: bool
) -> None:
    members = {"tools": TOOLS, "hides_reasoning": hides, "summarizes_reasoning": shows, "shows_logprobs": shows}
    written(*events_of(steps), ChoiceFinished(0, finish), **members)
