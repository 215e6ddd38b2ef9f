"""`streamweir serve` as a process of its own, observed by its output and its log.

    async with served(tmp_path, toml) as program:
        client = await program.connect()
        program.signal(signal.SIGTERM)
        await program.logged("stopping")
        assert await program.status() == 0

The upstreams of its configuration may be scripted ones in the test's own loop. Whatever a test does,
the process is gone when the block is left, and so are the workers that it started.
"""

import asyncio
import json
import os
import re
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from support.answers import TEXTS, openai_stream
from support.deadlines import DEADLINES, WAIT_TIMEOUT_S
from support.gateway import KEY, chat_request, providers
from support.raw_client import RawClient, Reply
from support.script import Script
from support.scripted_upstream import ScriptedUpstream

BEGUN = openai_stream(TEXTS[:2], usage=None, finish=None, done=False)
"""An answer of which two words have come, and the rest of it."""
BEGUN_TEXT = "".join(TEXTS[:2])
REST = openai_stream(TEXTS[2:])


def program(**intervals: float) -> list[str]:
    """With the deadlines of tests, but for `intervals`, and for workers: these are processes of their own."""
    deadlines = f"from support.program_deadlines import use_long_deadlines; use_long_deadlines(**{intervals})"
    return [sys.executable, "-P", "-c", f"{deadlines}; from streamweir.cli.main import main; main()", "serve"]


PROGRAM = program()
Event = dict[str, Any]


class Process(Protocol):
    """As `asyncio.subprocess.Process`, or as one of `support.forked_processes`."""

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    @property
    def stderr(self) -> asyncio.StreamReader | None: ...

    def send_signal(self, signal: int, /) -> None: ...

    def kill(self) -> None: ...

    async def wait(self) -> int: ...


class Program:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.said: list[str] = []
        self.events: list[Event] = []
        self._claimed: set[int] = set()
        self._news = asyncio.Event()
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            asyncio.ensure_future(self._read(process.stdout, self.said.append)),
            asyncio.ensure_future(self._read(process.stderr, self._take)),
        ]
        self.address = ("", 0)
        self.scheme = ""

    @property
    def base_url(self) -> str:
        return f"{self.scheme}://{self.address[0]}:{self.address[1]}"

    @property
    def pid(self) -> int:
        found: int = self.process.pid  # type: ignore[attr-defined]
        return found

    async def started(self) -> None:
        line = await self.tells(r"is listening on (https?)://(.+):(\d+)$")
        self.scheme, self.address = line[1], (line[2], int(line[3]))

    async def tells(self, pattern: str) -> re.Match[str]:
        """A line that it says to the person who started it."""
        await self._until(lambda: any(re.search(pattern, line) for line in self.said))
        return next(found for line in self.said if (found := re.search(pattern, line)))

    async def logged(self, event: str, **fields: object) -> Event:
        """One matching event that no test has waited for yet."""

        def find() -> int | None:
            for place, each in enumerate(self.events):
                if place not in self._claimed and each["event"] == event and fields.items() <= each.items():
                    return place
            return None

        await self._until(lambda: find() is not None)
        place = find()
        assert place is not None
        self._claimed.add(place)
        return self.events[place]

    def requests(self) -> list[Event]:
        """What it has logged of requests so far."""
        return [each for each in self.events if each["event"] == "request"]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def status(self) -> int:
        """When it and every worker has ended: only they hold the other ends of the pipes."""
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await asyncio.gather(*self._readers)
            return await self.process.wait()

    async def connect(self) -> RawClient:
        return await RawClient.open(self.address)

    async def answer(self, request: bytes) -> Reply:
        """On a connection of its own."""
        async with await self.connect() as client:
            await client.send(request)
            return await client.response()

    async def end(self) -> None:
        """Whatever is still there, after a test that failed."""
        with suppress(ProcessLookupError):
            self.process.kill()
        for pid in {each["pid"] for each in self.events if each["event"] == "worker started"}:
            _end_worker(pid)
        await self.status()

    async def _until(self, holds: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while not holds():
                    assert not all(reader.done() for reader in self._readers), f"it ended: {self.said} {self.events}"
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"it did not happen: {self.said} {self.events[-20:]}") from None

    async def _read(self, stream: asyncio.StreamReader, take: Callable[[str], None]) -> None:
        while line := await stream.readline():
            take(line.decode().rstrip("\n"))
            self._news.set()
        self._news.set()

    def _take(self, line: str) -> None:
        self.events.append(json.loads(line) if line.startswith("{") else {"event": "text", "text": line})


