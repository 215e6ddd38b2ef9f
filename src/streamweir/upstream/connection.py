"""One connection to an upstream, one call at a time: the socket side of the hot path.

A read goes to the receiver in the callback that delivered it, as one `body_received` and, if it was the last, a
`body_ended`: no task, no queue. The receiver is not called any more once its call is over, whoever ended it, and it may
end the call inside its own callbacks.

A large read is delivered in slices, one per turn of the loop, and nothing is read meanwhile: a provider that sends much
at once gets no more than its share. The end of the body is delivered after the slices.

A connection owns a slot of the pool from `send` until its call is over. It is returned to the pool only if its response
was complete, both sides keep it open, the request was sent completely, and nothing was read beyond the response; in
every other case it is closed at once.
"""

import asyncio
import os
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import ErrorReport, StreamweirError, UpstreamError
from streamweir.upstream.base import Receiver
from streamweir.upstream.pool import Pool
from streamweir.upstream.reply import MAX_HEAD_BYTES, Reply

# A short body is copied behind its head, so that both go out in one packet and one TLS record; a long one is not.
_MAX_COPIED_BYTES = 64 * 1024
_SLICE_BYTES = 16 * 1024
"""The part of a read that is processed in one turn: two thousand of the smallest frames, or some milliseconds."""


class Sender(Protocol):
    """The owner of the request that a connection sends."""

    def response_started(self) -> None:
        """The first byte of the response has arrived: the request will not be needed again."""
        ...

    def detached(self) -> None:
        """The connection no longer belongs to the call."""
        ...

    def send_again(self, receiver: Receiver) -> None:
        """The connection was closed before it was used. The sender owns the slot now."""
        ...


