"""Streams of another node that are deleted, given up, or lost by Valkey: what a caller is told, and what becomes of
the upstream."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamweir.core.verdict import Verdict
from streamweir.server.streams import remote
from support.answers import TEXTS, openai_frames
from support.deadlines import WAIT_TIMEOUT_S
from support.fleet import fleet
from support.gateway import Gate, text_of, until
from support.script import End, Head, Send, Step, Wait
from support.stream_nodes import KEYS, Pause, begin, come_back, read_to, readers_of, send, two_nodes, until_ended
from support.valkey import ValkeyServer


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    """To be hurt."""
    with ValkeyServer() as server:
        yield server


async def statuses(id: str, *gateways: Gate) -> list[int]:
    """What a `GET` and a `DELETE` are answered at each."""
    return [(await send(gate, id, method=method)).status for gate in gateways for method in ("GET", "DELETE")]


def in_valkey(gate: Gate) -> int:
    """Bytes of its streams."""
    shared = gate.gateway._streams.shared
    assert shared is not None
    return shared.publisher.held_bytes


async def test_a_deletion_at_another_node_has_ended_the_stream_when_it_is_answered(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
        async with await here.connect() as client, await there.connect() as reader:
            id, _ = await begin(client)
            await come_back(reader, id)
            assert (await send(there, id, method="DELETE")).status == 204
            assert await client.is_closed()
            assert await statuses(id, here, there) == [410] * 4
        (record,) = await here.settled()
        assert record.verdict is Verdict.CLIENT_GONE
        await nodes.up.idle()
        (row,) = await nodes.rows()
        spent, held = await nodes.spent_and_held()
        assert (spent, held) == (row.price or 0, 0)
        await until(lambda: in_valkey(here) == 0)


@pytest.mark.parametrize("at_owner", [True, False])
async def test_a_finished_stream_is_deleted_at_every_node(at_owner: bool, tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    pause.goes_on.set()
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there):
        async with await here.connect() as client:
            id, _ = await begin(client)
            await client.rest()
        await until_ended(there, id)
        assert (await send(there, id)).status == 200
        assert (await send(here if at_owner else there, id, method="DELETE")).status == 204
        await until(lambda: in_valkey(here) == 0)
        assert here.gateway._streams.table.store.held_bytes == 0
        assert await statuses(id, here, there) == [410] * 4


async def test_a_deletion_that_the_owner_does_not_confirm_is_no_success_and_ends_the_stream_later(
    tmp_path: Path, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "STOP_S", (0.0,) * 3)
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there), await here.connect() as client:
        id, _ = await begin(client)
        shared = here.gateway._streams.shared
        assert shared is not None
        await shared._follower.close()  # it does not hear
        for _ in range(2):
            reply = await send(there, id, method="DELETE")
            assert reply.status == 503
            assert json.loads(reply.body)["error"]["code"] == "streams_unavailable"
        assert (await send(there, id)).status == 410
        pause.goes_on.set()  # the next event is refused
        await client.is_closed()
        await until(lambda: here.gateway._streams.table.own(id) is None)


async def test_the_stream_of_a_dead_node_can_be_deleted(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there), await here.connect() as client:
        id, _ = await begin(client)
        shared = here.gateway._streams.shared
        assert shared is not None
        for task in shared.publisher._tasks:
            task.cancel()
            await task.over()
        valkey.execute("DEL", f"{{streamweir}}:st:o:{nodes.setups[0].storage.node.instance}")
        assert (await send(there, id, method="DELETE")).status == 204
        assert await statuses(id, there) == [410, 410]


async def test_after_valkey_has_lost_its_data_a_stream_that_runs_is_never_unknown(
    tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, own_valkey) as (_, here, there):
        async with await here.connect() as client:
            id, first = await begin(client)
            assert (await send(there, "strm_unknown")).status == 404
            own_valkey.flush()
            assert (await send(there, id, method="DELETE", key="sk-wrong")).status == 401
            assert await status_of(there, id) == 503, "not 404: it comes again"
            renew(here)
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while (status := await status_of(there, id)) != 200:
                    assert status == 503
            assert (await send(there, "strm_unknown")).status == 503, "that is not known for a while"
            pause.goes_on.set()
            assert text_of(first + await client.rest()) == "".join(TEXTS)
        await until_ended(there, id)
        assert text_of((await send(there, id)).body) == "".join(TEXTS)


def renew(gate: Gate) -> None:
    """Its lease in Valkey, as it does four times in its life."""
    shared = gate.gateway._streams.shared
    assert shared is not None
    shared.publisher.check()


async def status_of(gate: Gate, id: str) -> int:
    async with await gate.connect() as client:
        return (await come_back(client, id)).status


LARGE = openai_frames(["x" * 30_000] * 5)
SMALL_LIMIT = "\n[streams]\nmax_bytes = 65536\n"


async def test_a_stream_that_is_given_up_is_known_as_such_at_every_node(
    tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, own_valkey) as (_, here, there):
        async with await here.connect() as client, await there.connect() as reader:
            id, first = await begin(client)
            await come_back(reader, id)
            await read_to(reader, TEXTS[1].encode())
            await until(lambda: len(readers_of(here, id)) == 2)
            here.gateway._streams.table.give_up_all()
            assert not (await reader.read_to_end()).endswith(b"0\r\n\r\n"), "it does not look complete"
            assert (await send(there, id)).status == 410
            assert (await send(there, id, "?after=99")).status == 410
            own_valkey.flush()
            renew(here)
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while (status := await status_of(there, id)) != 410:
                    assert status == 503
            pause.goes_on.set()
            assert text_of(first + await client.rest()) == "".join(TEXTS)
        (record,) = await here.settled()
        assert record.flags == ("resume_given_up",)


async def test_a_stream_that_is_given_up_can_be_deleted_at_another_node(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there), await here.connect() as client:
        id, _ = await begin(client)
        here.gateway._streams.table.give_up_all()
        await until_ended(there, id)
        assert (await send(there, id, method="DELETE")).status == 204
        assert await client.is_closed()
        (record,) = await here.settled()
        assert record.verdict is Verdict.CLIENT_GONE


async def test_a_stream_that_is_given_up_before_it_was_shared_is_known_as_such(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    goes_on = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(LARGE[:-1])), Wait(goes_on), Send(LARGE[-1]), End()]
    async with fleet(script, tmp_path, count=2, valkey=valkey, toml=KEYS + SMALL_LIMIT, named=True) as nodes:
        here, there = nodes.gateways
        async with await here.connect() as client:
            id, _ = await begin(client, until=b"data:")
            table = here.gateway._streams.table
            await until(lambda: (own := table.own(id)) is None or not own.is_kept)
            await until_ended(there, id)
            assert (await send(there, id)).status == 410
            goes_on.set()
            await client.rest()


async def test_a_stream_that_is_given_up_while_nobody_reads_it_is_ended_at_once(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
        async with await here.connect() as client, await there.connect() as reader:
            id, _ = await begin(client)
            await come_back(reader, id)
            await until(lambda: len(readers_of(here, id)) == 2)
            client.reset()
            await until(lambda: len(readers_of(here, id)) == 1)
            here.gateway._streams.table.give_up_all()  # whoever reads it elsewhere gets nothing more
            (record,) = await here.settled()
        assert record.verdict is Verdict.CLIENT_GONE
        assert record.flags == ("resume_given_up",)
        await nodes.up.idle()
