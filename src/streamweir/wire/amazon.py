"""Amazon's binary event stream (`application/vnd.amazon.eventstream`) over bytes: the splitter of Bedrock's streams.

It takes the place of `wire.sse.Splitter` where a provider's `framing` says so. A frame is a prelude (its length, the
length of its headers, the CRC32 of both), headers, a payload, and the CRC32 of all that. Both checksums are checked:
a frame that does not match, or whose lengths or headers are impossible, ends the stream (`InvalidFrame`), because
nothing says where the next one begins.

`Frame.event` is the event's type, `Frame.data` its payload, a JSON document; an empty payload is an empty object, as
for Amazon's own clients. A failure inside the stream is a frame as well: its `event` is `:exception/NAME` with the
name as it was sent, or `:error/CODE`, and its `data` has a member `message`. A frame without a type is no event and has
no data. If the body ends inside a frame, the rest is one frame without data, marked as unterminated.

Memory is bounded by `limit` for one frame, known from its prelude; work per byte is constant, however the body is cut.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct as Layout
from zlib import crc32

from msgspec import Struct

from streamweir.wire import jsonio
from streamweir.wire.sse import (
    DEFAULT_LIMIT,
    MAX_BYTES_WITHOUT_DATA,
    EventTooLarge,
    Frame,
    InvalidFrame,
    SplitError,
    write_event,
)

MAX_HEADERS = 128 * 1024
"""Bytes, as in Amazon's clients."""
EXCEPTION = b":exception/"
ERROR = b":error/"
"""How the `event` of a failure begins."""

_PRELUDE_SIZE = 12
_LEAST_SIZE = _PRELUDE_SIZE + 4
_MAX_KEPT = 512
"""Bytes of headers whose meaning is kept for the next frames of the same type: nearly all have about a hundred."""
_STRING = 7
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Of a header's value, by its type. The values of other types (bytes and text) begin with their size."""
_WITH_SIZE = (6, _STRING)

_read_prelude = Layout(">III").unpack_from
_read_checksum = Layout(">I").unpack_from
_write_prelude = Layout(">II").pack
_write_number = Layout(">I").pack


class Meaning(Struct, frozen=True, gc=False):
    """What the headers of a frame say."""

    event: bytes
    """As in `Frame.event`; empty if there is no type."""
    data: bytes | None = None
    """The data, if the headers have it: of an error."""


