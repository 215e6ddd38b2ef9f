"""The output of an attempt waits for its reservation: nothing is sent that is not reserved durably.

    reservation not durable yet        -> output is paused
    most of a slice is used            -> the reservation is extended, while output goes on
    answer exceeds reservation         -> output is paused, until the reservation is extended or the answer is cut
    it is complete and exceeds it      -> its end is paused, until the reservation is extended or nobody can extend it;
                                          then it is sent: it is billed in any case
    answer exceeds what `tpm` counts   -> more is counted; an answer that runs is never cut for a rate

This module connects the reservation of a request with the relay of an attempt, and decides nothing itself:
`server.accounting.budget_reserver` decides whether there is more to reserve, `server.request.request` how a caller
learns that there is not (`cut`). The relay calls it only when a mark is passed, never for each piece.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.pipeline.answer_count import AnswerCount
from streamweir.pipeline.meter import Meter
from streamweir.policy.routing.health import TargetId
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.accounting.reservation import AttemptProgress, Reservation
from streamweir.server.accounting.token_count import Vocabularies
from streamweir.server.relay.observer import AttemptObserver
from streamweir.server.relay.relay import Relay
from streamweir.server.streams.stream import ResumableStream

_EARLY_PART = 4
"""More is asked for when this part of the last extension is left, or this part of this part of the whole."""
_MARGIN_TOKENS, _MARGIN_PART = 32, 8
"""What the provider may have written when the gateway sees that a slice is used."""
_PAUSE_S = 1.0
"""How long paused output waits for others: the provider goes on writing meanwhile, and bills it."""


class OutputAllowance:
    """The allowance of one request, for all its attempts."""

    def __init__(
        self,
        accounting: Accounting,
        reservation: Reservation,
        observer: AttemptObserver,
        cut: Callable[[Relay, StreamweirError], None],
        arrived_s: float,
        vocabularies: Vocabularies,
    ) -> None:
        """`arrived_s`: arrival of the request, by the relay's clock."""
        self._accounting = accounting
        self._reservation = reservation
        self._observer = observer
        self._cut = cut
        self._epoch_ms = reservation.request.at_ms - arrived_s * 1000
        self._vocabularies = vocabularies
        self._extending: asyncio.Task[None] | None = None
        self._has_asked = False
        """The present slice is nearly used, and more was asked for."""
        self._is_paused = False

    def bind(self, relay: Relay, meter: Meter, target: TargetId, stream: ResumableStream | None) -> None:
        """Before the attempt begins. `stream`: to which it is written, if its caller can come back."""
        reservation = self._reservation
        reservation.progress = partial(_progress_of, relay, meter, target, self._epoch_ms, stream)
        handle = reservation.handle
        if handle is not None and not handle.is_durable:
            relay.pause_output()
            handle.when_durable(relay.resume_output)
        has_money = reservation.allowance is not None
        if has_money or reservation.rate_tokens is not None:
            count = self._vocabularies.counter(target.model) if reservation.choices == 1 else None
            answer = AnswerCount(meter.record, count, reservation.bytes_per_token)
            if reservation.is_sliced:
                answer.is_over_limit = answer.is_rough = True
            relay.exceeds = answer.exceeds
            relay.on_overrun = partial(self._overrun, relay, answer)
            if has_money:
                relay.on_end, reservation.shown_bytes = partial(self._end, relay, answer), meter.shown_bytes
            self._has_asked = self._is_paused = False
            self._set_mark(relay)

    async def wait_extended(self) -> None:
        """After an attempt: waits for a running extension, so that it is settled with the rest."""
        if self._extending is not None:
            self._accounting.budgets.limit_wait(self._reservation, 0.0)
            await asyncio.wait({self._extending})

    def _set_mark(self, relay: Relay) -> None:
        """The length at which the relay calls back."""
        reservation = self._reservation
        mark, slack, rate_tokens = reservation.allowance, 0, reservation.rate_tokens
        if reservation.is_sliced:
            mark = self._money_mark()
            slack = 0 if self._has_asked else self._early_tokens() // 2
        if rate_tokens is not None and (mark is None or rate_tokens < mark):
            mark, slack = rate_tokens, rate_tokens // 2
        relay.set_allowance(mark, slack)

    def _early_tokens(self) -> int:
        """So many tokens before the end of a slice, more is asked for."""
        allowance = self._reservation.allowance or 0
        return max(self._reservation.step or allowance, allowance // _EARLY_PART) // _EARLY_PART

    def _money_mark(self) -> int | None:
        """Of a slice, first the length at which more is asked for, then the one at which output must wait."""
        reservation = self._reservation
        allowance = reservation.allowance
        if allowance is None or not reservation.is_sliced:
            return allowance
        end = allowance - _margin(allowance)
        return end if self._has_asked else end - self._early_tokens()

    def _overrun(self, relay: Relay, answer: AnswerCount) -> None:
        """A mark was passed."""
        reservation = self._reservation
        if reservation.rate_tokens is not None and answer.exceeds(reservation.rate_tokens):
            self._accounting.count_tokens(reservation, answer.roughly() if answer.is_rough else answer())
        mark = self._money_mark()
        if mark is None or not answer.exceeds(mark):
            self._set_mark(relay)
            return
        is_running = self._extending is not None and not self._extending.done()
        if reservation.is_sliced and not self._has_asked:
            self._has_asked, answer.is_rough = True, False
            mark = self._money_mark()
            if mark is not None and not answer.exceeds(mark):
                self._set_mark(relay)
                if not is_running:
                    self._start(relay, answer, None)
                return
        relay.pause_output()
        self._is_paused = True
        if is_running:
            self._accounting.budgets.limit_wait(reservation, _PAUSE_S)
            return
        answer.is_over_limit = True
        self._start(relay, answer, _PAUSE_S)

    def _end(self, relay: Relay, answer: AnswerCount) -> None:
        """The answer is complete. If it came at once, none of its marks was seen."""
        reservation = self._reservation
        if not reservation.is_sliced and not answer.is_reported:  # then it is within its limit, for all that is known
            return
        if answer.at_end() <= (reservation.allowance or 0):
            return
        reservation.came_at_once |= reservation.is_sliced
        is_running = self._extending is not None and not self._extending.done()
        if not self._is_paused:
            relay.pause_output()
            self._is_paused = True
        if is_running:
            self._accounting.budgets.limit_wait(reservation, _PAUSE_S)
        else:
            self._start(relay, answer, _PAUSE_S)

    def _start(self, relay: Relay, answer: AnswerCount, wait_s: float | None) -> None:
        self._extending = asyncio.get_running_loop().create_task(self._extend(relay, answer, wait_s))
        self._extending.add_done_callback(partial(self._extended, relay))

    async def _extend(self, relay: Relay, answer: AnswerCount, wait_s: float | None) -> None:
        """`wait_s`: how long others may be waited for. None: as long as a new request would wait."""
        reservation, budgets = self._reservation, self._accounting.budgets
        if relay.has_lost_caller:  # in the same turn: nothing more is sent, and its end settles it
            return
        is_whole = relay.is_complete
        if is_whole:
            needed = answer.at_end()
        else:
            needed = answer() if self._is_paused else answer.roughly()
            if reservation.is_sliced:
                # More than is covered, for the next slice; not more than the limit, which the count may exceed.
                covered = reservation.allowance or 0
                needed = min(max(needed + _margin(needed), covered + 1), reservation.longest or covered)
        if await budgets.extend(reservation, needed, wait_s, exactly=is_whole):
            if self._is_paused and relay.is_complete and not is_whole:  # it ended meanwhile
                await self._extend(relay, answer, _PAUSE_S)
                return
            self._has_asked, answer.is_rough = False, reservation.is_sliced
            if reservation.longest is not None and not reservation.is_sliced and needed <= reservation.longest:
                answer.is_over_limit = False  # all of it is reserved: an answer within its limit is never cut
            self._set_mark(relay)
            self._resume(relay)
        elif relay.is_complete:  # it ended meanwhile, and is billed as it is
            self._resume(relay)
        elif self._is_paused and not relay.has_lost_caller:
            self._cut(relay, CallerError("budget_exceeded", "The spend limit is reached. The answer was cut."))

    def _resume(self, relay: Relay) -> None:
        if self._is_paused:
            self._is_paused = False
            relay.resume_output()

    def _extended(self, relay: Relay, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (reason := task.exception()) is not None:
            self._observer.fault(reason, self._reservation.hold.request_id)
            relay.stop(GatewayFault("internal_error", "The gateway failed to relay the answer."))


def _margin(tokens: int) -> int:
    return min(_MARGIN_TOKENS, tokens // _MARGIN_PART)


def _progress_of(
    relay: Relay, meter: Meter, target: TargetId, epoch_ms: float, stream: ResumableStream | None
) -> AttemptProgress:
    """`epoch_ms`: when the relay's clock was 0, by the clock of the request's arrival time."""
    first_at, sent_at = relay.first_token_at, relay.sent_at
    return AttemptProgress(
        str(target),
        meter.tokens_so_far(),
        round(epoch_ms + first_at * 1000) if first_at is not None and sent_at is not None else None,
        round(epoch_ms + sent_at * 1000) if sent_at is not None else None,
        _readers_of(stream, epoch_ms) if stream is not None and stream.frames is not None else None,
    )


def _readers_of(stream: ResumableStream, epoch_ms: float) -> tuple[int, int, int | None]:
    since_s = stream.gaps.open_since
    return len(stream.readers), stream.gaps.count, round(epoch_ms + since_s * 1000) if since_s is not None else None
