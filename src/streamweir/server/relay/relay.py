"""One attempt: an upstream's bytes to the caller's transport, in one callback, with one timer beside it.

The relay owns the answer while its attempt lasts: it feeds the exchange, writes what comes back, and
stops reading where the caller does not. It decides nothing about what comes next: that is
`server.request.request`. One timer looks at all that can take too long (`server.relay.deadlines`).
`body_received` is the hot path.

It ends in exactly one way. The answer is whole; an error frame was written; it failed while nothing was
sent (`failure`: another target may be tried); the caller has gone (`verdict` says so). Where the caller is
done with, gone or told an error by `cut`, the upstream is aborted, or read on for its usage where it bills
on. An answer may be held back: then it ends when it is let go on. Bugs end it too.
"""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.core.verdict import Verdict
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.providers.base import Provider, UpstreamRequest
from streamweir.server.http.message import Headers, Response
from streamweir.server.http.timers import SLACK_S, DeadlineTimer
from streamweir.server.relay.deadlines import (
    MOST_BYTES,
    AttemptSnapshot,
    AttemptTimeouts,
    Deadlines,
    next_check_at,
    too_large,
)
from streamweir.server.relay.downstream import Downstream
from streamweir.server.relay.large_answer import read_large
from streamweir.server.relay.observer import AttemptObserver as AttemptObserver
from streamweir.server.relay.timing import BOUNDS_S, no_gaps, read_gaps
from streamweir.server.relay.upstream import AttemptUpstream
from streamweir.server.telemetry.record import Gaps, RequestRecord
from streamweir.server.telemetry.timeline import Timeline
from streamweir.upstream.base import Upstream
from streamweir.wire.jsonio import UNCROWDED

P = ParamSpec("P")
E = TypeVar("E", bound="Relay")


