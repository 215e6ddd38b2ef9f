"""The connection between the supervisor and its workers: a Unix socket, one JSON object per line, requests both ways.

    {"ask": "metrics", "id": 7, "with": {}}      ->  {"answer": 7, "with": {"text": ...}}
                                                 or  {"failed": 7, "reason": ...}
    {"tell": "stop", "with": {"force": false}}

Only the user that runs the gateway can open the socket (mode 0600). The length of lines, the number of open requests
and the data that waits to be read are bounded; an end that exceeds a bound is disconnected. This module does not
interpret the messages.
"""

import asyncio
import os
import socket
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from streamweir.server.telemetry.log import logger
from streamweir.wire import jsonio

MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_PENDING = 64
"""Requests that one end may have open at the other."""
REQUEST_TIMEOUT_S = 1.0
_MAX_PATH_BYTES = 100
"""In bytes; the system's limit is 104 to 108."""

Details = dict[str, Any]
Handler = Callable[["Channel", str, Details], Coroutine[Any, Any, Details]]
"""Raises `RequestRejected` to refuse."""


class ChannelError(Exception):
    """No answer: the other end refused, did not answer in time, or has disconnected."""


class RequestRejected(Exception):
    """Sent to the other end instead of an answer."""


class Channel:
    """One connection. It is read from its creation until `close` or the end of the other side."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handler: Handler,
        on_closed: Callable[["Channel"], None] = lambda _: None,
    ) -> None:
        self._reader = reader
        self._on_closed = on_closed
        self._writer = writer
        self._handler = handler
        self._waiting: dict[int, asyncio.Future[Details]] = {}
        self._answers: set[asyncio.Task[Details]] = set()
        self._next_id = 0
        self._closed = asyncio.Event()
        self._reading = asyncio.get_running_loop().create_task(self._read(), name="control channel")
        self._reading.add_done_callback(self._end)  # also if it is cancelled before it has started

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    async def closed(self) -> None:
        await self._closed.wait()

    async def request(self, what: str, details: Details | None = None, timeout_s: float = REQUEST_TIMEOUT_S) -> Details:
        """Raises `ChannelError`."""
        if self.is_closed or len(self._waiting) >= MAX_PENDING:
            raise ChannelError(f"{what}: not connected, or too many commands at once")
        number, self._next_id = self._next_id, self._next_id + 1
        answer: asyncio.Future[Details] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send({"ask": what, "id": number, "with": details or {}})
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as reason:
            raise ChannelError(f"{what}: no answer in {timeout_s:g} s") from reason
        finally:
            del self._waiting[number]

    def notify(self, what: str, details: Details | None = None) -> None:
        """Sends a message without an answer. No error if the other end has disconnected."""
        self._send({"tell": what, "with": details or {}})

    async def close(self) -> None:
        self._reading.cancel()
        await self._closed.wait()

    def _send(self, message: Details) -> None:
        # The transport knows first that the other end has disconnected, and then refuses writes.
        if self.is_closed or self._writer.transport.is_closing():
            return
        self._writer.write(jsonio.encode(message) + b"\n")
        if self._writer.transport.get_write_buffer_size() > 2 * MAX_LINE_BYTES:
            logger.warning("control channel cut: the other end does not read")
            self._reading.cancel()

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(jsonio.decode(line))
        except (OSError, ValueError) as reason:  # a reset, a line that is too long, or an invalid line
            logger.warning("control channel cut", reason=type(reason).__name__)

    def _take(self, message: Any) -> None:
        match message:
            case {"answer": int(number), "with": dict(details)}:
                self._resolve(number, details)
            case {"failed": int(number), "reason": str(reason)}:
                self._resolve(number, ChannelError(reason))
            case {"ask": str(what), "id": int(number), "with": dict(details)} if len(self._answers) < MAX_PENDING:
                self._start(what, details, number)
            case {"ask": str(_), "id": int(number)}:
                self._send({"failed": number, "reason": "too many commands at once"})
            case {"tell": str(what), "with": dict(details)} if len(self._answers) < MAX_PENDING:
                self._start(what, details, None)
            case _:
                raise ValueError("not a message")

    def _resolve(self, number: int, outcome: Details | ChannelError) -> None:
        waiting = self._waiting.get(number)
        if waiting is None or waiting.done():  # too late
            return
        if isinstance(outcome, ChannelError):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)

    def _start(self, what: str, details: Details, number: int | None) -> None:
        answer = self._handler(self, what, details)
        task = asyncio.get_running_loop().create_task(answer, name=f"control: {what}")
        self._answers.add(task)
        task.add_done_callback(partial(self._answered, what, number))

    def _answered(self, what: str, number: int | None, task: "asyncio.Task[Details]") -> None:
        self._answers.discard(task)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is not None and not isinstance(fault, RequestRejected):
            logger.error("fault while answering", question=what, exc_info=fault)
        if number is None:
            return
        if fault is None:
            self._send({"answer": number, "with": task.result()})
        else:
            self._send({"failed": number, "reason": str(fault) if isinstance(fault, RequestRejected) else "a fault"})

    def _end(self, reading: "asyncio.Task[None]") -> None:
        self._closed.set()
        if not reading.cancelled() and (fault := reading.exception()) is not None:
            logger.error("control channel cut by a fault of ours", exc_info=fault)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ChannelError("the other end has gone"))
        for task in self._answers:
            task.cancel()
        self._writer.close()
        self._on_closed(self)


class ControlSocket:
    """The supervisor's end: it listens, and holds every open channel."""

    def __init__(self, path: Path, max_channels: int, handler: Handler) -> None:
        self.path = path
        self._max_channels = max_channels
        self._handler = handler
        self._channels: set[Channel] = set()
        self._server: asyncio.Server | None = None
        self._is_closed = False

    async def open(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)  # the file has mode 0600 from the start
        try:
            listener.bind(str(self.path))
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(mask)
        self._server = await asyncio.start_unix_server(self._connected, sock=listener, limit=MAX_LINE_BYTES)

    async def close(self) -> None:
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        for channel in list(self._channels):
            await channel.close()
        self.path.unlink(missing_ok=True)
        if self.path.parent.name.startswith(_OWN_FOLDER):
            self.path.parent.rmdir()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed or len(self._channels) >= self._max_channels:
            writer.close()
        else:
            self._channels.add(Channel(reader, writer, self._handler, self._channels.discard))


async def connect(path: Path, handler: Handler, on_closed: Callable[[Channel], None] = lambda _: None) -> Channel:
    """A worker's end. Raises `OSError` if the supervisor does not listen."""
    reader, writer = await asyncio.open_unix_connection(str(path), limit=MAX_LINE_BYTES)
    return Channel(reader, writer, handler, on_closed)


_OWN_FOLDER = "streamweir-"


def socket_path(data_dir: Path) -> Path:
    """The path of this process's socket: beside the data or, if that is not possible, in a folder of its own.

    Sockets of earlier processes that were killed are removed.
    """
    for left in data_dir.glob("control-*.sock"):
        if not _is_alive(left):
            left.unlink(missing_ok=True)
    path = data_dir / f"control-{os.getpid()}.sock"
    if data_dir.is_dir() and len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        return path
    return Path(tempfile.mkdtemp(prefix=_OWN_FOLDER)) / "control.sock"


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:  # unknown: no permission, a path that is too long, or a busy process
            pass
    return True
