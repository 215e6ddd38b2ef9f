"""Counts attempts against the limits of targets, providers and credentials, before they are sent.

    reserve (room in every scope, or none) -> the attempt -> end (tokens as used), exactly once

A single process counts in memory. Several count in Valkey, in one exchange for all scopes of an attempt; while it is
unavailable each process has its share of every limit, as for callers' keys (`server.accounting.shared_limiter`, which
also renews the reservations of `shared_ids`, and through which those of a dead process expire). Whether an attempt
needs a reservation at all is known before (`policy.limits.target_limits`).
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct

from streamweir.policy.limits.limit_request import Decision
from streamweir.policy.limits.local import LocalLimits
from streamweir.policy.limits.target_limits import LimitScope, limit_requests
from streamweir.store.limits.errors import SharedUnavailable
from streamweir.store.limits.shared import SharedLimits


class AttemptHold(Struct, eq=False):
    """What an attempt has reserved. Ended once; a second time has no effect."""

    ids: Sequence[str]
    """One for each scope."""
    is_shared: bool
    is_ended: bool = False


class TargetLimiter:
    """`shared` is None if this process counts alone."""

    def __init__(self, shared: SharedLimits | None = None, peers: Callable[[], int] = lambda: 1) -> None:
        """`peers`: the number of processes that serve at the moment, including this one."""
        self._shared = shared
        self._peers = peers
        self._local = LocalLimits()
        self._tasks: set[asyncio.Task[None]] = set()
        self.open_count = 0
        """The attempts that hold room at the moment."""
        self.shared_ids: set[str] = set()
        """The reservations of this process in Valkey."""

    async def reserve(self, attempt_id: str, scopes: Sequence[LimitScope], tokens: int) -> AttemptHold | Decision:
        """The reservation, or the refusal. `attempt_id` is new for each attempt. `tokens`: estimated. May be
        cancelled: then nothing is reserved, or what is will be released."""
        requests = limit_requests(attempt_id, scopes, tokens)
        ids = [request.request_id for request in requests]
        if self._shared is not None:
            try:
                decision = await self._shared.reserve_all(requests)
            except SharedUnavailable:
                pass  # the limiter of callers' keys reports it, with its next renewal at the latest
            else:
                if decision.refusal is not None:
                    return decision
                self.shared_ids.update(ids)
                self.open_count += 1
                return AttemptHold(ids, is_shared=True)
        peers = self._peers()
        if peers > 1:
            requests = [request.divided_by(peers) for request in requests]
        decision = self._local.reserve_all(requests, time.monotonic())
        if decision.refusal is not None:
            return decision
        self.open_count += 1
        return AttemptHold(ids, is_shared=False)

    def has_room(self, scopes: Sequence[LimitScope]) -> bool:
        """For a small request, at the moment. True if only Valkey knows."""
        if self._shared is not None:
            return True
        now = time.monotonic()
        return all(self._local.find_refusal(scope.id, scope, now) is None for scope in scopes)

    async def usage(self, scopes: Sequence[LimitScope]) -> list[tuple[int, int, int] | None]:
        """For each scope the requests and tokens of the last minute, and the streams at the moment. None: Valkey is
        unavailable."""
        ids = [scope.id for scope in scopes]
        if self._shared is None:
            now = time.monotonic()
            return [self._local.usage(id, now) for id in ids]
        try:
            return list(await self._shared.usage(ids))
        except SharedUnavailable:
            return [None] * len(ids)

    def settle(self, hold: AttemptHold, tokens: int | None) -> None:
        """The attempt was sent, and has ended. None: its tokens stay as estimated."""
        self._end(hold, tokens, took_place=True)

    def release(self, hold: AttemptHold) -> None:
        """The attempt was not sent, and does not count."""
        self._end(hold, 0, took_place=False)

    async def close(self) -> None:
        """Waits until Valkey has what was ended. Before the connection is closed."""
        await asyncio.gather(*self._tasks)

    def _end(self, hold: AttemptHold, tokens: int | None, *, took_place: bool) -> None:
        if hold.is_ended:
            return
        hold.is_ended = True
        self.open_count -= 1
        if hold.is_shared and self._shared is not None:
            self.shared_ids.difference_update(hold.ids)
            self._start(self._shared.end_all(hold.ids, tokens, took_place=took_place))
            return
        now = time.monotonic()
        for id in hold.ids:
            if took_place:
                self._local.settle(id, tokens, None, now)
            else:
                self._local.release(id, now)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
