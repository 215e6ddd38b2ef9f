"""Many resumable streams that nobody comes back to: memory stays within its bound, and each is settled.

Resumability is given up first, with a flag: a stream that somebody reads goes on to its end. `make soak` has a thousand
of them, and the memory of a process of its own.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamweir.core.verdict import Verdict
from streamweir.server.streams.frames import FRAME_BYTES
from support.accounting_gateway import keeping
from support.answers import openai_frames
from support.gateway import KEY, Gate, chat_request, until
from support.resuming_caller import ResumingCaller
from support.script import End, Head, Line, Seen, Send, Step, Wait
from support.serve_process import Program, get, served
from support.soak import SOAKS, in_turn

COUNT = 1000 if SOAKS else 60
READ = 10
"""One of so many is read to its end."""
TEXTS = [f"{number} " + "x" * 2000 for number in range(20)]
FRAMES = openai_frames(TEXTS)
STREAM_BYTES = sum(map(len, FRAMES))
TOTAL_BYTES = COUNT * STREAM_BYTES // 4
ABOUT_USAGE = {"include_usage": True}
TOML = f"""
[streams]
max_bytes = {2 * STREAM_BYTES}
total_bytes = {TOTAL_BYTES}
max_per_key = 100000
[[models]]
id = "m"
targets = [{{ provider = "up", model = "gpt-4o" }}]
price = {{ input = 1.0, output = 1.0 }}
[[keys]]
name = "test"
key = "{KEY}"
max_streams = 100000
"""


class Upstream:
    """Sends the first events of each stream, then all but the last text, then the rest, when the test says so."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.ends = asyncio.Event()
        self.gate: Gate | None = None
        self.most_bytes = 0

    def script(self, _: Seen) -> list[Step]:
        frames = [step for frame in FRAMES[2:-4] for step in (Send(frame), self._look)]
        return [
            Head(),
            Send(FRAMES[0] + FRAMES[1]),
            Wait(self.goes_on),
            *frames,
            Wait(self.ends),
            Send(b"".join(FRAMES[-4:])),
            End(),
        ]

    async def _look(self, _: Line) -> None:
        assert self.gate is not None
        self.most_bytes = max(self.most_bytes, self.gate.gateway._streams.table.store.held_bytes)


async def abandon(gate: Gate, order: Sequence[int], random: Random) -> None:
    """Begins so many streams, and leaves them."""
    for _ in order:
        async with await gate.connect() as client:
            await client.send(chat_request(model="m", stream=True, headers=(("x-streamweir-resumable", "true"),)))
            await client.head()
            if random.random() < 0.5:
                await client.chunk()
            if random.random() < 0.5:
                client.reset()


