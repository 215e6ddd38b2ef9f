"""Server-sent events over bytes, by the WHATWG event-stream rules: a splitter and a writer.

The splitter turns a body, in any pieces, into blocks (the lines between two blank lines). It does not decode text and
does not parse the data. Lines end with LF, CRLF or CR and with nothing else; a byte order mark is skipped once, at
the very start. Beyond the WHATWG rules it also returns two things that a browser would drop, marked: a block without
data (`data is None`: some servers put an error into another field or on a bare line), and the text after the last
blank line at the end (`terminated is False`). Blank lines before a block (a keep-alive of some servers) belong to no
block.

A block that ends in a bare CR is returned when the next byte, or the end, shows that no LF follows. Memory is bounded
by `limit` for one block; work per byte is constant, however the body is cut. A block with very many lines or JSON
values is too large as well, because it is parsed in one step. Comments are no events: more than
`MAX_BYTES_WITHOUT_DATA` of them without an event fail like a block that is too large.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from streamweir.wire.jsonio import is_dense

DEFAULT_LIMIT = 1024 * 1024
MAX_LINES = 10_000
"""Of one block."""
MAX_BYTES_WITHOUT_DATA = 256 * 1024
"""The maximum bytes of comments, blank lines and blocks without data between two blocks with data. One keep-alive
comment per second reaches it after hours."""

BOM = b"\xef\xbb\xbf"
# Atomic groups: a CRLF never matches as two line ends.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_CONTENT_LINE = re.compile(rb"(?:\A|[\r\n])[^:\r\n]")
"""The beginning of a line that is neither blank nor a comment."""
_NOT_BLANK = re.compile(rb"[^\r\n]")


class Frame(Struct, gc=False):
    """One block of the stream. `raw` is its bytes, with the blank line that ended it."""

    raw: bytes
    data: bytes | None
    event: bytes = b""
    terminated: bool = True
    is_plain: bool = False
    """Exactly `data: `, the data, LF, LF: the gateway's own format, so it can be passed on unchanged."""


class SplitError(Exception):
    """The body cannot be read on. `frames` are the frames before that in the same read."""

    frames: list[Frame]


class EventTooLarge(SplitError):
    """A block exceeds the limit, or too many bytes without data arrived."""

    def __init__(self, limit: int, frames: list[Frame]) -> None:
        super().__init__(f"an event of the stream is larger than {limit} bytes")
        self.frames = frames


class InvalidFrame(SplitError):
    """The bytes are no frame of this format (`wire.amazon`): nothing says where the next one begins."""

    def __init__(self) -> None:
        super().__init__("a frame of the stream cannot be read")
        self.frames = []


