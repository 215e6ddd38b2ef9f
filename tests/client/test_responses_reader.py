"""The client's reading of the Responses API: the response as an SDK has it, events as for chat, and no end but its own.

Every fixture of every provider is written in this API and read again, at once and in pieces; each prefix of it is an
error. The recordings are read too: `make test` takes every eighth, `make soak` all.
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
    InvalidToolArguments,
    ReasoningDelta,
    ResponsesReader,
    StreamError,
    StreamInvalid,
    StreamTruncated,
    TextDelta,
    ToolCallStarted,
    aparse,
    parse,
)
from support import responses_answers as right
from support.client_result import joined
from support.corpus import PARTS, Recording, recordings
from support.responses import documents_of
from support.soak import part_of

ROOT = Path(__file__).parents[1] / "fixtures"
BODIES = sorted([*ROOT.glob("*/*/response.sse"), *ROOT.glob("*/*/response.json")])
PLACES = 4
RECORDINGS = part_of([each for each in recordings() if each.family == "openai-responses"], PARTS)
CONTRADICTORY = "openai-shell-container.1.sse"
"""Its deltas are another text than its items: somebody shortened it by hand."""
KEEPALIVE = b'event: keepalive\ndata: {"type":"keepalive","sequence_number":9}\n\n'
ANNOTATION = {"type": "url_citation", "url": "https://example.com", "title": "it", "start_index": 0, "end_index": 5}


def frames_of(documents: list[dict[str, Any]]) -> list[bytes]:
    return [block + b"\n\n" for block in right.written(documents).split(b"\n\n")[:-1]]


def outcome(*chunks: bytes) -> tuple[Completion, ClientError | None]:
    stream = parse(chunks, api="responses")
    try:
        return stream.final(), None
    except ClientError as error:
        return stream.so_far, error


def test_text_usage_and_the_end() -> None:
    answer, error = outcome(*frames_of(right.text()))
    assert error is None
    assert (answer.text, answer.id, answer.model, answer.is_whole) == ("Hello there.", "resp_1", "m", True)
    assert (answer.finish_reason, answer.choices[0].reason) == ("completed", FinishReason.STOP)
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.cache_read, answer.usage.completion_tokens) == (9, 4, 12)
    assert answer.usage.reasoning == 3
    assert answer.to_dict() == right.numbered(right.text())[-1]["response"]


def test_an_incomplete_answer_is_an_answer_that_says_so() -> None:
    answer, error = outcome(*frames_of(right.cut_short()))
    assert error is None
    assert (answer.finish_reason, answer.choices[0].reason) == ("max_output_tokens", FinishReason.LENGTH)
    assert answer.is_whole


def test_events_are_those_of_every_api() -> None:
    stream = parse([right.written(right.agent())], api="responses")
    seen = list(stream)
    assert [(e.call, e.id, e.name, e.custom) for e in seen if isinstance(e, ToolCallStarted)] == [
        (0, "call_1", "get_weather", False),
        (1, "call_2", "apply_patch", True),
    ]
    assert "".join(e.text for e in seen if isinstance(e, ReasoningDelta)) == "Hm."
    assert "".join(e.text for e in seen if isinstance(e, TextDelta)) == "Hello there."
    assert [e.reason for e in seen if isinstance(e, ChoiceFinished)] == [FinishReason.TOOL_CALLS]
    call, custom = stream.tool_calls
    assert call.parsed() == {"city": "Paris"}
    assert (custom.arguments, custom.custom, custom.is_whole) == ("*** Begin", True, True)
    with pytest.raises(InvalidToolArguments, match="free-form"):
        custom.parsed()
    assert custom.to_dict() == {
        "id": "call_2",
        "type": "custom",
        "custom": {"name": "apply_patch", "input": "*** Begin"},
    }


def test_what_is_sent_back_has_every_item_as_it_came() -> None:
    answer, _ = outcome(*frames_of(right.agent()))
    assert answer.output == right.whole()["output"]
    assert answer.content == []
    with pytest.raises(TypeError, match="output"):
        _ = answer.message


def test_an_end_without_its_items_has_those_that_were_done() -> None:
    """As ChatGPT's backend sends it."""
    documents = right.agent()
    documents[-1]["response"]["output"] = []
    answer, error = outcome(*frames_of(documents))
    assert error is None
    assert answer.output == right.whole()["output"]


