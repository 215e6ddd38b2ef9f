"""A TCP proxy that loses connections in the middle of event streams, as a phone that changes its network does.

    async with CuttingProxy(gate.address, cuts=(400, 0, 900)) as proxy:
        ...  # speak to proxy.base_url

The first answer that is an event stream is cut behind so many bytes of its body, the next one behind the next number;
when the numbers are used up, the rest passes. Other answers pass. Bytes are those on the wire, framing included.
"""

import asyncio
import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from support.deadlines import WAIT_TIMEOUT_S

_RESET = struct.pack("ii", 1, 0)
_READ_BYTES = 65536


class CuttingProxy:
    def __init__(self, target: tuple[str, int], cuts: Sequence[int]) -> None:
        self._target = target
        self._cuts = list(cuts)
        self.done = 0
        """How many streams were cut."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.base_url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.base_url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._join(reader, writer)
        except ConnectionError:
            pass  # whoever closed first
        finally:
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(*self._target)
        asking = asyncio.create_task(_copy(reader, to_server))
        try:
            await self._answer(from_server, writer)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            to_server.close()

    async def _answer(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Answers one after the other, each until the next one's head would begin: a piece with a head starts one."""
        left: int | None = None
        while data := await source.read(_READ_BYTES):
            body = len(data)
            if data.startswith(b"HTTP/1.1 "):
                head, _, rest = data.partition(b"\r\n\r\n")
                streams = b"text/event-stream" in head.lower()
                left = self._cuts.pop(0) if streams and self._cuts else None
                body = len(rest)
            if left is not None and body >= left:
                sink.write(data[: len(data) - body + left])
                await sink.drain()
                self.done += 1
                _reset(sink)
                return
            if left is not None:
                left -= body
            sink.write(data)
            await sink.drain()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(_READ_BYTES):
        sink.write(data)
        await sink.drain()
    sink.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    assert sock is not None
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
