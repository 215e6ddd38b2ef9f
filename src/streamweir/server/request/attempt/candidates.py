"""The candidates that a request may try, one after the other.

At most `max_attempts` are made. After a failure the next candidate is tried at once (a failover), if another one could
answer: with another credential of the same target if the problem was the credential's, but one attempt is kept for
another target. Else the same target may be tried again (a repeat), as often as its setting `retries` allows, and before
the time at which the status has to be sent. Whatever asks a failing provider once more is within the retry budget.
Whether a further attempt is allowed at all (nothing has been sent) is known in `server.request.request`.

A refusal of the prompt, because it is too long or filtered, is an error of the caller. It goes on to the fallbacks that
the route names for it, if it does, and to nothing else.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from math import inf
from random import random

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.policy.routing.health import Candidate, TargetId
from streamweir.policy.routing.retry import (
    backoff_s,
    error_to_show,
    is_of_credential,
    is_of_provider,
    is_refusal_of_credential,
    may_try_again,
    may_try_elsewhere,
)
from streamweir.policy.routing.route import REFUSAL_FALLBACKS, Route
from streamweir.server.request.runtime.config import RuntimeConfig

Order = Callable[[Route, Collection[TargetId]], list[Candidate]]
"""See `server.request.request_route.order_route`."""


class Candidates:
    __slots__ = (
        "_attempts",
        "_failed",
        "_fallback_list",
        "_has_room",
        "_list_owners",
        "_max_attempts",
        "_no_room",
        "_order",
        "_repeats",
        "_route",
        "_runtime",
        "_shown_error",
        "_timeout_s",
        "_tried",
        "_untried",
        "candidate",
        "refused",
        "repairs",
    )

    # One exists as long as its stream: what most requests do not need is made when it is needed.

    def __init__(
        self,
        runtime: RuntimeConfig,
        route: Route,
        candidates: list[Candidate],
        order: Order,
        timeout_s: float | None = None,
        has_room: Callable[[Candidate], bool] | None = None,
    ) -> None:
        """The first is taken already; another one, or the same again, must be taken before it is tried.

        `timeout_s`: the caller's own limit for the whole request. `has_room`: whether a candidate has room within its
        limits at the moment, as far as is known; None: nothing is limited.
        """
        self.candidate, *self._untried = candidates
        self._runtime = runtime
        self._order = order if route.reachable else None
        self._attempts = 1
        self._repeats = 0  # of the current target
        self._failed: tuple[Candidate, StreamweirError, int] | None = None
        """The last attempt, if it failed, and which repeat it was."""
        self._shown_error: StreamweirError | None = None
        """Of the attempts that failed, the error that tells the caller most."""
        self._no_room: StreamweirError | None = None
        """Why another candidate was not asked: it has no room within its limits."""
        self._max_attempts = route.max_attempts or runtime.config.routing.max_attempts
        self._tried: tuple[TargetId, ...] = ()
        self._route = route
        """The route of the candidates: after a refusal of the prompt that of a fallback."""
        self._fallback_list: str | None = None
        """The list of fallbacks that is used since a refusal of the prompt."""
        self._list_owners: tuple[Route, ...] = ()
        """The routes whose lists are used after such a refusal. None is used twice."""
        self._timeout_s = inf if timeout_s is None else timeout_s
        self._has_room = has_room
        self.refused: tuple[tuple[Candidate, StreamweirError], ...] = ()
        """Those whose credential was refused, and why."""
        self.repairs: tuple[tuple[TargetId, Callable[[], object]], ...] = ()
        """See `repeat`."""

    @property
    def is_last(self) -> bool:
        """No other candidate can be tried after this one."""
        if not self._untried or self._attempts >= self._max_attempts:
            return True
        now = time.monotonic()
        own = self.candidate.target  # its other credentials are tried only after an error of this one
        return all(
            candidate.target == own
            or self._runtime.router.is_unavailable(candidate, now)
            or (self._has_room is not None and not self._has_room(candidate))
            for candidate in self._untried
        )

    def repeat(self, learn: Callable[[], object] | None = None) -> None:
        """The same one again, at once: the cause of the failure was removed, and does not count as an attempt. `learn`:
        what is to be called if it answers."""
        if learn is not None:
            self.repairs += ((self.candidate.target, learn),)
        self.candidate = self._runtime.router.take(self.candidate, time.monotonic()) or self.candidate

    async def advance(
        self, error: StreamweirError, arrived_s: float, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        """Moves to the next candidate that may be tried after this error. Raises the error if there is none."""
        now = time.monotonic()
        self._failed = self.candidate, error, self._repeats
        self._shown_error = error_to_show(self._shown_error, error)
        if is_refusal_of_credential(error):
            self.refused += ((self.candidate, error),)
        if self._attempts >= self._max_attempts:
            raise self._final(error)
        self._tried += (self.candidate.target,)
        if error.code in REFUSAL_FALLBACKS:
            self._fallback_list = REFUSAL_FALLBACKS[error.code]
        taken = self._take_next(error, now, self.candidate.target) if may_try_elsewhere(error) else None
        taken = taken or self._take_from_list(error)
        if taken is not None:
            self._attempts += 1
            self._repeats = 0
            self.candidate = taken
            return
        if not may_try_again(error):
            raise self._final(error)
        await self._repeat_after_wait(error, now, arrived_s, sleep)

    async def skip(self, refusal: StreamweirError, arrived_s: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        """The candidate has no room within its limits, and was not asked: moves to the next one, or to a repeat of the
        attempt before. Raises the refusal if there is neither."""
        now = time.monotonic()
        self._no_room = refusal
        self._attempts -= 1
        failed, error, repeats = self._failed or (self.candidate, refusal, 0)
        taken = self._take_next(error, now, failed.target) or self._take_from_list(error)
        if taken is not None:
            self._attempts += 1
            self.candidate = taken
            return
        if failed == self.candidate or not may_try_again(error):
            raise refusal
        self.candidate, self._repeats = failed, repeats
        await self._repeat_after_wait(error, now, arrived_s, sleep)

    def _final(self, error: StreamweirError) -> StreamweirError:
        """The error for the caller, if no attempt follows: a candidate that has no room now could have answered."""
        return self._no_room if self._no_room is not None and may_try_elsewhere(error) else self._shown_error or error

    def _take_next(self, error: StreamweirError, now: float, failed: TargetId) -> Candidate | None:
        budget = self._runtime.budget
        if not is_of_credential(error):  # the same target with another credential would be a repeat
            self._untried = [candidate for candidate in self._untried if candidate.target != failed]
        while self._untried:
            candidate = self._untried.pop(self._next_index())
            is_repeat = is_of_provider(error) and self._is_same_server(candidate.target, failed)
            if is_repeat and not budget.has_budget(now):
                continue
            taken = self._runtime.router.take(candidate, now)
            if taken is not None:
                if is_repeat:
                    budget.take(now)
                return taken
        return None

    def _is_same_server(self, target: TargetId, other: TargetId) -> bool:
        """A target can have another address than its provider."""
        return self._runtime.provider_for(target).upstream is self._runtime.provider_for(other).upstream

    def _next_index(self) -> int:
        """The first, unless the attempts that are left are needed for others: one for each fallback that may still
        follow, and the last one before them for another target than the one that has failed."""
        left, fallbacks = self._max_attempts - self._attempts, self._untried_fallbacks()
        kept = len(set(fallbacks.values()))
        if fallbacks and kept >= left:
            return next(iter(fallbacks))
        if left - kept > 1 or self._failed is None:
            return 0
        return self._index_of_other(self._failed[0].target, fallbacks)

    def _untried_fallbacks(self) -> dict[int, int]:
        """The index of each candidate of a fallback, and the position of this fallback in the route."""
        groups = self._route.groups
        if len(groups) == 1:
            return {}
        own = _group_of(groups, self.candidate)
        found = [_group_of(groups, each) for each in self._untried]
        return {index: group for index, group in enumerate(found) if group > own}

    def _index_of_other(self, failed: TargetId, fallbacks: Collection[int]) -> int:
        """Of another target: the other credentials of the failed one would be next. If two targets have failed and no
        fallback follows, one of a later stage is preferred."""
        others = [index for index, each in enumerate(self._untried) if each.target != failed and index not in fallbacks]
        if not fallbacks and len(set(self._tried)) > 1:
            stages = {entry.target: entry.stage for entry in self._route.targets}
            last = stages.get(failed, 0)
            others = [index for index in others if stages.get(self._untried[index].target, 0) > last] or others
        return others[0] if others else 0

    def _take_from_list(self, error: StreamweirError) -> Candidate | None:
        """The first candidate of the next fallback in the lists that are used since a refusal of the prompt."""
        if self._fallback_list is None or self._order is None:
            return None
        if error.code not in REFUSAL_FALLBACKS and not may_try_elsewhere(error):
            return None
        groups, owners = self._route.groups, list(self._list_owners or (self._route,))
        refused = groups[_group_of(groups, self.candidate)]
        known = {each.configured_id for each in owners}
        if refused.configured_id not in known:  # a fallback itself: its own list counts, too
            known.add(refused.configured_id)
            owners.append(refused)
        taken = None
        for owner in owners:  # the list grows
            for route in map(self._runtime.routes.resolve, getattr(owner, self._fallback_list)):
                if taken is None and route is not None and route.configured_id not in known:
                    known.add(route.configured_id)
                    owners.append(route)
                    taken = self._take_first(route)
        self._list_owners = tuple(owners)
        return taken

    def _take_first(self, route: Route) -> Candidate | None:
        assert self._order is not None  # noqa: S101 (for the type checker)
        try:
            candidates = self._order(route, self._tried)
        except CallerError:  # none of its targets can serve the request
            return None
        if not candidates:
            return None
        self._route = route
        first, *self._untried = candidates
        return first

    async def _repeat_after_wait(
        self, error: StreamweirError, now: float, arrived_s: float, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        runtime = self._runtime
        wait_s = backoff_s(self._attempts - 1, random, error.retry_after_s)
        provider = runtime.provider_for(self.candidate.target)
        held_s = min(provider.timeouts.commit_s, self._timeout_s)
        if self._repeats >= provider.config.retries or now + wait_s >= arrived_s + held_s:
            raise self._final(error)
        if not runtime.budget.take(now):
            raise self._final(error)
        self._attempts += 1
        self._repeats += 1
        await sleep(wait_s)
        # The event loop counts in whole milliseconds, and can resume just before the cool-down is over.
        taken = runtime.router.take(self.candidate, max(time.monotonic(), now + wait_s))
        if taken is None:
            raise self._final(error)
        self.candidate = taken


def _group_of(groups: Sequence[Route], candidate: Candidate) -> int:
    """The position of the route to which a candidate belongs."""
    return next((index for index, group in enumerate(groups) if group.has_target(candidate.target)), 0)
