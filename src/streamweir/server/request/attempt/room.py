"""The room for each attempt of one request, within the limits of its target, its provider and its credential.

    find (before the attempt) -> the attempt -> ended, or release if it was not sent

A request holds room for one attempt at a time. Nothing waits for room: a candidate without it is left out, and if no
other is left, the caller learns how long to wait. Only for requests of a configuration that has such limits.
"""

from collections.abc import Awaitable, Callable

from streamweir.pipeline.meter import Meter
from streamweir.policy.limits.key_limits import BY_COUNT
from streamweir.policy.limits.target_limits import no_room
from streamweir.policy.routing.health import Candidate
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.accounting.target_limiter import AttemptHold, TargetLimiter
from streamweir.server.relay.observer import AttemptObserver
from streamweir.server.relay.relay import Relay
from streamweir.server.request.attempt.candidates import Candidates
from streamweir.server.request.runtime.config import RuntimeConfig


class Room:
    __slots__ = ("_attempts", "_hold", "_limiter", "_observer", "_reservation", "_runtime", "_waits_s")

    def __init__(
        self, runtime: RuntimeConfig, limiter: TargetLimiter, observer: AttemptObserver, reservation: Reservation
    ) -> None:
        self._runtime = runtime
        self._limiter = limiter
        self._observer = observer
        self._reservation = reservation
        self._attempts = 0
        self._hold: AttemptHold | None = None
        self._waits_s: list[float] = []
        """Of the candidates that had no room."""

    async def find(self, candidates: Candidates, arrived_s: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Takes the room for the next attempt, of the first candidate that has it. Raises an error if none has."""
        while not await self._take(candidates.candidate):
            await candidates.skip(no_room(min(self._waits_s)), arrived_s, sleep)

    def has_room(self, candidate: Candidate) -> bool:
        """At the moment, as far as is known without asking Valkey."""
        limits = self._runtime.target_limits
        return limits is None or self._limiter.has_room(limits.scopes_of(candidate.target, candidate.credential))

    async def _take(self, candidate: Candidate) -> bool:
        """Whether there is room. If not, or if it is cancelled, the candidate is reported as abandoned."""
        limits = self._runtime.target_limits
        scopes = limits.scopes_of(candidate.target, candidate.credential) if limits is not None else ()
        if not scopes:
            return True
        self._attempts += 1
        request = self._reservation.limit_request
        try:
            found = await self._limiter.reserve(f"{request.request_id}.{self._attempts}", scopes, request.tokens)
        except BaseException:  # also when it is cancelled: see above
            self._runtime.router.abandoned(candidate)
            raise
        if isinstance(found, AttemptHold):
            self._hold = found
            return True
        self._runtime.router.abandoned(candidate)
        self._waits_s.append(found.retry_after_s)
        if found.limited_by is not None:
            self._observer.skipped(str(candidate.target), BY_COUNT[found.limited_by].name)
        return False

    def ended(self, relay: Relay, meter: Meter) -> None:
        """The attempt is over."""
        hold = self._hold
        if hold is None:
            return
        if not relay.was_sent:
            self.release()
            return
        self._hold = None
        tokens = 0
        if relay.is_billable:
            usage = meter.record.usage
            tokens = (
                usage.total_tokens
                if usage is not None
                else self._reservation.request.prompt_tokens + meter.tokens_so_far()
            )
        self._limiter.settle(hold, tokens)

    def release(self) -> None:
        """The attempt was not sent. No effect without one."""
        hold, self._hold = self._hold, None
        if hold is not None:
            self._limiter.release(hold)
