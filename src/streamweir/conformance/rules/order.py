"""Order: the phases of a stream, from the role to the terminator, and how a choice finishes."""

from collections.abc import Iterator

from streamweir.conformance.parsed_answer import Frame, Part, Reading, choices_of
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import Chapter, at, shown, words
from streamweir.frontends.chat.dialect import Dialect

ORDER = Chapter("order")
FINISH = Chapter("finish")
END = Chapter("end")

_TEXT = ("content", "reasoning_content", "refusal")


def _parts(reading: Reading, _: Dialect) -> str | None:
    return None if reading.parts else "no choice in it"


def _ended(reading: Reading, dialect: Dialect) -> str | None:
    return "the recording was cut" if reading.was_cut else _parts(reading, dialect)


def _finished(reading: Reading, _: Dialect) -> str | None:
    return None if any(part.finish is not None for part in reading.parts) else "no finish reason in it"


def _has_role(dialect: Dialect) -> bool:
    return dialect.first_delta is not None


def _ends_with_done(dialect: Dialect) -> bool:
    return bool(dialect.terminator)


def says(part: Part) -> list[str]:
    """The members of a delta that carry something of the answer."""
    said = [name for name in _TEXT if isinstance(part.delta.get(name), str) and part.delta[name]]
    return said + [name for name in ("tool_calls", "function_call") if part.delta.get(name)]


