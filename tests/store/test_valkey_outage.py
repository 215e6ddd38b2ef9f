"""Valkey killed, frozen, flushed, full, read-only, silent or rude: one exception, nothing left, no answer mixed up."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from streamweir.policy.limits.key_limits import KeyLimits
from streamweir.policy.limits.limit_request import BudgetCharge, LimitRequest
from streamweir.store.limits.errors import SharedError, SharedUnavailable
from streamweir.store.limits.shared import SharedLimits, open_shared, script
from streamweir.store.limits.valkey import Valkey
from support.valkey import ValkeyServer

PROGRAM_TIMEOUT_S = 30.0
CANARY = "canary-secret-7b1f"
BUDGET = BudgetCharge("key:a:total", 100, "budget_exceeded")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def limit_request(request_id: str, amount: int = 10) -> LimitRequest:
    return LimitRequest(request_id=request_id, key_id="a", rpm=1000, max_streams=100, amount=amount, charges=(BUDGET,))


@asynccontextmanager
async def limits_of(
    url: str, *, timeout_s: float = 0.05, clock: Clock | None = None, lease_s: float = 60.0
) -> AsyncIterator[SharedLimits]:
    valkey = Valkey(url, script(), timeout_s=timeout_s, clock=clock or Clock())
    shared = SharedLimits(valkey, lease_s=lease_s)
    try:
        yield shared
    finally:
        await shared.close()


async def refused(work: Awaitable[object]) -> str:
    with pytest.raises(SharedUnavailable) as caught:
        await work
    assert caught.value.__cause__ is None
    return str(caught.value)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Something that the server is about to do by itself."""
    async with asyncio.timeout(PROGRAM_TIMEOUT_S):
        while not await is_so():
            await asyncio.sleep(0)


async def recovered(shared: SharedLimits, clock: Clock) -> None:
    """After an outage, as soon as somebody is let through; the machine may be too busy for the first."""

    async def is_back() -> bool:
        clock.now += 60.0
        try:
            await shared.seed(BUDGET.account, 0)
        except SharedUnavailable:
            return False
        return True

    await until(is_back)


def valkey_of(shared: SharedLimits) -> Valkey:
    return shared._valkey


async def is_unavailable(shared: SharedLimits) -> bool:
    return shared.is_unavailable


async def is_settled(shared: SharedLimits, used: int) -> bool:
    try:
        await shared.renew([])
        return await shared.used(BUDGET.account) == used
    except SharedUnavailable:
        return False


async def test_a_dead_one_is_asked_five_times_and_then_left_alone_for_a_minute() -> None:
    clock = Clock()
    with ValkeyServer() as server:
        async with limits_of(server.url, clock=clock, timeout_s=PROGRAM_TIMEOUT_S) as shared:
            await shared.seed(BUDGET.account, 0)
            server.kill()
            for _ in range(5):
                assert not shared.is_unavailable
                assert await refused(shared.reserve(limit_request("r1"))) == "cannot connect to Valkey"
            assert shared.is_unavailable
            assert not valkey_of(shared)._deferred, "nobody has heard of it"
            server.start()
            clock.now = 59.9
            assert "not used for a while" in await refused(shared.reserve(limit_request("r1")))
            clock.now = 60.0
            assert (await shared.reserve(limit_request("r1"))).missing == (BUDGET.account,), "restarted, and empty"
            assert not shared.is_unavailable


async def test_where_it_is_still_dead_one_a_minute_finds_out() -> None:
    clock = Clock()
    with ValkeyServer() as server:
        server.kill()
        async with limits_of(server.url, clock=clock, timeout_s=PROGRAM_TIMEOUT_S) as shared:
            for _ in range(5):
                await refused(shared.peek("a", KeyLimits(rpm=1, tpm=1, max_streams=1)))
            clock.now = 60.0
            reasons = await asyncio.gather(
                *(refused(shared.peek("a", KeyLimits(rpm=1, tpm=1, max_streams=1))) for _ in range(10))
            )
            assert reasons.count("cannot connect to Valkey") == 1
            clock.now = 119.9
            assert "not used for a while" in await refused(shared.peek("a", KeyLimits(rpm=1, tpm=1, max_streams=1)))


