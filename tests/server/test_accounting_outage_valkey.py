"""Limits that two gateways share, and their behaviour while Valkey is dead, frozen, flushed or new (G13-G15).

Together they are exact. Without Valkey each process has its share, so that there is always a limit; the database
decides about money. A slow Valkey is worse than a dead one: a request waits for one answer at most, and soon not at
all. When it is available again it counts for all processes, and what it lost is corrected by the ledger.
"""

import asyncio
import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec import structs

from streamweir.server.accounting.intervals import DEFAULT_INTERVALS
from streamweir.server.accounting.shared_limiter import SharedLimiter
from streamweir.server.telemetry.log import close_log, configure_log
from support.accounting_gateway import PROMPT, AccountingSetup, error_of
from support.answers import openai_stream
from support.deadlines import PROGRAM_TIMEOUT_S
from support.fleet import Fleet, fleet, limiter_of, metric, shared_of, wait_until_shared
from support.gateway import Gate, chat_request, until
from support.outage import ANSWER, COST, HELD, TOKENS, USED, ask
from support.program_deadlines import LONG_INTERVALS
from support.script import End, Head, Send, Step, Wait
from support.valkey import ValkeyServer

HASTY = structs.replace(LONG_INTERVALS, shared_pause_s=0.1)
"""It is asked again soon."""

OUTAGES: dict[str, tuple[Callable[[ValkeyServer], object], Callable[[ValkeyServer], object]]] = {
    "dead": (ValkeyServer.kill, ValkeyServer.start),
    "frozen": (ValkeyServer.pause, ValkeyServer.resume),
}
each_outage = pytest.mark.parametrize("outage", OUTAGES)


def allow_valkey(nodes: Fleet, seconds: float) -> None:
    """How long it may take from now on: as usual while it is hurt, and long while it is whole, because a busy machine
    is no outage."""
    for setup in nodes.setups:
        shared_of(setup)._valkey._timeout_s = seconds


async def ask_all(nodes: Fleet, secret: str, count: int) -> Counter[int]:
    """So many of each gateway, at once: how often each status came."""
    replies = await asyncio.gather(*(ask(gate, secret) for gate in nodes.gateways for _ in range(count)))
    return Counter(reply.status for reply in replies)


def is_degraded(gate: Gate) -> bool:
    return metric(gate, "shared_degraded") == 1


async def is_left_alone(nodes: Fleet, secret: str) -> None:
    """Until nobody asks Valkey any more."""
    allow_valkey(nodes, DEFAULT_INTERVALS.shared_timeout_s)
    for setup in nodes.setups:
        async with asyncio.timeout(PROGRAM_TIMEOUT_S):
            while not shared_of(setup).is_unavailable:
                await ask(setup.gate, secret)


async def is_asked_again(nodes: Fleet) -> None:
    """Until Valkey answers everybody, without a request that would have to find out."""
    allow_valkey(nodes, PROGRAM_TIMEOUT_S)
    for setup in nodes.setups:
        async with asyncio.timeout(PROGRAM_TIMEOUT_S):
            while is_degraded(setup.gate) or shared_of(setup).is_unavailable:
                limiter_of(setup).renew([])
                await wait_until_shared(setup)
                await asyncio.sleep(0.01)


async def test_requests_and_tokens_of_a_minute_are_counted_together(tmp_path: Path) -> None:
    with ValkeyServer() as valkey:
        async with fleet(ANSWER, tmp_path, count=2, valkey=valkey) as nodes:
            assert await ask_all(nodes, await nodes.new_key("rpm", rpm=7), 10) == {200: 7, 429: 13}
            for gate in nodes.gateways:
                await gate.vacated()
            tokens = PROMPT + TOKENS
            secret = await nodes.new_key("tpm", tpm=3 * tokens)
            replies = [await ask(gate, secret) for gate in nodes.gateways]
            left = [reply.header("x-ratelimit-remaining-tokens") for reply in replies]
            assert left == [str(2 * tokens), str(3 * tokens - sum(USED) - tokens)], "it knows of the other's"
            assert not any(is_degraded(gate) for gate in nodes.gateways)


