"""Identity: the members at the start of every chunk, which identify its answer."""

import re
from collections.abc import Iterator

from streamweir.conformance.parsed_answer import Frame, ParsedAnswer
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, quote, violation_in
from streamweir.frontends.chat.dialect import Dialect, IdFormat, ModelRule

IDENTITY = RuleGroup("identity")

_FORMS = {
    IdFormat.CHATCMPL: re.compile(r"chatcmpl-.+"),
    IdFormat.ILBS: re.compile(r"ilbs_[a-z0-9]{24}"),
    IdFormat.STREAM_CHAT: re.compile(r"stream:chat:.+"),
}
_FORM_WORDS = {
    IdFormat.CHATCMPL: "`chatcmpl-` and a tail",
    IdFormat.ILBS: "`ilbs_` and 24 of a-z0-9",
    IdFormat.STREAM_CHAT: "`stream:chat:` and a tail",
}
MAX_TIME_S = 100_000_000_000
"""Unix seconds below this end in the year 5138; a time in milliseconds is above it."""


def id_format(dialect: Dialect) -> re.Pattern[str]:
    return _FORMS[dialect.id_format]


def id_description(dialect: Dialect) -> str:
    return _FORM_WORDS[dialect.id_format]


def _has_integer_times(dialect: Dialect) -> bool:
    """The documents of aivene and bitseek have `number`."""
    return dialect.id_format is IdFormat.CHATCMPL


