"""What a process has in Valkey is counted, and the count returns to nothing however its streams end."""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from streamweir.store.streams.shared_frames import Lifetimes, SharedState
from support.deadlines import WAIT_TIMEOUT_S
from support.shared_streams import LIVES, OwnStream, StreamNode, new_prefix, node
from support.soak import SOAKS
from support.valkey import ValkeyServer

SHORT = Lifetimes(lease_s=LIVES.lease_s, keep_s=0.05, recovery_s=0.0)
ENDS = (SharedState.COMPLETE, SharedState.CUT, SharedState.LEFT, SharedState.DELETED)


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[ValkeyServer]:
    """To be hurt."""
    with ValkeyServer() as server:
        yield server


async def until_empty(here: StreamNode) -> None:
    publisher = here.publisher
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while publisher._live or publisher._ended or publisher._has_work:
            await asyncio.sleep(0.01)
    assert publisher.held_bytes == 0


async def test_streams_that_only_valkey_has_make_room_there(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with (
        node(server, "a", prefix=prefix, total_bytes=25_000) as here,
        node(server, "b", prefix=prefix) as there,
    ):
        streams = [here.open(f"s{number}") for number in range(5)]
        for stream in streams:
            stream.add(b"x" * 10_000)
            await stream.end()
            stream.published.forget()  # memory does not have it any more
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while here.publisher.held_bytes > 25_000:
                await asyncio.sleep(0)
        states = [found.state for stream in range(5) if (found := await there.shared.find(f"s{stream}"))]
        assert states.count(SharedState.GIVEN_UP) >= 3
        assert server.execute("EXISTS", f"{{{prefix}}}:st:f:s4") == b":1\r\n", "the newest is still there"
        for stream in streams:
            stream.published.delete()
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while here.publisher.held_bytes:
                await asyncio.sleep(0)


def end_somehow(choose: Random, stream: OwnStream) -> None:
    published = stream.published
    way = choose.choice(("end", "end", "forget", "forget unread", "give up", "delete"))
    if way == "end":
        published.ended(choose.choice(ENDS))
    elif way == "forget unread":
        stream.source.is_kept = False
        published.forget()
    else:
        {"forget": published.forget, "give up": published.give_up, "delete": published.delete}[way]()


async def hurt(choose: Random, server: ValkeyServer, there: StreamNode, streams: list[OwnStream]) -> None:
    if choose.random() < 0.05:
        await there.shared.delete(choose.choice(streams).published.id)
    if choose.random() < 0.03:
        server.flush()
    if choose.random() < 0.02:
        server.execute("DEL", "{streamweir}:st:o:a")  # it was thought to be dead
        await there.shared.check([stream.published.id for stream in streams])


@pytest.mark.parametrize("seed", range(40 if SOAKS else 4))
async def test_nothing_is_counted_when_all_streams_have_ended_in_any_way(own_server: ValkeyServer, seed: int) -> None:
    choose = Random(seed)
    async with (
        node(own_server, "a", lifetimes=SHORT, total_bytes=60_000) as here,
        node(own_server, "b", lifetimes=SHORT) as there,
    ):
        streams: list[OwnStream] = []
        for number in range(150):
            streams.append(here.open(f"s{number}"))
            for stream in choose.sample(streams, min(5, len(streams))):
                if stream.source.is_kept and stream.published.state is SharedState.LIVE:
                    stream.add(b"x" * choose.choice((10, 3000, 40_000)))
                if choose.random() < 0.3:
                    end_somehow(choose, stream)
            if choose.random() < 0.3:
                await asyncio.sleep(0.005)
            if not 75 < number <= 80:
                await hurt(choose, own_server, there, streams)
            if number == 75:
                own_server.kill()
            if number == 80:
                own_server.start()
        for stream in streams:
            end_somehow(choose, stream)
            stream.published.forget()
        await until_empty(here)