async def test_parallel_streams_are_counted_together(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Wait(go_on), Send(openai_stream(usage=USED)), End()]
    with ValkeyServer() as valkey:
        async with fleet(script, tmp_path, count=2, valkey=valkey) as nodes:
            secret = await nodes.new_key(max_streams=4)
            pending = {asyncio.create_task(ask(gate, secret)) for gate in nodes.gateways for _ in range(10)}
            while len(pending) > 4:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                assert {task.result().status for task in done} == {429}
            await nodes.up.seen(4)
            go_on.set()
            assert [(await task).status for task in pending] == [200] * 4
            for setup in nodes.setups:
                await setup.gate.vacated()
                await wait_until_shared(setup)
            assert await ask_all(nodes, secret, 2) == {200: 4}


def lease_of(valkey: ValkeyServer, request_id: str) -> float:
    """When it ends; 0 where it has."""
    answer = valkey.execute("ZSCORE", "{streamweir}:leases", request_id)
    return float(answer.split(b"\r\n")[1] or b"0")


async def test_a_gateway_that_dies_leaves_no_slot_taken(tmp_path: Path) -> None:
    """What lives is renewed; what nobody renews lapses, and its end, should it come, changes nothing for others."""
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Wait(go_on), Send(openai_stream(usage=USED)), End()]
    intervals = structs.replace(LONG_INTERVALS, lease_s=1.0)
    with ValkeyServer() as valkey:
        async with fleet(script, tmp_path, count=2, valkey=valkey, intervals=intervals) as nodes:
            secret = await nodes.new_key(max_streams=1, budget_nano=HELD)
            dying, living = nodes.setups
            async with await dying.gate.connect() as client:
                await client.send(chat_request(key=secret, model="m", stream=True, max_tokens=TOKENS))
                await nodes.up.seen(1)
                (request_id,) = dying.storage.accounting._open
                first = lease_of(valkey, request_id)
                await until(lambda: lease_of(valkey, request_id) > first)  # by its upkeep
                await dying.maintenance.stop()
                assert error_of(await ask(living.gate, secret))["code"] == "concurrency_limit_exceeded"
                # Its place is free then, and its money too, as far as Valkey knows; the database still holds it.
                async with asyncio.timeout(PROGRAM_TIMEOUT_S):
                    while error_of(await ask(living.gate, secret))["code"] != "budget_exceeded":
                        await asyncio.sleep(0.01)
                go_on.set()
                assert (await client.response()).status == 200
            await dying.gate.vacated()
            await wait_until_shared(dying)


@pytest.mark.parametrize("is_known", [True, False], ids=["known to be dead", "silent"])
async def test_slots_of_a_killed_process_are_free_long_before_their_leases_end(tmp_path: Path, is_known: bool) -> None:
    """While both live nobody's slots are given to others, however short the lease of a process is."""
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Wait(go_on), Send(openai_stream(usage=USED)), End()]
    intervals = structs.replace(LONG_INTERVALS, tick_s=0.02, lease_s=3600.0, instance_s=3600.0 if is_known else 1.0)
    with ValkeyServer() as valkey:
        async with fleet(script, tmp_path, count=2, valkey=valkey, intervals=intervals) as nodes:
            secret = await nodes.new_key(max_streams=1, budget_nano=HELD)
            dying, living = nodes.setups
            async with await dying.gate.connect() as client:
                await client.send(chat_request(key=secret, model="m", stream=True, max_tokens=TOKENS))
                await nodes.up.seen(1)
                assert error_of(await ask(living.gate, secret))["code"] == "concurrency_limit_exceeded"
                await dying.maintenance.stop()
                if is_known:
                    living.storage.accounting.instance_ended(dying.storage.node.instance)
                # Its place is free then; the database still holds its money.
                async with asyncio.timeout(PROGRAM_TIMEOUT_S):
                    while error_of(await ask(living.gate, secret))["code"] != "budget_exceeded":
                        await asyncio.sleep(0.01)
                go_on.set()
                assert (await client.response()).status == 200
            await dying.gate.vacated()
            await wait_until_shared(dying)


