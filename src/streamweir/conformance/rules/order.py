"""Order: the phases of a stream, from the role to the terminator, and how a choice finishes."""

from collections.abc import Iterator

from streamweir.conformance.parsed_answer import Frame, ParsedAnswer, Part, choices_of
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, quote, quote_names, violation_in
from streamweir.frontends.chat.dialect import Dialect

ORDER = RuleGroup("order")
FINISH = RuleGroup("finish")
END = RuleGroup("end")

_TEXT = ("content", "reasoning_content", "refusal")


def _no_parts(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if answer.parts else "no choice in it"


def _not_ended(answer: ParsedAnswer, dialect: Dialect) -> str | None:
    return "the recording was cut" if answer.was_cut else _no_parts(answer, dialect)


def _no_finish(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if any(part.finish is not None for part in answer.parts) else "no finish reason in it"


def _has_role(dialect: Dialect) -> bool:
    return dialect.first_delta is not None


def _has_terminator(dialect: Dialect) -> bool:
    return bool(dialect.terminator)


def content_members(part: Part) -> list[str]:
    """The members of a delta that contain a part of the answer."""
    text_members = [name for name in _TEXT if isinstance(part.delta.get(name), str) and part.delta[name]]
    return text_members + [name for name in ("tool_calls", "function_call") if part.delta.get(name)]


@ORDER.rule(
    "answer",
    "Something is answered",
    text="A stream has a chunk with a choice, or an error, before it ends.",
    why="The client shows an empty answer, and nobody learns that something went wrong.",
    source="docs/spec/dialects.md A4",
    skip_reason=lambda answer, _: (
        "the recording was cut" if answer.was_cut else None if answer.data_frames else "no frame in it"
    ),
)
def has_answer(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if not answer.errors and not any(choices_of(frame) for frame in answer.chunks):
        yield violation_in(answer.data_frames[-1], "no choice and no error; this is the last frame")


@ORDER.rule(
    "role-first",
    "The role comes first",
    text="The first delta of each choice carries `role`.",
    why="Clients begin the message with it; without it some keep a message that has no role.",
    source="docs/spec/dialects.md D8",
    applies_to=_has_role,
    skip_reason=_no_parts,
)
def role_first(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for index, parts in answer.parts_by_choice().items():
        if parts[0].delta.get("role") is None:
            yield violation_in(parts[0].frame, f"the first delta of choice {index} has no role", b'"delta"')


@ORDER.rule(
    "role-once",
    "The role comes once",
    text="`role` stands on the first delta of a choice and on no other.",
    why="Clients that join deltas member by member get `assistantassistant`.",
    source="docs/spec/dialects.md D8",
    applies_to=_has_role,
    skip_reason=_no_parts,
)
def role_once(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for index, parts in answer.parts_by_choice().items():
        for part in parts[1:]:
            if part.delta.get("role") is not None:
                yield violation_in(part.frame, f"the role of choice {index} again", b'"role"')


@ORDER.rule(
    "role-word",
    "The role is `assistant`",
    text="`role` is `assistant`.",
    why="It is the only role that an answer can have; typed clients refuse another.",
    source="docs/spec/dialects.md D8",
    applies_to=_has_role,
    skip_reason=_no_parts,
)
def role_word(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        role = part.delta.get("role")
        if role is not None and role != "assistant":
            yield violation_in(part.frame, f"`role` is {quote(role)}", b'"role"')


@ORDER.rule(
    "no-role",
    "No role",
    text="A delta has no `role`: this dialect's has none.",
    why="A client of this dialect does not know the member.",
    source="docs/spec/dialects.md D8",
    severity=Severity.ODD,
    applies_to=lambda dialect: not _has_role(dialect),
    skip_reason=_no_parts,
)
def no_role(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        if "role" in part.delta:
            yield violation_in(part.frame, "a member `role`", b'"role"')


@ORDER.rule(
    "role-alone",
    "The first delta carries no text",
    text="The delta that carries the role carries no text yet.",
    why="Clients that take the first chunk for the announcement of the role lose its text.",
    source="docs/spec/dialects.md D8",
    severity=Severity.ODD,
    applies_to=_has_role,
    value=lambda dialect: "`" + repr(dict(dialect.first_delta or {})).replace("'", '"') + "`",
    skip_reason=_no_parts,
)
def role_alone(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for index, parts in answer.parts_by_choice().items():
        text_members = [name for name in content_members(parts[0]) if name in _TEXT]
        if parts[0].delta.get("role") is not None and text_members:
            yield violation_in(
                parts[0].frame, f"the first delta of choice {index} carries {quote_names(text_members)}", b'"delta"'
            )


@ORDER.rule(
    "nothing-after-finish",
    "Nothing after the finish",
    text="After its finish reason a choice says nothing more.",
    why="Clients stop reading a choice at its finish reason: what follows is lost.",
    source="docs/spec/dialects.md A7",
    skip_reason=_no_finish,
)
def nothing_after_finish(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for index, parts in answer.parts_by_choice().items():
        has_finished = False
        for part in parts:
            if has_finished and content_members(part):
                yield violation_in(
                    part.frame,
                    f"choice {index} had finished, and says {quote_names(content_members(part))}",
                    b'"delta"',
                )
            has_finished = has_finished or part.finish is not None


@FINISH.rule(
    "present",
    "Every choice finishes",
    text="Every choice has a finish reason, unless an error ends the stream.",
    why="Without it an answer that was cut looks like a whole one.",
    source="docs/spec/dialects.md A7",
    # bitseek's document allows the close of the connection as the end of an answer, too ("and/or").
    applies_to=_has_terminator,
    skip_reason=lambda answer, dialect: "an error ended it" if answer.errors else _not_ended(answer, dialect),
)
def finish_present(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for index, parts in answer.parts_by_choice().items():
        if all(part.finish is None for part in parts):
            yield violation_in(parts[-1].frame, f"choice {index} has no finish reason; this is its last chunk")


@FINISH.rule(
    "once",
    "A choice finishes once",
    text="A choice has exactly one chunk with a finish reason.",
    why="Clients that act on the finish (run the tools, close the message) act twice.",
    source="docs/spec/dialects.md A7; docs/spec/quirks.md W7",
    skip_reason=_no_finish,
)
def finish_once(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for index, parts in answer.parts_by_choice().items():
        for part in [part for part in parts if part.finish is not None][1:]:
            yield violation_in(part.frame, f"choice {index} finishes again: {quote(part.finish)}", b'"finish_reason"')


@FINISH.rule(
    "word",
    "The finish reason is a known word",
    text="`finish_reason` is one of the dialect's words.",
    why="Clients choose what to do next by it; with an unknown word they do nothing, or raise.",
    source="docs/spec/dialects.md D10",
    value=lambda dialect: quote_names(sorted(set(dialect.finish_reasons.values()))),
    skip_reason=_no_finish,
)
def finish_word(answer: ParsedAnswer, dialect: Dialect) -> Iterator[Violation]:
    known = set(dialect.finish_reasons.values())
    for part in answer.parts:
        if part.finish is not None and part.finish not in known:
            yield violation_in(part.frame, f"`finish_reason` is {quote(part.finish)}", b'"finish_reason"')


@FINISH.rule(
    "delta",
    "The finish chunk's delta is empty",
    text="The chunk with the finish reason carries nothing else of the answer.",
    why="Clients that look at the finish reason first pass over the chunk's text or call.",
    source="docs/spec/dialects.md D9",
    severity=Severity.ODD,
    value=lambda dialect: "`" + repr(dict(dialect.finish_delta)).replace("'", '"') + "`",
    skip_reason=_no_finish,
)
def finish_delta(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        if part.finish is not None and content_members(part):
            yield violation_in(part.frame, f"the finish chunk carries {quote_names(content_members(part))}", b'"delta"')


@FINISH.rule(
    "calls-were-sent",
    "`tool_calls` follows calls",
    text="An answer that finishes with `tool_calls` (or `function_call`) has sent a call.",
    why="The client goes to run the tools, and there are none: the conversation is stuck.",
    source="docs/spec/dialects.md D10",
    skip_reason=_no_finish,
)
def calls_were_sent(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for index, parts in answer.parts_by_choice().items():
        finish = next((part for part in parts if part.finish in ("tool_calls", "function_call")), None)
        if finish is not None and not any(
            {"tool_calls", "function_call"} & set(content_members(part)) for part in parts
        ):
            yield violation_in(finish.frame, f"choice {index} sent no call", b'"finish_reason"')


@FINISH.rule(
    "says-calls",
    "Calls finish with `tool_calls`",
    text="An answer that has sent a call and is complete does not finish with `stop`.",
    why="Clients look for calls when the finish says so. (Where a tool was forced, the real service says `stop`.)",
    source="docs/spec/dialects.md D10",
    severity=Severity.ODD,
    skip_reason=lambda answer, dialect: _no_finish(answer, dialect) if answer.calls else "no tool call in it",
)
def says_calls(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for index, parts in answer.parts_by_choice().items():
        finish = next((part for part in parts if part.finish is not None), None)
        if (
            finish is not None
            and finish.finish == "stop"
            and any("tool_calls" in content_members(part) for part in parts)
        ):
            yield violation_in(finish.frame, f"choice {index} sent a call and finishes with `stop`", b'"finish_reason"')


@END.rule(
    "done",
    "The terminator comes",
    text="The stream ends with `data: [DONE]`, also after an error.",
    why="Without it an answer whose connection broke looks like a whole one.",
    source="docs/spec/dialects.md D25",
    applies_to=_has_terminator,
    value=lambda _: "`data: [DONE]`",
    skip_reason=lambda answer, _: (
        "the recording was cut" if answer.was_cut else None if answer.data_frames else "no frame in it"
    ),
)
def done(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if not answer.terminators:
        yield violation_in(answer.data_frames[-1], "no `[DONE]`; this is the last frame")


@END.rule(
    "done-spelling",
    "The terminator is spelled as it is",
    text="The terminator is the six characters `[DONE]` and nothing else.",
    why="Clients compare it letter by letter, and parse everything else as JSON.",
    source="docs/spec/dialects.md D25",
    applies_to=_has_terminator,
    skip_reason=lambda answer, _: None if answer.terminators else "no terminator in it",
)
def done_spelling(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.terminators:
        if (frame.data or b"").lstrip(b" ") != b"[DONE]":  # for too many spaces before it there is another rule
            yield violation_in(frame, f"the terminator is {quote(frame.data)}")


@END.rule(
    "done-once",
    "One terminator",
    text="`[DONE]` comes once.",
    why="Clients that read on take the second for a frame of the next answer on the connection.",
    source="docs/spec/dialects.md A8",
    applies_to=_has_terminator,
    skip_reason=lambda answer, _: None if answer.terminators else "no terminator in it",
)
def done_once(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.terminators[1:]:
        yield violation_in(frame, "another `[DONE]`")


@END.rule(
    "done-last",
    "Nothing after the terminator",
    text="No frame follows `[DONE]`.",
    why="Clients close the connection there: what follows, usage for one, is lost to most and confuses the others.",
    source="docs/spec/dialects.md A8",
    applies_to=_has_terminator,
    skip_reason=lambda answer, _: None if answer.terminators else "no terminator in it",
)
def done_last(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in _after(answer, answer.terminators[0]):
        if not frame.is_terminator:
            yield violation_in(frame, "a frame after `[DONE]`")


@END.rule(
    "no-done",
    "No terminator",
    text="There is no `[DONE]`: every `data:` line is JSON, and the finish chunk or the close is the end.",
    why="A client of this dialect parses each line as JSON and raises at `[DONE]`.",
    source="docs/spec/dialects.md D25",
    applies_to=lambda dialect: not _has_terminator(dialect),
)
def no_done(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.terminators:
        yield violation_in(frame, "a `[DONE]`")


@END.rule(
    "finish-last",
    "Nothing after the finish chunk",
    text="The chunk with the finish reason is the last frame: the close follows.",
    why="Clients of this dialect stop at the finish reason, and never see what follows it.",
    source="docs/spec/dialects.md D25",
    applies_to=lambda dialect: not _has_terminator(dialect),
    skip_reason=_no_finish,
)
def finish_last(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    finish = next(part for part in answer.parts if part.finish is not None)
    errors = {frame.number for frame in answer.errors}
    for frame in _after(answer, finish.frame):
        if not frame.is_terminator and frame.number not in errors:
            yield violation_in(frame, "a frame after the finish chunk")
            return


def _after(answer: ParsedAnswer, last: Frame) -> list[Frame]:
    return [frame for frame in answer.data_frames if frame.number > last.number]
