"""How an attempt ends: every way there is, and that it is exactly one of them.

The answer is whole; an error frame was written; it failed while nothing was sent (`failure`: another
target may be tried); the caller has gone (`verdict` says so). Where the caller is done with, gone or
told an error by `cut`, the upstream is aborted, or read on for its usage where it bills on. An answer
may be held back: then it ends when it is let go on. Bugs end it too. What flows, and how long that may
take, is known to `server.relay.relay` alone.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.core.verdict import Verdict
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.providers.base import Provider
from streamweir.server.http.message import Headers, Response
from streamweir.server.http.timers import DeadlineTimer
from streamweir.server.relay.deadlines import AttemptTimeouts, next_check_at
from streamweir.server.relay.downstream import Downstream
from streamweir.server.relay.large_answer import read_large
from streamweir.server.relay.observer import AttemptObserver
from streamweir.server.relay.upstream import AttemptUpstream
from streamweir.wire.jsonio import UNCROWDED

P = ParamSpec("P")
E = TypeVar("E", bound="AttemptState")


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


class AttemptState(ABC):
    """See `server.http.timers.TimerTarget`."""

    __slots__ = (
        "_alarm",
        "_allowed",
        "_delivered_before",
        "_exchange",
        "_give_up_at",
        "_holds",
        "_is_abandoned",
        "_last",
        "_loop",
        "_meter",
        "_opening",
        "_outlet",
        "_read_at",
        "_reading",
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

    @abstractmethod
    def wake(self) -> None:
        """Time has passed: look at what has taken too long."""
        ...

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

    # What both halves use.

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
