"""Parses a recorded answer and keeps the offset of every part, so that a finding can show the bytes that broke a rule.

The splitter and the decoders of the gateway tolerate some errors and keep no offsets. This parser tolerates nothing
and keeps all offsets. Values of a wrong type are left out of `parts`, `calls` and so on; only the rule about that type
reports them, so that one mistake is one finding. Parsing never raises an exception, whatever the bytes are.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from streamweir.conformance.recording import Kind, Recording
from streamweir.wire import jsonio
from streamweir.wire.sse import BOM

DONE = b"[DONE]"
_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|\Z)")


class Line(NamedTuple):
    offset: int
    text: bytes
    end: bytes
    """LF, CRLF or CR; empty at the end of the body."""

    @property
    def is_comment(self) -> bool:
        return self.text.startswith(b":")

    @property
    def field(self) -> bytes:
        return self.text.partition(b":")[0]


class ParsedJson(NamedTuple):
    value: Any = None
    problem: str | None = None
    """Why it is not a JSON document."""
    repeated: tuple[str, ...] = ()
    """Keys that occur twice in one object."""
    has_lone_surrogate: bool = False


@dataclass
class Frame:
    """The lines between two blank lines. `number` counts from 1."""

    number: int
    offset: int
    raw: bytes
    lines: list[Line]
    data: bytes | None
    is_terminated: bool = True
    lacks_blank_line: bool = False
    """No blank line separates it from the frame before it."""
    json: ParsedJson = field(default_factory=ParsedJson)

    @property
    def is_terminator(self) -> bool:
        """The terminator, also if it is misspelled."""
        return self.data is not None and self.data.strip(b" \t\"'").upper() == DONE

    @property
    def document(self) -> dict[str, Any] | None:
        value = self.json.value
        return value if isinstance(value, dict) else None

    def values_of(self, name: bytes) -> list[bytes]:
        return [line.text.partition(b":")[2].removeprefix(b" ") for line in self.lines if line.field == name]


@dataclass
class Part:
    """One choice of one chunk, if its index, delta and finish reason have the right types."""

    frame: Frame
    choice: dict[str, Any]
    index: int
    delta: dict[str, Any]
    finish: str | None


@dataclass
class CallPiece:
    part: Part
    call: dict[str, Any]
    function: dict[str, Any]


@dataclass
class Call:
    """The pieces of one tool call, in the order of their arrival."""

    choice: int
    index: int
    pieces: list[CallPiece] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        texts = (piece.function.get("arguments") for piece in self.pieces)
        return "".join(text for text in texts if isinstance(text, str))


@dataclass
class ParsedAnswer:
    recording: Recording
    kind: Kind
    has_bom: bool = False
    lines: list[Line] = field(default_factory=list)
    extra_blank_lines: list[Line] = field(default_factory=list)
    """Blank lines that end no frame."""
    frames: list[Frame] = field(default_factory=list)
    chunks: list[Frame] = field(default_factory=list)
    """Frames whose document is an object without `error`."""
    errors: list[Frame] = field(default_factory=list)
    terminators: list[Frame] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    calls: dict[tuple[int, int], Call] = field(default_factory=dict)
    usages: list[Frame] = field(default_factory=list)
    """Chunks whose `usage` is not null."""
    body: ParsedJson = field(default_factory=ParsedJson)
    """Of a whole answer or a failed response."""

    @property
    def data_frames(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.data is not None]

    @property
    def was_cut(self) -> bool:
        return self.recording.was_cut

    def parts_by_choice(self) -> dict[int, list[Part]]:
        by_choice: dict[int, list[Part]] = {}
        for part in self.parts:
            by_choice.setdefault(part.index, []).append(part)
        return by_choice

    def finish_reasons(self) -> dict[int, str]:
        """The first finish reason of each choice that has one."""
        found: dict[int, str] = {}
        for part in self.parts:
            if part.finish is not None:
                found.setdefault(part.index, part.finish)
        return found


def parse_answer(recording: Recording) -> ParsedAnswer:
    answer = ParsedAnswer(recording, recording.kind)
    if answer.kind is not Kind.STREAM:
        answer.body = parse_json(recording.body)
        return answer
    answer.has_bom = recording.body.startswith(BOM)
    answer.lines = list(_lines(recording.body, len(BOM) if answer.has_bom else 0))
    _split_frames(answer)
    for frame in answer.data_frames:
        _classify(answer, frame)
    for frame in answer.chunks:
        answer.parts.extend(_choice_parts(frame))
    for part in answer.parts:
        _collect_calls(answer, part)
    return answer


def parse_json(data: bytes) -> ParsedJson:
    try:
        value = jsonio.decode(data)
    except jsonio.InvalidJson as reason:
        return ParsedJson(None, str(reason) or "no JSON")
    has_lone_surrogate = False
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the project's codec is more lenient than JSON
        if _has_constant(data):
            return ParsedJson(None, "NaN and Infinity are no JSON")
        has_lone_surrogate = _has_lone_surrogate(value)
    return ParsedJson(value, None, _repeated_keys(data), has_lone_surrogate)


def _has_lone_surrogate(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _has_constant(data: bytes) -> bool:
    found: list[str] = []
    _scan(data, parse_constant=found.append)
    return bool(found)


def _repeated_keys(data: bytes) -> tuple[str, ...]:
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                repeated.append(key)
            seen.add(key)

    _scan(data, object_pairs_hook=collect)
    return tuple(repeated)


def _scan(data: bytes, **hooks: Any) -> None:
    """Calls the hooks for a document that the codec has accepted, so it is not too deep. Numbers are not parsed."""
    try:
        json.loads(data, parse_int=len, parse_float=len, **hooks)
    except (ValueError, RecursionError):
        return


def _lines(body: bytes, start: int) -> Iterator[Line]:
    for match in _LINE.finditer(body, start):
        if match.start() == len(body):  # the empty match at the end
            return
        yield Line(match.start(), match[1], match[2])


def _split_frames(answer: ParsedAnswer) -> None:
    pending: list[Line] = []
    for line in answer.lines:
        if line.text:
            pending.append(line)
        elif pending:
            _end_frame(answer, pending, line, is_terminated=True)
            pending = []
        else:
            answer.extra_blank_lines.append(line)
    if pending and answer.was_cut:
        del answer.lines[-len(pending) :]  # the rest of this frame is not known
    elif pending:
        _end_frame(answer, pending, None, is_terminated=False)


def _end_frame(answer: ParsedAnswer, lines: list[Line], blank: Line | None, *, is_terminated: bool) -> None:
    groups = _split_documents(lines)
    for at, group in enumerate(groups):
        first, last = group[0], group[-1]
        end = last.offset + len(last.text) + len(last.end)
        if blank is not None and at == len(groups) - 1:
            end = blank.offset + len(blank.end)
        data = [line.text[4:].removeprefix(b":").removeprefix(b" ") for line in group if line.field == b"data"]
        frame = Frame(
            number=len(answer.frames) + 1,
            offset=first.offset,
            raw=answer.recording.body[first.offset : end],
            lines=group,
            data=b"\n".join(data) if data else None,
            is_terminated=is_terminated or at < len(groups) - 1,
            lacks_blank_line=at > 0,
        )
        if frame.data and not frame.is_terminator:
            frame.json = parse_json(frame.data)
        answer.frames.append(frame)


def _split_documents(lines: list[Line]) -> list[list[Line]]:
    """Splits a block whose data lines are complete documents each: the blank lines between them are missing."""
    data = [line for line in lines if line.field == b"data"]
    if len(data) < 2 or not all(_is_whole(line) for line in data[:-1]):
        return [lines]
    groups: list[list[Line]] = [[]]
    for line in lines:
        if line.field == b"data" and any(pending.field == b"data" for pending in groups[-1]):
            groups.append([])
        groups[-1].append(line)
    return groups


def _is_whole(line: Line) -> bool:
    value = line.text[4:].removeprefix(b":").strip()
    return value == DONE or parse_json(value).problem is None


def _classify(answer: ParsedAnswer, frame: Frame) -> None:
    document = frame.document
    if frame.is_terminator:
        answer.terminators.append(frame)
    elif document is None:
        return
    elif document.get("error") is not None:
        answer.errors.append(frame)
    else:
        answer.chunks.append(frame)
        if document.get("usage") is not None:
            answer.usages.append(frame)


def is_count(value: object) -> bool:
    """An integer, 0 or more; not a boolean."""
    return type(value) is int and value >= 0


def choices_of(frame: Frame) -> list[dict[str, Any]]:
    """The choices that are objects."""
    choices = (frame.document or {}).get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _choice_parts(frame: Frame) -> Iterator[Part]:
    for choice in choices_of(frame):
        index, delta, finish = choice.get("index"), choice.get("delta"), choice.get("finish_reason")
        if type(index) is not int or index < 0 or not isinstance(delta, dict):
            continue
        yield Part(frame, choice, index, delta, finish if isinstance(finish, str) and finish else None)


def call_pieces(part: Part) -> list[dict[str, Any]]:
    """The entries of `tool_calls` that are objects."""
    calls = part.delta.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _collect_calls(answer: ParsedAnswer, part: Part) -> None:
    for sent in call_pieces(part):
        index, function = sent.get("index"), sent.get("function")
        if type(index) is not int or index < 0:
            continue
        key = (part.index, index)
        call = answer.calls.setdefault(key, Call(*key))
        call.pieces.append(CallPiece(part, sent, function if isinstance(function, dict) else {}))
