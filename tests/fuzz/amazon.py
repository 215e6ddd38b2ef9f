"""The splitter of Amazon's binary frames against Amazon's own parser (botocore): random frames, faults, cuts, limits.

`make fuzz` runs a million inputs, `make test` a seeded part of it. Botocore reads over two faults that no service
makes: lengths that contradict each other, and a header's value that is longer than the headers. Here both are
invalid (`_StrictBuffer`); in all else its parser decides.
"""

import random
import struct
import sys
from binascii import crc32
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from botocore.eventstream import (
    EventStreamBuffer,
    EventStreamHeaderParser,
    InvalidPayloadLength,
    ParserError,
)

from fuzz.search import Search
from streamweir.wire import jsonio
from streamweir.wire.amazon import EventStreamSplitter
from streamweir.wire.sse import DEFAULT_LIMIT, EventTooLarge, Frame, SplitError

NAMES = (b":event-type", b":event-type", b":message-type", b":exception-type", b":error-code", b":error-message", b"x")
TEXTS = (
    *(b"event", b"exception", b"error", b"contentBlockDelta", b"chunk", b"throttlingException"),
    *(b"", "größer".encode(), b"a\nb", b"\xff"),
)
USUAL = (
    {b":event-type": b"contentBlockDelta", b":content-type": b"application/json", b":message-type": b"event"},
    {b":message-type": b"event", b":event-type": b"messageStop"},
    {b":exception-type": b"throttlingException", b":message-type": b"exception"},
    {b":error-code": b"500", b":error-message": b'a "b" \n', b":message-type": b"error"},
)
VALUES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
LIMITS = (DEFAULT_LIMIT, DEFAULT_LIMIT, 96, 128)


class Case(NamedTuple):
    body: bytes
    cuts: tuple[int, ...]
    limit: int = DEFAULT_LIMIT

    @property
    def pieces(self) -> list[bytes]:
        places = [0, *self.cuts, len(self.body)]
        return [self.body[a:b] for a, b in pairwise(places)]