@each_outage
async def test_without_valkey_each_process_has_a_share(tmp_path: Path, outage: str) -> None:
    """Of requests, of tokens and of streams; and all of it together again when it is back. The log says both."""
    hurt, heal = OUTAGES[outage]
    log = io.StringIO()
    configure_log("json", log)
    with ValkeyServer() as valkey:
        async with fleet(ANSWER, tmp_path, count=2, valkey=valkey, intervals=HASTY) as nodes:
            await nodes.count_peers()
            other = await nodes.new_key("other", rpm=1_000_000)
            by_requests = await nodes.new_key("requests", rpm=7)
            by_tokens = await nodes.new_key("tokens", tpm=7 * (PROMPT + TOKENS))
            afterwards = await nodes.new_key("afterwards", rpm=7)
            hurt(valkey)
            await is_left_alone(nodes, other)
            assert await ask_all(nodes, by_requests, 10) == {200: 2 * 3, 429: 14}
            served = (await ask_all(nodes, by_tokens, 10))[200]
            share, held, used = 7 * (PROMPT + TOKENS) // 2, PROMPT + TOKENS, sum(USED)
            most = 2 * (1 + (share - held) // used)  # what is settled for less gives room to another
            assert 2 <= served <= most
            assert all(is_degraded(gate) for gate in nodes.gateways)
            heal(valkey)
            await is_asked_again(nodes)
            assert await ask_all(nodes, afterwards, 10) == {200: 7, 429: 13}
            assert not any(is_degraded(gate) for gate in nodes.gateways)
    close_log()
    for event in ("away", "back"):
        assert log.getvalue().count(f'"accounting: valkey {event}"') == 2, "each process says it once"


async def test_without_a_configured_valkey_each_process_has_a_share(tmp_path: Path) -> None:
    async with fleet(ANSWER, tmp_path, count=2, database="postgres") as nodes:
        await nodes.count_peers()
        assert await ask_all(nodes, await nodes.new_key(rpm=7), 10) == {200: 2 * 3, 429: 14}
        assert not any(is_degraded(gate) for gate in nodes.gateways), "it is as the operator wants it"


async def test_g14_a_frozen_one_is_waited_for_a_few_times_and_then_left_alone(tmp_path: Path) -> None:
    intervals = structs.replace(HASTY, shared_pause_s=DEFAULT_INTERVALS.shared_pause_s)
    with ValkeyServer() as valkey:
        async with fleet(ANSWER, tmp_path, count=2, valkey=valkey, intervals=intervals) as nodes:
            secret = await nodes.new_key(rpm=1_000_000, budget_nano=1000 * HELD)
            valkey.pause()
            await is_left_alone(nodes, secret)
            breakers = [shared_of(setup)._valkey._breaker for setup in nodes.setups]
            moments = [breaker._until for breaker in breakers]
            assert await ask_all(nodes, secret, 10) == {200: 20}
            assert all(is_degraded(gate) for gate in nodes.gateways)
            assert [breaker._until for breaker in breakers] == moments, "nobody was sent to find out"
            assert not any(shared_of(setup)._valkey._waiting for setup in nodes.setups)
            valkey.resume()


async def test_streams_have_a_share_too_while_valkey_is_unavailable(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Wait(go_on), Send(openai_stream(usage=USED)), End()]
    with ValkeyServer() as valkey:
        async with fleet(script, tmp_path, count=2, valkey=valkey, intervals=HASTY) as nodes:
            await nodes.count_peers()
            secret = await nodes.new_key(max_streams=5)
            valkey.kill()
            pending = {asyncio.create_task(ask(gate, secret)) for gate in nodes.gateways for _ in range(6)}
            while len(pending) > 4:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                assert {task.result().status for task in done} == {429}
            valkey.start()
            go_on.set()
            assert [(await task).status for task in pending] == [200] * 4


async def ask_and_settle(setup: AccountingSetup, secret: str) -> int:
    """What is held for a request is more than it costs: the next one asks when that is given back everywhere."""
    status = (await ask(setup.gate, secret)).status
    await setup.gate.vacated()
    assert await setup.writer.flush(PROGRAM_TIMEOUT_S)
    limiter = setup.limiter
    assert isinstance(limiter, SharedLimiter)
    await asyncio.gather(*limiter._tasks)
    return status


@each_outage
async def test_money_is_never_overspent_without_valkey(tmp_path: Path, outage: str) -> None:
    hurt, heal = OUTAGES[outage]
    with ValkeyServer() as valkey:
        async with fleet(ANSWER, tmp_path, count=2, database="postgres", valkey=valkey, intervals=HASTY) as nodes:
            secret = await nodes.new_key(budget_nano=10 * COST + HELD - COST)
            account = f"key:{nodes.setups[0].key_id(secret)}:total"
            for setup in nodes.setups:
                assert await ask_and_settle(setup, secret) == 200
            allow_valkey(nodes, DEFAULT_INTERVALS.shared_timeout_s)
            hurt(valkey)
            for setup in nodes.setups * 2:
                assert await ask_and_settle(setup, secret) == 200
            heal(valkey)
            await is_asked_again(nodes)
            for gate in nodes.gateways:
                await gate.vacated()
            await nodes.assert_sound()
            for setup in nodes.setups:
                await setup.storage.accounting.correct()
            known = await shared_of(nodes.setups[0]).used(account)
            assert known == (None if outage == "dead" else 6 * COST), "though it did not hear of all of them"
            served = [await ask_and_settle(setup, secret) for setup in nodes.setups * 4].count(200)
            assert served == 4
            for gate in nodes.gateways:
                await gate.vacated()
            assert await nodes.spent_and_held() == (10 * COST, 0)


async def test_g15_after_a_flush_it_is_seeded_and_corrected(tmp_path: Path) -> None:
    """What was held before the flush is settled for less afterwards: Valkey does not know, the ledger does."""
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Wait(go_on), Send(openai_stream(usage=USED)), End()]
    with ValkeyServer() as valkey:
        async with fleet(script, tmp_path, count=2, valkey=valkey) as nodes:
            secret = await nodes.new_key(budget_nano=2 * HELD)
            account = f"key:{nodes.setups[0].key_id(secret)}:total"
            shared = shared_of(nodes.setups[0])
            pending = [asyncio.create_task(ask(gate, secret)) for gate in nodes.gateways]
            await nodes.up.seen(2)
            valkey.flush()
            assert (await ask(nodes.gateways[0], secret)).status == 429
            assert await shared.used(account) == 2 * HELD, "seeded with what is held"
            go_on.set()
            assert [(await task).status for task in pending] == [200, 200]
            for setup in nodes.setups:
                await setup.gate.vacated()
                await wait_until_shared(setup)
            assert await shared.used(account) == 2 * HELD, "it knows of no such requests"
            assert await nodes.spent_and_held() == (2 * COST, 0)
            await nodes.setups[0].storage.accounting.correct()
            assert await shared.used(account) == 2 * COST
            await nodes.assert_shared_agrees()


