"""Hostile callers of resumable streams at two nodes: what they may hold is bounded, and nothing is charged twice."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamweir.core.verdict import Verdict
from streamweir.server.streams.table import MAX_READERS
from support.answers import TEXTS, openai_frames
from support.gateway import KEY, Gate, chat_request, text_of, until
from support.raw_client import RawClient, Reply
from support.script import stream
from support.soak import SOAKS
from support.stream_nodes import Pause, begin, come_back, readers_of, send, two_nodes, until_ended
from support.valkey import ValkeyServer

MANY = 1000 if SOAKS else 60


@pytest.fixture
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


async def heads(gate: Gate, requests: list[bytes]) -> tuple[list[RawClient], Counter[int]]:
    """All at the same time. The connections are open."""
    clients = [await gate.connect() for _ in requests]

    async def ask(client: RawClient, request: bytes) -> int:
        await client.send(request)
        return (await client.head()).status

    return clients, Counter(await asyncio.gather(*map(ask, clients, requests)))


def read_requests(id: str, count: int, after: int = 0) -> list[bytes]:
    request = f"GET /v1/streams/{id}?after={after} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {KEY}\r\n\r\n"
    return [request.encode()] * count


@pytest.mark.parametrize("is_finished", [False, True])
async def test_the_readers_of_a_stream_are_bounded_at_every_node(
    is_finished: bool, tmp_path: Path, valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there):
        async with await here.connect() as client:
            id, first = await begin(client)
            events = first.count(b"\n\n")
            if is_finished:
                pause.goes_on.set()
                await client.rest()
                await until_ended(there, id)
            at_once = [heads(gate, read_requests(id, MANY, events)) for gate in (here, there)]
            (at_owner, own), (elsewhere, others) = await asyncio.gather(*at_once)
            for counts in (own, others):
                assert set(counts) <= {200, 429}
                assert is_finished or counts[200] <= MAX_READERS
            if not is_finished:
                assert len(readers_of(here, id)) <= 2 * MAX_READERS
            for each in at_owner + elsewhere:
                each.reset()
            pause.goes_on.set()
            if not is_finished:
                await client.rest()
        shared = there.gateway._streams.shared
        assert shared is not None
        await until(lambda: not shared.remote._readers)


async def test_slow_readers_of_a_finished_stream_are_bounded_at_every_node(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    """Each may have much that waits for it."""
    frames = openai_frames(["x" * 60_000] * 100)
    pause = Pause()
    pause.script = stream(b"".join(frames))
    async with two_nodes(pause, tmp_path, valkey) as (_, here, there):
        async with await here.connect() as client:
            await client.send(chat_request(model="m", stream=True, headers=(("x-streamweir-resumable", "true"),)))
            id = (await client.head()).header("x-streamweir-stream") or ""
            await client.rest()
        await until_ended(there, id)
        for gate in (here, there):
            slow = [await gate.connect(receive_buffer=4096) for _ in range(MAX_READERS)]
            for each in slow:
                assert (await come_back(each, id)).status == 200
            assert (await send(gate, id)).status == 429
            for each in slow:
                each.reset()
            async with await gate.connect() as again:
                while (reply := await come_back(again, id)).status == 429:
                    await again.read_exactly(int(reply.header("content-length") or 0))
                assert reply.status == 200


def once(path: str = "/v1/chat/completions", body: bytes | None = None) -> bytes:
    return chat_request(path=path, headers=(("idempotency-key", "one"),), body=body, model="m", stream=True)


async def ask(gate: Gate, request: bytes) -> Reply:
    async with await gate.connect() as client:
        await client.send(request)
        return await client.response()


async def test_the_same_first_request_at_both_nodes_at_once_is_charged_once(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
        asked = [asyncio.create_task(ask(gate, once())) for gate in (here, there) * (MAX_READERS // 2)]
        await nodes.up.seen(1)
        pause.goes_on.set()
        replies = await asyncio.gather(*asked)
        assert {reply.status for reply in replies} == {200}
        assert {text_of(reply.body) for reply in replies} == {"".join(TEXTS)}
        assert Counter(reply.header("idempotent-replayed") for reply in replies) == {None: 1, "true": len(replies) - 1}
        assert len(nodes.up.requests) == 1
        (row,) = [row for row in await nodes.rows() if row.price]
        assert (await nodes.spent_and_held()) == (row.price, 0)


async def test_requests_that_are_sent_again_are_bounded_at_another_node(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
        async with await here.connect() as client:
            await client.send(once())
            await client.head()
            clients, counts = await heads(there, [once()] * MANY)
            assert set(counts) <= {200, 429}
            assert counts[200] <= MAX_READERS
            for each in clients:
                each.reset()
            pause.goes_on.set()
            await client.rest()
        await here.settled()
        assert len(nodes.up.requests) == 1


async def test_an_idempotency_key_with_another_request_is_refused_at_both_nodes(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
        async with await here.connect() as client:
            await client.send(once())
            await client.head()
            body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}).encode()
            completion = json.dumps({"model": "m", "stream": True, "prompt": "x"}).encode()
            for is_over in (False, True):
                for gate in (here, there):
                    for request in (once(body=body), once(path="/v1/completions", body=completion)):
                        reply = await ask(gate, request)
                        assert reply.status == 409
                        assert json.loads(reply.body)["error"]["code"] == "idempotency_key_reused"
                if not is_over:
                    pause.goes_on.set()
                    await client.rest()
        assert len(nodes.up.requests) == 1
        assert len([row for row in await nodes.rows() if row.price]) == 1


async def test_a_body_that_is_cut_uses_no_idempotency_key(tmp_path: Path, valkey: ValkeyServer) -> None:
    pause = Pause()
    pause.goes_on.set()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
        for gate in (here, there):
            async with await gate.connect() as client:
                await client.send(once()[:-10])
                client.reset()
            await gate.has_read()
        assert text_of((await ask(there, once())).body) == "".join(TEXTS)
        assert len(nodes.up.requests) == 1


async def test_the_streams_of_a_revoked_key_end_for_their_readers_at_every_node(
    tmp_path: Path, valkey: ValkeyServer
) -> None:
    pause = Pause()
    async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
        secret = await nodes.new_key()
        async with await here.connect() as client, await there.connect() as reader:
            request = chat_request(key=secret, model="m", stream=True, headers=(("x-streamweir-resumable", "true"),))
            await client.send(request)
            id = (await client.head()).header("x-streamweir-stream") or ""
            assert (await come_back(reader, id, key=secret)).status == 200
            await until(lambda: len(readers_of(here, id)) == 2)
            await nodes.setups[1].revoke(secret)
            await nodes.look()
            for each in (client, reader):
                assert b"key_revoked" in await each.rest()
            assert (await send(there, id, key=secret)).status == 401
            assert (await send(here, id, key=secret)).status == 401
        await until(lambda: [r.verdict for r in here.records if r.resumed is not None] == [Verdict.STOPPED])
