"""`Client` and `AsyncClient`: streamed and whole answers of one endpoint, over httpx2.

A request is one or more attempts (`transport`). A failure before the first event may be retried (`timeouts.Attempts`
decides), a later one never. The connection belongs to the `with` block and is released when the block ends, for any
reason. The two classes have the same code with and without `await`; they share `Settings`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Self

import httpx2

from streamweir.client.answer import Completion
from streamweir.client.api import CHAT, Api
from streamweir.client.error import ClientError
from streamweir.client.reader import DEFAULT_LIMITS, Limits
from streamweir.client.request import Messages, requested_choices
from streamweir.client.resume import Resume
from streamweir.client.settings import Settings
from streamweir.client.stream import AsyncStream, Stream
from streamweir.client.timeouts import DEFAULT_RETRIES, DEFAULT_TIMEOUTS, Retries, Timeouts
from streamweir.client.transport import AsyncTransport, Tap, Transport
from streamweir.frontends.chat.dialect import Dialect

_CONNECTIONS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)


class Client:
    """A client of one endpoint. Threads may share it; a `with` block, or `close`, closes its connections.

    `api` is `chat` (completions, in a `dialect`), `messages` or `responses`. `retries` may be a number. `resume`: a
    stream whose connection is lost goes on, if the server can resume it. `http`: your own `httpx2.Client`, for proxies
    or certificates; it must use HTTP/1.1, and is not closed by this client.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        api: Api = CHAT,
        dialect: str | Dialect | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        retries: Retries | int = DEFAULT_RETRIES,
        limits: Limits = DEFAULT_LIMITS,
        headers: Mapping[str, str] | None = None,
        resume: Resume | bool = False,
        http: httpx2.Client | None = None,
    ) -> None:
        self._settings = Settings(
            base_url, api_key or "", api, dialect, timeouts, retries, limits, headers or {}, _resume(resume)
        )
        self._owns_http = http is None
        self._http = http or httpx2.Client(limits=_CONNECTIONS)

    @contextmanager
    def stream(
        self,
        *,
        messages: Messages,
        model: str | None = None,
        include_usage: bool = True,
        headers: Mapping[str, str] | None = None,
        tap: Tap | None = None,
        **parameters: Any,
    ) -> Iterator[Stream]:
        """A streamed answer. The block begins after the first event has arrived; its end releases the connection.

        `include_usage` is for chat completions: the others always have it. `tap` is called with each piece of the body
        as it arrives; `parameters` are members of the request. With the Responses API `messages` are its `input`.
        """
        body = self._settings.body(model, messages, parameters, stream=True, include_usage=include_usage)
        with self._open(body, headers, stream=True, tap=tap, n=requested_choices(parameters)) as stream:
            yield stream

    def create(
        self,
        *,
        messages: Messages,
        model: str | None = None,
        headers: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> Completion:
        """A whole answer. In a dialect that always streams, the stream is collected."""
        is_streamed = self._settings.always_streams
        body = self._settings.body(model, messages, parameters, stream=is_streamed)
        with self._open(body, headers, stream=is_streamed, n=requested_choices(parameters)) as stream:
            return stream.final()

    def close(self) -> None:
        if self._owns_http:
            self._http.close()

    def __repr__(self) -> str:
        return f"Client({self._settings})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _open(
        self, body: bytes, headers: Mapping[str, str] | None, *, stream: bool, n: int | None, tap: Tap | None = None
    ) -> Iterator[Stream]:
        attempts = self._settings.attempts()
        if stream and self._settings.resume is not None:
            headers = self._settings.resume_headers(headers)
        while True:
            transport = Transport(
                self._settings, self._settings.request(self._http, body, headers, stream=stream), tap, n
            )
            try:
                opened = transport.open(self._http)
                break
            except ClientError as error:
                pause_s = attempts.pause_after(error)
                if pause_s is None:
                    raise
            time.sleep(pause_s)
        opened.attempts = attempts.count
        is_finished = False
        try:
            yield opened
            is_finished = True
        finally:
            transport.close(is_finished)


class AsyncClient:
    """`Client` for asyncio. A cancelled task closes its connection.

    `api`, `retries`, `resume` and `http` are as in `Client`.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        api: Api = CHAT,
        dialect: str | Dialect | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        retries: Retries | int = DEFAULT_RETRIES,
        limits: Limits = DEFAULT_LIMITS,
        headers: Mapping[str, str] | None = None,
        resume: Resume | bool = False,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self._settings = Settings(
            base_url, api_key or "", api, dialect, timeouts, retries, limits, headers or {}, _resume(resume)
        )
        self._owns_http = http is None
        self._http = http or httpx2.AsyncClient(limits=_CONNECTIONS)

    @asynccontextmanager
    async def stream(
        self,
        *,
        messages: Messages,
        model: str | None = None,
        include_usage: bool = True,
        headers: Mapping[str, str] | None = None,
        tap: Tap | None = None,
        **parameters: Any,
    ) -> AsyncIterator[AsyncStream]:
        """As `Client.stream`."""
        body = self._settings.body(model, messages, parameters, stream=True, include_usage=include_usage)
        async with self._open(body, headers, stream=True, tap=tap, n=requested_choices(parameters)) as stream:
            yield stream

    async def create(
        self,
        *,
        messages: Messages,
        model: str | None = None,
        headers: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> Completion:
        """As `Client.create`."""
        is_streamed = self._settings.always_streams
        body = self._settings.body(model, messages, parameters, stream=is_streamed)
        async with self._open(body, headers, stream=is_streamed, n=requested_choices(parameters)) as stream:
            return await stream.final()

    async def close(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    def __repr__(self) -> str:
        return f"AsyncClient({self._settings})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def _open(
        self, body: bytes, headers: Mapping[str, str] | None, *, stream: bool, n: int | None, tap: Tap | None = None
    ) -> AsyncIterator[AsyncStream]:
        attempts = self._settings.attempts()
        if stream and self._settings.resume is not None:
            headers = self._settings.resume_headers(headers)
        while True:
            transport = AsyncTransport(
                self._settings, self._settings.request(self._http, body, headers, stream=stream), tap, n
            )
            try:
                opened = await transport.open(self._http)
                break
            except ClientError as error:
                pause_s = attempts.pause_after(error)
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)
        opened.attempts = attempts.count
        is_finished = False
        try:
            yield opened
            is_finished = True
        finally:
            await transport.close(is_finished)


def _resume(resume: Resume | bool) -> Resume | None:
    if isinstance(resume, Resume):
        return resume
    return Resume() if resume else None