async def test_an_unnoticed_restart_costs_no_call() -> None:
    with ValkeyServer() as server:
        async with limits_of(server.url, timeout_s=PROGRAM_TIMEOUT_S) as shared:
            await shared.seed(BUDGET.account, 0)
            server.kill()
            server.start()
            decisions = await asyncio.gather(*(shared.reserve(limit_request(f"r{number}")) for number in range(20)))
            assert all(decision.missing == (BUDGET.account,) for decision in decisions)
            assert not shared.is_unavailable


async def test_a_flushed_one_is_seeded_again_and_old_settlements_change_nothing() -> None:
    with ValkeyServer() as server:
        async with limits_of(server.socket_url, timeout_s=PROGRAM_TIMEOUT_S) as shared:
            await shared.seed(BUDGET.account, 0)
            assert (await shared.reserve(limit_request("r1"))).is_allowed
            server.flush()
            assert (await shared.reserve(limit_request("r2"))).missing == (BUDGET.account,)
            await shared.seed(BUDGET.account, 10)  # the ledger knows of the first
            assert (await shared.reserve(limit_request("r2"))).is_allowed
            await refused(shared.extend("r1", 1, ()))
            await shared.renew(["r1"])
            await shared.settle("r1", 5, 3)
            assert await shared.used(BUDGET.account) == 20
            await shared.correct(BUDGET.account, 13)
            await shared.settle("r2", 5, 3)
            assert await shared.used(BUDGET.account) == 6


async def test_a_frozen_one_delays_five_and_no_more() -> None:
    clock = Clock()
    with ValkeyServer() as server:
        async with limits_of(server.socket_url, clock=clock, timeout_s=0.02) as shared:
            await recovered(shared, clock)
            server.pause()
            for _ in range(5):
                assert await refused(shared.reserve(limit_request("r1"))) == "Valkey does not answer in time"
            await until(lambda: is_unavailable(shared))
            assert "not used for a while" in await refused(shared.reserve(limit_request("r1")))
            server.resume()
            await recovered(shared, clock)
            assert not shared.is_unavailable


async def test_a_reservation_after_the_timeout_is_released() -> None:
    clock = Clock()
    with ValkeyServer() as server:
        async with limits_of(server.socket_url, clock=clock, timeout_s=0.02) as shared:
            await recovered(shared, clock)
            server.pause()
            for number in range(3):
                await refused(shared.reserve(limit_request(f"r{number}")))
            server.resume()
            await recovered(shared, clock)
            await until(lambda: is_settled(shared, 0))
            decision = await shared.peek("a", KeyLimits(rpm=1000, max_streams=1))
            assert decision.is_allowed


async def test_a_settlement_that_could_not_be_delivered_is_delivered_later() -> None:
    clock = Clock()
    with ValkeyServer() as server:
        async with limits_of(server.socket_url, clock=clock, timeout_s=0.02) as shared:
            await recovered(shared, clock)
            await until_reserved(shared, "r1")
            await until_reserved(shared, "r2")
            server.pause()
            for _ in range(7):  # the breaker opens on the way
                await shared.settle("r1", 5, 3)
            await shared.release("r2")
            server.resume()
            await recovered(shared, clock)
            await until(lambda: is_settled(shared, 3))


async def test_deferred_calls_alone_do_not_keep_it_connecting() -> None:
    """Without a pause, for as long as Valkey was away."""
    connections = 0

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    async def is_idle() -> bool:
        return shared._valkey._task is None

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with limits_of(f"redis://{host}:{port}/0", timeout_s=PROGRAM_TIMEOUT_S) as shared:
        for number in range(3):
            await shared.settle(f"r{number}", 1, 1)
            await until(is_idle)
            assert len(shared._valkey._deferred) == number + 1
        assert connections <= 6
    server.close()


