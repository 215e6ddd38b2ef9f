"""An answer while it comes: the reader's events, drawn from whoever has the bytes.

`Stream` and `AsyncStream` are the same shell twice, over an iterator of bytes and over an asynchronous one; all that
is read or decided is the reader's. Both can be iterated (events), read as text, asked for the whole, looked at in
between, and left at any time. An error is raised where it happened: after the events before it.
"""

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Self

from streamweir.client.answer import Completion, ToolCall
from streamweir.client.reader import USUAL, Limits, Reader
from streamweir.core.events import Event, TextDelta
from streamweir.core.usage import Usage
from streamweir.frontends.chat.dialect import Dialect


class _StreamState:
    """What both have: the reader, and the events that nobody has taken yet."""

    def __init__(self, reader: Reader) -> None:
        self.attempts = 1
        """How often the request was sent until this answer began."""
        self._reader = reader
        self._pending: deque[Event] = deque()

    @property
    def usage(self) -> Usage | None:
        """As the server reported it: mostly at the end. None before that, and where it reports none."""
        return self._reader.answer.usage

    @property
    def tool_calls(self) -> list[ToolCall]:
        """As far as they have come; the same objects grow."""
        return self._reader.answer.tool_calls

    @property
    def request_id(self) -> str | None:
        return self._reader.answer.request_id

    @property
    def so_far(self) -> Completion:
        """What has arrived. Its `is_whole` says whether that is all."""
        return self._reader.completion

    @property
    def _has_more(self) -> bool:
        return bool(self._pending) or self._reader.error is not None

    def _next(self) -> Event | None:
        """The next event at hand. None: there is no more, or it has to be waited for. Raises what went wrong."""
        if self._pending:
            return self._pending.popleft()
        if self._reader.error is not None:
            raise self._reader.error
        return None

    def _take(self, data: bytes | None) -> None:
        """What has come; None: the end."""
        self._pending.extend(self._reader.finish() if data is None else self._reader.feed(data))


class Stream(_StreamState):
    """Whoever owns the bytes closes them."""

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
        """The pieces of one choice's text, as they come."""
        for event in self:
            if isinstance(event, TextDelta) and event.choice == choice:
                yield event.text

    def final(self) -> Completion:
        """The whole answer: what is left of it is read first."""
        for _ in self:
            pass
        return self.so_far

    def begin(self) -> None:
        """Until something was said, or nothing will be."""
        while not self._reader.seen and not self._reader.ended:
            self._take(next(self._chunks, None))

    def wait(self) -> bool:
        """Until events are at hand, or an error is. False: the answer is whole, and all of it was taken."""
        while not self._pending and not self._reader.ended:
            self._take(next(self._chunks, None))
        return self._has_more


class AsyncStream(_StreamState):
    """`Stream`, asynchronously."""

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
    chunks: Iterable[bytes], dialect: str | Dialect = "openai", *, limits: Limits = USUAL, n: int | None = None
) -> Stream:
    """The body of a streamed (or whole) answer, from anywhere, in any pieces. What the iterable raises goes through.

    `n`: how many choices were asked for, where that is more than one.
    """
    return Stream(Reader(dialect, limits, n=n), iter(chunks))


def aparse(
    chunks: AsyncIterable[bytes], dialect: str | Dialect = "openai", *, limits: Limits = USUAL, n: int | None = None
) -> AsyncStream:
    """`parse`, from an asynchronous iterable."""
    return AsyncStream(Reader(dialect, limits, n=n), aiter(chunks))
