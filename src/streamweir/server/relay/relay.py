"""One attempt: an upstream's bytes to the caller's transport, in one callback, with one timer.

The relay owns the answer during its attempt: it feeds the exchange, writes the result, and stops reading while the
caller does not read. It does not decide what follows the attempt: that is `server.request.request`. One timer serves
all deadlines (`server.relay.deadlines`).

It is a state machine, and `server.relay.states` is its table. Every input goes through `_handle`, which finds the
action and the next state there. The actions are the methods below, with the names of the table. If the next state
depends on the result of an action, the action passes its result to `_handle` as its last step. `body_received` is the
hot path, and the only input that is handled without the table.

An attempt ends in exactly one way: the answer is complete; an error frame was written; it failed before anything was
sent (`failure`: another target may be tried); or the caller has gone (`verdict`). A bug ends it too.
"""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import NamedTuple

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.core.verdict import Verdict
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.folded_exchange import FoldedExchange
from streamweir.pipeline.meter import NOTHING_DELIVERED, Delivered, Meter
from streamweir.providers.base import Provider, UpstreamRequest
from streamweir.server.http.message import Headers, Response
from streamweir.server.http.timers import SLACK_S, DeadlineTimer
from streamweir.server.relay.chunk_gaps import BOUNDS_S, empty_buckets, summarize_gaps
from streamweir.server.relay.deadlines import (
    MAX_BYTES_PER_CHARACTER,
    AttemptSnapshot,
    AttemptTimeouts,
    Deadlines,
    next_check_at,
    too_large,
)
from streamweir.server.relay.downstream import Downstream, Output
from streamweir.server.relay.large_answer import read_large
from streamweir.server.relay.observer import AttemptObserver as AttemptObserver
from streamweir.server.relay.states import TABLE, Action, Input, State, UnexpectedInput
from streamweir.server.relay.upstream import AttemptUpstream
from streamweir.server.telemetry.record import AttemptRecord, Gaps, RequestRecord
from streamweir.server.telemetry.timeline import Timeline
from streamweir.upstream.base import Call, Upstream
from streamweir.wire.jsonio import FAST_BYTES

_CONNECTING, _WAITING, _REFUSED, _STARTED = State.CONNECTING, State.WAITING, State.REFUSED, State.STARTED
_STREAMING, _PARSING, _COMPLETE, _DRAINING, _DONE = (
    State.STREAMING,
    State.PARSING,
    State.COMPLETE,
    State.DRAINING,
    State.DONE,
)


class AttemptParts(NamedTuple):
    """What an attempt is made of."""

    exchange: Exchange | WholeExchange
    meter: Meter
    provider: Provider
    response: Response
    timeouts: AttemptTimeouts
    observer: AttemptObserver
    request_id: str
    headers: Headers = ()
    """Of the answer."""
    more_headers: Callable[[], Headers] | None = None  # of a whole answer: those that are known at its end