class Splitter:
    """Bytes to frames. `last_event_id` and `retry_ms` are the newest values in the stream."""

    def __init__(self, limit: int = DEFAULT_LIMIT, *, at_start: bool = True) -> None:
        self.last_event_id = b""
        self.retry_ms: int | None = None
        self._limit = limit
        self._max_plain = min(limit, DEFAULT_LIMIT)  # of a read that is one block: a larger one is looked at closely
        self._held = bytearray()  # the unfinished block
        self._searched = 0  # the length of its beginning that contains no end of a block
        self._has_cr = False  # a CR was seen: from here on line ends are searched with CR
        self._at_start = at_start  # a byte order mark may follow
        self._failed = False
        self._is_empty = True  # nothing is held
        self._bytes_without_data = 0  # bytes since the last block with data, as far as they are not held

    def feed(self, chunk: bytes, /) -> list[Frame]:
        # The common case by far is a read that is exactly one block, of one of three shapes: a `data` line
        # (OpenAI), an `event` line and a `data` line (Anthropic), a `data` line with CRLF (Gemini).
        # Handled here, they cost a third of the general path.
        if self._is_empty and len(chunk) <= self._max_plain and chunk[-2:] == b"\n\n":
            if chunk[:6] == b"data: ":
                data = chunk[6:-2]
                if 10 not in data and 13 not in data:
                    self._at_start = False
                    return [Frame(chunk, data, b"", True, True)]
            elif chunk[:7] == b"event: ":
                event, _, data = chunk[7:-2].partition(b"\ndata: ")
                if data and 10 not in event and 10 not in data and 13 not in chunk:
                    self._at_start = False
                    return [Frame(chunk, data, event)]
        elif self._is_empty and len(chunk) <= self._max_plain and chunk[-4:] == b"\r\n\r\n" and chunk[:6] == b"data: ":
            data = chunk[6:-4]
            if 10 not in data and 13 not in data:
                self._at_start = False
                return [Frame(chunk, data)]
        return self._feed(chunk)

    @property
    def is_mid_event(self) -> bool:
        """A part of an event was read, not only comments."""
        return _CONTENT_LINE.search(self._held) is not None

    def finish(self) -> list[Frame]:
        """The end of the body: the rest, if there is any, as one block marked as unterminated."""
        held = bytes(self._held)
        self._held.clear()
        if not held:
            return []
        frame = self._read(held)
        # A blank line here ended in a bare CR; it was held back because an LF could have followed.
        frame.terminated = _BLANK_LINE.search(held) is not None
        return [frame]

    def _feed(self, chunk: bytes) -> list[Frame]:
        if self._failed:
            return []
        self._is_empty = False
        held = self._held
        held += chunk
        if self._at_start:
            if not skip_bom(held):
                return []
            self._at_start = False
        if not self._has_cr and b"\r" in chunk:
            self._has_cr = True
        frames: list[Frame] = []
        start = 0
        while True:
            if start == len(held) or held[start] in b"\r\n":
                first = _NOT_BLANK.search(held, start)
                blank, start = start, len(held) if first is None else first.start()
                self._bytes_without_data += start - blank
            end = self._end_of_block(start)
            if end < 0:
                break
            raw = bytes(held[start:end])
            if end - start > self._limit or (end - start > MAX_LINES and _is_slow_to_parse(raw)):
                self._fail(frames)
            frame = self._read(raw)
            frames.append(frame)
            self._bytes_without_data = self._bytes_without_data + end - start if frame.data is None else 0
            start = end
            if self._bytes_without_data > MAX_BYTES_WITHOUT_DATA:
                self._fail(frames)
        del held[:start]
        self._searched -= start
        if len(held) > self._limit or self._bytes_without_data > MAX_BYTES_WITHOUT_DATA:
            self._fail(frames)
        self._is_empty = not held
        return frames

    def _end_of_block(self, start: int) -> int:
        """The end of the block that begins at `start`, or -1 if it is not known yet."""
        held = self._held
        search_from = max(start, self._searched)
        if not self._has_cr:
            at = held.find(b"\n\n", search_from)
            if at >= 0:
                return at + 2
            self._searched = max(start, len(held) - 1)
            return -1
        match = _BLANK_LINE.search(held, search_from)
        if match is not None and not (match.end() == len(held) and held[-1] == 0x0D):
            return match.end()
        # Two bytes back: the end of a line, and a CR that an LF may follow. If a CRLF is cut there,
        # its LF alone is a line end, too.
        self._searched = max(search_from, len(held) - 2)
        return -1

    def _fail(self, frames: list[Frame]) -> None:
        self._failed = True
        self._held.clear()
        raise EventTooLarge(self._limit, frames)

    def _read(self, raw: bytes) -> Frame:
        lines = _LINE_END.split(raw) if self._has_cr else raw.split(b"\n")
        data: list[bytes] = []
        event = b""
        for line in lines:
            name, _, value = line.partition(b":")
            if value[:1] == b" ":
                value = value[1:]
            if name == b"data":
                data.append(value)
            elif name == b"event":
                event = value
            elif name == b"id":
                if b"\0" not in value:
                    self.last_event_id = value
            elif name == b"retry" and value.isdigit() and len(value) < 19:  # int() refuses thousands of digits
                self.retry_ms = int(value)
        if not data:
            return Frame(raw, None, event)
        text = data[0] if len(data) == 1 else b"\n".join(data)
        return Frame(raw, text, event, True, raw == write_frame(text))


def _is_slow_to_parse(raw: bytes) -> bool:
    return raw.count(b"\n") + raw.count(b"\r") > MAX_LINES or is_dense(raw)


def skip_bom(held: bytearray) -> bool:
    """Removes a byte order mark from the start of a body. False: more bytes are needed to decide."""
    if len(held) < len(BOM) and BOM.startswith(held):
        return False
    if held.startswith(BOM):
        del held[: len(BOM)]
    return True


write_frame: Callable[[bytes], bytes] = b"data: %b\n\n".__mod__
"""One frame with one JSON document, which must be on one line, as `jsonio.encode` writes it."""


def write_event(event: bytes, data: bytes) -> bytes:
    """A frame with a name. Both are on one line: `data` as `jsonio.encode` writes it."""
    return b"event: %b\ndata: %b\n\n" % (event, data)


def write_comment(text: bytes) -> bytes:
    """A keep-alive. It ends in ONE newline: with a blank line after it, some clients read an empty event."""
    return b": %b\n" % _LINE_END.sub(b" ", text)


DONE = b"data: [DONE]\n\n"
