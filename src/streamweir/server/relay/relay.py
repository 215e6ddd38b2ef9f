"""One attempt: an upstream's bytes to the caller's transport, in one callback, with one timer beside it.

The relay owns the answer while its attempt lasts: it feeds the exchange, writes what comes back, and
stops reading where the caller does not. It decides nothing about what comes next: that is
`server.request.request`. One timer looks at all that can take too long (`server.relay.deadlines`).

It is a state machine, and `server.relay.states` is its table: what comes in goes through `_take`, which finds the
action and the next state there. The actions are the methods below, in the table's words. An action that has found
out what the next state depends on takes that as an input, as the last thing it does. `body_received` is the hot path,
and the one input that is acted on before the table is asked.

It ends in exactly one way. The answer is whole; an error frame was written; it failed while nothing was
sent (`failure`: another target may be tried); the caller has gone (`verdict` says so). A bug ends it too.
"""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import NamedTuple

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.core.verdict import Verdict
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.providers.base import Provider, UpstreamRequest
from streamweir.server.http.message import Headers, Response
from streamweir.server.http.timers import SLACK_S, DeadlineTimer
from streamweir.server.relay.chunk_gaps import BOUNDS_S, no_gaps, read_gaps
from streamweir.server.relay.deadlines import (
    MOST_BYTES,
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
from streamweir.server.telemetry.record import Gaps, RequestRecord
from streamweir.server.telemetry.timeline import Timeline
from streamweir.upstream.base import Call, Upstream
from streamweir.wire.jsonio import UNCROWDED

_CONNECTING, _WAITING, _REFUSED, _STARTED = State.CONNECTING, State.WAITING, State.REFUSED, State.STARTED
_STREAMING, _PARSING, _HELD, _DRAINING, _DONE = (
    State.STREAMING,
    State.PARSING,
    State.HELD,
    State.DRAINING,
    State.DONE,
)


class AttemptParts(NamedTuple):
    """What an attempt is made of."""

    exchange: Exchange | WholeExchange
    meter: Meter
    provider: Provider
    response: Response
    timing: AttemptTimeouts
    observer: AttemptObserver
    request_id: str
    headers: Headers = ()
    """Of the answer."""


class Relay:
    """See `upstream.base.Receiver` and `server.http.timers.TimerTarget`.

    `run` gives control back when the attempt is over, the upstream done with.
    """

    __slots__ = (
        "_allowed",
        "_deadlines",
        "_delivered_before",
        "_downstream",
        "_end",
        "_exchange",
        "_feed",
        "_gaps",
        "_give_up_at",
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
        "_state",
        "_stream",
        "_time",
        "_timer",
        "_timing",
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
        "on_first_token",
        "on_overrun",
        "verdict",
    )

    def __init__(self, parts: AttemptParts) -> None:
        exchange, meter, provider, response, timing, observer, request_id, headers = parts
        self._state = _CONNECTING
        self._loop = asyncio.get_running_loop()
        self._time = time.monotonic  # the loop's own clock, which uvloop reads only once per turn
        self._exchange = exchange
        self._feed = exchange.feed
        self._stream = exchange if isinstance(exchange, Exchange) else None
        self._meter = meter
        self._record = meter.record
        self._upstream = AttemptUpstream(provider)
        self._response = response
        self._read_at = self._time()
        self._downstream = Downstream(response, headers, is_stream=self._stream is not None, now=self._read_at)
        self._write_out = self._downstream.write
        self._timing = timing
        self._deadlines = Deadlines(timing, self._read_at)
        self._observer = observer
        self._request_id = request_id
        self._opening: asyncio.Task[object] | None = None
        self._parsing: asyncio.Task[None] | None = None  # of a large answer
        self._timer = DeadlineTimer(observer.timers, self)
        self._waiter: asyncio.Future[None] | None = None  # of whoever waits until it is over
        self._give_up_at = 0.0  # while it drains
        self._delivered_before: tuple[int, int] | None = None  # output is paused since so much text had gone out
        self._written_before: tuple[int, int] | None = None  # before the piece that is being checked
        self._end = b""  # of an answer that is held
        self._allowed: int | None = None
        self._next_check_at = timing.most_bytes  # how many bytes may come unchecked
        self._gaps = no_gaps()
        self._longest_gap_s = 0.0
        self.bytes_in = 0
        self.abort_stops_billing = True
        """Whether closing the connection ends the work and the bill. Set by whoever makes the relay."""
        self.first_token_at: float | None = None
        self.on_first_token: Callable[[], None] | None = None
        self.exceeds: Callable[[int], bool] | None = None
        """Whether the answer is longer than so many tokens. None: by the rule of thumb."""
        self.on_overrun: Callable[[], None] | None = None
        """The answer is longer than its `allowance`. May give it a new one, pause its output, cut or stop it."""
        self.on_cut: Callable[[StreamweirError], None] | None = None
        """Tells a caller to whom nothing was sent yet of the error, at once, while the upstream is read on."""
        self.failure: StreamweirError | None = None
        """Why it failed before anything was sent."""
        self.verdict: Verdict | None = None
        """Set where no event tells it: the caller has gone."""

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_over(self) -> bool:
        return self._state is _DONE

    @property
    def is_complete(self) -> bool:
        """All of the answer is here: it will be billed, whoever gets it."""
        return self._state is _HELD

    @property
    def has_lost_caller(self) -> bool:
        """It is over, or read on without its caller."""
        return self._state is _DONE or self._state is _DRAINING

    @property
    def is_delivered(self) -> bool:
        """The caller was sent the end of the answer, be it an error frame: nothing that comes later changes that."""
        return self._downstream.output is Output.ENDED

    @property
    def is_billable(self) -> bool:
        """The upstream was asked, and has not refused."""
        return self._upstream.is_billable

    @property
    def resends(self) -> int:
        """See `upstream.base.Call`; known when the attempt is over."""
        return self._upstream.resends

    @property
    def bytes_out(self) -> int:
        return self._downstream.bytes_out

    @property
    def sent_at(self) -> float | None:
        """When the last piece of a stream went out. None: none has."""
        return self._downstream.wrote_at if self._downstream.timeline is not None else None

    @property
    def timeline(self) -> Timeline | None:
        """When the pieces of a stream went out. None: none has."""
        return self._downstream.timeline

    @property
    def held_bytes(self) -> int:
        kept = self._record.written + self._downstream.kept_bytes
        return kept if self._stream is not None else kept + self.bytes_in

    def gaps(self) -> Gaps | None:
        """Between the pieces of the answer so far; None where none has come."""
        return read_gaps(self._gaps, self._longest_gap_s) if self.bytes_in else None

    def complete_record(self, record: RequestRecord) -> None:
        """Adds how the answer went out."""
        downstream = self._downstream
        record.bytes_out, record.timeline, record.gaps = downstream.bytes_out, downstream.timeline, self.gaps()
        if self._stream is not None and self.first_token_at is not None:
            record.ttft_s = self.first_token_at - record.arrived_s

    async def run(self, upstream: Upstream, request: UpstreamRequest) -> None:
        response = self._response
        response.on_gone, response.on_full, response.on_drained = self.caller_gone, self.caller_slow, self.caller_ready
        self._timer.fire_by(self._deadlines.first_look(is_stream=self._stream is not None))
        self._opening = asyncio.current_task(self._loop)
        try:
            call = await upstream.open(request, self)
        except StreamweirError as error:
            self._opening = None
            self._take(Input.OPEN_FAILED, error)
        except asyncio.CancelledError:
            opening, self._opening = self._opening, None
            is_ours = self._state is _DONE  # the attempt ended while the way was still being opened
            self._take(Input.CANCEL)
            if not is_ours or opening is None or opening.uncancel():
                raise
        except Exception as reason:  # noqa: BLE001 (a bug, on the way to the upstream)
            self._opening = None
            self._break(reason, self._state)
        else:
            self._opening = None
            del request  # it is sent: a long conversation is not kept for as long as its answer takes
            self._take(Input.OPENED, call)
        if self._state is _DONE:
            return
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self._take(Input.CANCEL)
            raise
        finally:
            if self._parsing is not None:
                await asyncio.wait({self._parsing})

    # The inputs.

    def _take(self, what: Input, *details: object) -> None:
        """The one place where the state changes. A bug in an action ends this attempt and no other."""
        before = self._state
        try:
            step = _STEPS[before][what]
            if step is None:
                raise UnexpectedInput(before, what)
            action, after = step
            if after is not before:
                self._state = after
                if after is _DONE:
                    self._close(before)
            if action is not None:
                action(self, *details)
        except Exception as reason:  # noqa: BLE001 (see above)
            self._break(reason, before)

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        self._take(Input.HEAD, status, headers)

    def body_received(self, data: bytes, /) -> None:
        if self._state is not _STREAMING:
            self._take(Input.PIECE, data)
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
            if self.bytes_in > self._next_check_at and not self._is_covered(size):
                self._feed_checked(data, now)
                return
            out = self._feed(data)
            record = self._record
            if record.completed or record.error is not None:  # `exchange.ended`, at a third of the price
                self._conclude(out)
            elif out and self._write_out(out, now) and not self._upstream.is_paused:
                self._pause_upstream()  # `on_full` is told later, after the reads that are already here
        except Exception as reason:  # noqa: BLE001 (as in `_take`)
            self._break(reason, _STREAMING)

    def body_ended(self) -> None:
        self._take(Input.END)

    def call_failed(self, error: StreamweirError, /) -> None:
        self._take(Input.RESET, error)

    def on_timer(self) -> None:
        """Time has passed: look at what has taken too long."""
        self._take(Input.TIMER)

    def caller_gone(self) -> None:
        """Abort the upstream, or read on without the caller, for the usage at its end."""
        self._take(Input.CALLER_GONE)

    def caller_slow(self) -> None:
        self._take(Input.CALLER_SLOW)

    def caller_ready(self) -> None:
        self._take(Input.CALLER_READY)

    def stop(self, error: StreamweirError, /) -> None:
        """End now, with this error: an error frame, or a `failure` where nothing was sent yet."""
        self._take(Input.STOP, error)

    def cut(self, error: StreamweirError, /) -> None:
        """As `stop` for the caller, who gets nothing of what is kept; but an upstream that bills on is read on."""
        self._take(Input.CUT, error)

    def pause_output(self) -> None:
        """From now on nothing is written to the caller, the head included. Paused twice, it must be resumed twice."""
        self._take(Input.PAUSE)

    def resume_output(self) -> None:
        self._take(Input.RESUME)

    # The upstream: its call, its head, its body.

    def _take_call(self, call: Call) -> None:
        self._upstream.take_call(call)

    def _drop_call(self, call: Call) -> None:
        self._upstream.take_call(call)
        self._upstream.drop()

    def _read_head(self, status: int, headers: Mapping[str, str]) -> None:
        self._read_at = self._time()
        error = self._upstream.take_head(status, headers)
        if error is not None:
            self._take(Input.FAILED, error)
        elif not self._upstream.is_billable:
            self._take(Input.HEAD_REFUSED)

    def _read_refusal(self, data: bytes) -> None:
        error = self._upstream.take_refusal(data)
        if error is not None:
            self._take(Input.FAILED, error)

    def _take_piece(self, data: bytes) -> None:
        """A piece of the body, before there was a token in it."""
        now = self._time()
        if self.bytes_in:
            self._note_gap(now - self._read_at)
        self._read_at = now
        self.bytes_in += len(data)
        if self._stream is not None:
            self._feed_checked(data, now)
            return
        # Nothing of a whole answer goes out before its end. One that comes as a stream nevertheless shows how long it
        # gets, and is held to what is paid for.
        out = self._feed(data)
        if self._exchange.ended:
            self._note_first_token(now)
            self._conclude(out)
            return
        if self.bytes_in > self._next_check_at and self._record.written:
            self._check_allowance()
            if self._state is not _STARTED:
                return
        if self.bytes_in > self._timing.most_bytes:
            self._take(Input.FAILED, too_large())

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
        elif self.bytes_in > self._timing.most_bytes:
            self._take(Input.FAILED, too_large())

    def _note_gap(self, gap_s: float) -> None:
        self._observer.chunk_gap(gap_s)
        self._gaps[bisect_left(BOUNDS_S, gap_s)] += 1
        self._longest_gap_s = max(self._longest_gap_s, gap_s)

    def _feed_checked(self, data: bytes, now: float) -> None:
        """A piece that may be one too many, or the first: what it brings goes out when it is paid for."""
        before, written = self._so_far(), self._record.written
        out = self._feed(data)
        if self._state is _STARTED:
            if out:
                self._note_first_token(now)
            if self.first_token_at is not None:
                self._take(Input.FIRST_TOKEN)
        if self._exchange.ended:  # what is whole is billed, and so it is delivered
            self._conclude(out)
            return
        if self._allowed is not None and self._record.written > written and not self._is_covered(0):
            self._written_before = before
            self._check_allowance()
            self._written_before = None
            if self._state is _DONE or self._state is _DRAINING:
                return
        if out:
            self._write(out, now)
        if self.bytes_in > self._timing.most_bytes:
            self._take(Input.FAILED, too_large())

    def _write(self, out: bytes, now: float) -> None:
        if self._write_out(out, now) and not self._upstream.is_paused:
            self._pause_upstream()

    def _end_stream(self) -> None:
        """The body has ended as a body should."""
        out = self._exchange.finish()
        self._note_first_token(self._time())
        self._conclude(out)

    def _end_body(self) -> None:
        """The same, of an answer that may be a large whole one."""
        exchange = self._exchange
        is_long = self.bytes_in > UNCROWDED  # nearly no whole answer is
        if is_long and isinstance(exchange, WholeExchange) and (body := exchange.large_body()) is not None:
            self._take(Input.LARGE_BODY, exchange, body)
            return
        out = exchange.finish()
        self._note_first_token(self._time())
        self._conclude(out)

    def _parse(self, exchange: WholeExchange, body: bytes) -> None:
        self._parsing = self._loop.create_task(self._read_large(exchange, body))

    async def _read_large(self, exchange: WholeExchange, body: bytes) -> None:
        """With others on the loop meanwhile. It is cancelled where the attempt ends first."""
        try:
            out = await read_large(exchange, body)
        except StreamweirError as error:
            self._parsing = None
            self._take(Input.FAILED, error)
        except Exception as reason:  # noqa: BLE001 (as in `_take`)
            self._parsing = None
            self._break(reason, self._state)
        else:
            self._parsing = None
            self._take(Input.PARSED, out)

    def _take_parsed(self, out: bytes) -> None:
        self._note_first_token(self._time())
        self._conclude(out)

    def _pause_upstream(self) -> None:
        self._upstream.pause()

    def _resume_upstream(self) -> None:
        self._read_at = self._time()
        self._upstream.resume()

    def _note_first_token(self, now: float) -> None:
        if self.first_token_at is None and (self._record.written or self._record.finishes):
            self.first_token_at = now
            if self.on_first_token is not None:
                self.on_first_token()

    # What is paid for.

    def allowance(self, tokens: int | None) -> None:
        """So many tokens of answer are paid for; None: any number. Longer than that, `on_overrun` is called once."""
        self._allowed = tokens
        most, now = self._timing.most_bytes, self.bytes_in
        self._next_check_at = most if tokens is None or most < now else now  # checked with the next piece

    def _check_allowance(self) -> None:
        while (allowed := self._allowed) is not None:
            tokens = self._meter.tokens_so_far()
            if tokens <= allowed if self.exceeds is None else not self.exceeds(allowed):
                tokens = min(tokens, allowed)
                self._next_check_at = next_check_at(self.bytes_in, tokens, allowed - tokens, self._timing.most_bytes)
                return
            self.allowance(None)
            if self.on_overrun is not None:
                self.on_overrun()
            if self._downstream.output is Output.PAUSED or self._allowed is None or self._allowed <= allowed:
                return

    def _is_covered(self, more: int) -> bool:
        """Whether what came so far, and `more` bytes, is surely paid for: no text has more tokens than bytes.

        Then it need not be counted, and is looked at again later.
        """
        allowed, record = self._allowed, self._record
        if allowed is None or record.usage is not None:  # a provider may report more than it has shown
            return False
        most = MOST_BYTES * (record.delivered.tell() + record.reasoned.tell())
        if most + more > allowed:
            return False
        self._next_check_at = next_check_at(self.bytes_in, most, allowed - most - more, self._timing.most_bytes)
        return self.bytes_in <= self._next_check_at

    def _so_far(self) -> tuple[int, int]:
        """How many characters of text and of reasoning the caller has."""
        record = self._record
        return (record.delivered.tell(), record.reasoned.tell()) if self._response.started else (0, 0)

    # Output that is paused.

    def _hold_output(self) -> None:
        if self._downstream.pause():
            self._delivered_before = self._written_before or self._so_far()

    def _release_output(self) -> None:
        if not self._downstream.may_resume():
            return
        kept = self._downstream.take()
        self._delivered_before = None
        if kept:
            self._downstream.write(b"".join(kept), self._time())
        if self._upstream.is_paused and not self._response.full:
            self._resume_upstream()

    def _keep_end(self, out: bytes) -> None:
        self._end = out
        self._release_upstream()

    def _release_end(self) -> None:
        if self._downstream.may_resume():
            self._take(Input.ANSWER_ENDED, self._end)

    # Time.

    def _check_deadlines(self) -> None:
        look = self._look_for_overdue()
        if look is not None:
            self._keep_going(look)

    def _check_stream(self) -> None:
        look = self._look_for_overdue()
        if look is None:
            return
        if self._may_end() and self._deadlines.is_silent(look):
            self._upstream.drop()
            self._end_stream()
        else:
            self._keep_going(look)

    def _look_for_overdue(self) -> AttemptSnapshot | None:
        """None: something has taken too long, and the attempt is over."""
        look = self._snapshot()
        if self._stream is not None:
            self._stream.has_moved = False
        error = self._deadlines.overdue(look)
        if error is None:
            return look
        self._take(Input.FAILED, error)
        return None

    def _keep_going(self, look: AttemptSnapshot) -> None:
        """What is due in an attempt that goes on, and when to look again."""
        stream = self._stream
        if stream is not None:
            if not look.is_committed and look.now >= self._timing.commit_at:
                self._write(stream.release(), look.now)
                look = self._snapshot()
            elif self._deadlines.is_quiet(look):
                if self._downstream.keep_alive(stream.keep_alive, look.now) and not self._upstream.is_paused:
                    self._pause_upstream()
                look = self._snapshot()
            if not self._is_covered(0):
                self._check_allowance()
        if self._state is not _DONE and self._state is not _DRAINING:
            self._timer.fire_by(self._deadlines.next_look(look))

    def _snapshot(self) -> AttemptSnapshot:
        stream, state, downstream, record = self._stream, self._state, self._downstream, self._record
        is_refused = state is _REFUSED
        return AttemptSnapshot(
            now=self._time(),
            # All of it is here: nobody else is to blame for the time that passes.
            is_paused=self._upstream.is_paused or state is _PARSING or state is _HELD,
            has_first_event=bool(record.written or record.finishes)
            if stream is not None
            else state not in (_CONNECTING, _WAITING),
            read_at=self._read_at if self.bytes_in or is_refused else None,
            wrote_at=max(downstream.wrote_at, downstream.spoke_at) if self._response.started else None,
            is_committed=stream is None or stream.committed,
            has_moved=stream.has_moved if stream is not None and not is_refused else None,
            is_mid_event=stream is not None and stream.is_mid_event,
            written=record.written,
        )

    def _may_end(self) -> bool:
        return self._stream is not None and self._stream.may_end_in_silence

    # The caller has gone, or is cut off: is the upstream read on?

    def _lose_caller(self) -> None:
        self.verdict = Verdict.CLIENT_GONE
        if self._may_drain():
            self._exchange.detach(None, self._delivered_before)
            self._take(Input.READ_ON)
        else:
            self._take(Input.CANCEL)

    def _decide_cut(self, error: StreamweirError) -> None:
        is_begun, tell = self._response.started, self.on_cut
        if not ((is_begun or tell is not None) and self._may_drain()):
            self._take(Input.CUT_OFF, error)
        elif is_begun:
            self._downstream.drop()
            words = self._exchange.detach(error, self._delivered_before or self._written_before)
            self._downstream.finish(words, self._time())
            self._take(Input.READ_ON)
        else:
            self._exchange.detach(error, (0, 0))
            self.failure = error
            self._take(Input.READ_ON)
            if tell is not None:
                tell(error)

    def _may_drain(self) -> bool:
        """Whether the upstream is worth reading without its caller. If so, a place for it was taken."""
        if self._exchange.ended:
            return False
        if self._may_end():  # nothing but usage can come: it is worth two seconds with any provider
            return self._record.usage is None and self._observer.may_abandon()
        if self.abort_stops_billing or (self._stream is not None and self.first_token_at is None):
            return False
        return self._observer.may_abandon()

    def _drain(self) -> None:
        self._downstream.close()
        self.allowance(None)
        self._resume_upstream()
        grace_s = self._timing.silence_s if self._may_end() else self._timing.abandoned_s
        self._give_up_at = self._time() + grace_s
        self._timer.fire_by(self._give_up_at)
        if self._exchange.ended:
            self._take(Input.ANSWER_ENDED, b"")

    def _check_drain(self) -> None:
        if self._time() < self._give_up_at - SLACK_S:
            self._timer.fire_by(self._give_up_at)
            return
        self._upstream.drop()
        if self._may_end():  # what it has of the end counts, if there is no sentinel behind it
            self._end_stream()
        else:
            self._take(Input.CANCEL)

    # The ends. The state is DONE by then, and the attempt is closed.

    def _conclude(self, out: bytes) -> None:
        """The exchange has ended: as what?"""
        if self._exchange.failure is not None:
            self._take(Input.ANSWER_FAILED)
        elif self._downstream.output is Output.PAUSED:
            self._take(Input.ANSWER_HELD, out)
        else:
            self._take(Input.ANSWER_ENDED, out)

    def _close(self, left: State) -> None:
        """Nothing reaches the relay any more, and whoever waits for the attempt goes on."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._timer.end()
        response = self._response
        response.on_gone = response.on_full = response.on_drained = None
        self.on_first_token = self.on_overrun = self.on_cut = None  # they may hold the relay itself
        if left is _DRAINING:
            self._observer.abandoned_ended()
        if self._opening is not None:
            self._opening.cancel()
        if self._parsing is not None:
            self._parsing.cancel()
        self._release_upstream()

    def _release_upstream(self) -> None:
        record = self._record
        has_junk = self._stream is not None and self._stream.has_junk
        record.junk_after_done = has_junk and record.completed
        self._upstream.leave(is_sound=self._exchange.ended and record.completed and not has_junk)

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

    def _fail_held(self, error: StreamweirError) -> None:
        """What is whole and has begun to go out goes out to its end."""
        if self._response.started:
            self._deliver(self._end)
        else:
            self._fail_uncommitted(error)

    def _fail_uncommitted(self, error: StreamweirError) -> None:
        """It ends with nothing sent, whatever was ready to be."""
        self.failure = self._exchange.failure or error
        self._meter.detach(self.failure, (0, 0))
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
        words = self._exchange.detach(error, self._delivered_before or self._written_before)
        self._downstream.finish(words, self._time())

    def _cut_held(self, error: StreamweirError) -> None:
        if self._stream is None or not self._response.started:
            self._fail_uncommitted(error)
            return
        self._downstream.drop()
        self._downstream.finish(self._stream.replace_end(error, self._delivered_before), self._time())

    def _cancel(self) -> None:
        """Nobody waits for it any more."""
        if self._downstream.output is Output.PAUSED:
            self._meter.detach(None, self._delivered_before)
        self._downstream.close()

    def _cancel_gone(self) -> None:
        self.verdict = Verdict.CLIENT_GONE
        self._cancel()

    def _break(self, reason: Exception, before: State) -> None:
        """A bug: the stream ends with what can still be said of it, or is cut off lest it be taken for whole.

        `before`: the state that the failed action began in. One that was over already changes nothing any more.
        """
        self._observer.fault(reason, self._request_id)
        if before is _DONE:
            return
        fault = GatewayFault("internal_error", "The gateway failed to relay the answer.", event_id=self._request_id)
        left, self._state = self._state, _DONE
        has_caller = before is not _DRAINING and left is not _DRAINING
        record = self._record
        try:
            self._upstream.drop()
            if left is not _DONE:
                self._close(left)
            out = self._exchange.fail(fault)
            if has_caller and not self._response.started:
                self._fail_uncommitted(fault)
                return
            if record.error == fault:
                if has_caller:
                    self._deliver(out)
                return
        except Exception as another:  # noqa: BLE001 (what would have said it is itself broken)
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
    rows = [[TABLE[state].get(what) for what in Input] for state in State]
    return tuple(tuple(row and (_method_of(row.action), row.next) for row in each) for each in rows)


_STEPS = _steps()
"""The table, by state and input, with the methods in the place of their names."""