def text_header(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + b"\7" + len(value).to_bytes(2, "big") + value


USUAL_HEADERS = [b"".join(text_header(*each) for each in headers.items()) for headers in USUAL]


def random_header(rng: random.Random) -> bytes:
    name = rng.choice(NAMES) if rng.random() < 0.95 else rng.randbytes(rng.randrange(4))
    if rng.random() < 0.7:
        return text_header(name, rng.choice(TEXTS))
    kind = rng.randrange(11)
    value = rng.randbytes(VALUES.get(kind, 0))
    if kind in (6, 7):
        value = rng.randbytes(rng.randrange(5))
        value = (len(value) + (rng.random() < 0.1)).to_bytes(2, "big") + value
    return bytes([len(name)]) + name + bytes([kind]) + value


def random_frame(rng: random.Random) -> bytes:
    """Some with lengths or a checksum that are wrong."""
    headers = rng.choice(USUAL_HEADERS)
    if rng.random() < 0.3:
        headers = b"".join(random_header(rng) for _ in range(rng.randrange(5)))
    payload = rng.choice((b"", b"{}", b'{"delta":{"text":"a"}}', rng.randbytes(rng.randrange(40))))
    size, headers_size = 16 + len(headers) + len(payload), len(headers)
    if rng.random() < 0.1:
        change = rng.choice((-20, -4, -1, 1, 4, 20, 1 << 17, 1 << 21, 1 << 30))
        if rng.random() < 0.5:
            size = max(0, size + change)
        else:
            headers_size = max(0, headers_size + change)
    prelude = size.to_bytes(4, "big") + headers_size.to_bytes(4, "big")
    before = prelude + crc32(prelude).to_bytes(4, "big") + headers + payload
    if rng.random() < 0.03:  # the checksum of the prelude alone is wrong
        before = before[:8] + rng.randbytes(4) + before[12:]
    return before + crc32(before).to_bytes(4, "big")


def random_case(rng: random.Random) -> Case:
    frames = [random_frame(rng) for _ in range(rng.randrange(6))]
    body = b"".join(frames)
    fault = rng.random()
    if body and fault < 0.15:
        at = rng.randrange(len(body))
        body = body[:at] + bytes([body[at] ^ 1 << rng.randrange(8)]) + body[at + 1 :]
    elif body and fault < 0.3:
        body = body[: rng.randrange(len(body))]
    elif fault < 0.4:
        at = rng.randint(0, len(body))
        body = body[:at] + rng.randbytes(rng.randrange(20)) + body[at:]
    cuts: Sequence[int] = range(1, len(body))
    way = rng.random()
    if way < 0.4:  # as most servers write: one frame, one read
        ends = [sum(map(len, frames[: number + 1])) for number in range(len(frames))]
        cuts = [end for end in ends if end <= len(body)]
    elif way < 0.8:
        cuts = sorted(rng.randint(0, len(body)) for _ in range(rng.randrange(6)))
    return Case(body, tuple(cuts), rng.choice(LIMITS))


class _StrictHeaders(EventStreamHeaderParser):  # type: ignore[misc]  # botocore has no types
    def _advance_data(self, consumed: int) -> None:
        if consumed > len(self._data):
            raise ParserError("a header is longer than the headers")
        super()._advance_data(consumed)


class _TooLarge(Exception):
    pass


class _StrictBuffer(EventStreamBuffer):  # type: ignore[misc]  # botocore has no types
    def __init__(self, limit: int) -> None:
        super().__init__()
        self._header_parser = _StrictHeaders()
        self._limit = limit

    def _validate_prelude(self, prelude: Any) -> None:
        if prelude.payload_length < 0:
            raise ParserError("the headers are longer than the frame")
        try:
            super()._validate_prelude(prelude)
        except InvalidPayloadLength:
            raise _TooLarge from None
        if prelude.total_length > self._limit:
            raise _TooLarge


def frame_of(message: Any) -> tuple[bytes, bytes | None]:
    """What the splitter is to say of it: event and data."""
    headers = {name: value for name, value in message.headers.items() if isinstance(value, str)}
    kind = headers.get(":message-type")
    if kind == "exception":
        return b":exception/" + headers.get(":exception-type", "").encode(), message.payload or b"{}"
    if kind == "error":
        text = jsonio.encode({"message": headers.get(":error-message", "")})
        return b":error/" + headers.get(":error-code", "").encode(), text
    event = headers.get(":event-type", "").encode()
    return event, (message.payload or b"{}") if event else None


def read_by_botocore(buffer: _StrictBuffer, piece: bytes) -> tuple[list[tuple[bytes, bytes | None]], str]:
    found: list[tuple[bytes, bytes | None]] = []
    buffer.add_data(piece)
    try:
        found.extend(frame_of(message) for message in buffer)
    except _TooLarge:
        return found, "too large"
    except (ParserError, KeyError, UnicodeDecodeError, struct.error):  # it has no name for most of them
        return found, "invalid"
    return found, ""


def read_by_us(splitter: EventStreamSplitter, piece: bytes) -> tuple[list[Frame], str]:
    try:
        return splitter.feed(piece), ""
    except SplitError as reason:
        return reason.frames, "too large" if isinstance(reason, EventTooLarge) else "invalid"


def difference(case: Case) -> str | None:
    """What the splitter does otherwise than botocore, after each piece, or None."""
    splitter, buffer = EventStreamSplitter(case.limit), _StrictBuffer(case.limit)
    raws: list[bytes] = []
    for number, piece in enumerate(case.pieces):
        expected, reason = read_by_botocore(buffer, piece)
        frames, failure = read_by_us(splitter, piece)
        given = [(frame.event, frame.data) for frame in frames]
        raws += [frame.raw for frame in frames]
        if (given, failure) != (expected, reason):
            return f"piece {number}: expected {expected} {reason!r}\n  given    {given} {failure!r}"
        if failure:
            return None if splitter.finish() == [] else "something came after the failure"
    rest = case.body[len(b"".join(raws)) :]
    if b"".join(raws) + rest != case.body:
        return "the raw bytes are not those of the body"
    end = splitter.finish()
    if end != ([Frame(rest, None, terminated=False)] if rest else []):
        return f"at the end: {end}, where {rest!r} was left"
    return None


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The same failure with as few cuts, and as little after it, as removing them leads to."""
    for cut in case.cuts:
        fewer = case._replace(cuts=tuple(other for other in case.cuts if other != cut))
        if fails(fewer):
            case = fewer
    while case.body and fails(shorter := _without_last(case)):
        case = shorter
    return case


def _without_last(case: Case) -> Case:
    body = case.body[:-1]
    return case._replace(body=body, cuts=tuple(cut for cut in case.cuts if cut <= len(body)))


SEARCH = Search(random_case, difference, shrunk)

if __name__ == "__main__":
    sys.exit(SEARCH.run("Fuzz the splitter of Amazon's frames against botocore's."))
