"""The limits of targets: counted in this process, in Valkey for several, and in shares while that is unavailable."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from streamweir.policy.limits.limit_request import Decision
from streamweir.policy.limits.target_limits import LimitScope
from streamweir.server.accounting.target_limiter import AttemptHold, TargetLimiter
from streamweir.store.limits.shared import SharedLimits, script
from streamweir.store.limits.valkey import Valkey
from support.deadlines import PROGRAM_TIMEOUT_S
from support.gateway import until
from support.valkey import ValkeyServer

_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest_asyncio.fixture
async def valkey(server: ValkeyServer) -> AsyncIterator[Valkey]:
    valkey = Valkey(server.socket_url, script(), timeout_s=PROGRAM_TIMEOUT_S)
    yield valkey
    await valkey.close()


@pytest.fixture(params=["memory", "valkey"])
def pair(request: pytest.FixtureRequest, valkey: Valkey) -> tuple[TargetLimiter, TargetLimiter]:
    """Two that count together: the same one twice, or two processes."""
    if request.param == "memory":
        alone = TargetLimiter()
        return alone, alone
    prefix = f"targets{next(_numbers)}"
    here, there = (SharedLimits(valkey, prefix=prefix, instance=name) for name in ("here", "there"))
    return TargetLimiter(here), TargetLimiter(there)


async def take(limiter: TargetLimiter, *scopes: LimitScope, tokens: int = 1) -> AttemptHold:
    hold = await limiter.reserve(f"r{next(_numbers)}", scopes, tokens)
    assert isinstance(hold, AttemptHold), hold
    return hold


async def refusal(limiter: TargetLimiter, *scopes: LimitScope, tokens: int = 1) -> Decision:
    decision = await limiter.reserve(f"r{next(_numbers)}", scopes, tokens)
    assert isinstance(decision, Decision), decision
    return decision


async def test_requests_and_streams_and_tokens_of_all_processes(pair: tuple[TargetLimiter, TargetLimiter]) -> None:
    here, there = pair
    target, provider = LimitScope(id="target:p/a", rpm=9, tpm=100), LimitScope(id="provider:p", max_streams=2)
    first, second = await take(here, target, provider, tokens=40), await take(there, target, provider, tokens=40)
    for limiter in pair:
        assert (await refusal(limiter, target, provider)).limited_by == "streams"
        assert (await refusal(limiter, target, provider, tokens=21)).limited_by == "tokens"
    here.settle(first, 90)
    there.settle(second, 5)
    await here.close()
    await there.close()
    assert (await refusal(there, target, tokens=6)).limited_by == "tokens", "as they were used"
    await take(here, target, provider, tokens=5)
    refused = await refusal(there, target, tokens=1)
    assert (refused.limited_by, refused.retry_after_s > 50) == ("tokens", True)


async def test_what_was_not_sent_does_not_count_and_nothing_is_ended_twice(
    pair: tuple[TargetLimiter, TargetLimiter],
) -> None:
    here, there = pair
    scope = LimitScope(id="target:p/a", rpm=2, max_streams=2)
    released, settled = await take(here, scope), await take(there, scope)
    for _ in range(3):
        here.release(released)
        there.settle(settled, None)
        there.release(settled)
    await here.close()
    await there.close()
    await take(there, scope)
    assert (await refusal(here, scope)).limited_by == "requests"


async def test_all_processes_show_what_is_used_of_a_limit(pair: tuple[TargetLimiter, TargetLimiter]) -> None:
    here, there = pair
    scopes = [LimitScope(id=f"target:p/{number}", rpm=9) for number in range(50)]
    hold = await take(here, scopes[0], scopes[49], tokens=7)
    await take(there, scopes[49], tokens=5)
    for limiter in pair:
        used = await limiter.usage(scopes)
        assert (used[0], used[1], used[49]) == ((1, 7, 1), (0, 0, 0), (2, 12, 2))
    here.settle(hold, 30)
    await here.close()
    assert (await there.usage(scopes))[0] == (1, 30, 0)
    assert await there.usage([]) == []


async def test_of_two_full_scopes_the_longer_wait_counts(pair: tuple[TargetLimiter, TargetLimiter]) -> None:
    here, there = pair
    requests, streams = LimitScope(id="provider:p", rpm=1), LimitScope(id="target:p/a", max_streams=1)
    await take(here, requests, streams)
    refused = await refusal(there, streams, requests)
    assert (refused.limited_by, 50 < refused.retry_after_s < 61) == ("requests", True)


async def test_never_more_than_the_limit_at_once(pair: tuple[TargetLimiter, TargetLimiter]) -> None:
    """Many at once, each through its own mix of scopes: every scope holds what it may, and what is refused nothing."""
    shared_scope, small, large = (
        LimitScope(id="provider:p", max_streams=5),
        LimitScope(id="target:p/small", max_streams=2),
        LimitScope(id="target:p/large", max_streams=4),
    )
    for _ in range(5):
        asked = [(limiter, scope) for limiter in pair for scope in (small, large) for _ in range(10)]
        found = await asyncio.gather(
            *(limiter.reserve(f"r{next(_numbers)}", (scope, shared_scope), 1) for limiter, scope in asked)
        )
        holds = [
            (limiter, scope, hold)
            for (limiter, scope), hold in zip(asked, found, strict=True)
            if isinstance(hold, AttemptHold)
        ]
        assert len(holds) == 5
        assert sum(scope is small for _, scope, _ in holds) <= 2
        for limiter, _, hold in holds:
            limiter.settle(hold, 0)
        for limiter in pair:
            await limiter.close()


async def test_a_cancelled_reservation_leaves_nothing(server: ValkeyServer, valkey: Valkey) -> None:
    shared = SharedLimits(valkey, prefix=f"targets{next(_numbers)}")
    limiter, scope = TargetLimiter(shared), LimitScope(id="target:p/a", max_streams=1)
    assert not await shared.heartbeat()  # it is connected
    server.pause()
    try:
        waiting = asyncio.create_task(limiter.reserve("gone", (scope,), 1))
        await until(lambda: valkey._task is not None and not valkey._waiting)
        waiting.cancel()
        await asyncio.wait({waiting})
    finally:
        server.resume()
    await shared.renew([])  # what was deferred is sent with it
    async with asyncio.timeout(PROGRAM_TIMEOUT_S):
        while isinstance(hold := await limiter.reserve(f"r{next(_numbers)}", (scope,), 1), Decision):
            await shared.renew([])
    limiter.settle(hold, 0)
    await limiter.close()
    assert limiter.shared_ids == set()


async def test_without_valkey_each_process_has_its_share() -> None:
    valkey = Valkey("unix:///nonexistent/valkey.sock", script(), timeout_s=PROGRAM_TIMEOUT_S)
    limiter, scope = TargetLimiter(SharedLimits(valkey), lambda: 3), LimitScope(id="target:p/a", max_streams=7)
    holds = [await take(limiter, scope) for _ in range(2)]
    assert (await refusal(limiter, scope)).limited_by == "streams"
    limiter.settle(holds[0], 0)
    await take(limiter, scope)
    assert await limiter.usage([scope]) == [None], "what others use is not known"
    await limiter.close()
    await valkey.close()
