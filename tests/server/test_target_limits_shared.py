"""Limits of targets that two gateways share through Valkey: together they are exact, and a dead one holds nothing."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from support.accounting_gateway import error_of
from support.answers import openai_stream
from support.deadlines import PROGRAM_TIMEOUT_S
from support.fleet import Fleet, fleet, shared_of, wait_until_shared
from support.gateway import KEY, Gate, chat_request, until
from support.outage import ANSWER
from support.program_deadlines import LONG_INTERVALS
from support.script import End, Head, Send, Step, Wait
from support.valkey import ValkeyServer

TWO_TARGETS = """
[[models]]
id = "m"
targets = [{{ provider = "up", model = "first", {limit} }}, {{ provider = "up", model = "second" }}]
"""
ONE_TARGET = '[[models]]\nid = "m"\ntargets = [{ provider = "up", model = "first", max_streams = 1 }]\n'


def asked(nodes: Fleet) -> Counter[str]:
    return Counter(seen.json["model"] for seen in nodes.up.requests)


async def ask_all(nodes: Fleet, count: int) -> Counter[int]:
    """So many of each gateway, at once."""
    replies = await asyncio.gather(
        *(gate.ask(key=KEY, model="m", stream=True) for gate in nodes.gateways for _ in range(count))
    )
    return Counter(reply.status for reply in replies)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_twenty_requests_of_a_minute_reach_the_first_target_and_the_others_the_second(
    tmp_path: Path, database: str
) -> None:
    """Of workers on one file, and of nodes."""
    with ValkeyServer() as valkey:
        toml = TWO_TARGETS.format(limit="rpm = 20")
        async with fleet(ANSWER, tmp_path, count=2, database=database, valkey=valkey, toml=toml) as nodes:
            assert await ask_all(nodes, 15) == {200: 30}
            assert asked(nodes) == {"first": 20, "second": 10}
            rows = await nodes.rows()
            assert [len(row.attempts) for row in rows] == [1] * 30


async def test_streams_of_both_never_exceed_the_limit(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Wait(go_on), Send(openai_stream(usage=(3, 5))), End()]
    with ValkeyServer() as valkey:
        toml = TWO_TARGETS.format(limit="max_streams = 3")
        async with fleet(script, tmp_path, count=2, valkey=valkey, toml=toml) as nodes:
            asking = asyncio.create_task(ask_all(nodes, 4))
            await nodes.up.seen(8)
            assert asked(nodes) == {"first": 3, "second": 5}
            go_on.set()
            assert await asking == {200: 8}
            for setup in nodes.setups:
                await setup.gate.vacated()
                await setup.storage.accounting.targets.close()
            assert await ask_all(nodes, 1) == {200: 2}
            assert asked(nodes) == {"first": 5, "second": 5}


async def test_room_of_a_running_process_is_renewed_and_that_of_a_dead_one_is_free(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Wait(go_on), Send(openai_stream(usage=(3, 5))), End()]
    intervals = structs.replace(LONG_INTERVALS, lease_s=1.0)
    with ValkeyServer() as valkey:
        async with fleet(script, tmp_path, count=2, valkey=valkey, toml=ONE_TARGET, intervals=intervals) as nodes:
            dying, living = nodes.setups
            async with await dying.gate.connect() as client:
                await client.send(chat_request(model="m", stream=True))
                await nodes.up.seen(1)
                (held,) = dying.storage.accounting.targets.shared_ids
                first = lease_of(valkey, held)
                await until(lambda: lease_of(valkey, held) > first)
                refused = await living.gate.ask(model="m", stream=True)
                assert (refused.status, error_of(refused)["code"]) == (429, "upstream_rate_limited")
                await dying.maintenance.stop()
                waiting = asyncio.create_task(reach(living.gate))
                await nodes.up.seen(2)  # nobody renews the first
                go_on.set()
                assert (await client.response()).status == 200
                await waiting
            await dying.gate.vacated()
            await wait_until_shared(dying)


async def reach(gate: Gate) -> None:
    async with asyncio.timeout(PROGRAM_TIMEOUT_S):
        while (await gate.ask(model="m", stream=True)).status != 200:
            await asyncio.sleep(0.01)


def lease_of(valkey: ValkeyServer, id: str) -> float:
    """When it ends; 0 if it has."""
    answer = valkey.execute("ZSCORE", "{streamweir}:leases", id)
    return float(answer.split(b"\r\n")[1] or b"0")


async def test_a_process_that_seemed_dead_holds_its_room_again(tmp_path: Path) -> None:
    """By its heartbeat, even beyond the limit: the request is running."""
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Wait(go_on), Send(openai_stream(usage=(3, 5))), End()]
    intervals = structs.replace(LONG_INTERVALS, tick_s=0.02, lease_s=3600.0, instance_s=1.0)
    with ValkeyServer() as valkey:
        async with fleet(script, tmp_path, count=2, valkey=valkey, toml=ONE_TARGET, intervals=intervals) as nodes:
            slow, other = nodes.setups
            async with await slow.gate.connect() as client:
                await client.send(chat_request(model="m", stream=True))
                await nodes.up.seen(1)
                (held,) = slow.storage.accounting.targets.shared_ids
                await shared_of(other).end_instance(slow.storage.node.instance)
                await until(lambda: lease_of(valkey, held) > 0)
                assert (await other.gate.ask(model="m", stream=True)).status == 429
                go_on.set()
                assert (await client.response()).status == 200


async def test_without_valkey_each_has_its_share(tmp_path: Path) -> None:
    with ValkeyServer() as valkey:
        toml = TWO_TARGETS.format(limit="rpm = 7")
        async with fleet(ANSWER, tmp_path, count=2, valkey=valkey, toml=toml) as nodes:
            await nodes.count_peers()
            valkey.kill()
            assert await ask_all(nodes, 5) == {200: 10}
            assert asked(nodes) == {"first": 6, "second": 4}
