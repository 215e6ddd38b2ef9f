"""Usage: when it comes, where it stands, and that its numbers can be."""

from collections.abc import Iterator
from typing import Any

from streamweir.conformance.parsed_answer import Frame, ParsedAnswer, choices_of, is_count
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, quote, quote_names, violation_in
from streamweir.frontends.chat.dialect import Dialect, UsageRule

USAGE = RuleGroup("usage")

COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAILS = ("prompt_tokens_details", "completion_tokens_details")
_PARTS = {
    "prompt_tokens_details": ("prompt_tokens", ("cached_tokens",)),
    "completion_tokens_details": ("completion_tokens", ("reasoning_tokens",)),
}


def _no_usage(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if answer.usages else "no usage in it"


def _unknown_request(answer: ParsedAnswer, _: Dialect) -> str | None:
    if answer.recording.request.include_usage is None:
        return "it is not known whether usage was asked for"
    return None if answer.chunks else "no chunk in it"


def _is_due(answer: ParsedAnswer, dialect: Dialect) -> bool | None:
    requested = answer.recording.request.include_usage
    if requested is None:
        return True if dialect.usage is UsageRule.ALWAYS else None
    return dialect.includes_usage(requested)


def _not_due(answer: ParsedAnswer, dialect: Dialect) -> str | None:
    if answer.was_cut:
        return "the recording was cut"
    if answer.errors:
        return "an error ended it"
    is_due = _is_due(answer, dialect)
    if is_due is None:
        return "it is not known whether usage was asked for"
    if not is_due:
        return "usage was not asked for"
    if dialect.usage is UsageRule.ON_FINISH and all(part.finish is None for part in answer.parts):
        return "no finish chunk, on which it would be"
    return None if answer.chunks else "no chunk in it"


def _has_own_chunk(dialect: Dialect) -> bool:
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
    skip_reason=_not_due,
)
def present(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if not answer.usages:
        yield violation_in(answer.chunks[-1], "no usage; this is the last chunk")


@USAGE.rule(
    "uninvited",
    "No usage that was not asked for",
    text="Without `stream_options.include_usage` no chunk carries usage.",
    why="A client that did not ask does not expect it; most ignore it.",
    source="docs/spec/dialects.md D11",
    severity=Severity.ODD,
    applies_to=lambda dialect: dialect.usage is not UsageRule.ALWAYS,
    skip_reason=lambda answer, dialect: (
        "usage was asked for" if answer.recording.request.include_usage else _unknown_request(answer, dialect)
    ),
)
def uninvited(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.usages:
        yield violation_in(frame, "usage that was not asked for", b'"usage"')
        return


@USAGE.rule(
    "once",
    "Usage comes once",
    text="One chunk of an answer carries usage, and no more.",
    why="Clients that add up what they see count tokens twice.",
    source="docs/spec/dialects.md A10; docs/spec/quirks.md W8",
    skip_reason=_no_usage,
)
def once(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.usages[1:]:
        yield violation_in(frame, "usage again", b'"usage"')


@USAGE.rule(
    "own-chunk",
    "Usage has a chunk of its own",
    text="Usage stands on a chunk whose `choices` is empty.",
    why="Clients that tell the usage chunk by its empty choices never read it elsewhere.",
    source="docs/spec/dialects.md D13",
    applies_to=_has_own_chunk,
    skip_reason=_no_usage,
)
def own_chunk(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if not any((frame.document or {}).get("choices") == [] for frame in answer.usages):
        yield violation_in(answer.usages[-1], "usage on a chunk with a choice", b'"usage"')


@USAGE.rule(
    "on-finish",
    "Usage rides on the finish chunk",
    text="Usage stands on the chunk with the finish reason.",
    why="Clients of this dialect stop reading there.",
    source="docs/spec/dialects.md D13",
    applies_to=lambda dialect: not _has_own_chunk(dialect),
    skip_reason=_no_usage,
)
def on_finish(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.usages:
        if not any(choice.get("finish_reason") for choice in choices_of(frame)):
            yield violation_in(frame, "usage on a chunk without a finish reason", b'"usage"')


@USAGE.rule(
    "last",
    "Usage is the last chunk",
    text="The usage chunk comes after the finish of every choice; only the end follows it.",
    why="Clients that close the message at usage lose what follows, and earlier counts are not the final ones.",
    source="docs/spec/dialects.md D13",
    applies_to=_has_own_chunk,
    skip_reason=_no_usage,
)
def last(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    last_usage = answer.usages[-1]
    if any(frame.number > last_usage.number for frame in answer.chunks):
        yield violation_in(last_usage, "chunks follow the usage chunk", b'"usage"')


@USAGE.rule(
    "counts",
    "The counts are counts",
    text="`prompt_tokens`, `completion_tokens` and `total_tokens` are integers, 0 or more.",
    why="They are added up and billed.",
    source="docs/spec/dialects.md A11",
    skip_reason=_no_usage,
)
def counts(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.usages:
        names = [name for name in COUNTS if not is_count(usage_of(frame).get(name))]
        if names:
            found = {name: usage_of(frame).get(name) for name in names}
            yield violation_in(frame, f"no count: {quote(found)}", b'"usage"')


@USAGE.rule(
    "sum",
    "The total is the sum",
    text="`total_tokens` is `prompt_tokens` and `completion_tokens` together.",
    why="What is billed depends on which of them a client reads.",
    source="docs/spec/dialects.md A11",
    skip_reason=_no_usage,
)
def total(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.usages:
        usage = usage_of(frame)
        if has_wrong_sum(usage):
            prompt, completion, reported = (usage[name] for name in COUNTS)
            yield violation_in(frame, f"{prompt} and {completion} are not {reported}", b'"usage"')


def has_wrong_sum(usage: dict[str, Any]) -> bool:
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
    skip_reason=_no_usage,
)
def some(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    has_answer = any(part.delta.get("content") or part.delta.get("tool_calls") for part in answer.parts)
    last_usage = answer.usages[-1]
    if has_answer and usage_of(last_usage).get("completion_tokens") == 0:
        yield violation_in(last_usage, "`completion_tokens` is 0", b'"usage"')


@USAGE.rule(
    "details",
    "Details are counts",
    text="`prompt_tokens_details` and `completion_tokens_details`, where they are, are objects of integers.",
    why="Typed clients refuse the chunk, and the usage with it.",
    source="docs/spec/dialects.md D14",
    skip_reason=_no_usage,
)
def details(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    known = {*(dialect.prompt_details or {}), *(dialect.completion_details or {}), "cached_tokens", "reasoning_tokens"}
    for frame in answer.usages:
        for name in _DETAILS:
            found = usage_of(frame).get(name)
            if found is None:
                continue
            if not isinstance(found, dict):
                yield violation_in(frame, f"`{name}` is {quote(found)}", name.encode())
            elif any(value is not None and not is_count(value) for key, value in found.items() if key in known):
                yield violation_in(frame, f"`{name}` holds {quote(found)}", name.encode())


@USAGE.rule(
    "details-are-parts",
    "Details are parts of their counts",
    text="`cached_tokens` is at most `prompt_tokens`, `reasoning_tokens` at most `completion_tokens`.",
    why="A client that bills the parts apart gets a negative rest.",
    source="docs/spec/dialects.md A11",
    skip_reason=_no_usage,
)
def details_are_parts(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.usages:
        usage = usage_of(frame)
        for name, (whole, members) in _PARTS.items():
            found = usage.get(name)
            if not isinstance(found, dict):
                continue
            for member in members:
                part = found.get(member)
                if is_count(part) and is_count(usage.get(whole)) and part > usage[whole]:
                    yield violation_in(frame, f"`{member}` is {part}, `{whole}` is {usage[whole]}", member.encode())


@USAGE.rule(
    "details-known",
    "Details are the dialect's",
    text="Usage has the details of this dialect and no others, and no empty object.",
    why="A client of this dialect does not know the others.",
    source="docs/spec/dialects.md D14",
    severity=Severity.ODD,
    applies_to=lambda dialect: not dialect.full_details,
    value=lambda dialect: (
        quote_names(sorted({*(dialect.prompt_details or {}), *(dialect.completion_details or {})}))
        if dialect.prompt_details
        else "the three counts alone"
    ),
    skip_reason=_no_usage,
)
def details_known(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    allowed = {
        "prompt_tokens_details": set(dialect.prompt_details or {}),
        "completion_tokens_details": set(dialect.completion_details or {}),
    }
    for frame in answer.usages:
        for name, value in usage_of(frame).items():
            if name in COUNTS:
                continue
            if name not in allowed:
                yield violation_in(frame, f"a member {quote(name)}", b'"usage"')
            elif isinstance(value, dict) and (not value or not set(value) <= allowed[name]):
                yield violation_in(frame, f"`{name}` is {quote(value)}", name.encode())


@USAGE.rule(
    "null-before",
    "Usage is null until it comes",
    text='With usage asked for, every chunk before the usage chunk carries `"usage":null`.',
    why="The real service sends it; some typed clients of it expect the member on every chunk.",
    source="docs/spec/dialects.md D12",
    severity=Severity.ODD,
    applies_to=lambda dialect: dialect.null_usage,
    skip_reason=lambda answer, dialect: (
        _unknown_request(answer, dialect) if answer.recording.request.include_usage in (None, True) else "not asked for"
    ),
)
def null_before(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.chunks:
        if "usage" not in (frame.document or {}):
            yield violation_in(frame, "no member `usage`")
            return


@USAGE.rule(
    "no-null",
    "No empty usage",
    text="Where usage has no place, no chunk has the member `usage`, not even null.",
    why="A client that asks whether the member is there, and not what it is, takes this for the usage chunk.",
    source="docs/spec/dialects.md D12",
    severity=Severity.ODD,
    skip_reason=lambda answer, dialect: (
        _unknown_request(answer, dialect) if dialect.null_usage else None if answer.chunks else "no chunk in it"
    ),
)
def no_null(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    if dialect.null_usage and answer.recording.request.include_usage:
        return
    for frame in answer.chunks:
        document = frame.document or {}
        if "usage" in document and document["usage"] is None:
            yield violation_in(frame, "`usage` is null", b'"usage"')
            return
