"""One connection to an upstream, one call at a time: the sockets' side of the hot path.

A read goes to the receiver in the callback that brought it, as one `body_received` and, where it
was the last, `body_ended`: no task, no queue. The receiver is told nothing more once its call is
over, whoever ended it, and it may end it from inside its own callbacks.

A large read is handed over in slices, one per turn of the loop, and meanwhile nothing more is read: a
provider that sends much at once takes no more than its share. What ends the body waits its turn.

A connection owns a place in the pool from `send` until its call is over. It goes back to the pool
only when its response was whole, both sides keep it open, the request was sent to its end and
nothing was read beyond the response; in every other case it is closed on the spot.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.upstream.base import Receiver
from streamweir.upstream.pool import Pool
from streamweir.upstream.reply import MAX_HEAD_BYTES, Reply

# A short body is copied behind its head, so that both go out in one packet and one TLS record; a long one is not.
_MAX_COPIED_BYTES = 64 * 1024
_SLICE_BYTES = 16 * 1024
"""What one turn takes of a read. Of the smallest frames these are two thousand: some milliseconds of work."""


class Sender(Protocol):
    """Whose request a connection carries."""

    def response_started(self) -> None:
        """The first byte of the response is there: the request will not be needed again."""
        ...

    def detached(self) -> None:
        """The connection has nothing to do with the call any more."""
        ...

    def send_again(self, receiver: Receiver) -> None:
        """The connection was dead before we used it. The place in the pool is the sender's now."""
        ...


