"""One attempt: a request, its status, its body, and what becomes of the connection.

`open` sends, looks at the status and reads up to the first event; whatever goes wrong before is raised as a
`ClientError` that says whether to try again. Afterwards the reader is told what happens to the bytes, and nothing here
is raised. `close` gives a connection back only if its answer was read to the end; else it is closed, which is how a
server learns that nobody listens any more. Names of httpx2 and of sockets stay in this file and in `http`.
"""

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress

import httpx2

from streamweir.client.error import ClientError, Unreachable
from streamweir.client.failed_response import hide, read_failure, request_id_in
from streamweir.client.reader import Limits, Reader, dialect_named
from streamweir.client.request import can_be_sent, headers_of, shown_url, url_of
from streamweir.client.stream import AsyncStream, Stream
from streamweir.client.timeouts import Attempts, EventDeadline, Retries, Timeouts
from streamweir.client.watchdog import Watchdog
from streamweir.frontends.chat.dialect import Dialect

Tap = Callable[[bytes], None]

_LEFT = "it was left"
"""What a stream says that is read outside of its block."""
_MOST_OF_AN_ERROR = 64 * 1024
_DRAIN_S = 0.5
_MOST_DRAINED = 64 * 1024
"""The end of a body is waited for when the answer is whole, so that its connection can be used again. It is nearly
always there already; a server that goes on is left."""


