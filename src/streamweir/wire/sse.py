"""Server-sent events over bytes, by the WHATWG event-stream rules: a splitter and a writer.

The splitter turns a body, in whatever pieces it arrives, into blocks (what stands between
two blank lines). It never decodes text and never looks into the data. Lines end with LF,
CRLF or CR and with nothing else; a byte order mark is skipped once, at the very start.
Beyond the WHATWG rules it also gives out two things that a browser would drop, marked:
a block without data (`data is None`: some servers put their failure on another field or on
a bare line) and what stood after the last blank line at the end (`terminated is False`).
Blank lines before a block (a keep-alive to some servers) belong to no block.

A block that ends in a bare CR is given out when the next byte, or the end, shows that no LF
follows. Memory is bounded by `limit` for one block; work per byte is constant whatever the cuts.
A block of very many lines, or of very many small things, is too large as well: it is read in one go.
Comments are no events: more of them than `MAX_BYTES_WITHOUT_DATA` without one fail like too large a block.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from streamweir.wire.jsonio import is_dense

DEFAULT_LIMIT = 1024 * 1024
MAX_LINES = 10_000
"""Of one block."""
MAX_BYTES_WITHOUT_DATA = 256 * 1024
"""How many bytes of comments, blank lines and blocks without data may stand between two blocks with data. A comment a
second, as a sign of life, is that much in hours."""

BOM = b"\xef\xbb\xbf"
# Atomic, so that CRLF is never taken for two line ends.
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
    """Exactly `data: `, the data, LF, LF: what we write ourselves, so it may be passed on as it is."""


class EventTooLarge(Exception):
    """A block grew beyond the limit, or none with data came for too long.

    `frames` are the ones before it in the same read.
    """

    def __init__(self, limit: int, frames: list[Frame]) -> None:
        super().__init__(f"an event of the stream is larger than {limit} bytes")
        self.frames = frames


class Splitter:
    """Bytes to frames. `last_event_id` and `retry_ms` are as the newest block left them."""

    def __init__(self, limit: int = DEFAULT_LIMIT, *, at_start: bool = True) -> None:
        self.last_event_id = b""
        self.retry_ms: int | None = None
        self._limit = limit
        self._held = bytearray()  # the unfinished block
        self._searched = 0  # how much of it holds no end of a block
        self._has_cr = False  # a CR was seen: the careful search from here on
        self._at_start = at_start  # a byte order mark may come
        self._failed = False
        self._is_empty = True  # nothing is held
        self._bytes_without_data = 0  # bytes since the last block with data, as far as they are not held

    def feed(self, chunk: bytes, /) -> list[Frame]:
        # The common case by far is a read that is exactly one block, of one of three shapes: a `data` line
        # (OpenAI), an `event` line and a `data` line (Anthropic), a `data` line with CRLF (Gemini).
        # Told apart here, they cost a third of the general way.
        if self._is_empty and len(chunk) <= self._limit and chunk[-2:] == b"\n\n":
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
        elif self._is_empty and len(chunk) <= self._limit and chunk[-4:] == b"\r\n\r\n" and chunk[:6] == b"data: ":
            data = chunk[6:-4]
            if 10 not in data and 13 not in data:
                self._at_start = False
                return [Frame(chunk, data)]
        return self._feed(chunk)

    @property
    def is_mid_event(self) -> bool:
        """A part of an event is held, and not just comments."""
        return _CONTENT_LINE.search(self._held) is not None

    def finish(self) -> list[Frame]:
        """The end of the body: what is left, if anything is, as one block marked unterminated."""
        held = bytes(self._held)
        self._held.clear()
        if not held:
            return []
        frame = self._read(held)
        # A blank line here is one that ended in a bare CR, held back for the LF that never came.
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
        """Where the block from `start` ends, or -1 while that cannot be said."""
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
        # Two bytes back: the end of a line, and a CR that an LF may follow. In the midst of a CRLF
        # its LF is as good an end of the line as both.
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
    """Takes a byte order mark off the start of a body. False: too little has come to tell."""
    if len(held) < len(BOM) and BOM.startswith(held):
        return False
    if held.startswith(BOM):
        del held[: len(BOM)]
    return True


write_frame: Callable[[bytes], bytes] = b"data: %b\n\n".__mod__
"""One frame that holds one JSON document, which must be on one line: `jsonio.encode` sees to it."""


def write_event(event: bytes, data: bytes) -> bytes:
    """A frame with a name. Both are on one line: `data` as `jsonio.encode` writes it."""
    return b"event: %b\ndata: %b\n\n" % (event, data)


def write_comment(text: bytes) -> bytes:
    """A keep-alive. ONE newline: with a blank line after it, some clients take it for an empty event."""
    return b": %b\n" % _LINE_END.sub(b" ", text)


DONE = b"data: [DONE]\n\n"
