"""The slots of a pool: the limit, the order of waiters, and that none is lost."""

import asyncio
import random
import time
from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest

from streamweir.core.errors import GatewayFault
from streamweir.upstream.pool import Pool
from support.upstream_server import settled

LONG_S = 10.0


class Thing:
    """What a pool keeps, without a socket."""

    def __init__(self, pool: "Pool[Thing]") -> None:
        self.is_usable = True
        self._pool = pool

    def drop(self) -> None:
        self.is_usable = False
        self._pool.remove(self)


def make_pool(most: int = 1, wait_s: float = LONG_S, keep_s: float = LONG_S) -> Pool[Thing]:
    return Pool(max_connections=most, wait_s=wait_s, keep_s=keep_s)


def begin(work: Coroutine[Any, Any, Thing | None]) -> "asyncio.Task[Thing | None]":
    return asyncio.get_running_loop().create_task(work)


def counts(pool: Pool[Thing]) -> tuple[int, int, int]:
    return pool.in_use, pool.idle, pool.waiting


async def refused(work: Awaitable[object]) -> str:
    with pytest.raises(GatewayFault) as raised:
        await work
    return raised.value.code


def test_a_pool_has_at_least_one_slot() -> None:
    with pytest.raises(ValueError, match="at least one"):
        make_pool(0)


async def test_the_one_used_last_is_taken_first() -> None:
    pool = make_pool(3)
    things = [Thing(pool) for _ in range(3)]
    for _ in things:
        assert await pool.take() is None
    assert counts(pool) == (3, 0, 0)
    for thing in things:
        pool.put_back(thing)
    assert counts(pool) == (0, 3, 0)
    assert [await pool.take() for _ in things] == things[::-1]
    pool.close()


async def test_kept_ones_count_but_do_not_stand_in_the_way() -> None:
    pool = make_pool(2)
    await pool.take()
    await pool.take()
    pool.put_back(Thing(pool))
    pool.free()
    assert counts(pool) == (0, 1, 0)
    assert await pool.take() is not None
    assert await pool.take() is None
    assert counts(pool) == (2, 0, 0)
    pool.close()


async def test_one_that_died_unnoticed_is_not_given_out() -> None:
    pool = make_pool()
    thing = Thing(pool)
    await pool.take()
    pool.put_back(thing)
    thing.is_usable = False
    assert await pool.take() is None
    assert counts(pool) == (1, 0, 0)


async def test_waiters_are_served_in_their_order() -> None:
    pool = make_pool()
    thing = Thing(pool)
    await pool.take()
    order: list[int] = []

    async def use(number: int) -> Thing | None:
        kept = await pool.take()
        order.append(number)
        if kept is None:
            pool.free()
        else:
            pool.put_back(kept)
        return kept

    users = [begin(use(number)) for number in range(5)]
    await settled(lambda: pool.waiting == 5)
    pool.put_back(thing)
    assert await asyncio.gather(*users) == [thing] * 5
    assert order == [0, 1, 2, 3, 4]
    assert counts(pool) == (0, 1, 0)
    pool.close()


async def test_no_request_overtakes_a_waiter() -> None:
    pool = make_pool()
    await pool.take()
    first = begin(pool.take())
    await settled(lambda: pool.waiting == 1)
    pool.free()
    late = begin(pool.take())
    assert await first is None
    assert not late.done()
    pool.free()
    assert await late is None
    assert counts(pool) == (1, 0, 0)


async def test_waiting_ends_as_overloaded() -> None:
    pool = make_pool(wait_s=0.005)
    await pool.take()
    assert await refused(pool.take()) == "overloaded"
    assert counts(pool) == (1, 0, 0)
    pool.free()
    assert counts(pool) == (0, 0, 0)


async def test_a_cancelled_waiter_frees_its_turn() -> None:
    pool = make_pool()
    await pool.take()
    first, second = begin(pool.take()), begin(pool.take())
    await settled(lambda: pool.waiting == 2)
    first.cancel()
    pool.free()  # the first is cancelled, but has not run since
    assert await second is None
    await asyncio.gather(first, return_exceptions=True)
    assert first.cancelled()
    assert counts(pool) == (1, 0, 0)


@pytest.mark.parametrize("with_thing", [True, False])
async def test_a_waiter_cancelled_after_it_got_a_slot_passes_it_on(with_thing: bool) -> None:
    pool = make_pool()
    await pool.take()
    first, second = begin(pool.take()), begin(pool.take())
    await settled(lambda: pool.waiting == 2)
    thing = Thing(pool) if with_thing else None
    if thing is not None:
        pool.put_back(thing)
    else:
        pool.free()
    first.cancel()
    assert await second is thing
    assert first.cancelled()
    assert counts(pool) == (1, 0, 0)
    second_place = begin(pool.take())
    await settled(lambda: pool.waiting == 1)
    second_place.cancel()
    await asyncio.gather(second_place, return_exceptions=True)
    assert counts(pool) == (1, 0, 0)


