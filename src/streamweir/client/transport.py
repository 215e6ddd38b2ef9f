"""One attempt: sends a request, reads its status and body, and releases the connection.

`open` sends the request, checks the status and reads up to the first event. A failure before that is raised as a
`ClientError` that says whether a retry is allowed. Later failures are passed to the reader and not raised here. `close`
returns a connection to the pool only if its answer was read to the end; otherwise it closes the connection, so that the
server stops the answer. Only this module and `http` use httpx2 and sockets.
"""

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import httpx2

from streamweir.client.api import CHAT, MESSAGES, RESPONSES, Api, check_api, make_reader
from streamweir.client.error import ClientError, Unreachable
from streamweir.client.failed_response import mask_secret, read_failure, request_id_of
from streamweir.client.reader import Limits, Reader
from streamweir.client.request import (
    Messages,
    build_body,
    build_headers,
    endpoint_url,
    is_valid_header_value,
    messages_headers,
    shown_url,
)
from streamweir.client.stream import AsyncStream, Stream
from streamweir.client.timeouts import Attempts, EventDeadline, Retries, Timeouts
from streamweir.client.watchdog import Watchdog
from streamweir.frontends.chat.dialect import Dialect

Tap = Callable[[bytes], None]

_PATHS: dict[Api, str] = {"chat": "/chat/completions", "messages": "/messages", "responses": "/responses"}

_CLOSED_EARLY = "it was left"
"""The message of a stream that is read after its block has ended."""
_MAX_ERROR_BYTES = 64 * 1024
_DRAIN_S = 0.5
_MAX_DRAIN_BYTES = 64 * 1024
"""When the answer is complete, the rest of the body is read, so that the connection can be reused. It has nearly always
arrived already; otherwise the connection is closed after this time and this many bytes."""


class Settings:
    """The settings of a client, and what is built from them for each attempt."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        api: Api,
        dialect: str | Dialect | None,
        timeouts: Timeouts,
        retries: Retries | int,
        limits: Limits,
        headers: Mapping[str, str],
    ) -> None:
        if not is_valid_header_value(api_key):
            raise ValueError("api_key holds signs that no header can carry")
        self._dialect = check_api(api, dialect)
        self._api = api
        self.timeouts = timeouts
        self.retries = Retries(most=retries) if isinstance(retries, int) else retries
        self.limits = limits
        self._url = endpoint_url(base_url, _PATHS[api])
        self._api_key = api_key
        self._headers = {**(messages_headers(api_key) if api == MESSAGES else {}), **headers}

    def __repr__(self) -> str:
        """Contains no secret."""
        spoken = f"api={self._api!r}" if self._api != CHAT else f"dialect={self._dialect.name!r}"
        return f"{shown_url(self._url)!r}, {spoken}"

    @property
    def always_streams(self) -> bool:
        """There are no whole answers."""
        return self._api == CHAT and self._dialect.whole_object is None

    def body(
        self,
        model: str | None,
        messages: Messages,
        parameters: Mapping[str, Any],
        *,
        stream: bool,
        include_usage: bool = True,
    ) -> bytes:
        include_usage = include_usage and self._api == CHAT  # the others always have it
        prompt = "input" if self._api == RESPONSES else "messages"
        return build_body(model, messages, parameters, stream=stream, include_usage=include_usage, prompt=prompt)

    def request(
        self, http: httpx2.Client | httpx2.AsyncClient, body: bytes, headers: Mapping[str, str] | None, *, stream: bool
    ) -> httpx2.Request:
        timeouts = self.timeouts
        return http.build_request(
            "POST",
            self._url,
            content=body,
            headers=build_headers(self._api_key, {**self._headers, **(headers or {})}, stream=stream),
            timeout=httpx2.Timeout(
                connect=timeouts.connect_s,
                read=timeouts.first_event_s,
                write=timeouts.first_event_s,
                pool=timeouts.connect_s,
            ),
        )

    @property
    def head_s(self) -> float | None:
        """The time limit for the status, including the connection."""
        connect_s, first_s = self.timeouts.connect_s, self.timeouts.first_event_s
        return None if connect_s is None or first_s is None else connect_s + first_s

    def reader(self, n: int | None) -> Reader:
        dialect = None if self._api != CHAT else self._dialect
        return make_reader(self._api, dialect, self.limits, secret=self._api_key, n=n)

    def attempts(self) -> Attempts:
        return Attempts(self.retries, random.random)

    def connection_error(self, reason: httpx2.RequestError, reader: Reader) -> ClientError:
        """The error if no status was received."""
        if isinstance(reason, httpx2.ReadTimeout | httpx2.WriteTimeout):
            return reader.time_out(self.timeouts.first_event_s or 0.0)
        return Unreachable(f"{shown_url(self._url)} cannot be reached: {self.describe(reason)}")

    def describe(self, reason: httpx2.RequestError) -> str:
        return mask_secret(str(reason), self._api_key) or type(reason).__name__

    def failure(self, response: httpx2.Response, body: bytes) -> ClientError:
        headers = {name.lower(): value for name, value in response.headers.items()}
        return read_failure(response.status_code, headers, body, now=time.time(), secret=self._api_key)

    def response_started(self, response: httpx2.Response, request: httpx2.Request, reader: Reader) -> None:
        """A success: from now on the deadline for events applies, not httpx2's timeout for reads."""
        reader.answer.request_id = request_id_of(response.headers, self._api_key)
        request.extensions["timeout"]["read"] = None


