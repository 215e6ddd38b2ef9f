"""A command of the program as a person has it: a process whose input and output are a terminal.

async with on_terminal("chat", "sim/hello", env={...}) as terminal:
    await terminal.shows("Hello")
    terminal.type("again\\n")
    assert await terminal.status() == 0
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

WAIT_TIMEOUT_S = 60.0
"""For anything that must happen; nothing is expected to take it."""
PROGRAM = [sys.executable, "-P", "-c", "from streamweir.cli.main import main; main()"]


class Terminal:
    def __init__(self, master: int, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._master = master
        self._shown = b""
        self._news = asyncio.Event()
        self._is_over = False
        asyncio.get_running_loop().add_reader(master, self._read)

    @property
    def shown(self) -> str:
        """All of it, with lines ended as a program ends them."""
        return self._shown.decode(errors="replace").replace("\r\n", "\n")

    async def shows(self, text: str, times: int = 1) -> str:
        """Until it has been there so often."""
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while self.shown.count(text) < times:
                    assert not self._is_over, f"it ended: {self.shown!r}"
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"it did not happen: {self.shown!r}") from None
        return self.shown

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """What a terminal makes of Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    async def status(self) -> int:
        """When it has ended, and all that it wrote is shown."""
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            status = await self.process.wait()
            while not self._is_over:
                self._news.clear()
                await self._news.wait()
        return status

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        self._close()

    def _read(self) -> None:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            data = b""
        self._shown += data
        if not data:
            self._close()
        self._news.set()

    def _close(self) -> None:
        if not self._is_over:
            self._is_over = True
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)


@asynccontextmanager
async def on_terminal(*words: str, env: Mapping[str, str], folder: Path) -> AsyncIterator[Terminal]:
    """The process is gone when the block is left."""
    master, slave = os.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    environ = {**kept, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color", **env}
    try:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, *words, stdin=slave, stdout=slave, stderr=slave, env=environ, cwd=folder
        )
    finally:
        os.close(slave)
    terminal = Terminal(master, process)
    try:
        yield terminal
    finally:
        await terminal.end()
