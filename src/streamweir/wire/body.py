"""The format of a body, detected by its first byte, and its frames.

Most bodies are event streams. Some services stream a JSON array (Gemini without `alt=sse`), and any of them may send
a whole document although a stream was requested, mostly with an error. An event stream never begins with a bracket or
a brace, so the first byte that is not white space decides. A whole body is collected in `whole`, up to a limit.

What an event stream is made of is not detected, because the provider knows it (`Framing`). A frame of Amazon's that
began with a brace would have two gigabytes.
"""

from enum import StrEnum

from streamweir.wire.amazon import EventStreamSplitter, write_message
from streamweir.wire.amazon_messages import MessagesInFramesSplitter, write_chunk
from streamweir.wire.array import ArraySplitter
from streamweir.wire.sse import (
    DEFAULT_LIMIT,
    MAX_BYTES_WITHOUT_DATA,
    EventTooLarge,
    Frame,
    Splitter,
    skip_bom,
    write_event,
)

WHOLE_LIMIT = 64 * 1024 * 1024


class BodyFormat(StrEnum):
    EVENTS = "events"
    ARRAY = "array"
    WHOLE = "whole"


class Framing(StrEnum):
    """What a provider's event streams are made of."""

    TEXT = "text"
    """Server-sent events."""
    AMAZON = "amazon"
    """Amazon's binary frames."""
    AMAZON_MESSAGES = "amazon_messages"
    """The same, with Anthropic's events in them."""


def empty_event(framing: Framing, name: bytes) -> bytes:
    """An event that a stream may be continued with, also behind another stream of the same kind."""
    if framing is Framing.TEXT:
        return b"\n\n" + write_event(name, b"{}")  # a blank line ends an event that was not ended
    if framing is Framing.AMAZON:
        return write_message({":event-type": name.decode(), ":message-type": "event"}, b"{}")
    return write_chunk(b'{"type":"%b"}' % name)


class BodySplitter:
    """Bytes to frames, for every format. `format` is None until the first byte was read."""

    def __init__(
        self, limit: int = DEFAULT_LIMIT, whole_limit: int = WHOLE_LIMIT, framing: Framing = Framing.TEXT
    ) -> None:
        self.format: BodyFormat | None = None
        self._framing = framing
        self._limit = limit
        self._whole_limit = whole_limit
        self._start = bytearray()  # possibly a byte order mark
        self._is_past_bom = False
        self._skipped = 0  # bytes of blank lines at the start
        self._blank = bytearray()  # white space, before the byte that decides
        self._whole = bytearray()
        self._splitter: Splitter | EventStreamSplitter | ArraySplitter | None = None

    @property
    def events(self) -> Splitter | EventStreamSplitter | None:
        """The splitter of an event stream, once that is known: the next reads can use it directly."""
        return self._splitter if not isinstance(self._splitter, ArraySplitter) else None

    @property
    def is_mid_event(self) -> bool:
        """A part of an event or of an element was read."""
        return self._splitter.is_mid_event if self._splitter is not None else False

    @property
    def whole(self) -> bytes:
        return bytes(self._whole)

    def feed(self, chunk: bytes, /) -> list[Frame]:
        splitter = self._splitter
        if splitter is not None:
            return splitter.feed(chunk)
        if self.format is BodyFormat.WHOLE:
            return self._collect(chunk)
        if not self._is_past_bom:
            self._start += chunk
            if not skip_bom(self._start):
                return []
            self._is_past_bom = True
            chunk = bytes(self._start)
            self._start.clear()  # otherwise the first read stays in memory until the body ends
        return self._feed_first(chunk)

    def finish(self) -> list[Frame]:
        return self._splitter.finish() if self._splitter is not None else []

    def _feed_first(self, chunk: bytes) -> list[Frame]:
        """Bytes that may contain the one that decides."""
        blank = self._blank
        if not blank:
            size = len(chunk)
            chunk = chunk.lstrip(b"\r\n")  # blank lines have no meaning at the start of any format
            self._skipped += size - len(chunk)
        first = chunk.lstrip(b" \t\r\n")[:1]
        blank += chunk
        if not first:
            if len(blank) > self._limit or self._skipped > MAX_BYTES_WITHOUT_DATA:
                raise EventTooLarge(self._limit, [])
            return []
        head = bytes(blank)
        blank.clear()
        if first == b"{":
            self.format = BodyFormat.WHOLE
            return self._collect(head)
        if self._framing is not Framing.TEXT:
            self.format = BodyFormat.EVENTS
            binary = EventStreamSplitter if self._framing is Framing.AMAZON else MessagesInFramesSplitter
            self._splitter = binary(self._limit)
            return self._splitter.feed(head)
        self.format = BodyFormat.ARRAY if first == b"[" else BodyFormat.EVENTS
        kind = ArraySplitter if first == b"[" else Splitter
        self._splitter = kind(self._limit, at_start=False)
        return self._splitter.feed(head)

    def _collect(self, chunk: bytes) -> list[Frame]:
        self._whole += chunk
        if len(self._whole) > self._whole_limit:
            raise EventTooLarge(self._whole_limit, [])
        return []
