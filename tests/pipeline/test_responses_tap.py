"""OpenAI's Responses on their way to callers of the same API: passed to the byte, and never complete when cut."""

import json
import re
from typing import Any

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.events import FinishReason
from streamweir.frontends.base import Reply
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named
from support.responses import documents_of, read_stream
from support.responses_body import ResponsesAnswer, frame_of

MODES = [Mode.PASS, Mode.TRANSLATE]
ENDS = {"response.completed", "response.incomplete"}
ERROR = {"type": "error", "error": {"type": "server_error", "code": "server_is_overloaded", "message": "Busy"}}
ANSWER = (
    ResponsesAnswer(usage=(40, 60, 16, 32), tools=[{"type": "function", "name": "f"}])
    .reasoning(["Hm", "."], encrypted="ZW5j")
    .text("Grüße ", "!")
    .search()
    .calls(("f", ['{"a":', "1}"], "c1"), ("f", ["{}"], "c2"))
)


def unknown(number: int) -> bytes:
    return frame_of({"type": "response.teleport.delta", "delta": "x", "output_index": 2, "sequence_number": number})


FRAMES = ANSWER.frames()
BODY = b"".join(FRAMES)
TEXT_AT = next(i for i, each in enumerate(FRAMES) if b"output_text.delta" in each) + 1
"""Some text has gone out."""


def exchange(mode: Mode = Mode.PASS) -> tuple[Exchange, Meter]:
    meter = Meter()
    reply = Reply(id="resp_ours", now=lambda: 0, model="asked", request_id="req_1", include_usage=True)
    return Exchange(provider_named("openai-responses"), RESPONSES, reply, mode, meter), meter


def run(*pieces: bytes, mode: Mode = Mode.PASS) -> tuple[bytes, Meter]:
    """What goes out for these reads. What fails before anything is sent, as the error's frame."""
    made, meter = exchange(mode)
    out = b"".join([made.feed(piece) for piece in pieces]) + made.finish()
    if made.failure is not None:
        assert not out
        error = json.loads(RESPONSES.write_error(made.failure).body)["error"]
        out = frame_of({"type": "error", "error": error, "sequence_number": 0})
    return out, meter


@pytest.mark.parametrize("size", [1, 2, 7, 100, len(BODY)])
def test_frames_pass_however_they_are_cut(size: int) -> None:
    out, meter = run(*[BODY[at : at + size] for at in range(0, len(BODY), size)])
    assert out == BODY
    record = meter.record
    assert (record.completion_id, record.model) == (ANSWER.id, ANSWER.model)
    assert record.finishes == {0: FinishReason.TOOL_CALLS}
    assert (record.delivered.getvalue(), record.reasoning_text.getvalue()) == ('Grüße !ff{"a":{}1}', "Hm.")
    assert record.usage is not None
    assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (40, 60)


def test_frames_without_event_lines_and_of_unknown_types_pass_too() -> None:
    plain = [frame_of(each, event_line=False) for each in ANSWER.documents()]
    body = b"".join([b": hello\n\n", *plain[:-1], unknown(99), b'data: {"type": 7, "new": [1]}\n\n', plain[-1]])
    assert run(body)[0] == body


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_that_is_cut_anywhere_ends_with_an_error(mode: Mode) -> None:
    last = len(BODY) - len(FRAMES[-1])
    for at in range(0, last + 60, 61):
        out, meter = run(BODY[:at], mode=mode)
        *before, end = documents_of(out)
        assert end["type"] in ("error", "response.failed")
        assert end["type"] == "error" or before[-1]["type"] == "error"
        assert not ENDS & {document["type"] for document in before}
        assert not meter.record.completed


@pytest.mark.parametrize("count", range(2, len(FRAMES)))
def test_an_error_between_any_two_frames_is_the_end(count: int) -> None:
    broken = [*FRAMES[:count], frame_of({**ERROR, "sequence_number": count})]
    out, meter = run(b"".join(broken) + b"".join(FRAMES[count:]))
    documents = documents_of(out)
    (told,) = [document["error"] for document in documents if document["type"] == "error"]
    assert (told["type"], told["code"], told["message"]) == ("server_error", "server_is_overloaded", "Busy")
    assert not ENDS & {document["type"] for document in documents}
    if len(documents) > 1:  # else it is a failure of the attempt
        assert out.startswith(b"".join(FRAMES[:count]))
        assert documents[-1]["response"]["id"] == ANSWER.id
        assert meter.record.error is not None
        assert meter.record.error.code == "upstream_overloaded"


