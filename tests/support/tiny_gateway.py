"""A gateway without HTTP and providers, for tests of the life around it: real sockets, lines of text.

It greets a connection with `pid NUMBER`, or with `busy` when it takes no more, and then does as it is
told: `stream` is a stream until the caller closes it, `metrics` shows what has been counted.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable

from streamweir.core.errors import StreamweirError
from streamweir.server.telemetry.metrics import Metrics


class TinyGateway:
    """See `streamweir.server.process.lifecycle.Gateway`. `calls` is what was asked of it, in order."""

    def __init__(self, drain_s: float = 60.0, lame_duck_s: float = 0.0) -> None:
        self.drain_s = drain_s
        self.lame_duck_s = lame_duck_s
        self.is_unused = asyncio.Event()
        self.calls: list[str] = []
        self._called = asyncio.Event()
        self.metrics = Metrics()
        self.metrics_of_all: Callable[[], Awaitable[bytes]] = self._metrics_of_one
        self.fault: Exception | None = None
        self.is_stuck = False
        self._is_draining = False
        self._streams: set[asyncio.StreamWriter] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._over = asyncio.Event()
        self._over.set()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    async def listen(self, listener: socket.socket) -> None:
        self._servers.append(await asyncio.start_server(self._connected, sock=listener))

    def begin_lame_duck(self) -> None:
        self._note("begin_lame_duck")

    async def unused(self, quiet_s: float, /) -> None:
        self._note(f"unused {quiet_s:g}")
        await self.is_unused.wait()

    def stop_admitting(self) -> None:
        self._note("stop_admitting")
        self._is_draining = True

    def stop_listening(self) -> None:
        self._note("stop_listening")
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def drained(self) -> None:
        if self.fault is not None:
            raise self.fault
        await self._over.wait()
        self._note("drained")

    def end_streams(self, error: StreamweirError, /) -> None:
        self._note(f"end_streams {error.code}")
        for writer in list(self._streams):
            writer.write(f"error {error.code}\n".encode())
            writer.close()

    async def close(self, grace_s: float, /) -> None:
        self._note(f"close {grace_s:g}")
        if self.is_stuck:
            await asyncio.Event().wait()
        self.stop_listening()
        for writer in list(self._writers):
            writer.close()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._note("closed")

    async def called(self, name: str) -> None:
        while name not in self.calls:
            self._called.clear()
            await self._called.wait()

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._called.set()

    def metrics_text(self) -> bytes:
        return self.metrics.text()

    async def _metrics_of_one(self) -> bytes:
        return self.metrics_text()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            writer.write(b"busy\n" if self._is_draining else b"pid %d\n" % os.getpid())
            while not self._is_draining and (line := await reader.readline()):
                if line == b"metrics\n":
                    text = await self.metrics_of_all()
                    writer.write(b"%d\n" % len(text) + text)
                elif line == b"stream\n":
                    await self._stream(reader, writer)
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._streams.add(writer)
        self._over.clear()
        self.metrics.stream_opened()
        self.metrics.chunk_gap.observe(0.0)
        writer.write(b"started\n")
        try:
            await reader.read()
        finally:
            self._streams.discard(writer)
            self.metrics.stream_closed()
            if not self._streams:
                self._over.set()
