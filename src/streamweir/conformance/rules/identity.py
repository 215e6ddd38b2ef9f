"""Identity: the members that head every chunk, and that say whose chunk it is."""

import re
from collections.abc import Iterator

from streamweir.conformance.parsed_answer import Frame, Reading
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import Chapter, at, shown
from streamweir.frontends.chat.dialect import Dialect, IdFormat, ModelRule

IDENTITY = Chapter("identity")

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
LATEST = 100_000_000_000
"""Unix seconds below this end in the year 5138; a time in milliseconds is above it."""


def id_format(dialect: Dialect) -> re.Pattern[str]:
    return _FORMS[dialect.id_format]


def id_words(dialect: Dialect) -> str:
    return _FORM_WORDS[dialect.id_format]


def _dates_in_integers(dialect: Dialect) -> bool:
    """aivene's and bitseek's documents say `number`."""
    return dialect.id_format is IdFormat.CHATCMPL


def _chunks(reading: Reading, _: Dialect) -> str | None:
    return None if reading.chunks else "no chunk in it"


def _members(reading: Reading, name: str) -> Iterator[tuple[Frame, object]]:
    for frame in reading.chunks:
        if frame.document is not None:
            yield frame, frame.document.get(name)


def _changes(reading: Reading, name: str, kind: type) -> Iterator[Violation]:
    """Where a member differs from its first value. An empty text is no value; another rule says so."""
    first: object = None
    for frame, value in _members(reading, name):
        if type(value) is not kind or value == "":
            continue
        first = value if first is None else first
        if value != first:
            yield at(frame, f"`{name}` was {shown(first)} and is {shown(value)}", f'"{name}"'.encode())


