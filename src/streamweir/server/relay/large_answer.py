"""Whole answers that would hold up the event loop, read by a process of their own
(`server.relay.large_answer_process`).

One process per answer, a few at a time; on the loop there are only its pipes, in pieces. Where the
system can start no process, a thread does the same work: slower for everybody, and as right. Whoever
waits may be cancelled at any time, and the process is gone with it. What the process says is believed
no further than its types go (`pipeline.large_answer_wire`) and is bounded, as is its time: it reads foreign bytes.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol
from weakref import WeakKeyDictionary

from streamweir.core.errors import UpstreamError
from streamweir.frontends.base import WholeBody
from streamweir.pipeline.exchange import WholeExchange
from streamweir.pipeline.large_answer import LargeAnswer, Noted, Writing
from streamweir.pipeline.large_answer_wire import COMPLETION_ID, EVENTS, ORIGIN, WRITING, Origin
from streamweir.server.relay.large_answer_process import SIZE
from streamweir.upstream.local import child_environment

# -P: nothing from the current folder.
_COMMAND = (sys.executable, "-P", "-m", "streamweir.server.relay.large_answer_process")
_AT_ONCE = 2
_PIECE = 256 * 1024
_LONGEST_S = 600.0
"""For one answer, from the start of its process. The process is bounded more tightly, in time that it works."""
_GROWTH, _LEAST = 8, 16 * 1024 * 1024
"""No message from the process is longer than so many times the answer, or this where that is more."""
_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class _Reader(Protocol):
    """Who does the work. `events` is read to its end before `write` is called."""

    def events(self) -> AsyncIterator[list[Noted]]: ...

    async def write(self, writing: Writing, /) -> WholeBody: ...


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
    origin = ORIGIN.encode(Origin(exchange.provider.name, exchange.choices))
    async with slot:
        try:
            process = await _start()
        except OSError:
            yield _Thread(exchange, body)
            return
        feeding = asyncio.create_task(_feed(process, origin, body))
        try:
            async with asyncio.timeout(_LONGEST_S):
                yield _Child(process, max(_GROWTH * len(body), _LEAST))
        except TimeoutError as reason:
            raise UpstreamError("response_too_large", "The answer takes too long to be read.") from reason
        except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError) as reason:
            # It ends by itself only where the answer takes more memory or time than it may have.
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
    def __init__(self, process: Process, most: int) -> None:
        assert process.stdin is not None  # noqa: S101 (for the type checker)
        assert process.stdout is not None  # noqa: S101
        self._stdin, self._stdout = process.stdin, process.stdout
        self._most = most

    async def events(self) -> AsyncIterator[list[Noted]]:
        while data := await self._receive():
            yield EVENTS.decode(data)

    async def write(self, writing: Writing, /) -> WholeBody:
        data = WRITING.encode(writing)
        self._stdin.write(SIZE.pack(len(data)) + data)
        return WholeBody(COMPLETION_ID.decode(await self._receive()), await self._receive())

    async def _receive(self) -> bytes:
        (size,) = SIZE.unpack(await self._stdout.readexactly(SIZE.size))
        if size > self._most:
            raise UpstreamError("response_too_large", "The answer is too large to be written.")
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
        self._frontend = exchange.frontend
        self._body = body

    async def events(self) -> AsyncIterator[list[Noted]]:
        for events in await asyncio.to_thread(lambda: list(self._answer.read(self._body))):
            yield events

    async def write(self, writing: Writing, /) -> WholeBody:
        return await asyncio.to_thread(self._answer.write, self._frontend, writing)
