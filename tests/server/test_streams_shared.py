"""Resumable streams of several nodes, on real sockets and a real Valkey: any node serves the stream of any other."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.errors import GatewayFault
from streamweir.core.verdict import Verdict
from support.answers import TEXTS, error_body, openai_whole
from support.fleet import fleet
from support.gateway import KEY, Gate, chat_request, text_of, until
from support.raw_client import Reply
from support.script import Wait, in_turn, whole
from support.stream_nodes import (
    KEYS,
    NO_GRACE,
    OTHER_KEY,
    PATHS,
    Pause,
    age,
    begin,
    come_back,
    read_request,
    read_to,
    readers_of,
    send,
    two_nodes,
    until_ended,
)
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


async def test_a_caller_continues_at_another_node_and_pays_once(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
        async with await here.connect() as client:
            id, first = await begin(client)
            client.reset()
        async with await there.connect() as client, await there.connect() as second:
            head = await come_back(client, id, 2)
            assert head.status == 200
            assert head.header("content-type") == "text/event-stream; charset=utf-8"
            assert head.header("x-streamweir-stream") == id
            again = await read_to(client, TEXTS[1].encode())
            await come_back(second, id, 0)
            await until(lambda: len(readers_of(here, id)) == 2)
            pause.goes_on.set()
            whole = await second.rest()
            rest = again + await client.rest()
        assert whole.startswith(first)
        assert text_of(whole) == "".join(TEXTS)
        assert whole.endswith(rest)
        assert rest.count(b"\n\n") == whole.count(b"\n\n") - 2
        (record,) = await here.settled()
        assert record.verdict is Verdict.COMPLETED
        assert record.resumed == 2
        assert len(record.reader_gaps) == 1
        assert there.records == []
        assert (await send(there, id, "?after=2")).body == rest, "kept after its end"
        assert (await send(here, id)).body == whole
        (row,) = await nodes.rows()
        assert row.price is not None


async def test_the_stream_of_another_key_is_not_found_at_any_node(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there):
        async with await here.connect() as client:
            id, _ = await begin(client)
            for gate in (here, there):
                for method in ("GET", "DELETE"):
                    foreign = await send(gate, id, method=method, key=OTHER_KEY)
                    unknown = await send(gate, "strm_unknown", method=method)
                    assert foreign.status == unknown.status == 404
                    assert json.loads(foreign.body) == json.loads(unknown.body)
            pause.goes_on.set()
            await client.rest()
        beyond = await send(there, id, "?after=99")
        assert beyond.status == 400
        assert json.loads(beyond.body)["error"]["code"] == "invalid_after"


async def test_a_caller_ends_its_stream_from_another_node(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there):
        async with await here.connect() as client:
            id, _ = await begin(client)
            assert (await send(there, id, method="DELETE")).status == 204
            assert await client.is_closed()
        (record,) = await here.settled()
        assert record.verdict is Verdict.CLIENT_GONE
        assert (await send(here, id)).status == 410, "its own node need not ask Valkey"
        await until_ended(there, id)
        assert (await send(there, id)).status == 410


async def test_a_stream_is_read_on_as_long_as_somebody_reads_it_at_any_node(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey, NO_GRACE) as (_, here, there):
        async with await here.connect() as client, await there.connect() as reader:
            id, first = await begin(client)
            await come_back(reader, id)
            await until(lambda: len(readers_of(here, id)) == 2)
            client.reset()
            await until(lambda: len(readers_of(here, id)) == 1)
            assert await read_to(reader, TEXTS[1].encode()) == first
            reader.reset()
        (record,) = await here.settled()
        assert record.verdict is Verdict.CLIENT_GONE, "nobody reads it any longer"


@pytest.mark.parametrize("path", PATHS)
async def test_the_stream_of_a_dead_node_ends_with_an_error_of_its_api(
    path: str, tmp_path: Path, valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with (
        two_nodes(pause, tmp_path, valkey) as (nodes, here, there),
        await here.connect() as client,
        await there.connect() as reader,
    ):
        id, first = await begin(client, path)
        await come_back(reader, id)
        received = await read_to(reader, TEXTS[1].encode())
        instance = nodes.setups[0].storage.node.instance
        valkey.execute("DEL", f"{{streamweir}}:st:o:{instance}")  # as if it had expired
        error = await reader.rest()
        assert received == first
        assert b"stream_lost" in error or b"has failed" in error
        check_error(path, first, error)
        late = await send(there, id, f"?after={first.count(b'data:') + 5}")
        check_error(path, first, late.body, more=5)  # events that were not shared are gone
        pause.goes_on.set()
        assert text_of_any(path, first + await client.rest()) == "".join(TEXTS), "it was only delayed"


def check_error(path: str, first: bytes, error: bytes, *, more: int = 0) -> None:
    """`more`: events that only the caller has."""
    blocks = [block for block in error.split(b"\n\n") if block]
    before = [json.loads(block.partition(b"data: ")[2]) for block in first.split(b"\n\n") if b"data: " in block]
    documents = [json.loads(block.partition(b"data: ")[2]) for block in blocks if b"[DONE]" not in block]
    if path == "/v1/responses":
        assert [each["type"] for each in documents] == ["error", "response.failed"]
        assert [each["sequence_number"] for each in documents] == [len(before) + more, len(before) + more + 1]
        assert documents[1]["response"]["id"] == before[0]["response"]["id"]
    elif path == "/v1/messages":
        assert [each["type"] for each in documents] == ["error"]
    else:
        assert documents[0]["error"]["code"] == "stream_lost"
        assert blocks[-1] == b"data: [DONE]"


def text_of_any(path: str, body: bytes) -> str:
    documents = [each for each in map(parse, body.split(b"\n\n")) if each]
    if path == "/v1/responses":
        return "".join(each["delta"] for each in documents if each["type"] == "response.output_text.delta")
    if path == "/v1/messages":
        return "".join(each["delta"].get("text", "") for each in documents if each["type"] == "content_block_delta")
    if path == "/v1/completions":
        return "".join(choice["text"] for each in documents for choice in each["choices"])
    return text_of(body)


def parse(block: bytes) -> Any:
    data = block.partition(b"data: ")[2]
    return json.loads(data) if data.startswith(b"{") else None


def once_request(stream: bool = True, **members: Any) -> bytes:
    return chat_request(model="m", stream=stream, headers=(("idempotency-key", "one"),), **members)


async def ask_once(gate: Gate, **members: Any) -> Reply:
    async with await gate.connect() as client:
        await client.send(once_request(**members))
        return await client.response()


async def test_a_request_that_is_repeated_at_another_node_gets_the_same_stream(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
        async with await here.connect() as client, await there.connect() as second:
            await client.send(once_request())
            head = await client.head()
            await second.send(once_request())
            again = await second.head()
            assert again.header("idempotent-replayed") == "true"
            assert again.header("x-streamweir-stream") == head.header("x-streamweir-stream")
            await until(lambda: len(readers_of(here, head.header("x-streamweir-stream") or "")) == 2)
            pause.goes_on.set()
            body = await client.rest()
            assert await second.rest() == body
        (record,) = await here.settled()
        assert record.resumed == 1
        later = await ask_once(there)
        assert (later.body, later.header("idempotent-replayed")) == (body, "true")
        assert (await ask_once(there, temperature=0.5)).status == 409
        (row,) = [row for row in await nodes.rows() if row.error is None]
        assert row.price is not None


async def test_a_whole_answer_is_waited_for_at_another_node_and_tried_there_if_it_failed(
    tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    fails, goes_on = asyncio.Event(), asyncio.Event()
    scripts = in_turn([Wait(fails), *whole(error_body("no"), 400)], [Wait(goes_on), *whole(openai_whole())])
    async with fleet(scripts, tmp_path, count=2, valkey=own_valkey, toml=KEYS, named=True) as nodes:
        here, there = nodes.gateways
        first = asyncio.ensure_future(ask_once(here, stream=False))
        await nodes.up.seen(1)
        second = asyncio.ensure_future(ask_once(there, stream=False))
        await until(lambda: bool(there.gateway._requests))
        fails.set()
        assert (await first).status == 400
        await nodes.up.seen(2)  # it cost nothing, so the other node has tried it
        third = asyncio.ensure_future(ask_once(here, stream=False))
        await until(lambda: bool(here.gateway._requests))
        goes_on.set()
        replies = [await second, await third, await ask_once(here, stream=False)]
        assert [reply.status for reply in replies] == [200] * 3
        assert [reply.header("idempotent-replayed") for reply in replies] == [None, "true", "true"]
        assert len({reply.body for reply in replies}) == 1
        await here.settled(1)
        await there.settled(1)
        assert sorted(str(row.error) for row in await nodes.rows()) == ["None", "invalid_value"]
        own_valkey.kill()
        assert (await ask_once(here, stream=False)).status == 503, "not 409: it may be kept"


async def test_an_answer_that_is_kept_is_not_denied_while_it_is_on_its_way_to_valkey(
    tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    async with fleet(whole(openai_whole()), tmp_path, count=2, valkey=own_valkey, toml=KEYS, named=True) as nodes:
        here, there = nodes.gateways
        first = await ask_once(here, stream=False)
        await here.settled()
        shared = there.gateway._streams.shared
        assert shared is not None
        lost_at = shared._follower.lost_at
        own_valkey.flush()  # the answer comes again as soon as its node has noticed
        own_valkey.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await until(lambda: shared._follower.lost_at > lost_at)
        while (again := await ask_once(there, stream=False)).status == 503:
            pass
        assert (again.status, again.body) == (200, first.body)


async def test_a_draining_node_sends_its_callers_to_another_and_reads_on(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there):
        async with await here.connect() as client, await here.connect() as ordinary:
            id, first = await begin(client)
            await ordinary.send(chat_request(model="m", stream=True))
            await ordinary.head()
            here.gateway.stop_admitting()
            assert await client.rest() == b"", "a clean close, between two events"
            async with await there.connect() as reader:
                assert (await come_back(reader, id, first.count(b"\n\n"))).status == 200
                await until(lambda: len(readers_of(here, id)) == 1)
                pause.goes_on.set()
                assert text_of(first + await reader.rest()) == "".join(TEXTS)
            assert text_of(await ordinary.rest()) == "".join(TEXTS), "it cannot be resumed: it stays"
        records = await here.settled(2)
        assert [record.verdict for record in records] == [Verdict.COMPLETED] * 2
        assert sorted(record.resumed or 0 for record in records) == [0, 1]


async def test_a_stream_that_is_left_after_the_drain_ends_with_an_error_at_other_nodes(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    """Its provider never ends. The reader is at another node by then."""
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there):
        async with await here.connect() as client, await there.connect() as reader:
            id, first = await begin(client)
            here.gateway.stop_admitting()
            assert await client.rest() == b""
            assert (await come_back(reader, id)).status == 200
            assert await read_to(reader, TEXTS[1].encode()) == first
            await until(lambda: len(readers_of(here, id)) == 1)
            here.gateway.end_streams(GatewayFault("server_shutting_down", "The gateway is stopping."))
            rest = await reader.rest()
            assert b"server_shutting_down" in rest
            assert rest.endswith(b"data: [DONE]\n\n")
        (record,) = await here.settled()
        assert (record.verdict, record.resumed) == (Verdict.SHUTDOWN, 1)
        assert (await send(there, id)).body == first + rest


async def test_a_draining_node_keeps_its_callers_if_nobody_else_serves(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there), await here.connect() as client:
        _, first = await begin(client)
        there.gateway.stop_admitting()
        await there.gateway._streams.shared._frames.serve(serves=False)  # type: ignore[union-attr]
        here.gateway.stop_admitting()
        await here.gateway._streams.shared._frames.serve(serves=False)  # type: ignore[union-attr]
        pause.goes_on.set()
        assert text_of(first + await client.rest()) == "".join(TEXTS)


async def test_a_reader_at_a_draining_node_is_sent_to_another(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with (
        two_nodes(pause, tmp_path, valkey) as (_, here, there),
        await here.connect() as client,
        await there.connect() as reader,
    ):
        id, first = await begin(client)
        await come_back(reader, id)
        assert await read_to(reader, TEXTS[1].encode()) == first
        there.gateway.stop_admitting()
        assert await reader.rest() == b""
        pause.goes_on.set()
        await client.rest()


async def test_without_valkey_a_stream_goes_on_where_it_is_and_is_shared_again_after(
    tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, own_valkey) as (_, here, there):
        async with await here.connect() as client, await there.connect() as reader:
            id, first = await begin(client)
            await come_back(reader, id)
            assert await read_to(reader, TEXTS[1].encode()) == first
            own_valkey.kill()
            assert await reader.rest() == b"", "it is to come back"
            reply = await send(there, id)
            assert reply.status == 503
            assert reply.header("retry-after") == "1"
            assert (await send(here, id, method="GET", key=OTHER_KEY)).status == 404
            own_valkey.start()
            while (reply := await peek(there, id)).status != 200:
                assert reply.status == 503, "not 404: it comes again"
            pause.goes_on.set()
            assert text_of(first + await client.rest()) == "".join(TEXTS)
        assert text_of((await send(there, id)).body) == "".join(TEXTS)
        (record,) = await here.settled()
        assert record.flags == ()


async def test_a_stream_that_ended_since_the_copy_that_valkey_came_back_with_is_whole_again(
    tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, own_valkey) as (_, here, there):
        async with await here.connect() as client:
            id, first = await begin(client)
            assert (await peek(there, id)).status == 200
            assert own_valkey.execute("SAVE") == b"+OK\r\n"
            pause.goes_on.set()
            whole = first + await client.rest()
        await until_ended(there, id)
        own_valkey.kill()
        own_valkey.start()
        body = b""
        while body != whole:  # until its node has noticed, it may be closed between two events
            assert whole.startswith(body)
            reply = await send(there, id)
            assert reply.status in (200, 503)
            body = reply.body if reply.status == 200 else b""


async def peek(gate: Gate, id: str) -> Reply:
    async with await gate.connect() as client:
        await client.send(read_request(id))
        return await client.head()


@pytest.mark.parametrize("setting", [("save", "3600 1"), ("appendonly", "yes")])
async def test_answers_reach_the_disk_of_valkey_only_for_keys_that_store_content(
    setting: tuple[str, str], tmp_path: Path, own_valkey: ValkeyServer
) -> None:
    assert own_valkey.execute("CONFIG", "SET", *setting) == b"+OK\r\n"
    pause, name = Pause(), f'name = "test"\nkey = "{KEY}"\n'
    age(own_valkey)
    for more, status in (("", 404), ("log_content = true\n", 200)):
        pause.goes_on.clear()
        toml = KEYS.replace(name, name + more)
        folder = tmp_path / str(status)
        folder.mkdir()
        async with fleet(pause.script, folder, count=2, valkey=own_valkey, toml=toml, named=True) as nodes:
            here, there = nodes.gateways
            async with await here.connect() as client:
                id, _ = await begin(client)
                assert (await peek(there, id)).status == status
                assert (await peek(here, id)).status == 200
                pause.goes_on.set()
                await client.rest()
