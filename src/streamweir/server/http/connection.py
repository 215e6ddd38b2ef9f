"""One connection of a caller: which request's turn it is, what it may cost in time, and when it is over.

    IDLE -> HEAD -> UNREAD -> BODY -> SERVING -> IDLE          (HEAD -> SERVING without a body)
                \\-------\\-------\\--------\\--> LINGERING -> CLOSED

One request at a time: what follows it is kept unparsed until it is answered, so answers leave in
order and nothing is read under another request's rules. A body is not read before the application
has let its head in. Reading goes on while an answer is under way, for the sake of the end of the
stream: a caller that closes, also only its sending side, has gone (docs/spec/failures.md C7); what was
already answered is still delivered. So that it can go on, who sends more than `pipeline_bytes` of
further requests meanwhile has the rest thrown away, and is told so after the answer. A long body in
small chunks is parsed in parts, one in each turn of the loop, and not read on until that is done.
How HTTP is read and written is told by `head`, `body` and `response`; what is answered, by the application.

All of its deadlines have one timer. A caller that takes nothing for `write_stall_s` is dropped, however little waits;
whoever writes is told when to stop, never from inside a write. It ends in one of three ways: `_linger` (answered; the
other side may still be sending), `_close` (what waits is delivered), `_lose` (at once).
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
from streamweir.server.http.message import UNREAD, Application, BodyHold, Request
from streamweir.server.http.pressure import retry_after_s
from streamweir.server.http.response import HttpResponse
from streamweir.server.http.timers import SLACK_S, DeadlineTimer, TimerQueue, WriteStall

_BLANK_LINES = re.compile(rb"(?:\r\n)*")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TURN = 16
"""How many pipelined requests are begun before other connections have their turn."""

_STALL_LOOKS = 4
"""How often the waiting bytes are looked at within `write_stall_s`."""


class Phase(Enum):
    IDLE = auto()
    HEAD = auto()
    UNREAD = auto()
    """The head is with the application. The body stays in the kernel until it is wanted."""
    BODY = auto()
    SERVING = auto()
    LINGERING = auto()
    CLOSED = auto()


class EarlyRefusal(Protocol):
    """See `server.request.overload`."""

    def __call__(self, data: bytes, /, *, closes: bool) -> bytes | None:
        """A whole answer to a request of which these are all the bytes; None: it must be read."""
        ...


class ServerInterface(Protocol):
    """The server, as far as a connection knows it."""

    @property
    def app(self) -> Application: ...

    @property
    def limits(self) -> HttpLimits: ...

    @property
    def clock(self) -> TimerQueue: ...

    @property
    def turns(self) -> ReadBudget: ...

    @property
    def is_admitting(self) -> bool: ...

    @property
    def keeps_alive(self) -> bool: ...

    def opened(self, connection: "Connection", /) -> None: ...

    @property
    def early(self) -> EarlyRefusal | None: ...

    @property
    def reserved(self) -> tuple[str, ...]:
        """How the paths begin that are served though there are too many connections."""
        ...

    def may_linger(self, connection: "Connection", /) -> bool:
        """Whether there is room for its gentle end."""
        ...

    def closed(self, connection: "Connection", /) -> None: ...


class Connection(asyncio.Protocol):
    """See `server.http.response.ResponseTransport`."""

    __slots__ = (
        "_app",
        "_body",
        "_closes",
        "_deadline",
        "_discarded",
        "_flow_is_reported",
        "_hold",
        "_is_advancing",
        "_is_due",
        "_is_fresh",
        "_is_paused",
        "_limits",
        "_loop",
        "_on_body",
        "_overran",
        "_owner",
        "_peer",
        "_phase",
        "_reader",
        "_request",
        "_response",
        "_rest",
        "_sent",
        "_stall",
        "_timer",
        "_transport",
        "_unread",
        "is_full",
        "is_surplus",
    )

    _transport: asyncio.Transport

    def __init__(
        self,
        owner: ServerInterface,
        loop: asyncio.AbstractEventLoop,
        *,
        is_surplus: bool = False,
        first: bytes = b"",
        is_fresh: bool = True,
    ) -> None:
        """`first`: what was read of it already, and not answered. `is_fresh`: False where something was answered."""
        self._limits = owner.limits
        self._loop = loop
        self._peer = ""
        self._phase = Phase.IDLE
        self._deadline = inf
        """Of the phase."""
        self._timer = DeadlineTimer(owner.clock, self)
        self._stall = WriteStall()
        self._sent = 0
        """All that was handed to the transport, but for the answer that is under way."""
        self._is_paused = False
        self._discarded = 0
        self.is_full = False
        self._flow_is_reported = True
        self._owner = owner
        self._app = owner.app
        self._is_fresh = is_fresh
        """Nothing has arrived yet."""
        self.is_surplus = is_surplus
        """There is no place for it, but it may say what it wants: some things are served all the same."""
        self._rest = first
        """Not parsed yet."""
        self._reader: HeadReader | None = None
        self._body: Body | None = None
        self._request: Request | None = None
        self._response: HttpResponse | None = None
        self._closes = False
        """With the answer that is under way."""
        self._is_advancing = False
        self._is_due = False
        """The next turn of the loop parses on."""
        self._overran = False
        """More came behind the request that is being answered than is kept: none of it will be read."""
        self._unread: Head | None = None
        """Of a request whose body waits for somebody to ask for it."""
        self._on_body: Callable[[StreamweirError | None], None] | None = None
        """Who has asked."""
        self._hold: BodyHold | None = None

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of asyncio's class
        self._transport.set_write_buffer_limits(high=self._limits.high_water)
        peer = transport.get_extra_info("peername")
        self._peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self._owner.opened(self)
        wait_s = self._limits.header_s if self._is_fresh else self._limits.keep_s
        self._deadline = self._loop.time() + (min(wait_s, self._limits.linger_s) if self.is_surplus else wait_s)
        self._timer.by(self._deadline)
        if self._rest:
            self._advance_soon()

    def data_received(self, data: bytes) -> None:
        phase = self._phase
        if phase is Phase.CLOSED:
            return
        if phase is Phase.LINGERING or (phase is Phase.SERVING and (self._closes or self._overran)):
            self._discard(len(data))
            return
        if phase is Phase.IDLE and self._owner.early is not None and self._refuse_early(data):
            return
        self._rest = self._rest + data if self._rest else data
        if phase is Phase.SERVING:
            if len(self._rest) > self._limits.pipeline_bytes:
                self._overrun()
        elif not self._is_due and phase is not Phase.UNREAD:
            self._advance()

    def _refuse_early(self, data: bytes) -> bool:
        early = self._owner.early
        if early is None or self._rest or self.is_full or self.is_surplus or not self._owner.keeps_alive:
            return False
        refusal = early(data, closes=False)
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
            self._lose()
        else:
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (whatever it was, the caller has gone)
        self._owner.closed(self)
        self._timer.end()
        self._lose()

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
        """Also where it has changed back meanwhile: who looked for himself in between must not wait for ever."""
        self._flow_is_reported = True
        self._flow_changed()

    # What the server asks.

    @property
    def awaits_body(self) -> bool:
        """Of a request that was let in; not of one for which anybody may send a body."""
        return self._request is not None and self._request.admitted is not None

    def retire(self) -> None:
        """Close now if nothing is asked for. One that has just been opened may ask first."""
        if self._phase is Phase.IDLE and not self._is_fresh and not self._rest:
            self._close()

    def abort(self) -> None:
        self._lose()

    # What the response tells.

    def head_goes_out(self) -> bool:
        if self._phase is Phase.BODY or self._phase is Phase.UNREAD:  # what is left of the body will never be read
            self._phase = Phase.SERVING
            self._deadline = inf
            self._closes = True
            self._unread = None
        if not self._owner.keeps_alive:
            self._closes = True
        if self._closes:
            self._rest = b""
            self._read_on(True)
        self._watch_writing()
        return self._closes

    def response_ended(self) -> None:
        if self._response is not None:
            self._sent += self._response.bytes_out
        self._forget_request()
        if self._overran and not self._closes:
            self._overran = False
            self._refuse(too_much_at_once(self._limits.pipeline_bytes))
            return
        if self._closes and self._owner.may_linger(self):
            self._linger()
            return
        if self._closes or not (self._owner.is_admitting or self._rest):
            self._close()
            return
        self._phase = Phase.IDLE
        self._deadline = self._loop.time() + self._limits.keep_s
        if not self._is_advancing:
            self._timer.by(self._deadline)
            if self._rest:
                self._advance_soon()

    def response_cut(self, /, *, abruptly: bool) -> None:
        if abruptly:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._lose()

    def read_body(self, most: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        head = self._unread
        if head is None:
            done(None)
            return
        self._hold = self._request.hold if self._request is not None else None
        limit = self._limits.body_bytes if most is None else min(most, self._limits.body_bytes)
        if head.length > limit:
            done(too_large(limit))
            return
        self._on_body = done
        self._begin_body(head, limit)
        self._advance_soon()

    # One request after the other.

    def _advance_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._advance)

    def _advance(self) -> None:
        self._is_due = False
        self._is_advancing = True
        try:
            for _ in range(_TURN):
                if not self._step():
                    break
            else:
                self._advance_soon()
        except BaseException:
            # The application keeps its faults to itself. One that escapes ends this connection and reaches the loop.
            self._lose()
            raise
        finally:
            self._is_advancing = False
        phase, has_room = self._phase, len(self._rest) <= self._limits.pipeline_bytes
        if phase is Phase.SERVING and not has_room:
            self._overrun()
            has_room = True
        self._read_on(has_room and not self._is_due and phase is not Phase.UNREAD)
        self._timer.by(self._deadline)

    def _overrun(self) -> None:
        self._rest = b""
        self._overran = True

    def _step(self) -> bool:
        """False: this takes more bytes, or an answer."""
        phase = self._phase
        if phase is Phase.IDLE and self._request_begins():
            phase = self._phase = Phase.HEAD
        if phase is Phase.HEAD:
            return self._read_head()
        if phase is Phase.BODY:
            return self._read_body()
        return False

    def _request_begins(self) -> bool:
        """True where a request begins: not with blank lines (RFC 9112 2.2), nor while answers pile up."""
        rest = self._rest
        if rest.startswith(b"\r"):
            blank = _BLANK_LINES.match(rest)
            rest = self._rest = rest[blank.end() :] if blank is not None else rest
        if not rest or rest == b"\r" or self.is_full:
            return False
        limits = self._limits
        self._reader = HeadReader(limits.header_bytes, limits.header_fields)
        if not self._is_fresh:
            self._deadline = self._loop.time() + limits.header_s
        self._is_fresh = False
        return True

    def _read_head(self) -> bool:
        reader, data = self._reader, self._rest
        assert reader is not None  # noqa: S101 (for the type checker)
        self._rest = b""
        try:
            used = reader.feed(data)
        except CallerError as error:
            self._refuse(error)
            return False
        if reader.head is None:
            return False
        self._rest = data[used:]
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
        if self.is_surplus and not head.path.startswith(self._owner.reserved):
            self._refuse(too_many())
            return
        most = self._limits.body_bytes
        if head.length > most:
            self._refuse(too_large(most))
            return
        self._unread = head if has_body else None
        is_taken = self._app.begin(request, response)
        if is_taken or self._response is not response or response.started:
            return
        if not has_body:
            self._serve(request, response)
        elif not head.is_chunked and len(self._rest) >= head.length:  # all of it has come with the head
            self._unread, self._hold = None, request.hold
            request.body, self._rest = self._rest[: head.length], self._rest[head.length :]
            self._serve(request, response)
        else:
            self._begin_body(head, most)

    def _begin_body(self, head: Head, most: int) -> None:
        self._unread = None
        self._hold = self._request.hold if self._request is not None else None
        self._phase = Phase.BODY
        self._deadline = self._loop.time() + self._limits.body_s
        self._body = ChunkedBody(most) if head.is_chunked else SizedBody(head.length)
        if head.expects_continue and not self._rest:
            self._transport.write(_CONTINUE)

    def _read_body(self) -> bool:
        body, request, response, data = self._body, self._request, self._response, self._rest
        assert body is not None  # noqa: S101 (these three for the type checker)
        assert request is not None  # noqa: S101
        assert response is not None  # noqa: S101
        self._rest = b""
        turns, before = self._owner.turns, body.chunks
        try:
            used = body.feed(data, turns.allowed())
        except CallerError as error:
            self._refuse(error)
            return False
        finally:
            turns.spent(body.chunks - before)
        if request.length is None and self._hold is not None and (full := self._hold.grow(body.size)) is not None:
            self._refuse(full)
            return False
        self._rest = data[used:]
        if not body.is_whole:
            if self._rest:
                self._advance_soon()
            return False
        self._body = None
        request.body = body.take()
        self._serve(request, response)
        return self._phase is not Phase.SERVING

    def _serve(self, request: Request, response: HttpResponse) -> None:
        self._phase = Phase.SERVING
        self._deadline = inf
        self._request = None  # whoever answers it knows it: it may hold much, and take long
        if self._on_body is None:
            self._app.serve(request, response)
        else:
            self._tell_body(None)

    def _tell_body(self, error: StreamweirError | None) -> None:
        on_body, self._on_body = self._on_body, None
        if on_body is not None:
            on_body(error)

    def _forget_request(self) -> None:
        self._response = self._request = self._body = self._unread = self._on_body = None
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def _refuse(self, error: StreamweirError) -> None:
        if self._on_body is not None:  # whoever has asked for the body has the answer, too
            self._phase = Phase.SERVING
            self._deadline = inf
            self._closes = True
            self._rest = b""
            self._tell_body(error)
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
        except BaseException:
            self._lose()
            raise
        response.send(answer)

    def _unreadable(self) -> Request:
        now = self._loop.time()
        return Request(id=new_id(), method=UNREAD, path=UNREAD, headers={}, peer=self._peer, arrived_s=now)

    def _respond(self, request_id: str, *, is_head: bool, is_1_1: bool) -> HttpResponse:
        return HttpResponse(self, self._transport.write, request_id, is_head=is_head, is_1_1=is_1_1)

    # What deadlines and the transport lead to.

    def _expire(self, now: float) -> None:
        phase = self._phase
        if phase is Phase.HEAD or (phase is Phase.IDLE and self._is_fresh):
            late = CallerError("request_timeout", "The request's headers did not arrive in time.")
            self._refuse(too_many() if self.is_surplus else late)
        elif phase is Phase.BODY:
            self._refuse(CallerError("request_timeout", "The request's body did not arrive in time."))
        elif self._transport.get_write_buffer_size():  # it still reads the last answer: the stall is the measure
            self._deadline = now + self._limits.write_stall_s
        elif phase is Phase.LINGERING:
            self._lose()
        else:
            self._close()

    def _under_way(self) -> int | None:
        return self._response.bytes_out if self._response is not None else None

    def _flow_changed(self) -> None:
        response = self._response
        if response is not None:
            tell = response.on_full if self.is_full else response.on_drained
            if tell is not None:
                tell()
        elif not self.is_full:
            self._advance()

    def _lost(self) -> None:
        self._rest = b""
        response = self._response
        self._forget_request()
        if response is not None:
            response.lose()

    # Reading.

    def _read_on(self, does: bool) -> None:
        if does is not self._is_paused or self._transport.is_closing():
            return
        self._is_paused = not does
        if does:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _discard(self, count: int) -> None:
        """Bytes that nobody will read. Past the limit the connection ends, also within an answer: not to read on would
        be not to notice that the caller has gone."""
        self._discarded += count
        if self._discarded > self._limits.linger_bytes:
            self._lose()

    # Time.

    def _watch_writing(self) -> None:
        self._timer.by(self._loop.time() + self._limits.write_stall_s / _STALL_LOOKS)

    def wake(self) -> None:
        now = self._loop.time()
        if now >= self._deadline - SLACK_S:
            self._deadline = inf
            self._expire(now)
        waiting = self._transport.get_write_buffer_size()
        under_way = self._under_way()
        if self._stall.lasts_s(self._sent + (under_way or 0), waiting, now) >= (self._limits.write_stall_s - SLACK_S):
            self._lose()
            return
        if waiting or under_way is not None:
            self._watch_writing()
        self._timer.by(self._deadline)

    # The end.

    def _linger(self) -> None:
        """End our side and wait for the other, lest a reset destroy the answer before it is read."""
        if not self._transport.can_write_eof():  # TLS has a farewell of its own
            self._close()
            return
        self._phase = Phase.LINGERING
        self._deadline = self._loop.time() + self._limits.linger_s
        self._read_on(True)
        self._transport.write_eof()
        self._timer.by(self._deadline)

    def _close(self) -> None:
        """What waits is still delivered, if the other side takes it."""
        self._phase = Phase.CLOSED
        self._deadline = inf
        self._transport.close()
        self._watch_writing()

    def _lose(self) -> None:
        """At once, whatever waits."""
        self._phase = Phase.CLOSED
        self._deadline = inf
        self._transport.abort()
        self._lost()


def too_much_at_once(most: int) -> CallerError:
    message = f"More than {most} bytes of further requests came before this one's answer. Wait for each answer."
    return CallerError("invalid_value", message)


def too_many() -> GatewayFault:
    return GatewayFault("overloaded", "The gateway has too many connections.", retry_after_s=retry_after_s())
