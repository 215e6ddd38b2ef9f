"""The body of a request: bytes in, the bytes of the body out, and never one of the next request. No socket, no clock.

`feed` reads what belongs to the body and returns how many bytes that was. A malformed or too large body raises
`CallerError`. Memory is bounded by the limit of the body: all pieces go into one buffer. The work of one call is
bounded too: `feed` stops after `max_chunks` chunks. A body of very many very small chunks is refused, because reading
it takes far longer than sending it. Chunk extensions and trailers are dropped. Trailers that would change the framing,
the routing or the authentication of the message are refused, like everything that RFC 9112 leaves open.

`ReadBudget` limits how many chunks are parsed in one turn of the event loop, over all connections. Each body may use
`FREE_CHUNKS` per call, so that no body waits for others. Further chunks use a budget that all bodies share and that is
renewed once a turn. So a turn takes a few milliseconds, however many callers send small chunks at the same time.
"""

import asyncio
import re
from typing import NoReturn, Protocol

from streamweir.core.errors import CallerError

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(;[\t -~]*)?\r\n")
_PARTIAL_SIZE_LINE = re.compile(rb"[0-9A-Fa-f]{1,8}(?:;[\t -~]*)?\r?")
_TRAILER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t -~\x80-\xff]*\r\n")
_MAX_LINE_BYTES = 1024
_MAX_EXTRA_BYTES = 16 * 1024
"""Of chunk extensions and trailers together: no other limit bounds them."""
MAX_CHUNKS_PER_TURN = 128
"""How many one call parses, which takes about half a millisecond."""
MANY_CHUNKS = 4096
SMALL_CHUNK = 64
"""No client that writes in pieces has more than `MANY_CHUNKS` of fewer bytes than this on average."""
_FORBIDDEN_TRAILERS = frozenset(
    b"authorization connection content-encoding content-length content-range content-type cookie expect host "
    b"keep-alive max-forwards proxy-authorization proxy-connection range te trailer transfer-encoding upgrade "
    b"x-api-key api-key x-forwarded-for forwarded x-request-id idempotency-key".split()
)


class Body(Protocol):
    @property
    def is_complete(self) -> bool: ...

    @property
    def size(self) -> int:
        """How many bytes it has so far."""
        ...

    @property
    def chunks(self) -> int:
        """How many chunks were read so far."""
        ...

    def feed(self, data: bytes, max_chunks: int = MAX_CHUNKS_PER_TURN, /) -> int:
        """How many of these bytes belong to the body and were read. If some are left and the body is not complete, call
        again with them in a later turn of the event loop."""
        ...

    def take(self) -> bytes: ...


class SizedBody:
    """A body with a declared length of at least one byte."""

    __slots__ = ("_pieces", "_remaining", "_single_piece")

    def __init__(self, length: int) -> None:
        self._remaining = length
        self._pieces: bytearray | None = None
        self._single_piece = b""

    @property
    def is_complete(self) -> bool:
        return not self._remaining

    @property
    def size(self) -> int:
        return len(self._single_piece) if self._pieces is None else len(self._pieces)

    @property
    def chunks(self) -> int:
        return 0

    def feed(self, data: bytes, _max_chunks: int = MAX_CHUNKS_PER_TURN, /) -> int:
        used = min(len(data), self._remaining)
        piece = data if used == len(data) else data[:used]
        self._remaining -= used
        if self._pieces is not None:
            self._pieces += piece
        elif self._remaining:
            self._pieces = bytearray(piece)
        else:
            self._single_piece = piece
        return used

    def take(self) -> bytes:
        return self._single_piece if self._pieces is None else bytes(self._pieces)


