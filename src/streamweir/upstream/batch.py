"""Several calls to one upstream as a single one: the calls of a request whose provider takes only a part of it at once.

    answers of the calls -> in their order -> one answer: {"parts": [first, second, ...]}

With `UpstreamRequest.count_header`, the numbers of that header follow: {"parts": [...], "counts": [12, null, ...]}.

Event streams are joined instead, with an event `PART` between two of them (`UpstreamRequest.is_streamed`).

The receiver is called as by any upstream (`upstream.base`): one head, the bodies, one end. The calls run one after
the other, or a few at a time (`UpstreamRequest.parallel`); an answer that arrives before its turn waits in memory, and
is not read any further once that is much. The failure of any call is the failure of all: the others are aborted. A
later call that is refused fails with the error that the provider's `read_error` makes of it. The answers themselves
are not interpreted here.
"""

import asyncio
import re
from collections.abc import Callable, Mapping

from msgspec import structs

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.providers.base import PART, UpstreamRequest
from streamweir.providers.refusal import ReadError, read_refusal
from streamweir.upstream.base import Call, Receiver, Upstream
from streamweir.wire.body import empty_event

_MAX_WAITING = 1024 * 1024
"""Bytes of one answer before its turn: then it is not read until then."""
_MAX_REFUSAL = 64 * 1024
_DOCUMENTS = (b'{"parts":[', b",", b"]}")
"""Written before, between and after answers that are no streams."""
_COUNT = re.compile(r"0|[1-9][0-9]{0,11}")


class BatchUpstream:
    """See `upstream.base.Upstream`. For requests with `more` bodies, or with a `count_header`."""

    def __init__(self, upstream: Upstream, read_error: ReadError, on_sent: Callable[[float], None]) -> None:
        """`on_sent` is called with the share of all bodies, from 0 to 1, that was sent so far."""
        self._upstream = upstream
        self._read_error = read_error
        self._on_sent = on_sent

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> "BatchCall":
        self._on_sent(0.0)
        batch = BatchCall(self._upstream, request, receiver, self._read_error, self._on_sent)
        await batch.open_first()
        return batch

    async def close(self) -> None:
        """Nothing to do: the connections belong to the upstream inside."""


class BatchCall:
    """See `upstream.base.Call`."""

    is_refused = False  # what was sent of it is known by `on_sent`

    def __init__(
        self,
        upstream: Upstream,
        request: UpstreamRequest,
        receiver: Receiver,
        read_error: ReadError,
        on_sent: Callable[[float], None],
    ) -> None:
        self.read_error = read_error
        self._on_sent = on_sent
        self.resends = 0
        self._loop = asyncio.get_running_loop()
        self._upstream = upstream
        self._head = structs.replace(request, body=b"", more=())
        self._bodies: list[bytes] = [request.body, *request.more]
        self._unsent = self._size = sum(map(len, self._bodies))
        self._receiver = receiver
        self._parallel = request.parallel
        self._count_header = request.count_header
        self._before, self._between, self._after = _DOCUMENTS
        if request.is_streamed:
            self._before, self._between, self._after = b"", empty_event(request.framing, PART), b""
        self._parts: list[_Part] = []
        self._turn = 0
        self._running = 0
        self._opening: asyncio.Task[None] | None = None
        self._is_paused = False
        self._is_over = False
        self._failed: _Part | None = None

    @property
    def trace(self) -> CallTrace | None:
        """Of the call that failed, else of the last one."""
        part = self._failed or (self._parts[-1] if self._parts else None)
        return part.trace if part is not None else None

    async def open_first(self) -> None:
        try:
            await self._open()
        except BaseException:  # also when it is cancelled: no call is left behind
            self.abort()
            raise
        self._open_more()

    def pause(self) -> None:
        self._is_paused = True
        for part in self._parts:
            part.pause()

    def resume(self) -> None:
        self._is_paused = False
        for part in self._parts:
            part.resume()

    def abort(self) -> None:
        self._is_over = True
        self._bodies.clear()
        if self._opening is not None:
            self._opening.cancel()
        for part in self._parts:
            part.abort()

    def release(self) -> None:
        self.abort()

    # What the parts report.

    def head_received(self, part: "_Part", status: int, headers: Mapping[str, str]) -> None:
        if part.number == 0 and not self._is_over:
            self._receiver.head_received(status, headers)
            if not part.is_refused:
                self._give(self._before)

    def body_received(self, part: "_Part", data: bytes) -> bool:
        """False: it must wait for its turn."""
        if part.number != self._turn:
            return False
        self._give(data)
        return True

    def part_ended(self, part: "_Part") -> None:
        self.resends += part.resends
        self._running -= 1
        if part.is_refused:  # the first one: its body was passed on
            self._is_over = True
            self._receiver.body_ended()
            self.abort()
            return
        self._open_more()
        while not self._is_over and self._turn < len(self._parts) and self._parts[self._turn].has_ended:
            self._turn += 1
            if self._turn == len(self._bodies):
                self._give(self._after if self._count_header is None else self._counts(self._count_header))
                if not self._is_over:
                    self._is_over = True
                    self._receiver.body_ended()
                    self.abort()
                return
            self._give(self._between)
            if self._turn < len(self._parts):
                for data in self._parts[self._turn].take_waiting():
                    self._give(data)

    def part_failed(self, error: StreamweirError, part: "_Part | None" = None) -> None:
        """`part`: None if it could not be opened."""
        if not self._is_over:
            self._failed = part
            self.abort()
            self._receiver.call_failed(error)

    def resume_soon(self, part: "_Part") -> None:
        """It is its turn: the data that has waited is passed on first."""
        self._loop.call_soon(self._resume_part, part)

    def _resume_part(self, part: "_Part") -> None:
        if not self._is_paused and not self._is_over:
            part.resume()

    def _counts(self, header: str) -> bytes:
        counts = (part.headers.get(header, "") for part in self._parts)
        texts = [count if _COUNT.fullmatch(count) else "null" for count in counts]
        return b'],"counts":[' + ",".join(texts).encode() + b"]}"

    def _give(self, data: bytes) -> None:
        if data and not self._is_over:
            self._receiver.body_received(data)

    # Opening.

    def _open_more(self) -> None:
        if self._is_over or self._opening is not None or len(self._parts) == len(self._bodies):
            return
        if self._running >= self._parallel:
            return
        self._opening = self._loop.create_task(self._open())
        self._opening.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening = None
        reason = task.exception() if not task.cancelled() else None
        if reason is None:
            self._open_more()
        elif isinstance(reason, StreamweirError):
            self.part_failed(reason)
        else:
            context = {"message": "a call of a batch could not be opened", "exception": reason, "task": task}
            self._loop.call_exception_handler(context)
            self.part_failed(GatewayFault("internal_error", "The gateway failed to send the request."))

    async def _open(self) -> None:
        number = len(self._parts)
        request = structs.replace(self._head, body=self._bodies[number])
        part = _Part(self, number)
        call = await self._upstream.open(request, part)
        if self._is_over:
            call.abort()
            return
        self._bodies[number] = b""  # it is sent
        self._unsent -= len(request.body)
        self._on_sent(1.0 - self._unsent / self._size if self._unsent else 1.0)
        part.call = call
        self._parts.append(part)
        self._running += 1
        if self._is_paused:
            part.pause()


