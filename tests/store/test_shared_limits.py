"""Limits in Valkey: the same rules as in memory, step by step, and as in the simplest model."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
import pytest_asyncio
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from streamweir.policy.limits.key_limits import KeyLimits
from streamweir.policy.limits.limit_request import BudgetCharge, LimitRequest
from streamweir.policy.limits.local import LocalLimits
from streamweir.store.limits.errors import SharedUnavailable
from streamweir.store.limits.shared import SharedLimits, script
from streamweir.store.limits.valkey import Valkey
from support.limit_model import HISTORIES, LEASE_S, UNTIMED, Command, LimitModel, arguments_of, moments
from support.valkey import ValkeyServer

PROGRAM_TIMEOUT_S = 30.0
LOOKS = (
    ("a", KeyLimits(rpm=1000, tpm=1000, max_streams=2)),
    ("b", KeyLimits(rpm=1000, tpm=1000, max_streams=1)),
)
"""What is looked at after every step: all counts, and whether there are that many streams."""
BUDGET = BudgetCharge("key:a:total", 100, "budget_exceeded")
_prefixes = itertools.count()


class Clock:
    def __init__(self, now: float = 1_794_750_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def fresh(valkey: Valkey, clock: Clock | None, lease_s: float = LEASE_S) -> SharedLimits:
    """By itself, on a server that is shared."""
    return SharedLimits(valkey, prefix=f"test{next(_prefixes)}", lease_s=lease_s, clock=clock)


def limit_request(request_id: str, **terms: object) -> LimitRequest:
    return LimitRequest(request_id=request_id, key_id="a", **terms)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest_asyncio.fixture
async def valkey(server: ValkeyServer) -> AsyncIterator[Valkey]:
    valkey = Valkey(server.socket_url, script(), timeout_s=PROGRAM_TIMEOUT_S)
    yield valkey
    await valkey.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


@given(HISTORIES, st.sampled_from([1_000.0, 1_794_750_000.125]))
def test_memory_and_valkey_and_the_model_agree_on_every_step(
    server: ValkeyServer, runner: asyncio.Runner, history: list[Command], start: float
) -> None:
    runner.run(agree(server.socket_url, history, start))


async def agree(url: str, history: list[Command], start: float) -> None:
    valkey, clock = Valkey(url, script(), timeout_s=PROGRAM_TIMEOUT_S), Clock()
    model, memory, shared = LimitModel(LEASE_S), LocalLimits(lease_s=LEASE_S), fresh(valkey, clock)
    try:
        for number, (command, now) in enumerate(moments(history, start)):
            clock.now = now
            at = [] if command.name in UNTIMED else [now]
            if at:
                model.go_to(now)
            where = (number, command)
            words, options = arguments_of(command, model.charges_of(str(command.words[0])))
            expected = getattr(model, command.name)(*command.words)
            assert getattr(memory, command.name)(*words, *at, **options) == expected, where
            assert await answer_of(shared, command, words, options) == expected, where
            for look in LOOKS:
                expected = model.peek(*look)
                assert memory.peek(*look, now) == expected, where
                assert await shared.peek(*look) == expected, where
            assert {account: memory.used(account) for account in model.used} == model.used, where
        assert {account: await shared.used(account) for account in model.used} == model.used
    finally:
        await valkey.close()


async def answer_of(
    limits: SharedLimits, command: Command, words: tuple[object, ...], options: dict[str, object]
) -> object:
    method: Callable[..., Awaitable[object]] = getattr(limits, command.name)
    try:
        return await method(*words, **options)
    except SharedUnavailable:
        assert command.name == "extend", "it cannot tell"
        return "budget_exceeded"


async def test_what_is_reserved_by_one_is_counted_for_all_and_settled_by_any(
    server: ValkeyServer, valkey: Valkey
) -> None:
    other = Valkey(server.url, script(), timeout_s=PROGRAM_TIMEOUT_S)
    prefix = f"test{next(_prefixes)}"
    here, there = SharedLimits(valkey, prefix=prefix), SharedLimits(other, prefix=prefix)
    await here.seed(BUDGET.account, 40)
    await there.seed(BUDGET.account, 0)  # too late: what was known is used
    first = limit_request("r1", max_streams=1, amount=60, charges=(BUDGET,))
    assert (await here.reserve(first)).is_allowed
    refused = await there.reserve(limit_request("r2", amount=1, charges=(BUDGET,)))
    assert (refused.refusal, refused.limited_by) == ("budget_exceeded", BUDGET.account)
    assert (await there.reserve(limit_request("r3", max_streams=1))).refusal == "concurrency_limit_exceeded"
    await there.settle("r1", 5, 10)
    assert await here.used(BUDGET.account) == 50
    assert (await here.reserve(limit_request("r3", max_streams=1))).is_allowed
    await other.close()


async def test_an_account_that_is_not_known_is_named_and_nothing_is_reserved(valkey: Valkey) -> None:
    shared = fresh(valkey, Clock())
    charges = (BUDGET, BudgetCharge("ws:w", 5, "insufficient_quota"))
    await shared.seed("ws:w", 0)
    decision = await shared.reserve(limit_request("r1", rpm=1, amount=1, charges=charges))
    assert decision.missing == (BUDGET.account,)
    assert not decision.is_allowed
    assert decision.refusal is None
    assert not await shared.has_account(BUDGET.account)
    assert await shared.used("ws:w") == 0
    await shared.seed(BUDGET.account, 0)
    assert await shared.has_account(BUDGET.account)
    assert (await shared.reserve(limit_request("r1", rpm=1, amount=1, charges=charges))).is_allowed


async def test_money_is_exact_up_to_2_to_the_53(valkey: Valkey) -> None:
    shared, most = fresh(valkey, Clock()), 2**53
    charges = (BudgetCharge("ws:w", most, "insufficient_quota"),)
    await shared.seed("ws:w", most - 5)
    assert (await shared.reserve(limit_request("r1", amount=6, charges=charges))).refusal == "insufficient_quota"
    assert (await shared.reserve(limit_request("r2", amount=4, charges=charges))).is_allowed
    assert await shared.extend("r2", 2, charges) == "insufficient_quota"
    assert await shared.extend("r2", 1, charges) is None
    assert await shared.used("ws:w") == most
    await shared.settle("r2", 0, 3)
    assert await shared.used("ws:w") == most - 2


async def test_what_was_corrected_meanwhile_never_goes_below_nothing(valkey: Valkey) -> None:
    shared = fresh(valkey, Clock())
    await shared.seed(BUDGET.account, 0)
    await shared.reserve(limit_request("r1", amount=50, charges=(BUDGET,)))
    await shared.correct(BUDGET.account, 7)
    await shared.settle("r1", 0, 2)
    assert await shared.used(BUDGET.account) == 0


async def test_accounts_charged_or_settled_just_now_are_not_adjusted(valkey: Valkey) -> None:
    clock = Clock()
    shared = fresh(valkey, clock)
    await shared.seed(BUDGET.account, 0)
    await shared.reserve(limit_request("r1", amount=50, charges=(BUDGET,)))
    clock.now += 4.9
    assert not await shared.adjust(BUDGET.account, 7), "the books may not know of it yet"
    await shared.extend("r1", 5, (BUDGET,))
    clock.now += 4.9
    assert not await shared.adjust(BUDGET.account, 7)
    await shared.settle("r1", 0, 20)
    clock.now += 4.9
    assert not await shared.adjust(BUDGET.account, 7)
    assert await shared.used(BUDGET.account) == 20
    assert not await shared.adjust(BUDGET.account, 19, at_least=True)
    assert await shared.used(BUDGET.account) == 20
    assert not await shared.adjust(BUDGET.account, 21, at_least=True)
    assert await shared.used(BUDGET.account) == 21, "more than was known here, then"
    clock.now += 0.1
    assert await shared.adjust(BUDGET.account, 7)
    assert await shared.used(BUDGET.account) == 7


async def test_what_is_pinned_is_not_adjusted_until_its_lease_is_over(valkey: Valkey) -> None:
    clock = Clock()
    shared = fresh(valkey, clock)
    await shared.seed(BUDGET.account, 50)
    await shared.seed("ws:w", 50)
    await shared.pin([BUDGET.account])
    assert await shared.adjust("ws:w", 7)
    clock.now += LEASE_S - 0.1
    assert not await shared.adjust(BUDGET.account, 7)
    await shared.pin([BUDGET.account])
    clock.now += LEASE_S - 0.1
    assert not await shared.adjust(BUDGET.account, 7)
    assert await shared.used(BUDGET.account) == 50
    clock.now += 0.1
    assert await shared.adjust(BUDGET.account, 7)
    assert await shared.adjust("ws:unknown", 7), "it is seeded when somebody draws on it"
    assert await shared.used("ws:unknown") is None


async def test_charged_accounts_are_reported_once_for_correction(valkey: Valkey) -> None:
    shared = fresh(valkey, Clock())
    other = BudgetCharge("ws:w", 9, "insufficient_quota")
    await shared.reserve(limit_request("r1", amount=1, charges=(BUDGET, other)))
    await shared.reserve(limit_request("r2", amount=1, charges=(BUDGET,)))
    assert shared.charged_accounts() == [BUDGET.account, other.account]
    assert shared.charged_accounts() == []


async def test_the_servers_clock_counts_where_no_other_is_given(valkey: Valkey) -> None:
    shared = fresh(valkey, None)
    decision = await shared.reserve(limit_request("r1", rpm=1))
    assert decision.requests is not None
    assert 60 < decision.requests.reset_s <= 60.5
    refused = await shared.reserve(limit_request("r2", rpm=1))
    assert 0 < refused.retry_after_s <= decision.requests.reset_s


async def test_many_leases_lapse_in_bounded_steps(valkey: Valkey) -> None:
    clock = Clock()
    shared = fresh(valkey, clock)
    charges = (BudgetCharge("ws:w", 1000, "insufficient_quota"),)
    await shared.seed("ws:w", 0)
    for number in range(300):
        await shared.reserve(limit_request(f"r{number}", amount=1, charges=charges))
    await shared.renew(f"r{number}" for number in range(10, 300))
    clock.now += LEASE_S - 1
    await shared.renew(f"r{number}" for number in range(290, 300))
    clock.now += 1
    assert (await shared.peek("a", KeyLimits(max_streams=11))).is_allowed, "streams are free at once"
    await shared.peek("a", KeyLimits())
    assert await shared.used("ws:w") == 10


async def test_every_key_expires_and_nothing_is_left_of_what_was_settled(server: ValkeyServer, valkey: Valkey) -> None:
    clock, prefix = Clock(), f"test{next(_prefixes)}"
    shared = SharedLimits(valkey, prefix=prefix, lease_s=LEASE_S, clock=clock)
    await shared.seed(BUDGET.account, 0)
    for number in range(4):
        await shared.reserve(
            limit_request(f"r{number}", rpm=9, tpm=99, tokens=3, max_streams=9, amount=2, charges=(BUDGET,))
        )
    await shared.extend("r0", 1, (BUDGET,))
    await shared.renew(["r1"])
    await shared.settle("r2", 1, 1)
    clock.now += LEASE_S
    await shared.settle("r3", 1, 1)
    await shared.correct("ws:w", 3)
    await shared.pin([BUDGET.account])
    async with Redis.from_url(server.socket_url) as client:
        keys = [key.decode() async for key in client.scan_iter(match=f"{{{prefix}}}*")]
        at_once = f"t:{BUDGET.account}"  # goes after seconds
        assert {key.partition(":")[2] for key in keys} | {at_once} == {
            at_once,
            "clock",
            "k:a",
            "r:r0",
            "r:r1",
            f"a:{BUDGET.account}",
            f"n:{BUDGET.account}",
            f"p:{BUDGET.account}",
            "a:ws:w",
        }
        assert all([await client.ttl(key) > 0 for key in keys])


async def test_a_script_that_was_lost_is_sent_again(server: ValkeyServer, valkey: Valkey) -> None:
    shared = fresh(valkey, Clock())
    for number in range(2):
        assert server.execute("SCRIPT", "FLUSH") == b"+OK\r\n"
        limit_requests = [limit_request(f"r{number}.{each}", rpm=100) for each in range(20)]
        decisions = await asyncio.gather(*map(shared.reserve, limit_requests))
        left = sorted(each.requests.remaining for each in decisions if each.requests is not None)
        assert left == list(range(80 - 20 * number, 100 - 20 * number))
