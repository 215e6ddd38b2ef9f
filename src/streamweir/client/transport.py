"""One attempt: sends a request, reads its status and body, and releases the connection.

`open` sends the request, checks the status and reads up to the first event. A failure before that is raised as a
`ClientError` that says whether a retry is allowed. Later failures are passed to the reader and not raised here; before
that, a stream that can be resumed is asked for again. `close` returns a connection to the pool only if its answer was
read to the end; otherwise it closes the connection, so that the server stops the answer (a stream that can be resumed
is ended by a request). Only this module, `settings` and `http` use httpx2, and only this one sockets.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import suppress
from enum import Enum

import httpx2

from streamweir.client.error import ClientError, RequestFailed, StreamError
from streamweir.client.resume import Resumption
from streamweir.client.settings import Settings
from streamweir.client.stream import AsyncStream, Stream
from streamweir.client.timeouts import EventDeadline
from streamweir.client.watchdog import Watchdog
from streamweir.wire.sse import EventTooLarge

Tap = Callable[[bytes], None]

_CLOSED_EARLY = "it was left"
"""The message of a stream that is read after its block has ended."""
_MAX_ERROR_BYTES = 64 * 1024
_DRAIN_S = 0.5
_MAX_DRAIN_BYTES = 64 * 1024
"""When the answer is complete, the rest of the body is read, so that the connection can be reused. It has nearly always
arrived already; otherwise the connection is closed after this time and this many bytes."""
_DELETE_S = 2.0
"""The time limit for ending a stream that was left."""
_REFUSAL_S = 5.0
"""The time limit for the body of an answer that says why a stream is not resumed."""


class _End(Enum):
    """How a body stops without a failure of its connection."""

    CLOSED = "closed"
    TIMEOUT = "timeout"


Loss = _End | httpx2.RequestError | RequestFailed
"""Why no more of the body came. `RequestFailed`: the server refused to resume it."""


class _Attempt:
    """The common part of both transports."""

    def __init__(self, settings: Settings, request: httpx2.Request, tap: Tap | None, n: int | None) -> None:
        """`n`: the requested number of choices; None: one."""
        self._settings = settings
        self._request = request
        self._tap = tap
        self._reader = settings.reader(n)
        self._deadline = EventDeadline(settings.timeouts)
        self._resumption: Resumption | None = None
        self._loss: Loss = _End.CLOSED

    @property
    def _can_drain(self) -> bool:
        return self._reader.answer.is_whole

    @property
    def _early_error(self) -> ClientError | None:
        """An error before the first event with content. A stream that could not be resumed is not asked for again."""
        error = None if self._reader.seen else self._reader.error
        if error is not None and self._resumption is not None:
            error.may_retry = False
        return error

    @property
    def _abandoned(self) -> Resumption | None:
        """The stream, if the server would go on with it because its caller may come back."""
        is_over = self._reader.answer.is_whole or isinstance(self._reader.error, StreamError)
        return None if is_over else self._resumption

    def _stream_request(
        self, http: httpx2.Client | httpx2.AsyncClient, resumption: Resumption, method: str
    ) -> httpx2.Request:
        return self._settings.stream_request(http, resumption, self._request.headers, method)

    @property
    def _wait_s(self) -> float | None:
        """The time limit for the next piece."""
        limits = (
            self._deadline.remaining_s(self._reader.seen),
            None if self._resumption is None else self._resumption.silence_s,
        )
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def _is_out_of_time(self) -> bool:
        return self._deadline.remaining_s(self._reader.seen) == 0

    def _take(self, chunk: bytes) -> bytes:
        """What the reader is given of a piece of the body."""
        if self._resumption is not None:
            try:
                chunk = self._resumption.feed(chunk)
            except EventTooLarge:
                self._reader.too_large()
                return b""
        if self._tap is not None and chunk:
            self._tap(chunk)
        return chunk

    def _is_resumed(self, response: httpx2.Response) -> bool:
        return response.status_code == 200 and response.headers.get("content-type", "").startswith("text/event-stream")

    def _rest(self, loss: Loss) -> bytes:
        """An event that the end of the body has left open."""
        if self._resumption is None or loss is not _End.CLOSED or self._reader.ended:
            return b""
        return self._resumption.rest()

    def _conclude(self, loss: Loss) -> None:
        """Tells the reader, unless the body has ended: its stream does that."""
        if loss is _End.TIMEOUT:
            self._reader.time_out(self._deadline.limit_s or 0.0)
        elif isinstance(loss, httpx2.RequestError):
            self._reader.cut(self._settings.describe(loss))
        elif isinstance(loss, RequestFailed):
            self._reader.cut(f"it cannot be resumed: {loss}")


class Transport(_Attempt):
    """For `Client`. A watchdog ends a blocking read at its deadline."""

    def open(self, http: httpx2.Client) -> Stream:
        self._http = http
        began = time.monotonic()
        try:
            self._response = http.send(self._request, stream=True)
        except httpx2.RequestError as reason:
            raise self._settings.connection_error(reason, self._reader) from reason
        self._watchdog = Watchdog(lambda: _shut_down_socket(self._response))
        try:
            self._deadline.elapse(time.monotonic() - began)
            self._source = self._response.iter_bytes()
            if not self._response.is_success:
                raise self._settings.failure(
                    self._response, self._read_rest(_MAX_ERROR_BYTES, self._deadline.remaining_s(0))
                )
            self._settings.response_started(self._response, self._request, self._reader)
            self._resumption = self._settings.resumption(self._response)
            self._stream = Stream(self._reader, self._chunks())
            self._stream.begin()
            if self._early_error is not None:
                raise self._early_error
        except BaseException:  # also Ctrl-C: no connection is left open
            self.close(False)
            raise
        return self._stream

    def close(self, is_finished: bool) -> None:
        try:
            if is_finished and self._can_drain:
                self._read_rest(_MAX_DRAIN_BYTES, _DRAIN_S)
        finally:
            abandoned = self._abandoned
            self._reader.cut(_CLOSED_EARLY)
            self._watchdog.close()
            self._response.close()
            if abandoned is not None:
                with suppress(httpx2.RequestError):
                    self._http.send(self._stream_request(self._http, abandoned, "DELETE"))

    def _chunks(self) -> Iterator[bytes]:
        """The pieces of the body, of all its connections. After a failure, which the reader is told, it stops."""
        loss = yield from self._pieces()
        while self._resumption is not None and not self._reader.ended:
            why = self._resume(self._resumption, loss)
            if why is not None:
                loss = why
                break
            loss = yield from self._pieces()
        if rest := self._rest(loss):
            yield rest
        self._conclude(loss)

    def _pieces(self) -> Generator[bytes, None, Loss]:
        """Those of one connection."""
        deadline, watchdog = self._deadline, self._watchdog
        while True:
            began = time.monotonic()
            watchdog.set_timeout(self._wait_s)
            try:
                chunk = next(self._source, None)
            except httpx2.RequestError as reason:
                deadline.elapse(time.monotonic() - began)
                return _End.TIMEOUT if watchdog.has_fired else reason
            watchdog.set_timeout(None)
            deadline.elapse(time.monotonic() - began)
            if watchdog.has_fired:
                return _End.TIMEOUT
            if chunk is None:
                return _End.CLOSED
            if piece := self._take(chunk):
                yield piece
            elif self._reader.ended:
                return _End.CLOSED

    def _resume(self, resumption: Resumption, loss: Loss) -> Loss | None:
        """Asks for the rest, as often as is allowed. None: it comes. Otherwise what ends the answer."""
        while not self._is_out_of_time and (pause_s := resumption.pause_s()) is not None:
            began = time.monotonic()
            self._watchdog.close()
            self._response.close()
            time.sleep(pause_s)
            try:
                self._response = self._http.send(self._stream_request(self._http, resumption, "GET"), stream=True)
            except httpx2.RequestError as reason:
                loss = reason
                continue
            finally:
                self._deadline.elapse(time.monotonic() - began)
            self._watchdog = Watchdog(lambda: _shut_down_socket(self._response))
            self._source = self._response.iter_bytes()
            if self._is_resumed(self._response):
                resumption.resumed()
                self._stream.resumed += 1
                return None
            loss = self._settings.failure(self._response, self._read_rest(_MAX_ERROR_BYTES, _REFUSAL_S))
            if not loss.may_retry:
                return loss
        return _End.TIMEOUT if self._is_out_of_time else loss

    def _read_rest(self, max_bytes: int, limit_s: float | None) -> bytes:
        """The rest of the body, at most `max_bytes`, within `limit_s`; after a failure, what arrived before it."""
        body = b""
        self._watchdog.set_timeout(limit_s)
        with suppress(httpx2.RequestError):
            while len(body) < max_bytes and (chunk := next(self._source, None)) is not None:
                body += chunk
        self._watchdog.set_timeout(None)
        return body[:max_bytes]


class AsyncTransport(_Attempt):
    """For `AsyncClient`. A read is cancelled at its deadline, or with its task."""

    async def open(self, http: httpx2.AsyncClient) -> AsyncStream:
        self._http = http
        began = time.monotonic()
        try:
            # httpx2's timeout applies to each read, and a head may arrive byte by byte.
            async with asyncio.timeout(self._settings.head_s):
                self._response = await http.send(self._request, stream=True)
        except TimeoutError:
            raise self._reader.time_out(self._settings.timeouts.first_event_s or 0.0) from None
        except httpx2.RequestError as reason:
            raise self._settings.connection_error(reason, self._reader) from reason
        try:
            self._deadline.elapse(time.monotonic() - began)
            self._source = self._response.aiter_bytes()
            if not self._response.is_success:
                body = await self._read_rest(_MAX_ERROR_BYTES, self._deadline.remaining_s(0))
                raise self._settings.failure(self._response, body)
            self._settings.response_started(self._response, self._request, self._reader)
            self._resumption = self._settings.resumption(self._response)
            self._stream = AsyncStream(self._reader, self._chunks())
            await self._stream.begin()
            if self._early_error is not None:
                raise self._early_error
        except BaseException:  # also when it is cancelled: no connection is left open
            await self.close(False)
            raise
        return self._stream

    async def close(self, is_finished: bool) -> None:
        try:
            if is_finished and self._can_drain:
                await self._read_rest(_MAX_DRAIN_BYTES, _DRAIN_S)
        finally:
            abandoned = self._abandoned
            self._reader.cut(_CLOSED_EARLY)
            try:
                await self._release()
            finally:
                if abandoned is not None:
                    with suppress(httpx2.RequestError, TimeoutError):
                        async with asyncio.timeout(_DELETE_S):
                            await self._http.send(self._stream_request(self._http, abandoned, "DELETE"))

    async def _release(self) -> None:
        try:
            with suppress(RuntimeError):  # another task is reading: it finds the connection closed
                await self._source.aclose()
        finally:
            await self._response.aclose()

    async def _chunks(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces():
            yield piece
        while self._resumption is not None and not self._reader.ended:
            why = await self._resume(self._resumption, self._loss)
            if why is not None:
                self._loss = why
                break
            async for piece in self._pieces():
                yield piece
        if rest := self._rest(self._loss):
            yield rest
        self._conclude(self._loss)

    async def _pieces(self) -> AsyncIterator[bytes]:
        """Those of one connection. Afterwards `_loss` says why there are no more."""
        self._loss = _End.CLOSED
        deadline = self._deadline
        while True:
            began = time.monotonic()
            try:
                async with asyncio.timeout(self._wait_s):
                    chunk = await anext(self._source, None)
            except TimeoutError:
                self._loss = _End.TIMEOUT
                return
            except httpx2.RequestError as reason:
                self._loss = reason
                return
            finally:
                deadline.elapse(time.monotonic() - began)
            if chunk is None:
                return
            if piece := self._take(chunk):
                yield piece
            elif self._reader.ended:
                return

    async def _resume(self, resumption: Resumption, loss: Loss) -> Loss | None:
        """As `Transport._resume`."""
        while not self._is_out_of_time and (pause_s := resumption.pause_s()) is not None:
            began = time.monotonic()
            await self._release()
            await asyncio.sleep(pause_s)
            try:
                async with asyncio.timeout(self._settings.head_s):
                    self._response = await self._http.send(
                        self._stream_request(self._http, resumption, "GET"), stream=True
                    )
            except httpx2.RequestError as reason:
                loss = reason
                continue
            except TimeoutError:
                loss = _End.TIMEOUT
                continue
            finally:
                self._deadline.elapse(time.monotonic() - began)
            self._source = self._response.aiter_bytes()
            if self._is_resumed(self._response):
                resumption.resumed()
                self._stream.resumed += 1
                return None
            loss = self._settings.failure(self._response, await self._read_rest(_MAX_ERROR_BYTES, _REFUSAL_S))
            if not loss.may_retry:
                return loss
        return _End.TIMEOUT if self._is_out_of_time else loss

    async def _read_rest(self, max_bytes: int, limit_s: float | None) -> bytes:
        body = b""
        with suppress(httpx2.RequestError, TimeoutError):
            async with asyncio.timeout(limit_s):
                while len(body) < max_bytes and (chunk := await anext(self._source, None)) is not None:
                    body += chunk
        return body[:max_bytes]


def _shut_down_socket(response: httpx2.Response) -> None:
    """Makes a read in another thread return. Uses the socket beneath TLS, because that thread uses the TLS object."""
    stream = response.extensions.get("network_stream")
    sock = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(sock, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