class ChunkedBody:
    """Chunks up to the one of no length, then trailers up to an empty line."""

    __slots__ = (
        "_awaits_chunk_end",
        "_body",
        "_extra",
        "_in_trailers",
        "_line",
        "_max_bytes",
        "_remaining",
        "chunks",
        "is_complete",
    )

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._body = bytearray()
        self.chunks = 0
        self._line = b""
        """The beginning of an incomplete line."""
        self._remaining = 0
        """Bytes of the current chunk that are still missing."""
        self._awaits_chunk_end = False
        """The bytes of a chunk were read, but not the line end after them."""
        self._in_trailers = False
        self._extra = 0
        self.is_complete = False

    @property
    def size(self) -> int:
        return len(self._body)

    def feed(self, data: bytes, max_chunks: int = MAX_CHUNKS_PER_TURN, /) -> int:
        at, end = 0, len(data)
        last = self.chunks + max_chunks
        while at < end and not self.is_complete and self.chunks < last:
            if self._remaining:
                used = min(self._remaining, end - at)
                self._body += data[at : at + used]
                at += used
                self._remaining -= used
                self._awaits_chunk_end = not self._remaining
            else:
                at = self._feed_line(data, at)
        return at

    def take(self) -> bytes:
        return bytes(self._body)

    def _feed_line(self, data: bytes, at: int) -> int:
        line_end = data.find(b"\n", at) + 1
        line = self._line + (data[at:line_end] if line_end else data[at : at + _MAX_LINE_BYTES + 1])
        if len(line) > _MAX_LINE_BYTES:
            _refuse("a line of its chunked body is too long")
        if not line_end:
            self._check_partial_line(line)
            self._line = line
            return len(data)
        self._line = b""
        if self._awaits_chunk_end:
            if line != b"\r\n":
                _refuse("a chunk does not end where it should")
            self._awaits_chunk_end = False
        elif self._in_trailers:
            self._read_trailer(line)
        else:
            self._read_size(line)
        return line_end

    def _check_partial_line(self, line: bytes) -> None:
        """An invalid line is refused at once, not at the deadline."""
        if self._awaits_chunk_end:
            if line != b"\r":
                _refuse("a chunk does not end where it should")
        elif not self._in_trailers and not _PARTIAL_SIZE_LINE.fullmatch(line):
            _refuse("a chunk size is malformed")

    def _read_size(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            _refuse("a chunk size is malformed")
        if match[2]:
            self._count_extra(len(match[2]))
        size = int(match[1], 16)
        if len(self._body) + size > self._max_bytes:
            raise too_large(self._max_bytes)
        self._remaining = size
        self._in_trailers = not size
        self.chunks += 1
        if self.chunks > MANY_CHUNKS and len(self._body) < self.chunks * SMALL_CHUNK:
            _refuse_chunks(self.chunks - 1, len(self._body))

    def _read_trailer(self, line: bytes) -> None:
        if line == b"\r\n":
            self.is_complete = True
            return
        match = _TRAILER_LINE.fullmatch(line)
        if match is None:
            _refuse("a trailer is malformed")
        if match[1].lower() in _FORBIDDEN_TRAILERS:
            _refuse("a trailer has a name that only a header may have")
        self._count_extra(len(line))

    def _count_extra(self, count: int) -> None:
        self._extra += count
        if self._extra > _MAX_EXTRA_BYTES:
            _refuse("its chunk extensions and trailers are too long")


def too_large(max_bytes: int) -> CallerError:
    return CallerError("request_too_large", f"The request body exceeds {max_bytes} bytes.")


def _refuse_chunks(chunks: int, size: int) -> NoReturn:
    message = (
        f"The request body came in {chunks} chunks for {size} bytes: send chunks of {SMALL_CHUNK} bytes or more, "
        "or the whole body with a 'Content-Length'."
    )
    raise CallerError("invalid_value", message)


def _refuse(reason: str) -> NoReturn:
    raise CallerError("invalid_value", f"The request is not valid HTTP: {reason}.")


FREE_CHUNKS = 16
CHUNK_BUDGET = 1024
"""About four milliseconds."""


class ReadBudget:
    __slots__ = ("_budget", "_remaining")

    def __init__(self, budget: int = CHUNK_BUDGET) -> None:
        self._budget = budget
        self._remaining = budget

    def allowed(self) -> int:
        """How many may be parsed now."""
        return min(FREE_CHUNKS + self._remaining, MAX_CHUNKS_PER_TURN)

    def spent(self, count: int) -> None:
        """Counts chunks that were parsed."""
        if count <= FREE_CHUNKS:
            return
        if self._remaining == self._budget:
            asyncio.get_running_loop().call_soon(self._renew)
        self._remaining = max(self._remaining - (count - FREE_CHUNKS), 0)

    def _renew(self) -> None:
        self._remaining = self._budget
