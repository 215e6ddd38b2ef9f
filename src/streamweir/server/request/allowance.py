"""The output of an attempt waits for its reservation: nothing is sent that is not reserved durably.

    reservation not durable yet -> output is paused
    answer exceeds reservation  -> output is paused, until the reservation is extended or the answer is cut

This module connects the reservation of a request with the relay of an attempt, and decides nothing itself:
`server.accounting.accounting` decides whether there is more to reserve, `server.request.request` how a caller learns
that there is not (`cut`).
"""

import asyncio
from collections.abc import Callable
from functools import partial

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.pipeline.answer_count import AnswerCount
from streamweir.pipeline.meter import Meter
from streamweir.policy.health import TargetId
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.accounting.reservation import AttemptProgress, Reservation
from streamweir.server.accounting.token_count import Vocabularies
from streamweir.server.relay.observer import AttemptObserver
from streamweir.server.relay.relay import Relay


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

    def bind(self, relay: Relay, meter: Meter, target: TargetId) -> None:
        """Before the attempt begins."""
        reservation = self._reservation
        reservation.progress = partial(_progress_of, relay, meter, target, self._epoch_ms)
        handle = reservation.handle
        if handle is not None and not handle.is_durable:
            relay.pause_output()
            handle.when_durable(relay.resume_output)
        if reservation.allowance is not None:
            relay.set_allowance(reservation.allowance)
            count = self._vocabularies.counter(target.model) if reservation.choices == 1 else None
            answer = AnswerCount(meter.record, count)
            relay.exceeds = answer.exceeds
            relay.on_overrun = partial(self._overrun, relay, answer)

    async def wait_extended(self) -> None:
        """After an attempt: waits for a running extension, so that it is settled with the rest."""
        if self._extending is not None:
            await asyncio.wait({self._extending})

    def _overrun(self, relay: Relay, answer: AnswerCount) -> None:
        """The answer exceeds its reservation: nothing more is sent before the reservation is extended."""
        relay.pause_output()
        answer.is_over_limit = True
        self._extending = asyncio.get_running_loop().create_task(self._extend(relay, answer))
        self._extending.add_done_callback(partial(self._extended, relay))

    async def _extend(self, relay: Relay, answer: AnswerCount) -> None:
        if relay.has_lost_caller:  # in the same turn: nothing more is sent, and its end settles it
            return
        if await self._accounting.extend(self._reservation, answer()):
            relay.set_allowance(self._reservation.allowance)
            relay.resume_output()
        elif relay.is_complete:  # it ended meanwhile, and is billed as it is
            relay.resume_output()
        elif not relay.has_lost_caller:
            self._cut(relay, CallerError("budget_exceeded", "The spend limit is reached. The answer was cut."))

    def _extended(self, relay: Relay, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (reason := task.exception()) is not None:
            self._observer.fault(reason, self._reservation.hold.request_id)
            relay.stop(GatewayFault("internal_error", "The gateway failed to relay the answer."))


def _progress_of(relay: Relay, meter: Meter, target: TargetId, epoch_ms: float) -> AttemptProgress:
    """`epoch_ms`: when the relay's clock was 0, by the clock of the request's arrival time."""
    first_at, sent_at = relay.first_token_at, relay.sent_at
    return AttemptProgress(
        str(target),
        meter.tokens_so_far(),
        round(epoch_ms + first_at * 1000) if first_at is not None and sent_at is not None else None,
        round(epoch_ms + sent_at * 1000) if sent_at is not None else None,
    )
