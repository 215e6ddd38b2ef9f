"""Whole answers that would hold up the event loop, read by a process of their own (`server.large_child`).

One process per answer, a few at a time; on the loop there are only its pipes, in pieces. Where the
system can start no process, a thread does the same work: slower for everybody, and as right. Whoever
waits may be cancelled at any time, and the process is gone with it.
"""

import asyncio
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol
from weakref import WeakKeyDictionary

from streamweir.core.errors import UpstreamError
from streamweir.core.events import Event
from streamweir.server.large_child import SIZE
from streamweir.stages.exchange import WholeExchange
from streamweir.stages.large import LargeAnswer, Writing, Written
from streamweir.upstream.local import child_environment

_COMMAND = (sys.executable, "-P", "-m", "streamweir.server.large_child")  # -P: nothing from the current folder
_AT_ONCE = 2
_PIECE = 256 * 1024
_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class _Reader(Protocol):
    """Who does the work. `events` is read to its end before `write` is called."""

    def events(self) -> AsyncIterator[list[Event]]: ...

    async def write(self, writing: Writing, /) -> Written: ...


async def read_large(exchange: WholeExchange, body: bytes) -> bytes:
    """The body for the caller, as by `exchange.finish`; empty where there is none."""
    async with _reader(exchange, body) as reader:
        async for events in reader.events():
            exchange.take_large(events)
            await asyncio.sleep(0)  # others have their turn
        writing = exchange.writing()
        if writing is None:
            return b""
        return exchange.finish_large(await reader.write(writing))


@asynccontextmanager
async def _reader(exchange: WholeExchange, body: bytes) -> AsyncIterator[_Reader]:
    slot = _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE))
    origin = pickle.dumps((exchange.provider, exchange.choices))
    async with slot:
        try:
            process = await _start()
        except OSError:
            yield _Thread(exchange, body)
            return
        feeding = asyncio.create_task(_feed(process, origin, body))
        try:
            yield _Child(process)
        except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError) as reason:
            # It ends by itself only where the answer takes more memory than it may have.
            raise UpstreamError("response_too_large", "The answer is too large to be read.") from reason
        finally:
            feeding.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            await asyncio.gather(feeding, process.wait(), return_exceptions=True)


async def _start() -> Process:
    """Cancelled, it leaves no process that is just being started."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *_COMMAND, stdin=PIPE, stdout=PIPE, limit=_PIECE, env=child_environment(), start_new_session=True
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        process = await starting
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise


async def _feed(process: Process, origin: bytes, body: bytes) -> None:
    """Beside the reading: a process that writes while nobody reads would wait for ever, and so would we."""
    assert process.stdin is not None  # noqa: S101 (for the type checker)
    process.stdin.write(SIZE.pack(len(origin)) + origin + SIZE.pack(len(body)))
    view = memoryview(body)
    for at in range(0, len(body), _PIECE):
        process.stdin.write(view[at : at + _PIECE])
        await process.stdin.drain()


class _Child:
    def __init__(self, process: Process) -> None:
        assert process.stdin is not None  # noqa: S101 (for the type checker)
        assert process.stdout is not None  # noqa: S101
        self._stdin, self._stdout = process.stdin, process.stdout

    async def events(self) -> AsyncIterator[list[Event]]:
        while data := await self._receive():
            events: list[Event] = pickle.loads(data)  # noqa: S301 (from our own child, of values that it made)
            yield events

    async def write(self, writing: Writing, /) -> Written:
        data = pickle.dumps(writing)
        self._stdin.write(SIZE.pack(len(data)) + data)
        return Written((await self._receive()).decode(), await self._receive())

    async def _receive(self) -> bytes:
        (size,) = SIZE.unpack(await self._stdout.readexactly(SIZE.size))
        pieces: list[bytes] = []
        while size:
            piece = await self._stdout.read(min(size, _PIECE))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


class _Thread:
    def __init__(self, exchange: WholeExchange, body: bytes) -> None:
        self._answer = LargeAnswer(exchange.provider, exchange.choices)
        self._body = body

    async def events(self) -> AsyncIterator[list[Event]]:
        for events in await asyncio.to_thread(lambda: list(self._answer.read(self._body))):
            yield events

    async def write(self, writing: Writing, /) -> Written:
        return await asyncio.to_thread(self._answer.write, writing)
