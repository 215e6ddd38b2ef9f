"""A way to PostgreSQL that can be slow, silent or broken, while the server is well and others reach it.

    async with PgProxy(shared_postgres()) as proxy:
        store = await open_store(proxy.url("test1"), tmp_path)
        proxy.delay_s = 5.0

In the test's own event loop, on a socket in a folder of its own.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from support.postgres import PrivatePostgres


class PgProxy:
    def __init__(self, server: PrivatePostgres) -> None:
        self.delay_s = 0.0
        """Before each piece that is passed on, in either direction."""
        self._server = server
        self._folder = Path(tempfile.mkdtemp(prefix="streamweir-proxy-"))
        self._is_whole = True
        self._tasks: set[asyncio.Task[None]] = set()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._folder}"

    def cut(self) -> None:
        """Every connection is lost, and no new one comes about."""
        self._is_whole = False
        for task in self._tasks:
            task.cancel()

    def mend(self) -> None:
        self._is_whole = True

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_unix_server(self._serve, self._folder / ".s.PGSQL.5432")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)
        shutil.rmtree(self._folder)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            if self._is_whole:
                await self._join(reader, writer)
        except asyncio.CancelledError:
            pass  # cut
        finally:
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(self._server.socket_path())
        ways = {
            asyncio.create_task(self._pass_on(reader, far_writer)),
            asyncio.create_task(self._pass_on(far_reader, writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            far_writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return
