"""Deltas: the choices of a chunk, and what a delta may hold."""

from collections.abc import Iterator
from itertools import pairwise

from streamweir.conformance.parsed_answer import Reading, choices_of
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import Chapter, at, shown, words
from streamweir.frontends.chat.dialect import Dialect

DELTA = Chapter("delta")

_SURELY_RUNNING = 3
"""Pieces, each beginning with all that came before it: no model repeats itself like that."""
_SURELY_LONG = 8


def _chunks(reading: Reading, _: Dialect) -> str | None:
    return None if reading.chunks else "no chunk in it"


def _parts(reading: Reading, _: Dialect) -> str | None:
    return None if reading.parts else "no choice in it"


@DELTA.rule(
    "choices",
    "Every chunk has choices",
    text="`choices` is a list of objects, on every chunk.",
    why="Clients iterate over it; without it they raise an error.",
    source="docs/spec/dialects.md A4",
    needs=_chunks,
)
def choices(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.chunks:
        found = (frame.document or {}).get("choices")
        if not isinstance(found, list) or not all(isinstance(choice, dict) for choice in found):
            yield at(frame, f"`choices` is {shown(found)}", b'"choices"')


@DELTA.rule(
    "empty-choices",
    "Only the usage chunk has no choice",
    text="`choices` is empty on the chunk that carries the usage that is due, and on no other chunk.",
    why="Clients that read `choices[0]` raise an error; clients that requested usage expect that one chunk.",
    source="docs/spec/dialects.md D13",
    needs=_chunks,
)
def empty_choices(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    asked = reading.recording.asked.include_usage
    for frame in reading.chunks:
        document = frame.document or {}
        if document.get("choices") != []:
            continue
        is_usage = document.get("usage") is not None and (asked is None or dialect.includes_usage(asked))
        if not is_usage:
            yield at(frame, "no choice, and no usage that was asked for", b'"choices"')


@DELTA.rule(
    "index",
    "Every choice has its index",
    text="`index` of a choice is an integer, 0 or more.",
    why="Deltas are joined by it; without it the choices of one answer are mixed.",
    source="docs/spec/dialects.md A4",
    needs=_chunks,
)
def index(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.chunks:
        for choice in choices_of(frame):
            found = choice.get("index")
            if type(found) is not int or found < 0:
                yield at(frame, f"`index` is {shown(found)}", b'"index"')


def _most_choices(reading: Reading, dialect: Dialect) -> int | None:
    if dialect.request.max_choices == 1:
        return 1
    return reading.recording.asked.choices


@DELTA.rule(
    "index-range",
    "No choice that was not requested",
    text="`index` is below the number of choices that were asked for; bitseek has choice 0 alone.",
    why="Clients keep a list of that many choices, and fail at another.",
    source="docs/spec/dialects.md A12, D29",
    needs=lambda reading, dialect: (
        "the number of choices asked for is not known"
        if _most_choices(reading, dialect) is None
        else _parts(reading, dialect)
    ),
)
def index_range(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    most = _most_choices(reading, dialect)
    for part in reading.parts:
        if most is not None and part.index >= most:
            yield at(part.frame, f"choice {part.index} of {most}", b'"index"')


@DELTA.rule(
    "object",
    "Every choice has a delta",
    text="`delta` of a choice is an object.",
    why="Clients read its members without a check.",
    source="docs/spec/dialects.md A4",
    needs=_chunks,
)
def delta_object(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.chunks:
        for choice in choices_of(frame):
            if not isinstance(choice.get("delta"), dict):
                yield at(frame, f"`delta` is {shown(choice.get('delta'))}", b'"delta"')


@DELTA.rule(
    "finish-reason-type",
    "The finish reason is a word or null",
    text="`finish_reason` is a string or null.",
    why="A typed client refuses the chunk; others take false or 0 for a finish, or a finish for none.",
    source="docs/spec/dialects.md A4",
    needs=_chunks,
)
def finish_reason_type(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.chunks:
        for choice in choices_of(frame):
            found = choice.get("finish_reason")
            if found is not None and (not isinstance(found, str) or not found):
                yield at(frame, f"`finish_reason` is {shown(found)}", b'"finish_reason"')


@DELTA.rule(
    "finish-reason-stands",
    "The finish reason is always present",
    text="`finish_reason` is on every choice of every chunk: null until the end.",
    why="Clients that ask whether it is not null take a missing one for a finish.",
    source="docs/spec/dialects.md A4; docs/spec/quirks.md W4",
    severity=Severity.ODD,
    needs=_chunks,
)
def finish_reason_stands(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.chunks:
        for choice in choices_of(frame):
            if "finish_reason" not in choice:
                yield at(frame, "no `finish_reason`", b'"choices"')


@DELTA.rule(
    "content",
    "Content is text",
    text="`content` of a delta is a string (or null).",
    why="Clients append it to a text; a list or an object there raises, or shows as `[object Object]`.",
    source="docs/spec/dialects.md A5",
    needs=_parts,
)
def content(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for part in reading.parts:
        found = part.delta.get("content")
        if found is not None and not isinstance(found, str):
            yield at(part.frame, f"`content` is {shown(found)}", b'"content"')


@DELTA.rule(
    "no-null",
    "Null only where the document has it",
    text="A delta leaves out what it does not carry. In openai `content` and `refusal` may be null.",
    why="Where the document says `content?: string`, a client that finds the member uses it: null is no text.",
    source="docs/spec/dialects.md A5, D8",
    severity=Severity.ODD,
    value=lambda dialect: words(sorted(_nullable(dialect))) if _nullable(dialect) else "no member",
    needs=_parts,
)
def no_null(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    for part in reading.parts:
        names = [name for name, value in part.delta.items() if value is None and name not in _nullable(dialect)]
        if names:
            yield at(part.frame, f"{words(names)} is null", f'"{names[0]}"'.encode())


def _nullable(dialect: Dialect) -> set[str]:
    return {"content", "refusal"} if dialect.refusal else set()


@DELTA.rule(
    "only-new",
    "A delta carries only what is new",
    text="`content` of a delta is a new piece, never the whole text so far.",
    why="Clients append it: the text is shown many times.",
    source="docs/spec/dialects.md A5",
    needs=_parts,
)
def only_new(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for number, parts in reading.parts_of().items():
        texts = [(part, part.delta["content"]) for part in parts if isinstance(part.delta.get("content"), str)]
        texts = [(part, text) for part, text in texts if text]
        running = 0
        for (_part, before), (part, text) in pairwise(texts):
            is_running = len(before) >= _SURELY_LONG and len(text) > len(before) and text.startswith(before)
            running = running + 1 if is_running else 0
            if running == _SURELY_RUNNING:
                yield at(part.frame, f"choice {number} repeats all that came before it", b'"content"')
                return


@DELTA.rule(
    "no-message",
    "No message beside the delta",
    text="A choice of a chunk has no `message`.",
    why="It repeats the text so far on every chunk; a client that prefers it shows the text repeatedly.",
    source="docs/spec/dialects.md A5",
    severity=Severity.ODD,
    needs=_chunks,
)
def no_message(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.chunks:
        for choice in choices_of(frame):
            if choice.get("message") is not None:
                yield at(frame, "a member `message`", b'"message"')
