"""The memory that resumable streams hold returns to nothing, in whatever way each of them ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.verdict import Verdict
from support.answers import TEXTS, openai_frames, openai_whole
from support.gateway import Gate, chat_request, gateway_to, text_of, until
from support.raw_client import CutShort, RawClient
from support.script import End, Head, Rst, Send, Step, Wait, stream, whole
from support.soak import SOAKS
from support.stream_nodes import ASKS, KEYS, OTHER_KEY, Pause, begin, come_back, send, two_nodes
from support.valkey import ValkeyServer

NOT_KEPT = "\n[streams]\nkeep_s = 0\ngrace_s = 0\n"
SMALL = "\n[streams]\nkeep_s = 0\nmax_bytes = 65536\n"
ABANDONED = 1000 if SOAKS else 60
LARGE = openai_frames(["x" * 30_000] * 200)
"""More than the buffers of a connection that is not read."""


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    """To be hurt."""
    with ValkeyServer() as server:
        yield server


async def until_empty(*gateways: Gate) -> None:
    """Nothing is held for any stream, in memory and in Valkey."""
    for gate in gateways:
        table, shared = gate.gateway._streams.table, gate.gateway._streams.shared
        await until(lambda table=table: not table._streams)  # type: ignore[misc]
        assert table.store.held_bytes == 0
        store: Any = table.store
        assert (store._of_key, store._finished, store._unkept) == ({}, {}, {})
        await until(lambda table=table: not table._of_request)  # type: ignore[misc]
        assert table._expiries == {}
        if shared is not None:
            await until(lambda shared=shared: shared.publisher.held_bytes == 0)  # type: ignore[misc]


async def ask(client: RawClient, **members: object) -> str:
    await client.send(chat_request(model="up/m", **members))  # type: ignore[arg-type]
    return (await client.head()).header("x-streamweir-stream") or ""


async def finished(gate: Gate, _: asyncio.Event) -> None:
    async with await gate.connect() as client:
        await ask(client, stream=True, headers=ASKS)
        await client.rest()


async def deleted(gate: Gate, _: asyncio.Event) -> None:
    async with await gate.connect() as client:
        id = await ask(client, stream=True, headers=ASKS)
        assert (await send(gate, id, method="DELETE")).status == 204


async def left(gate: Gate, _: asyncio.Event) -> None:
    async with await gate.connect() as client:
        await ask(client, stream=True, headers=ASKS)
        client.reset()


async def slow_and_read(gate: Gate, goes_on: asyncio.Event) -> None:
    """One reader is behind when the stream is given up, and reads the rest."""
    async with await gate.connect(receive_buffer=4096) as client:
        await ask(client, stream=True, headers=ASKS)
        await until_given_up(gate)
        goes_on.set()
        body = await client.rest()
        assert text_of(body).count("x") in (0, 30_000 * 200)


async def slow_and_killed(gate: Gate, _: asyncio.Event) -> None:
    async with await gate.connect(receive_buffer=4096) as client:
        await ask(client, stream=True, headers=ASKS)
        await until_given_up(gate)
        client.reset()


async def slow_beside_fast(gate: Gate, goes_on: asyncio.Event) -> None:
    """The slow one is cut when the stream is given up."""
    async with await gate.connect() as fast, await gate.connect(receive_buffer=4096) as slow:
        id = await ask(fast, stream=True, headers=ASKS)
        await come_back(slow, id)
        goes_on.set()
        await fast.rest()


async def until_given_up(gate: Gate) -> None:
    streams = gate.gateway._streams.table._streams
    await until(lambda: any(not each.is_kept for each in streams.values()) or not streams)


Way = Callable[[Gate, asyncio.Event], Awaitable[None]]


def paused(frames: list[bytes], at: int, goes_on: asyncio.Event) -> list[Step]:
    return [Head(), Send(b"".join(frames[:at])), Wait(goes_on), Send(b"".join(frames[at:])), End()]


@pytest.mark.parametrize("way", [deleted, left])
async def test_streams_that_do_not_end_by_themselves(way: Way) -> None:
    goes_on = asyncio.Event()
    async with gateway_to(paused(openai_frames(), 3, goes_on), NOT_KEPT) as (gate, _):
        await way(gate, goes_on)
        await until_empty(gate)


@pytest.mark.parametrize(
    "script",
    [
        stream(b"".join(openai_frames())),
        [Head(), Send(b"".join(openai_frames()[:3])), Rst()],
        stream(b"".join(openai_frames()[:3])),
    ],
    ids=["complete", "cut", "truncated"],
)
async def test_streams_that_end_by_themselves(script: list[Step]) -> None:
    async with gateway_to(script, NOT_KEPT) as (gate, _):
        await finished(gate, asyncio.Event())
        await until_empty(gate)


@pytest.mark.parametrize("way", [finished, left, slow_and_read, slow_and_killed, slow_beside_fast])
async def test_streams_that_are_given_up_because_they_are_large(way: Way) -> None:
    goes_on = asyncio.Event()
    if way in (finished, left):
        goes_on.set()
    async with gateway_to(paused(LARGE, len(LARGE) - 2, goes_on), SMALL) as (gate, _):
        await way(gate, goes_on)
        await until_empty(gate)
        goes_on.set()


@pytest.mark.parametrize("read_after", [True, False])
async def test_streams_that_are_given_up_because_all_need_too_much(read_after: bool) -> None:
    goes_on = asyncio.Event()
    async with gateway_to(paused(openai_frames(), 3, goes_on), NOT_KEPT) as (gate, _):
        async with await gate.connect() as client, await gate.connect() as other:
            await ask(client, stream=True, headers=ASKS)
            await ask(other, stream=True, headers=ASKS)
            table = gate.gateway._streams.table
            await until(lambda: table.store.held_bytes > 0)
            table.give_up_all()
            if read_after:
                goes_on.set()
                assert text_of(await client.rest()) == text_of(await other.rest()) == "".join(TEXTS)
            else:
                client.reset()
                other.reset()
        await until_empty(gate)


async def test_abandoned_streams_are_bounded_and_those_that_are_given_up_end_at_once() -> None:
    total_bytes, frames, goes_on = 1_048_576, openai_frames(["x" * 1000] * 60), asyncio.Event()
    toml = f"\n[streams]\nkeep_s = 0\ntotal_bytes = {total_bytes}\nmax_per_key = 100000\n"
    async with gateway_to(paused(frames, 50, goes_on), toml) as (gate, _):
        clients = [await gate.connect() for _ in range(ABANDONED)]
        for client in clients:
            await ask(client, stream=True, headers=ASKS)
            client.reset()
        store = gate.gateway._streams.table.store
        is_kept = total_bytes // (51 * 1200)
        await until(lambda: len(gate.records) >= ABANDONED - is_kept)
        assert store.held_bytes <= total_bytes
        assert all(record.flags == ("resume_given_up",) for record in gate.records)
        goes_on.set()
        await gate.settled(ABANDONED)
        kept = [record for record in gate.records if not record.flags]
        assert 0 < len(kept) < ABANDONED
        assert {record.verdict for record in kept} == {Verdict.COMPLETED}
        await until_empty(gate)


async def test_slow_readers_of_finished_streams_do_not_hold_the_memory_of_other_keys() -> None:
    """Each of them reads now and then, so its connection is not given up."""
    total_bytes = 16 * 1024 * 1024
    toml = f"\n[streams]\ntotal_bytes = {total_bytes}\n{KEYS}"
    async with gateway_to(stream(b"".join(LARGE)), toml) as (gate, _):
        table = gate.gateway._streams.table
        slow: list[RawClient] = []
        while True:  # until its next stream does not fit
            async with await gate.connect() as client:
                id = await ask(client, stream=True, headers=ASKS)
                await client.rest()
            slow.append(await gate.connect(receive_buffer=4096))
            if (await come_back(slow[-1], id)).status == 410:
                break
        async with await gate.connect() as client:
            id = await ask(client, stream=True, headers=ASKS, key=OTHER_KEY)
            body = await client.rest()
        assert (await send(gate, id, key=OTHER_KEY)).body == body, "it was not given up"
        assert table.store.held_bytes <= total_bytes
        cut = 0
        for each in slow[:-1]:
            try:
                assert text_of(await each.rest()) == "x" * 30_000 * 200
            except CutShort:
                cut += 1
        assert cut
        for each in slow:
            each.reset()
        await until(lambda: not table.store._unkept)  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [10, 100_000])
async def test_whole_answers_that_are_kept_for_the_same_request(size: int) -> None:
    async with gateway_to(whole(openai_whole("x" * size)), SMALL) as (gate, _):
        assert (await gate.ask(model="up/m", headers=(("idempotency-key", "one"),))).status == 200
        await until_empty(gate)


async def test_streams_of_a_node_that_stops(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey, "\n[streams]\nkeep_s = 0\n") as (
        _,
        here,
        there,
    ):  # but for readers there
        async with await here.connect() as client:
            id, _ = await begin(client)
            here.gateway.stop_admitting()
            assert await client.rest() == b""
            async with await there.connect() as reader:
                assert (await come_back(reader, id)).status == 200
                pause.goes_on.set()
                await reader.rest()
        assert (await send(there, id, method="DELETE")).status == 204
        await until_empty(here, there)


@pytest.mark.parametrize("comes_back", [True, False])
async def test_streams_that_end_while_valkey_is_away(
    comes_back: bool, tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, own_valkey) as (_, here, there):
        async with await here.connect() as client:
            id, _ = await begin(client)
            own_valkey.kill()
            pause.goes_on.set()
            await client.rest()
        table = here.gateway._streams.table
        await until(lambda: id in table._expiries)
        table.lost(table._streams[id])  # its time is over
        if comes_back:
            own_valkey.start()
            await until_empty(here, there)
            assert (await send(there, id)).status == 410
        assert table.store.held_bytes == 0
