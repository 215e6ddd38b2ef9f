"""`streamweir` by the hundred: processes that are forked from one which has loaded the program already.

    async with fork_server().served(tmp_path, toml) as program:
        await program.started()
        program.signal(signal.SIGKILL)
        assert await program.status() == -signal.SIGKILL

Each is the whole program from its command line on, on files and sockets of its own; what is saved is
the loading of its modules, five times what the rest of a start costs. `python -m support.forked_processes FD`
is the process they come from: it has one thread, opens nothing, and is asked over a socket.
"""

import asyncio
import atexit
import ctypes
import functools
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from support.deadlines import WAIT_TIMEOUT_S
from support.serve_process import Program, command_of

_LOADED = (
    "alembic.command",
    "streamweir.cli.main",
    "streamweir.server.process.start",
    "streamweir.store.db.postgres",
    "streamweir.store.limits.shared",
    "streamweir.store.db.sqlite",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "sqlalchemy.dialects.sqlite",
    "support.program_deadlines",
)
_LONGEST = 65536


class Child:
    """As `asyncio.subprocess.Process`, for what `Program` asks of one."""

    def __init__(self, cradle: "ForkServer", pid: int, stdout: "_Pipe", stderr: "_Pipe") -> None:
        self.pid = pid
        self.stdout = stdout.reader
        self.stderr = stderr.reader
        self._pipes = (stdout, stderr)
        self._cradle = cradle
        self._status: int | None = None

    def send_signal(self, number: int) -> None:
        if self._status is None:  # until it is waited for, its number is not reused
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        if self._status is None:
            self._status = self._cradle.ask({"wait": self.pid})
            for pipe in self._pipes:
                pipe.transport.close()
        return self._status


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    output: str
    errors: str


class ForkServer:
    """Shared by all tests of a process, and ended with it."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(WAIT_TIMEOUT_S)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-m", "support.forked_processes", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        atexit.register(self.end)

    def ask(self, question: dict[str, Any], files: Sequence[int] = ()) -> int:
        """Blocks, for a moment: so no other question comes between a question and its answer."""
        socket.send_fds(self._line, [json.dumps(question).encode()], files)
        return int(self._line.recv(_LONGEST))

    def end(self) -> None:
        self._line.close()
        assert self._process.wait(WAIT_TIMEOUT_S) == 0

    @asynccontextmanager
    async def served(
        self, folder: Path, toml: str, *arguments: str, intervals: Mapping[str, float] | None = None
    ) -> AsyncIterator[Program]:
        """As `support.serve_process.served`, but it need not listen yet: see `Program.started`.

        `intervals`: members of `server.accounting.intervals.Intervals`, for a test that needs shorter ones.
        """
        program = Program(await self._start(["serve", *command_of(folder, toml, *arguments)], intervals=intervals))
        try:
            yield program
        finally:
            await program.end()

    async def run(self, *words: str, is_mighty: bool = True) -> Done:
        """A command, to its end. Unless it `is_mighty`, the rights of a file hold for it even if it is root's."""
        child = await self._start(words, is_mighty=is_mighty)
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                output, errors = await asyncio.gather(child.stdout.read(), child.stderr.read())
        finally:
            child.kill()
            status = await child.wait()
        return Done(status, output.decode(), errors.decode())

    async def _start(self, words: Sequence[str], **manner: Any) -> Child:
        pipes = [os.pipe(), os.pipe()]
        try:
            pid = self.ask({"words": words, **manner}, [write for _, write in pipes])
        finally:
            for _, write in pipes:
                os.close(write)
        stdout, stderr = [await _open_pipe(read) for read, _ in pipes]
        return Child(self, pid, stdout, stderr)


@functools.cache
def fork_server() -> ForkServer:
    return ForkServer()


class _Pipe(NamedTuple):
    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport


async def _open_pipe(descriptor: int) -> _Pipe:
    reader = asyncio.StreamReader(limit=1024 * 1024)
    file = os.fdopen(descriptor, "rb")
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return _Pipe(reader, transport)


def _attend(line: socket.socket) -> None:
    """The process that all others come from."""
    for name in _LOADED:
        import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a process that is forked has one thread"
    gc.freeze()
    while True:
        data, files, _, _ = socket.recv_fds(line, _LONGEST, 2)
        if not data:
            return
        question = json.loads(data)
        if "wait" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                line.close()
                _live(files, **question)
            for file in files:
                os.close(file)
        line.send(str(answer).encode())


def _live(
    files: Sequence[int], words: list[str], intervals: Mapping[str, float] | None = None, is_mighty: bool = True
) -> None:
    for place, file in enumerate(files, start=1):
        os.dup2(file, place)
        os.close(file)
    random.seed()
    sys.argv[0] = "streamweir"
    import_module("support.program_deadlines").use_long_deadlines(**(intervals or {}))
    if not is_mighty:
        _give_up_might()
    import_module("streamweir.cli.main").main(words)


def _give_up_might() -> None:
    """All capabilities: what is root's own and read-only cannot be written."""
    version_3 = 0x20080522
    header = (ctypes.c_uint32 * 2)(version_3, 0)
    none = (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None, use_errno=True).capset(header, none) == 0, os.strerror(ctypes.get_errno())


if __name__ == "__main__":
    _attend(socket.socket(fileno=int(sys.argv[1])))
