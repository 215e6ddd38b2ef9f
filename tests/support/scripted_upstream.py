"""The scripted upstream: a real server on a real socket that a test controls byte by byte.

It takes the place of a provider, inside the test's own event loop, and plays a script (`script`)
for each request. It keeps its own count of connections, requests, tokens and of the peers that
left early, and a test waits for those counts, never for a time:

    async with ScriptedUpstream([Head(), Send(frame), Wait(more), Send(rest), End()]) as up:
        ...                             # talk to the gateway, which talks to up.base_url
        await up.aborted(1)             # the gateway has hung up on us

A script that cannot be played, or a request that is not HTTP, is raised when the block is left.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self, cast

from support.deadlines import WAIT_TIMEOUT_S
from support.script import Line, Script, ScriptMistake, Seen, Step, whole


@dataclass(frozen=True)
class Abort:
    """A peer that left before the script was through."""

    request: Seen
    how: Literal["fin", "reset"]
    """What arrived. A close with unread bytes in the peer's buffer arrives as a reset too."""


class Connection(asyncio.Protocol):
    """One accepted connection: reads requests, plays the script of each, notices when the peer leaves."""

    transport: asyncio.Transport

    def __init__(self, upstream: "ScriptedUpstream") -> None:
        self.can_write = asyncio.Event()
        self.can_write.set()
        self.is_open = True
        self.line: Line | None = None
        """The answer that is under way."""
        self._upstream = upstream
        self._buffer = bytearray()
        self._has_more = asyncio.Event()
        self._is_hung_up = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's has the methods, not the base class
        # Nothing is held here: what the kernel does not take stops the script. (Over TLS, 0 would stop it for ever.)
        self.transport.set_write_buffer_limits(high=0 if self._upstream.tls is None else 1, low=0)
        self._number = self._upstream.accepted
        self._upstream.opened(self)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._has_more.set()

    def eof_received(self) -> None:
        self._peer_left("fin")

    def connection_lost(self, exc: Exception | None) -> None:
        self._peer_left("fin" if exc is None else "reset")
        self.is_open = False
        self._upstream.changed()

    def pause_writing(self) -> None:
        self.can_write.clear()
        self._upstream.stalls += 1
        self._upstream.changed()

    def resume_writing(self) -> None:
        self.can_write.set()

    def hang_up(self, now: bool = False) -> None:
        self._is_hung_up = True
        if now:
            self.transport.abort()
        else:
            self.transport.close()

    async def over(self) -> None:
        """Ends it, and raises what went wrong while it was served."""
        self.hang_up(now=True)
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (mistake := self._task.exception()) is not None:
            raise mistake

    def _peer_left(self, how: Literal["fin", "reset"]) -> None:
        if self.line is not None and not self._is_hung_up:
            self._upstream.aborts.append(Abort(self.line.request, how))
            self._upstream.changed()
        self._is_hung_up = True
        self._task.cancel()

    async def _serve(self) -> None:
        try:
            while not self._is_hung_up:
                request = await self._next_request()
                self.line = Line(self, request)
                self._upstream.came(request)
                await self._play(self.line)
                self.line = None
                self._upstream.served += 1
                self._upstream.changed()
        except Exception:
            # It stays in the task and is raised by `over`; until then the peer must not be left waiting.
            self.hang_up(now=True)
            raise

    async def _play(self, line: Line) -> None:
        for step in self._upstream.script_of(line.request):
            if line.is_over:
                raise ScriptMistake(f"a step after the end: {step!r}")
            await step(line)
        if not line.is_over:
            raise ScriptMistake("the script ran out before End, Fin or Rst")

    async def _next_request(self) -> Seen:
        head = (await self._read_until(b"\r\n\r\n")).decode("latin-1").removesuffix("\r\n\r\n")
        start, *lines = head.split("\r\n")
        method, path, version = start.split(" ")
        if version != "HTTP/1.1":
            raise AssertionError(f"not a request: {start!r}")
        fields = []
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip():
                raise AssertionError(f"not a header field: {line!r}")
            fields.append((name, value.strip()))
        body = await self._read_body({name.lower(): value for name, value in fields})
        return Seen(len(self._upstream.requests), self._number, method, path, fields, body)

    async def _read_body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await self._read(int(headers.get("content-length", "0")))
        body = b""
        while size := int(await self._read_until(b"\r\n"), 16):
            body += (await self._read(size + 2)).removesuffix(b"\r\n")
        await self._read(2)
        return body

    async def _read_until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            await self._more()
        return await self._read(self._buffer.index(mark) + len(mark))

    async def _read(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._more()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def _more(self) -> None:
        self._has_more.clear()
        await self._has_more.wait()


@dataclass(eq=False)
class ScriptedUpstream:
    script: Script
    tls: ssl.SSLContext | None = None
    send_buffer: int | None = None
    """The kernel's buffer for a connection's outgoing bytes, where a test wants it small."""

    requests: list[Seen] = field(default_factory=list, init=False)
    aborts: list[Abort] = field(default_factory=list, init=False)
    accepted: int = field(default=0, init=False)
    """Connections, over all time."""
    served: int = field(default=0, init=False)
    """Requests whose script was played to its end."""
    stalls: int = field(default=0, init=False)
    """How often the kernel would take no more of an answer."""
    port: int = field(default=0, init=False)
    connections: list[Connection] = field(default_factory=list, init=False, repr=False)

    async def __aenter__(self) -> Self:
        self._watch = asyncio.Event()
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        if self.send_buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer)
        self.port = listener.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=listener, ssl=self.tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        endings = await asyncio.gather(*(each.over() for each in self.connections), return_exceptions=True)
        await self.vacated()
        await self._server.wait_closed()
        for ending in endings:
            if isinstance(ending, BaseException):
                raise ending from error

    @property
    def base_url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/v1"

    @property
    def open_connections(self) -> int:
        return sum(each.is_open for each in self.connections)

    @property
    def open_answers(self) -> int:
        return sum(each.is_open and each.line is not None for each in self.connections)

    @property
    def tokens(self) -> int:
        return sum(request.tokens for request in self.requests)

    @property
    def body_sent(self) -> int:
        return sum(request.body_sent for request in self.requests)

    def close_idle(self) -> None:
        """Hangs up on every kept connection that has no request under way, as a provider does."""
        for each in self.connections:
            if each.is_open and each.line is None:
                each.hang_up()

    async def seen(self, count: int) -> Seen:
        """The last of so many requests, when it has come whole."""
        await self.until(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def played(self, count: int) -> None:
        """Until so many scripts are through."""
        await self.until(lambda: self.served >= count)

    async def aborted(self, count: int) -> Abort:
        """The last of so many peers that left early."""
        await self.until(lambda: len(self.aborts) >= count)
        return self.aborts[count - 1]

    async def stalled(self, count: int = 1) -> None:
        """Until the kernel has refused more bytes so often, because the peer does not read them."""
        await self.until(lambda: self.stalls >= count)

    async def idle(self) -> None:
        """Until no answer is under way. Kept connections may be open."""
        await self.until(lambda: self.open_answers == 0)

    async def vacated(self) -> None:
        """Until no connection is open at all."""
        await self.until(lambda: self.open_connections == 0)

    async def until(self, holds: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while not holds():
                    self._watch.clear()
                    await self._watch.wait()
        except TimeoutError:
            counted = f"{self.accepted} connections ({self.open_connections} open), {len(self.requests)} requests"
            raise AssertionError(f"it did not happen: {counted}, {self.served} served, {self.aborts}") from None

    def script_of(self, request: Seen) -> Sequence[Step]:
        return self.script(request) if callable(self.script) else self.script

    def opened(self, connection: Connection) -> None:
        self.accepted += 1
        self.connections.append(connection)
        self.changed()

    def came(self, request: Seen) -> None:
        self.requests.append(request)
        self.changed()

    def changed(self) -> None:
        self._watch.set()


class ForbiddenServer(ScriptedUpstream):
    """A server that must not be reached: leaving the block fails if there was a connection."""

    def __init__(self) -> None:
        super().__init__(whole(b"{}"))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, trace)
        if self.accepted:
            raise AssertionError(f"the canary was reached: {[(each.method, each.path) for each in self.requests]}")


def closed_port() -> int:
    """A port without a listener: a connection to it is refused."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def black_hole() -> Iterator[int]:
    """A port that answers no SYN, because the queue of its listener is full: a connection to it never comes about."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as listener:
        port: int = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        try:
            yield port
        finally:
            for each in waiting:
                each.close()