def test_items_grow_while_they_arrive() -> None:
    documents = right.agent()
    place = {"item_id": "msg_1", "output_index": 1, "content_index": 0, "annotation_index": 0}
    added = {"type": "response.output_text.annotation.added", **place, "annotation": ANNOTATION}
    documents[11:11] = [added]
    shown = []
    reader = ResponsesReader()
    for frame in frames_of(documents):
        reader.feed(frame)
        shown.append(reader.completion.output)
    assert shown[1] == []
    assert shown[4] == [{"id": "rs_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}]
    assert shown[10][1]["content"][0]["text"] == "Hello"
    assert shown[10][1]["content"][0]["annotations"] == []
    assert shown[11][1]["content"][0]["annotations"] == [ANNOTATION]
    assert shown[12][1]["content"][0]["text"] == "Hello there."
    assert shown[17][2]["arguments"] == '{"city":'
    assert shown[22][3]["input"] == "*** Begin"
    assert (reader.ended, reader.error) == (True, None)


def test_a_whole_body() -> None:
    answer, error = outcome(json.dumps(right.whole()).encode())
    assert error is None
    assert (answer.text, answer.finish_reason, answer.is_whole) == ("Hello there.", "completed", True)
    assert answer.to_dict() == right.whole()
    failed = right.whole("failed", error={"code": "server_error", "message": "No."}, output=[])
    for body in (failed, {"error": {"type": "t", "code": "server_error", "message": "No."}}):
        _, error = outcome(json.dumps(body).encode())
        assert isinstance(error, StreamError)
        assert (error.code, error.message) == ("server_error", "No.")
    for unreadable in (b'{"id":"resp_1","output":"text"}', b"{}", b'{"id"'):
        _, error = outcome(unreadable)
        assert isinstance(error, StreamInvalid), unreadable
    _, error = outcome(json.dumps(right.whole("in_progress")).encode())
    assert error is not None, "it is not at its end"


def test_an_error_is_raised_at_once_after_what_came_before_it() -> None:
    frames = frames_of(right.failed())
    for sent in (frames, frames[:-1]):  # nobody waits for `response.failed`
        answer, error = outcome(*sent)
        assert isinstance(error, StreamError)
        assert (error.type, error.code, error.message) == ("server_error", "server_error", "It broke off.")
        assert (error.completion.text, answer.is_whole, answer.finish_reason) == ("Hello", False, None)
        assert not error.may_retry
    answer, error = outcome(*frames[:-2], frames[-1])
    assert isinstance(error, StreamError), "`response.failed` alone"
    assert (error.code, error.message, answer.is_whole) == ("server_error", "It broke off.", False)
    flat = b'event: error\ndata: {"type":"error","code":"rate_limit_exceeded","message":"Slow.","param":null}\n\n'
    _, error = outcome(*frames[:2], flat)
    assert isinstance(error, StreamError)
    assert (error.type, error.code, error.message) == (None, "rate_limit_exceeded", "Slow.")
    for unsaid in (b"event: error\ndata: busy\n\n", b'event: error\ndata: {"type":"error"}\n\n'):
        _, error = outcome(unsaid)
        assert isinstance(error, StreamError)


@pytest.mark.parametrize("rest", [[], [KEEPALIVE], [b"data: [DONE]\n\n"]], ids=["nothing", "keepalive", "done"])
def test_without_its_end_it_is_cut(rest: list[bytes]) -> None:
    frames = frames_of(right.text())[:-1]
    answer, error = outcome(*frames, *rest)
    assert isinstance(error, StreamTruncated)
    assert (error.is_finished, error.may_retry, answer.is_whole) == (False, False, False)
    assert answer.output[0]["content"][0]["text"] == "Hello there."
    _, error = outcome(*frames[:2], *rest)
    assert isinstance(error, StreamTruncated)
    assert error.may_retry, "nothing of the answer had come"


def test_a_frame_that_is_no_json_is_invalid() -> None:
    frames = frames_of(right.text())
    answer, error = outcome(*frames[:5], b'event: response.output_text.delta\ndata: {"type":\n\n', *frames[5:])
    assert isinstance(error, StreamInvalid)
    assert answer.text == "Hello"


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, {"type": []}], ids=repr)
def test_no_value_of_a_member_raises(value: object) -> None:
    for at, document in enumerate(right.numbered(right.agent())):
        for name in document:
            documents = right.numbered(right.agent())
            documents[at][name] = value
            answer, _ = outcome(right.written(documents))
            assert isinstance(answer.output, list)


async def test_asynchronously() -> None:
    async def chunks() -> Any:
        for piece in frames_of(right.agent()):
            yield piece

    assert (await aparse(chunks(), api="responses").final()).text == "Hello there."


def test_this_api_has_no_dialects() -> None:
    with pytest.raises(ValueError, match="the Responses API has no dialects"):
        parse([], "openai", api="responses")


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
        path.read_bytes(), source=path.parent.parent.name, target="responses", model="m", id="resp_1"
    )
    answer, error = outcome(written)
    assert (error is None) is completed
    answer_in_pieces, error_in_pieces = outcome(*in_pieces(written, 1))
    assert (facts(answer), type(error)) == (facts(answer_in_pieces), type(error_in_pieces))
    response = documents_of(written)[-1]["response"]
    if completed:
        assert joined(json.dumps(answer.to_dict(), sort_keys=True)) == joined(json.dumps(response, sort_keys=True))
    else:
        assert isinstance(error, StreamError)
        assert error.code == response["error"]["code"]
    for place in places_of(written.rstrip(b"\n")):  # what is missing after that is a blank line
        _, error = outcome(written[:place])
        assert isinstance(error, StreamTruncated | StreamError), "a part is never taken for the whole"


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_a_recording_gives_the_same_at_once_and_in_pieces(recording: Recording) -> None:
    body = recording.body()
    answer, error = outcome(body)
    answer_in_pieces, error_in_pieces = outcome(*in_pieces(body, 2))
    assert (facts(answer), type(error)) == (facts(answer_in_pieces), type(error_in_pieces))
    if recording.is_edited or error is not None or recording.file.endswith(CONTRADICTORY):
        return
    texts = [
        part["text"]
        for item in answer.output
        if item["type"] == "message"
        for part in item["content"]
        if part["type"] == "output_text"
    ]
    assert joined("".join(texts)) == joined(answer.text)
