"""Deltas: the choices of a chunk, and the content of a delta."""

from collections.abc import Iterator
from itertools import pairwise

from streamweir.conformance.parsed_answer import ParsedAnswer, choices_of
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, quote, quote_names, violation_in
from streamweir.frontends.chat.dialect import Dialect

DELTA = RuleGroup("delta")

_REPETITIONS = 3
"""Pieces that each begin with everything before: no model repeats itself like that."""
_MIN_REPEATED_LENGTH = 8


def _no_chunks(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if answer.chunks else "no chunk in it"


def _no_parts(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if answer.parts else "no choice in it"


@DELTA.rule(
    "choices",
    "Every chunk has choices",
    text="`choices` is a list of objects, on every chunk.",
    why="Clients iterate over it; without it they raise an error.",
    source="docs/spec/dialects.md A4",
    skip_reason=_no_chunks,
)
def choices(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.chunks:
        found = (frame.document or {}).get("choices")
        if not isinstance(found, list) or not all(isinstance(choice, dict) for choice in found):
            yield violation_in(frame, f"`choices` is {quote(found)}", b'"choices"')


@DELTA.rule(
    "empty-choices",
    "Only the usage chunk has no choice",
    text="`choices` is empty on the chunk that carries the usage that is due, and on no other chunk.",
    why="Clients that read `choices[0]` raise an error; clients that requested usage expect that one chunk.",
    source="docs/spec/dialects.md D13",
    skip_reason=_no_chunks,
)
def empty_choices(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    requested = answer.recording.request.include_usage
    for frame in answer.chunks:
        document = frame.document or {}
        if document.get("choices") != []:
            continue
        is_usage = document.get("usage") is not None and (requested is None or dialect.includes_usage(requested))
        if not is_usage:
            yield violation_in(frame, "no choice, and no usage that was asked for", b'"choices"')


@DELTA.rule(
    "index",
    "Every choice has its index",
    text="`index` of a choice is an integer, 0 or more.",
    why="Deltas are joined by it; without it the choices of one answer are mixed.",
    source="docs/spec/dialects.md A4",
    skip_reason=_no_chunks,
)
def index(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.chunks:
        for choice in choices_of(frame):
            found = choice.get("index")
            if type(found) is not int or found < 0:
                yield violation_in(frame, f"`index` is {quote(found)}", b'"index"')


def _max_choices(answer: ParsedAnswer, dialect: Dialect) -> int | None:
    if dialect.request.max_choices == 1:
        return 1
    return answer.recording.request.choices


@DELTA.rule(
    "index-range",
    "No choice that was not requested",
    text="`index` is below the number of choices that were asked for; bitseek has choice 0 alone.",
    why="Clients keep a list of that many choices, and fail at another.",
    source="docs/spec/dialects.md A12, D29",
    skip_reason=lambda answer, dialect: (
        "the number of choices asked for is not known"
        if _max_choices(answer, dialect) is None
        else _no_parts(answer, dialect)
    ),
)
def index_range(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    max_choices = _max_choices(answer, dialect)
    for part in answer.parts:
        if max_choices is not None and part.index >= max_choices:
            yield violation_in(part.frame, f"choice {part.index} of {max_choices}", b'"index"')


@DELTA.rule(
    "object",
    "Every choice has a delta",
    text="`delta` of a choice is an object.",
    why="Clients read its members without a check.",
    source="docs/spec/dialects.md A4",
    skip_reason=_no_chunks,
)
def delta_object(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.chunks:
        for choice in choices_of(frame):
            if not isinstance(choice.get("delta"), dict):
                yield violation_in(frame, f"`delta` is {quote(choice.get('delta'))}", b'"delta"')


@DELTA.rule(
    "finish-reason-type",
    "The finish reason is a word or null",
    text="`finish_reason` is a string or null.",
    why="A typed client refuses the chunk; others take false or 0 for a finish, or a finish for none.",
    source="docs/spec/dialects.md A4",
    skip_reason=_no_chunks,
)
def finish_reason_type(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.chunks:
        for choice in choices_of(frame):
            found = choice.get("finish_reason")
            if found is not None and (not isinstance(found, str) or not found):
                yield violation_in(frame, f"`finish_reason` is {quote(found)}", b'"finish_reason"')


@DELTA.rule(
    "finish-reason-stands",
    "The finish reason is always present",
    text="`finish_reason` is on every choice of every chunk: null until the end.",
    why="Clients that ask whether it is not null take a missing one for a finish.",
    source="docs/spec/dialects.md A4; docs/spec/quirks.md W4",
    severity=Severity.ODD,
    skip_reason=_no_chunks,
)
def finish_reason_stands(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.chunks:
        for choice in choices_of(frame):
            if "finish_reason" not in choice:
                yield violation_in(frame, "no `finish_reason`", b'"choices"')


@DELTA.rule(
    "content",
    "Content is text",
    text="`content` of a delta is a string (or null).",
    why="Clients append it to a text; a list or an object there raises, or shows as `[object Object]`.",
    source="docs/spec/dialects.md A5",
    skip_reason=_no_parts,
)
def content(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        found = part.delta.get("content")
        if found is not None and not isinstance(found, str):
            yield violation_in(part.frame, f"`content` is {quote(found)}", b'"content"')


@DELTA.rule(
    "no-null",
    "Null only where the document has it",
    text="A delta leaves out what it does not carry. In openai `content` and `refusal` may be null.",
    why="Where the document says `content?: string`, a client that finds the member uses it: null is no text.",
    source="docs/spec/dialects.md A5, D8",
    severity=Severity.ODD,
    value=lambda dialect: quote_names(sorted(_nullable(dialect))) if _nullable(dialect) else "no member",
    skip_reason=_no_parts,
)
def no_null(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        names = [name for name, value in part.delta.items() if value is None and name not in _nullable(dialect)]
        if names:
            yield violation_in(part.frame, f"{quote_names(names)} is null", f'"{names[0]}"'.encode())


def _nullable(dialect: Dialect) -> set[str]:
    return {"content", "refusal"} if dialect.refusal else set()


@DELTA.rule(
    "only-new",
    "A delta carries only what is new",
    text="`content` of a delta is a new piece, never the whole text so far.",
    why="Clients append it: the text is shown many times.",
    source="docs/spec/dialects.md A5",
    skip_reason=_no_parts,
)
def only_new(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for number, parts in answer.parts_by_choice().items():
        texts = [(part, part.delta["content"]) for part in parts if isinstance(part.delta.get("content"), str)]
        texts = [(part, text) for part, text in texts if text]
        repetitions = 0
        for (_part, before), (part, text) in pairwise(texts):
            is_repetition = len(before) >= _MIN_REPEATED_LENGTH and len(text) > len(before) and text.startswith(before)
            repetitions = repetitions + 1 if is_repetition else 0
            if repetitions == _REPETITIONS:
                yield violation_in(part.frame, f"choice {number} repeats all that came before it", b'"content"')
                return


@DELTA.rule(
    "no-message",
    "No message beside the delta",
    text="A choice of a chunk has no `message`.",
    why="It repeats the text so far on every chunk; a client that prefers it shows the text repeatedly.",
    source="docs/spec/dialects.md A5",
    severity=Severity.ODD,
    skip_reason=_no_chunks,
)
def no_message(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.chunks:
        for choice in choices_of(frame):
            if choice.get("message") is not None:
                yield violation_in(frame, "a member `message`", b'"message"')
