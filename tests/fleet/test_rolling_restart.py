"""Three nodes behind HAProxy, on PostgreSQL and Valkey, restarted one after the other under load: nobody notices.

`make test-fleet` runs it, and prints what it counted; `make test` leaves it out, for it takes a minute. The balancer
checks each second and repeats nothing, so whatever a node refuses or cuts, a caller sees.
"""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import select

from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import instances, requests
from support.fleet_program import FleetNode, started
from support.forked_processes import fork_server
from support.gateway import KEY, chat_request, frames_of
from support.haproxy import HaProxy, why_absent
from support.raw_client import CutShort, RawClient
from support.stores import migrated_url
from support.valkey import ValkeyServer

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(why_absent() is not None, reason=why_absent() or ""),
]

CALLERS = 200
NODES = ("node1", "node2", "node3")
WORDS = 10
PACE_MS = 150
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

ROWS = select(requests.c.request_id, requests.c.verdict, instances.c.node).join(
    instances, instances.c.id == requests.c.instance
)


class Crowd:
    """Callers that ask, one request after the other, until they are told to stop; and what became of it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._over = asyncio.Event()
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        """What was said with every other status than 200."""
        self.ids: list[str] = []

    async def run(self) -> None:
        await asyncio.gather(*(self._call(number) for number in range(CALLERS)))

    def stop(self) -> None:
        self._over.set()

    async def _call(self, number: int) -> None:
        while not self._over.is_set():
            async with await RawClient.open(self._address) as client:
                while await self._ask(client, is_streamed=number % 4 > 0) and not self._over.is_set():
                    pass

    async def _ask(self, client: RawClient, *, is_streamed: bool) -> bool:
        """False: this connection is of no more use."""
        self.counts["requests"] += 1
        try:
            await client.send(chat_request(model="m", stream=is_streamed))
            head = await client.head()
            self.counts[f"status {head.status}"] += 1
            if head.status != 200:
                body = await client.read_exactly(int(head.header("content-length") or 0))
                self.reasons[f"{head.status} {body[:200]!r}"] += 1
                return False
            self.ids.append(head.header("x-request-id") or "")
            if is_streamed:
                chunks = []
                while chunk := await client.chunk():
                    chunks.append(chunk)
                is_whole = frames_of(b"".join(chunks))[-1] == "[DONE]"
            else:
                body = await client.read_exactly(int(head.header("content-length") or 0))
                is_whole = b'"finish_reason":"stop"' in body
            self.counts["whole" if is_whole else "cut"] += 1
        except (CutShort, OSError, TimeoutError) as reason:
            self.counts[f"cut: {type(reason).__name__}"] += 1
            return False
        return head.header("connection") != "close"


async def test_a_rolling_restart_of_three_nodes_loses_no_request(tmp_path: Path) -> None:
    url = await migrated_url("postgres", tmp_path)
    with ValkeyServer() as valkey:
        known = {"url": url, "shared": valkey.url, "key": KEY, "words": WORDS, "pace_ms": PACE_MS}
        nodes = [FleetNode(name, tmp_path / name, CONFIG.format(node=name, **known)) for name in NODES]
        async with started(nodes):
            with HaProxy({node.name: node.address for node in nodes}) as balancer:
                await balancer.sees(**dict.fromkeys(NODES, True))
                crowd = Crowd(balancer.address)
                running = asyncio.create_task(crowd.run())
                for node in nodes:
                    so_far = crowd.counts["whole"]
                    while crowd.counts["whole"] < so_far + CALLERS:
                        await asyncio.sleep(0.05)
                    assert await node.stop() == 0
                    await node.start()
                    await balancer.sees(**dict.fromkeys(NODES, True))
                crowd.stop()
                await running
            for node in nodes:
                assert await node.stop() == 0
        print(dict(crowd.counts))  # noqa: T201 (the counts are what this is run for)
        assert set(crowd.counts) == {"requests", "status 200", "whole"}, crowd.reasons
        assert crowd.counts["requests"] == crowd.counts["whole"] == len(crowd.ids)
        checked = await fork_server().run("credits", "check", *nodes[0].words)
        assert checked.status == 0, checked
        store = await open_store(url, tmp_path)
        try:
            rows = await store.read(lambda conn: conn.execute(ROWS).all(), timeout_s=60.0)
        finally:
            await store.close()
        print(Counter(row.node for row in rows))  # noqa: T201 (as above)
        assert sorted(row.request_id for row in rows) == sorted(crowd.ids), "one row each"
        assert {row.verdict for row in rows} == {"completed"}
        assert {row.node for row in rows} == set(NODES), "each had its part"
