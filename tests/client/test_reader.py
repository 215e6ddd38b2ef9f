"""What ends an answer, what breaks it, and the reported error: dialect by dialect, without a socket."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.client import (
    ChoiceFinished,
    ClientError,
    Completion,
    Limits,
    Reader,
    StreamBroken,
    StreamCompleted,
    StreamError,
    StreamInvalid,
    StreamTimeout,
    StreamTooLarge,
    StreamTruncated,
    TextDelta,
)
from streamweir.frontends.chat.table import DIALECTS
from support.client_result import outcome

DONE = b"data: [DONE]\n\n"
WITH_END = [name for name, dialect in DIALECTS.items() if dialect.terminator]
KEY = "sk-secret"
ERROR = {"message": "It broke.", "type": "stream_error", "code": "upstream_timeout", "param": None}


def frame(delta: dict[str, Any] | None = None, finish: str | None = None, **members: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return data({"id": "chatcmpl-1", "created": 7, "model": "m", "choices": choices, **members})


def data(document: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps(document).encode()


HELLO = frame({"role": "assistant", "content": ""}) + frame({"content": "Hel"}) + frame({"content": "lo"})
FINISH = frame({}, "stop")
USAGE = frame(usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})


def broken(*chunks: bytes, dialect: str = "openai") -> StreamBroken:
    completion, error = outcome(*chunks, dialect=dialect)
    assert isinstance(error, StreamBroken)
    assert not completion.is_whole
    assert error.completion == completion, "what arrived hangs on the error"
    return error


def whole(*chunks: bytes, dialect: str = "openai") -> Completion:
    completion, error = outcome(*chunks, dialect=dialect)
    assert error is None
    assert completion.is_whole
    return completion


@pytest.mark.parametrize("dialect", WITH_END)
def test_a_terminator_ends_an_answer_that_has_finished(dialect: str) -> None:
    answer = whole(HELLO, FINISH, USAGE, DONE, dialect=dialect)
    assert (answer.text, answer.finish_reason) == ("Hello", "stop")
    assert answer.usage is not None
    assert answer.usage.total_tokens == 5


@pytest.mark.parametrize("dialect", WITH_END)
def test_without_its_terminator_it_is_truncated_though_it_has_finished(dialect: str) -> None:
    error = broken(HELLO, FINISH, USAGE, dialect=dialect)
    assert isinstance(error, StreamTruncated)
    assert error.is_finished
    assert (error.completion.text, error.completion.finish_reason) == ("Hello", "stop")
    assert error.completion.usage is not None


@pytest.mark.parametrize("dialect", WITH_END)
@pytest.mark.parametrize("end", [b"", DONE], ids=["clean end", "terminator"])
def test_without_a_finish_it_is_truncated(dialect: str, end: bytes) -> None:
    error = broken(HELLO, end, dialect=dialect)
    assert isinstance(error, StreamTruncated)
    assert (error.is_finished, error.may_retry, error.completion.text) == (False, False, "Hello")


def test_one_choice_that_never_finishes_is_enough() -> None:
    other = data({"id": "chatcmpl-1", "choices": [{"index": 1, "delta": {"content": "Hi"}}]})
    assert isinstance(broken(HELLO, other, FINISH, DONE), StreamTruncated)


OTHER = data({"id": "chatcmpl-1", "choices": [{"index": 1, "delta": {"content": "Hi"}, "finish_reason": "stop"}]})


def read(*chunks: bytes, dialect: str, n: int | None) -> Reader:
    reader = Reader(dialect, n=n)
    for chunk in chunks:
        reader.feed(chunk)
    reader.finish()
    return reader


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("end", [b"", DONE], ids=["clean end", "terminator"])
def test_a_choice_that_was_asked_for_and_never_came_is_missing(dialect: str, end: bytes) -> None:
    reader = read(HELLO, FINISH, end, dialect=dialect, n=2)
    assert isinstance(reader.error, StreamTruncated)
    assert not reader.completion.is_whole
    assert reader.completion.text == "Hello"


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_with_all_choices_that_were_asked_for_it_is_whole(dialect: str) -> None:
    reader = read(HELLO, FINISH, OTHER, DONE, dialect=dialect, n=2)
    assert reader.error is None
    assert [choice.text for choice in reader.completion.choices] == ["Hello", "Hi"]


def test_more_choices_than_were_asked_for_are_no_answer() -> None:
    third = OTHER.replace(b'"index": 1', b'"index": 2')
    assert isinstance(read(HELLO, FINISH, OTHER, third, DONE, dialect="openai", n=2).error, StreamInvalid)


@pytest.mark.parametrize(("n", "is_whole"), [(None, True), (2, False)])
def test_a_whole_answer_has_the_choices_that_were_asked_for(n: int | None, is_whole: bool) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
    reader = Reader("openai", n=n)
    reader.read_whole(json.dumps({"id": "chatcmpl-1", "choices": [choice]}).encode())
    assert (reader.error is None) is is_whole


@pytest.mark.parametrize("body", [b"", b"\n\n", b": comment\n\n", b"event: ping\n\n", b"data:\n\n", b"<html></html>"])
@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_nothing_is_no_answer(body: bytes, dialect: str) -> None:
    error = broken(body, dialect=dialect)
    assert isinstance(error, StreamTruncated)
    assert error.may_retry
    assert error.completion.is_empty


def test_bitseek_ends_with_its_finish() -> None:
    reader = Reader("bitseek")
    reader.feed(HELLO)
    assert not reader.ended
    events = reader.feed(frame({"content": ""}, "stop", usage={"prompt_tokens": 3, "completion_tokens": 2}))
    assert reader.ended, "whatever the connection does"
    assert [type(event) for event in events[-2:]] == [ChoiceFinished, StreamCompleted]
    assert reader.cut("reset") == ()
    assert reader.error is None
    assert reader.answer.usage is not None


@pytest.mark.parametrize("end", [b"", DONE], ids=["clean close", "a terminator all the same"])
def test_bitseek_ends_with_a_clean_close_and_no_finish_reason(end: bytes) -> None:
    answer = whole(HELLO, end, dialect="bitseek")
    assert (answer.text, answer.finish_reason) == ("Hello", None)


def test_bitseek_in_the_middle_of_a_frame_is_truncated() -> None:
    assert isinstance(broken(HELLO, FINISH[:-20], dialect="bitseek"), StreamTruncated)


def test_bitseek_with_an_end_before_any_content_is_empty() -> None:
    assert isinstance(broken(DONE, dialect="bitseek"), StreamTruncated)


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("end", [b"", DONE], ids=["end", "terminator"])
def test_an_error_frame_has_the_servers_own_text(dialect: str, end: bytes) -> None:
    error = broken(HELLO, data({"error": ERROR}), end, dialect=dialect)
    assert isinstance(error, StreamError)
    assert (error.type, error.code, error.message) == ("stream_error", "upstream_timeout", "It broke.")
    assert error.completion.text == "Hello"
    assert error.completion.finish_reason is None
    assert not error.may_retry


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"id": "stream:chat:1", "choices": [], "error": ERROR}, ("stream_error", "upstream_timeout", "It broke.")),
        ({"error": {"message": "timeout", "type": "stream_error"}}, ("stream_error", None, "timeout")),
        ({"error": "It broke."}, (None, None, "It broke.")),
        ({"error": {"code": 502, "message": "Bad"}, "choices": [{"delta": {"content": ""}}]}, (None, "502", "Bad")),
        ({"choices": [{"index": 0, "delta": {}, "error": {"code": 1, "message": "Bad"}}]}, (None, "1", "Bad")),
        ({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}, ("finish_reason", "error", None)),
        ({"object": "error", "message": "Long", "type": "BadRequest", "code": 400}, ("BadRequest", "400", "Long")),
        ({"x_groq": {"error": "over capacity"}, "choices": []}, (None, None, "over capacity")),
        ({"error": 5}, (None, None, "the server gave no reason")),
        ({"error": {"message": None, "type": True, "code": ""}}, (None, None, "the server gave no reason")),
    ],
)  # fmt: skip
def test_errors_in_other_shapes(document: Any, words: tuple[str | None, ...]) -> None:
    error = broken(HELLO, data(document), DONE)
    assert isinstance(error, StreamError)
    assert (error.type, error.code) == words[:2]
    assert words[2] is None or error.message == words[2]


def test_an_error_event_and_an_error_outside_of_data() -> None:
    named = broken(HELLO, b'event: error\ndata: {"message": "Bad", "type": "t"}\n\n')
    assert isinstance(named, StreamError)
    assert (named.type, named.message) == ("t", "Bad")
    bare = broken(HELLO, b'error: {"code": 500, "message": "Bad", "type": "server_error"}\n\n')
    assert isinstance(bare, StreamError)
    assert (bare.type, bare.code, bare.message) == ("server_error", "500", "Bad")
    blank = broken(HELLO, b"event: error\ndata: none\n\n")
    assert isinstance(blank, StreamError)
    assert str(blank) == blank.message == "the server gave no reason"


def test_the_attributes_of_an_error_are_in_its_text() -> None:
    error = broken(HELLO, data({"error": ERROR}))
    assert str(error) == "stream_error upstream_timeout: It broke."


def test_a_frame_that_cannot_be_read() -> None:
    error = broken(HELLO, b"data: {nonsense\n\n", FINISH, DONE)
    assert isinstance(error, StreamInvalid)
    assert error.completion.text == "Hello"


def test_what_came_before_an_error_in_the_same_read_is_given_out_first() -> None:
    reader = Reader()
    events = reader.feed(HELLO + data({"error": ERROR}) + HELLO)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hel", "lo"]
    assert isinstance(reader.error, StreamError)
    assert reader.feed(HELLO) == ()
    assert reader.finish() == ()


def test_nothing_is_read_behind_the_end() -> None:
    reader = Reader()
    reader.feed(HELLO + FINISH + DONE + HELLO)
    assert reader.ended
    assert reader.feed(data({"error": ERROR})) == ()
    assert reader.completion.text == "Hello"
    assert reader.read_whole(b"{}") == ()


def test_a_connection_that_breaks_is_no_end() -> None:
    reader = Reader(secret=KEY)
    reader.feed(HELLO + FINISH)
    reader.cut("reset by sk-secret")
    assert isinstance(reader.error, StreamTruncated)
    assert reader.error.is_finished
    assert "reset by ***" in str(reader.error)


@pytest.mark.parametrize(("begun", "phase"), [(b"", "first_event"), (HELLO, "between_events")])
def test_a_timeout_names_what_was_expected(begun: bytes, phase: str) -> None:
    reader = Reader()
    reader.feed(begun)
    error = reader.time_out(2.5)
    assert (reader.error, reader.ended) == (error, True)
    assert isinstance(error, StreamTimeout)
    assert (error.phase, str(error)) == (phase, "no event came for 2.5 seconds")
    assert not error.may_retry


def test_an_event_has_a_largest_size() -> None:
    reader = Reader(limits=Limits(event_bytes=1000))
    events = reader.feed(HELLO + frame({"content": "x" * 2000}))
    assert isinstance(reader.error, StreamTooLarge)
    assert any(isinstance(event, TextDelta) for event in events), "what came before it counts"


@pytest.mark.parametrize(
    "body", [frame({"content": "x" * 100}), b'{"choices": [' + b" " * 200], ids=["stream", "whole"]
)
def test_an_answer_has_a_largest_size(body: bytes) -> None:
    reader = Reader(limits=Limits(answer_bytes=1000))
    for _ in range(100):
        reader.feed(body)
    assert isinstance(reader.error, StreamTooLarge)


def test_a_whole_answer_instead_of_a_stream() -> None:
    message = {"role": "assistant", "content": "Hello"}
    body = {"id": "chatcmpl-1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    answer = whole(json.dumps(body).encode())
    assert (answer.text, answer.finish_reason, answer.id) == ("Hello", "stop", "chatcmpl-1")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error": {"message": "Bad", "type": "t"}}', StreamError),
        (b'{"choices": []}', StreamInvalid),
        (b'{"choices": [', StreamInvalid),
        (b'{"choices": [{"index": 0, "message"', StreamInvalid),
    ],
)
def test_an_invalid_whole_answer(body: bytes, kind: type[ClientError]) -> None:
    assert type(broken(body)) is kind


def test_the_callers_own_key_is_taken_out() -> None:
    reader = Reader(secret=KEY)
    reader.feed(data({"error": {"message": "Incorrect key sk-secret.", "code": "sk-secret", "type": "sk-secret"}}))
    assert isinstance(reader.error, StreamError)
    assert "sk-secret" not in repr(reader.error) + str(reader.error) + str(reader.error.code)


def test_the_request_id_is_on_the_error() -> None:
    reader = Reader()
    reader.answer.request_id = "req_1"
    reader.finish()
    assert reader.error is not None
    assert reader.error.request_id == "req_1"
    assert reader.completion.request_id == "req_1"


def test_a_dialect_may_be_its_value_and_must_be_known() -> None:
    assert Reader(DIALECTS["aivene"]).dialect.name == "aivene"
    with pytest.raises(ValueError, match="no dialect is named 'anthropic'; there are openai, "):
        Reader("anthropic")


@given(st.lists(st.binary(max_size=40) | st.sampled_from([HELLO, FINISH, USAGE, DONE, data({"error": ERROR})])))
def test_no_bytes_make_it_raise(pieces: list[bytes]) -> None:
    for dialect in DIALECTS:
        reader = Reader(dialect)
        for piece in pieces:
            reader.feed(piece)
        reader.finish()
        assert reader.ended
        assert reader.answer.is_whole is (reader.error is None)