async def until_reserved(shared: SharedLimits, request_id: str) -> None:
    async def is_reserved() -> bool:
        try:
            return (await shared.reserve(limit_request(request_id))).is_allowed
        except SharedUnavailable:
            return False

    await until(is_reserved)


async def test_a_cancelled_call_leaves_no_answer_and_no_reservation() -> None:
    chance = Random(11)
    with ValkeyServer() as server:
        async with limits_of(server.socket_url, timeout_s=PROGRAM_TIMEOUT_S) as shared:
            await shared.seed(BUDGET.account, 0)
            for account in range(30):
                await shared.seed(f"account:{account}", account)
            for round_number in range(20):
                reserving = [
                    asyncio.create_task(shared.reserve(limit_request(f"r{round_number}.{number}", 1)))
                    for number in range(30)
                ]
                asking = [asyncio.create_task(shared.used(f"account:{number}")) for number in range(30)]
                for _ in range(chance.randrange(6)):
                    await asyncio.sleep(0)
                for task in (*reserving, *asking):
                    if chance.random() < 0.5:
                        task.cancel()
                await asyncio.wait((*reserving, *asking))
                for number, asked in enumerate(asking):
                    assert asked.cancelled() or asked.result() == number
                for number, task in enumerate(reserving):
                    if not task.cancelled():
                        assert task.result().is_allowed
                        await shared.settle(f"r{round_number}.{number}", 1, 0)
            await until(lambda: is_settled(shared, 0))
            assert (await shared.peek("a", KeyLimits(max_streams=1))).is_allowed
            connections = server.execute("CLIENT", "LIST", "TYPE", "NORMAL").count(b"id=")
            assert connections == 2, "ours, and the one that asks"


async def test_nothing_is_left_when_it_is_closed() -> None:
    with ValkeyServer() as server:
        async with limits_of(server.socket_url, timeout_s=PROGRAM_TIMEOUT_S) as shared:
            await shared.seed(BUDGET.account, 0)
            server.pause()
            waiting = [asyncio.create_task(shared.reserve(limit_request(f"r{number}"))) for number in range(3)]
            await asyncio.sleep(0)
            await shared.close()
            for task in waiting:
                assert await refused(task) == "the connection to Valkey is closed"
            server.resume()
            await refused(shared.seed(BUDGET.account, 0))
            await shared.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

        async def is_alone() -> bool:
            return server.execute("CLIENT", "LIST", "TYPE", "NORMAL").count(b"id=") == 1

        await until(is_alone)


async def test_a_full_one_and_a_read_only_one_change_nothing() -> None:
    with ValkeyServer() as server:
        async with limits_of(server.socket_url, timeout_s=PROGRAM_TIMEOUT_S) as shared:
            await shared.seed(BUDGET.account, 0)
            server.execute("CONFIG", "SET", "maxmemory", "1")
            assert await refused(shared.reserve(limit_request("r1"))) == "Valkey is out of memory"
            server.execute("CONFIG", "SET", "maxmemory", "0")
            assert (await shared.reserve(limit_request("r2"))).is_allowed
            server.execute("REPLICAOF", "127.0.0.1", "1")
            assert await refused(shared.reserve(limit_request("r3"))) == "Valkey is read-only"
            await shared.settle("r2", 1, 4)  # owed
            server.execute("REPLICAOF", "NO", "ONE")
            await until(lambda: is_settled(shared, 4))


