"""Usage: when it comes, where it stands, and that its numbers can be."""

from collections.abc import Iterator
from typing import Any

from streamweir.conformance.parsed_answer import Frame, Reading, choices_of, is_count
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import Chapter, at, shown, words
from streamweir.frontends.chat.dialect import Dialect, UsageRule

USAGE = Chapter("usage")

COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAILS = ("prompt_tokens_details", "completion_tokens_details")
_PARTS = {
    "prompt_tokens_details": ("prompt_tokens", ("cached_tokens",)),
    "completion_tokens_details": ("completion_tokens", ("reasoning_tokens",)),
}


def _usages(reading: Reading, _: Dialect) -> str | None:
    return None if reading.usages else "no usage in it"


def _asked_is_known(reading: Reading, _: Dialect) -> str | None:
    if reading.recording.asked.include_usage is None:
        return "it is not known whether usage was asked for"
    return None if reading.chunks else "no chunk in it"


def _is_due(reading: Reading, dialect: Dialect) -> bool | None:
    asked = reading.recording.asked.include_usage
    if asked is None:
        return True if dialect.usage is UsageRule.ALWAYS else None
    return dialect.includes_usage(asked)


def _due(reading: Reading, dialect: Dialect) -> str | None:
    if reading.was_cut:
        return "the recording was cut"
    if reading.errors:
        return "an error ended it"
    is_due = _is_due(reading, dialect)
    if is_due is None:
        return "it is not known whether usage was asked for"
    if not is_due:
        return "usage was not asked for"
    if dialect.usage is UsageRule.ON_FINISH and all(part.finish is None for part in reading.parts):
        return "no finish chunk, on which it would be"
    return None if reading.chunks else "no chunk in it"


def _own_chunk(dialect: Dialect) -> bool:
    return dialect.usage is not UsageRule.ON_FINISH


def usage_of(frame: Frame) -> dict[str, Any]:
    found = (frame.document or {}).get("usage")
    return found if isinstance(found, dict) else {}


