"""One node of a fleet: `streamweir serve` as a process of its own, on an address that stays the same."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from streamweir.server.accounting.intervals import Intervals
from support.serve_process import Program, program
from support.valkey import free_port

NODE = program(stream_lease_s=Intervals().stream_lease_s)
"""With the deadlines of tests, but for the time after which a node counts as dead: what that costs is measured."""


class FleetNode:
    def __init__(self, name: str, folder: Path, toml: str) -> None:
        self.name = name
        self.address = ("127.0.0.1", free_port())
        self.words = ["--data-dir", str(folder), "--config", str(folder / "streamweir.toml")]
        folder.mkdir()
        (folder / "streamweir.toml").write_text(toml)
        self._program: Program | None = None

    async def start(self) -> None:
        listen = f"{self.address[0]}:{self.address[1]}"
        process = await asyncio.create_subprocess_exec(
            *NODE,
            *self.words,
            "--listen",
            listen,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            limit=1024 * 1024,
        )
        self._program = Program(process)
        await self._program.started()

    @property
    def program(self) -> Program:
        assert self._program is not None, "not started"
        return self._program

    async def stop(self) -> int:
        self.program.signal(signal.SIGTERM)
        return await self.program.status()

    async def kill(self) -> None:
        """As a machine that fails: nothing is written any more."""
        self.program.signal(signal.SIGKILL)
        await self.program.status()

    async def end(self) -> None:
        if self._program is not None:
            await self._program.end()


@asynccontextmanager
async def started(nodes: Sequence[FleetNode]) -> AsyncIterator[None]:
    try:
        await asyncio.gather(*(node.start() for node in nodes))
        yield
    finally:
        for node in nodes:
            await node.end()
