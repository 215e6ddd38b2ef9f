"""What bounds an answer of the Responses API, whose end repeats all of it, and what it repeats of the request."""

import itertools
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.events import (
    Event,
    Extra,
    LogprobsDelta,
    ReasoningDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallStarted,
)
from streamweir.core.request import ToolShape
from streamweir.frontends.base import Reply
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.frontends.responses.echo import MAX_ECHOED, echo_of
from streamweir.frontends.responses.encoder import ResponsesEncoder
from streamweir.frontends.responses.request import read_responses_request
from streamweir.wire import jsonio
from support.responses import read_stream

TOKEN = {"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": [{"token": "b", "logprob": -2.0}] * 20}
CITATION = {"type": "url_citation", "url_citation": {"url": "http://a.example/" + "x" * 1000}}


def alternating() -> Iterator[Event]:
    for _ in itertools.count():
        yield TextDelta(0, "a")
        yield ReasoningDelta(0, "b")


def with_logprobs() -> Iterator[Event]:
    for _ in itertools.count():
        yield LogprobsDelta(0, {"content": [TOKEN] * 50})
        yield TextDelta(0, "a")


def sealed() -> Iterator[Event]:
    entry = {"type": "reasoning.encrypted", "data": "d" * 1000, "format": "x", "index": 0}
    return itertools.repeat(ReasoningDelta(0, "", (entry,)))


def cited() -> Iterator[Event]:
    return itertools.chain([TextDelta(0, "a")], itertools.repeat(Extra(0, {"annotations": [CITATION]})))


def calling() -> Iterator[Event]:
    return (ToolCallStarted(0, number, f"c{number}", "f" * 1000) for number in itertools.count())


ENDLESS: dict[str, Any] = {
    "escaped text": lambda: itertools.repeat(TextDelta(0, "\x01" * 1000)),
    "wide text": lambda: itertools.repeat(TextDelta(0, "\u4e00" * 1000)),
    "many items": alternating,
    "logprobs": with_logprobs,
    "sealed reasoning": sealed,
    "annotations": cited,
    "annotations without a text": lambda: itertools.repeat(Extra(0, {"annotations": [CITATION]})),
    "calls": calling,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_answer_without_end_is_refused_while_its_end_is_small(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 100_000
    monkeypatch.setattr("streamweir.frontends.responses.encoder.MAX_CHARACTERS", limit)
    encoder = ResponsesEncoder(Reply(id="resp_1", now=lambda: 0, model="m", shows_logprobs=True))
    frames = encoder.feed(StreamStarted())

    def feed_all() -> None:
        for event in itertools.islice(ENDLESS[name](), limit):
            frames.extend(encoder.feed(event))

    with pytest.raises(UpstreamError, match="too large"):
        feed_all()
    kept = len(b"".join(frames))
    last = encoder.feed(StreamFailed(UpstreamError("response_too_large", "The answer is too large.")))
    assert read_stream(b"".join(frames + last))["status"] == "failed"
    assert len(b"".join(last)) < 3 * limit
    assert kept < 20 * limit


def test_pieces_of_one_entry_of_reasoning_are_not_counted_again_and_again() -> None:
    encoder = ResponsesEncoder(Reply(id="resp_1", now=lambda: 0, model="m"))
    entry = {"type": "reasoning.text", "text": "a", "format": "anthropic-claude-v1", "index": 0}
    for _ in range(50_000):
        assert encoder.feed(ReasoningDelta(0, "a", (entry,)))


@pytest.mark.parametrize("streams", [True, False])
def test_large_members_of_the_request_are_not_repeated(streams: bool) -> None:
    large = "x" * MAX_ECHOED
    schema = {"type": "object", "description": large}
    members: dict[str, Any] = {
        "instructions": large,
        "tools": [{"type": "function", "name": "f", "parameters": schema}],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}},
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "stream": streams,
    }
    assert echo_of(members) == {"metadata": {"a": "b"}, "temperature": 0.5}
    assert len(jsonio.encode(echo_of({**members, "metadata": {str(i): "y" * 1000 for i in range(1000)}}))) < 100