@USAGE.rule(
    "present",
    "Usage comes when it is due",
    text="An answer carries usage where it is due: when it was asked for, and in opentoken always.",
    why="Costs are counted from it; a client that waits for it books nothing.",
    source="docs/spec/dialects.md D11",
    value=lambda dialect: {
        UsageRule.ALWAYS: "always",
        UsageRule.ON_REQUEST: "with `stream_options.include_usage`",
        UsageRule.ON_FINISH: "with `stream_options.include_usage`, on the finish chunk",
    }[dialect.usage],
    odd_in=lambda dialect: dialect.usage is UsageRule.ON_FINISH,  # "Optional usage payload"
    needs=_due,
)
def present(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if not reading.usages:
        yield at(reading.chunks[-1], "no usage; this is the last chunk")


@USAGE.rule(
    "uninvited",
    "No usage that was not asked for",
    text="Without `stream_options.include_usage` no chunk carries usage.",
    why="A client that did not ask does not expect it; most ignore it.",
    source="docs/spec/dialects.md D11",
    severity=Severity.ODD,
    holds_for=lambda dialect: dialect.usage is not UsageRule.ALWAYS,
    needs=lambda reading, dialect: (
        "usage was asked for" if reading.recording.asked.include_usage else _asked_is_known(reading, dialect)
    ),
)
def uninvited(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.usages:
        yield at(frame, "usage that was not asked for", b'"usage"')
        return


@USAGE.rule(
    "once",
    "Usage comes once",
    text="One chunk of an answer carries usage, and no more.",
    why="Clients that add up what they see count tokens twice.",
    source="docs/spec/dialects.md A10; docs/spec/quirks.md W8",
    needs=_usages,
)
def once(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.usages[1:]:
        yield at(frame, "usage again", b'"usage"')


@USAGE.rule(
    "own-chunk",
    "Usage has a chunk of its own",
    text="Usage stands on a chunk whose `choices` is empty.",
    why="Clients that tell the usage chunk by its empty choices never read it elsewhere.",
    source="docs/spec/dialects.md D13",
    holds_for=_own_chunk,
    needs=_usages,
)
def own_chunk(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if not any((frame.document or {}).get("choices") == [] for frame in reading.usages):
        yield at(reading.usages[-1], "usage on a chunk with a choice", b'"usage"')


@USAGE.rule(
    "on-finish",
    "Usage rides on the finish chunk",
    text="Usage stands on the chunk with the finish reason.",
    why="Clients of this dialect stop reading there.",
    source="docs/spec/dialects.md D13",
    holds_for=lambda dialect: not _own_chunk(dialect),
    needs=_usages,
)
def on_finish(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.usages:
        if not any(choice.get("finish_reason") for choice in choices_of(frame)):
            yield at(frame, "usage on a chunk without a finish reason", b'"usage"')


@USAGE.rule(
    "last",
    "Usage is the last chunk",
    text="The usage chunk comes after the finish of every choice; only the end follows it.",
    why="Clients that close the message at usage lose what follows, and earlier counts are not the final ones.",
    source="docs/spec/dialects.md D13",
    holds_for=_own_chunk,
    needs=_usages,
)
def last(reading: Reading, _: Dialect) -> Iterator[Violation]:
    newest = reading.usages[-1]
    if any(frame.number > newest.number for frame in reading.chunks):
        yield at(newest, "chunks follow the usage chunk", b'"usage"')


@USAGE.rule(
    "counts",
    "The counts are counts",
    text="`prompt_tokens`, `completion_tokens` and `total_tokens` are integers, 0 or more.",
    why="They are added up and billed.",
    source="docs/spec/dialects.md A11",
    needs=_usages,
)
def counts(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.usages:
        names = [name for name in COUNTS if not is_count(usage_of(frame).get(name))]
        if names:
            found = {name: usage_of(frame).get(name) for name in names}
            yield at(frame, f"no count: {shown(found)}", b'"usage"')


@USAGE.rule(
    "sum",
    "The total is the sum",
    text="`total_tokens` is `prompt_tokens` and `completion_tokens` together.",
    why="What is billed depends on which of them a client reads.",
    source="docs/spec/dialects.md A11",
    needs=_usages,
)
def total(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.usages:
        usage = usage_of(frame)
        if sums_differ(usage):
            prompt, completion, told = (usage[name] for name in COUNTS)
            yield at(frame, f"{prompt} and {completion} are not {told}", b'"usage"')


def sums_differ(usage: dict[str, Any]) -> bool:
    """Where all three are counts."""
    if not all(is_count(usage.get(name)) for name in COUNTS):
        return False
    return bool(usage["prompt_tokens"] + usage["completion_tokens"] != usage["total_tokens"])


@USAGE.rule(
    "some",
    "An answer costs something",
    text="`completion_tokens` is not 0 where text or calls were sent.",
    why="The answer is booked as free.",
    source="docs/spec/dialects.md A11",
    severity=Severity.ODD,
    needs=_usages,
)
def some(reading: Reading, _: Dialect) -> Iterator[Violation]:
    has_answer = any(part.delta.get("content") or part.delta.get("tool_calls") for part in reading.parts)
    newest = reading.usages[-1]
    if has_answer and usage_of(newest).get("completion_tokens") == 0:
        yield at(newest, "`completion_tokens` is 0", b'"usage"')


@USAGE.rule(
    "details",
    "Details are counts",
    text="`prompt_tokens_details` and `completion_tokens_details`, where they are, are objects of integers.",
    why="Typed clients refuse the chunk, and the usage with it.",
    source="docs/spec/dialects.md D14",
    needs=_usages,
)
def details(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    known = {*(dialect.prompt_details or {}), *(dialect.completion_details or {}), "cached_tokens", "reasoning_tokens"}
    for frame in reading.usages:
        for name in _DETAILS:
            found = usage_of(frame).get(name)
            if found is None:
                continue
            if not isinstance(found, dict):
                yield at(frame, f"`{name}` is {shown(found)}", name.encode())
            elif any(value is not None and not is_count(value) for key, value in found.items() if key in known):
                yield at(frame, f"`{name}` holds {shown(found)}", name.encode())


@USAGE.rule(
    "details-are-parts",
    "Details are parts of their counts",
    text="`cached_tokens` is at most `prompt_tokens`, `reasoning_tokens` at most `completion_tokens`.",
    why="A client that bills the parts apart gets a negative rest.",
    source="docs/spec/dialects.md A11",
    needs=_usages,
)
def details_are_parts(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.usages:
        usage = usage_of(frame)
        for name, (whole, members) in _PARTS.items():
            found = usage.get(name)
            if not isinstance(found, dict):
                continue
            for member in members:
                part = found.get(member)
                if is_count(part) and is_count(usage.get(whole)) and part > usage[whole]:
                    yield at(frame, f"`{member}` is {part}, `{whole}` is {usage[whole]}", member.encode())


@USAGE.rule(
    "details-known",
    "Details are the dialect's",
    text="Usage has the details of this dialect and no others, and no empty object.",
    why="A client of this dialect does not know the others.",
    source="docs/spec/dialects.md D14",
    severity=Severity.ODD,
    holds_for=lambda dialect: not dialect.full_details,
    value=lambda dialect: (
        words(sorted({*(dialect.prompt_details or {}), *(dialect.completion_details or {})}))
        if dialect.prompt_details
        else "the three counts alone"
    ),
    needs=_usages,
)
def details_known(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    allowed = {
        "prompt_tokens_details": set(dialect.prompt_details or {}),
        "completion_tokens_details": set(dialect.completion_details or {}),
    }
    for frame in reading.usages:
        for name, value in usage_of(frame).items():
            if name in COUNTS:
                continue
            if name not in allowed:
                yield at(frame, f"a member {shown(name)}", b'"usage"')
            elif isinstance(value, dict) and (not value or not set(value) <= allowed[name]):
                yield at(frame, f"`{name}` is {shown(value)}", name.encode())


@USAGE.rule(
    "null-before",
    "Usage is null until it comes",
    text='With usage asked for, every chunk before the usage chunk carries `"usage":null`.',
    why="The real service sends it; some typed clients of it expect the member on every chunk.",
    source="docs/spec/dialects.md D12",
    severity=Severity.ODD,
    holds_for=lambda dialect: dialect.null_usage,
    needs=lambda reading, dialect: (
        _asked_is_known(reading, dialect) if reading.recording.asked.include_usage in (None, True) else "not asked for"
    ),
)
def null_before(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.chunks:
        if "usage" not in (frame.document or {}):
            yield at(frame, "no member `usage`")
            return


@USAGE.rule(
    "no-null",
    "No empty usage",
    text="Where usage has no place, no chunk has the member `usage`, not even null.",
    why="A client that asks whether the member is there, and not what it is, takes this for the usage chunk.",
    source="docs/spec/dialects.md D12",
    severity=Severity.ODD,
    needs=lambda reading, dialect: (
        _asked_is_known(reading, dialect) if dialect.null_usage else None if reading.chunks else "no chunk in it"
    ),
)
def no_null(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    if dialect.null_usage and reading.recording.asked.include_usage:
        return
    for frame in reading.chunks:
        document = frame.document or {}
        if "usage" in document and document["usage"] is None:
            yield at(frame, "`usage` is null", b'"usage"')
            return
