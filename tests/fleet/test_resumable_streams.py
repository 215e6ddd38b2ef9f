"""Two nodes behind HAProxy, on PostgreSQL and Valkey, with 200 resumable streams: what a restart and a death of a node
cost the callers.

`make test-fleet` runs it, and prints what it counted.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import select

from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import ledger, open_requests, requests
from support.fleet_program import FleetNode, started
from support.forked_processes import fork_server
from support.gateway import KEY, text_of
from support.haproxy import HaProxy, why_absent
from support.resuming_caller import ResumingCaller
from support.stores import migrated_url
from support.valkey import ValkeyServer

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(why_absent() is not None, reason=why_absent() or ""),
]

CALLERS = 200
NODES = ("node1", "node2")
WORDS = 60
PACE_MS = 200
CONFIG = """
[server]
node = "{node}"
[server.limits]  # of a machine that may be busy with something else
turn_s = 60
lag_s = 60
[store]
url = "{url}"
[shared]
url = "{shared}"
[streams]
max_per_key = 100000
[[providers]]
name = "sim"
kind = "sim"
[[models]]
id = "m"
targets = [{{ provider = "sim", model = "lorem?words={words}&pace_ms={pace_ms}" }}]
price = {{ input = 1.0, output = 2.0 }}
[[keys]]
name = "fleet"
key = "{key}"
budget_usd = 1000
max_streams = 10000
"""
ROWS = select(requests.c.request_id, requests.c.verdict, requests.c.resumed, requests.c.flags)


class Crowd:
    """Callers that ask for one stream after the other, until they are told to stop."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._is_over = False
        self.ended: list[ResumingCaller] = []
        self.current: dict[int, ResumingCaller] = {}

    async def run(self) -> None:
        await asyncio.gather(*(self._call(number) for number in range(CALLERS)))

    def stop(self) -> None:
        self._is_over = True

    async def _call(self, number: int) -> None:
        await asyncio.sleep(number * PACE_MS / 1000 * WORDS / CALLERS)  # not all at once
        while not self._is_over:
            caller = self.current[number] = ResumingCaller(lambda: self._address)
            await caller.ask(model="m")
            self.ended.append(caller)

    def counts(self) -> Counter[str]:
        return sum((caller.counts for caller in self.ended), Counter())


def nodes_of(folder: Path, url: str, valkey: ValkeyServer) -> list[FleetNode]:
    known = {"url": url, "shared": valkey.url, "key": KEY, "words": WORDS, "pace_ms": PACE_MS}
    return [FleetNode(name, folder / name, CONFIG.format(node=name, **known)) for name in NODES]


async def check_ledger(nodes: Sequence[FleetNode], url: str, folder: Path, ids: list[str]) -> Counter[str]:
    """One row, and at most one charge, for each; nothing open. The verdicts."""
    checked = await fork_server().run("credits", "check", *nodes[0].words)
    assert checked.status == 0, checked
    store = await open_store(url, folder)
    try:
        rows = await store.read(lambda conn: conn.execute(ROWS).all(), timeout_s=60.0)
        charged = await store.read(
            lambda conn: list(conn.scalars(select(ledger.c.request_id).where(ledger.c.kind == "settle"))),
            timeout_s=60.0,
        )
        running = await store.read(lambda conn: list(conn.scalars(select(open_requests.c.request_id))), timeout_s=60.0)
    finally:
        await store.close()
    assert sorted(row.request_id for row in rows) == sorted(ids), "one row each"
    assert running == []
    assert max(Counter(each for each in charged if each is not None).values()) == 1, "one charge each"
    return Counter(f"{row.verdict}, resumed: {bool(row.resumed)}" for row in rows)


async def whole_streams(balancer: HaProxy, callers: Sequence[ResumingCaller]) -> int:
    """Compares what callers have put together with what is kept of their streams. How many there still are."""
    compared = 0
    for caller in callers:
        whole = ResumingCaller(lambda: balancer.address)
        whole.stream_id = caller.stream_id
        await whole.come_back()
        if whole.refusal is None:
            assert whole.body == caller.body
            compared += 1
    return compared


