"""The body of a request: bytes in, the bytes of the body out, and never one of the next request. No socket, no clock.

`feed` takes what belongs to the body and says how much that was. What is malformed or too large
raises `CallerError`. Memory is bounded by the limit of the body, however it is cut: pieces go into
one buffer. So is the work of one call: `feed` stops after as many chunks as it is told. A body of very many
very small ones is refused: to read it takes far longer than to send it. Chunk extensions and trailers
are dropped; trailers that would change how the message is framed, routed or judged are refused, like
everything else that RFC 9112 leaves to taste.

`ReadBudget` limits how many chunks are parsed in one turn of the event loop, over all connections. A body may have
`FEW` of them parsed whenever its connection has its turn, so that none waits for others. What is more comes out of a
budget that all share and that is renewed once a turn: however many callers send small chunks at the same time, the loop
is back after a few milliseconds.
"""

import asyncio
import re
from typing import NoReturn, Protocol

from streamweir.core.errors import CallerError

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(;[\t -~]*)?\r\n")
_SIZE_BEGUN = re.compile(rb"[0-9A-Fa-f]{1,8}(?:;[\t -~]*)?\r?")
_TRAILER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t -~\x80-\xff]*\r\n")
_LONGEST_LINE = 1024
_MOST_EXTRA = 16 * 1024
"""Of chunk extensions and trailers together: they cost a sender nothing else."""
CHUNKS_A_TURN = 128
"""How many are read in one go, which takes about half a millisecond."""
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
    def is_whole(self) -> bool: ...

    @property
    def size(self) -> int:
        """How many bytes it has so far."""
        ...

    @property
    def chunks(self) -> int:
        """How many chunks were read so far."""
        ...

    def feed(self, data: bytes, most_chunks: int = CHUNKS_A_TURN, /) -> int:
        """How many of these bytes belong to the body and were read. Where that is not all and it is not whole, call
        again with the rest, after others had their turn."""
        ...

    def take(self) -> bytes: ...


class SizedBody:
    """As many bytes as were declared, which is at least one."""

    __slots__ = ("_left", "_pieces", "_whole")

    def __init__(self, length: int) -> None:
        self._left = length
        self._pieces: bytearray | None = None
        self._whole = b""

    @property
    def is_whole(self) -> bool:
        return not self._left

    @property
    def size(self) -> int:
        return len(self._whole) if self._pieces is None else len(self._pieces)

    @property
    def chunks(self) -> int:
        return 0

    def feed(self, data: bytes, _most_chunks: int = CHUNKS_A_TURN, /) -> int:
        used = min(len(data), self._left)
        piece = data if used == len(data) else data[:used]
        self._left -= used
        if self._pieces is not None:
            self._pieces += piece
        elif self._left:
            self._pieces = bytearray(piece)
        else:
            self._whole = piece
        return used

    def take(self) -> bytes:
        return self._whole if self._pieces is None else bytes(self._pieces)


class ChunkedBody:
    """Chunks up to the one of no length, then trailers up to an empty line."""

    __slots__ = ("_body", "_extra", "_in_trailers", "_is_between", "_left", "_line", "_most", "chunks", "is_whole")

    def __init__(self, most: int) -> None:
        self._most = most
        self._body = bytearray()
        self.chunks = 0
        self._line = b""
        """What has come of a line that is not whole yet."""
        self._left = 0
        """Of the chunk that is being read."""
        self._is_between = False
        """A chunk's bytes are all here, the line end behind them is not."""
        self._in_trailers = False
        self._extra = 0
        self.is_whole = False

    @property
    def size(self) -> int:
        return len(self._body)

    def feed(self, data: bytes, most_chunks: int = CHUNKS_A_TURN, /) -> int:
        at, end = 0, len(data)
        last = self.chunks + most_chunks
        while at < end and not self.is_whole and self.chunks < last:
            if self._left:
                used = min(self._left, end - at)
                self._body += data[at : at + used]
                at += used
                self._left -= used
                self._is_between = not self._left
            else:
                at = self._feed_line(data, at)
        return at

    def take(self) -> bytes:
        return bytes(self._body)

    def _feed_line(self, data: bytes, at: int) -> int:
        stop = data.find(b"\n", at) + 1
        line = self._line + (data[at:stop] if stop else data[at : at + _LONGEST_LINE + 1])
        if len(line) > _LONGEST_LINE:
            _refuse("a line of its chunked body is too long")
        if not stop:
            self._check_begun(line)
            self._line = line
            return len(data)
        self._line = b""
        if self._is_between:
            if line != b"\r\n":
                _refuse("a chunk does not end where it should")
            self._is_between = False
        elif self._in_trailers:
            self._read_trailer(line)
        else:
            self._read_size(line)
        return stop

    def _check_begun(self, line: bytes) -> None:
        """So that what cannot become a line is refused at once, not at the deadline."""
        if self._is_between:
            if line != b"\r":
                _refuse("a chunk does not end where it should")
        elif not self._in_trailers and not _SIZE_BEGUN.fullmatch(line):
            _refuse("a chunk size is malformed")

    def _read_size(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            _refuse("a chunk size is malformed")
        if match[2]:
            self._count_extra(len(match[2]))
        size = int(match[1], 16)
        if len(self._body) + size > self._most:
            raise too_large(self._most)
        self._left = size
        self._in_trailers = not size
        self.chunks += 1
        if self.chunks > MANY_CHUNKS and len(self._body) < self.chunks * SMALL_CHUNK:
            _refuse_chunks(self.chunks - 1, len(self._body))

    def _read_trailer(self, line: bytes) -> None:
        if line == b"\r\n":
            self.is_whole = True
            return
        match = _TRAILER_LINE.fullmatch(line)
        if match is None:
            _refuse("a trailer is malformed")
        if match[1].lower() in _FORBIDDEN_TRAILERS:
            _refuse("a trailer has a name that only a header may have")
        self._count_extra(len(line))

    def _count_extra(self, count: int) -> None:
        self._extra += count
        if self._extra > _MOST_EXTRA:
            _refuse("its chunk extensions and trailers are too long")


def too_large(most: int) -> CallerError:
    return CallerError("request_too_large", f"The request body exceeds {most} bytes.")


def _refuse_chunks(chunks: int, size: int) -> NoReturn:
    message = (
        f"The request body came in {chunks} chunks for {size} bytes: send chunks of {SMALL_CHUNK} bytes or more, "
        "or the whole body with a 'Content-Length'."
    )
    raise CallerError("invalid_value", message)


def _refuse(reason: str) -> NoReturn:
    raise CallerError("invalid_value", f"The request is not valid HTTP: {reason}.")


FEW = 16
BUDGET = 1024
"""About four milliseconds."""


class ReadBudget:
    __slots__ = ("_budget", "_left")

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._left = budget

    def allowed(self) -> int:
        """How many may be parsed now."""
        return min(FEW + self._left, CHUNKS_A_TURN)

    def spent(self, count: int) -> None:
        """So many were parsed."""
        if count <= FEW:
            return
        if self._left == self._budget:
            asyncio.get_running_loop().call_soon(self._renew)
        self._left = max(self._left - (count - FEW), 0)

    def _renew(self) -> None:
        self._left = self._budget
