"""Resumable streams at two nodes while readers lose their connections at random and Valkey fails in every way it can.

It is killed and comes back empty, or with what it had, or with what it had some time ago, as a replica that was behind;
it loses its data or its connections without a restart; it stands still. Both nodes go on, so every caller must get the
bytes of its stream, whatever happens, and pay once. In the end nothing is left: no reader, no event, no byte.

`make test` takes a small number of streams and a seed that changes with the commit, `make soak` many.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from streamweir.core.verdict import Verdict
from support.answers import openai_frames
from support.deadlines import WAIT_TIMEOUT_S
from support.fleet import Fleet, fleet
from support.gateway import KEY, Gate, until
from support.resuming_caller import ResumingCaller
from support.script import Drip, End, Head, Seen, Step
from support.soak import SOAKS, in_turn
from support.valkey import ValkeyServer

STREAMS = 300 if SOAKS else 30
AT_ONCE = 30
WORDS = 80
PACE_S = 0.01
SEEDS = range(8)
TOML = f"""
[streams]
max_per_key = 100000
[[models]]
id = "m"
targets = [{{ provider = "up", model = "gpt-4o" }}]
price = {{ input = 1000.0, output = 1000.0 }}
[[keys]]
name = "test"
key = "{KEY}"
max_streams = 1000
"""


@pytest.fixture
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


def frames_of(number: int) -> list[bytes]:
    return openai_frames([f"{number}.{word} " for word in range(WORDS)])


def script(request: Seen) -> list[Step]:
    number = int(request.json["messages"][0]["content"])
    body = b"".join(frames_of(number))
    return [Head(), Drip(body, PACE_S, len(body) // WORDS), End()]


class Chaos:
    def __init__(self, seed: int, nodes: Fleet, valkey: ValkeyServer) -> None:
        self._random = Random(seed)
        self._gates = nodes.gateways
        self._valkey = valkey
        self.callers = [ResumingCaller(self._anywhere) for _ in range(STREAMS)]
        self._begun = 0
        self._ended = 0
        self.done: Counter[str] = Counter()
        """What happened to Valkey, and how often."""

    def _anywhere(self) -> tuple[str, int]:
        return self._random.choice(self._gates).address

    async def run(self) -> None:
        async with asyncio.timeout(WAIT_TIMEOUT_S * (4 if SOAKS else 1)):
            callers = asyncio.gather(*(self._call(at) for at in range(AT_ONCE)))
            others = [asyncio.create_task(self._lose_connections()), asyncio.create_task(self._hurt_valkey())]
            try:
                await callers
            except BaseException as error:
                error.add_note(
                    f"{self.done}, not whole: {[each.__dict__ for each in self.callers if not each.is_whole]}"
                )
                raise
            finally:
                await asyncio.gather(*others)

    async def _call(self, first: int) -> None:
        for number in range(first, STREAMS, AT_ONCE):
            self._begun = max(self._begun, number + 1)
            messages = [{"role": "user", "content": str(number)}]
            headers = (("idempotency-key", f"chaos-{number}"),)
            await self.callers[number].ask(
                model="m", messages=messages, stream_options={"include_usage": True}, headers=headers
            )
            self._ended += 1

    @property
    def _received(self) -> int:
        return sum(len(caller.events) for caller in self.callers)

    @property
    def _is_over(self) -> bool:
        return self._ended == STREAMS

    async def _until_received(self, events: int, at_most_s: float = WAIT_TIMEOUT_S) -> None:
        """So many more of all callers together."""
        target, clock = self._received + events, asyncio.get_running_loop().time
        last = clock() + at_most_s
        while self._received < target and not self._is_over and clock() < last:
            await asyncio.sleep(0.001)

    async def _lose_connections(self) -> None:
        while not self._is_over:
            await self._until_received(self._random.randrange(1, 20), at_most_s=0.5)
            self._random.choice(self.callers[: self._begun]).lose_connection()

    async def _hurt_valkey(self) -> None:
        ways: list[Callable[[], object]] = [
            self._restart_empty,
            self._restart_with_data,
            self._restart_with_old_data,
            self._lose_data,
            self._lose_connections_of_valkey,
            self._stand_still,
        ]
        while not self._is_over:
            self._random.shuffle(ways)
            for way in ways:
                await self._until_received(self._random.randrange(AT_ONCE, 10 * AT_ONCE))
                if not self._is_over:
                    self.done[way.__name__] += 1
                    await way()  # type: ignore[misc]
        assert self._valkey.is_running

    async def _restart_empty(self) -> None:
        self._valkey.kill()
        await self._until_received(self._random.randrange(60), at_most_s=0.3)
        (self._valkey.folder / "dump.rdb").unlink(missing_ok=True)
        self._valkey.start()

    async def _restart_with_data(self) -> None:
        assert self._valkey.execute("SAVE") == b"+OK\r\n"
        self._valkey.kill()
        await self._until_received(self._random.randrange(60), at_most_s=0.3)
        self._valkey.start()

    async def _restart_with_old_data(self) -> None:
        assert self._valkey.execute("SAVE") == b"+OK\r\n"
        await self._until_received(self._random.randrange(20 * AT_ONCE))
        self._valkey.kill()
        self._valkey.start()

    async def _lose_data(self) -> None:
        self._valkey.flush()

    async def _lose_connections_of_valkey(self) -> None:
        self._valkey.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    async def _stand_still(self) -> None:
        self._valkey.pause()
        await self._until_received(self._random.randrange(60), at_most_s=0.3)
        self._valkey.resume()


async def assert_nothing_left(gateways: list[Gate], callers: list[ResumingCaller]) -> None:
    """After every stream was deleted."""
    for gate in gateways:
        table = gate.gateway._streams.table
        for caller in callers:
            stream = table.own(caller.stream_id)
            if stream is not None:
                stream.delete()
        assert table.store.held_bytes == 0
        shared = gate.gateway._streams.shared
        assert shared is not None
        await until(lambda shared=shared: not (shared.publisher._has_work or shared.publisher._live))  # type: ignore[misc]
        assert not shared.remote._readers
        assert not shared._follower._followings
        await until(lambda shared=shared: not shared._readers)  # type: ignore[misc]


@pytest.mark.parametrize("seed", in_turn("chaos", SEEDS))
async def test_every_caller_gets_its_stream_whatever_happens_to_valkey(
    seed: int, tmp_path: Path, valkey: ValkeyServer
) -> None:
    async with fleet(script, tmp_path, count=2, valkey=valkey, toml=TOML, named=True) as nodes:
        chaos = Chaos(seed, nodes, valkey)
        await chaos.run()
        for number, caller in enumerate(chaos.callers):
            assert caller.refusal is None, (number, caller.refusal, caller.counts)
            assert caller.body == b"".join(frames_of(number)), (number, caller.counts)
        await until(lambda: sum(len(gate.records) for gate in nodes.gateways) >= STREAMS)
        assert STREAMS < 1000
        rows = await nodes.rows()
        refused = [row for row in rows if row.error == "streams_unavailable"]  # sent again while Valkey was away
        assert all(not row.price for row in refused), refused
        rows = [row for row in rows if row not in refused]
        assert len(rows) == STREAMS, [(row.verdict, row.error) for row in rows if row.verdict != Verdict.COMPLETED]
        assert {(row.verdict, row.price) for row in rows} == {(Verdict.COMPLETED.value, rows[0].price)}
        assert (await nodes.spent_and_held()) == (sum(row.price or 0 for row in rows), 0)
        counts = sum((caller.counts for caller in chaos.callers), Counter[str]())
        assert sum(row.resumed or 0 for row in rows) > STREAMS / 3
        print(f"\n{STREAMS} streams, seed {seed}: {dict(chaos.done)}, {dict(counts)}")  # noqa: T201
        await assert_nothing_left(nodes.gateways, chaos.callers)