async def test_a_rolling_restart_loses_no_byte_of_any_answer(tmp_path: Path) -> None:
    url = await migrated_url("postgres", tmp_path)
    with ValkeyServer() as valkey:
        nodes = nodes_of(tmp_path, url, valkey)
        async with started(nodes):
            with HaProxy({node.name: node.address for node in nodes}) as balancer:
                await balancer.sees(**dict.fromkeys(NODES, True))
                crowd = Crowd(balancer.address)
                running = asyncio.create_task(crowd.run())
                for node in nodes:
                    so_far = len(crowd.ended)
                    while len(crowd.ended) < so_far + CALLERS // 2 or len(crowd.current) < CALLERS:
                        assert not running.done()
                        await asyncio.sleep(0.05)
                    assert await node.stop() == 0
                    await node.start()
                    await balancer.sees(**dict.fromkeys(NODES, True))
                crowd.stop()
                await running
                compared = await whole_streams(balancer, Random(0).sample(crowd.ended, 100))
            for node in nodes:
                assert await node.stop() == 0
        callers, counts = crowd.ended, crowd.counts()
        verdicts = await check_ledger(nodes, url, tmp_path, [caller.request_id for caller in callers])
        longest_s = max(caller.away_s for caller in callers)
        print(  # noqa: T201 (the counts are what this is run for)
            f"\nrolling restart: {len(callers)} streams, connections {dict(counts)}, {dict(verdicts)}, "
            f"longest pause at a change {longest_s:.2f} s, {compared} of 100 compared with what is kept"
        )
        assert counts["clean close"] > CALLERS / 2, "many were moved"
        assert not any(name.startswith("cut") for name in counts), "nobody was cut off"
        (text,) = {text_of(caller.body) for caller in callers}
        assert len(text.split()) == WORDS
        assert all(caller.is_whole and caller.refusal is None for caller in callers)
        assert compared > 50
        assert {verdict.partition(",")[0] for verdict in verdicts} == {"completed"}


async def test_the_streams_of_a_killed_node_end_with_an_error_within_seconds_and_are_settled(tmp_path: Path) -> None:
    url = await migrated_url("postgres", tmp_path)
    with ValkeyServer() as valkey:
        nodes = nodes_of(tmp_path, url, valkey)
        async with started(nodes):
            with HaProxy({node.name: node.address for node in nodes}) as balancer:
                await balancer.sees(**dict.fromkeys(NODES, True))
                callers = [ResumingCaller(lambda: balancer.address) for _ in range(CALLERS)]
                running = [asyncio.create_task(caller.ask(model="m")) for caller in callers]
                while not all(len(caller.events) > 5 for caller in callers):
                    await asyncio.sleep(0.05)
                killed_at = time.monotonic()
                await nodes[0].kill()
                lost_s: list[float] = []
                for task in asyncio.as_completed(running):
                    await task
                    lost = sum(b"stream_lost" in caller.body for caller in callers)
                    while len(lost_s) < lost:
                        lost_s.append(time.monotonic() - killed_at)
                ids = [caller.request_id for caller in callers]
                settled_s = await settled_by_other(url, tmp_path, ids, killed_at)
                await nodes[0].start()
            for node in nodes:
                assert await node.stop() == 0
        verdicts = await check_ledger(nodes, url, tmp_path, ids)
        print(  # noqa: T201 (as above)
            f"\nkill -9: {len(callers)} streams, {len(lost_s)} lost with an error after {max(lost_s):.1f} s at most, "
            f"settled by the other node after {settled_s:.1f} s, {dict(verdicts)}"
        )
        lost_callers = [caller for caller in callers if b"stream_lost" in caller.body]
        assert 0 < len(lost_callers) < CALLERS
        (text,) = {text_of(caller.body) for caller in callers if caller not in lost_callers}
        assert len(text.split()) == WORDS
        for caller in lost_callers:
            assert text.startswith(text_of(caller.body)), "what had come is a part of the answer"
        orphaned = sum(count for verdict, count in verdicts.items() if verdict.startswith("orphaned"))
        assert orphaned == len(lost_callers)
        assert max(lost_s) < 30


async def settled_by_other(url: str, folder: Path, ids: list[str], killed_at: float) -> float:
    """Until every request has its row, while the dead node is still dead. How long after its death."""
    store = await open_store(url, folder)
    try:
        while True:
            rows = await store.read(lambda conn: list(conn.scalars(select(requests.c.request_id))), timeout_s=60.0)
            if len(rows) == len(ids):
                return time.monotonic() - killed_at
            await asyncio.sleep(0.5)
    finally:
        await store.close()