class Settings:
    """What a client was made with, and what is made of it for each attempt."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        dialect: str | Dialect,
        timeouts: Timeouts,
        retries: Retries | int,
        limits: Limits,
        headers: Mapping[str, str],
    ) -> None:
        if not can_be_sent(api_key):
            raise ValueError("api_key holds signs that no header can carry")
        self.dialect = dialect_named(dialect)
        self.timeouts = timeouts
        self.retries = Retries(most=retries) if isinstance(retries, int) else retries
        self.limits = limits
        self._url = url_of(base_url)
        self._api_key = api_key
        self._headers = dict(headers)

    def __repr__(self) -> str:
        """With nothing secret in it."""
        return f"{shown_url(self._url)!r}, dialect={self.dialect.name!r}"

    def request(
        self, http: httpx2.Client | httpx2.AsyncClient, body: bytes, headers: Mapping[str, str] | None, *, stream: bool
    ) -> httpx2.Request:
        times = self.timeouts
        return http.build_request(
            "POST",
            self._url,
            content=body,
            headers=headers_of(self._api_key, {**self._headers, **(headers or {})}, stream=stream),
            timeout=httpx2.Timeout(
                connect=times.connect_s, read=times.first_event_s, write=times.first_event_s, pool=times.connect_s
            ),
        )

    @property
    def head_s(self) -> float | None:
        """In which a status must have come, the way there included."""
        connect_s, first_s = self.timeouts.connect_s, self.timeouts.first_event_s
        return None if connect_s is None or first_s is None else connect_s + first_s

    def reader(self, n: int | None) -> Reader:
        return Reader(self.dialect, self.limits, secret=self._api_key, n=n)

    def attempts(self) -> Attempts:
        return Attempts(self.retries, random.random)

    def unsent(self, reason: httpx2.RequestError, reader: Reader) -> ClientError:
        """No status came."""
        if isinstance(reason, httpx2.ReadTimeout | httpx2.WriteTimeout):
            return reader.time_out(self.timeouts.first_event_s or 0.0)
        return Unreachable(f"{shown_url(self._url)} cannot be reached: {self.said(reason)}")

    def said(self, reason: httpx2.RequestError) -> str:
        return hide(str(reason), self._api_key) or type(reason).__name__

    def failure(self, response: httpx2.Response, body: bytes) -> ClientError:
        headers = {name.lower(): value for name, value in response.headers.items()}
        return read_failure(response.status_code, headers, body, now=time.time(), secret=self._api_key)

    def begun(self, response: httpx2.Response, request: httpx2.Request, reader: Reader) -> None:
        """A success: from here on our own timers count, not those of single reads."""
        reader.answer.request_id = request_id_in(response.headers, self._api_key)
        request.extensions["timeout"]["read"] = None


class _Attempt:
    """What both kinds have."""

    def __init__(self, settings: Settings, request: httpx2.Request, tap: Tap | None, n: int | None) -> None:
        """`n`: how many choices the request asks for; None: one."""
        self._settings = settings
        self._request = request
        self._tap = tap
        self._reader = settings.reader(n)
        self._deadline = EventDeadline(settings.timeouts)

    @property
    def _is_worth_draining(self) -> bool:
        return self._reader.answer.is_whole

    @property
    def _early_error(self) -> ClientError | None:
        """What went wrong before anything was said."""
        return None if self._reader.seen else self._reader.error

    def _timed_out(self) -> None:
        self._reader.time_out(self._deadline.limit_s or 0.0)

    def _broke(self, reason: httpx2.RequestError) -> None:
        self._reader.cut(self._settings.said(reason))


class Transport(_Attempt):
    """Of a `Client`. A read that blocks is ended by a watchdog."""

    def open(self, http: httpx2.Client) -> Stream:
        began = time.monotonic()
        try:
            self._response = http.send(self._request, stream=True)
        except httpx2.RequestError as reason:
            raise self._settings.unsent(reason, self._reader) from reason
        self._watchdog = Watchdog(lambda: _hang_up(self._response))
        try:
            self._deadline.waited(time.monotonic() - began)
            self._source = self._response.iter_bytes()
            if not self._response.is_success:
                raise self._settings.failure(self._response, self._some(_MOST_OF_AN_ERROR, self._deadline.left_s(0)))
            self._settings.begun(self._response, self._request, self._reader)
            stream = Stream(self._reader, self._chunks())
            stream.begin()
            if self._early_error is not None:
                raise self._early_error
        except BaseException:
            self.close(False)
            raise
        return stream

    def close(self, is_left_well: bool) -> None:
        try:
            if is_left_well and self._is_worth_draining:
                self._some(_MOST_DRAINED, _DRAIN_S)
        finally:
            self._reader.cut(_LEFT)
            self._watchdog.close()
            self._response.close()

    def _chunks(self) -> Iterator[bytes]:
        """What comes. It stops at the end; where that is none, the reader has been told."""
        reader, deadline, watchdog = self._reader, self._deadline, self._watchdog
        while True:
            began = time.monotonic()
            watchdog.watch(deadline.left_s(reader.seen))
            try:
                chunk = next(self._source, None)
            except httpx2.RequestError as reason:
                self._timed_out() if watchdog.has_bitten else self._broke(reason)
                return
            watchdog.watch(None)
            if watchdog.has_bitten:
                self._timed_out()
                return
            if chunk is None:
                return
            deadline.waited(time.monotonic() - began)
            if self._tap is not None:
                self._tap(chunk)
            yield chunk

    def _some(self, most: int, limit_s: float | None) -> bytes:
        """What is left of the body, up to so much, within so long; of one that breaks, what had come."""
        found = b""
        self._watchdog.watch(limit_s)
        with suppress(httpx2.RequestError):
            while len(found) < most and (chunk := next(self._source, None)) is not None:
                found += chunk
        self._watchdog.watch(None)
        return found[:most]


class AsyncTransport(_Attempt):
    """Of an `AsyncClient`. A read is cancelled when its time is up, or with the task that waits for it."""

    async def open(self, http: httpx2.AsyncClient) -> AsyncStream:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._settings.head_s):  # a head may come byte by byte
                self._response = await http.send(self._request, stream=True)
        except TimeoutError:
            raise self._reader.time_out(self._settings.timeouts.first_event_s or 0.0) from None
        except httpx2.RequestError as reason:
            raise self._settings.unsent(reason, self._reader) from reason
        try:
            self._deadline.waited(time.monotonic() - began)
            self._source = self._response.aiter_bytes()
            if not self._response.is_success:
                body = await self._some(_MOST_OF_AN_ERROR, self._deadline.left_s(0))
                raise self._settings.failure(self._response, body)
            self._settings.begun(self._response, self._request, self._reader)
            stream = AsyncStream(self._reader, self._chunks())
            await stream.begin()
            if self._early_error is not None:
                raise self._early_error
        except BaseException:
            await self.close(False)
            raise
        return stream

    async def close(self, is_left_well: bool) -> None:
        try:
            if is_left_well and self._is_worth_draining:
                await self._some(_MOST_DRAINED, _DRAIN_S)
        finally:
            self._reader.cut(_LEFT)
            try:
                with suppress(RuntimeError):  # another task is reading: it finds the connection closed
                    await self._source.aclose()
            finally:
                await self._response.aclose()

    async def _chunks(self) -> AsyncIterator[bytes]:
        reader, deadline = self._reader, self._deadline
        while True:
            began = time.monotonic()
            try:
                async with asyncio.timeout(deadline.left_s(reader.seen)):
                    chunk = await anext(self._source, None)
            except TimeoutError:
                self._timed_out()
                return
            except httpx2.RequestError as reason:
                self._broke(reason)
                return
            if chunk is None:
                return
            deadline.waited(time.monotonic() - began)
            if self._tap is not None:
                self._tap(chunk)
            yield chunk

    async def _some(self, most: int, limit_s: float | None) -> bytes:
        found = b""
        with suppress(httpx2.RequestError, TimeoutError):
            async with asyncio.timeout(limit_s):
                while len(found) < most and (chunk := await anext(self._source, None)) is not None:
                    found += chunk
        return found[:most]


def _hang_up(response: httpx2.Response) -> None:
    """Makes a read in another thread return. Not by the TLS layer's own shutdown, which that thread is using."""
    stream = response.extensions.get("network_stream")
    sock = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(sock, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
