"""`Client` and `AsyncClient`: one endpoint, asked for streams and for whole answers, over httpx2.

A request is one or more attempts (`transport`): until the first event a failure may be tried again (`timeouts.Attempts`
decides), afterwards never. The connection belongs to the `with` block: leaving it, for whatever reason, gives it up.
The two classes are the same lines with and without `await`; what they share is in `line.Settings`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Self

import httpx2

from streamweir.client.answer import Completion
from streamweir.client.error import ClientError
from streamweir.client.reader import USUAL, Limits
from streamweir.client.request import Messages, body_of, choices_in
from streamweir.client.stream import AsyncStream, Stream
from streamweir.client.timeouts import PATIENT, SOME, Retries, Timeouts
from streamweir.client.transport import AsyncTransport, Settings, Tap, Transport
from streamweir.frontends.chat.dialect import Dialect

_CONNECTIONS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)


class Client:
    """Asks one endpoint. May be shared by threads; a `with` block, or `close`, gives its connections back.

    `retries` may be a number. `http`: an `httpx2.Client` of your own, for proxies or certificates; it must speak
    HTTP/1.1, and is not closed here.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        dialect: str | Dialect = "openai",
        timeouts: Timeouts = PATIENT,
        retries: Retries | int = SOME,
        limits: Limits = USUAL,
        headers: Mapping[str, str] | None = None,
        http: httpx2.Client | None = None,
    ) -> None:
        self._settings = Settings(base_url, api_key or "", dialect, timeouts, retries, limits, headers or {})
        self._owns = http is None
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
        """A streamed answer. When the block begins, its first event has come; when it is left, the connection goes.

        `tap` is shown the body as it comes, piece by piece; `parameters` are members of the request.
        """
        body = body_of(model, messages, parameters, stream=True, include_usage=include_usage)
        with self._open(body, headers, stream=True, tap=tap, n=choices_in(parameters)) as stream:
            yield stream

    def create(
        self,
        *,
        messages: Messages,
        model: str | None = None,
        headers: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> Completion:
        """A whole answer. In a dialect that always streams it is collected."""
        streams = self._settings.dialect.whole_object is None
        body = body_of(model, messages, parameters, stream=streams)
        with self._open(body, headers, stream=streams, n=choices_in(parameters)) as stream:
            return stream.final()

    def close(self) -> None:
        if self._owns:
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
        while True:
            line = Transport(self._settings, self._settings.request(self._http, body, headers, stream=stream), tap, n)
            try:
                opened = line.open(self._http)
                break
            except ClientError as error:
                pause_s = attempts.pause_after(error)
                if pause_s is None:
                    raise
            time.sleep(pause_s)
        opened.attempts = attempts.count
        is_left_well = False
        try:
            yield opened
            is_left_well = True
        finally:
            line.close(is_left_well)


class AsyncClient:
    """`Client`, on asyncio. A task that is cancelled closes its connection.

    `retries` and `http` are as there.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        dialect: str | Dialect = "openai",
        timeouts: Timeouts = PATIENT,
        retries: Retries | int = SOME,
        limits: Limits = USUAL,
        headers: Mapping[str, str] | None = None,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self._settings = Settings(base_url, api_key or "", dialect, timeouts, retries, limits, headers or {})
        self._owns = http is None
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
        body = body_of(model, messages, parameters, stream=True, include_usage=include_usage)
        async with self._open(body, headers, stream=True, tap=tap, n=choices_in(parameters)) as stream:
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
        streams = self._settings.dialect.whole_object is None
        body = body_of(model, messages, parameters, stream=streams)
        async with self._open(body, headers, stream=streams, n=choices_in(parameters)) as stream:
            return await stream.final()

    async def close(self) -> None:
        if self._owns:
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
        while True:
            line = AsyncTransport(
                self._settings, self._settings.request(self._http, body, headers, stream=stream), tap, n
            )
            try:
                opened = await line.open(self._http)
                break
            except ClientError as error:
                pause_s = attempts.pause_after(error)
                if pause_s is None:
                    raise
            await asyncio.sleep(pause_s)
        opened.attempts = attempts.count
        is_left_well = False
        try:
            yield opened
            is_left_well = True
        finally:
            await line.close(is_left_well)
