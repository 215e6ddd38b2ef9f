"""Errors: inside a stream, and as the body of a failed answer. Which word a case has is no question here."""

from collections.abc import Iterator
from typing import Any

from streamweir.conformance.parsed_answer import Frame, Reading
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import Chapter, at, shown, words
from streamweir.frontends.chat.dialect import Dialect

ERROR = Chapter("error")
FAILURE = Chapter("failure", Kind.FAILURE)

_HEAD = ("id", "object", "created", "model", "choices")


def _errors(reading: Reading, _: Dialect) -> str | None:
    return None if reading.errors else "no error frame in it"


def _error_of(frame: Frame) -> dict[str, Any] | None:
    found = (frame.document or {}).get("error")
    return found if isinstance(found, dict) else None


def _members_value(dialect: Dialect) -> str:
    return words(dialect.error_members)


@ERROR.rule(
    "object",
    "An error is an object",
    text="`error` of an error frame is an object.",
    why="Clients read its message and its type; of a string they show nothing, or raise.",
    source="docs/spec/dialects.md D22; docs/spec/quirks.md W9",
    needs=_errors,
)
def is_object(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.errors:
        if _error_of(frame) is None:
            yield at(frame, f"`error` is {shown((frame.document or {}).get('error'))}", b'"error"')


def _missing(error: dict[str, Any], dialect: Dialect) -> list[str]:
    return [name for name in dialect.error_members if name not in error]


@ERROR.rule(
    "members",
    "An error has its members",
    text="`error` has the members of the dialect.",
    why="Clients decide by type and code whether to retry.",
    source="docs/spec/dialects.md D22",
    value=_members_value,
    needs=_errors,
)
def members(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    for frame in reading.errors:
        error = _error_of(frame)
        if error is not None and _missing(error, dialect):
            yield at(frame, f"no {words(_missing(error, dialect))}", b'"error"')


@ERROR.rule(
    "message",
    "An error says what happened",
    text="`message` and `type` of an error are strings that are not empty.",
    why="It is all that a user sees.",
    source="docs/spec/dialects.md D22",
    needs=_errors,
)
def message(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.errors:
        yield from _says_nothing(_error_of(frame), frame)


def _says_nothing(error: dict[str, Any] | None, frame: Frame) -> Iterator[Violation]:
    for name in ("message", "type"):
        if error is not None and name in error and (not isinstance(error[name], str) or not error[name]):
            yield at(frame, f"`{name}` is {shown(error[name])}", b'"error"')


@ERROR.rule(
    "code",
    "The code is a word or null",
    text="`code` of an error is a string or null.",
    why="Clients compare it with strings; a number never matches.",
    source="docs/spec/dialects.md D22",
    holds_for=lambda dialect: "code" in dialect.error_members,
    needs=_errors,
)
def code(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.errors:
        error = _error_of(frame)
        if error is not None and error.get("code") is not None and not isinstance(error["code"], str):
            yield at(frame, f"`code` is {shown(error['code'])}", b'"code"')


@ERROR.rule(
    "type-word",
    "The type is the dialect's word",
    text="`type` of an error inside a stream is always the same word.",
    why="Clients distinguish a broken stream from other errors by it.",
    source="docs/spec/dialects.md D23",
    severity=Severity.ODD,
    holds_for=lambda dialect: dialect.stream_error_always,
    value=lambda dialect: f"`{dialect.stream_error.type}`" if dialect.stream_error else "",
    needs=_errors,
)
def type_word(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    for frame in reading.errors:
        error = _error_of(frame) or {}
        if (
            dialect.stream_error is not None
            and error.get("type", dialect.stream_error.type) != dialect.stream_error.type
        ):
            yield at(frame, f"`type` is {shown(error['type'])}", b'"type"')


@ERROR.rule(
    "alone",
    "An error frame is not a chunk",
    text="An error frame has no `choices`.",
    why="Clients that look for choices first never see the error.",
    source="docs/spec/dialects.md D24",
    holds_for=lambda dialect: not dialect.error_in_chunk,
    needs=_errors,
)
def alone(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.errors:
        if "choices" in (frame.document or {}):
            yield at(frame, "`choices` beside `error`", b'"choices"')


@ERROR.rule(
    "in-chunk",
    "An error frame is a chunk",
    text="An error frame has the members of a chunk, with `choices` empty.",
    why="A client of this dialect reads every frame as a chunk first.",
    source="docs/spec/dialects.md D24",
    holds_for=lambda dialect: dialect.error_in_chunk,
    needs=_errors,
)
def in_chunk(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.errors:
        document = frame.document or {}
        missing = [name for name in _HEAD if name not in document]
        if missing:
            yield at(frame, f"no {words(missing)}")
        elif document["choices"] != []:
            yield at(frame, "an error frame with a choice", b'"choices"')


@ERROR.rule(
    "last",
    "Nothing follows an error",
    text="After an error frame comes the end, and nothing else.",
    why="Clients stop at the error: what follows is lost.",
    source="docs/spec/dialects.md A8",
    needs=_errors,
)
def last(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.data_frames:
        if frame.number > reading.errors[0].number and not frame.is_done:
            yield at(frame, "a frame after the error")


@ERROR.rule(
    "no-event",
    "An error is not a named event",
    text="An error is a `data:` frame; there is no `event: error` line.",
    why="Readers of data lines do not see the name, and SDKs raise something else than the error.",
    source="docs/spec/dialects.md D24",
)
def no_event(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.frames:
        if b"error" in frame.values_of(b"event"):
            yield at(frame, "an event named `error`", b"event")


def _failed(message: str, reading: Reading) -> Violation:
    return Violation(message, reading.recording.body, 0)


def _failure_of(reading: Reading) -> dict[str, Any] | None:
    value = reading.body.value
    found = value.get("error") if isinstance(value, dict) else None
    return found if isinstance(found, dict) else None


@FAILURE.rule(
    "json",
    "A failure is JSON",
    text="The body of a failed answer is a JSON object with a member `error`, itself an object.",
    why="SDKs read the message from there; with an HTML page a user sees the status only.",
    source="docs/spec/dialects.md D22",
)
def failure_json(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if reading.body.problem is not None:
        yield _failed(reading.body.problem, reading)
    elif _failure_of(reading) is None:
        yield _failed("no `error` object", reading)


@FAILURE.rule(
    "members",
    "A failure has its members",
    text="`error` has the members of the dialect.",
    why="Clients decide by type and code whether to retry.",
    source="docs/spec/dialects.md D22",
    value=_members_value,
)
def failure_members(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    error = _failure_of(reading)
    if error is not None and _missing(error, dialect):
        yield _failed(f"no {words(_missing(error, dialect))}", reading)


@FAILURE.rule(
    "message",
    "A failure says what happened",
    text="`message` and `type` of `error` are strings that are not empty.",
    why="It is all that a user sees.",
    source="docs/spec/dialects.md D22",
)
def failure_message(reading: Reading, _: Dialect) -> Iterator[Violation]:
    error = _failure_of(reading) or {}
    for name in ("message", "type"):
        if name in error and (not isinstance(error[name], str) or not error[name]):
            yield _failed(f"`{name}` is {shown(error[name])}", reading)


@FAILURE.rule(
    "code",
    "The code is a word or null",
    text="`code` of `error` is a string or null.",
    why="Clients compare it with strings; a number never matches.",
    source="docs/spec/dialects.md D22",
    holds_for=lambda dialect: "code" in dialect.error_members,
)
def failure_code(reading: Reading, _: Dialect) -> Iterator[Violation]:
    found = (_failure_of(reading) or {}).get("code")
    if found is not None and not isinstance(found, str):
        yield _failed(f"`code` is {shown(found)}", reading)


@FAILURE.rule(
    "status",
    "A failure has an error status",
    text="A failed answer has a status of 400 or more.",
    why="SDKs raise errors by the status; with 200 they read the error as an answer.",
    source="docs/spec/dialects.md E1 to E17",
    needs=lambda reading, _: "the status was not recorded" if reading.recording.status is None else None,
)
def failure_status(reading: Reading, _: Dialect) -> Iterator[Violation]:
    status = reading.recording.status
    if status is not None and status < 400:
        yield _failed(f"status {status} with an error in the body", reading)
