"""The other end of an upstream connection, moved by hand: a test accepts, reads, sends and hangs up itself.

    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        call = await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        ...

Leaving the first block fails unless the client has closed every connection it made; leaving the
second fails unless all of its places are free and nothing went wrong in a callback.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from types import TracebackType
from typing import Any, Self

from streamweir.core.errors import StreamweirError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.base import Endpoint
from streamweir.upstream.http1 import Http1Upstream
from support.deadlines import WAIT_TIMEOUT_S

REQUEST = UpstreamRequest(path="/chat", headers=(("content-type", "application/json"),), body=b'{"n":1}')
OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = OK + b"content-length: 2\r\n\r\nhi"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


class Peer:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """A whole request, head and body."""
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            for line in head.split(b"\r\n"):
                name, _, value = line.partition(b": ")
                if name == b"content-length":
                    return head + await self.reader.readexactly(int(value))
        return head

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, data: bytes) -> bytes:
        """Reads a request and sends this. The request is given back."""
        request = await self.request()
        self.send(data)
        return request

    def finish(self) -> None:
        """FIN, and nothing is read any more."""
        self.writer.close()

    def reset(self) -> None:
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Until the client has closed or reset the connection, or we have."""
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                pass
        self.writer.close()


class UpstreamServer:
    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._accepted: asyncio.Queue[Peer] = asyncio.Queue()
        self.peers: list[Peer] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._welcome, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for peer in self.peers:
            if error is None:
                await peer.gone()
            else:
                peer.writer.transport.abort()

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self.peers.append(peer)
        self._accepted.put_nowait(peer)

    @property
    def base_url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/v1"

    def stop_listening(self) -> None:
        self._server.close()

    async def accept(self) -> Peer:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            return await self._accepted.get()

    def endpoint(self, **more: Any) -> Endpoint:
        return Endpoint(**{"base_url": self.base_url, **more})


@asynccontextmanager
async def using(endpoint: Endpoint, linger_s: float = WAIT_TIMEOUT_S) -> AsyncIterator[Http1Upstream]:
    loop = asyncio.get_running_loop()
    mishaps: list[dict[str, Any]] = []
    if loop.get_exception_handler() is None:
        loop.set_exception_handler(lambda _loop, context: mishaps.append(context))
    upstream = Http1Upstream(endpoint, linger_s=linger_s)
    try:
        yield upstream
    finally:
        await upstream.close()
    await turns()
    assert (upstream.in_use, upstream.idle, upstream.waiting) == (0, 0, 0)
    assert mishaps == []


class Recorder:
    """A receiver that records its calls, and does what `on` says at that moment."""

    def __init__(self, on: Mapping[str, Callable[[], object]] | None = None) -> None:
        self.calls: list[str] = []
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.reads: list[bytes] = []
        self.error: StreamweirError | None = None
        self._on = on or {}
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def body(self) -> bytes:
        return b"".join(self.reads)

    @property
    def code(self) -> str | None:
        return self.error.code if self.error is not None else None

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        self.status, self.headers = status, headers
        self._record("head")

    def body_received(self, data: bytes, /) -> None:
        self.reads.append(data)
        self._record("body")

    def body_ended(self) -> None:
        self._record("ended")

    def call_failed(self, error: StreamweirError, /) -> None:
        self.error = error
        self._record("failed")

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while not holds():
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter

    async def over(self) -> "Recorder":
        await self.until(lambda: self.calls[-1:] in (["ended"], ["failed"]))
        assert self.calls.count("ended") + self.calls.count("failed") == 1
        return self

    def _record(self, what: str) -> None:
        self.calls.append(what)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if what in self._on:
            self._on[what]()


@contextmanager
def swallowing() -> Iterator[int]:
    """The port of a listener that takes no more connections and refuses none: they are never made."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        name = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(name)
        try:
            yield name[1]
        finally:
            for filler in fillers:
                filler.close()


@contextmanager
def refusing() -> Iterator[int]:
    """A port without a listener, reserved so that no other program can listen on it."""
    with closing(socket.socket()) as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


async def settled(holds: Callable[[], bool]) -> None:
    """Waits until a condition without an event holds."""
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while not holds():
            await asyncio.sleep(0)


async def turns() -> None:
    """Long enough for what was sent to be read."""
    for _ in range(5):
        await asyncio.sleep(0)