class _Part:
    """One call, and what of its answer waits. See `upstream.base.Receiver`."""

    def __init__(self, batch: BatchCall, number: int) -> None:
        self.number = number
        self.call: Call | None = None
        self.resends = 0
        """Known when it has ended."""
        self.is_refused = False
        self.has_ended = False
        self._batch = batch
        self._status = 0
        self.headers: Mapping[str, str] = {}
        self._refusal = bytearray()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._trace: CallTrace | None = None

    @property
    def trace(self) -> CallTrace | None:
        return self.call.trace if self.call is not None else self._trace

    def pause(self) -> None:
        if self.call is not None:
            self.call.pause()

    def resume(self) -> None:
        if self.call is not None and self._waiting_bytes <= _MAX_WAITING:
            self.call.resume()

    def abort(self) -> None:
        call, self.call = self.call, None
        self._waiting.clear()
        if call is not None:
            self._trace = call.trace
            call.abort()

    def take_waiting(self) -> list[bytes]:
        """At its turn."""
        waiting, self._waiting = self._waiting, []
        is_full, self._waiting_bytes = self._waiting_bytes > _MAX_WAITING, 0
        if is_full:
            self._batch.resume_soon(self)
        return waiting

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        self._status, self.headers = status, headers
        self.is_refused = not 200 <= status < 300
        self._batch.head_received(self, status, headers)

    def body_received(self, data: bytes, /) -> None:
        if self.is_refused and self.number:
            self._refusal += data
            if len(self._refusal) > _MAX_REFUSAL:
                self._fail_refused(b"")
        elif not self._batch.body_received(self, data):
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            if self._waiting_bytes > _MAX_WAITING:
                self.pause()

    def body_ended(self) -> None:
        if self.is_refused and self.number:
            self._fail_refused(bytes(self._refusal))
            return
        self.has_ended = True
        call, self.call = self.call, None
        if call is not None:
            self.resends, self._trace = call.resends, call.trace
            call.release()
        self._batch.part_ended(self)

    def call_failed(self, error: StreamweirError, /) -> None:
        self._batch.part_failed(error, self)

    def _fail_refused(self, body: bytes) -> None:
        error = read_refusal(self._batch.read_error, self._status, self.headers, body)
        self._batch.part_failed(error, self)
