"""The steps of a scripted upstream (`scripted`), the line they write to, and the requests they answer.

A script is a sequence of steps, played once per request. A step is anything that can be awaited
with the line, so an `async def step(line)` in a test is a step too. Every answer is brought to an
end by the script itself: `End` (whole, by the rules of HTTP), `Fin` or `Rst` (the connection, not
the answer), or `Hang` (the peer has to leave). Bytes are in the kernel when a step is over, piece
by piece. Bodies of providers are in `answers`: nothing here knows what the bytes mean.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Protocol

Framing = Literal["chunked", "close"] | int
"""How the end of a body is marked: by chunks, by the end of the connection, or by a content-length of so many bytes."""

Fields = Sequence[tuple[str, str]]


class ScriptMistake(AssertionError):
    """The test's own script cannot be played."""


@dataclass(eq=False)
class Seen:
    """One request as it came, and what has been sent for it so far."""

    number: int
    """0, 1, 2 over all connections of the upstream."""
    connection: int
    """Likewise: two requests with the same number here came on one kept connection."""
    method: str
    path: str
    fields: Fields
    """As sent: order, case and repetitions."""
    body: bytes
    body_sent: int = 0
    """Bytes of the answer's body that the kernel has taken, before framing."""
    tokens: int = 0
    """What the steps said that their bytes are worth."""

    @property
    def headers(self) -> dict[str, str]:
        """Names in lower case; of a repeated one the last."""
        return {name.lower(): value for name, value in self.fields}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire(Protocol):
    """The connection below a line."""

    can_write: asyncio.Event

    @property
    def transport(self) -> asyncio.Transport: ...

    def hang_up(self, now: bool = False) -> None: ...