async def test_a_slot_passed_on_by_the_last_waiter_is_free() -> None:
    pool = make_pool()
    await pool.take()
    waiter = begin(pool.take())
    await settled(lambda: pool.waiting == 1)
    pool.put_back(Thing(pool))
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert counts(pool) == (0, 1, 0)
    pool.close()


async def test_a_connection_that_closes_before_its_waiter_gets_it_leaves_the_slot() -> None:
    pool = make_pool()
    await pool.take()
    waiter = begin(pool.take())
    await settled(lambda: pool.waiting == 1)
    thing = Thing(pool)
    pool.put_back(thing)
    thing.drop()
    assert await waiter is None
    assert counts(pool) == (1, 0, 0)


async def test_a_waiter_cancelled_as_it_is_refused() -> None:
    pool = make_pool(wait_s=0)
    await pool.take()
    waiter = begin(pool.take())
    await settled(lambda: pool.waiting == 1)
    await settled(lambda: pool.waiting == 0)
    waiter.cancel()
    result = await asyncio.gather(waiter, return_exceptions=True)
    assert isinstance(result[0], asyncio.CancelledError | GatewayFault)
    assert counts(pool) == (1, 0, 0)


async def test_unused_ones_are_dropped_after_a_while() -> None:
    pool = make_pool(3, keep_s=0.01)
    things = [Thing(pool) for _ in range(3)]
    for _ in things:
        await pool.take()
    for thing in things[:2]:
        pool.put_back(thing)
    await settled(lambda: not things[0].is_usable)
    pool.put_back(things[2])
    assert things[2].is_usable
    await settled(lambda: pool.idle == 0)
    assert not any(thing.is_usable for thing in things)


async def test_each_is_dropped_in_its_own_time() -> None:
    pool, loop = make_pool(2, keep_s=0.01), asyncio.get_running_loop()
    dropped_at: dict[Thing, float] = {}

    class Timed(Thing):
        def drop(self) -> None:
            super().drop()
            dropped_at[self] = time.monotonic()

    old, young = Timed(pool), Timed(pool)
    await pool.take()
    await pool.take()
    pool.put_back(old)
    later = loop.time() + 0.005
    await settled(lambda: loop.time() > later)
    kept_since = time.monotonic()
    pool.put_back(young)
    await settled(lambda: len(dropped_at) == 2)
    assert list(dropped_at) == [old, young]
    assert dropped_at[young] >= kept_since + 0.01


async def test_one_that_is_used_again_is_kept_again() -> None:
    pool = make_pool(2, keep_s=0.01)
    old, busy = Thing(pool), Thing(pool)
    await pool.take()
    await pool.take()
    pool.put_back(old)
    pool.put_back(busy)
    assert await pool.take() is busy
    await settled(lambda: not old.is_usable)
    assert busy.is_usable
    pool.put_back(busy)
    assert pool.idle == 1
    await settled(lambda: not busy.is_usable)


async def test_close() -> None:
    pool = make_pool(3)
    kept, used, parting = Thing(pool), Thing(pool), Thing(pool)
    for _ in range(3):
        await pool.take()
    pool.add_lingering(parting)
    pool.put_back(kept)
    assert await pool.take() is kept
    pool.put_back(kept)
    await pool.take()
    pool.put_back(kept)
    pool.close()
    assert not kept.is_usable
    assert not parting.is_usable
    pool.put_back(used)
    assert not used.is_usable
    pool.free()
    assert counts(pool) == (0, 0, 0)
    assert await pool.take() is None, "who began before the close is still served"
    late = Thing(pool)
    pool.put_back(late)
    assert not late.is_usable
    assert counts(pool) == (0, 0, 0)


async def test_close_with_some_waiting() -> None:
    pool = make_pool()
    await pool.take()
    waiters = [begin(pool.take()) for _ in range(2)]
    await settled(lambda: pool.waiting == 2)
    pool.close()
    assert counts(pool) == (1, 0, 2)
    used = Thing(pool)
    pool.put_back(used)
    assert await waiters[0] is used
    pool.free()
    assert await waiters[1] is None
    assert counts(pool) == (1, 0, 0)
    late = Thing(pool)
    pool.add_lingering(late)
    assert not late.is_usable


@pytest.mark.parametrize("seed", range(20))
async def test_no_slot_is_ever_lost(seed: int) -> None:
    chance = random.Random(seed)
    most = chance.randint(1, 3)
    pool = make_pool(most, wait_s=chance.choice([0.0, 0.001, LONG_S]))
    most_seen = 0

    async def use() -> None:
        nonlocal most_seen
        thing = await pool.take()
        most_seen = max(most_seen, pool.in_use)
        try:
            for _ in range(chance.randint(0, 3)):
                await asyncio.sleep(0)
        finally:
            if chance.random() < 0.5:
                pool.put_back(thing or Thing(pool))
            else:
                pool.free()

    tasks = []
    for _ in range(200):
        tasks.append(asyncio.get_running_loop().create_task(use()))
        if chance.random() < 0.3:
            await asyncio.sleep(0)
        if chance.random() < 0.3:
            chance.choice(tasks).cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (pool.in_use, pool.waiting) == (0, 0)
    assert most_seen <= most
    assert pool.idle <= most
    pool.close()
    assert pool.idle == 0
