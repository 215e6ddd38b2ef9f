"""Whole answers that would block the event loop are parsed by a separate process
(`server.relay.large_answer_process`).

Each answer has its own process, and a few run at a time. The event loop only reads and writes its pipes, in pieces. If
the system cannot start a process, a thread does the same work: slower, with the same result. Cancelling the task also
ends the process. The process reads foreign bytes. So its messages are checked against their types
(`pipeline.large_answer_wire`), and their size and its time are limited.
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
from streamweir.pipeline.large_answer import LargeAnswer, MeteredEvent, ReplyData
from streamweir.pipeline.large_answer_wire import ANSWER_SOURCE, COMPLETION_ID, EVENTS, REPLY_DATA, AnswerSource
from streamweir.server.relay.large_answer_process import SIZE
from streamweir.upstream.local import child_environment

# -P: nothing from the current folder.
_COMMAND = (sys.executable, "-P", "-m", "streamweir.server.relay.large_answer_process")
_MAX_PROCESSES = 2
_PIECE_BYTES = 256 * 1024
_TIMEOUT_S = 600.0
"""For one answer, from the start of its process. The process has a lower limit of its CPU time."""
_MAX_GROWTH, _MIN_MESSAGE_LIMIT = 8, 16 * 1024 * 1024
"""A message of the process may be so many times as long as the answer, or this if that is more."""
_semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class _Reader(Protocol):
    """Parses and writes an answer. `events` is read to its end before `write` is called."""

    def events(self) -> AsyncIterator[list[MeteredEvent]]: ...

    async def write(self, reply_data: ReplyData, /) -> WholeBody: ...


async def read_large(exchange: WholeExchange, body: bytes) -> bytes:
    """The body for the caller, as from `exchange.finish`; empty: there is none."""
    async with _reader(exchange, body) as reader:
        async for events in reader.events():
            exchange.take_large(events)
            await asyncio.sleep(0)  # other callbacks may run
        passed = exchange.pass_large(body)
        if passed is not None:
            return passed
        reply_data = exchange.reply_data()
        if reply_data is None:
            return b""
        return exchange.finish_large(await reader.write(reply_data))


@asynccontextmanager
async def _reader(exchange: WholeExchange, body: bytes) -> AsyncIterator[_Reader]:
    semaphore = _semaphores.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_MAX_PROCESSES))
    origin = ANSWER_SOURCE.encode(AnswerSource(exchange.provider.name, exchange.choices))
    async with semaphore:
        try:
            process = await _start()
        except OSError:
            yield _ThreadReader(exchange, body)
            return
        feeding = asyncio.create_task(_feed(process, origin, body))
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                yield _ChildReader(process, max(_MAX_GROWTH * len(body), _MIN_MESSAGE_LIMIT))
        except TimeoutError as reason:
            raise UpstreamError("response_too_large", "The answer takes too long to be read.") from reason
        except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError) as reason:
            # It ends by itself only if the answer needs more memory or time than its limits.
            raise UpstreamError("response_too_large", "The answer is too large to be read.") from reason
        finally:
            feeding.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            await asyncio.gather(feeding, process.wait(), return_exceptions=True)


async def _start() -> Process:
    """If it is cancelled, no process is left behind."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *_COMMAND, stdin=PIPE, stdout=PIPE, limit=_PIECE_BYTES, env=child_environment(), start_new_session=True
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
    """In its own task: if its output were not read meanwhile, the process and this task would wait for each other."""
    assert process.stdin is not None  # noqa: S101 (for the type checker)
    process.stdin.write(SIZE.pack(len(origin)) + origin + SIZE.pack(len(body)))
    view = memoryview(body)
    for at in range(0, len(body), _PIECE_BYTES):
        process.stdin.write(view[at : at + _PIECE_BYTES])
        await process.stdin.drain()


class _ChildReader:
    def __init__(self, process: Process, max_message_bytes: int) -> None:
        assert process.stdin is not None  # noqa: S101 (for the type checker)
        assert process.stdout is not None  # noqa: S101
        self._stdin, self._stdout = process.stdin, process.stdout
        self._max_message_bytes = max_message_bytes

    async def events(self) -> AsyncIterator[list[MeteredEvent]]:
        while data := await self._receive():
            yield EVENTS.decode(data)

    async def write(self, reply_data: ReplyData, /) -> WholeBody:
        data = REPLY_DATA.encode(reply_data)
        self._stdin.write(SIZE.pack(len(data)) + data)
        return WholeBody(COMPLETION_ID.decode(await self._receive()), await self._receive())

    async def _receive(self) -> bytes:
        (size,) = SIZE.unpack(await self._stdout.readexactly(SIZE.size))
        if size > self._max_message_bytes:
            raise UpstreamError("response_too_large", "The answer is too large to be written.")
        pieces: list[bytes] = []
        while size:
            piece = await self._stdout.read(min(size, _PIECE_BYTES))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


class _ThreadReader:
    def __init__(self, exchange: WholeExchange, body: bytes) -> None:
        self._answer = LargeAnswer(exchange.provider, exchange.choices)
        self._frontend = exchange.frontend
        self._body = body

    async def events(self) -> AsyncIterator[list[MeteredEvent]]:
        for events in await asyncio.to_thread(lambda: list(self._answer.read(self._body))):
            yield events

    async def write(self, reply_data: ReplyData, /) -> WholeBody:
        return await asyncio.to_thread(self._answer.write, self._frontend, reply_data)