class Relay:
    """See `upstream.base.Receiver` and `server.http.timers.TimerTarget`.

    `run` returns when the attempt is over and the upstream is released.
    """

    __slots__ = (
        "_allowed_tokens",
        "_deadlines",
        "_delivered_before",
        "_downstream",
        "_drain_until",
        "_events",
        "_exchange",
        "_feed",
        "_gaps",
        "_last_bytes",
        "_longest_gap_s",
        "_loop",
        "_meter",
        "_next_check_at",
        "_observer",
        "_opening",
        "_parsing",
        "_read_at",
        "_record",
        "_request_id",
        "_response",
        "_slack_tokens",
        "_state",
        "_stream",
        "_time",
        "_timeouts",
        "_timer",
        "_upstream",
        "_waiter",
        "_write_out",
        "_written_before",
        "abort_stops_billing",
        "bytes_in",
        "exceeds",
        "failure",
        "first_token_at",
        "on_cut",
        "on_end",
        "on_first_token",
        "on_head",
        "on_overrun",
        "verdict",
    )

    def __init__(self, parts: AttemptParts) -> None:
        exchange, meter, provider, response, timeouts, observer, request_id, headers, more = parts
        self._state = _CONNECTING
        self._loop = asyncio.get_running_loop()
        self._time = time.monotonic  # the loop's own clock, which uvloop reads only once per turn
        self._exchange = exchange
        self._feed = exchange.feed
        self._stream = exchange if isinstance(exchange, Exchange) else None
        # The upstream streams: so the events of its answer have deadlines, also if the caller gets it as a whole.
        self._events = exchange if isinstance(exchange, Exchange | FoldedExchange) else None
        self._meter = meter
        self._record = meter.record
        self._upstream = AttemptUpstream(provider)
        self._response = response
        self._read_at = self._time()
        self._downstream = Downstream(response, headers, more, is_stream=self._stream is not None, now=self._read_at)
        self._write_out = self._downstream.write
        self._timeouts = timeouts
        self._deadlines = Deadlines(timeouts, self._read_at)
        self._observer = observer
        self._request_id = request_id
        self._opening: asyncio.Task[object] | None = None
        self._parsing: asyncio.Task[None] | None = None  # of a large answer
        self._timer = DeadlineTimer(observer.timers, self)
        self._waiter: asyncio.Future[None] | None = None  # `run` waits for it until the attempt is over
        self._drain_until = 0.0  # while it drains
        self._delivered_before: Delivered | None = None  # what was sent when output was paused
        self._written_before: Delivered | None = None  # before the piece that is being checked
        self._last_bytes = b""  # of a complete answer whose output is paused
        self._allowed_tokens: int | None = None
        self._slack_tokens = 0
        self._next_check_at = timeouts.max_bytes  # how many bytes may arrive unchecked
        self._gaps = empty_buckets()
        self._longest_gap_s = 0.0
        self.bytes_in = 0
        self.abort_stops_billing = True
        """Whether closing the connection stops the provider's work and bill. Set after the relay is made."""
        self.first_token_at: float | None = None
        self.on_first_token: Callable[[], None] | None = None
        self.on_head: Callable[[Mapping[str, str], float], None] | None = None
        """The head of the response has arrived, with any status: its headers, and when."""
        self.exceeds: Callable[[int], bool] | None = None
        """Whether the answer is longer than so many tokens. None: it is estimated."""
        self.on_overrun: Callable[[], None] | None = None
        """The answer exceeds its allowance. The callback may set a new one, pause output, or end the attempt."""
        self.on_end: Callable[[], None] | None = None
        """The answer is complete, and its end is about to be sent. The callback may pause output."""
        self.on_cut: Callable[[StreamweirError], None] | None = None
        """Sends the error to a caller that has received nothing yet, while the upstream is drained."""
        self.failure: StreamweirError | None = None
        """The error, if it failed before anything was sent."""
        self.verdict: Verdict | None = None
        """Set if the caller has gone. Else the events of the answer determine it."""

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_over(self) -> bool:
        return self._state is _DONE

    @property
    def is_folded(self) -> bool:
        """The upstream streams an answer that the caller gets as a whole."""
        return self._events is not None and self._stream is None

    @property
    def is_complete(self) -> bool:
        """The whole answer was received: it will be billed."""
        return self._state is _COMPLETE

    @property
    def is_late(self) -> bool:
        """It failed because the time that the caller had set was over."""
        return self.failure is not None and self.failure.is_of_caller

    @property
    def has_lost_caller(self) -> bool:
        """It is over, or draining."""
        return self._state is _DONE or self._state is _DRAINING

    @property
    def is_delivered(self) -> bool:
        """The end of the answer, or an error frame, was sent to the caller: later inputs do not change that."""
        return self._downstream.output is Output.ENDED

    @property
    def is_billable(self) -> bool:
        """The request was sent, and the upstream has not refused it."""
        return self._upstream.is_billable

    @property
    def was_sent(self) -> bool:
        """The upstream has received the request, whether it refused it or not."""
        return self._upstream.is_billable or self._upstream.status != 0

    @property
    def bytes_out(self) -> int:
        return self._downstream.bytes_out

    @property
    def sent_at(self) -> float | None:
        """When the last piece of a stream was sent. None: none was."""
        return self._downstream.wrote_at if self._downstream.timeline is not None else None

    @property
    def timeline(self) -> Timeline | None:
        """When the pieces of a stream were sent. None: none was."""
        return self._downstream.timeline

    @property
    def memory_bytes(self) -> int:
        kept = self._record.written + self._downstream.pending_bytes
        return kept if self._stream is not None else kept + self.bytes_in

    def gaps(self) -> Gaps | None:
        """Between the pieces of the answer; None: none has arrived."""
        return summarize_gaps(self._gaps, self._longest_gap_s) if self.bytes_in else None

    def complete_record(self, record: RequestRecord) -> None:
        """Adds the size and the timing of the answer."""
        downstream = self._downstream
        record.bytes_out, record.timeline, record.gaps = downstream.bytes_out, downstream.timeline, self.gaps()
        if self._stream is not None and self.first_token_at is not None:
            record.ttft_s = self.first_token_at - record.arrived_s

    def complete_attempt(self, attempt: AttemptRecord) -> None:
        """Adds what is known of the upstream's call. When the attempt is over."""
        self._upstream.complete_attempt(attempt)

    async def run(self, upstream: Upstream, request: UpstreamRequest) -> None:
        response = self._response
        response.on_gone, response.on_full, response.on_drained = self.caller_gone, self.caller_slow, self.caller_ready
        self._timer.fire_by(self._deadlines.first_timer_at(is_stream=self._stream is not None))
        self._opening = asyncio.current_task(self._loop)
        try:
            call = await upstream.open(request, self)
        except StreamweirError as error:
            self._opening = None
            self._handle(Input.OPEN_FAILED, error)
        except asyncio.CancelledError:
            opening, self._opening = self._opening, None
            is_ours = self._state is _DONE  # the attempt ended while the connection was being opened
            self._handle(Input.CANCEL)
            if not is_ours or opening is None or opening.uncancel():
                raise
        except Exception as reason:  # noqa: BLE001 (a bug in the upstream)
            self._opening = None
            self._fail_with_fault(reason, self._state)
        else:
            self._opening = None
            del request  # it is sent: a large request is not kept during its answer
            self._handle(Input.OPENED, call)
        if self._state is _DONE:
            return
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self._handle(Input.CANCEL)
            raise
        finally:
            if self._parsing is not None:
                await asyncio.wait({self._parsing})

    # The inputs.

    def _handle(self, input_: Input, *details: object) -> None:
        """The only method that changes the state. A bug in an action ends this attempt only."""
        before = self._state
        try:
            step = _STEPS[before][input_]
            if step is None:
                raise UnexpectedInput(before, input_)
            action, after = step
            if after is not before:
                self._state = after
                if after is _DONE:
                    self._close(before)
            if action is not None:
                action(self, *details)
        except Exception as reason:  # noqa: BLE001 (see above)
            self._fail_with_fault(reason, before)

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        self._handle(Input.HEAD, status, headers)

    def body_received(self, data: bytes, /) -> None:
        if self._state is not _STREAMING:
            self._handle(Input.PIECE, data)
            return
        now = self._time()
        try:
            gap_s = now - self._read_at
            self._observer.chunk_gap(gap_s)
            self._gaps[bisect_left(BOUNDS_S, gap_s)] += 1
            if gap_s > self._longest_gap_s:
                self._longest_gap_s = gap_s
            self._read_at = now
            self.bytes_in += (size := len(data))
            if self.bytes_in > self._next_check_at and not self._is_within_allowance(size):
                self._feed_checked(data, now)
                return
            out = self._feed(data)
            record = self._record
            if record.completed or record.error is not None:  # `exchange.ended`, at a third of the cost
                self._conclude(out)
            elif not out:
                self._note_unsent(now - gap_s)
            elif self._write_out(out, now) and not self._upstream.is_paused:
                self._pause_upstream()  # `on_full` is called later, after reads that have already arrived
        except Exception as reason:  # noqa: BLE001 (as in `_handle`)
            self._fail_with_fault(reason, _STREAMING)

    def body_ended(self) -> None:
        self._handle(Input.END)

    def call_failed(self, error: StreamweirError, /) -> None:
        self._handle(Input.RESET, error)

    def on_timer(self) -> None:
        """The timer fired: check the deadlines."""
        self._handle(Input.TIMER)

    def caller_gone(self) -> None:
        """Aborts the upstream, or drains it for the usage at its end."""
        self._handle(Input.CALLER_GONE)

    def caller_slow(self) -> None:
        self._handle(Input.CALLER_SLOW)

    def caller_ready(self) -> None:
        self._handle(Input.CALLER_READY)

    def stop(self, error: StreamweirError, /) -> None:
        """Ends now, with this error: an error frame, or a `failure` if nothing was sent yet."""
        self._handle(Input.STOP, error)

    def cut(self, error: StreamweirError, /) -> None:
        """As `stop` for the caller, without the pending bytes; but an upstream that still bills is drained."""
        self._handle(Input.CUT, error)

    def pause_output(self) -> None:
        """Nothing more is written to the caller, not even the head. Paused twice, it must be resumed twice."""
        self._handle(Input.PAUSE)

    def resume_output(self) -> None:
        self._handle(Input.RESUME)

    # The upstream: its call, its head, its body.

    def _take_call(self, call: Call) -> None:
        self._upstream.take_call(call)

    def _drop_call(self, call: Call) -> None:
        self._upstream.take_call(call)
        self._upstream.drop()

    def _read_head(self, status: int, headers: Mapping[str, str]) -> None:
        self._read_at = now = self._time()
        if self.on_head is not None:
            self.on_head(headers, now)
        error = self._upstream.take_head(status, headers, now)
        if error is not None:
            self._handle(Input.FAILED, error)
        elif not self._upstream.is_billable:
            self._handle(Input.HEAD_REFUSED)

    def _read_refusal(self, data: bytes) -> None:
        error = self._upstream.take_refusal(data)
        if error is not None:
            self._handle(Input.FAILED, error)

    def _take_piece(self, data: bytes) -> None:
        """A piece of the body, before the first token."""
        now, before = self._time(), self._read_at
        if self.bytes_in:
            self._note_gap(now - before)
        self._read_at = now
        self.bytes_in += len(data)
        if self._stream is not None:
            self._feed_checked(data, now)
            self._note_unsent(before)
            return
        # Nothing of a whole answer is sent before its end. If the provider streams it, its length is known before, and
        # its allowance is checked.
        out = self._feed(data)
        if self._exchange.ended:
            self._note_first_token(now)
            self._conclude(out)
            return
        if self._events is not None:
            self._note_first_token(now)
            self._note_unsent(before)
        if self.bytes_in > self._next_check_at and self._record.written:
            self._check_allowance()
            if self._state is not _STARTED:
                return
        if self.bytes_in > self._timeouts.max_bytes:
            self._handle(Input.FAILED, too_large())

    def _drain_piece(self, data: bytes) -> None:
        now = self._time()
        if self.bytes_in:
            self._note_gap(now - self._read_at)
        self._read_at = now
        self.bytes_in += len(data)
        out = self._feed(data)
        if self._exchange.ended:
            if self._stream is None:
                self._note_first_token(now)
            self._conclude(out)
        elif self.bytes_in > self._timeouts.max_bytes:
            self._handle(Input.FAILED, too_large())

    def _note_unsent(self, before: float) -> None:
        """Nothing is sent for this read. If it has no event, the last event came with the read `before`."""
        events = self._events
        if events is not None and events.has_read_no_event:
            events.has_read_no_event = False
            if events.has_progressed:
                events.has_progressed = False
                self._deadlines.note_event(before)

    def _note_gap(self, gap_s: float) -> None:
        self._observer.chunk_gap(gap_s)
        self._gaps[bisect_left(BOUNDS_S, gap_s)] += 1
        self._longest_gap_s = max(self._longest_gap_s, gap_s)

    def _feed_checked(self, data: bytes, now: float) -> None:
        """A piece that may exceed the allowance, or the first: it is sent after the check."""
        before, written = self._delivered(), self._record.written
        out = self._feed(data)
        if self._state is _STARTED:
            if out:
                self._note_first_token(now)
            if self.first_token_at is not None:
                self._handle(Input.FIRST_TOKEN)
        if self._exchange.ended:  # a complete answer is billed, so it is delivered
            self._conclude(out)
            return
        if self._allowed_tokens is not None and self._record.written > written and not self._is_within_allowance(0):
            self._written_before = before
            self._check_allowance()
            self._written_before = None
            if self._state is _DONE or self._state is _DRAINING:
                return
        if out:
            self._write(out, now)
        if self.bytes_in > self._timeouts.max_bytes:
            self._handle(Input.FAILED, too_large())

    def _write(self, out: bytes, now: float) -> None:
        if self._write_out(out, now) and not self._upstream.is_paused:
            self._pause_upstream()

    def _end_stream(self) -> None:
        """The body is complete."""
        out = self._exchange.finish()
        self._note_first_token(self._time())
        self._conclude(out)

    def _end_body(self) -> None:
        """The same, for an answer that may be a large whole one."""
        exchange = self._exchange
        is_long = self.bytes_in > FAST_BYTES  # very few whole answers are
        if is_long and isinstance(exchange, WholeExchange) and (body := exchange.large_body()) is not None:
            self._handle(Input.LARGE_BODY, exchange, body)
            return
        out = exchange.finish()
        self._note_first_token(self._time())
        self._conclude(out)

    def _parse(self, exchange: WholeExchange, body: bytes) -> None:
        self._parsing = self._loop.create_task(self._read_large(exchange, body))

    async def _read_large(self, exchange: WholeExchange, body: bytes) -> None:
        """In its own task, which is cancelled if the attempt ends first."""
        try:
            out = await read_large(exchange, body)
        except StreamweirError as error:
            self._parsing = None
            self._handle(Input.FAILED, error)
        except Exception as reason:  # noqa: BLE001 (as in `_handle`)
            self._parsing = None
            self._fail_with_fault(reason, self._state)
        else:
            self._parsing = None
            self._handle(Input.PARSED, out)

    def _take_parsed(self, out: bytes) -> None:
        self._note_first_token(self._time())
        self._conclude(out)

    def _pause_upstream(self) -> None:
        self._upstream.pause()

    def _resume_upstream(self) -> None:
        self._read_at = self._time()
        self._upstream.resume()

    def _note_first_token(self, now: float) -> None:
        record = self._record  # vectors are neither text nor have a finish
        if self.first_token_at is None and (record.written or record.finishes or record.completed):
            self.first_token_at = now
            if self.on_first_token is not None:
                self.on_first_token()

    # The allowance.

    def set_allowance(self, tokens: int | None, slack: int = 0) -> None:
        """How many tokens are reserved; None: no limit. If the answer is longer, `on_overrun` is called once. `slack`:
        so many tokens later, about, is soon enough."""
        self._allowed_tokens, self._slack_tokens = tokens, slack
        max_bytes, now = self._timeouts.max_bytes, self.bytes_in
        self._next_check_at = max_bytes if tokens is None or max_bytes < now else now  # checked with the next piece

    def _check_allowance(self) -> None:
        while (allowed := self._allowed_tokens) is not None:
            tokens = self._meter.tokens_so_far()
            if tokens <= allowed if self.exceeds is None else not self.exceeds(allowed):
                tokens = min(tokens, allowed)
                max_bytes, slack = self._timeouts.max_bytes, self._slack_tokens
                self._next_check_at = next_check_at(self.bytes_in, tokens, allowed - tokens, max_bytes, slack)
                return
            self.set_allowance(None)
            if self.on_overrun is not None:
                self.on_overrun()
            if (
                self._downstream.output is Output.PAUSED
                or self._allowed_tokens is None
                or self._allowed_tokens <= allowed
            ):
                return

    def _is_within_allowance(self, more: int) -> bool:
        """Whether the answer with `more` bytes certainly fits its allowance: a text has no more tokens than bytes.

        Then its tokens need not be counted now, and the next check is later.
        """
        allowed, record = self._allowed_tokens, self._record
        if allowed is None or record.usage is not None:  # a provider may report more tokens than it has sent
            return False
        max_tokens = MAX_BYTES_PER_CHARACTER * (record.delivered.tell() + record.reasoning_text.tell())
        if max_tokens + more > allowed:
            return False
        self._next_check_at = next_check_at(
            self.bytes_in, max_tokens, allowed - max_tokens - more, self._timeouts.max_bytes, self._slack_tokens
        )
        return self.bytes_in <= self._next_check_at

    def _delivered(self) -> Delivered:
        """What was sent to the caller until now."""
        if not self._response.started:
            return NOTHING_DELIVERED
        number = self._stream.next_number if self._stream is not None else 0
        return Delivered(self._record.delivered.tell(), self._record.reasoning_text.tell(), number)

    # Output that is paused.

    def _pause_output(self) -> None:
        if self._downstream.pause():
            self._delivered_before = self._written_before or self._delivered()

    def _resume_output(self) -> None:
        if not self._downstream.may_resume():
            return
        kept = self._downstream.take()
        self._delivered_before = None
        if kept:
            self._downstream.write(b"".join(kept), self._time())
        if self._upstream.is_paused and not self._response.full:
            self._resume_upstream()

    def _keep_end(self, out: bytes) -> None:
        self._last_bytes = out
        self._release_upstream()

    def _resume_end(self) -> None:
        if self._downstream.may_resume():
            self._handle(Input.ANSWER_ENDED, self._last_bytes)

    # Time.

    def _check_deadlines(self) -> None:
        snapshot = self._check_overdue()
        if snapshot is not None:
            self._continue_attempt(snapshot)

    def _check_stream(self) -> None:
        snapshot = self._check_overdue()
        if snapshot is None:
            return
        if self._deadlines.is_silent(snapshot):
            self._upstream.drop()
            self._end_stream()
        else:
            self._continue_attempt(snapshot)

    def _check_overdue(self) -> AttemptSnapshot | None:
        """None: a deadline has passed, and the attempt is over."""
        snapshot = self._snapshot()
        if self._events is not None:
            self._events.has_progressed = False
        error = self._deadlines.overdue(snapshot)
        if error is None:
            return snapshot
        # A caller could always choose a time that is over before the usage is reported.
        self._handle(Input.CUT if error.is_of_caller else Input.FAILED, error)
        return None

    def _continue_attempt(self, snapshot: AttemptSnapshot) -> None:
        """Sends the head or a keep-alive comment if one is due, checks the allowance, and sets the timer."""
        stream = self._stream
        if stream is not None:
            if not snapshot.is_committed and snapshot.now >= self._timeouts.commit_at:
                self._write(stream.release(), snapshot.now)
                snapshot = self._snapshot()
            elif self._deadlines.is_quiet(snapshot):
                if self._downstream.keep_alive(stream.take_keep_alive(), snapshot.now) and not self._upstream.is_paused:
                    self._pause_upstream()
                snapshot = self._snapshot()
            if not self._is_within_allowance(0):
                self._check_allowance()
        if self._state is not _DONE and self._state is not _DRAINING:
            self._timer.fire_by(self._deadlines.next_timer_at(snapshot))

    def _snapshot(self) -> AttemptSnapshot:
        stream, events, state = self._stream, self._events, self._state
        downstream, record = self._downstream, self._record
        is_refused = state is _REFUSED
        return AttemptSnapshot(
            now=self._time(),
            # The upstream has sent everything: its deadlines no longer count.
            is_paused=self._upstream.is_paused or state is _PARSING or state is _COMPLETE,
            has_first_event=bool(record.written or record.finishes)
            if events is not None
            else state not in (_CONNECTING, _WAITING),
            read_at=self._read_at if self.bytes_in or is_refused else None,
            wrote_at=max(downstream.wrote_at, downstream.kept_alive_at) if self._response.started else None,
            is_committed=stream is None or stream.committed,
            has_progressed=events.has_progressed if events is not None and not is_refused else None,
            is_mid_event=events is not None and events.is_mid_event,
            is_finished=state is not _COMPLETE and self._may_end_in_silence(),
            written=record.written,
        )

    def _may_end_in_silence(self) -> bool:
        return self._events is not None and self._events.may_end_when_idle

    # The caller has gone or is cut off: is the upstream drained?

    def _lose_caller(self) -> None:
        self.verdict = Verdict.CLIENT_GONE
        if self._may_drain():
            self._exchange.detach(None, self._delivered_before)
            self._handle(Input.READ_ON)
        else:
            self._handle(Input.CANCEL)

    def _decide_cut(self, error: StreamweirError) -> None:
        is_begun, on_cut = self._response.started, self.on_cut
        if not ((is_begun or on_cut is not None) and self._may_drain()):
            self._handle(Input.CUT_OFF, error)
        elif is_begun:
            self._downstream.drop()
            error_frame = self._exchange.detach(error, self._delivered_before or self._written_before)
            self._downstream.finish(error_frame, self._time())
            self._handle(Input.READ_ON)
        else:
            self._exchange.detach(error, NOTHING_DELIVERED)
            self.failure = error
            self._handle(Input.READ_ON)
            if on_cut is not None:
                on_cut(error)

    def _may_drain(self) -> bool:
        """Whether the upstream is drained. If so, the observer has counted it."""
        if self._exchange.ended:
            return False
        if self._may_end_in_silence():  # only the usage is missing: it is worth two seconds with any provider
            return self._record.usage is None and self._observer.start_drain()
        if self.abort_stops_billing or (self._stream is not None and self.first_token_at is None):
            return False
        return self._observer.start_drain()

    def _drain(self) -> None:
        self._downstream.close()
        self.set_allowance(None)
        self._resume_upstream()
        grace_s = self._timeouts.silence_s if self._may_end_in_silence() else self._timeouts.abandoned_s
        self._drain_until = self._time() + grace_s
        self._timer.fire_by(self._drain_until)
        if self._exchange.ended:
            self._handle(Input.ANSWER_ENDED, b"")

    def _check_drain(self) -> None:
        if self._time() < self._drain_until - SLACK_S:
            self._timer.fire_by(self._drain_until)
            return
        self._upstream.drop()
        if self._may_end_in_silence():  # the answer is complete, even without its terminator
            self._end_stream()
        else:
            self._handle(Input.CANCEL)

    # The ends. The state is DONE by then, and the attempt is closed.

    def _conclude(self, out: bytes) -> None:
        """The exchange has ended: passes on its result."""
        if self._exchange.failure is not None:
            self._handle(Input.ANSWER_FAILED)
            return
        if self.on_end is not None and self._state is not _DRAINING:
            self.on_end()
        if self._downstream.output is Output.PAUSED:
            self._handle(Input.ANSWER_PAUSED, out)
        else:
            self._handle(Input.ANSWER_ENDED, out)

    def _close(self, previous: State) -> None:
        """Ends the timer, the callbacks and the upstream, and lets `run` return."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._timer.end()
        response = self._response
        response.on_gone = response.on_full = response.on_drained = None
        self.on_first_token = self.on_head = self.on_overrun = self.on_end = self.on_cut = None  # may hold the relay
        if previous is _DRAINING:
            self._observer.drain_ended()
        if self._opening is not None:
            self._opening.cancel()
        if self._parsing is not None:
            self._parsing.cancel()
        self._release_upstream()

    def _release_upstream(self) -> None:
        record = self._record
        has_junk = self._stream is not None and self._stream.has_junk
        record.junk_after_done = has_junk and record.completed
        self._upstream.release(is_reusable=self._exchange.ended and record.completed and not has_junk)

    def _deliver(self, out: bytes) -> None:
        if not self._response.gone:
            self._downstream.finish(out, self._time())

    def _note_failure(self) -> None:
        self.failure = self._exchange.failure

    def _fail(self, error: StreamweirError) -> None:
        out = self._exchange.fail(error)
        if self._response.started:
            self._deliver(out)
        else:
            self._fail_uncommitted(error)

    def _fail_refused(self, _reset: StreamweirError | None = None) -> None:
        self._fail(self._upstream.refusal())

    def _fail_complete(self, error: StreamweirError) -> None:
        """A complete answer that was partly sent is sent to its end."""
        if self._response.started:
            self._deliver(self._last_bytes)
        else:
            self._fail_uncommitted(error)

    def _fail_uncommitted(self, error: StreamweirError) -> None:
        """Ends without sending anything. Pending bytes are discarded."""
        self.failure = self._exchange.failure or error
        self._meter.detach(self.failure, NOTHING_DELIVERED)
        self._downstream.close()

    def _fail_drain(self, error: StreamweirError) -> None:
        self._exchange.fail(error)

    def _fail_drain_refused(self) -> None:
        self._exchange.fail(self._upstream.refusal())

    def _cut_short(self, error: StreamweirError) -> None:
        if not self._response.started:
            self._fail(error)
            return
        self._downstream.drop()
        error_frame = self._exchange.detach(error, self._delivered_before or self._written_before)
        self._downstream.finish(error_frame, self._time())

    def _cut_complete(self, error: StreamweirError) -> None:
        if self._stream is None or not self._response.started:
            self._fail_uncommitted(error)
            return
        self._downstream.drop()
        self._downstream.finish(self._stream.replace_end(error, self._delivered_before), self._time())

    def _cancel(self) -> None:
        """The task was cancelled, or the caller has gone."""
        if self._downstream.output is Output.PAUSED:
            self._meter.detach(None, self._delivered_before)
        self._downstream.close()

    def _cancel_gone(self) -> None:
        self.verdict = Verdict.CLIENT_GONE
        self._cancel()

    def _fail_with_fault(self, reason: Exception, before: State) -> None:
        """A bug: the stream ends with an error frame, or is cut so that it does not look complete.

        `before`: the state before the failed action. An attempt that was already over does not change.
        """
        self._observer.fault(reason, self._request_id)
        if before is _DONE:
            return
        fault = GatewayFault("internal_error", "The gateway failed to relay the answer.", event_id=self._request_id)
        previous, self._state = self._state, _DONE
        has_caller = before is not _DRAINING and previous is not _DRAINING
        record = self._record
        try:
            self._upstream.drop()
            if previous is not _DONE:
                self._close(previous)
            out = self._exchange.fail(fault)
            if has_caller and not self._response.started:
                self._fail_uncommitted(fault)
                return
            if record.error == fault:
                if has_caller:
                    self._deliver(out)
                return
        except Exception as another:  # noqa: BLE001 (the error frame could not be written either)
            self._observer.fault(another, self._request_id)
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)
        record.error = record.error or fault
        if self._response.started:
            self._response.cut()
        else:
            self.failure = self.failure or fault


def _method_of(action: Action) -> Callable[..., None] | None:
    if action in (Action.NOTHING, Action.IGNORE):
        return None
    if action is Action.RELAY_PIECE:
        return Relay.body_received
    method: Callable[..., None] = getattr(Relay, f"_{action}")
    return method


def _steps() -> tuple[tuple[tuple[Callable[..., None] | None, State] | None, ...], ...]:
    rows = [[TABLE[state].get(input_) for input_ in Input] for state in State]
    return tuple(tuple(row and (_method_of(row.action), row.next) for row in each) for each in rows)


_STEPS = _steps()
"""The table, by state and input, with methods instead of names."""