async def test_one_that_handles_one_call_answers_the_others() -> None:
    with ValkeyServer() as server:
        async with limits_of(server.socket_url, timeout_s=PROGRAM_TIMEOUT_S) as shared:
            server.execute("SET", "{streamweir}:a:ws:bad", "not a number")
            bad = LimitRequest(
                request_id="bad", key_id="b", amount=1, charges=(BudgetCharge("ws:bad", 9, "insufficient_quota"),)
            )
            for _ in range(6):
                answers = await asyncio.gather(
                    shared.peek("a", KeyLimits(rpm=1)),
                    shared.seed("ws:bad", 0),
                    shared.reserve(bad),
                    return_exceptions=True,
                )
                assert not isinstance(answers[0], BaseException)
            assert not shared.is_unavailable


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"-LOADING Valkey is loading the dataset in memory\r\n", "Valkey is loading its data"),
        (b"-NOAUTH Authentication required.\r\n", "Valkey refused the user name or the password"),
        (b"-NOPERM " + CANARY.encode() + b" may not\r\n", "Valkey answers with an error (ERR)"),
        (b"-MISCONF " + CANARY.encode() + b"\r\n", "Valkey answers with an error (MISCONF)"),
        (b"HTTP/1.1 400 " + CANARY.encode() + b"\r\n\r\n", "cannot connect to Valkey"),
        (b"$5\r\nhal", "cannot connect to Valkey"),
        (b"", "cannot connect to Valkey"),
    ],
)
async def test_an_invalid_answer_is_reported_with_our_own_text(answer: bytes, reason: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with limits_of(f"redis://127.0.0.1:{port}/0", timeout_s=PROGRAM_TIMEOUT_S) as shared:
            assert await refused(shared.peek("a", KeyLimits(rpm=1))) == reason


async def test_a_wrong_password_is_reported_without_it() -> None:
    with ValkeyServer() as server:
        server.execute("CONFIG", "SET", "requirepass", "right")
        url = f"redis://:{CANARY}@127.0.0.1:{server.port}/0"
        async with limits_of(url, timeout_s=PROGRAM_TIMEOUT_S) as shared:
            assert await refused(shared.reserve(limit_request("r1"))) == "Valkey refused the user name or the password"
        async with limits_of(url.replace(CANARY, "right"), timeout_s=PROGRAM_TIMEOUT_S) as shared:
            await shared.seed(BUDGET.account, 0)


async def test_a_server_that_accepts_and_does_not_answer_is_not_called_again() -> None:
    clock, held = Clock(), list[asyncio.StreamWriter]()

    def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with limits_of(f"redis://user:{CANARY}@127.0.0.1:{port}/0", clock=clock, timeout_s=0.01) as shared:
            assert await refused(shared.peek("a", KeyLimits(rpm=1))) == "Valkey does not answer in time"
            await until(lambda: is_unavailable(shared))
        for writer in held:
            writer.close()


async def test_every_form_of_address_is_taken() -> None:
    with ValkeyServer() as server:
        for url in (server.url, server.url.replace("redis", "valkey"), server.socket_url):
            shared = open_shared(url, prefix="forms", timeout_s=PROGRAM_TIMEOUT_S)
            await shared.seed("ws:w", 7)
            assert await shared.used("ws:w") == 7
            await shared.close()
    for scheme in ("rediss", "valkeys"):
        await open_shared(f"{scheme}://user:{CANARY}@host.invalid:1/0").close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        CANARY,
        f"http://user:{CANARY}@host/0",
        f"redis://:{CANARY}@host:{CANARY}/0",
        f"redis://:{CANARY}@host/0?max_connections={CANARY}",
        f"redis://:{CANARY}@host/0?{CANARY}={CANARY}",
        f"redis://:{CANARY}@[host/0",
    ],
)
def test_an_invalid_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(SharedError) as caught:
        open_shared(url)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_the_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "streamweir.store.limits.valkey")
    monkeypatch.setitem(sys.modules, "redis.asyncio.connection", None)
    with pytest.raises(SharedError, match=r"extra `shared`"):
        open_shared("redis://127.0.0.1:1/0")
