"""Errors: inside a stream, and as the body of a failed answer. The codes of single errors are checked elsewhere."""

from collections.abc import Iterator
from typing import Any

from streamweir.conformance.parsed_answer import Frame, ParsedAnswer
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, quote, quote_names, violation_in
from streamweir.frontends.chat.dialect import Dialect

ERROR = RuleGroup("error")
FAILURE = RuleGroup("failure", Kind.FAILURE)

_HEAD = ("id", "object", "created", "model", "choices")


def _no_errors(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if answer.errors else "no error frame in it"


def _error_of(frame: Frame) -> dict[str, Any] | None:
    found = (frame.document or {}).get("error")
    return found if isinstance(found, dict) else None


def _members_value(dialect: Dialect) -> str:
    return quote_names(dialect.error_members)


@ERROR.rule(
    "object",
    "An error is an object",
    text="`error` of an error frame is an object.",
    why="Clients read its message and its type; of a string they show nothing, or raise.",
    source="docs/spec/dialects.md D22; docs/spec/quirks.md W9",
    skip_reason=_no_errors,
)
def is_object(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.errors:
        if _error_of(frame) is None:
            yield violation_in(frame, f"`error` is {quote((frame.document or {}).get('error'))}", b'"error"')


def _missing_members(error: dict[str, Any], dialect: Dialect) -> list[str]:
    return [name for name in dialect.error_members if name not in error]


@ERROR.rule(
    "members",
    "An error has its members",
    text="`error` has the members of the dialect.",
    why="Clients decide by type and code whether to retry.",
    source="docs/spec/dialects.md D22",
    value=_members_value,
    skip_reason=_no_errors,
)
def members(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    for frame in answer.errors:
        error = _error_of(frame)
        if error is not None and _missing_members(error, dialect):
            yield violation_in(frame, f"no {quote_names(_missing_members(error, dialect))}", b'"error"')


@ERROR.rule(
    "message",
    "An error says what happened",
    text="`message` and `type` of an error are strings that are not empty.",
    why="It is all that a user sees.",
    source="docs/spec/dialects.md D22",
    skip_reason=_no_errors,
)
def message(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.errors:
        yield from _empty_members(_error_of(frame), frame)


def _empty_members(error: dict[str, Any] | None, frame: Frame) -> Iterator[Violation]:
    for name in ("message", "type"):
        if error is not None and name in error and (not isinstance(error[name], str) or not error[name]):
            yield violation_in(frame, f"`{name}` is {quote(error[name])}", b'"error"')


@ERROR.rule(
    "code",
    "The code is a word or null",
    text="`code` of an error is a string or null.",
    why="Clients compare it with strings; a number never matches.",
    source="docs/spec/dialects.md D22",
    applies_to=lambda dialect: "code" in dialect.error_members,
    skip_reason=_no_errors,
)
def code(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.errors:
        error = _error_of(frame)
        if error is not None and error.get("code") is not None and not isinstance(error["code"], str):
            yield violation_in(frame, f"`code` is {quote(error['code'])}", b'"code"')


@ERROR.rule(
    "type-word",
    "The type is the dialect's word",
    text="`type` of an error inside a stream is always the same word.",
    why="Clients distinguish a broken stream from other errors by it.",
    source="docs/spec/dialects.md D23",
    severity=Severity.ODD,
    applies_to=lambda dialect: dialect.stream_error_always,
    value=lambda dialect: f"`{dialect.stream_error.type}`" if dialect.stream_error else "",
    skip_reason=_no_errors,
)
def type_word(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    for frame in answer.errors:
        error = _error_of(frame) or {}
        if (
            dialect.stream_error is not None
            and error.get("type", dialect.stream_error.type) != dialect.stream_error.type
        ):
            yield violation_in(frame, f"`type` is {quote(error['type'])}", b'"type"')


@ERROR.rule(
    "alone",
    "An error frame is not a chunk",
    text="An error frame has no `choices`.",
    why="Clients that look for choices first never see the error.",
    source="docs/spec/dialects.md D24",
    applies_to=lambda dialect: not dialect.error_in_chunk,
    skip_reason=_no_errors,
)
def alone(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.errors:
        if "choices" in (frame.document or {}):
            yield violation_in(frame, "`choices` beside `error`", b'"choices"')


@ERROR.rule(
    "in-chunk",
    "An error frame is a chunk",
    text="An error frame has the members of a chunk, with `choices` empty.",
    why="A client of this dialect reads every frame as a chunk first.",
    source="docs/spec/dialects.md D24",
    applies_to=lambda dialect: dialect.error_in_chunk,
    skip_reason=_no_errors,
)
def in_chunk(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.errors:
        document = frame.document or {}
        missing = [name for name in _HEAD if name not in document]
        if missing:
            yield violation_in(frame, f"no {quote_names(missing)}")
        elif document["choices"] != []:
            yield violation_in(frame, "an error frame with a choice", b'"choices"')


@ERROR.rule(
    "last",
    "Nothing follows an error",
    text="After an error frame comes the end, and nothing else.",
    why="Clients stop at the error: what follows is lost.",
    source="docs/spec/dialects.md A8",
    skip_reason=_no_errors,
)
def last(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.data_frames:
        if frame.number > answer.errors[0].number and not frame.is_terminator:
            yield violation_in(frame, "a frame after the error")


@ERROR.rule(
    "no-event",
    "An error is not a named event",
    text="An error is a `data:` frame; there is no `event: error` line.",
    why="Readers of data lines do not see the name, and SDKs raise something else than the error.",
    source="docs/spec/dialects.md D24",
)
def no_event(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.frames:
        if b"error" in frame.values_of(b"event"):
            yield violation_in(frame, "an event named `error`", b"event")


def _violation(message: str, answer: ParsedAnswer) -> Violation:
    return Violation(message, answer.recording.body, 0)


def _failure_of(answer: ParsedAnswer) -> dict[str, Any] | None:
    value = answer.body.value
    found = value.get("error") if isinstance(value, dict) else None
    return found if isinstance(found, dict) else None


@FAILURE.rule(
    "json",
    "A failure is JSON",
    text="The body of a failed answer is a JSON object with a member `error`, itself an object.",
    why="SDKs read the message from there; with an HTML page a user sees the status only.",
    source="docs/spec/dialects.md D22",
)
def failure_json(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if answer.body.problem is not None:
        yield _violation(answer.body.problem, answer)
    elif _failure_of(answer) is None:
        yield _violation("no `error` object", answer)


@FAILURE.rule(
    "members",
    "A failure has its members",
    text="`error` has the members of the dialect.",
    why="Clients decide by type and code whether to retry.",
    source="docs/spec/dialects.md D22",
    value=_members_value,
)
def failure_members(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    error = _failure_of(answer)
    if error is not None and _missing_members(error, dialect):
        yield _violation(f"no {quote_names(_missing_members(error, dialect))}", answer)


@FAILURE.rule(
    "message",
    "A failure says what happened",
    text="`message` and `type` of `error` are strings that are not empty.",
    why="It is all that a user sees.",
    source="docs/spec/dialects.md D22",
)
def failure_message(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    error = _failure_of(answer) or {}
    for name in ("message", "type"):
        if name in error and (not isinstance(error[name], str) or not error[name]):
            yield _violation(f"`{name}` is {quote(error[name])}", answer)


@FAILURE.rule(
    "code",
    "The code is a word or null",
    text="`code` of `error` is a string or null.",
    why="Clients compare it with strings; a number never matches.",
    source="docs/spec/dialects.md D22",
    applies_to=lambda dialect: "code" in dialect.error_members,
)
def failure_code(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    found = (_failure_of(answer) or {}).get("code")
    if found is not None and not isinstance(found, str):
        yield _violation(f"`code` is {quote(found)}", answer)


@FAILURE.rule(
    "status",
    "A failure has an error status",
    text="A failed answer has a status of 400 or more.",
    why="SDKs raise errors by the status; with 200 they read the error as an answer.",
    source="docs/spec/dialects.md E1 to E17",
    skip_reason=lambda answer, _: "the status was not recorded" if answer.recording.status is None else None,
)
def failure_status(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    status = answer.recording.status
    if status is not None and status < 400:
        yield _violation(f"status {status} with an error in the body", answer)