def _no_chunks(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if answer.chunks else "no chunk in it"


def _members(answer: ParsedAnswer, name: str) -> Iterator[tuple[Frame, object]]:
    for frame in answer.chunks:
        if frame.document is not None:
            yield frame, frame.document.get(name)


def _changes(answer: ParsedAnswer, name: str, kind: type) -> Iterator[Violation]:
    """Where a member differs from its first value. An empty text is no value; there is another rule for it."""
    first: object = None
    for frame, value in _members(answer, name):
        if type(value) is not kind or value == "":
            continue
        first = value if first is None else first
        if value != first:
            yield violation_in(frame, f"`{name}` was {quote(first)} and is {quote(value)}", f'"{name}"'.encode())


@IDENTITY.rule(
    "id",
    "Every chunk has an id",
    text="`id` is a string that is not empty, on every chunk.",
    why="It is what a client correlates chunks and looks up logs by; a typed client refuses a chunk without it.",
    source="docs/spec/dialects.md A4, D3",
    skip_reason=_no_chunks,
)
def has_id(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame, value in _members(answer, "id"):
        if not isinstance(value, str) or not value:
            yield violation_in(frame, f"`id` is {quote(value)}", b'"id"')


@IDENTITY.rule(
    "id-is-constant",
    "The id never changes",
    text="`id` is the same on every chunk of one answer.",
    why="A client that joins chunks by id takes one answer for several.",
    source="docs/spec/dialects.md D3",
    skip_reason=_no_chunks,
)
def id_is_constant(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    yield from _changes(answer, "id", str)


@IDENTITY.rule(
    "id-form",
    "The id has the dialect's form",
    text="`id` is of the form that the dialect's document shows.",
    why="Logs and tools that tell ids by their form pass over others. No document forbids another form.",
    source="docs/spec/dialects.md D3",
    severity=Severity.ODD,
    value=id_description,
    skip_reason=_no_chunks,
)
def id_has_form(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    for frame, value in _members(answer, "id"):
        if isinstance(value, str) and value and not id_format(dialect).fullmatch(value):
            yield violation_in(frame, f"{quote(value)} is not {id_description(dialect)}", b'"id"')
            return


@IDENTITY.rule(
    "object",
    "The object is the dialect's",
    text="`object` on every chunk is the word of the dialect.",
    why="Clients tell a chunk from other documents by it.",
    source="docs/spec/dialects.md D4",
    value=lambda dialect: f"`{dialect.chunk_object}`",
    skip_reason=_no_chunks,
)
def object_word(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    for frame, value in _members(answer, "object"):
        if value != dialect.chunk_object:
            yield violation_in(frame, f"`object` is {quote(value)}", b'"object"')


@IDENTITY.rule(
    "created",
    "Every chunk has its time",
    text="`created` is on every chunk: an integer, or any number where the document asks for no more.",
    why="A typed client refuses a chunk without it, and a fraction where an integer is promised.",
    source="docs/spec/dialects.md A4, D6",
    value=lambda dialect: "an integer" if _has_integer_times(dialect) else "a number",
    skip_reason=_no_chunks,
)
def has_created(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    kinds = (int,) if _has_integer_times(dialect) else (int, float)
    for frame, value in _members(answer, "created"):
        if type(value) not in kinds:
            yield violation_in(frame, f"`created` is {quote(value)}", b'"created"')


@IDENTITY.rule(
    "created-in-seconds",
    "The time is in Unix seconds",
    text="`created` is a time in seconds since 1970, not in milliseconds.",
    why="Read as a date it is far off.",
    source="docs/spec/dialects.md D6",
    severity=Severity.ODD,
    skip_reason=_no_chunks,
)
def created_in_seconds(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame, value in _members(answer, "created"):
        if type(value) is int and not 0 <= value < MAX_TIME_S:
            yield violation_in(frame, f"`created` is {value}", b'"created"')


@IDENTITY.rule(
    "created-is-constant",
    "The time never changes",
    text="`created` is the same on every chunk: the time of the answer.",
    why="The document promises it; what is stored with the answer depends on the chunk that is read.",
    source="docs/spec/dialects.md D6",
    applies_to=lambda dialect: not dialect.created_per_chunk,
    skip_reason=_no_chunks,
)
def created_is_constant(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    yield from _changes(answer, "created", int)


@IDENTITY.rule(
    "created-runs-forward",
    "The time runs forward",
    text="`created`, the time of each chunk, never goes back.",
    why="Chunks sorted by their time change their order.",
    source="docs/spec/dialects.md D6",
    severity=Severity.ODD,
    applies_to=lambda dialect: dialect.created_per_chunk,
    skip_reason=_no_chunks,
)
def created_runs_forward(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    latest = 0
    for frame, value in _members(answer, "created"):
        if type(value) is int:
            if value < latest:
                yield violation_in(frame, f"`created` was {latest} and is {value}", b'"created"')
            latest = max(latest, value)


@IDENTITY.rule(
    "model",
    "Every chunk names its model",
    text="`model` is a string on every chunk.",
    why="Prices and limits go by it; a typed client refuses a chunk without it.",
    source="docs/spec/dialects.md A4, D7",
    skip_reason=_no_chunks,
)
def has_model(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame, value in _members(answer, "model"):
        if not isinstance(value, str):
            yield violation_in(frame, f"`model` is {quote(value)}", b'"model"')


@IDENTITY.rule(
    "model-is-named",
    "The model is not empty",
    text="`model` is not the empty text.",
    why="A client cannot tell which model answered, nor what it cost.",
    source="docs/spec/dialects.md D7",
    severity=Severity.ODD,
    applies_to=lambda dialect: dialect.request.model_required,
    skip_reason=_no_chunks,
)
def model_is_named(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame, value in _members(answer, "model"):
        if value == "":
            yield violation_in(frame, "`model` is empty", b'"model"')


@IDENTITY.rule(
    "model-is-constant",
    "The model never changes",
    text="`model` is the same on every chunk.",
    why="What is billed depends on the chunk that is read.",
    source="docs/spec/dialects.md D7",
    severity=Severity.ODD,
    skip_reason=_no_chunks,
)
def model_is_constant(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    yield from _changes(answer, "model", str)


@IDENTITY.rule(
    "model-asked",
    "The model is the one asked for",
    text="`model` is the id that the request named.",
    why="A client that compares the two takes the answer for another model's.",
    source="docs/spec/dialects.md D7",
    severity=Severity.ODD,
    applies_to=lambda dialect: dialect.model is ModelRule.REQUESTED,
    skip_reason=lambda answer, dialect: (
        "the model asked for is not known" if answer.recording.request.model is None else _no_chunks(answer, dialect)
    ),
)
def model_asked(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    requested = answer.recording.request.model
    for frame, value in _members(answer, "model"):
        if isinstance(value, str) and value and value != requested:
            yield violation_in(frame, f"asked for {quote(requested)}, answered {quote(value)}", b'"model"')
            return


@IDENTITY.rule(
    "labels",
    "Labels are texts",
    text="`system_fingerprint` and `service_tier`, where they are, are strings or null.",
    why="A typed client refuses the chunk.",
    source="docs/spec/dialects.md D21",
    applies_to=lambda dialect: dialect.labels,
    skip_reason=_no_chunks,
)
def labels(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for name in ("system_fingerprint", "service_tier"):
        for frame, value in _members(answer, name):
            if value is not None and not isinstance(value, str):
                yield violation_in(frame, f"`{name}` is {quote(value)}", name.encode())


@IDENTITY.rule(
    "fingerprint-is-constant",
    "The fingerprint never changes",
    text="`system_fingerprint`, where it is not null, is the same on every chunk.",
    why="It names the backend that answered, and one answer has one.",
    source="docs/spec/dialects.md D21",
    severity=Severity.ODD,
    applies_to=lambda dialect: dialect.labels,
    skip_reason=_no_chunks,
)
def fingerprint_is_constant(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    yield from _changes(answer, "system_fingerprint", str)


@IDENTITY.rule(
    "no-labels",
    "No labels",
    text="There is no `system_fingerprint` and no `service_tier`: this dialect has neither.",
    why="A client of this dialect does not know them; they are another dialect's.",
    source="docs/spec/dialects.md D21",
    severity=Severity.ODD,
    applies_to=lambda dialect: not dialect.labels,
    skip_reason=_no_chunks,
)
def no_labels(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.chunks:
        for name in ("system_fingerprint", "service_tier"):
            if name in (frame.document or {}):
                yield violation_in(frame, f"a member `{name}`", name.encode())
                return
