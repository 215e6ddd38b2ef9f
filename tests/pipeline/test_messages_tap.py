"""Anthropic's Messages on their way to callers of the same API: passed to the byte, and never complete when cut."""

import json
from typing import Any

import pytest

from streamweir.core.events import FinishReason
from streamweir.frontends.base import Reply
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from support.answers import anthropic_whole
from support.messages import documents_of, read_stream

MODES = [Mode.PASS, Mode.TRANSLATE]
ERROR = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Busy"}}\n\n'


def frame(document: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), json.dumps(document).encode())


def start(id: str = "msg_1") -> bytes:
    usage = {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}
    message = {"id": id, "type": "message", "role": "assistant", "model": "claude", "content": []}
    return frame({"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}})


def block(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
    return [
        frame({"type": "content_block_start", "index": index, "content_block": block}),
        *(frame({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas),
        frame({"type": "content_block_stop", "index": index}),
    ]


FRAMES = [
    start(),
    b'event: ping\ndata: {"type": "ping"}\n\n',
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
    ),
    *block(
        1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Grüße "}, {"type": "text_delta", "text": "!"}
    ),
    *block(
        2,
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"q":1}'},
    ),
    *block(
        3,
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"a":'},
        {"type": "input_json_delta", "partial_json": "1}"},
    ),
    b'event: brand_new\ndata: {"type": "brand_new"}\n\n',
    frame({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
    b": a comment\n\n",
    frame({"type": "message_stop"}),
]
BODY = b"".join(FRAMES)


def exchange(mode: Mode = Mode.PASS) -> tuple[Exchange, Meter]:
    meter = Meter()
    reply = Reply(id="msg_ours", now=lambda: 0, model="asked", request_id="req_1", include_usage=True)
    return Exchange(provider_named("anthropic"), MESSAGES, reply, mode, meter), meter


def run(*pieces: bytes, mode: Mode = Mode.PASS) -> tuple[bytes, Meter]:
    """What goes out for these reads. What fails before anything is sent, as the error's frame."""
    made, meter = exchange(mode)
    out = b"".join([made.feed(piece) for piece in pieces]) + made.finish()
    if made.failure is not None:
        assert not out
        out = b"event: error\ndata: %b\n\n" % MESSAGES.write_error(made.failure, "req_1").body
    return out, meter


@pytest.mark.parametrize("size", [1, 2, 7, 100, len(BODY)])
def test_frames_pass_however_they_are_cut(size: int) -> None:
    pieces = [BODY[at : at + size] for at in range(0, len(BODY), size)]
    out, meter = run(*pieces)
    assert out == BODY
    record = meter.record
    assert (record.completion_id, record.model, record.finishes) == ("msg_1", "claude", {0: FinishReason.TOOL_CALLS})
    assert (record.delivered.getvalue(), record.reasoning_text.getvalue()) == ('Grüße !f{"a":1}', "hm")
    assert record.usage is not None
    assert (record.usage.input_uncached, record.usage.cache_read, record.usage.output) == (7, 3, 9)


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_that_is_cut_anywhere_ends_with_an_error(mode: Mode) -> None:
    last = len(BODY) - len(FRAMES[-1])
    for at in range(0, last + len(b"event: message_stop\ndata: "), 3):
        out, meter = run(BODY[:at], mode=mode)
        documents = documents_of(out)
        assert documents[-1]["type"] == "error"
        assert not {"message_delta", "message_stop"} & {document["type"] for document in documents}
        assert not meter.record.completed


@pytest.mark.parametrize("count", range(len(FRAMES)))
def test_an_error_between_any_two_frames_is_the_end(count: int) -> None:
    out, meter = run(b"".join(FRAMES[:count]) + ERROR + b"".join(FRAMES[count:]))
    *before, last = documents_of(out)
    assert last["error"] == {"type": "overloaded_error", "message": "Busy"}
    assert not {"message_delta", "message_stop"} & {document["type"] for document in before}
    if before:  # else it is a failure of the attempt
        assert meter.record.error is not None
        assert meter.record.error.code == "upstream_overloaded"


@pytest.mark.parametrize(
    "bad", [b"event: x\ndata: {broken\n\n", b"data: {}\ndata: {}\n\n", start("msg_other"), b'error: {"code": 500}\n\n']
)
def test_what_cannot_be_passed_ends_the_answer_and_is_never_translated(bad: bytes) -> None:
    at = 9  # some text has gone out
    out, meter = run(b"".join(FRAMES[:at]) + bad + b"".join(FRAMES[at:]))
    assert out.startswith(b"".join(FRAMES[:at]))
    (last,) = documents_of(out[len(b"".join(FRAMES[:at])) :])
    assert last["type"] == "error"
    assert not meter.record.completed


def test_the_usage_of_an_answer_that_is_cut_behind_its_stop_reason_counts() -> None:
    at = next(number for number, each in enumerate(FRAMES) if b"message_delta" in each)
    out, meter = run(b"".join(FRAMES[: at + 1]))
    assert b"stop_reason" not in out[len(FRAMES[0]) :]
    assert meter.record.usage is not None
    assert meter.record.usage.output == 9


def test_reasoning_alone_opens_an_answer() -> None:
    made, _ = exchange()
    assert made.feed(b"".join(FRAMES[:3])) == b""
    assert made.feed(FRAMES[3]) == b"".join(FRAMES[:4])


def test_an_effort_that_is_not_of_this_wire_is_left_out() -> None:
    out, _ = run(b"".join([*FRAMES[:-1], b"data: [DONE]\n\n", FRAMES[-1], b"data: [DONE]\n\n"]))
    assert out == BODY


def test_an_answer_that_did_not_come_as_a_stream_is_written_as_one() -> None:
    out, _ = run(anthropic_whole("Hello"))
    assert read_stream(out)["content"] == [{"type": "text", "text": "Hello"}]


def test_an_answer_without_a_last_report_is_counted() -> None:
    frames = [start(), *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "many words " * 20})]
    out, meter = run(b"".join([*frames, FRAMES[-1]]))
    assert out == b"".join([*frames, FRAMES[-1]])
    settlement = meter.settle()
    assert settlement.usage.output > 1
    assert "usage_anomaly" in settlement.flags


@pytest.mark.parametrize("body", [b'{"type":"error","error":{"type":"api_error","message":"no"}}', b"[]", b"{}", b"x"])
def test_a_whole_body_that_is_no_message_is_a_failure(body: bytes) -> None:
    reply = Reply(id="msg_ours", now=lambda: 0, model="asked")
    made = WholeExchange(provider_named("anthropic"), MESSAGES, reply, Mode.PASS, Meter())
    assert made.feed(body) + made.finish() == b""
    assert made.failure is not None


# A provider that breaks the rules of its own wire.

AGAIN = block(4, {"type": "text", "text": ""}, {"type": "text_delta", "text": "again"})


def test_what_follows_a_stop_reason_is_not_shown_if_the_end_is_missing() -> None:
    made, meter = exchange()
    body = b"".join(made.feed(each) for each in [*FRAMES[:-1], *AGAIN])
    end = made.finish()
    assert [document["type"] for document in documents_of(end)] == ["error"]
    assert "stop_reason" not in str(documents_of(body)[1:])
    assert meter.record.delivered.getvalue().count("again") == 1


def test_what_follows_a_stop_reason_is_bounded() -> None:
    made, _ = exchange()
    for each in FRAMES[:-1]:
        made.feed(each)
    piece = block(4, {"type": "text", "text": ""}, {"type": "text_delta", "text": "x" * 10_000})[1]
    fed, out = 0, b""
    while not out:
        out = made.feed(piece)
        fed += 1
        assert fed < 200
    assert [document["type"] for document in documents_of(out)] == ["error"]
    assert made.ended


@pytest.mark.parametrize(
    "bad",
    [
        b': \xff\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":1,"delta":'
        b'{"type":"text_delta","text":"a"}}\n\n',
        b": \xff\n\n",
        b'event: \xff\ndata: {"type":"ping"}\n\n',
        b'event: message_stop\ndata: {"type":"ping"}\n\n',
        b"event: message_stop\ndata: {}\n\n",
        b'event: error\ndata: {"type":"ping"}\n\n',
        b'event: error\ndata: {"type":"message_stop"}\n\n',
        b'event: message_stop\ndata: {"type":"content_block_delta","index":1,"delta":'
        b'{"type":"text_delta","text":"a"}}\n\n',
    ],
    ids=[
        "comment",
        "comment alone",
        "name",
        "ping as the end",
        "nothing as the end",
        "ping as an error",
        "the end as an error",
        "text as the end",
    ],
)
def test_a_frame_that_a_client_could_not_read_or_takes_for_the_end_is_not_passed(bad: bytes) -> None:
    made, _ = exchange()
    for each in FRAMES[:9]:
        made.feed(each)
    assert [document["type"] for document in documents_of(made.feed(bad))] == ["error"]


def test_an_end_is_the_end_and_a_stop_reason_waits_whatever_else_is_in_the_frame() -> None:
    made, meter = exchange()
    for each in FRAMES[:9]:
        made.feed(each)
    text = {"type": "text_delta", "text": "a"}
    assert made.feed(frame({"type": "message_delta", "delta": {**text, "stop_reason": "end_turn"}})) == b""
    assert made.feed(frame({"type": "message_stop", "delta": text})).count(b"event: ") == 2
    assert made.ended
    assert meter.record.completed


def test_another_message_behind_the_stop_reason_is_not_shown_and_the_error_is() -> None:
    made, _ = exchange()
    finish = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    said = {"id": "msg_1", "content": [{"type": "text", "text": "a"}]}
    for each in (finish, frame({"type": "message_start", "message": said}), start("msg_2")):
        assert made.feed(each) == b""
    assert [document["type"] for document in documents_of(made.feed(ERROR))] == ["error"]
    assert made.ended