class Connection(asyncio.Protocol):
    __slots__ = (
        "_bytes_without_body",
        "_end",
        "_has_slices",
        "_is_dead",
        "_is_paused",
        "_is_reused",
        "_linger",
        "_owns_slot",
        "_pool",
        "_raw_transport",
        "_receiver",
        "_reply",
        "_response_started",
        "_sender",
        "_slices",
        "_transport",
        "early_error",
        "trace",
    )

    _raw_transport: asyncio.Transport
    _transport: asyncio.Transport

    def __init__(self, pool: "Pool[Connection]") -> None:
        self.early_error: StreamweirError | None = None
        """Why it was closed before it was used."""
        self.trace: CallTrace | None = None
        """How it was opened. Set by the dialler."""
        self._pool = pool
        self._sender: Sender | None = None
        self._receiver: Receiver | None = None
        self._reply: Reply | None = None
        self._bytes_without_body = 0  # bytes that were read since the last piece of a body
        self._response_started = False
        self._is_reused = False
        self._is_dead = False
        self._owns_slot = False
        self._slices: list[bytes] = []  # slices of a read that are still to be processed (a deque needs 700 bytes more)
        self._has_slices = False  # there are some: what is read now comes after them
        self._is_paused = False  # by the receiver
        self._end: Callable[[], None] | None = None  # the end of the connection, which came after them
        self._linger: asyncio.TimerHandle | None = None

    @property
    def is_reused(self) -> bool:
        """It has served a call before."""
        return self._is_reused

    @property
    def is_usable(self) -> bool:
        return not self._is_dead and not self._raw_transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw_transport = self._transport = cast(asyncio.Transport, transport)

    def secure(self, transport: asyncio.Transport) -> None:
        """From now on writes go through TLS.

        Reading is still paused on the transport below: uvloop's TLS transport reads on while it is paused, and discards
        what it has read if the peer then closes.
        """
        self._transport = transport

    def send(self, sender: Sender, receiver: Receiver, head: bytes, body: bytes) -> None:
        """Begins a call, with the slot that its sender has taken."""
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

    def hand_over(self, receiver: Receiver) -> None:
        """The rest of the answer goes to this receiver. Without effect after the end of the call."""
        if self._receiver is not None:
            self._receiver = receiver

    def pause(self) -> None:
        self._is_paused = True
        self._raw_transport.pause_reading()

    def resume(self) -> None:
        self._is_paused = False
        if self._has_slices:
            asyncio.get_running_loop().call_soon(self._take_slice)
        else:
            self._raw_transport.resume_reading()

    def release(self, linger_s: float) -> None:
        """The sender no longer needs the call; the connection is kept if only the end of the body follows, and soon."""
        reply = self._reply
        self._detach()
        if reply is None:
            return
        if reply.is_whole:
            self._finish(reply)
        elif self._slices:
            self.drop()
        elif reply.has_head and reply.may_keep and reply.fault is None and not reply.pieces:
            self._linger = asyncio.get_running_loop().call_later(linger_s, self.drop)
            self._raw_transport.resume_reading()
            self._pool.add_lingering(self)
        else:
            self.drop()

    def drop(self) -> None:
        """Closes it now; unsent and unread data is lost."""
        if self._is_dead:
            return
        self._is_dead = True
        self._slices.clear()
        self._detach()
        self._end_linger()
        if self._reply is not None:
            self._reply.close()
            self._reply = None
        self._transport.abort()
        self._pool.remove(self)
        if self._owns_slot:
            self._owns_slot = False
            self._pool.free()

    def data_received(self, data: bytes) -> None:
        if data[_SLICE_BYTES:] or self._has_slices:
            self._defer(data)
            return
        reply, receiver = self._reply, self._receiver
        if reply is None:
            self._fail_early(UpstreamError("upstream_bad_response", "The provider sent data before the request."))
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
                self._process(reply, len(data))
        except BaseException:  # a bug, of the reply's parser or of the receiver: nothing more is read
            self.drop()
            raise

    def eof_received(self) -> None:
        reply = self._reply
        if self._is_dead:
            return
        if self._has_slices:
            self._end = self._end or self.eof_received
            return
        if reply is None or self._receiver is None:
            self._fail_early(_empty())
        elif reply.ends_by_close:
            receiver = self._receiver
            self.drop()
            receiver.body_ended()
        else:
            self._fail(_truncated() if self._response_started else _empty())

    def connection_lost(self, exc: Exception | None) -> None:
        # Without a preceding `eof_received`: a reset, or TLS without a closing message, which anyone on the path could
        # have caused. That does not end a body, not even one that lasts until the close.
        if self._is_dead:
            return
        if self._has_slices:
            self._end = self._end or partial(self.connection_lost, exc)
            return
        if exc is None:
            error = _truncated() if self._response_started else _empty()
        elif isinstance(exc, ssl.SSLError) and not self._response_started:
            error = UpstreamError("upstream_tls_failed", "The provider refused TLS.")
        else:
            error = UpstreamError("upstream_stream_reset", "The provider broke the connection.")
            if isinstance(exc, OSError) and exc.errno is not None:
                error.report = ErrorReport(text=os.strerror(exc.errno))
        if self._receiver is None:
            self._fail_early(error)
        else:
            self._fail(error)

    def _defer(self, data: bytes) -> None:
        """For a read that is too large for one turn, or that follows one."""
        self._slices.extend([data[at : at + _SLICE_BYTES] for at in range(0, len(data), _SLICE_BYTES)])
        if not self._has_slices:
            self._has_slices = True
            self._raw_transport.pause_reading()
            self._take_slice()

    def _take_slice(self) -> None:
        """Processes one slice; the next is processed in the next turn, or after `resume` if the receiver has paused."""
        if self._is_dead or self._is_paused or not self._has_slices:
            return
        self._has_slices = False
        self.data_received(self._slices.pop(0))
        if self._is_dead:
            return
        self._has_slices = bool(self._slices)
        if self._has_slices:
            asyncio.get_running_loop().call_soon(self._take_slice)
        elif self._end is not None:
            self._end()
        elif not self._is_paused:
            self._raw_transport.resume_reading()

    def _process(self, reply: Reply, size: int) -> None:
        """A read with more than body data: the head, the end, an error, or an incomplete part of these."""
        receiver = self._receiver
        if receiver is None:
            self._await_end(reply, size)
            return
        if not self._response_started and self._sender is not None:
            self._response_started = True
            self._sender.response_started()
        if (headers := reply.take_head()) is not None:
            reply.flows = not reply.is_whole and reply.fault is None
            receiver.head_received(reply.status, headers)
            receiver = self._receiver  # it may have handed the call over
            if receiver is None:
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
            self._detach()
            receiver.body_ended()
            self._finish(reply)

    def _await_end(self, reply: Reply, size: int) -> None:
        """After `release`: the connection is kept only if the end comes with nothing before or after it."""
        self._bytes_without_body += size
        if reply.pieces or reply.fault is not None or self._bytes_without_body > MAX_HEAD_BYTES:
            self.drop()
        elif reply.is_whole:
            self._end_linger()
            self._finish(reply)

    def _finish(self, reply: Reply) -> None:
        reply.close()
        self._reply = None
        is_sent = not self._transport.get_write_buffer_size() and not self._raw_transport.get_write_buffer_size()
        if reply.may_keep and is_sent and self.is_usable and not self._slices and self._end is None:
            self._is_paused = False
            self._is_reused = True
            self._owns_slot = False
            self._raw_transport.resume_reading()  # otherwise a close by the peer would not be noticed
            self._pool.put_back(self)
        else:
            self.drop()

    def _fail(self, error: StreamweirError) -> None:
        sender, receiver = self._sender, self._receiver
        if sender is None or receiver is None:
            self.drop()
        elif self._is_reused and not self._response_started:
            # docs/spec/failures.md U38: the peer closed an idle connection, most likely before the request arrived.
            self._owns_slot = False
            self.drop()
            sender.send_again(receiver)
        else:
            self.drop()
            receiver.call_failed(error)

    def _fail_early(self, error: StreamweirError) -> None:
        self.early_error = error
        self.drop()

    def _detach(self) -> None:
        sender = self._sender
        self._sender = self._receiver = None
        if sender is not None:
            sender.detached()

    def _end_linger(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
            self._pool.remove(self)


def _empty() -> UpstreamError:
    return UpstreamError("upstream_empty_response", "The provider closed the connection without an answer.")


def _truncated() -> UpstreamError:
    return UpstreamError("upstream_stream_truncated", "The provider's answer ended before it was complete.")
