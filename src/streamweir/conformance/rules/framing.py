"""Framing: bytes, lines, blank lines and the JSON in them. Also keep-alives, which are lines without content."""

import re
from collections.abc import Iterator

from streamweir.conformance.parsed_answer import ParsedAnswer
from streamweir.conformance.rule import Severity, Violation
from streamweir.conformance.rules.group import RuleGroup, quote, violation_in
from streamweir.frontends.chat.dialect import Dialect

FRAMING = RuleGroup("framing")
KEEPALIVE = RuleGroup("keepalive")

MAX_FRAME_BYTES = 512 * 1024
_PREFIX = re.compile(rb"data(:( (?! )|$)|$)")
"""For an empty data line there is another rule."""
_FIELDS = (b"data", b"event", b"id", b"retry")


def _no_frames(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if answer.data_frames else "no frame in it"


def _no_comments(answer: ParsedAnswer, _: Dialect) -> str | None:
    return None if any(line.is_comment for line in answer.lines) else "no comment in it"


@FRAMING.rule(
    "event-stream",
    "The body is an event stream",
    text="A streamed answer is a sequence of `data:` lines.",
    why="A client that waits for events sees an empty answer, and no error.",
    source="docs/spec/dialects.md A1",
)
def event_stream(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if not answer.data_frames and not answer.was_cut:
        yield Violation("no line of the body begins with `data:`", answer.recording.body, 0)


@FRAMING.rule(
    "utf-8",
    "UTF-8",
    text="Every byte of the stream is part of a UTF-8 character.",
    why="A strict reader stops; a lenient one puts U+FFFD into the answer, or into a tool's arguments.",
    source="docs/spec/dialects.md A1; the WHATWG event-stream format",
)
def utf_8(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    body = answer.recording.body
    try:
        body.decode()
    except UnicodeDecodeError as reason:
        if answer.was_cut and reason.reason == "unexpected end of data":
            return
        yield Violation(reason.reason, body[max(reason.start - 40, 0) :], reason.start)


@FRAMING.rule(
    "no-bom",
    "No byte order mark",
    text="The stream begins with its first line, not with a byte order mark.",
    why="A reader of lines that is no event-stream parser loses the first chunk, and the role with it.",
    source="docs/spec/quirks.md W1",
    severity=Severity.ODD,
)
def no_bom(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    if answer.has_bom:
        yield Violation("the body begins with a byte order mark", answer.recording.body, 0)


@FRAMING.rule(
    "line-ends",
    "Lines end with LF",
    text="Lines end with LF alone, never with CR or CRLF.",
    why="The documents' own readers split at LF: the CR stays on `[DONE]`, which is then no terminator.",
    source="docs/spec/dialects.md A1; docs/spec/quirks.md W1",
)
def line_ends(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for line in answer.lines:
        if line.end not in (b"\n", b""):
            yield Violation(f"a line ends with {line.end!r}", line.text[:40] + line.end, line.offset)


@FRAMING.rule(
    "blank-line",
    "A blank line after each frame",
    text="Each `data:` line is followed by a blank line.",
    why="Without it two frames are one event, whose data is no JSON: both are lost.",
    source="docs/spec/dialects.md A1",
    skip_reason=_no_frames,
)
def blank_line(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.frames:
        if frame.lacks_blank_line:
            yield violation_in(frame, "no blank line before this frame")


@FRAMING.rule(
    "last-frame",
    "The last frame is whole",
    text="The last frame, too, ends with its blank line.",
    why="An event-stream parser drops what no blank line ends: the last frame, which may be the terminator.",
    source="docs/spec/dialects.md A1",
    skip_reason=lambda answer, dialect: "the recording was cut" if answer.was_cut else _no_frames(answer, dialect),
)
def last_frame(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.frames:
        if not frame.is_terminated and frame.data is not None:
            yield violation_in(frame, "the body ends inside this frame")


@FRAMING.rule(
    "spare-blank-lines",
    "No spare blank lines",
    text="Between two frames there is one blank line and no more.",
    why="Readers that split at two line ends get an empty event, and some parse it as JSON.",
    source="docs/spec/dialects.md A1",
    severity=Severity.ODD,
)
def spare_blank_lines(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for line in answer.extra_blank_lines:
        yield Violation("a blank line that ends no frame", line.end, line.offset)


@FRAMING.rule(
    "one-line",
    "One line per frame",
    text="A frame's JSON is on one `data:` line.",
    why="Readers that take each line for a document fail on its parts.",
    source="docs/spec/dialects.md A1",
    skip_reason=_no_frames,
)
def one_line(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.data_frames:
        count = sum(line.field == b"data" for line in frame.lines)
        if count > 1:
            yield violation_in(frame, f"{count} `data:` lines in one frame")


@FRAMING.rule(
    "data-prefix",
    "`data: ` with one space",
    text="A data line begins with `data:` and exactly one space.",
    why="The documents' own readers compare six characters (`data: `) and pass over the line otherwise.",
    source="docs/spec/dialects.md A1",
    skip_reason=_no_frames,
)
def data_prefix(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.data_frames:
        for line in frame.lines:
            if line.field == b"data" and not _PREFIX.match(line.text):
                yield violation_in(frame, f"the line begins with {line.text[:8]!r}")


@FRAMING.rule(
    "no-event-field",
    "No `event:` lines",
    text="Frames have no `event:` field. (One that says `error` breaks `errors.no-event`.)",
    why="SDKs hand a named event to other code than a chunk, and some drop it.",
    source="docs/spec/dialects.md A1; docs/spec/quirks.md W1",
    severity=Severity.ODD,
)
def no_event_field(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.frames:
        names = [name for name in frame.values_of(b"event") if name != b"error"]
        if names:
            yield violation_in(frame, f"an event named {names[0]!r}", b"event")


@FRAMING.rule(
    "no-id-or-retry",
    "No `id:` or `retry:` lines",
    text="Frames have neither an `id:` nor a `retry:` field.",
    why="After an `id:` line some SDKs dispatch keep-alives as events and fail on their empty data.",
    source="docs/spec/quirks.md W1, W2",
    severity=Severity.ODD,
)
def no_id_or_retry(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for line in answer.lines:
        if line.field in (b"id", b"retry"):
            yield Violation(f"a line `{line.field.decode()}:`", line.text, line.offset)


@FRAMING.rule(
    "known-fields",
    "No line without a field",
    text="Every line is a `data:`, `event:`, `id:` or `retry:` field, a comment, or blank.",
    why="Any other line is ignored by the rules of event streams: what it says is lost, often an error.",
    source="the WHATWG event-stream format; docs/spec/dialects.md A1",
)
def known_fields(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for line in answer.lines:
        if line.text and not line.is_comment and line.field not in _FIELDS:
            yield Violation("a line that is no field and no comment", line.text, line.offset)


@FRAMING.rule(
    "no-empty-data",
    "No empty data",
    text="No `data:` line is empty.",
    why="Clients parse the data of each event as JSON; an empty text is none, and they raise.",
    source="docs/spec/quirks.md W1",
    skip_reason=_no_frames,
)
def no_empty_data(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.data_frames:
        if not (frame.data or b"").strip():
            yield violation_in(frame, "a `data:` line with nothing in it")


@FRAMING.rule(
    "json",
    "Data is JSON",
    text="The data of each frame but the terminator is one JSON document.",
    why="The client's parser raises in the middle of the answer.",
    source="docs/spec/dialects.md A2",
    skip_reason=_no_frames,
)
def is_json(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.data_frames:
        if frame.json.problem is not None and frame.is_terminated:
            yield violation_in(frame, frame.json.problem)


@FRAMING.rule(
    "object",
    "A document is an object",
    text="The JSON document of each frame is an object.",
    why="Clients read members of it; a string, a list or a number has none.",
    source="docs/spec/dialects.md A2",
    skip_reason=_no_frames,
)
def is_object(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.data_frames:
        has_document = bool((frame.data or b"").strip()) and not frame.is_terminator and frame.json.problem is None
        if has_document and frame.document is None:
            yield violation_in(frame, f"the document is {quote(frame.json.value)}")


@FRAMING.rule(
    "unique-members",
    "No member twice",
    text="No object of a document has the same member twice.",
    why="Two readers may use two different values.",
    source="docs/spec/quirks.md W13; RFC 8259 section 4",
    severity=Severity.ODD,
    skip_reason=_no_frames,
)
def unique_members(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.data_frames:
        if frame.json.repeated:
            name = frame.json.repeated[0]
            yield violation_in(frame, f"{quote(name)} stands twice", name.encode(errors="replace"))


@FRAMING.rule(
    "whole-characters",
    "No half of a surrogate pair",
    text="No text holds one half of a surrogate pair (`\\ud83d` alone).",
    why="An emoji was cut in two: strict JSON readers refuse the frame, others show two broken characters.",
    source="docs/spec/quirks.md W13; RFC 8259 section 8.2",
    severity=Severity.ODD,
    skip_reason=_no_frames,
)
def whole_characters(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.data_frames:
        if frame.json.has_lone_surrogate:
            yield violation_in(frame, "a lone surrogate", b"\\ud")


@FRAMING.rule(
    "size",
    "No giant frame",
    text=f"No frame is larger than {MAX_FRAME_BYTES // 1024} KiB.",
    why="Line readers have limits (aiohttp's is 512 KiB) and stop the stream there.",
    source="docs/spec/quirks.md W14",
    severity=Severity.ODD,
    skip_reason=_no_frames,
)
def size(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.frames:
        if len(frame.raw) > MAX_FRAME_BYTES:
            yield violation_in(frame, f"a frame of {len(frame.raw)} bytes")


@KEEPALIVE.rule(
    "one-newline",
    "A comment ends with one newline",
    text="A keep-alive comment is one line, not followed by a blank line.",
    why="With a blank line after it openai-go before 3.43 takes it for an empty event and fails.",
    source="docs/spec/quirks.md W3",
    severity=Severity.ODD,
    skip_reason=_no_comments,
)
def one_newline(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.frames:
        if frame.is_terminated and all(line.is_comment for line in frame.lines):
            yield violation_in(frame, "a blank line follows the comment")


@KEEPALIVE.rule(
    "between-frames",
    "Comments stand between frames",
    text="A comment stands before a frame or after it, never inside.",
    why="Readers that take a frame as one text between blank lines find the comment in their JSON.",
    source="docs/spec/quirks.md W3",
    severity=Severity.ODD,
    skip_reason=_no_comments,
)
def between_frames(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for frame in answer.frames:
        has_begun = False
        for line in frame.lines:
            has_begun = has_begun or not line.is_comment
            if has_begun and line.is_comment:
                yield violation_in(frame, "a comment inside of a frame", line.text)
                break


@KEEPALIVE.rule(
    "says-something",
    "No empty chunk as a keep-alive",
    text="A chunk carries something: a delta's member, a finish reason, or usage.",
    why="It is no mistake, but work for nothing; a keep-alive is a comment, which no client parses.",
    source="docs/spec/dialects.md A5",
    severity=Severity.ODD,
    skip_reason=_no_frames,
)
def says_something(answer: ParsedAnswer, _: Dialect) -> Iterator[Violation]:
    for part in answer.parts:
        extra = [name for name in part.choice if name not in ("index", "delta", "finish_reason", "logprobs")]
        has_more = part.choice.get("logprobs") is not None or (part.frame.document or {}).get("usage") is not None
        if not part.delta and part.finish is None and not extra and not has_more:
            yield violation_in(part.frame, f"nothing in the delta of choice {part.index}, and no finish reason")
