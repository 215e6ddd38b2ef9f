"""The targets that one request may try: which it is now, and which comes next.

Another target, or the same again, is tried only within the retry budget and before the time at which
the status has to go out. A target that cannot serve what is asked for is none of them. Whether
anything may be tried at all (nothing has been sent) is `server.request.request`'s to know.
"""

import time
from collections.abc import Awaitable, Callable
from random import random

from msgspec import structs

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.policy.access import Key
from streamweir.policy.retry import MOST_EXTRA_ATTEMPTS, backoff_s, may_try_again, may_try_elsewhere
from streamweir.policy.route import Route, TargetId, WeightedTarget
from streamweir.server.request.runtime import RuntimeConfig


def find_route(setup: RuntimeConfig, key: Key, chat: ChatRequest) -> Route:
    """By the name that the request asks for, where the key may use it."""
    asked = chat.model or setup.default_model
    if asked is None:
        raise CallerError("missing_required_parameter", "Missing required parameter: 'model'.", param="model")
    route = setup.router.resolve(asked)
    if route is None or not key.may_use(asked):
        raise CallerError("model_not_found", f'model "{asked}" not found', param="model")
    return route


def fit_route(setup: RuntimeConfig, route: Route, chat: ChatRequest) -> Route:
    """The route, less the targets that cannot serve the request. Raises the first one's refusal where none can."""
    providers = setup.providers
    fit: tuple[WeightedTarget, ...] = ()
    reason: CallerError | None = None
    for each in route.targets:
        refusal = providers[each.target.provider].provider.refusal_of(chat, each.target.model)
        if refusal is None:
            fit += (each,)
        else:
            reason = reason or refusal
    if reason is None:
        return route
    if not fit:
        raise reason
    return structs.replace(route, targets=fit)


class Candidates:
    __slots__ = ("_extra", "_setup", "_untried", "target")

    def __init__(self, setup: RuntimeConfig, targets: list[TargetId]) -> None:
        """The first of `targets` is taken; another one, or the same again, must be taken before it is tried."""
        self.target, *self._untried = targets
        self._setup = setup
        self._extra = 0

    @property
    def is_last(self) -> bool:
        """Nobody can be asked after this one."""
        now = time.monotonic()
        if not self._untried or self._extra >= MOST_EXTRA_ATTEMPTS or not self._setup.budget.has_room(now):
            return True
        return all(self._setup.router.is_away(target, now) for target in self._untried)

    def repeat(self) -> None:
        """The same once more, at once: what failed has been put right, and counts for nothing."""
        self.target = self._setup.router.take(self.target, time.monotonic()) or self.target

    async def advance(
        self, error: StreamweirError, arrived_s: float, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        """To the next that may be tried after this error. Raises the error where there is none."""
        setup, now = self._setup, time.monotonic()
        may_move, may_repeat = bool(self._untried) and may_try_elsewhere(error), may_try_again(error)
        if self._extra >= MOST_EXTRA_ATTEMPTS or not (may_move or may_repeat) or not setup.budget.may_retry(now):
            raise error
        self._extra += 1
        while may_move and self._untried:
            taken = setup.router.take(self._untried.pop(0), now)
            if taken is not None:
                self.target = taken
                return
        wait_s = backoff_s(self._extra - 1, random, error.retry_after_s)
        commit_s = setup.providers[self.target.provider].timeouts.commit_s
        if not may_repeat or now + wait_s >= arrived_s + commit_s:
            raise error
        await sleep(wait_s)
        # The loop counts in whole milliseconds, and may wake us just before the target's own pause is over.
        taken = setup.router.take(self.target, max(time.monotonic(), now + wait_s))
        if taken is None:
            raise error
        self.target = taken