def test_a_piece_that_is_nested_very_deep_can_be_the_last_before_a_cut() -> None:
    piece = json.loads(FRAMES[TEXT_AT - 1].partition(b"data: ")[2])
    piece["sequence_number"] += 1
    deep = frame_of(piece).replace(b"}\n", b', "x": ' + b"[" * 600 + b"]" * 600 + b"}\n")
    out, meter = run(b"".join(FRAMES[:TEXT_AT]) + deep)
    assert [document["type"] for document in documents_of(out)[-2:]] == ["error", "response.failed"]
    assert meter.record.error is not None


def test_the_usage_behind_an_error_counts() -> None:
    failed = {"type": "response.failed", "response": {"usage": {"input_tokens": 9, "output_tokens": 3}}}
    body = b"".join(FRAMES[:TEXT_AT]) + frame_of(ERROR) + frame_of(failed)
    for pieces in ([body], [body[i : i + 1] for i in range(len(body))]):
        _, meter = run(*pieces)
        assert meter.record.usage is not None
        assert meter.record.usage.output == 3


def test_an_error_that_nothing_follows_waits_only_for_a_short_silence() -> None:
    made, _ = exchange()
    made.feed(b"".join(FRAMES[:TEXT_AT]))
    assert not made.may_end_when_idle
    assert made.feed(frame_of(ERROR)) == b""
    assert made.may_end_when_idle
    assert b"Busy" in made.finish()
    other, _ = exchange()
    other.feed(b"".join(FRAMES[:TEXT_AT]) + frame_of(ERROR))
    assert b"Busy" in other.fail(UpstreamError("upstream_stream_reset", "x"))


@pytest.mark.parametrize(
    "bad",
    [
        b"event: x\ndata: {broken\n\n",
        b"data: {}\ndata: {}\n\n",
        FRAMES[0],
        b'error: {"code": 500}\n\n',
        b": \xff\n\n",
        b'event: \xff\ndata: {"type":"keepalive"}\n\n',
        b'event: response.completed\ndata: {"type":"keepalive"}\n\n',
        b"event: response.completed\ndata: {}\n\n",
        b'event: error\ndata: {"type":"keepalive"}\n\n',
        b'event: response.failed\ndata: {"type":"response.completed","response":{"status":"completed"}}\n\n',
        b'event: response.completed\ndata: {"type":"response.output_text.delta","output_index":1,"delta":"a"}\n\n',
    ],
)
def test_what_cannot_be_passed_ends_the_answer_and_is_never_translated(bad: bytes) -> None:
    out, meter = run(b"".join(FRAMES[:TEXT_AT]) + bad + b"".join(FRAMES[TEXT_AT:]))
    assert out.startswith(b"".join(FRAMES[:TEXT_AT]))
    assert [document["type"] for document in documents_of(out)[TEXT_AT:]] == ["error", "response.failed"]
    assert not meter.record.completed


def test_reasoning_alone_opens_an_answer() -> None:
    at = next(i for i, each in enumerate(FRAMES) if b"summary_text.delta" in each)
    made, _ = exchange()
    assert made.feed(b"".join(FRAMES[:at])) == b""
    assert made.feed(FRAMES[at]) == b"".join(FRAMES[: at + 1])


def test_an_effort_that_is_not_of_this_wire_is_left_out() -> None:
    out, _ = run(b"".join([*FRAMES[:-1], b"data: [DONE]\n\n", FRAMES[-1], b"data: [DONE]\n\n"]))
    assert out == BODY


def test_a_last_frame_without_its_blank_line_is_whole() -> None:
    out, meter = run(BODY[:-2])
    assert out == BODY
    assert meter.record.completed


@pytest.mark.parametrize("mode", MODES)
def test_a_last_frame_that_repeats_a_very_long_answer_is_read(mode: Mode) -> None:
    words = ["many words "] * 130_000
    answer = ResponsesAnswer().text(*["".join(words[at : at + 5_000]) for at in range(0, len(words), 5_000)])
    frames = answer.frames()
    assert len(frames[-1]) > 1024 * 1024
    # The frames that repeat a whole text are as long as the last one.
    out, meter = run(*frames, mode=mode)
    assert meter.record.completed
    assert mode is Mode.TRANSLATE or out == b"".join(frames)
    assert run(*frames[:-1], b"data: " + b"x" * 5_000_000, mode=mode)[1].record.error is not None


@pytest.mark.parametrize("mode", MODES)
def test_a_large_frame_of_very_many_parts_is_not_read(mode: Mode) -> None:
    last = {"type": "response.completed", "response": {"status": "completed", "output": [[]] * 700_000}}
    _, meter = run(*FRAMES[:TEXT_AT], frame_of(last), mode=mode)
    assert meter.record.error is not None
    assert meter.record.error.code == "upstream_frame_too_large"