@asynccontextmanager
async def served(
    folder: Path, toml: str | None = None, *arguments: str, keyed: bool = True, before: Sequence[str] = ()
) -> AsyncIterator[Program]:
    """Its data and its file are in `folder`; without `toml` it has no file.

    `keyed`: the file has the test's own key, where it names none. `before`: words before the command.
    """
    command = [*PROGRAM, *command_of(folder, toml, *arguments, keyed=keyed)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        *before,
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environ,
        limit=1024 * 1024,
    )
    program = Program(process)
    try:
        await program.started()
        yield program
    finally:
        await program.end()


def command_of(folder: Path, toml: str | None, *arguments: str, keyed: bool = True) -> list[str]:
    """The words behind `serve`; its file is written."""
    words = ["--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0", *arguments]
    if toml is not None:
        write_config(folder, toml, keyed=keyed)
        words += ["--config", str(folder / "streamweir.toml")]
    return words


@asynccontextmanager
async def served_before(
    script: Script, folder: Path, toml: str = "", *arguments: str
) -> AsyncIterator[tuple[Program, ScriptedUpstream]]:
    """Its provider `up` plays the script."""
    async with (
        ScriptedUpstream(script) as up,
        served(folder, f"{toml}\n{providers(up=up.base_url)}", *arguments) as program,
    ):
        yield program, up


def get(path: str, key: str | None = None) -> bytes:
    authorization = f"authorization: Bearer {key}\r\n" if key is not None else ""
    return f"GET {path} HTTP/1.1\r\nhost: gateway\r\n{authorization}\r\n".encode()


class Stream:
    """A streamed answer that is read in parts: first what has `BEGUN`, the rest later."""

    def __init__(self, client: RawClient, head: Reply, chunks: list[bytes]) -> None:
        self.client = client
        self._head = head
        self._chunks = chunks

    @property
    def so_far(self) -> Reply:
        head = self._head
        return Reply(head.status, head.headers, head.head, b"".join(self._chunks), tuple(self._chunks))

    async def until(self, mark: bytes) -> Reply:
        while mark not in b"".join(self._chunks):
            self._chunks.append(await self.client.chunk())
            assert self._chunks[-1], f"the end before {mark!r}"
        return self.so_far

    async def rest(self) -> Reply:
        while chunk := await self.client.chunk():
            self._chunks.append(chunk)
        return self.so_far


async def spread(stack: AsyncExitStack, program: Program, each: int) -> dict[int, list[RawClient]]:
    """So many connections to each of two workers: which one accepts is random, and the log shows which it was."""
    found: dict[int, list[RawClient]] = defaultdict(list)
    while len(found) < 2 or min(len(clients) for clients in found.values()) < each:
        client = await stack.enter_async_context(await program.connect())
        await client.send(get("/v1/models", KEY))
        reply = await client.response()
        assert reply.status == 200
        number = (await program.logged("request", id=reply.header("x-request-id")))["worker"]
        if len(found[number]) < each:
            found[number].append(client)
    return found


async def begin(client: RawClient, **members: Any) -> Stream:
    """Asks for a stream, and reads of it what has `BEGUN`."""
    await client.send(chat_request(**{"model": "up/m", "stream": True, **members}))
    stream = Stream(client, await client.head(), [])
    await stream.until(TEXTS[1].encode())
    return stream


def write_config(folder: Path, toml: str, *, keyed: bool = True) -> None:
    if keyed and "[[keys]]" not in toml:
        toml += f'\n[[keys]]\nname = "test"\nkey = "{KEY}"\nscopes = ["chat", "models", "admin"]\n'
    for section, member, value in DEADLINES:
        if member not in toml:
            head = f"[server.{section}]\n"
            toml = toml if head in toml else f"{toml}\n{head}"
            toml = toml.replace(head, f"{head}{member} = {value:g}\n", 1)
    (folder / "streamweir.toml").write_text(toml)


def _end_worker(pid: int) -> None:
    with suppress(FileNotFoundError, ProcessLookupError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"streamweir.server.process.worker" in command:
            os.kill(pid, signal.SIGKILL)
