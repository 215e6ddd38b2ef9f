"""One connection of a caller: its requests one after the other, its deadlines, and its end.

    IDLE -> HEAD -> UNREAD -> BODY -> SERVING -> IDLE          (HEAD -> SERVING without a body)
                \\-------\\-------\\--------\\--> LINGERING -> CLOSED

One request is served at a time. Bytes that follow it are kept unparsed until it is answered, so that answers have the
order of their requests. A body is not read before the application has admitted its head.

Reading continues during an answer, to notice a disconnect: a caller that closes, even only its sending side, has gone
(docs/spec/failures.md C7). What was written before is still delivered. If a caller sends more than `pipeline_bytes` of
further requests during an answer, they are dropped, and an error follows the answer. A long body in small chunks is
parsed in parts, one per turn of the event loop, and reading is paused until then.

One timer serves all deadlines. A caller that reads nothing for `write_stall_s` is dropped. A callback pauses the writer
of an answer; it is never called from inside a write. A connection ends in one of three ways: `_linger` (answered, but
the other side may still be sending), `_close` (buffered bytes are delivered), `_abort` (at once).
"""

import asyncio
import re
import socket
import struct
from collections.abc import Callable
from enum import Enum, auto
from math import inf
from typing import Protocol, cast

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.server.http.body import Body, ChunkedBody, ReadBudget, SizedBody, too_large
from streamweir.server.http.head import Head, HeadReader
from streamweir.server.http.ids import new_id
from streamweir.server.http.limits import HttpLimits
from streamweir.server.http.message import UNREADABLE, Application, BodyHold, Request
from streamweir.server.http.pressure import retry_after_s
from streamweir.server.http.response import HttpResponse
from streamweir.server.http.timers import SLACK_S, DeadlineTimer, TimerQueue, WriteStall

_BLANK_LINES = re.compile(rb"(?:\r\n)*")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_REQUESTS_PER_TURN = 16
"""How many pipelined requests are started in one turn of the event loop."""

_STALL_CHECKS = 4
"""How often buffered bytes are checked within `write_stall_s`."""


class Phase(Enum):
    IDLE = auto()
    HEAD = auto()
    UNREAD = auto()
    """The application has the head. The body is not read until the application wants it."""
    BODY = auto()
    SERVING = auto()
    LINGERING = auto()
    CLOSED = auto()


class EarlyRefusal(Protocol):
    """See `server.request.overload`."""

    def __call__(self, data: bytes, /, *, closes: bool) -> bytes | None:
        """The answer to a request that consists of these bytes; None: it must be parsed and served."""
        ...


class ServerInterface(Protocol):
    """What a connection needs from the server."""

    @property
    def app(self) -> Application: ...

    @property
    def limits(self) -> HttpLimits: ...

    @property
    def timers(self) -> TimerQueue: ...

    @property
    def read_budget(self) -> ReadBudget: ...

    @property
    def is_admitting(self) -> bool: ...

    @property
    def keeps_alive(self) -> bool: ...

    def opened(self, connection: "Connection", /) -> None: ...

    @property
    def early_refusal(self) -> EarlyRefusal | None: ...

    @property
    def reserved_paths(self) -> tuple[str, ...]:
        """Prefixes of the paths that are served even if there are too many connections."""
        ...

    def may_linger(self, connection: "Connection", /) -> bool:
        """Whether it may linger at its end, which keeps its file open."""
        ...

    def closed(self, connection: "Connection", /) -> None: ...