def guarded(step: Callable[Concatenate[E, P], None]) -> Callable[Concatenate[E, P], None]:
    """For what the loop calls: a bug in it ends this stream and is reported, and nobody is left waiting."""

    @wraps(step)
    def guarded_step(attempt: E, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(attempt, *args, **kwargs)
        except Exception as reason:  # noqa: BLE001 (see above)
            attempt._break(reason)

    return guarded_step


class AttemptParts(NamedTuple):
    """What an attempt is made of."""

    exchange: Exchange | WholeExchange
    meter: Meter
    provider: Provider
    response: Response
    timing: AttemptTimeouts
    watch: AttemptObserver
    request_id: str
    headers: Headers = ()
    """Of the answer."""


class Relay:
    """See `upstream.base.Receiver` and `server.http.timers.TimerTarget`.

    `run` gives control back when the attempt is over, the upstream done with.
    """

    __slots__ = (
        "_alarm",
        "_allowed",
        "_delivered_before",
        "_exchange",
        "_feed",
        "_gaps",
        "_give_up_at",
        "_holds",
        "_is_abandoned",
        "_is_flowing",
        "_last",
        "_longest_gap_s",
        "_loop",
        "_meter",
        "_opening",
        "_outlet",
        "_patience",
        "_put",
        "_read_at",
        "_reading",
        "_record",
        "_request_id",
        "_response",
        "_source",
        "_stream",
        "_time",
        "_timing",
        "_waiter",
        "_watch",
        "_weigh_at",
        "_written_before",
        "abort_stops_billing",
        "bytes_in",
        "exceeds",
        "failure",
        "first_token_at",
        "is_delivered",
        "is_over",
        "on_cut",
        "on_first_token",
        "on_overrun",
        "verdict",
    )

    def __init__(self, parts: AttemptParts) -> None:
        exchange, meter, provider, response, timing, watch, request_id, headers = parts
        self._loop = asyncio.get_running_loop()
        self._time = time.monotonic  # the loop's own clock, which uvloop reads only once per turn
        self._exchange = exchange
        self._stream = exchange if isinstance(exchange, Exchange) else None
        self._meter = meter
        self._source = AttemptUpstream(provider)
        self._response = response
        self._read_at = self._time()
        self._outlet = Downstream(response, headers, is_stream=self._stream is not None, now=self._read_at)
        self._timing = timing
        self._watch = watch
        self._request_id = request_id
        self._opening: asyncio.Task[object] | None = None
        self._reading: asyncio.Task[None] | None = None  # of a large answer
        self._alarm = DeadlineTimer(watch.clock, self)
        self._give_up_at = 0.0
        self._is_abandoned = False
        self._delivered_before: tuple[int, int] | None = None  # it is held back since so much text had gone out
        self._holds = 0
        self._written_before: tuple[int, int] | None = None  # before the piece that is being weighed
        self._last: bytes | None = None  # the end of an answer that is held back
        self._allowed: int | None = None
        self._weigh_at = timing.most_bytes  # how many bytes may come unweighed
        self.bytes_in = 0
        self.abort_stops_billing = True
        """Whether closing the connection ends the work and the bill. Set by whoever makes the relay."""
        self.first_token_at: float | None = None
        self.on_first_token: Callable[[], None] | None = None
        self.exceeds: Callable[[int], bool] | None = None
        """Whether the answer is longer than so many tokens. None: by the rule of thumb."""
        self.on_overrun: Callable[[], None] | None = None
        """The answer is longer than its `allowance`. May give it a new one, hold it back, cut or stop it."""
        self.on_cut: Callable[[StreamweirError], None] | None = None
        """Tells a caller to whom nothing was sent yet of the error, at once, while the upstream is read on."""
        self.failure: StreamweirError | None = None
        """Why it failed before anything was sent."""
        self.verdict: Verdict | None = None
        """Set where no event tells it: the caller has gone."""
        self.is_over = False
        self.is_delivered = False
        """The caller was sent the end of the answer, be it an error frame: nothing that comes later changes that."""
        self._waiter: asyncio.Future[None] | None = None  # of whoever waits until it is
        self._feed = exchange.feed
        self._record = meter.record
        self._put = self._outlet.write
        self._patience = Deadlines(timing, self._read_at)
        self._is_flowing = False  # the first token was written: what comes now is like what came before
        self._gaps = no_gaps()
        self._longest_gap_s = 0.0

    @property
    def is_billable(self) -> bool:
        """The upstream was asked, and has not refused."""
        return self._source.is_sent and not self._source.has_refused

    @property
    def resends(self) -> int:
        """See `upstream.base.Call`; known when the attempt is over."""
        return self._source.resends

    @property
    def bytes_out(self) -> int:
        return self._outlet.bytes_out

    @property
    def sent_at(self) -> float | None:
        """When the last piece of a stream went out. None: none has."""
        return self._outlet.wrote_at if self._outlet.strip is not None else None

    @property
    def strip(self) -> Timeline | None:
        """When the pieces of a stream went out. None: none has."""
        return self._outlet.strip

    @property
    def held_bytes(self) -> int:
        kept = self._meter.record.written + self._outlet.kept_bytes
        return kept if self._stream is not None else kept + self.bytes_in

    def gaps(self) -> Gaps | None:
        """Between the pieces of the answer so far; None where none has come."""
        return read_gaps(self._gaps, self._longest_gap_s) if self.bytes_in else None

    def tell(self, facts: RequestRecord) -> None:
        """How its answer went out."""
        facts.bytes_out, facts.strip, facts.gaps = self.bytes_out, self.strip, self.gaps()
        if self._stream is not None and self.first_token_at is not None:
            facts.ttft_s = self.first_token_at - facts.arrived_s

    async def run(self, upstream: Upstream, request: UpstreamRequest) -> None:
        response = self._response
        response.on_gone, response.on_full, response.on_drained = self.caller_gone, self._pause, self._resume
        first_look = self._patience.first_look(is_stream=self._stream is not None)
        self._alarm.by(first_look)
        self._opening = asyncio.current_task(self._loop)
        try:
            call = await upstream.open(request, self)
        except StreamweirError as error:
            self._opening = None
            self.stop(error)
        except asyncio.CancelledError:
            opening, self._opening = self._opening, None
            is_ours = self.is_over  # the attempt ended while the way was still being opened
            self._leave()
            if not is_ours or opening is None or opening.uncancel():
                raise
        except Exception as reason:  # noqa: BLE001 (a bug, on the way to the upstream)
            self._opening = None
            self._break(reason)
        else:
            self._opening = None
            del request  # it is sent: a long conversation is not kept for as long as its answer takes
            self._source.take_call(call)
            if self.is_over:
                self._source.drop()
        if self.is_over:
            return
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self._leave()
            raise
        finally:
            if self._reading is not None:
                await asyncio.wait({self._reading})

    # What the upstream tells.

    @guarded
    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        self._read_at = self._time()
        error = self._source.take_head(status, headers)
        if error is not None:
            self.stop(error)

    def body_received(self, data: bytes, /) -> None:
        now = self._time()
        try:
            if not self._is_flowing:
                self._begin(data, now)
                return
            gap_s = now - self._read_at
            self._watch.chunk_gap(gap_s)
            self._gaps[bisect_left(BOUNDS_S, gap_s)] += 1
            if gap_s > self._longest_gap_s:
                self._longest_gap_s = gap_s
            self._read_at = now
            self.bytes_in += (size := len(data))
            if self.bytes_in > self._weigh_at and not self._is_covered(size):
                self._weigh(data, now)
                return
            out = self._feed(data)
            record = self._record
            if record.completed or record.error is not None:  # `exchange.ended`, at a third of the price
                self._conclude(out)
            elif out and self._put(out, now) and not self._source.is_paused:
                self._pause()  # `on_full` is told later, after the reads that are already here
        except Exception as reason:  # noqa: BLE001 (as `guarded`, at half the price)
            self._break(reason)

    @guarded
    def body_ended(self) -> None:
        refusal = self._source.refusal()
        if refusal is not None:
            self.stop(refusal)
        else:
            self._finish()

    @guarded
    def call_failed(self, error: StreamweirError, /) -> None:
        self.stop(self._source.refusal() or error)

    def _begin(self, data: bytes, now: float) -> None:
        """A piece of the body, before there was a token in it."""
        if self._source.has_refused:
            refusal = self._source.take_refusal(data)
            if refusal is not None:
                self.stop(refusal)
            return
        if self.bytes_in:
            gap_s = now - self._read_at
            self._watch.chunk_gap(gap_s)
            self._gaps[bisect_left(BOUNDS_S, gap_s)] += 1
            self._longest_gap_s = max(self._longest_gap_s, gap_s)
        self._read_at = now
        self.bytes_in += len(data)
        if self._stream is None:
            self._collect(data, now)
        else:
            self._weigh(data, now)

    def _collect(self, data: bytes, now: float) -> None:
        """A piece of a whole answer: nothing goes out before its end.

        One that comes as a stream nevertheless shows how long it gets, and is held to what is paid for.
        """
        out = self._feed(data)
        if self._exchange.ended:
            self._note_first_token(now)
            self._conclude(out)
            return
        if self.bytes_in > self._weigh_at and self._record.written:
            self._check_allowance()
            if self.is_over or self._is_abandoned:
                return
        if self.bytes_in > self._timing.most_bytes:
            self.stop(too_large())

    def _weigh(self, data: bytes, now: float) -> None:
        """A piece that may be one too many, or the first: what it brings goes out when it is paid for."""
        before, written = self._so_far(), self._record.written
        out = self._feed(data)
        if not self._is_flowing:
            if out:
                self._note_first_token(now)
            self._is_flowing = self.first_token_at is not None and not self._is_abandoned
        if self._exchange.ended:  # what is whole is billed, and so it is delivered
            self._conclude(out)
            return
        if self._allowed is not None and self._record.written > written and not self._is_covered(0):
            self._written_before = before
            self._check_allowance()
            self._written_before = None
            if self.is_over or self._is_abandoned:
                return
        if out:
            self._write(out, now)
        if self.bytes_in > self._timing.most_bytes:
            self.stop(too_large())

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
        self._weigh_at = next_check_at(self.bytes_in, most, allowed - most - more, self._timing.most_bytes)
        return self.bytes_in <= self._weigh_at

    def _write(self, out: bytes, now: float) -> None:
        if self._put(out, now) and not self._source.is_paused:
            self._pause()

    # Time.

    def wake(self) -> None:
        if not self._is_abandoned:
            self._tick()
        elif self._time() >= self._give_up_at - SLACK_S:
            self._give_up()
        else:
            self._alarm.by(self._give_up_at)

    @guarded
    def _tick(self) -> None:
        look = self._look()
        stream = self._stream
        if stream is not None:
            stream.has_moved = False
        error = self._patience.overdue(look)
        if error is not None:
            self.stop(error)
            return
        if self._may_end() and self._patience.is_silent(look):
            self._source.drop()
            self._finish()
            return
        if stream is not None:
            if not look.is_committed and look.now >= self._timing.commit_at:
                self._write(stream.release(), look.now)
                look = self._look()
            elif self._patience.is_quiet(look):
                if self._outlet.keep_alive(stream.keep_alive, look.now) and not self._source.is_paused:
                    self._pause()
                look = self._look()
            if not self._is_covered(0):
                self._check_allowance()
        if not self.is_over and not self._is_abandoned:
            self._alarm.by(self._patience.next_look(look))

    def _look(self) -> AttemptSnapshot:
        stream, record, source = self._stream, self._meter.record, self._source
        return AttemptSnapshot(
            now=self._time(),
            is_paused=source.is_paused,
            has_first_event=self._has_output() if stream is not None else source.status != 0,
            read_at=self._read_at if self.bytes_in or source.has_refused else None,
            wrote_at=max(self._outlet.wrote_at, self._outlet.spoke_at) if self._response.started else None,
            is_committed=stream is None or stream.committed,
            has_moved=stream.has_moved if stream is not None and not source.has_refused else None,
            is_mid_event=stream is not None and stream.is_mid_event,
            written=record.written,
        )

    @property
    def is_complete(self) -> bool:
        """All of the answer is here: it will be billed, whoever gets it."""
        return self._last is not None

    @property
    def has_lost_caller(self) -> bool:
        """It is over, or read on without its caller."""
        return self.is_over or self._is_abandoned

    # What the caller does, and what others decide.

    @guarded
    def caller_gone(self) -> None:
        """Abort the upstream, or read on without the caller, for the usage at its end."""
        if self.is_over:
            return
        self.verdict = Verdict.CLIENT_GONE
        if self._reads_on():
            self._exchange.detach(None, self._delivered_before)
            self._read_on()
        else:
            self._leave()

    @guarded
    def stop(self, error: StreamweirError, /) -> None:
        """End now, with this error: an error frame, or a `failure` where nothing was sent yet."""
        if self.is_over:
            return
        self._source.drop()
        last, self._last = self._last, None
        out = self._exchange.fail(error) if last is None else last
        if self._is_abandoned or self._response.started:
            self._conclude_now(out)
        else:
            self._fail_uncommitted(error)

    @guarded
    def cut(self, error: StreamweirError, /) -> None:
        """As `stop` for the caller, who gets nothing of what is held back; but an upstream that bills on is read on."""
        if self.is_over or self._is_abandoned:
            return
        is_begun, tell = self._response.started, self.on_cut
        reads_on = (is_begun or tell is not None) and self._reads_on()
        if is_begun:
            self._outlet.drop()
            self._outlet.finish(self._last_words(error), self._time())
            self.is_delivered = True
        elif reads_on:
            self._exchange.detach(error, (0, 0))
            self.failure = error
        else:
            self.stop(error)
            return
        if reads_on:
            self._read_on()
        else:
            self._source.drop()
            self._part()
        if not is_begun and tell is not None:
            tell(error)

    def _last_words(self, error: StreamweirError) -> bytes:
        """To a caller who has a part of the answer, and gets no more of it."""
        delivered = self._delivered_before or self._written_before
        if self._stream is not None and self._last is not None:
            self._last = None
            return self._stream.replace_end(error, delivered)
        return self._exchange.detach(error, delivered)

    def pause_output(self) -> None:
        """From now on nothing is written to the caller, the head included. Held back twice, it is let go on twice."""
        if self.is_over or self._is_abandoned:
            return
        self._holds += 1
        if not self._outlet.is_held:
            self._delivered_before = self._written_before or self._so_far()
            self._outlet.pause_output()

    @guarded
    def resume_output(self) -> None:
        self._holds = max(self._holds - 1, 0)
        if self.is_over or self._holds or not self._outlet.is_held:
            return
        kept, last = self._outlet.take(), self._last
        self._delivered_before = self._last = None
        if last is not None:
            self._conclude(b"".join([*kept, last]))
            return
        if kept:
            self._outlet.write(b"".join(kept), self._time())
        if self._source.is_paused and not self._response.full:
            self._resume()

    def _so_far(self) -> tuple[int, int]:
        """How many characters of text and of reasoning the caller has."""
        record = self._meter.record
        return (record.delivered.tell(), record.reasoned.tell()) if self._response.started else (0, 0)

    def allowance(self, tokens: int | None) -> None:
        """So many tokens of answer are paid for; None: any number. Longer than that, `on_overrun` is called once."""
        self._allowed = tokens
        most = self._timing.most_bytes
        self._weigh_at = most if tokens is None else min(most, self.bytes_in)  # looked at with the next piece

    def _check_allowance(self) -> None:
        while (allowed := self._allowed) is not None:
            tokens = self._meter.tokens_so_far()
            if tokens <= allowed if self.exceeds is None else not self.exceeds(allowed):
                tokens = min(tokens, allowed)
                self._weigh_at = next_check_at(self.bytes_in, tokens, allowed - tokens, self._timing.most_bytes)
                return
            self.allowance(None)
            if self.on_overrun is not None:
                self.on_overrun()
            if self._outlet.is_held or self._allowed is None or self._allowed <= allowed:
                return

    # Reading on without a caller.

    def _reads_on(self) -> bool:
        """Whether the upstream is worth reading without its caller. If so, a place for it was taken."""
        if not self._source.is_open or self._source.has_refused or self._exchange.ended:
            return False
        record = self._meter.record
        if self._may_end():  # nothing but usage can come: it is worth two seconds with any provider
            return record.usage is None and self._watch.may_abandon()
        if self.abort_stops_billing or (self._stream is not None and self.first_token_at is None):
            return False
        return self._watch.may_abandon()

    def _read_on(self) -> None:
        self._is_abandoned = True
        self._is_flowing = False  # an error may stand in the record, and the answer go on
        self._outlet.mute()
        self.allowance(None)
        self._resume()
        grace_s = self._timing.silence_s if self._may_end() else self._timing.abandoned_s
        self._give_up_at = self._time() + grace_s
        self._alarm.by(self._give_up_at)
        if self._exchange.ended:
            self._part()

    @guarded
    def _give_up(self) -> None:
        self._source.drop()
        if self._may_end():  # what it has of the end counts, if there is no sentinel behind it
            self._finish()
        else:
            self._part()

    def _may_end(self) -> bool:
        return self._stream is not None and self._stream.may_end_in_silence

    # The end.

    def _finish(self) -> None:
        """The body has ended as a body should."""
        exchange = self._exchange
        is_long = self.bytes_in > UNCROWDED  # nearly no whole answer is
        if is_long and isinstance(exchange, WholeExchange) and (body := exchange.large_body()) is not None:
            self._source.is_paused = True  # by us, as in `_conclude`
            self._reading = self._loop.create_task(self._read_large(exchange, body))
            return
        out = self._exchange.finish()
        self._note_first_token(self._time())
        self._conclude(out)

    async def _read_large(self, exchange: WholeExchange, body: bytes) -> None:
        """As the rest of `_finish`, with others on the loop meanwhile. It is cancelled where the attempt ends first."""
        try:
            out = await read_large(exchange, body)
            self._reading = None
            self._note_first_token(self._time())
            self._conclude(out)
        except StreamweirError as error:
            self._reading = None
            self.stop(error)
        except Exception as reason:  # noqa: BLE001 (see `guarded`)
            self._reading = None
            self._break(reason)

    def _conclude(self, out: bytes) -> None:
        """The exchange has ended."""
        if self.is_over or self._is_abandoned:
            self._part()
            return
        exchange, response = self._exchange, self._response
        has_answer = exchange.ended and exchange.failure is None and not response.gone
        if has_answer and self._outlet.is_held:
            self._last = out
            self._source.is_paused = True  # by us: nobody else is to blame for the time that passes now
            self._release_upstream()
            return
        self.failure = exchange.failure
        self._part()
        if has_answer:
            self._outlet.finish(out, self._time())
            self.is_delivered = True

    def _conclude_now(self, out: bytes) -> None:
        """Though it may be held back."""
        kept = self._outlet.take() if self._outlet.is_held else []
        self._conclude(b"".join([*kept, out]))

    def _fail_uncommitted(self, error: StreamweirError) -> None:
        """It ends with nothing sent, whatever was ready to be."""
        self.failure = self._exchange.failure or error
        self._meter.detach(self.failure, (0, 0))
        self._outlet.mute()
        self._part()

    def _leave(self) -> None:
        """Nobody waits for it any more."""
        if self.is_over:
            return
        self._source.drop()
        if self._outlet.is_held:
            self._meter.detach(None, self._delivered_before)
        self._outlet.mute()
        self._part()

    def _part(self) -> None:
        """Nothing reaches the relay any more, and whoever waits for the attempt goes on."""
        if self.is_over:
            return
        self.is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        self._alarm.end()
        response = self._response
        response.on_gone = response.on_full = response.on_drained = None
        self.on_first_token = self.on_overrun = self.on_cut = None  # they may hold the relay itself
        if self._is_abandoned:
            self._watch.abandoned_ended()
        if self._opening is not None:
            self._opening.cancel()
        if self._reading is not None:
            self._reading.cancel()
        self._release_upstream()

    def _release_upstream(self) -> None:
        record = self._meter.record
        has_junk = self._stream is not None and self._stream.has_junk
        record.junk_after_done = has_junk and record.completed
        self._source.leave(is_sound=self._exchange.ended and record.completed and not has_junk)

    def _break(self, reason: Exception) -> None:
        """A bug: the stream ends with what can still be said of it, or is cut off lest it be taken for whole."""
        self._watch.fault(reason, self._request_id)
        fault = GatewayFault("internal_error", "The gateway failed to relay the answer.", event_id=self._request_id)
        record = self._meter.record
        try:
            self._source.drop()
            out = self._exchange.fail(fault)
            if not self._response.started and not self._is_abandoned:
                self._fail_uncommitted(fault)
                return
            if record.error == fault:
                self._conclude_now(out)
                return
        except Exception as another:  # noqa: BLE001 (what would have said it is itself broken)
            self._watch.fault(another, self._request_id)
        record.error = record.error or fault
        self._part()
        if self._response.started:
            self._response.cut()
        else:
            self.failure = self.failure or fault

    # The upstream, and its first token.

    @guarded
    def _pause(self) -> None:
        self._source.pause()

    @guarded
    def _resume(self) -> None:
        self._read_at = self._time()
        self._source.resume()

    def _note_first_token(self, now: float) -> None:
        if self.first_token_at is None and self._has_output():
            self.first_token_at = now
            if self.on_first_token is not None:
                self.on_first_token()

    def _has_output(self) -> bool:
        record = self._meter.record
        return bool(record.written or record.finishes)
