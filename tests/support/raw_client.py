"""A caller with a bare socket: it sends the given bytes, and returns exactly what came back.

It knows just enough of HTTP to find the end of a response, and forgives nothing: a broken frame
is a failed assertion. How it leaves (`half_close`, `close`, `reset`) is what many tests are about.

    async with await RawClient.open(address) as client:
        await client.send(b"GET / HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n")
        assert (await client.response()).status == 200
"""

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from support.deadlines import WAIT_TIMEOUT_S


@dataclass(frozen=True)
class Reply:
    """One response. Header names are lower-case, in the order sent, repeated ones apart."""

    status: int
    headers: tuple[tuple[str, str], ...]
    head: bytes
    body: bytes = b""
    chunks: tuple[bytes, ...] = ()
    """The body as it was framed, where it was chunked."""

    def header(self, name: str) -> str | None:
        """The one value of that name; None without it."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, f"{name} was sent {len(values)} times"
        return values[0] if values else None


class CutShort(AssertionError):
    """The connection ended within a response (or before it): what had come of it."""

    def __init__(self, received: bytes) -> None:
        super().__init__(received)
        self.received = received


class RawClient:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()

    @classmethod
    async def open(cls, address: tuple[str, int], *, receive_buffer: int | None = None) -> Self:
        """`receive_buffer` bounds what the kernel takes for a caller that does not read."""
        sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if receive_buffer is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(sock, address), WAIT_TIMEOUT_S)
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def send(self, data: bytes) -> None:
        await asyncio.wait_for(self._loop.sock_sendall(self.sock, data), WAIT_TIMEOUT_S)

    async def response(self, *, has_body: bool = True) -> Reply:
        """The next response; `has_body=False` for the answer to HEAD. Interim ones (1xx) are responses too."""
        head = await self.read_until(b"\r\n\r\n")
        status, headers = _read_head(head)
        reply = Reply(status, headers, head)
        if not has_body or status < 200 or status in (204, 304):
            return reply
        if reply.header("transfer-encoding") is not None:
            assert reply.header("transfer-encoding") == "chunked"
            assert reply.header("content-length") is None
            chunks = []
            while chunk := await self.chunk():
                chunks.append(chunk)
            return Reply(status, headers, head, b"".join(chunks), tuple(chunks))
        length = reply.header("content-length")
        body = await self.read_to_end() if length is None else await self.read_exactly(int(length))
        return Reply(status, headers, head, body)

    async def head(self) -> Reply:
        """The head of the next response alone; its body is read by the other methods."""
        return await self.response(has_body=False)

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty for the last."""
        size = int(await self.read_until(b"\r\n"), 16)
        chunk = await self.read_exactly(size + 2)
        assert chunk.endswith(b"\r\n")
        return chunk[:-2]

    async def rest(self) -> bytes:
        """The other chunks of a response that has begun."""
        body = b""
        while chunk := await self.chunk():
            body += chunk
        return body

    async def read_exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._more()
        return self._take(count)

    async def read_until(self, mark: bytes) -> bytes:
        """Up to and with the mark."""
        while (at := self._buffer.find(mark)) < 0:
            await self._more()
        return self._take(at + len(mark))

    async def read_to_end(self) -> bytes:
        """All that comes until the other side closes. A reset is an error."""
        while data := await self._receive():
            self._buffer += data
        return self._take(len(self._buffer))

    async def is_closed(self) -> bool:
        """Waits for the other side to close or reset; False where bytes come instead."""
        try:
            return not self._buffer and not await self._receive()
        except ConnectionError:
            return True

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Leaves with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def leave(self) -> None:
        """Loses its connection while it may be reading: that ends as if the other side had closed."""
        with suppress(OSError):  # it is closed already
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.sock.close()

    def _take(self, count: int) -> bytes:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def _more(self) -> None:
        data = await self._receive()
        if not data:
            raise CutShort(bytes(self._buffer))
        self._buffer += data

    async def _receive(self) -> bytes:
        return await asyncio.wait_for(self._loop.sock_recv(self.sock, 65536), WAIT_TIMEOUT_S)


def _read_head(head: bytes) -> tuple[int, tuple[tuple[str, str], ...]]:
    line, *fields = head.removesuffix(b"\r\n\r\n").decode("latin-1").split("\r\n")
    version, status, _ = line.split(" ", 2)
    assert version == "HTTP/1.1"
    headers = []
    for field in fields:
        name, colon, value = field.partition(": ")
        assert colon
        assert name == name.lower()
        headers.append((name, value))
    return int(status), tuple(headers)