def test_what_follows_the_end_is_not_passed() -> None:
    made, _ = exchange()
    assert made.feed(BODY + FRAMES[3] + BODY) == BODY
    assert made.has_junk


def test_an_answer_that_did_not_come_as_a_stream_is_written_as_one() -> None:
    response = read_stream(run(ResponsesAnswer().text("Hello").whole())[0])
    assert response["output"][0]["content"][0]["text"] == "Hello"


def test_the_end_can_be_replaced_while_it_is_not_sent() -> None:
    made, _ = exchange()
    made.feed(b"".join(FRAMES[:-1]))
    made.feed(FRAMES[-1])
    error = UpstreamError("response_too_large", "Too large.")
    documents = documents_of(b"".join(FRAMES[:-1]) + made.replace_end(error, None))
    assert [document["type"] for document in documents[-2:]] == ["error", "response.failed"]


def test_keep_alives_of_a_passed_stream_have_no_number() -> None:
    made, _ = exchange()
    assert made.take_keep_alive().startswith(b":")
    made.feed(b"".join(FRAMES[:TEXT_AT]))
    assert made.take_keep_alive().startswith(b":")


WHOLE = [
    (b'{"error":{"type":"server_error","message":"no"}}', False),
    (b"[]", False),
    (b"{}", False),
    (b"x", False),
    (b'{"status":"failed","output":[],"error":{"code":"server_error","message":"no"}}', False),
    (b'{"status":"in_progress","output":[]}', False),
    (b'{  "new": 1, "status":"completed","output":[{"type":"teleport"}]}', True),
    (b'{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}', True),
    (ANSWER.whole(), True),
]


@pytest.mark.parametrize(("body", "passes"), WHOLE)
def test_a_whole_body_passes_or_is_a_failure(body: bytes, passes: bool) -> None:
    reply = Reply(id="resp_ours", now=lambda: 0, model="asked")
    meter = Meter()
    made = WholeExchange(provider_named("openai-responses"), RESPONSES, reply, Mode.PASS, meter)
    assert made.feed(body) + made.finish() == (body if passes else b"")
    assert (made.failure is None) is passes
    assert meter.record.completed is passes


def test_the_facts_are_those_of_a_translated_answer() -> None:
    members: list[Any] = []
    for mode in MODES:
        _, meter = run(BODY, mode=mode)
        record = meter.record
        members.append((record.delivered.getvalue(), record.reasoning_text.getvalue(), record.usage, record.finishes))
    assert members[0] == members[1]


def test_what_fails_after_a_commit_by_time_begins_with_created() -> None:
    made, _ = exchange()
    assert made.release() == b""
    out = made.feed(frame_of({"type": "error", "error": {"type": "server_error", "message": "no"}})) + made.finish()
    assert read_stream(out)["status"] == "failed"


def test_a_provider_that_numbers_nothing_is_not_begun_again() -> None:
    answer = ResponsesAnswer().text("a", "b")
    frames = [re.sub(rb',"sequence_number":\d+', b"", each) for each in answer.frames()]
    assert not any(b"sequence_number" in each for each in frames)
    made, _ = exchange()
    passed = b"".join([made.feed(each) for each in frames[:6]])
    assert passed == b"".join(frames[:6])
    last = made.fail(UpstreamError("upstream_stream_reset", "It broke off."))
    assert [json.loads(each.partition(b"data: ")[2])["type"] for each in last.split(b"\n\n")[:-1]] == [
        "error",
        "response.failed",
    ]
    assert f'"id":"{answer.id}"'.encode() in last


def test_an_answer_that_begins_with_its_failure_ends_with_it() -> None:
    made, meter = exchange()
    made.release()
    out = made.feed(frame_of({"type": "response.failed", "sequence_number": 0}))
    assert made.ended
    assert read_stream(out)["status"] == "failed"
    assert not meter.record.completed


def test_a_failure_has_the_next_number_where_created_was_left_out() -> None:
    frames = ResponsesAnswer().text("a", "b").frames()[4:6]
    made, _ = exchange()
    assert b"".join([made.feed(each) for each in frames]) == b"".join(frames)
    last = made.fail(UpstreamError("upstream_stream_reset", "It broke off."))
    numbers = [json.loads(each.partition(b"data: ")[2])["sequence_number"] for each in last.split(b"\n\n")[:-1]]
    assert numbers == [6, 7]


def test_a_name_without_data_is_not_passed_on() -> None:
    named = b"event: response.completed\n\n"
    out, meter = run(*FRAMES[:TEXT_AT], named, b": comment\n\n", *FRAMES[TEXT_AT:])
    assert out == b"".join([*FRAMES[:TEXT_AT], b": comment\n\n", *FRAMES[TEXT_AT:]])
    assert meter.record.completed
