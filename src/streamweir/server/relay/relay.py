"""One attempt: an upstream's bytes to the caller's transport, in one callback, with one timer beside it.

The relay owns the answer while its attempt lasts: it feeds the exchange, writes what comes back, and
stops reading where the caller does not. It decides nothing about what comes next: that is
`server.request.request`. How an attempt ends is in `server.relay.state`; one timer looks at all that can take too long
(`server.relay.deadlines`). `body_received` is the hot path.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Mapping

from streamweir.core.errors import StreamweirError
from streamweir.providers.base import UpstreamRequest
from streamweir.server.http.timers import SLACK_S
from streamweir.server.relay.deadlines import MOST_BYTES, AttemptSnapshot, Deadlines, next_check_at, too_large
from streamweir.server.relay.observer import AttemptObserver as AttemptObserver
from streamweir.server.relay.state import AttemptParts, AttemptState, guarded
from streamweir.server.relay.timing import BOUNDS_S, no_gaps, read_gaps
from streamweir.server.telemetry.record import Gaps, RequestRecord
from streamweir.server.telemetry.timeline import Timeline
from streamweir.upstream.base import Upstream
from streamweir.wire import sse

KEEP_ALIVE = sse.write_comment(b"keep-alive")


class Relay(AttemptState):
    """See `upstream.base.Receiver`. `run` gives control back when the attempt is over, the upstream done with."""

    __slots__ = ("_feed", "_gaps", "_is_flowing", "_longest_gap_s", "_patience", "_put", "_record")

    def __init__(self, parts: AttemptParts) -> None:
        super().__init__(parts)
        self._feed = parts.exchange.feed
        self._record = parts.meter.record
        self._put = self._outlet.write
        self._patience = Deadlines(parts.timing, self._read_at)
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

    def _read_on(self) -> None:
        self._is_flowing = False  # an error may stand in the record, and the answer go on
        super()._read_on()

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
                if self._outlet.keep_alive(KEEP_ALIVE, look.now) and not self._source.is_paused:
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
