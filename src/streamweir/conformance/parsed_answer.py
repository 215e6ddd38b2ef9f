"""A recorded answer, read with the place of everything, so that a finding can show the bytes that broke a rule.

The engine's own splitter and decoders mend what they can and forget where it stood; here nothing is
mended and everything has an offset. What is not of the right type is left out of `parts`, `calls` and their
like, and the rule that speaks of that type says so: one mistake is one finding, and no rule after it
trips over it. Reading never raises, whatever the bytes are.
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
    """LF, CRLF, CR; empty where the body ended first."""

    @property
    def is_comment(self) -> bool:
        return self.text.startswith(b":")

    @property
    def field(self) -> bytes:
        return self.text.partition(b":")[0]


class Json(NamedTuple):
    value: Any = None
    problem: str | None = None
    """Why it is no JSON document."""
    repeated: tuple[str, ...] = ()
    """Keys that stand twice in one object."""
    has_half_character: bool = False
    """A lone surrogate."""


@dataclass
class Frame:
    """What stands between two blank lines. `number` counts from 1."""

    number: int
    offset: int
    raw: bytes
    lines: list[Line]
    data: bytes | None
    is_terminated: bool = True
    lost_blank_line: bool = False
    """It followed the frame before it without a blank line."""
    json: Json = field(default_factory=Json)

    @property
    def is_done(self) -> bool:
        """The terminator, also where it is misspelled."""
        return self.data is not None and self.data.strip(b" \t\"'").upper() == DONE

    @property
    def document(self) -> dict[str, Any] | None:
        value = self.json.value
        return value if isinstance(value, dict) else None

    def values_of(self, name: bytes) -> list[bytes]:
        return [line.text.partition(b":")[2].removeprefix(b" ") for line in self.lines if line.field == name]


@dataclass
class Part:
    """One choice in one chunk, where its index, its delta and its finish are of the right types."""

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
        said = (piece.function.get("arguments") for piece in self.pieces)
        return "".join(text for text in said if isinstance(text, str))


@dataclass
class Reading:
    recording: Recording
    kind: Kind
    has_bom: bool = False
    lines: list[Line] = field(default_factory=list)
    spare_blanks: list[Line] = field(default_factory=list)
    """Blank lines that end nothing."""
    frames: list[Frame] = field(default_factory=list)
    chunks: list[Frame] = field(default_factory=list)
    """Frames whose document is an object and no error."""
    errors: list[Frame] = field(default_factory=list)
    dones: list[Frame] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    calls: dict[tuple[int, int], Call] = field(default_factory=dict)
    usages: list[Frame] = field(default_factory=list)
    """Chunks whose `usage` is not null."""
    body: Json = field(default_factory=Json)
    """Of a whole answer or a failure."""

    @property
    def data_frames(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.data is not None]

    @property
    def was_cut(self) -> bool:
        return self.recording.was_cut

    def parts_of(self) -> dict[int, list[Part]]:
        """By choice."""
        by_choice: dict[int, list[Part]] = {}
        for part in self.parts:
            by_choice.setdefault(part.index, []).append(part)
        return by_choice

    def finishes(self) -> dict[int, str]:
        """The first finish reason of each choice that has one."""
        found: dict[int, str] = {}
        for part in self.parts:
            if part.finish is not None:
                found.setdefault(part.index, part.finish)
        return found


def read(recording: Recording) -> Reading:
    reading = Reading(recording, recording.kind)
    if reading.kind is not Kind.STREAM:
        reading.body = read_json(recording.body)
        return reading
    reading.has_bom = recording.body.startswith(BOM)
    reading.lines = list(_lines(recording.body, len(BOM) if reading.has_bom else 0))
    _frame(reading)
    for frame in reading.data_frames:
        _sort(reading, frame)
    for frame in reading.chunks:
        reading.parts.extend(_parts(frame))
    for part in reading.parts:
        _read_calls(reading, part)
    return reading


def read_json(data: bytes) -> Json:
    try:
        value = jsonio.decode(data)
    except jsonio.InvalidJson as reason:
        return Json(None, str(reason) or "no JSON")
    has_half_character = False
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the project's codec is more lenient than JSON
        if _has_constant(data):
            return Json(None, "NaN and Infinity are no JSON")
        has_half_character = _has_half_character(value)
    return Json(value, None, _repeated_keys(data), has_half_character)


def _has_half_character(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _has_constant(data: bytes) -> bool:
    found: list[str] = []
    _walk(data, parse_constant=found.append)
    return bool(found)


def _repeated_keys(data: bytes) -> tuple[str, ...]:
    repeated: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                repeated.append(key)
            seen.add(key)

    _walk(data, object_pairs_hook=look)
    return tuple(repeated)


def _walk(data: bytes, **hooks: Any) -> None:
    """Through a document that the codec has read, so it is not too deep; numbers are passed over, however long."""
    try:
        json.loads(data, parse_int=len, parse_float=len, **hooks)
    except (ValueError, RecursionError):
        return


def _lines(body: bytes, start: int) -> Iterator[Line]:
    for match in _LINE.finditer(body, start):
        if match.start() == len(body):  # an empty line that is not there
            return
        yield Line(match.start(), match[1], match[2])


def _frame(reading: Reading) -> None:
    held: list[Line] = []
    for line in reading.lines:
        if line.text:
            held.append(line)
        elif held:
            _close(reading, held, line, is_terminated=True)
            held = []
        else:
            reading.spare_blanks.append(line)
    if held and reading.was_cut:
        del reading.lines[-len(held) :]  # how it would have gone on cannot be said
    elif held:
        _close(reading, held, None, is_terminated=False)


def _close(reading: Reading, lines: list[Line], blank: Line | None, *, is_terminated: bool) -> None:
    groups = _documents_apart(lines)
    for at, group in enumerate(groups):
        first, last = group[0], group[-1]
        end = last.offset + len(last.text) + len(last.end)
        if blank is not None and at == len(groups) - 1:
            end = blank.offset + len(blank.end)
        data = [line.text[4:].removeprefix(b":").removeprefix(b" ") for line in group if line.field == b"data"]
        frame = Frame(
            number=len(reading.frames) + 1,
            offset=first.offset,
            raw=reading.recording.body[first.offset : end],
            lines=group,
            data=b"\n".join(data) if data else None,
            is_terminated=is_terminated or at < len(groups) - 1,
            lost_blank_line=at > 0,
        )
        if frame.data and not frame.is_done:
            frame.json = read_json(frame.data)
        reading.frames.append(frame)


def _documents_apart(lines: list[Line]) -> list[list[Line]]:
    """A block of several data lines that are whole each: its blank lines were lost, and it is read as if they stood."""
    data = [line for line in lines if line.field == b"data"]
    if len(data) < 2 or not all(_is_whole(line) for line in data[:-1]):
        return [lines]
    groups: list[list[Line]] = [[]]
    for line in lines:
        if line.field == b"data" and any(held.field == b"data" for held in groups[-1]):
            groups.append([])
        groups[-1].append(line)
    return groups


def _is_whole(line: Line) -> bool:
    value = line.text[4:].removeprefix(b":").strip()
    return value == DONE or read_json(value).problem is None


def _sort(reading: Reading, frame: Frame) -> None:
    document = frame.document
    if frame.is_done:
        reading.dones.append(frame)
    elif document is None:
        return
    elif document.get("error") is not None:
        reading.errors.append(frame)
    else:
        reading.chunks.append(frame)
        if document.get("usage") is not None:
            reading.usages.append(frame)


def is_count(value: object) -> bool:
    """A whole number, not below 0. JSON's true is none."""
    return type(value) is int and value >= 0


def choices_of(frame: Frame) -> list[dict[str, Any]]:
    """Those that are objects."""
    choices = (frame.document or {}).get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _parts(frame: Frame) -> Iterator[Part]:
    for choice in choices_of(frame):
        index, delta, finish = choice.get("index"), choice.get("delta"), choice.get("finish_reason")
        if type(index) is not int or index < 0 or not isinstance(delta, dict):
            continue
        yield Part(frame, choice, index, delta, finish if isinstance(finish, str) and finish else None)


def call_pieces(part: Part) -> list[dict[str, Any]]:
    """The entries of `tool_calls` that are objects."""
    calls = part.delta.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _read_calls(reading: Reading, part: Part) -> None:
    for sent in call_pieces(part):
        index, function = sent.get("index"), sent.get("function")
        if type(index) is not int or index < 0:
            continue
        key = (part.index, index)
        call = reading.calls.setdefault(key, Call(*key))
        call.pieces.append(CallPiece(part, sent, function if isinstance(function, dict) else {}))
