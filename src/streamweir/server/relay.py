"""One attempt: an upstream's bytes to the caller's transport, in one callback, with one timer beside it.

The relay owns the answer while its attempt lasts: it feeds the exchange, writes what comes back,
stops reading where the caller does not, and ends in exactly one of four ways: the answer is whole;
an error frame was written; it failed before the commit (`failure`: another target may be tried);
the caller has gone (`verdict` says so, the upstream is aborted, or read on for its usage). It
decides nothing about what comes next: that is `server.chat`. One timer per attempt looks at all that
can take too long (`server.patience`).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol

from streamweir.core.errors import GatewayFault, StreamweirError, UpstreamError
from streamweir.core.verdict import Verdict
from streamweir.providers.base import Provider, UpstreamRequest
from streamweir.server import respond
from streamweir.server.message import Answer, Headers, Response
from streamweir.server.patience import Look, Patience, Timing, too_large
from streamweir.stages.exchange import Exchange, WholeExchange
from streamweir.stages.meter import Meter
from streamweir.upstream.base import Call, Upstream
from streamweir.wire import sse

KEEP_ALIVE = sse.write_comment(b"keep-alive")
_LARGEST_ERROR_BODY = 64 * 1024
_READABLE = ("text/event-stream", "application/json", "application/x-ndjson", "text/plain", "application/octet-stream")


class Watch(Protocol):
    """What the relay reports while it runs; `server.app` gives it."""

    def chunk_gap(self, gap_s: float, /) -> None: ...

    def fault(self, reason: BaseException, request_id: str, /) -> None:
        """A bug came to light; it is written to the log with its traceback."""
        ...

    def may_abandon(self) -> bool:
        """Takes one of the places for upstreams that are read on without a caller."""
        ...

    def abandoned_ended(self) -> None: ...

    def attempt_ended(self, target: str, code: str | None, /) -> None:
        """`code`: what it failed with."""
        ...

    def ejected(self, target: str, /) -> None:
        """The target has failed so often that it is left alone for a while."""
        ...


P = ParamSpec("P")


def _guarded(step: "Callable[Concatenate[Relay, P], None]") -> "Callable[Concatenate[Relay, P], None]":
    """For what the loop calls: a bug in it ends this stream and is reported, and nobody is left waiting."""

    @wraps(step)
    def guarded(relay: "Relay", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(relay, *args, **kwargs)
        except Exception as reason:  # noqa: BLE001 (see above)
            relay._break(reason)

    return guarded


class Relay:
    """See `upstream.base.Receiver`. `run` gives control back when the attempt is over, the upstream done with."""

    def __init__(
        self,
        exchange: Exchange | WholeExchange,
        meter: Meter,
        provider: Provider,
        response: Response,
        timing: Timing,
        watch: Watch,
        request_id: str,
        headers: Headers = (),
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._time = time.monotonic  # the loop's own clock, which uvloop reads only once per turn
        self._exchange = exchange
        self._feed = exchange.feed
        self._stream = exchange if isinstance(exchange, Exchange) else None
        self._meter = meter
        self._provider = provider
        self._response = response
        self._timing = timing
        self._watch = watch
        self._request_id = request_id
        self._headers = headers
        self._call: Call | None = None
        self._opening: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._status = 0
        self._head: Mapping[str, str] = {}
        self._error_body: bytearray | None = None
        self._is_sent = False
        self._is_paused = False
        self._is_abandoned = False
        now = self._time()
        self._read_at = self._wrote_at = now
        self._patience = Patience(timing, now)
        self.bytes_in = 0
        self.bytes_out = 0
        self.resends = 0
        """See `upstream.base.Call`; known when the attempt is over."""
        self.first_token_at: float | None = None
        self.on_first_token: Callable[[], None] | None = None
        self.failure: StreamweirError | None = None
        """Why it failed before anything was sent."""
        self.verdict: Verdict | None = None
        """Set where no event tells it: the caller has gone."""
        self.ended: asyncio.Future[None] = self._loop.create_future()

    @property
    def is_billable(self) -> bool:
        """The upstream was asked, and has not refused."""
        return self._is_sent and self._error_body is None

    @property
    def held_bytes(self) -> int:
        record = self._meter.record
        kept = record.delivered.tell() + record.reasoned.tell()
        return kept if self._stream is not None else kept + self.bytes_in

    async def run(self, upstream: Upstream, request: UpstreamRequest) -> None:
        response = self._response
        response.on_gone, response.on_full, response.on_drained = self.caller_gone, self._pause, self._resume
        self._timer = self._loop.call_at(self._patience.next_look(self._look()), self._tick)
        self._opening = asyncio.current_task()
        try:
            call = await upstream.open(request, self)
        except StreamweirError as error:
            self._opening = None
            self.stop(error)
        except asyncio.CancelledError:
            opening, self._opening = self._opening, None
            is_ours = self.ended.done()  # the attempt ended while the way was still being opened
            self._conclude(b"")
            if not is_ours or opening is None or opening.uncancel():
                raise
        except Exception as reason:  # noqa: BLE001 (a bug, on the way to the upstream)
            self._opening = None
            self._break(reason)
        else:
            self._opening = None
            self._is_sent = True
            if self.ended.done():
                call.abort()
            else:
                self._call = call
                if self._is_paused:
                    self._pause()
        try:
            await asyncio.shield(self.ended)  # else a task that is cancelled would take the future with it
        except asyncio.CancelledError:
            self._drop_call()
            self._conclude(b"")
            raise

    # What the upstream tells.

    @_guarded
    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        self._status, self._head = status, headers
        self._read_at = self._time()
        if not 200 <= status < 300:
            if 300 <= status < 400:
                self.stop(self._provider.read_error(status, headers, b""))
            else:
                self._error_body = bytearray()
        elif headers.get("content-encoding", "identity").lower() != "identity":
            self.stop(UpstreamError("upstream_bad_encoding", "The provider compressed its answer, unasked."))
        elif not _is_readable(headers.get("content-type", "")):
            self.stop(UpstreamError("upstream_bad_response", "The provider answered with something else than data."))

    def body_received(self, data: bytes, /) -> None:
        now = self._time()
        try:
            if self._error_body is not None:
                self._collect_error(data)
                return
            if self.bytes_in:
                self._watch.chunk_gap(now - self._read_at)
            self._read_at = now
            self.bytes_in += len(data)
            out = self._feed(data)
            if self.first_token_at is None and (out or self._stream is None):
                self._note_first_token(now)
            if self._exchange.ended:
                self._conclude(out)
            elif self.bytes_in > self._timing.most_bytes:
                self._write(out, now)
                self.stop(too_large())
            elif out:
                self._write(out, now)
        except Exception as reason:  # noqa: BLE001 (as `_guarded`, at half the price)
            self._break(reason)

    @_guarded
    def body_ended(self) -> None:
        if self._error_body is not None:
            self.stop(self._provider.read_error(self._status, self._head, bytes(self._error_body)))
        else:
            out = self._exchange.finish()
            self._note_first_token(self._time())
            self._conclude(out)

    @_guarded
    def call_failed(self, error: StreamweirError, /) -> None:
        if self._error_body is not None:
            error = self._provider.read_error(self._status, self._head, bytes(self._error_body))
        self.stop(error)

    # What the caller does, and what others decide.

    @_guarded
    def caller_gone(self) -> None:
        """Abort the upstream, or read on without the caller, for the usage at its end."""
        if self.ended.done():
            return
        self.verdict = Verdict.CLIENT_GONE
        if not self._reads_on():
            self._drop_call()
            self._conclude(b"")
            return
        self._is_abandoned = True
        self._is_paused = False
        if self._call is not None:
            self._call.resume()
        now = self._time()
        self._read_at = now
        usage_is_due = self._exchange_may_end()
        grace_s = self._timing.silence_s if usage_is_due else self._timing.abandoned_s
        self._set_timer(now + grace_s, self._give_up)

    @_guarded
    def stop(self, error: StreamweirError, /) -> None:
        """End now, with this error: an error frame, or a `failure` where nothing was sent yet."""
        if self.ended.done():
            return
        self._drop_call()
        self._conclude(self._exchange.fail(error))

    abort_stops_billing = True
    """Whether closing the connection ends the work and the bill. Set by whoever makes the relay."""

    def _reads_on(self) -> bool:
        if self._call is None or self._error_body is not None:
            return False
        record = self._meter.record
        if self._exchange_may_end():  # nothing but usage can come: it is worth two seconds with any provider
            return record.usage is None and self._watch.may_abandon()
        if self.abort_stops_billing or (self._stream is not None and self.first_token_at is None):
            return False
        return self._watch.may_abandon()

    def _exchange_may_end(self) -> bool:
        return self._stream is not None and self._stream.may_end_in_silence

    @_guarded
    def _give_up(self) -> None:
        self._drop_call()
        if self._exchange_may_end():  # what it has of the end counts, if there is no sentinel behind it
            self.body_ended()
        else:
            self._conclude(b"")

    # Writing.

    def _write(self, out: bytes, now: float) -> None:
        if self._is_abandoned or self._stream is None:
            return
        self._wrote_at = now
        self.bytes_out += len(out)
        response = self._response
        if response.started:
            response.write(out)
        else:
            response.start(200, self._headers, out)
        if response.full and not self._is_paused:  # `on_full` is told later, after the reads that are already here
            self._pause()

    def _conclude(self, out: bytes) -> None:
        """The exchange has ended, or nobody waits for it."""
        if self.ended.done():
            return
        self._part()
        if self._is_abandoned:
            return
        exchange, response = self._exchange, self._response
        self.failure = exchange.failure
        if exchange.ended and self.failure is None and not response.gone:
            self.bytes_out += len(out)
            self._finish_response(out)

    def _part(self) -> None:
        """Nothing reaches the relay any more, and whoever waits for the attempt goes on."""
        if self.ended.done():
            return
        self.ended.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        response = self._response
        response.on_gone = response.on_full = response.on_drained = None
        if self._is_abandoned:
            self._watch.abandoned_ended()
        if self._opening is not None:
            self._opening.cancel()
        exchange, call = self._exchange, self._call
        self._call = None
        if call is not None:
            self.resends = call.resends
            is_sound = exchange.ended and self._meter.record.error is None and exchange.failure is None
            if is_sound and (self._stream is None or not self._stream.has_junk):
                call.let_go()
            else:
                call.abort()

    def _finish_response(self, out: bytes) -> None:
        response = self._response
        if self._stream is None:
            response.send(Answer(status=200, headers=respond.JSON + self._headers, body=out))
        elif response.started:
            response.end(out)
        else:
            response.start(200, self._headers, out)
            response.end()

    def _drop_call(self) -> None:
        if self._call is not None:
            self._call.abort()

    @_guarded
    def _pause(self) -> None:
        self._is_paused = True
        if self._call is not None:
            self._call.pause()

    @_guarded
    def _resume(self) -> None:
        self._is_paused = False
        self._read_at = self._time()
        if self._call is not None:
            self._call.resume()

    def _collect_error(self, data: bytes) -> None:
        assert self._error_body is not None  # noqa: S101 (for the type checker)
        self._error_body += data
        if len(self._error_body) > _LARGEST_ERROR_BODY:
            self.stop(self._provider.read_error(self._status, self._head, b""))

    def _note_first_token(self, now: float) -> None:
        if self.first_token_at is None and self._has_spoken():
            self.first_token_at = now
            if self.on_first_token is not None:
                self.on_first_token()

    def _has_spoken(self) -> bool:
        record = self._meter.record
        return bool(record.delivered.tell() or record.reasoned.tell() or record.finishes)

    def _break(self, reason: Exception) -> None:
        """A bug: the stream ends with what can still be said of it, or is cut off lest it be taken for whole."""
        self._watch.fault(reason, self._request_id)
        fault = GatewayFault("internal_error", "The gateway failed to relay the answer.", event_id=self._request_id)
        record = self._meter.record
        try:
            self._drop_call()
            out = self._exchange.fail(fault)
            if fault in (record.error, self._exchange.failure):
                self._conclude(out)
                return
        except Exception as another:  # noqa: BLE001 (what would have said it is itself broken)
            self._watch.fault(another, self._request_id)
        record.error = fault
        self._call = None
        self._part()
        if self._response.started:
            self._response.cut()
        else:
            self.failure = fault

    # Time.

    def _set_timer(self, at: float, step: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, step)

    @_guarded
    def _tick(self) -> None:
        look = self._look()
        stream = self._stream
        if stream is not None:
            stream.has_moved = False
        error = self._patience.overdue(look)
        if error is not None:
            self.stop(error)
            return
        if self._exchange_may_end() and self._patience.is_silent(look):
            self._drop_call()
            self.body_ended()
            return
        if stream is not None:
            if not look.is_committed and look.now >= self._timing.commit_at:
                self._write(stream.release(), look.now)
            elif self._patience.is_quiet(look):
                self._write(KEEP_ALIVE, look.now)
        if not self.ended.done():
            self._timer = self._loop.call_at(self._patience.next_look(self._look()), self._tick)

    def _look(self) -> Look:
        stream, record = self._stream, self._meter.record
        has_begun = bool(self.bytes_in) or self._error_body is not None
        return Look(
            now=self._time(),
            is_paused=self._is_paused,
            has_first_event=self._has_spoken() if stream is not None else self._status != 0,
            read_at=self._read_at if has_begun else None,
            wrote_at=self._wrote_at if self._response.started else None,
            is_committed=stream is None or stream.committed,
            has_moved=stream.has_moved if stream is not None and self._error_body is None else None,
            is_mid_event=stream is not None and stream.is_mid_event,
            written=record.delivered.tell() + record.reasoned.tell(),
        )


def _is_readable(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or kind in _READABLE or kind.endswith("+json")
