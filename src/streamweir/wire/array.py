"""A streamed JSON array over bytes: `[{...}\\n,\\r\\n{...}]`, one frame per element.

It replaces `wire/sse` for a service that answers with one array instead of an event stream (Gemini without
`alt=sse`). Of an element it reads only strings and brackets. A bare object instead of the array is its one element,
because the same services may write an error like that. If the body begins with anything else, the first byte is
returned as a frame, which every decoder rejects, and nothing after it is read. If the body ends before the closing
bracket, the rest is one frame marked as unterminated, possibly empty, so that a decoder knows that the end was not
clean. Bytes after the closing bracket are ignored.

Memory is bounded by `limit` for one element; work per byte is constant, however the body is cut.
"""

import re

from streamweir.wire.jsonio import is_dense
from streamweir.wire.sse import DEFAULT_LIMIT, MAX_BYTES_WITHOUT_DATA, EventTooLarge, Frame, skip_bom

_SPACE = re.compile(rb"[ \t\r\n]*+")
_GAP = re.compile(rb"[ \t\r\n,]*+")
_PLAIN = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
"""Up to the next bracket, or to the opening quote of an incomplete string."""
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_QUOTE = 0x22


class ArraySplitter:
    """Bytes to frames whose `raw` and `data` are one element's bytes."""

    def __init__(self, limit: int = DEFAULT_LIMIT, *, at_start: bool = True, accepts_dense: bool = False) -> None:
        """`accepts_dense`: dense elements (`jsonio.is_dense`) are no error, because parsing may take long here."""
        self._accepts_dense = accepts_dense
        self._limit = limit
        self._held = bytearray()  # the unfinished element
        self._scanned = 0  # the number of its bytes that were scanned
        self._depth = 0  # the number of its open brackets; 0 between elements
        self._in_string = False
        self._at_start = at_start  # a byte order mark may follow
        self._in_array = False
        self._has_ended = False
        self._bytes_without_data = 0  # bytes since the last element

    def feed(self, chunk: bytes, /) -> list[Frame]:
        if self._has_ended:
            return []
        held = self._held
        held += chunk
        if self._at_start:
            if not skip_bom(held):
                return []
            self._at_start = False
        frames: list[Frame] = []
        start = 0
        while True:
            if not self._depth:
                gap, start = start, self._find_element(start, frames)
                self._bytes_without_data += start - gap
                if not self._depth:
                    break
            end = self._find_end()
            if end < 0:
                break
            element = bytes(held[start:end])
            if end - start > self._limit or (not self._accepts_dense and is_dense(element)):
                self._fail(frames)
            frames.append(Frame(element, element))
            self._bytes_without_data = 0
            start = end
            if not self._in_array:
                self._has_ended = True
                break
        if self._has_ended:
            held.clear()
            return frames
        del held[:start]
        self._scanned = max(0, self._scanned - start)
        if len(held) > self._limit or self._bytes_without_data > MAX_BYTES_WITHOUT_DATA:
            self._fail(frames)
        return frames

    @property
    def is_mid_event(self) -> bool:
        return self._depth > 0

    def finish(self) -> list[Frame]:
        """The end of the body: nothing after a closed array, else the rest, marked as unterminated."""
        if self._has_ended:
            return []
        self._has_ended = True
        rest = bytes(self._held)
        self._held.clear()
        return [Frame(rest, rest, terminated=False)]

    def _find_element(self, start: int, frames: list[Frame]) -> int:
        """The start of the next element (then `_depth` is 1), or the position up to which there is none."""
        held = self._held
        at = _end(_GAP if self._in_array else _SPACE, held, start)
        if not self._in_array and held[at : at + 1] == b"[":
            self._in_array = True
            at = _end(_GAP, held, at + 1)
        if at == len(held):
            return at
        first = bytes(held[at : at + 1])
        if first == b"{":
            self._depth = 1
            self._scanned = at + 1
            return at
        if first != b"]" or not self._in_array:
            frames.append(Frame(first, first))
        self._has_ended = True
        return at

    def _find_end(self) -> int:
        """The end of the element, or -1 if it is not known yet."""
        held = self._held
        at = self._scanned
        size = len(held)
        while at < size:
            if self._in_string:
                at = _end(_IN_STRING, held, at)
                if at == size or held[at] != _QUOTE:  # not the quote: an incomplete escape
                    break
                self._in_string = False
                at += 1
            at = _end(_PLAIN, held, at)
            if at == size:
                break
            byte = held[at]
            at += 1
            if byte == _QUOTE:
                self._in_string = True
            elif byte in b"{[":
                self._depth += 1
            else:
                self._depth -= 1
                if not self._depth:
                    self._scanned = at
                    return at
        self._scanned = at
        return -1

    def _fail(self, frames: list[Frame]) -> None:
        self._has_ended = True
        self._held.clear()
        raise EventTooLarge(self._limit, frames)


def _end(pattern: re.Pattern[bytes], held: bytearray, start: int) -> int:
    found = pattern.match(held, start)
    return found.end() if found else start
