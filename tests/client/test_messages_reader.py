"""The client's reading of the Messages API: the message as an SDK has it, events as for chat, and no end but its own.

Every fixture of every provider is written in this API and read again, at once and in pieces; each prefix of it is an
error. The recordings of Anthropic's are read too: `make test` takes every eighth, `make soak` all.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import SOAKS
from streamweir.cli.commands.replay import replay
from streamweir.client import (
    ChoiceFinished,
    ClientError,
    Completion,
    FinishReason,
    MessagesReader,
    ReasoningDelta,
    StreamError,
    StreamInvalid,
    StreamTruncated,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    aparse,
    parse,
)
from support.client_result import joined
from support.corpus import PARTS, Recording, recordings
from support.messages import documents_of, read_documents
from support.soak import part_of

ROOT = Path(__file__).parents[1] / "fixtures"
BODIES = sorted([*ROOT.glob("*/*/response.sse"), *ROOT.glob("*/*/response.json")])
PLACES = 8
RECORDINGS = part_of([each for each in recordings() if each.family == "anthropic-messages"], PARTS)


def frame(**document: Any) -> bytes:
    return f"event: {document['type']}\ndata: {json.dumps(document)}\n\n".encode()


def start(index: int, **block: Any) -> bytes:
    return frame(type="content_block_start", index=index, content_block=block)


def delta(index: int, **delta: Any) -> bytes:
    return frame(type="content_block_delta", index=index, delta=delta)


def stop(index: int) -> bytes:
    return frame(type="content_block_stop", index=index)


def end(reason: str = "end_turn", sequence: str | None = None) -> bytes:
    usage = {"output_tokens": 20, "output_tokens_details": {"thinking_tokens": 5}}
    return frame(type="message_delta", delta={"stop_reason": reason, "stop_sequence": sequence}, usage=usage)


USAGE = {"input_tokens": 3, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2, "output_tokens": 1}
HEAD = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
START = frame(type="message_start", message={**HEAD, "stop_reason": None, "stop_sequence": None, "usage": USAGE})
STOP = frame(type="message_stop")
PING = frame(type="ping")
ERROR = frame(type="error", error={"type": "overloaded_error", "message": "Busy."}, request_id="req_1")
SAID = [START, start(0, type="text", text=""), delta(0, type="text_delta", text="Hel"), PING]
SAID += [delta(0, type="text_delta", text="lo"), stop(0)]
CITATION = {"type": "web_search_result_location", "url": "https://example.com", "cited_text": "it"}
AGENT = [
    START,
    start(0, type="thinking", thinking="", signature=""),
    delta(0, type="thinking_delta", thinking="Hm, "),
    delta(0, type="thinking_delta", thinking="yes."),
    delta(0, type="signature_delta", signature="c2ln"),
    stop(0),
    start(1, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
    delta(1, type="input_json_delta", partial_json='{"query": "weir"}'),
    stop(1),
    start(2, type="text", text=""),
    delta(2, type="text_delta", text="I look."),
    delta(2, type="citations_delta", citation=CITATION),
    stop(2),
    start(3, type="tool_use", id="toolu_1", name="Read", input={}),
    delta(3, type="input_json_delta", partial_json='{"path": '),
    delta(3, type="input_json_delta", partial_json='"a.txt"}'),
    stop(3),
    start(4, type="tool_use", id="toolu_2", name="List", input={}),
    stop(4),
    end("tool_use"),
    STOP,
]


def outcome(*chunks: bytes) -> tuple[Completion, ClientError | None]:
    stream = parse(chunks, api="messages")
    try:
        return stream.final(), None
    except ClientError as error:
        return stream.so_far, error


def test_text_usage_and_the_reason_of_the_stop() -> None:
    answer, error = outcome(*SAID, end("stop_sequence", "END"), STOP)
    assert error is None
    assert (answer.text, answer.id, answer.model, answer.is_whole) == ("Hello", "msg_1", "claude-x", True)
    assert (answer.finish_reason, answer.choices[0].reason) == ("stop_sequence", FinishReason.STOP)
    assert answer.stop_sequence == "END"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.cache_read, answer.usage.completion_tokens) == (12, 7, 20)
    assert answer.usage.reasoning == 5
    assert answer.to_dict()["usage"] == {**USAGE, "output_tokens": 20, "output_tokens_details": {"thinking_tokens": 5}}


def test_events_are_those_of_every_api() -> None:
    stream = parse([b"".join(AGENT)], api="messages")
    seen = [event for event in stream if not isinstance(event, ToolCallDelta)]
    assert [(e.call, e.id, e.name) for e in seen if isinstance(e, ToolCallStarted)] == [
        (0, "toolu_1", "Read"),
        (1, "toolu_2", "List"),
    ]
    assert "".join(e.text for e in seen if isinstance(e, ReasoningDelta)) == "Hm, yes."
    assert [e.text for e in seen if isinstance(e, TextDelta)] == ["I look."]
    assert [e.raw for e in seen if isinstance(e, ChoiceFinished)] == ["tool_use"]
    assert [call.parsed() for call in stream.tool_calls] == [{"path": "a.txt"}, {}]


def test_the_message_to_send_back_has_every_block_as_it_came() -> None:
    answer, _ = outcome(*AGENT)
    assert answer.message == {"role": "assistant", "content": answer.content}
    assert answer.content == [
        {"type": "thinking", "thinking": "Hm, yes.", "signature": "c2ln"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "weir"}},
        {"type": "text", "text": "I look.", "citations": [CITATION]},
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a.txt"}},
        {"type": "tool_use", "id": "toolu_2", "name": "List", "input": {}},
    ]


def test_a_whole_body() -> None:
    body = {**HEAD, "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "usage": USAGE}
    answer, error = outcome(json.dumps(body).encode())
    assert error is None
    assert (answer.text, answer.finish_reason, answer.is_whole) == ("Hi", "end_turn", True)
    assert answer.to_dict() == body
    _, error = outcome(b'{"type":"error","error":{"type":"api_error","message":"No."}}')
    assert isinstance(error, StreamError)
    assert (error.type, error.message) == ("api_error", "No.")
    for unreadable in (b'{"id":"msg_1","content":"text"}', b"{}", b'{"id"'):
        _, error = outcome(unreadable)
        assert isinstance(error, StreamInvalid), unreadable


def test_an_error_frame_is_raised_after_what_came_before_it() -> None:
    answer, error = outcome(*SAID, ERROR, end(), STOP)
    assert isinstance(error, StreamError)
    assert (error.type, error.message, str(error)) == ("overloaded_error", "Busy.", "overloaded_error: Busy.")
    assert (error.completion.text, answer.is_whole, answer.finish_reason) == ("Hello", False, None)
    assert not error.may_retry
    _, error = outcome(ERROR)
    assert isinstance(error, StreamError)
    _, error = outcome(b"event: error\ndata: busy\n\n")
    assert isinstance(error, StreamError)


@pytest.mark.parametrize("rest", [[], [PING], [b"data: [DONE]\n\n"]], ids=["nothing", "ping", "done"])
def test_without_message_stop_it_is_cut(rest: list[bytes]) -> None:
    answer, error = outcome(*SAID, *rest)
    assert isinstance(error, StreamTruncated)
    assert (error.is_finished, error.may_retry, answer.is_whole) == (False, False, False)
    assert answer.content == [{"type": "text", "text": "Hello"}]
    _, error = outcome(*SAID, end(), *rest)
    assert isinstance(error, StreamTruncated)
    assert error.is_finished, "only message_stop is missing"
    _, error = outcome(START, *rest)
    assert isinstance(error, StreamTruncated)
    assert error.may_retry, "nothing of the answer had come"


def test_a_frame_that_is_no_json_is_invalid() -> None:
    answer, error = outcome(*SAID, b'event: content_block_delta\ndata: {"type":\n\n', STOP)
    assert isinstance(error, StreamInvalid)
    assert answer.text == "Hello"


def test_arguments_that_are_no_object_are_shown_and_refused() -> None:
    call = [START, start(0, type="tool_use", id="t", name="f", input={})]
    answer, error = outcome(*call, delta(0, type="input_json_delta", partial_json='{"a": '), end("max_tokens"), STOP)
    assert error is None
    assert answer.tool_calls[0].problem is not None
    assert answer.content[0]["input"] == {"INVALID_JSON": '{"a": '}


def test_what_was_taken_does_not_change_later() -> None:
    reader = MessagesReader()
    reader.feed(b"".join(SAID[:3]))
    before = reader.completion
    reader.feed(b"".join([*SAID[3:], end(), STOP]))
    assert before.content == [{"type": "text", "text": "Hel"}]
    assert reader.completion.content == [{"type": "text", "text": "Hello"}]
    assert (reader.ended, reader.error) == (True, None)


async def test_asynchronously() -> None:
    async def chunks() -> Any:
        for piece in AGENT:
            yield piece

    assert (await aparse(chunks(), api="messages").final()).text == "I look."


def test_an_api_has_a_name_and_only_chat_has_dialects() -> None:
    with pytest.raises(ValueError, match="no API is named 'gemini'; there are chat, messages, responses"):
        parse([], api="gemini")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no dialects"):
        parse([], "openai", api="messages")


def facts(completion: Completion) -> Any:
    usage = completion.usage
    counts = usage and (usage.prompt_tokens, usage.completion_tokens, usage.cache_read, usage.reasoning)
    return [
        joined(completion.text),
        joined(completion.reasoning),
        [(call.id, call.name, joined(call.arguments)) for call in completion.tool_calls],
        completion.finish_reason,
        counts,
        joined(json.dumps(completion.document, ensure_ascii=False)),
    ]


def in_pieces(body: bytes, seed: int) -> list[bytes]:
    rng = random.Random(seed)
    places = sorted(rng.randrange(len(body) + 1) for _ in range(20))
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def places_of(stream: bytes) -> Iterator[int]:
    if SOAKS or len(stream) <= PLACES:
        yield from range(len(stream))
        return
    rng = random.Random(len(stream))
    ends = [at for at in range(len(stream)) if stream[at - 1 : at + 1] == b"\n\n"]
    yield from sorted({*rng.sample(range(len(stream)), PLACES), *rng.sample(ends, min(4, len(ends))), len(stream) - 1})


@pytest.mark.parametrize("path", part_of(BODIES, 4), ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_a_fixture_in_this_api_is_read_as_it_was_written(path: Path) -> None:
    written, completed = replay(
        path.read_bytes(), source=path.parent.parent.name, target="messages", model="m", id="msg_1"
    )
    answer, error = outcome(written)
    assert (error is None) is completed
    answer_in_pieces, error_in_pieces = outcome(*in_pieces(written, 1))
    assert (facts(answer), type(error)) == (facts(answer_in_pieces), type(error_in_pieces))
    message = read_documents(documents_of(written))
    if completed:
        assert joined(json.dumps(answer.to_dict(), sort_keys=True)) == joined(json.dumps(message, sort_keys=True))
    else:
        assert isinstance(error, StreamError)
        assert error.type == message["error"]["type"]
    for place in places_of(written.rstrip(b"\n")):  # what is missing after that is a blank line
        _, error = outcome(written[:place])
        assert isinstance(error, StreamTruncated | StreamError), "a part is never taken for the whole"


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_a_recording_gives_the_same_at_once_and_in_pieces(recording: Recording) -> None:
    body = recording.body()
    answer, error = outcome(body)
    answer_in_pieces, error_in_pieces = outcome(*in_pieces(body, 2))
    assert (facts(answer), type(error)) == (facts(answer_in_pieces), type(error_in_pieces))
    if recording.is_edited or error is not None:
        return
    texts = [block["text"] for block in answer.content if block["type"] == "text"]
    assert joined("".join(texts)) == joined(answer.text)
    inputs = [block["input"] for block in answer.content if block["type"] == "tool_use"]
    assert inputs == [call.parsed() for call in answer.tool_calls if call.problem is None]
