"""`Stream` and `AsyncStream`: the events of an answer while it arrives.

Both feed a `Reader`, one from an iterator of bytes and one from an asynchronous iterator; the reader does all the
parsing. Both can be iterated for events or for text, give the current and the final completion, and can be abandoned at
any time. An error is raised after the events that arrived before it.
"""

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Self

from streamweir.client.answer import Completion, ToolCall
from streamweir.client.api import CHAT, Api, make_reader
from streamweir.client.reader import DEFAULT_LIMITS, Limits, Reader
from streamweir.core.events import Event, TextDelta
from streamweir.core.usage import Usage
from streamweir.frontends.chat.dialect import Dialect


class _StreamState:
    """The common part: the reader, and the events that were not returned yet."""

    def __init__(self, reader: Reader) -> None:
        self.attempts = 1
        """How many times the request was sent until this answer began."""
        self.resumed = 0
        """How many times the connection was lost and the answer went on behind the last whole event."""
        self._reader = reader
        self._pending: deque[Event] = deque()

    @property
    def usage(self) -> Usage | None:
        """As reported by the server, usually at the end. None before that, or if it reports none."""
        return self._reader.answer.usage

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls so far; the same objects grow."""
        return self._reader.answer.tool_calls

    @property
    def request_id(self) -> str | None:
        return self._reader.answer.request_id

    @property
    def so_far(self) -> Completion:
        """The answer so far. Its `is_whole` says whether it is complete."""
        return self._reader.completion

    @property
    def _has_more(self) -> bool:
        return bool(self._pending) or self._reader.error is not None

    def _next(self) -> Event | None:
        """The next event that has arrived. None if there is none. Raises the error of the reader."""
        if self._pending:
            return self._pending.popleft()
        if self._reader.error is not None:
            raise self._reader.error
        return None

    def _take(self, data: bytes | None) -> None:
        """Feeds the reader; None is the end of the body."""
        self._pending.extend(self._reader.finish() if data is None else self._reader.feed(data))


class Stream(_StreamState):
    """Iterates over events. It does not close the source of its bytes."""

    def __init__(self, reader: Reader, chunks: Iterator[bytes]) -> None:
        super().__init__(reader)
        self._chunks = chunks

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        while (event := self._next()) is None:
            if not self.wait():
                raise StopIteration
        return event

    def text(self, choice: int = 0) -> Iterator[str]:
        """The pieces of one choice's text, as they arrive."""
        for event in self:
            if isinstance(event, TextDelta) and event.choice == choice:
                yield event.text

    def final(self) -> Completion:
        """Reads the rest of the answer and returns the complete one."""
        for _ in self:
            pass
        return self.so_far

    def begin(self) -> None:
        """Reads until the first event with content, or the end."""
        while not self._reader.seen and not self._reader.ended:
            self._take(next(self._chunks, None))

    def wait(self) -> bool:
        """Reads until there are events or an error. False: the answer is complete, and all events were returned."""
        while not self._pending and not self._reader.ended:
            self._take(next(self._chunks, None))
        return self._has_more


class AsyncStream(_StreamState):
    """`Stream` for an asynchronous iterator."""

    def __init__(self, reader: Reader, chunks: AsyncIterator[bytes]) -> None:
        super().__init__(reader)
        self._chunks = chunks

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while (event := self._next()) is None:
            if not await self.wait():
                raise StopAsyncIteration
        return event

    async def text(self, choice: int = 0) -> AsyncIterator[str]:
        async for event in self:
            if isinstance(event, TextDelta) and event.choice == choice:
                yield event.text

    async def final(self) -> Completion:
        async for _ in self:
            pass
        return self.so_far

    async def begin(self) -> None:
        while not self._reader.seen and not self._reader.ended:
            self._take(await anext(self._chunks, None))

    async def wait(self) -> bool:
        while not self._pending and not self._reader.ended:
            self._take(await anext(self._chunks, None))
        return self._has_more


def parse(
    chunks: Iterable[bytes],
    dialect: str | Dialect | None = None,
    *,
    api: Api = CHAT,
    limits: Limits = DEFAULT_LIMITS,
    n: int | None = None,
) -> Stream:
    """Parses the body of a streamed or whole answer, split in any way. Exceptions of the iterable are passed on.

    `dialect`: of chat completions (`openai` if none is given). `n`: the requested number of choices, if it was more
    than one.
    """
    return Stream(make_reader(api, dialect, limits, n=n), iter(chunks))


def aparse(
    chunks: AsyncIterable[bytes],
    dialect: str | Dialect | None = None,
    *,
    api: Api = CHAT,
    limits: Limits = DEFAULT_LIMITS,
    n: int | None = None,
) -> AsyncStream:
    """`parse` for an asynchronous iterable."""
    return AsyncStream(make_reader(api, dialect, limits, n=n), aiter(chunks))