class _Attempt:
    """The common part of both transports."""

    def __init__(self, settings: Settings, request: httpx2.Request, tap: Tap | None, n: int | None) -> None:
        """`n`: the requested number of choices; None: one."""
        self._settings = settings
        self._request = request
        self._tap = tap
        self._reader = settings.reader(n)
        self._deadline = EventDeadline(settings.timeouts)

    @property
    def _can_drain(self) -> bool:
        return self._reader.answer.is_whole

    @property
    def _early_error(self) -> ClientError | None:
        """An error before the first event with content."""
        return None if self._reader.seen else self._reader.error

    def _timed_out(self) -> None:
        self._reader.time_out(self._deadline.limit_s or 0.0)

    def _connection_lost(self, reason: httpx2.RequestError) -> None:
        self._reader.cut(self._settings.describe(reason))


class Transport(_Attempt):
    """For `Client`. A watchdog ends a blocking read at its deadline."""

    def open(self, http: httpx2.Client) -> Stream:
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
            stream = Stream(self._reader, self._chunks())
            stream.begin()
            if self._early_error is not None:
                raise self._early_error
        except BaseException:
            self.close(False)
            raise
        return stream

    def close(self, is_finished: bool) -> None:
        try:
            if is_finished and self._can_drain:
                self._read_rest(_MAX_DRAIN_BYTES, _DRAIN_S)
        finally:
            self._reader.cut(_CLOSED_EARLY)
            self._watchdog.close()
            self._response.close()

    def _chunks(self) -> Iterator[bytes]:
        """The pieces of the body. After a failure, which is passed to the reader, it stops."""
        reader, deadline, watchdog = self._reader, self._deadline, self._watchdog
        while True:
            began = time.monotonic()
            watchdog.set_timeout(deadline.remaining_s(reader.seen))
            try:
                chunk = next(self._source, None)
            except httpx2.RequestError as reason:
                self._timed_out() if watchdog.has_fired else self._connection_lost(reason)
                return
            watchdog.set_timeout(None)
            if watchdog.has_fired:
                self._timed_out()
                return
            if chunk is None:
                return
            deadline.elapse(time.monotonic() - began)
            if self._tap is not None:
                self._tap(chunk)
            yield chunk

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
            stream = AsyncStream(self._reader, self._chunks())
            await stream.begin()
            if self._early_error is not None:
                raise self._early_error
        except BaseException:
            await self.close(False)
            raise
        return stream

    async def close(self, is_finished: bool) -> None:
        try:
            if is_finished and self._can_drain:
                await self._read_rest(_MAX_DRAIN_BYTES, _DRAIN_S)
        finally:
            self._reader.cut(_CLOSED_EARLY)
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
                async with asyncio.timeout(deadline.remaining_s(reader.seen)):
                    chunk = await anext(self._source, None)
            except TimeoutError:
                self._timed_out()
                return
            except httpx2.RequestError as reason:
                self._connection_lost(reason)
                return
            if chunk is None:
                return
            deadline.elapse(time.monotonic() - began)
            if self._tap is not None:
                self._tap(chunk)
            yield chunk

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