class Connection(asyncio.Protocol):
    __slots__ = (
        "_bytes_without_body",
        "_end",
        "_is_behind",
        "_is_dead",
        "_is_paused",
        "_is_reused",
        "_late",
        "_linger",
        "_owns_slot",
        "_pool",
        "_raw_transport",
        "_receiver",
        "_reply",
        "_response_started",
        "_sender",
        "_transport",
        "early_error",
    )

    _raw_transport: asyncio.Transport
    _transport: asyncio.Transport

    def __init__(self, pool: "Pool[Connection]") -> None:
        self.early_error: StreamweirError | None = None
        """Why it was closed before it was used."""
        self._pool = pool
        self._sender: Sender | None = None
        self._receiver: Receiver | None = None
        self._reply: Reply | None = None
        self._bytes_without_body = 0  # bytes that were read since the last piece of a body
        self._response_started = False
        self._is_reused = False
        self._is_dead = False
        self._owns_slot = False
        self._late: list[bytes] = []  # slices of a read whose turn has not come: few, and in a deque 700 bytes larger
        self._is_behind = False  # there are some, and what is read now comes behind them
        self._is_paused = False  # by whoever receives
        self._end: Callable[[], None] | None = None  # what came behind them: the end of the connection
        self._linger: asyncio.TimerHandle | None = None

    @property
    def is_usable(self) -> bool:
        return not self._is_dead and not self._raw_transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw_transport = self._transport = cast(asyncio.Transport, transport)

    def secure(self, transport: asyncio.Transport) -> None:
        """What is written goes through TLS from now on.

        Reading is still paused on the line beneath: uvloop's TLS transport reads on while it is paused,
        and throws away what it has read when the peer then closes.
        """
        self._transport = transport

    def send(self, sender: Sender, receiver: Receiver, head: bytes, body: bytes) -> None:
        """Begins a call, with the place that its sender has taken."""
        self._owns_slot = True
        self._sender = sender
        self._receiver = receiver
        self._reply = Reply()
        self._bytes_without_body = 0
        self._response_started = False
        if len(body) <= _MAX_COPIED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def pause(self) -> None:
        self._is_paused = True
        self._raw_transport.pause_reading()

    def resume(self) -> None:
        self._is_paused = False
        if self._is_behind:
            asyncio.get_running_loop().call_soon(self._take_slice)
        else:
            self._raw_transport.resume_reading()

    def release(self, linger_s: float) -> None:
        """The call is over for its sender; the connection is kept if nothing but the end is to come, and soon."""
        reply = self._reply
        self._leave()
        if reply is None:
            return
        if reply.is_whole:
            self._retire(reply)
        elif self._late:
            self.drop()
        elif reply.has_head and reply.may_keep and reply.fault is None and not reply.pieces:
            self._linger = asyncio.get_running_loop().call_later(linger_s, self.drop)
            self._raw_transport.resume_reading()
            self._pool.part_with(self)
        else:
            self.drop()

    def drop(self) -> None:
        """Closes it now, with whatever was still to be sent or read."""
        if self._is_dead:
            return
        self._is_dead = True
        self._late.clear()
        self._leave()
        self._end_linger()
        if self._reply is not None:
            self._reply.close()
            self._reply = None
        self._transport.abort()
        self._pool.forget(self)
        if self._owns_slot:
            self._owns_slot = False
            self._pool.free()

    def data_received(self, data: bytes) -> None:
        if data[_SLICE_BYTES:] or self._is_behind:
            self._put_off(data)
            return
        reply, receiver = self._reply, self._receiver
        if reply is None:
            self._give_up(UpstreamError("upstream_bad_response", "The provider sent data before the request."))
            return
        try:
            reply.feed(data)
            if receiver is not None and reply.flows and (pieces := reply.pieces):
                self._bytes_without_body = 0
                if len(pieces) == 1:
                    body = pieces.pop()
                else:
                    body = b"".join(pieces)
                    pieces.clear()
                receiver.body_received(body)
            else:
                self._digest(reply, len(data))
        except BaseException:
            self.drop()
            raise

    def eof_received(self) -> None:
        reply = self._reply
        if self._is_dead:
            return
        if self._is_behind:
            self._end = self._end or self.eof_received
            return
        if reply is None or self._receiver is None:
            self._give_up(_empty())
        elif reply.ends_by_close:
            receiver = self._receiver
            self.drop()
            receiver.body_ended()
        else:
            self._fail(_truncated() if self._response_started else _empty())

    def connection_lost(self, exc: Exception | None) -> None:
        # Without `eof_received` before it: a reset, or TLS that ended without saying so, which anyone on the
        # way could have done. That ends no body, not even one that lasts until the close.
        if self._is_dead:
            return
        if self._is_behind:
            self._end = self._end or partial(self.connection_lost, exc)
            return
        if exc is None:
            error = _truncated() if self._response_started else _empty()
        elif isinstance(exc, ssl.SSLError) and not self._response_started:
            error = UpstreamError("upstream_tls_failed", "The provider refused TLS.")
        else:
            error = UpstreamError("upstream_stream_reset", "The provider broke the connection.")
        if self._receiver is None:
            self._give_up(error)
        else:
            self._fail(error)

    def _put_off(self, data: bytes) -> None:
        """A read that is too large for one turn, or comes behind one that was."""
        self._late.extend([data[at : at + _SLICE_BYTES] for at in range(0, len(data), _SLICE_BYTES)])
        if not self._is_behind:
            self._is_behind = True
            self._raw_transport.pause_reading()
            self._take_slice()

    def _take_slice(self) -> None:
        """One slice; the next has the next turn. Where the receiver has paused, it waits for `resume`."""
        if self._is_dead or self._is_paused or not self._is_behind:
            return
        self._is_behind = False
        self.data_received(self._late.pop(0))
        if self._is_dead:
            return
        self._is_behind = bool(self._late)
        if self._is_behind:
            asyncio.get_running_loop().call_soon(self._take_slice)
        elif self._end is not None:
            self._end()
        elif not self._is_paused:
            self._raw_transport.resume_reading()

    def _digest(self, reply: Reply, size: int) -> None:
        """A read that is not only body: the head, the end, a fault, or too little of anything."""
        receiver = self._receiver
        if receiver is None:
            self._watch_end(reply, size)
            return
        if not self._response_started and self._sender is not None:
            self._response_started = True
            self._sender.response_started()
        if (headers := reply.take_head()) is not None:
            reply.flows = not reply.is_whole and reply.fault is None
            receiver.head_received(reply.status, headers)
            if self._receiver is None:
                return
        body = reply.take()
        if body:
            self._bytes_without_body = 0
            receiver.body_received(body)
            if self._receiver is None:
                return
        elif (bytes_without_body := self._bytes_without_body + size) > MAX_HEAD_BYTES:
            reply.refuse_size()
        else:
            self._bytes_without_body = bytes_without_body
        if reply.fault is not None:
            self._fail(reply.fault)
        elif reply.is_whole:
            self._leave()
            receiver.body_ended()
            self._retire(reply)

    def _watch_end(self, reply: Reply, size: int) -> None:
        """Let go of, and kept only if the end comes with nothing before it or behind it."""
        self._bytes_without_body += size
        if reply.pieces or reply.fault is not None or self._bytes_without_body > MAX_HEAD_BYTES:
            self.drop()
        elif reply.is_whole:
            self._end_linger()
            self._retire(reply)

    def _retire(self, reply: Reply) -> None:
        reply.close()
        self._reply = None
        is_sent = not self._transport.get_write_buffer_size() and not self._raw_transport.get_write_buffer_size()
        if reply.may_keep and is_sent and self.is_usable and not self._late and self._end is None:
            self._is_paused = False
            self._is_reused = True
            self._owns_slot = False
            self._raw_transport.resume_reading()  # or the peer's close would not be seen
            self._pool.give_back(self)
        else:
            self.drop()

    def _fail(self, error: StreamweirError) -> None:
        sender, receiver = self._sender, self._receiver
        if sender is None or receiver is None:
            self.drop()
        elif self._is_reused and not self._response_started:
            # docs/spec/failures.md U38: the peer closed what it thought unused, most likely before our request came.
            self._owns_slot = False
            self.drop()
            sender.send_again(receiver)
        else:
            self.drop()
            receiver.call_failed(error)

    def _give_up(self, error: StreamweirError) -> None:
        self.early_error = error
        self.drop()

    def _leave(self) -> None:
        sender = self._sender
        self._sender = self._receiver = None
        if sender is not None:
            sender.detached()

    def _end_linger(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
            self._pool.forget(self)


def _empty() -> UpstreamError:
    return UpstreamError("upstream_empty_response", "The provider closed the connection without an answer.")


def _truncated() -> UpstreamError:
    return UpstreamError("upstream_stream_truncated", "The provider's answer ended before it was complete.")