@ORDER.rule(
    "answer",
    "Something is answered",
    text="A stream has a chunk with a choice, or an error, before it ends.",
    why="The client shows an empty answer, and nobody learns that something went wrong.",
    source="docs/spec/dialects.md A4",
    needs=lambda reading, _: (
        "the recording was cut" if reading.was_cut else None if reading.data_frames else "no frame in it"
    ),
)
def answer(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if not reading.errors and not any(choices_of(frame) for frame in reading.chunks):
        yield at(reading.data_frames[-1], "no choice and no error; this is the last frame")


@ORDER.rule(
    "role-first",
    "The role comes first",
    text="The first delta of each choice carries `role`.",
    why="Clients begin the message with it; without it some keep a message that has no role.",
    source="docs/spec/dialects.md D8",
    holds_for=_has_role,
    needs=_parts,
)
def role_first(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for index, parts in reading.parts_of().items():
        if parts[0].delta.get("role") is None:
            yield at(parts[0].frame, f"the first delta of choice {index} has no role", b'"delta"')


@ORDER.rule(
    "role-once",
    "The role comes once",
    text="`role` stands on the first delta of a choice and on no other.",
    why="Clients that join deltas member by member get `assistantassistant`.",
    source="docs/spec/dialects.md D8",
    holds_for=_has_role,
    needs=_parts,
)
def role_once(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for index, parts in reading.parts_of().items():
        for part in parts[1:]:
            if part.delta.get("role") is not None:
                yield at(part.frame, f"the role of choice {index} again", b'"role"')


@ORDER.rule(
    "role-word",
    "The role is `assistant`",
    text="`role` is `assistant`.",
    why="It is the only role that an answer can have; typed clients refuse another.",
    source="docs/spec/dialects.md D8",
    holds_for=_has_role,
    needs=_parts,
)
def role_word(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for part in reading.parts:
        role = part.delta.get("role")
        if role is not None and role != "assistant":
            yield at(part.frame, f"`role` is {shown(role)}", b'"role"')


@ORDER.rule(
    "no-role",
    "No role",
    text="A delta has no `role`: this dialect's has none.",
    why="A client of this dialect does not know the member.",
    source="docs/spec/dialects.md D8",
    severity=Severity.ODD,
    holds_for=lambda dialect: not _has_role(dialect),
    needs=_parts,
)
def no_role(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for part in reading.parts:
        if "role" in part.delta:
            yield at(part.frame, "a member `role`", b'"role"')


@ORDER.rule(
    "role-alone",
    "The first delta carries no text",
    text="The delta that carries the role carries no text yet.",
    why="Clients that take the first chunk for the announcement of the role lose its text.",
    source="docs/spec/dialects.md D8",
    severity=Severity.ODD,
    holds_for=_has_role,
    value=lambda dialect: "`" + repr(dict(dialect.first_delta or {})).replace("'", '"') + "`",
    needs=_parts,
)
def role_alone(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for index, parts in reading.parts_of().items():
        said = [name for name in says(parts[0]) if name in _TEXT]
        if parts[0].delta.get("role") is not None and said:
            yield at(parts[0].frame, f"the first delta of choice {index} carries {words(said)}", b'"delta"')


@ORDER.rule(
    "nothing-after-finish",
    "Nothing after the finish",
    text="After its finish reason a choice says nothing more.",
    why="Clients stop reading a choice at its finish reason: what follows is lost.",
    source="docs/spec/dialects.md A7",
    needs=_finished,
)
def nothing_after_finish(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for index, parts in reading.parts_of().items():
        has_finished = False
        for part in parts:
            if has_finished and says(part):
                yield at(part.frame, f"choice {index} had finished, and says {words(says(part))}", b'"delta"')
            has_finished = has_finished or part.finish is not None


@FINISH.rule(
    "present",
    "Every choice finishes",
    text="Every choice has a finish reason, unless an error ends the stream.",
    why="Without it a whole answer cannot be told from one that was cut.",
    source="docs/spec/dialects.md A7",
    # bitseek's document lets the connection's close end an answer too ("and/or").
    holds_for=_ends_with_done,
    needs=lambda reading, dialect: "an error ended it" if reading.errors else _ended(reading, dialect),
)
def finish_present(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for index, parts in reading.parts_of().items():
        if all(part.finish is None for part in parts):
            yield at(parts[-1].frame, f"choice {index} has no finish reason; this is its last chunk")


@FINISH.rule(
    "once",
    "A choice finishes once",
    text="A choice has exactly one chunk with a finish reason.",
    why="Clients that act on the finish (run the tools, close the message) act twice.",
    source="docs/spec/dialects.md A7; docs/spec/quirks.md W7",
    needs=_finished,
)
def finish_once(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for index, parts in reading.parts_of().items():
        for part in [part for part in parts if part.finish is not None][1:]:
            yield at(part.frame, f"choice {index} finishes again: {shown(part.finish)}", b'"finish_reason"')


@FINISH.rule(
    "word",
    "The finish reason is a known word",
    text="`finish_reason` is one of the dialect's words.",
    why="Clients choose what to do next by it; with an unknown word they do nothing, or raise.",
    source="docs/spec/dialects.md D10",
    value=lambda dialect: words(sorted(set(dialect.finish_reasons.values()))),
    needs=_finished,
)
def finish_word(reading: Reading, dialect: Dialect) -> Iterator[Violation]:
    known = set(dialect.finish_reasons.values())
    for part in reading.parts:
        if part.finish is not None and part.finish not in known:
            yield at(part.frame, f"`finish_reason` is {shown(part.finish)}", b'"finish_reason"')


@FINISH.rule(
    "delta",
    "The finish chunk's delta is empty",
    text="The chunk with the finish reason carries nothing else of the answer.",
    why="Clients that look at the finish reason first pass over the chunk's text or call.",
    source="docs/spec/dialects.md D9",
    severity=Severity.ODD,
    value=lambda dialect: "`" + repr(dict(dialect.finish_delta)).replace("'", '"') + "`",
    needs=_finished,
)
def finish_delta(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for part in reading.parts:
        if part.finish is not None and says(part):
            yield at(part.frame, f"the finish chunk carries {words(says(part))}", b'"delta"')


@FINISH.rule(
    "calls-were-sent",
    "`tool_calls` follows calls",
    text="An answer that finishes with `tool_calls` (or `function_call`) has sent a call.",
    why="The client goes to run the tools, and there are none: the conversation is stuck.",
    source="docs/spec/dialects.md D10",
    needs=_finished,
)
def calls_were_sent(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for index, parts in reading.parts_of().items():
        finish = next((part for part in parts if part.finish in ("tool_calls", "function_call")), None)
        if finish is not None and not any({"tool_calls", "function_call"} & set(says(part)) for part in parts):
            yield at(finish.frame, f"choice {index} sent no call", b'"finish_reason"')


@FINISH.rule(
    "says-calls",
    "Calls finish with `tool_calls`",
    text="An answer that has sent a call and is complete does not finish with `stop`.",
    why="Clients look for calls when the finish says so. (Where a tool was forced, the real service says `stop`.)",
    source="docs/spec/dialects.md D10",
    severity=Severity.ODD,
    needs=lambda reading, dialect: _finished(reading, dialect) if reading.calls else "no tool call in it",
)
def says_calls(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for index, parts in reading.parts_of().items():
        finish = next((part for part in parts if part.finish is not None), None)
        if finish is not None and finish.finish == "stop" and any("tool_calls" in says(part) for part in parts):
            yield at(finish.frame, f"choice {index} sent a call and finishes with `stop`", b'"finish_reason"')


@END.rule(
    "done",
    "The terminator comes",
    text="The stream ends with `data: [DONE]`, also after an error.",
    why="Without it a whole answer cannot be told from one whose connection broke.",
    source="docs/spec/dialects.md D25",
    holds_for=_ends_with_done,
    value=lambda _: "`data: [DONE]`",
    needs=lambda reading, _: (
        "the recording was cut" if reading.was_cut else None if reading.data_frames else "no frame in it"
    ),
)
def done(reading: Reading, _: Dialect) -> Iterator[Violation]:
    if not reading.dones:
        yield at(reading.data_frames[-1], "no `[DONE]`; this is the last frame")


@END.rule(
    "done-spelling",
    "The terminator is spelled as it is",
    text="The terminator is the six characters `[DONE]` and nothing else.",
    why="Clients compare it letter by letter, and parse everything else as JSON.",
    source="docs/spec/dialects.md D25",
    holds_for=_ends_with_done,
    needs=lambda reading, _: None if reading.dones else "no terminator in it",
)
def done_spelling(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.dones:
        if (frame.data or b"").lstrip(b" ") != b"[DONE]":  # too many spaces before it are another rule's
            yield at(frame, f"the terminator is {shown(frame.data)}")


@END.rule(
    "done-once",
    "One terminator",
    text="`[DONE]` comes once.",
    why="Clients that read on take the second for a frame of the next answer on the connection.",
    source="docs/spec/dialects.md A8",
    holds_for=_ends_with_done,
    needs=lambda reading, _: None if reading.dones else "no terminator in it",
)
def done_once(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.dones[1:]:
        yield at(frame, "another `[DONE]`")


@END.rule(
    "done-last",
    "Nothing after the terminator",
    text="No frame follows `[DONE]`.",
    why="Clients close the connection there: what follows, usage for one, is lost to most and confuses the others.",
    source="docs/spec/dialects.md A8",
    holds_for=_ends_with_done,
    needs=lambda reading, _: None if reading.dones else "no terminator in it",
)
def done_last(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in _after(reading, reading.dones[0]):
        if not frame.is_done:
            yield at(frame, "a frame after `[DONE]`")


@END.rule(
    "no-done",
    "No terminator",
    text="There is no `[DONE]`: every `data:` line is JSON, and the finish chunk or the close is the end.",
    why="A client of this dialect parses each line as JSON and raises at `[DONE]`.",
    source="docs/spec/dialects.md D25",
    holds_for=lambda dialect: not _ends_with_done(dialect),
)
def no_done(reading: Reading, _: Dialect) -> Iterator[Violation]:
    for frame in reading.dones:
        yield at(frame, "a `[DONE]`")


@END.rule(
    "finish-last",
    "Nothing after the finish chunk",
    text="The chunk with the finish reason is the last frame: the close follows.",
    why="Clients of this dialect stop at the finish reason, and never see what follows it.",
    source="docs/spec/dialects.md D25",
    holds_for=lambda dialect: not _ends_with_done(dialect),
    needs=_finished,
)
def finish_last(reading: Reading, _: Dialect) -> Iterator[Violation]:
    finish = next(part for part in reading.parts if part.finish is not None)
    errors = {frame.number for frame in reading.errors}
    for frame in _after(reading, finish.frame):
        if not frame.is_done and frame.number not in errors:
            yield at(frame, "a frame after the finish chunk")
            return


def _after(reading: Reading, last: Frame) -> list[Frame]:
    return [frame for frame in reading.data_frames if frame.number > last.number]