ACCOUNT: list[tuple[dict[str, Any], str]] = [
    (
        {"tools": [{"type": "image_generation", "input_image_mask": {"file_id": "file-1"}}]},
        "tools[0].input_image_mask.file_id",
    ),
    (
        {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}]},
        "tools[0].tools[0].vector_store_ids",
    ),
    (
        {"tools": [{"type": "shell", "environment": {"type": "container_auto", "skills": [{"skill_id": "s"}]}}]},
        "tools[0].environment.skills[0].skill_id",
    ),
    (
        {"input": [{"type": "computer_call_output", "call_id": "c", "output": {"file_id": "file-1"}}]},
        "input[0].output.file_id",
    ),
    (
        {"input": [{"type": "additional_tools", "tools": [{"type": "code_interpreter", "container": "cntr_1"}]}]},
        "input[0].tools[0].container",
    ),
    (
        {"input": [{"type": "tool_search_output", "tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}]},
        "input[0].tools[0].vector_store_ids",
    ),
]


@pytest.mark.parametrize(("members", "path"), ACCOUNT, ids=[path for _, path in ACCOUNT])
def test_things_of_the_account_are_refused_anywhere(members: dict[str, Any], path: str) -> None:
    question = {"type": "message", "role": "user", "content": "go"}
    items = [*members.get("input", []), question]
    with pytest.raises(Exception, match="the account serves many keys") as refused:
        read_responses_request({"model": "m", **members, "input": items})
    assert refused.value.param == path  # type: ignore[attr-defined]


def test_items_that_name_what_is_stored_are_left_out_and_the_callers_own_names_are_not() -> None:
    own = {"type": "object", "properties": {"file_id": {"type": "string"}, "container": "x"}}
    function = {"type": "function", "name": "f", "parameters": own}
    items = [
        {"type": "message", "role": "user", "content": "go"},
        {"type": "image_generation_call", "id": "ig_1"},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": "cntr_1"},
        {"type": "tool_search_output", "tools": [function]},
        {"type": "mcp_list_tools", "tools": [{"name": "f", "input_schema": {"properties": {"file_id": {"x": 1}}}}]},
    ]
    tools = [function, {"type": "namespace", "name": "n", "tools": [function]}]
    native = read_responses_request({"model": "m", "input": items, "tools": tools}).native
    assert native is not None
    assert native.dropped == ("input[1]", "input[2]")
    assert (native.body["input"], native.body["tools"]) == ([items[0], *items[3:]], tools)


@pytest.mark.parametrize("member", ["models", "fallbacks", "route", "preset", "model_list"])
def test_members_with_which_a_router_takes_another_model_are_left_out(member: str) -> None:
    native = read_responses_request({"model": "m", "input": "x", member: ["big"], "zeta": 1}).native
    assert native is not None
    assert (member in native.body, native.body["zeta"], native.dropped) == (False, 1, (member,))
    message = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], member: ["big"]}
    own = MESSAGES.parse(message, {}).native
    assert own is not None
    assert (member in own.body, own.dropped) == (False, (member,))


def test_what_nothing_can_come_of_is_named() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "See:"}, picture]}
    request = read_responses_request({"model": "m", "input": [said], "tool_choice": "required", "tools": []})
    assert request.native is not None
    assert request.native.untranslated == ("input[0].content", "tool_choice")
    assert (request.messages[0].content, request.tool_choice) == ("See:", None)
    free = read_responses_request({"model": "m", "input": "x", "tool_choice": "auto"})
    assert free.native is not None
    assert free.native.untranslated == ()


def test_many_calls_with_one_id_have_their_results_in_turn() -> None:
    count = 3000
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    outputs = [{"type": "function_call_output", "call_id": "c", "output": str(i)} for i in range(count)]
    request = read_responses_request({"model": "m", "input": [*[call] * count, *outputs]})
    assert [message.content for message in request.messages[1:]] == [str(i) for i in range(count)]


def test_a_failure_stands_in_the_place_of_what_was_not_sent() -> None:
    events = [TextDelta(0, "a"), ReasoningDelta(0, "b"), ToolCallStarted(0, 0, "c", "f"), StreamCompleted()]
    error = StreamFailed(UpstreamError("upstream_stream_reset", "It broke off."))
    for sent in range(len(events) + 1):
        encoder = ResponsesEncoder(Reply(id="resp_1", now=lambda: 0, model="m"))
        frames: list[bytes] = []
        for place, event in enumerate(events):
            if place == sent:
                number = encoder.next_number
            written = encoder.feed(event)
            frames += written if place < sent else []
        if sent == len(events):
            assert read_stream(b"".join(frames))["status"] == "completed"
            continue
        encoder.return_to(number)
        response = read_stream(b"".join(frames + encoder.feed(error)))
        assert (response["status"], len(response["output"])) == ("failed", max(sent - 1, 0))
        assert encoder.feed(error) == []


@pytest.mark.parametrize("kinds", [("function", "custom"), ("custom", "function")])
def test_a_tool_that_is_declared_again_is_what_it_is_now(kinds: tuple[str, str]) -> None:
    tools = [{"type": kind, "name": "x"} for kind in kinds]
    call = {"type": "custom_tool_call", "call_id": "c", "name": "x", "input": "old"}
    native = read_responses_request({"model": "m", "input": [call], "tools": tools}).native
    assert native is not None
    assert native.tools == ({"x": ToolShape("x", True)} if kinds[1] == "custom" else {})


def test_a_long_answer_holds_little_more_than_its_text() -> None:
    encoder = ResponsesEncoder(Reply(id="resp_1", now=lambda: 0, model="m"))
    encoder.feed(TextDelta(0, "first"))
    words, count = [TextDelta(0, f" w{number:03}") for number in range(1000)], 20_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(count):
            encoder.feed(words[number % 1000])
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert held < 3 * count * len(words[0].text)