class Line:
    """The connection as a step sees it, for as long as one answer lasts. A peer that leaves cancels the step."""

    def __init__(self, wire: Wire, request: Seen) -> None:
        self.request = request
        self.is_over = False
        """The answer is complete, or the script has closed the connection."""
        self._wire = wire
        self._framing: Framing | None = None
        self._closes = False

    async def head(self, status: int, fields: Fields, framing: Framing) -> None:
        self._framing = framing
        self._closes = framing == "close" or any(
            name.lower() == "connection" and value.lower() == "close" for name, value in fields
        )
        await self.raw(head_bytes(status, fields, framing))

    async def send(self, data: bytes) -> None:
        """Body bytes: one chunk, where the body is chunked."""
        if self._framing is None:
            raise ScriptMistake("a body before the head")
        if data:
            await self.raw(chunk_bytes(data) if self._framing == "chunked" else data)
            self.request.body_sent += len(data)

    async def raw(self, data: bytes) -> None:
        """Bytes as they are. Returns when the kernel has taken them, so that an endless script holds nothing."""
        self._wire.transport.write(data)
        await asyncio.sleep(0)  # the reader may share this loop: it gets its turn after every piece
        await self._wire.can_write.wait()

    async def end(self) -> None:
        """The body is whole; the connection is kept, unless the head said otherwise."""
        if self._framing == "chunked":
            await self.raw(b"0\r\n\r\n")
        elif self._framing is None or (self._framing != "close" and self.request.body_sent != self._framing):
            raise ScriptMistake(f"an end after {self.request.body_sent} bytes of a body framed by {self._framing!r}")
        if self._closes:
            self.fin()
        self.is_over = True

    def fin(self) -> None:
        """A clean close of the connection, wherever the answer is."""
        self.is_over = True
        self._wire.hang_up()

    def rst(self) -> None:
        """A reset of the connection, wherever the answer is."""
        self.is_over = True
        make_close_a_reset(self._wire.transport)
        self._wire.hang_up(now=True)

    async def hang(self) -> NoReturn:
        """Until the peer leaves."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody completes it")


class Step(Protocol):
    def __call__(self, line: Line, /) -> Awaitable[None]: ...


Script = Sequence[Step] | Callable[[Seen], Sequence[Step]]
"""The same steps for every request, or a choice of the steps for this one."""


def in_turn(*scripts: Sequence[Step]) -> Script:
    """The first script for the first request and so on. One request more than that is a mistake."""

    def chosen(request: Seen) -> Sequence[Step]:
        if request.number >= len(scripts):
            raise ScriptMistake(f"request {request.number} has no script: {len(scripts)} were expected")
        return scripts[request.number]

    return chosen


@dataclass(frozen=True)
class Head:
    status: int = 200
    content_type: str | None = "text/event-stream; charset=utf-8"
    headers: Fields = ()
    framing: Framing = "chunked"

    @property
    def fields(self) -> Fields:
        return [*([("content-type", self.content_type)] if self.content_type is not None else []), *self.headers]

    async def __call__(self, line: Line) -> None:
        await line.head(self.status, self.fields, self.framing)


@dataclass(frozen=True)
class Send:
    """Body bytes: at once, or in pieces of so many bytes, each a chunk and mostly a segment of its own."""

    data: bytes
    pieces_of: int | None = None
    tokens: int = 0

    async def __call__(self, line: Line) -> None:
        for piece in pieces(self.data, self.pieces_of):
            await line.send(piece)
        line.request.tokens += self.tokens


@dataclass(frozen=True)
class Flood:
    """The same body bytes again and again: so many times, or for ever. A peer that does not read stops it."""

    data: bytes
    times: int | None = None

    async def __call__(self, line: Line) -> None:
        count = 0
        while count != self.times:
            await line.send(self.data)
            count += 1


@dataclass(frozen=True)
class Drip:
    """Body bytes, a few at a time: a piece per permit that the test releases, or a piece every so many seconds."""

    data: bytes
    pace: asyncio.Semaphore | float
    pieces_of: int = 1

    async def __call__(self, line: Line) -> None:
        for piece in pieces(self.data, self.pieces_of):
            await (self.pace.acquire() if isinstance(self.pace, asyncio.Semaphore) else asyncio.sleep(self.pace))
            await line.send(piece)


@dataclass(frozen=True)
class Raw:
    """Bytes on the socket without framing."""

    data: bytes

    async def __call__(self, line: Line) -> None:
        await line.raw(self.data)


@dataclass(frozen=True)
class Wait:
    """Until the test sets the event."""

    event: asyncio.Event

    async def __call__(self, _: Line) -> None:
        await self.event.wait()


@dataclass(frozen=True)
class End:
    async def __call__(self, line: Line) -> None:
        await line.end()


@dataclass(frozen=True)
class Fin:
    async def __call__(self, line: Line) -> None:
        line.fin()


@dataclass(frozen=True)
class Rst:
    async def __call__(self, line: Line) -> None:
        line.rst()


@dataclass(frozen=True)
class Hang:
    async def __call__(self, line: Line) -> None:
        await line.hang()


@dataclass(frozen=True)
class CutAt:
    """The first bytes of a body, then the end of the connection. For a cut inside the framing: `answer_bytes`."""

    data: bytes
    offset: int
    how: Literal["fin", "rst"]

    async def __call__(self, line: Line) -> None:
        await line.send(self.data[: self.offset])
        (line.fin if self.how == "fin" else line.rst)()


def make_close_a_reset(transport: asyncio.BaseTransport) -> None:
    """From now on closing this connection, on either side of a test, sends a reset."""
    no_linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)


def stream(body: bytes, pieces_of: int | None = None) -> list[Step]:
    """A chunked event stream, whole."""
    return [Head(), Send(body, pieces_of), End()]


def whole(body: bytes, status: int = 200, headers: Fields = ()) -> list[Step]:
    """A JSON answer with its length."""
    return [Head(status, "application/json", headers, framing=len(body)), Send(body), End()]


def answer_bytes(body: bytes, head: Head | None = None, pieces_of: int | None = None) -> bytes:
    """A whole answer as it is on the wire, so that a test can cut it at any byte."""
    head = head or Head()
    start = head_bytes(head.status, head.fields, head.framing)
    if head.framing != "chunked":
        return start + body
    return start + b"".join(chunk_bytes(piece) for piece in pieces(body, pieces_of)) + b"0\r\n\r\n"


def head_bytes(status: int, fields: Fields, framing: Framing) -> bytes:
    told = {"chunked": ("transfer-encoding", "chunked"), "close": ("connection", "close")}
    own = told[framing] if isinstance(framing, str) else ("content-length", str(framing))
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in [*fields, own])]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def chunk_bytes(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def pieces(data: bytes, size: int | None) -> list[bytes]:
    size = size or max(len(data), 1)
    return [data[at : at + size] for at in range(0, len(data), size)]