class EventStreamSplitter:
    """Bytes to frames; `raw` is a whole frame."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._held = bytearray()  # the unfinished frame
        self._wanted = _PRELUDE_SIZE  # the size of the held bytes at which there is more to read
        self._has_failed = False
        self._bytes_without_data = 0

    def feed(self, chunk: bytes, /) -> list[Frame]:
        # Nearly every read is exactly one frame.
        if not self._held and len(chunk) >= _LEAST_SIZE and not self._has_failed:
            size, headers_size, checksum = _read_prelude(chunk)
            if size == len(chunk) and size <= self._limit:
                try:
                    frame = self._read(chunk, headers_size, checksum)
                except SplitError:
                    self._has_failed = True
                    raise
                return [frame] if frame is not None else []
        return self._feed(chunk)

    @property
    def is_mid_event(self) -> bool:
        return bool(self._held)

    def finish(self) -> list[Frame]:
        """The end of the body: the rest, if there is any, as one frame marked as unterminated."""
        rest = bytes(self._held)
        self._held.clear()
        return [self._unfinished(rest)] if rest else []

    def _feed(self, chunk: bytes) -> list[Frame]:
        if self._has_failed:
            return []
        held = self._held
        held += chunk
        frames: list[Frame] = []
        if len(held) < self._wanted:
            return frames
        start = 0
        try:
            while len(held) - start >= _PRELUDE_SIZE:
                size, headers_size, checksum = _read_prelude(held, start)
                if not _LEAST_SIZE <= size <= self._limit or len(held) - start < size:
                    self._check_prelude(bytes(held[start : start + 8]), size, headers_size, checksum)
                    self._wanted = size
                    break
                frame = self._read(bytes(held[start : start + size]), headers_size, checksum)
                if frame is not None:
                    frames.append(frame)
                start += size
            else:
                self._wanted = _PRELUDE_SIZE
        except SplitError as reason:
            self._has_failed = True
            held.clear()
            reason.frames = frames
            raise
        del held[:start]
        return frames

    def _check_prelude(self, numbers: bytes, size: int, headers_size: int, checksum: int) -> None:
        """At once, and not when the frame is whole: the length may be anything."""
        if crc32(numbers) != checksum or headers_size > min(size - _LEAST_SIZE, MAX_HEADERS):
            raise InvalidFrame
        if size > self._limit:
            raise EventTooLarge(self._limit, [])

    def _read(self, raw: bytes, headers_size: int, checksum: int) -> Frame | None:
        """One whole frame; None: it says nothing."""
        end, last = _PRELUDE_SIZE + headers_size, len(raw) - 4
        if crc32(raw[:8]) != checksum or crc32(raw[8:last], checksum) != _read_checksum(raw, last)[0]:
            raise InvalidFrame
        if end > last or headers_size > MAX_HEADERS:
            raise InvalidFrame
        if last > jsonio.FAST_BYTES and jsonio.is_dense(raw):
            raise EventTooLarge(self._limit, [])
        headers = raw[_PRELUDE_SIZE:end]
        meaning = _meaning_of(headers) if headers_size <= _MAX_KEPT else read_headers(headers)
        frame = self._frame(raw, meaning, raw[end:last])
        if frame is not None and frame.data is not None:
            self._bytes_without_data = 0
        else:
            self._bytes_without_data += len(raw)
            if self._bytes_without_data > MAX_BYTES_WITHOUT_DATA:
                raise EventTooLarge(self._limit, [])
        return frame

    def _frame(self, raw: bytes, meaning: Meaning, payload: bytes, /) -> Frame | None:
        if not meaning.event:
            return Frame(raw, None)
        return Frame(raw, meaning.data or payload or b"{}", meaning.event)

    def _unfinished(self, rest: bytes, /) -> Frame:
        return Frame(rest, None, terminated=False)


def read_headers(headers: bytes) -> Meaning:
    """Raises `InvalidFrame`."""
    values: dict[bytes, str | None] = {}
    at, end = 0, len(headers)
    while at < end:
        name_end = at + 1 + headers[at]
        if name_end >= end:
            raise InvalidFrame
        name, kind = headers[at + 1 : name_end], headers[name_end]
        start = name_end + 1
        if kind in _WITH_SIZE:
            start += 2
            value_end = start + int.from_bytes(headers[start - 2 : start], "big")
        elif kind in _SIZES:
            value_end = start + _SIZES[kind]
        else:
            raise InvalidFrame
        if max(start, value_end) > end or name in values:
            raise InvalidFrame
        try:
            name.decode()
            values[name] = headers[start:value_end].decode() if kind == _STRING else None
        except UnicodeDecodeError:
            raise InvalidFrame from None
        at = value_end
    return _interpret(values)


_meaning_of: Callable[[bytes], Meaning] = lru_cache(maxsize=64)(read_headers)


def _interpret(values: dict[bytes, str | None]) -> Meaning:
    message_type = values.get(b":message-type")
    if message_type == "exception":
        return Meaning(EXCEPTION + (values.get(b":exception-type") or "").encode())
    if message_type == "error":
        data = jsonio.encode({"message": values.get(b":error-message") or ""})
        return Meaning(ERROR + (values.get(b":error-code") or "").encode(), data)
    return Meaning((values.get(b":event-type") or "").encode())


def write_message(headers: dict[str, str], payload: bytes) -> bytes:
    """A frame with these headers, all of them strings."""
    written = b"".join(
        [
            bytes([len(name)]) + name + b"\x07" + len(value).to_bytes(2, "big") + value
            for name, value in [(name.encode(), value.encode()) for name, value in headers.items()]
        ]
    )
    prelude = _write_prelude(_LEAST_SIZE + len(written) + len(payload), len(written))
    before = prelude + _write_number(crc32(prelude)) + written + payload
    return before + _write_number(crc32(before))


def readable(frame: Frame) -> bytes:
    """The frame as an event of a text stream; empty if it has no data."""
    return write_event(frame.event, frame.data) if frame.data is not None else b""
