"""The candidates that a request may try, one after the other.

At most `MAX_ATTEMPTS` are made. After a failure the next candidate is tried at once (a failover), if another one could
answer. Else the same target may be tried again (a repeat), as often as its setting `retries` allows, and before the
time at which the status has to be sent. Whatever asks a failing provider once more is within the retry budget. Whether
a further attempt is allowed at all (nothing has been sent) is known in `server.request.request`.
"""

import time
from collections.abc import Awaitable, Callable
from random import random

from streamweir.core.errors import StreamweirError
from streamweir.policy.health import Candidate, TargetId
from streamweir.policy.retry import (
    MAX_ATTEMPTS,
    backoff_s,
    is_of_credential,
    is_of_provider,
    may_try_again,
    may_try_elsewhere,
)
from streamweir.server.request.runtime import RuntimeConfig


class Candidates:
    __slots__ = ("_attempts", "_failed", "_refusal", "_repeats", "_runtime", "_untried", "candidate")

    def __init__(self, runtime: RuntimeConfig, candidates: list[Candidate]) -> None:
        """The first is taken already; another one, or the same again, must be taken before it is tried."""
        self.candidate, *self._untried = candidates
        self._runtime = runtime
        self._attempts = 1
        self._repeats = 0  # of the current target
        self._failed: tuple[Candidate, StreamweirError, int] | None = None
        """The last attempt, if it failed, and which repeat it was."""
        self._refusal: StreamweirError | None = None
        """Why another candidate was not asked: it has no room within its limits."""

    @property
    def is_last(self) -> bool:
        """No other candidate can be tried after this one."""
        if not self._untried or self._attempts >= MAX_ATTEMPTS:
            return True
        now = time.monotonic()
        return all(self._runtime.router.is_unavailable(candidate, now) for candidate in self._untried)

    def repeat(self) -> None:
        """The same one again, at once: the cause of the failure was removed, and does not count as an attempt."""
        self.candidate = self._runtime.router.take(self.candidate, time.monotonic()) or self.candidate

    async def advance(
        self, error: StreamweirError, arrived_s: float, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        """Moves to the next candidate that may be tried after this error. Raises the error if there is none."""
        now = time.monotonic()
        self._failed = self.candidate, error, self._repeats
        if self._attempts >= MAX_ATTEMPTS:
            raise self._final(error)
        if may_try_elsewhere(error) and (taken := self._take_next(error, now, self.candidate.target)) is not None:
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
        self._refusal = refusal
        failed, error, repeats = self._failed or (self.candidate, refusal, 0)
        taken = self._take_next(error, now, failed.target)
        if taken is not None:
            self.candidate = taken
            return
        if failed == self.candidate or not may_try_again(error):
            raise refusal
        self.candidate, self._repeats = failed, repeats
        self._attempts -= 1
        await self._repeat_after_wait(error, now, arrived_s, sleep)

    def _final(self, error: StreamweirError) -> StreamweirError:
        """The error for the caller, if no attempt follows: a candidate that has no room now could have answered."""
        return self._refusal if self._refusal is not None and may_try_elsewhere(error) else error

    def _take_next(self, error: StreamweirError, now: float, failed: TargetId) -> Candidate | None:
        budget = self._runtime.budget
        if not is_of_credential(error):  # the same target with another credential would be a repeat
            self._untried = [candidate for candidate in self._untried if candidate.target != failed]
        while self._untried:
            candidate = self._untried.pop(0)
            is_repeat = candidate.target.provider == failed.provider and is_of_provider(error)
            if is_repeat and not budget.has_budget(now):
                continue
            taken = self._runtime.router.take(candidate, now)
            if taken is not None:
                if is_repeat:
                    budget.take(now)
                return taken
        return None

    async def _repeat_after_wait(
        self, error: StreamweirError, now: float, arrived_s: float, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        runtime = self._runtime
        wait_s = backoff_s(self._attempts - 1, random, error.retry_after_s)
        provider = runtime.provider_for(self.candidate.target)
        if self._repeats >= provider.config.retries or now + wait_s >= arrived_s + provider.timeouts.commit_s:
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
