"""The reservations of a process in Valkey are released seconds after its death, and stay while it lives."""

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from streamweir.policy.limits.limit_request import BudgetCharge, LimitRequest
from streamweir.store.limits.shared import INSTANCE_S, SharedLimits, script
from streamweir.store.limits.valkey import Valkey
from support.valkey import ValkeyServer

PROGRAM_TIMEOUT_S = 30.0
LEASE_S = 60.0
STEP_S = INSTANCE_S / 4
BUDGET = BudgetCharge("key:a:total", 10, "budget_exceeded")
_prefixes = itertools.count()


class Fleet:
    """Processes that share limits, by one clock."""

    def __init__(self, valkey: Valkey) -> None:
        self.now = 1_794_750_000.0
        self._valkey = valkey
        self._prefix = f"instances{next(_prefixes)}"

    def process(self, name: str) -> SharedLimits:
        return SharedLimits(self._valkey, prefix=self._prefix, lease_s=LEASE_S, clock=lambda: self.now, instance=name)

    async def pass_time(self, seconds: float, *living: SharedLimits) -> list[bool]:
        """In steps, at each of which those who live say so. What each was told at last."""
        reported = [False] * len(living)
        for _ in range(round(seconds / STEP_S)):
            self.now += STEP_S
            reported = [await each.heartbeat() for each in living]
        return reported


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest_asyncio.fixture
async def fleet(server: ValkeyServer) -> AsyncIterator[Fleet]:
    valkey = Valkey(server.socket_url, script(), timeout_s=PROGRAM_TIMEOUT_S)
    yield Fleet(valkey)
    await valkey.close()


def limit_request(request_id: str, **terms: object) -> LimitRequest:
    members = {"max_streams": 1, "amount": 10, "charges": (BUDGET,), **terms}
    return LimitRequest(request_id=request_id, key_id="a", **members)  # type: ignore[arg-type]


async def test_a_slot_of_a_dead_process_is_free_seconds_later_with_its_money(fleet: Fleet) -> None:
    dead, living = fleet.process("dead"), fleet.process("living")
    await living.seed(BUDGET.account, 0)
    assert (await dead.reserve(limit_request("r1"))).is_allowed
    await fleet.pass_time(INSTANCE_S - STEP_S, living)
    assert (await living.reserve(limit_request("r2"))).limited_by == "streams"
    await fleet.pass_time(STEP_S, living)
    assert await living.used(BUDGET.account) == 0
    assert (await living.reserve(limit_request("r2"))).is_allowed


async def test_a_process_that_lives_keeps_its_slots(fleet: Fleet) -> None:
    one, other = fleet.process("one"), fleet.process("other")
    await one.seed(BUDGET.account, 0)
    assert (await one.reserve(limit_request("r1"))).is_allowed
    assert await fleet.pass_time(4 * INSTANCE_S, one, other) == [False, False]
    assert (await other.reserve(limit_request("r2"))).limited_by == "streams"
    assert await other.used(BUDGET.account) == 10
    await one.settle("r1", 1, 3)
    assert await other.used(BUDGET.account) == 3
    assert (await other.reserve(limit_request("r2", amount=1))).is_allowed


async def test_a_process_that_was_only_blocked_is_notified_and_gets_its_slots_back(fleet: Fleet) -> None:
    slow, other = fleet.process("slow"), fleet.process("other")
    await slow.seed(BUDGET.account, 0)
    await slow.reserve(limit_request("r1"))
    await fleet.pass_time(INSTANCE_S, other)
    assert await other.used(BUDGET.account) == 0
    assert (await slow.reserve(limit_request("of another key", amount=0, charges=()))).is_allowed
    assert await slow.heartbeat(), "whatever else it called before"
    await slow.renew(["r1"])
    assert not await slow.heartbeat()
    assert (await other.reserve(limit_request("r2"))).limited_by == "streams"
    assert await other.used(BUDGET.account) == 10


async def test_a_call_of_its_own_after_a_pause_does_not_make_it_dead(fleet: Fleet) -> None:
    alone = fleet.process("alone")
    await alone.seed(BUDGET.account, 0)
    await alone.reserve(limit_request("r1"))
    fleet.now += 2 * INSTANCE_S
    assert not await alone.heartbeat()
    assert await alone.used(BUDGET.account) == 10


async def test_an_outage_of_valkey_makes_no_process_dead(fleet: Fleet) -> None:
    one, other = fleet.process("one"), fleet.process("other")
    await one.seed(BUDGET.account, 0)
    await one.reserve(limit_request("r1"))
    await other.heartbeat()
    fleet.now += 2 * INSTANCE_S  # nobody could call
    assert (await other.reserve(limit_request("r2"))).limited_by == "streams"
    assert not await one.heartbeat()
    assert await other.used(BUDGET.account) == 10


async def test_a_dead_process_holds_nothing(fleet: Fleet) -> None:
    dead, living = fleet.process("dead"), fleet.process("living")
    await living.seed(BUDGET.account, 0)
    await dead.reserve(limit_request("r1"))
    await living.end_instance("dead")
    assert await living.used(BUDGET.account) == 0
    assert (await living.reserve(limit_request("r2"))).is_allowed
    await living.end_instance("dead")
    await living.end_instance("never heard of")
    assert (await living.reserve(limit_request("r3"))).limited_by == "streams"


async def test_many_slots_of_a_dead_process_are_freed_in_bounded_steps(fleet: Fleet) -> None:
    dead, living = fleet.process("dead"), fleet.process("living")
    await living.seed(BUDGET.account, 0)
    plenty = BudgetCharge(BUDGET.account, 10_000, "budget_exceeded")
    for number in range(600):
        await dead.reserve(limit_request(f"r{number}", max_streams=None, amount=1, charges=(plenty,)))
    await living.end_instance("dead")
    left = [await living.used(BUDGET.account) for _ in range(2)]
    assert left == [88, 0], "256 with each call"


async def test_a_request_that_its_process_has_forgotten_lapses_by_itself(fleet: Fleet) -> None:
    one = fleet.process("one")
    await one.seed(BUDGET.account, 0)
    await one.reserve(limit_request("r1"))
    await fleet.pass_time(LEASE_S, one)
    assert await one.used(BUDGET.account) == 0
    await one.settle("r1", 1, 3)
    assert await one.used(BUDGET.account) == 3


async def test_nothing_is_left_of_ended_processes(server: ValkeyServer, fleet: Fleet) -> None:
    one = fleet.process("one")
    await one.reserve(limit_request("r1", charges=()))
    await one.settle("r1", 1, 0)
    await fleet.process("other").end_instance("one")
    left = server.execute("KEYS", f"{{{fleet._prefix}}}:*")
    assert b":i:" not in left
    for name in (b":x:one", b":r:r1"):
        assert name not in left
    assert server.execute("ZRANGE", f"{{{fleet._prefix}}}:alive", "0", "-1") == b"*1\r\n$5\r\nother\r\n"