async def test_a_key_without_a_limit_needs_no_valkey(tmp_path: Path) -> None:
    with ValkeyServer() as valkey:
        async with fleet(ANSWER, tmp_path, count=2, valkey=valkey, intervals=HASTY) as nodes:
            secret = await nodes.new_key()
            valkey.pause()
            assert await ask_all(nodes, secret, 5) == {200: 10}
            valkey.resume()


async def test_losing_valkey_and_its_return_are_noticed_without_traffic(tmp_path: Path) -> None:
    intervals = structs.replace(HASTY, tick_s=0.01, instance_s=0.04)
    with ValkeyServer() as valkey:
        async with fleet(ANSWER, tmp_path, count=1, valkey=valkey, intervals=intervals) as nodes:
            (gate,) = nodes.gateways
            await asyncio.to_thread(valkey.kill)
            await until(lambda: is_degraded(gate))
            await asyncio.to_thread(valkey.start)
            await until(lambda: not is_degraded(gate))


async def test_restarted_empty_in_mid_load(tmp_path: Path) -> None:
    """Nobody is without a limit, nothing is spent twice, and the books agree, whatever was asked when."""
    with ValkeyServer() as valkey:
        async with fleet(ANSWER, tmp_path, count=2, valkey=valkey, intervals=HASTY) as nodes:
            await nodes.count_peers()
            secret = await nodes.new_key(rpm=30, budget_nano=1000 * HELD)
            is_over = asyncio.Event()
            loads = [asyncio.create_task(_load(gate, secret, is_over)) for gate in nodes.gateways]
            for _ in range(3):
                served = nodes.up.served
                await asyncio.to_thread(valkey.kill)
                await nodes.up.until(lambda served=served: nodes.up.served > served or nodes.up.served >= 30)  # type: ignore[misc]
                await asyncio.to_thread(valkey.start)
            is_over.set()
            statuses = Counter[int]()
            for load in loads:
                statuses.update(await load)
            assert set(statuses) <= {200, 429}
            # A minute has one limit in Valkey, once more for each time it forgot, and a share of each process.
            assert statuses[200] <= 30 * 5
            for gate in nodes.gateways:
                await gate.vacated()
            assert await nodes.spent_and_held() == (statuses[200] * COST, 0)


async def _load(gate: Gate, secret: str, is_over: asyncio.Event) -> Sequence[int]:
    statuses = []
    while not is_over.is_set():
        statuses.append((await ask(gate, secret)).status)
    return statuses
