"""The client library as a test uses it: one way to ask, of both kinds of client.

    async with caller(kind, upstream.base_url, retries=0) as ask:
        answer = await ask.final(messages="Hi")

The synchronous one runs in a thread, so that the server may be in the test's own loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

from streamweir.client import AsyncClient, Client, Completion, Event, Retries

KINDS = ("sync", "async")
AT_ONCE = Retries(base_s=0, cap_s=0)
"""Tried again without a pause."""


class Leaves(Exception):
    """Raised by a test in mid-stream."""


class Caller(Protocol):
    async def final(self, **request: Any) -> Completion: ...

    async def create(self, **request: Any) -> Completion: ...

    async def attempts(self, **request: Any) -> int:
        """Of a stream that is read to its end."""
        ...

    async def leave(self, see: Callable[[Event], bool], *, raising: bool = False, **request: Any) -> Completion:
        """Leaves the block at the first event of which `see` is true: by `break`, or by an exception."""
        ...


class _Sync:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def final(self, **request: Any) -> Completion:
        def run() -> Completion:
            with self.client.stream(**request) as stream:
                return stream.final()

        return await asyncio.to_thread(run)

    async def create(self, **request: Any) -> Completion:
        return await asyncio.to_thread(lambda: self.client.create(**request))

    async def attempts(self, **request: Any) -> int:
        def run() -> int:
            with self.client.stream(**request) as stream:
                stream.final()
                return stream.attempts

        return await asyncio.to_thread(run)

    async def leave(self, see: Callable[[Event], bool], *, raising: bool = False, **request: Any) -> Completion:
        def run() -> Completion:
            with self.client.stream(**request) as stream:
                for event in stream:
                    if see(event):
                        break
                if raising:
                    raise Leaves
                return stream.so_far

        return await asyncio.to_thread(run)


class _Async:
    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    async def final(self, **request: Any) -> Completion:
        async with self.client.stream(**request) as stream:
            return await stream.final()

    async def create(self, **request: Any) -> Completion:
        return await self.client.create(**request)

    async def attempts(self, **request: Any) -> int:
        async with self.client.stream(**request) as stream:
            await stream.final()
            return stream.attempts

    async def leave(self, see: Callable[[Event], bool], *, raising: bool = False, **request: Any) -> Completion:
        async with self.client.stream(**request) as stream:
            async for event in stream:
                if see(event):
                    break
            if raising:
                raise Leaves
            return stream.so_far


@asynccontextmanager
async def caller(kind: str, base_url: str, **settings: Any) -> AsyncIterator[Caller]:
    if kind == "sync":
        with Client(base_url, **settings) as client:
            yield _Sync(client)
    else:
        async with AsyncClient(base_url, **settings) as client:
            yield _Async(client)
