"""What becomes of a request with an `Idempotency-Key` that this process does not know: it may repeat another node's.

It is looked for there first. If it is not found, the database decides whether its `Idempotency-Key` was used before.
While the other request runs and there is nothing of its answer yet, this one waits for it: until that answers, or has
ended without costing anything, when this one is tried. What was answered and is not kept any more is an error.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn, Protocol, TypeVar

from streamweir.core.errors import CallerError, GatewayFault
from streamweir.server.http.answers import Refusal
from streamweir.server.http.message import Response
from streamweir.server.streams.frames import Idempotency, StreamHead
from streamweir.server.streams.reader import Reader
from streamweir.server.streams.stream import ResumableStream
from streamweir.server.streams.table import StreamTable

_FIRST_WAIT_S, _LAST_WAIT_S = 0.05, 1.0

_Asked = TypeVar("_Asked")
_Opened = TypeVar("_Opened")


class AnsweredElsewhere(Exception):
    """The caller gets the answer of another request."""


class OtherNodes(Protocol):
    def find(self, head: StreamHead, /, *, is_used: bool) -> Awaitable[Any]:
        """The `RemoteStream` of the request that one with this head repeats. None: there is none. Raises
        `GatewayFault` if that is not known. `is_used`: its `Idempotency-Key` was used, and the answer may still be on
        its way here."""
        ...

    def answer(self, found: Any, reader: Reader, /) -> Coroutine[Any, Any, None]: ...


class Replay:
    """Of one request, which may prove to be one."""

    def __init__(
        self,
        table: StreamTable,
        idempotency: Idempotency,
        stream: ResumableStream | None,
        others: OtherNodes | None,
        start: Callable[[Response, Coroutine[Any, Any, None]], None],
        longest_s: float,
    ) -> None:
        """`stream`: None if the caller does not want its answer to be kept. `start` runs the task that answers it.
        `longest_s`: how long the other request can run."""
        self._table = table
        self.idempotency = idempotency
        self._stream = stream
        self._others = others if stream is not None else None
        self._start = start
        self._longest_s = longest_s
        self.is_one = False
        """It is answered with the answer of another request, and leaves no record."""

    async def _find(self) -> None:
        """Raises `AnsweredElsewhere`."""
        if self._others is None or self._stream is None:
            return
        with suppress(GatewayFault):
            found = await self._others.find(self._stream.head, is_used=False)
            if found is not None and not found.is_lost:  # of a dead node: it may have cost nothing
                self._answer(found)

    async def open(
        self, open_: Callable[[_Asked], Awaitable[_Opened]], max_s: float | None, asked: _Asked, /
    ) -> _Opened:
        """Reserves money for it. Raises `AnsweredElsewhere`, `Refusal`, or `GatewayFault` if it is not known whether an
        answer is kept. `max_s`: how long the caller waits."""
        if self._stream is not None and self._table.is_reused(self._stream.head.key_id, self.idempotency):
            message = "This Idempotency-Key was used for another request."  # known without a database, too
            raise Refusal(CallerError("idempotency_key_reused", message))
        until, wait_s = time.monotonic() + min(self._longest_s, max_s or self._longest_s), _FIRST_WAIT_S
        while True:
            await self._find()
            try:
                opened = await open_(asked)
            except Refusal as refusal:
                if not await self._may_wait(refusal) or time.monotonic() >= until:
                    raise
            else:
                if self._stream is not None:
                    self._table.admitted(self._stream)
                return opened
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LAST_WAIT_S)

    async def _may_wait(self, refusal: Refusal) -> bool:
        code, stream = refusal.error.code, self._stream
        if code == "idempotency_completed" and stream is not None:
            if self._others is not None:
                found = await self._others.find(stream.head, is_used=True)
                if found is not None:
                    self._answer(found)
            reason = self._table.why_not_replayed(stream.head.key_id, self.idempotency)
            raise Refusal(CallerError(code, f"{refusal.error.message} {reason}".rstrip()), refusal.headers) from None
        return code == "idempotency_in_progress" and self._others is not None

    def _answer(self, found: Any) -> NoReturn:
        assert self._others is not None  # noqa: S101 (for the type checker: they have found this)
        assert self._stream is not None  # noqa: S101 (likewise)
        self.is_one = True
        for reader in self._stream.release_readers():
            if not reader.response.gone:
                self._start(reader.response, self._others.answer(found, reader))
        raise AnsweredElsewhere