@IDENTITY.rule(
    "id",
    "Every chunk has an id",
    text="`id` is a string that is not empty, on every chunk.",
    why="It is what a client correlates chunks and looks up logs by; a typed client refuses a chunk without it.",
    source="docs/spec/dialects.md A4, D3",
    needs=_chunks,
)
def has_id(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame, value in _members(reading, "id"):
        if not isinstance(value, str) or not value:
            yield at(frame, f"`id` is {shown(value)}", b'"id"')


@IDENTITY.rule(
    "id-is-constant",
    "The id never changes",
    text="`id` is the same on every chunk of one answer.",
    why="A client that joins chunks by id takes one answer for several.",
    source="docs/spec/dialects.md D3",
    needs=_chunks,
)
def id_is_constant(reading: Reading, _: Dialect) -> Iterator[Violation]:
    yield from _changes(reading, "id", str)


@IDENTITY.rule(
    "id-form",
    "The id has the dialect's form",
    text="`id` is of the form that the dialect's document shows.",
    why="Logs and tools that tell ids by their form pass over others. No document forbids another form.",
    source="docs/spec/dialects.md D3",
    severity=Severity.ODD,
    value=id_words,
    needs=_chunks,
)
def id_has_form(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    for frame, value in _members(reading, "id"):
        if isinstance(value, str) and value and not id_format(dialect).fullmatch(value):
            yield at(frame, f"{shown(value)} is not {id_words(dialect)}", b'"id"')
            return


@IDENTITY.rule(
    "object",
    "The object is the dialect's",
    text="`object` on every chunk is the word of the dialect.",
    why="Clients tell a chunk from other documents by it.",
    source="docs/spec/dialects.md D4",
    value=lambda dialect: f"`{dialect.chunk_object}`",
    needs=_chunks,
)
def object_word(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    for frame, value in _members(reading, "object"):
        if value != dialect.chunk_object:
            yield at(frame, f"`object` is {shown(value)}", b'"object"')


@IDENTITY.rule(
    "created",
    "Every chunk has its time",
    text="`created` is on every chunk: an integer, or any number where the document asks for no more.",
    why="A typed client refuses a chunk without it, and a fraction where an integer is promised.",
    source="docs/spec/dialects.md A4, D6",
    value=lambda dialect: "an integer" if _dates_in_integers(dialect) else "a number",
    needs=_chunks,
)
def has_created(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    kinds = (int,) if _dates_in_integers(dialect) else (int, float)
    for frame, value in _members(reading, "created"):
        if type(value) not in kinds:
            yield at(frame, f"`created` is {shown(value)}", b'"created"')


@IDENTITY.rule(
    "created-in-seconds",
    "The time is in Unix seconds",
    text="`created` is a time in seconds since 1970, not in milliseconds.",
    why="Read as a date it is far off.",
    source="docs/spec/dialects.md D6",
    severity=Severity.ODD,
    needs=_chunks,
)
def created_in_seconds(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame, value in _members(reading, "created"):
        if type(value) is int and not 0 <= value < LATEST:
            yield at(frame, f"`created` is {value}", b'"created"')


@IDENTITY.rule(
    "created-is-constant",
    "The time never changes",
    text="`created` is the same on every chunk: the time of the answer.",
    why="The document promises it; what is stored with the answer depends on the chunk that is read.",
    source="docs/spec/dialects.md D6",
    holds_for=lambda dialect: not dialect.created_per_chunk,
    needs=_chunks,
)
def created_is_constant(reading: Reading, _: Dialect) -> Iterator[Violation]:
    yield from _changes(reading, "created", int)


@IDENTITY.rule(
    "created-runs-forward",
    "The time runs forward",
    text="`created`, the time of each chunk, never goes back.",
    why="Chunks sorted by their time change their order.",
    source="docs/spec/dialects.md D6",
    severity=Severity.ODD,
    holds_for=lambda dialect: dialect.created_per_chunk,
    needs=_chunks,
)
def created_runs_forward(reading: Reading, _: Dialect) -> Iterator[Violation]:
    newest = 0
    for frame, value in _members(reading, "created"):
        if type(value) is int:
            if value < newest:
                yield at(frame, f"`created` was {newest} and is {value}", b'"created"')
            newest = max(newest, value)


@IDENTITY.rule(
    "model",
    "Every chunk names its model",
    text="`model` is a string on every chunk.",
    why="Prices and limits go by it; a typed client refuses a chunk without it.",
    source="docs/spec/dialects.md A4, D7",
    needs=_chunks,
)
def has_model(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame, value in _members(reading, "model"):
        if not isinstance(value, str):
            yield at(frame, f"`model` is {shown(value)}", b'"model"')


@IDENTITY.rule(
    "model-is-named",
    "The model is not empty",
    text="`model` is not the empty text.",
    why="A client cannot tell which model answered, nor what it cost.",
    source="docs/spec/dialects.md D7",
    severity=Severity.ODD,
    holds_for=lambda dialect: dialect.request.model_required,
    needs=_chunks,
)
def model_is_named(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame, value in _members(reading, "model"):
        if value == "":
            yield at(frame, "`model` is empty", b'"model"')


@IDENTITY.rule(
    "model-is-constant",
    "The model never changes",
    text="`model` is the same on every chunk.",
    why="What is billed depends on the chunk that is read.",
    source="docs/spec/dialects.md D7",
    severity=Severity.ODD,
    needs=_chunks,
)
def model_is_constant(reading: Reading, _: Dialect) -> Iterator[Violation]:
    yield from _changes(reading, "model", str)


@IDENTITY.rule(
    "model-asked",
    "The model is the one asked for",
    text="`model` is the id that the request named.",
    why="A client that compares the two takes the answer for another model's.",
    source="docs/spec/dialects.md D7",
    severity=Severity.ODD,
    holds_for=lambda dialect: dialect.model is ModelRule.REQUESTED,
    needs=lambda reading, dialect: (
        "the model asked for is not known" if reading.recording.asked.model is None else _chunks(reading, dialect)
    ),
)
def model_asked(reading: Reading, _: Dialect) -> Iterator[Violation]:
    asked = reading.recording.asked.model
    for frame, value in _members(reading, "model"):
        if isinstance(value, str) and value and value != asked:
            yield at(frame, f"asked for {shown(asked)}, answered {shown(value)}", b'"model"')
            return


@IDENTITY.rule(
    "labels",
    "Labels are texts",
    text="`system_fingerprint` and `service_tier`, where they are, are strings or null.",
    why="A typed client refuses the chunk.",
    source="docs/spec/dialects.md D21",
    holds_for=lambda dialect: dialect.labels,
    needs=_chunks,
)
def labels(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for name in ("system_fingerprint", "service_tier"):
        for frame, value in _members(reading, name):
            if value is not None and not isinstance(value, str):
                yield at(frame, f"`{name}` is {shown(value)}", name.encode())


@IDENTITY.rule(
    "fingerprint-is-constant",
    "The fingerprint never changes",
    text="`system_fingerprint`, where it is not null, is the same on every chunk.",
    why="It names the backend that answered, and one answer has one.",
    source="docs/spec/dialects.md D21",
    severity=Severity.ODD,
    holds_for=lambda dialect: dialect.labels,
    needs=_chunks,
)
def fingerprint_is_constant(reading: Reading, _: Dialect) -> Iterator[Violation]:
    yield from _changes(reading, "system_fingerprint", str)


@IDENTITY.rule(
    "no-labels",
    "No labels",
    text="There is no `system_fingerprint` and no `service_tier`: this dialect has neither.",
    why="A client of this dialect does not know them; they are another dialect's.",
    source="docs/spec/dialects.md D21",
    severity=Severity.ODD,
    holds_for=lambda dialect: not dialect.labels,
    needs=_chunks,
)
def no_labels(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.chunks:
        for name in ("system_fingerprint", "service_tier"):
            if name in (frame.document or {}):
                yield at(frame, f"a member `{name}`", name.encode())
                return