class Connection(asyncio.Protocol):
    """See `server.http.response.ResponseTransport`."""

    __slots__ = (
        "_advance_is_scheduled",
        "_app",
        "_body",
        "_body_hold",
        "_closes",
        "_deadline",
        "_discarded",
        "_flow_is_reported",
        "_is_advancing",
        "_is_fresh",
        "_is_paused",
        "_limits",
        "_loop",
        "_on_body",
        "_peer",
        "_phase",
        "_pipeline_overflowed",
        "_reader",
        "_request",
        "_response",
        "_sent",
        "_server",
        "_timer",
        "_transport",
        "_unparsed",
        "_unread_head",
        "_write_stall",
        "is_full",
        "is_surplus",
    )

    _transport: asyncio.Transport

    def __init__(
        self,
        server: ServerInterface,
        loop: asyncio.AbstractEventLoop,
        *,
        is_surplus: bool = False,
        first_bytes: bytes = b"",
        is_fresh: bool = True,
    ) -> None:
        """`first_bytes`: already read from the socket. `is_fresh`: False if a request was already answered on it."""
        self._limits = server.limits
        self._loop = loop
        self._peer = ""
        self._phase = Phase.IDLE
        self._deadline = inf
        """Of the current phase."""
        self._timer = DeadlineTimer(server.timers, self)
        self._write_stall = WriteStall()
        self._sent = 0
        """Bytes that were written to the transport, without those of the current answer."""
        self._is_paused = False
        self._discarded = 0
        self.is_full = False
        self._flow_is_reported = True
        self._server = server
        self._app = server.app
        self._is_fresh = is_fresh
        """Nothing has arrived yet."""
        self.is_surplus = is_surplus
        """It exceeds the limit of connections. Only a request for a reserved path is served."""
        self._unparsed = first_bytes
        """Not parsed yet."""
        self._reader: HeadReader | None = None
        self._body: Body | None = None
        self._request: Request | None = None
        self._response: HttpResponse | None = None
        self._closes = False
        """The connection ends with the current answer."""
        self._is_advancing = False
        self._advance_is_scheduled = False
        """`_advance` runs in the next turn of the event loop."""
        self._pipeline_overflowed = False
        """More bytes followed the current request than are kept. They were dropped."""
        self._unread_head: Head | None = None
        """Head of a request whose body is not read yet."""
        self._on_body: Callable[[StreamweirError | None], None] | None = None
        """Called when the body was read, or cannot be."""
        self._body_hold: BodyHold | None = None

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of asyncio's class
        self._transport.set_write_buffer_limits(high=self._limits.high_water)
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self._server.opened(self)
        wait_s = self._limits.header_s if self._is_fresh else self._limits.keep_s
        self._deadline = self._loop.time() + (min(wait_s, self._limits.linger_s) if self.is_surplus else wait_s)
        self._timer.fire_by(self._deadline)
        if self._unparsed:
            self._advance_soon()

    def data_received(self, data: bytes) -> None:
        phase = self._phase
        if phase is Phase.CLOSED:
            return
        if phase is Phase.LINGERING or (phase is Phase.SERVING and (self._closes or self._pipeline_overflowed)):
            self._discard(len(data))
            return
        if phase is Phase.IDLE and self._server.early_refusal is not None and self._refuse_early(data):
            return
        self._unparsed = self._unparsed + data if self._unparsed else data
        if phase is Phase.SERVING:
            if len(self._unparsed) > self._limits.pipeline_bytes:
                self._drop_pipelined()
        elif not self._advance_is_scheduled and phase is not Phase.UNREAD:
            self._advance()

    def _refuse_early(self, data: bytes) -> bool:
        early_refusal = self._server.early_refusal
        if early_refusal is None or self._unparsed or self.is_full or self.is_surplus or not self._server.keeps_alive:
            return False
        refusal = early_refusal(data, closes=False)
        if refusal is None:
            return False
        self._is_fresh = False
        self._sent += len(refusal)
        self._transport.write(refusal)
        self._deadline = self._loop.time() + self._limits.keep_s
        self._watch_writing()
        return True

    def eof_received(self) -> None:
        if self._response is not None:
            self._abort()
        else:
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (the caller has gone, for any reason)
        self._server.closed(self)
        self._timer.end()
        self._abort()

    def pause_writing(self) -> None:
        self.is_full = True
        self._report_flow_soon()

    def resume_writing(self) -> None:
        self.is_full = False
        self._report_flow_soon()

    def _report_flow_soon(self) -> None:
        if self._flow_is_reported:
            self._flow_is_reported = False
            self._loop.call_soon(self._report_flow)

    def _report_flow(self) -> None:
        """Also if it has changed back: a writer that read `is_full` in between must not wait for ever."""
        self._flow_is_reported = True
        self._flow_changed()

    # For the server.

    @property
    def awaits_body(self) -> bool:
        """Of an admitted request only."""
        return self._request is not None and self._request.admitted is not None

    def close_if_idle(self) -> None:
        """Closes an idle connection. A new connection may send its first request."""
        if self._phase is Phase.IDLE and not self._is_fresh and not self._unparsed:
            self._close()

    def abort(self) -> None:
        self._abort()

    # For the response.

    def before_head(self) -> bool:
        if self._phase is Phase.BODY or self._phase is Phase.UNREAD:  # the rest of the body will not be read
            self._phase = Phase.SERVING
            self._deadline = inf
            self._closes = True
            self._unread_head = None
        if not self._server.keeps_alive:
            self._closes = True
        if self._closes:
            self._unparsed = b""
            self._set_reading(True)
        self._watch_writing()
        return self._closes

    def response_ended(self) -> None:
        if self._response is not None:
            self._sent += self._response.bytes_out
        self._forget_request()
        if self._pipeline_overflowed and not self._closes:
            self._pipeline_overflowed = False
            self._refuse(pipeline_overflow(self._limits.pipeline_bytes))
            return
        if self._closes and self._server.may_linger(self):
            self._linger()
            return
        if self._closes or not (self._server.is_admitting or self._unparsed):
            self._close()
            return
        self._phase = Phase.IDLE
        self._deadline = self._loop.time() + self._limits.keep_s
        if not self._is_advancing:
            self._timer.fire_by(self._deadline)
            if self._unparsed:
                self._advance_soon()

    def response_cut(self, /, *, with_reset: bool) -> None:
        if with_reset:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._abort()

    def read_body(self, max_bytes: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        head = self._unread_head
        if head is None:
            done(None)
            return
        self._body_hold = self._request.hold if self._request is not None else None
        limit = self._limits.body_bytes * self._limits.body_factors.get(head.path, 1)
        limit = limit if max_bytes is None else min(max_bytes, limit)
        if head.length > limit:
            done(too_large(limit))
            return
        self._on_body = done
        self._begin_body(head, limit)
        self._advance_soon()

    def arrived_body(self) -> bytes:
        head = self._unread_head
        is_whole = head is not None and not head.is_chunked and len(self._unparsed) >= head.length
        return self._unparsed[: head.length] if head is not None and is_whole else b""

    # One request after the other.

    def _advance_soon(self) -> None:
        if not self._advance_is_scheduled:
            self._advance_is_scheduled = True
            self._loop.call_soon(self._advance)

    def _advance(self) -> None:
        self._advance_is_scheduled = False
        self._is_advancing = True
        try:
            for _ in range(_REQUESTS_PER_TURN):
                if not self._step():
                    break
            else:
                self._advance_soon()
        except BaseException:
            # The application handles its own faults. One that escapes ends this connection and reaches the event loop.
            self._abort()
            raise
        finally:
            self._is_advancing = False
        phase, fits = self._phase, len(self._unparsed) <= self._limits.pipeline_bytes
        if phase is Phase.SERVING and not fits:
            self._drop_pipelined()
            fits = True
        self._set_reading(fits and not self._advance_is_scheduled and phase is not Phase.UNREAD)
        self._timer.fire_by(self._deadline)

    def _drop_pipelined(self) -> None:
        self._unparsed = b""
        self._pipeline_overflowed = True

    def _step(self) -> bool:
        """False: more bytes are needed, or the answer must end first."""
        phase = self._phase
        if phase is Phase.IDLE and self._request_begins():
            phase = self._phase = Phase.HEAD
        if phase is Phase.HEAD:
            return self._read_head()
        if phase is Phase.BODY:
            return self._read_body()
        return False

    def _request_begins(self) -> bool:
        """True if a request begins: blank lines are skipped (RFC 9112 2.2), and unread answers delay it."""
        unparsed = self._unparsed
        if unparsed.startswith(b"\r"):
            blank = _BLANK_LINES.match(unparsed)
            unparsed = self._unparsed = unparsed[blank.end() :] if blank is not None else unparsed
        if not unparsed or unparsed == b"\r" or self.is_full:
            return False
        limits = self._limits
        self._reader = HeadReader(limits.header_bytes, limits.header_fields)
        if not self._is_fresh:
            self._deadline = self._loop.time() + limits.header_s
        self._is_fresh = False
        return True

    def _read_head(self) -> bool:
        reader, data = self._reader, self._unparsed
        assert reader is not None  # noqa: S101 (for the type checker)
        self._unparsed = b""
        try:
            used = reader.feed(data)
        except CallerError as error:
            self._refuse(error)
            return False
        if reader.head is None:
            return False
        self._unparsed = data[used:]
        self._reader = None
        self._begin(reader.head)
        return self._phase is not Phase.SERVING

    def _begin(self, head: Head) -> None:
        now = self._loop.time()
        request = self._request = Request(
            id=new_id(),
            method=head.method,
            path=head.path,
            query=head.query,
            headers=head.headers,
            length=None if head.is_chunked else head.length,
            peer=self._peer,
            arrived_s=now,
        )
        response = self._response = self._respond(request.id, is_head=head.method == "HEAD", is_1_1=head.is_1_1)
        self._closes = not head.keeps_alive or self.is_surplus
        has_body = head.is_chunked or head.length > 0
        self._phase = Phase.UNREAD if has_body else Phase.SERVING
        self._deadline = inf
        if self.is_surplus and not head.path.startswith(self._server.reserved_paths):
            self._refuse(too_many_connections())
            return
        max_bytes = self._limits.body_bytes
        if head.length > max_bytes or head.is_chunked:
            max_bytes *= self._limits.body_factors.get(head.path, 1)
        if head.length > max_bytes:
            self._refuse(too_large(max_bytes))
            return
        self._unread_head = head if has_body else None
        answers_later = self._app.begin(request, response)
        if answers_later or self._response is not response or response.started:
            return
        if not has_body:
            self._serve(request, response)
        elif not head.is_chunked and len(self._unparsed) >= head.length:  # the body arrived with the head
            self._unread_head, self._body_hold = None, request.hold
            request.body, self._unparsed = self._unparsed[: head.length], self._unparsed[head.length :]
            self._serve(request, response)
        else:
            self._begin_body(head, max_bytes)

    def _begin_body(self, head: Head, max_bytes: int) -> None:
        self._unread_head = None
        self._body_hold = self._request.hold if self._request is not None else None
        self._phase = Phase.BODY
        self._deadline = self._loop.time() + self._limits.body_s
        self._body = ChunkedBody(max_bytes) if head.is_chunked else SizedBody(head.length)
        if head.expects_continue and not self._unparsed:
            self._transport.write(_CONTINUE)

    def _read_body(self) -> bool:
        body, request, response, data = self._body, self._request, self._response, self._unparsed
        assert body is not None  # noqa: S101 (these three for the type checker)
        assert request is not None  # noqa: S101
        assert response is not None  # noqa: S101
        self._unparsed = b""
        read_budget, before = self._server.read_budget, body.chunks
        try:
            used = body.feed(data, read_budget.allowed())
        except CallerError as error:
            self._refuse(error)
            return False
        finally:
            read_budget.spent(body.chunks - before)
        if (
            request.length is None
            and self._body_hold is not None
            and (full := self._body_hold.grow(body.size)) is not None
        ):
            self._refuse(full)
            return False
        self._unparsed = data[used:]
        if not body.is_complete:
            if self._unparsed:
                self._advance_soon()
            return False
        self._body = None
        request.body = body.take()
        self._serve(request, response)
        return self._phase is not Phase.SERVING

    def _serve(self, request: Request, response: HttpResponse) -> None:
        self._phase = Phase.SERVING
        self._deadline = inf
        self._request = None  # the application has it; it may be large, and the answer may take long
        if self._on_body is None:
            self._app.serve(request, response)
        else:
            self._report_body(None)

    def _report_body(self, error: StreamweirError | None) -> None:
        on_body, self._on_body = self._on_body, None
        if on_body is not None:
            on_body(error)

    def _forget_request(self) -> None:
        self._response = self._request = self._body = self._unread_head = self._on_body = None
        if self._body_hold is not None:
            self._body_hold.release()
            self._body_hold = None

    def _refuse(self, error: StreamweirError) -> None:
        if self._on_body is not None:  # the reader of the body answers the error
            self._phase = Phase.SERVING
            self._deadline = inf
            self._closes = True
            self._unparsed = b""
            self._report_body(error)
            return
        request, response = self._request, self._response
        if request is None:
            request = self._unreadable()
        if response is None:
            response = self._response = self._respond(request.id, is_head=False, is_1_1=True)
        self._phase = Phase.SERVING
        self._deadline = inf
        self._closes = True
        try:
            answer = self._app.refuse(request, error)
        except BaseException:  # a bug: without an answer the connection has no use
            self._abort()
            raise
        response.send(answer)

    def _unreadable(self) -> Request:
        now = self._loop.time()
        return Request(id=new_id(), method=UNREADABLE, path=UNREADABLE, headers={}, peer=self._peer, arrived_s=now)

    def _respond(self, request_id: str, *, is_head: bool, is_1_1: bool) -> HttpResponse:
        return HttpResponse(self, self._transport.write, request_id, is_head=is_head, is_1_1=is_1_1)

    # Deadlines and flow control.

    def _expire(self, now: float) -> None:
        phase = self._phase
        if phase is Phase.HEAD or (phase is Phase.IDLE and self._is_fresh):
            late = CallerError("request_timeout", "The request's headers did not arrive in time.")
            self._refuse(too_many_connections() if self.is_surplus else late)
        elif phase is Phase.BODY:
            self._refuse(CallerError("request_timeout", "The request's body did not arrive in time."))
        elif self._transport.get_write_buffer_size():  # the last answer is not read yet: only a stall ends it
            self._deadline = now + self._limits.write_stall_s
        elif phase is Phase.LINGERING:
            self._abort()
        else:
            self._close()

    def _response_bytes(self) -> int | None:
        return self._response.bytes_out if self._response is not None else None

    def _flow_changed(self) -> None:
        response = self._response
        if response is not None:
            callback = response.on_full if self.is_full else response.on_drained
            if callback is not None:
                callback()
        elif not self.is_full:
            self._advance()

    def _disconnect_response(self) -> None:
        self._unparsed = b""
        response = self._response
        self._forget_request()
        if response is not None:
            response.disconnect()

    # Reading.

    def _set_reading(self, enabled: bool) -> None:
        if enabled is not self._is_paused or self._transport.is_closing():
            return
        self._is_paused = not enabled
        if enabled:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _discard(self, count: int) -> None:
        """Counts bytes that are not parsed. Past the limit the connection ends, also during an answer: if reading
        stopped instead, a disconnect would not be noticed."""
        self._discarded += count
        if self._discarded > self._limits.linger_bytes:
            self._abort()

    # Time.

    def _watch_writing(self) -> None:
        self._timer.fire_by(self._loop.time() + self._limits.write_stall_s / _STALL_CHECKS)

    def on_timer(self) -> None:
        now = self._loop.time()
        if now >= self._deadline - SLACK_S:
            self._deadline = inf
            self._expire(now)
        waiting = self._transport.get_write_buffer_size()
        response_bytes = self._response_bytes()
        if self._write_stall.duration_s(self._sent + (response_bytes or 0), waiting, now) >= (
            self._limits.write_stall_s - SLACK_S
        ):
            self._abort()
            return
        if waiting or response_bytes is not None:
            self._watch_writing()
        self._timer.fire_by(self._deadline)

    # The end.

    def _linger(self) -> None:
        """Ends our side and waits for the other side: a reset could destroy the answer before it is read."""
        if not self._transport.can_write_eof():  # TLS has its own closing handshake
            self._close()
            return
        self._phase = Phase.LINGERING
        self._deadline = self._loop.time() + self._limits.linger_s
        self._set_reading(True)
        self._transport.write_eof()
        self._timer.fire_by(self._deadline)

    def _close(self) -> None:
        """Buffered bytes are still delivered."""
        self._phase = Phase.CLOSED
        self._deadline = inf
        self._transport.close()
        self._watch_writing()

    def _abort(self) -> None:
        """At once. Buffered bytes are lost."""
        self._phase = Phase.CLOSED
        self._deadline = inf
        self._transport.abort()
        self._disconnect_response()


def pipeline_overflow(max_bytes: int) -> CallerError:
    message = f"More than {max_bytes} bytes of further requests came before this one's answer. Wait for each answer."
    return CallerError("invalid_value", message)


def too_many_connections() -> GatewayFault:
    return GatewayFault("overloaded", "The gateway has too many connections.", retry_after_s=retry_after_s())