@pytest.mark.parametrize("seed", in_turn("abandoned", range(3)))
async def test_memory_is_bounded_and_streams_that_are_read_go_on(seed: int, tmp_path: Path) -> None:
    upstream, random = Upstream(), Random(seed)
    async with keeping(upstream.script, tmp_path, TOML) as setup:
        gate = upstream.gate = setup.gate
        streams = gate.gateway._streams
        readers = [ResumingCaller(lambda: gate.address) for _ in range(COUNT // READ)]
        reading = [asyncio.create_task(reader.ask(model="m", stream_options=ABOUT_USAGE)) for reader in readers]
        abandoned = COUNT - len(readers)
        await abandon(gate, range(abandoned), random)
        await until(lambda: streams.table.counts().away == abandoned)
        await until(lambda: all(reader.events for reader in readers))
        upstream.goes_on.set()
        await until(lambda: all(len(reader.events) == len(FRAMES) - 4 for reader in readers))
        running = streams.table._of_request.values()
        await until(lambda: all(each.frames is None or each.frames.events == len(FRAMES) - 4 for each in running))
        given_up = dict(streams._given_up)
        assert given_up["total_bytes"] > COUNT // 2, "there was not enough memory"  # type: ignore[index]
        longest = max(map(len, FRAMES)) + FRAME_BYTES
        assert TOTAL_BYTES * 3 // 4 < upstream.most_bytes <= TOTAL_BYTES + longest
        upstream.ends.set()
        await asyncio.gather(*reading)
        for reader in readers:
            assert reader.body == b"".join(FRAMES)
            assert reader.counts == {"status 200": 1, "end": 1}, "it was not interrupted"
        await gate.settled(COUNT)
        verdicts = Counter((record.verdict, "resume_given_up" in record.flags) for record in gate.records)
        left, kept = verdicts[Verdict.CLIENT_GONE, True], verdicts[Verdict.COMPLETED, False]
        went_on = verdicts[Verdict.COMPLETED, True]
        assert left + kept + went_on == COUNT, verdicts
        assert left <= abandoned
        assert left + went_on == sum(given_up.values())
        rows = await setup.rows()
        assert sorted(row.request_id for row in rows) == sorted(record.id for record in gate.records)
        streams.table.give_up_all()
        assert streams.table.store.held_bytes == 0


class Watched:
    """A program's memory, and what it says of its streams."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.most_rss = 0
        self.most_held = 0

    def rss(self) -> int:
        for line in Path(f"/proc/{self._program.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    async def look(self) -> Counter[str]:
        async with await self._program.connect() as client:
            await client.send(get("/metrics", KEY))
            text = (await client.response()).body.decode()
        found: Counter[str] = Counter()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in ("streamweir_resumable_streams", "streamweir_resumable_bytes"):
                    found[sample.labels.get("state", "bytes")] = int(sample.value)
                elif sample.name == "streamweir_streams_given_up_total":
                    found["given up"] += int(sample.value)
        self.most_rss, self.most_held = max(self.most_rss, self.rss()), max(self.most_held, found["bytes"])
        return found


PROGRAM_TOML = """
[store]
url = "sqlite:///streamweir.db"
[server]
metrics_public = true
[server.limits]  # of a machine that may be busy with something else
turn_s = 60
lag_s = 60
[streams]
grace_s = {grace_s}
keep_s = 0
max_bytes = 1048576
total_bytes = {total_bytes}
max_per_key = 100000
[[providers]]
name = "sim"
kind = "sim"
[[models]]
id = "m"
targets = [{{ provider = "sim", model = "lorem?words=2000&pace_ms=20" }}]
price = {{ input = 1.0, output = 1.0 }}
[[keys]]
name = "test"
key = "{key}"
max_streams = 100000
resumable = true
"""
GRACE_S = 20.0
PROGRAM_BYTES = 16 * 1024 * 1024
OVERHEAD = 96 * 1024
"""Of an open stream with its upstream, here a simulated one in the same process, and of its row on the way to the
database."""


@pytest.mark.soak
@pytest.mark.alone
async def test_a_process_stays_within_its_bound_and_settles_a_thousand_abandoned_streams(tmp_path: Path) -> None:
    toml = PROGRAM_TOML.format(grace_s=GRACE_S, total_bytes=PROGRAM_BYTES, key=KEY)
    async with served(tmp_path, toml) as program:
        watched, slots = Watched(program), asyncio.Semaphore(50)

        async def begin_and_leave() -> None:
            async with slots, await program.connect() as client:
                await client.send(chat_request(model="m", stream=True))
                assert (await client.head()).status == 200

        for _ in range(20):  # what is made once
            await begin_and_leave()
        await watched.look()
        before = watched.rss()
        await asyncio.gather(*(begin_and_leave() for _ in range(COUNT - 20)))
        while (found := await watched.look())["away"] + found["read"]:
            await asyncio.sleep(0.1)
        growth = watched.most_rss - before
        print(  # noqa: T201 (the figures are what this is run for)
            f"\n{COUNT} abandoned streams: at most {watched.most_held / 2**20:.1f} MiB of events (bound "
            f"{PROGRAM_BYTES / 2**20:.0f}), memory grew by {growth / 2**20:.1f} MiB, {found['given up']} given up"
        )
        assert watched.most_held <= PROGRAM_BYTES + 65536
        assert found["given up"] > COUNT // 10, "the bound was reached"
        assert growth <= PROGRAM_BYTES * 5 // 4 + COUNT * OVERHEAD
        assert found["bytes"] == 0
        async with asyncio.timeout(120):
            while len(settled(tmp_path)) < COUNT:
                await asyncio.sleep(0.1)
        verdicts = Counter(settled(tmp_path))
        assert sum(verdicts.values()) == COUNT
        assert {verdict for verdict, _ in verdicts} == {Verdict.CLIENT_GONE.value}, verdicts
        assert verdicts[Verdict.CLIENT_GONE.value, True] == found["given up"]


def settled(folder: Path) -> list[tuple[str, bool]]:
    """Of each request the verdict, and whether its resumability was given up."""
    with sqlite3.connect(f"file:{folder / 'data' / 'streamweir.db'}?mode=ro", uri=True) as database:
        rows = database.execute("SELECT verdict, flags FROM requests").fetchall()
    database.close()
    return [(verdict, "resume_given_up" in (flags or "")) for verdict, flags in rows]
