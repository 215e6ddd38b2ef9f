"""The frames of resumable streams in a real Valkey: what one node publishes, any other reads, from any event on."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import aclosing
from random import Random

import pytest

from streamweir.store.limits.errors import SharedUnavailable
from streamweir.store.streams import follower
from streamweir.store.streams.follower import StreamEnded
from streamweir.store.streams.shared_frames import FoundStream, Lifetimes, SharedState, idempotency_key
from support.deadlines import WAIT_TIMEOUT_S
from support.shared_streams import LIVES, OwnStream, StreamNode, new_prefix, node
from support.soak import SOAKS
from support.valkey import ValkeyServer

LIVE, COMPLETE, LOST, GIVEN_UP = SharedState.LIVE, SharedState.COMPLETE, SharedState.LOST, SharedState.GIVEN_UP


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def own_server() -> Iterator[ValkeyServer]:
    """To be hurt."""
    with ValkeyServer() as server:
        yield server


def event(number: int, size: int = 20) -> bytes:
    return b"data: %d %b\n\n" % (number, b"x" * size)


async def found(reader: StreamNode, stream_id: str) -> FoundStream:
    stream = await reader.shared.find(stream_id)
    assert stream is not None
    return stream


def key(prefix: str, kind: str, name: str) -> str:
    return f"{{{prefix}}}:st:{kind}:{name}"


@pytest.mark.parametrize("seed", range(40 if SOAKS else 4))
async def test_readers_at_other_nodes_get_every_event_from_any_place_while_it_runs(
    server: ValkeyServer, seed: int
) -> None:
    choose, prefix = Random(seed), new_prefix()
    events = [event(number, choose.choice((0, 10, 300, 40_000))) for number in range(1, 200)]
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        stream = here.open("s")
        readers: list[tuple[int, asyncio.Task[tuple[list[bytes], SharedState]]]] = []
        assert await stream.flushed()
        for number, each in enumerate(events):
            stream.add(each)
            if choose.random() < 0.1:
                after = choose.randrange(number + 1)
                readers.append((after, asyncio.create_task(there.read("s", after))))
            await asyncio.sleep(0)
            if choose.random() < 0.1:
                await stream.flushed()
        stream.published.ended(COMPLETE)
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            for after, reader in readers:
                assert await reader == (events[after:], COMPLETE)
        assert await there.read("s") == (events, COMPLETE)
        assert await there.read("s", len(events)) == ([], COMPLETE), "behind the last one is only the end"


async def test_what_is_appended_to_many_streams_at_once_is_one_call(own_server: ValkeyServer) -> None:
    async with node(own_server, "a") as here:
        streams = [here.open(f"s{number}") for number in range(100)]
        assert all([await stream.flushed() for stream in streams])
        before = calls(own_server)
        for number in range(20):
            for stream in streams:
                stream.add(event(number))
        assert all([await stream.flushed() for stream in streams])
        assert calls(own_server) - before == 1


def calls(server: ValkeyServer) -> int:
    """How many scripts it has run."""
    counts = re.findall(rb"cmdstat_eval(?:sha)?:calls=(\d+)", server.execute("INFO", "commandstats"))
    return sum(map(int, counts))


async def test_a_stream_is_found_with_its_head_by_its_id_and_its_idempotency_key(server: ValkeyServer) -> None:
    prefix, repeated = new_prefix(), idempotency_key("key1", b"\x00\xff")
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        stream = here.open("s", meta='{"model": "ü\\n"}\n', idempotency=repeated)
        stream.add(event(1), event(2))
        assert await stream.flushed()
        assert await there.shared.find("s") == FoundStream(
            id="s", owner="a", state=LIVE, events=2, is_owner_alive=True, meta='{"model": "ü\\n"}\n'
        )
        assert await there.shared.find_idempotent(repeated) == await there.shared.find("s")
        assert await there.shared.find("t") is None
        assert await there.shared.find_idempotent(idempotency_key("key2", b"\x00\xff")) is None


async def test_a_request_that_cost_nothing_does_not_lead_to_its_stream_any_more(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        failed, again = here.open("failed", idempotency="k:1"), here.open("at once", idempotency="k:2")
        again.published.unlink()  # before it was published
        failed.add(event(1))
        await failed.end()
        assert await there.shared.find_idempotent("k:1") is not None
        failed.published.unlink()
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while await there.shared.find_idempotent("k:1") is not None:
                await asyncio.sleep(0)
        assert await again.flushed()
        assert await there.shared.find_idempotent("k:2") is None
        assert await there.shared.find("failed") is not None, "it can still be read by its id"


async def test_the_stream_of_a_dead_owner_ends_as_lost_for_every_reader_and_the_owner_is_refused(
    server: ValkeyServer,
) -> None:
    prefix = new_prefix()
    async with (
        node(server, "a", prefix=prefix) as here,
        node(server, "b", prefix=prefix) as there,
        node(server, "c", prefix=prefix) as elsewhere,
    ):
        stream = here.open("s")
        stream.add(event(1), event(2))
        assert await stream.flushed()
        # One has read more from the owner than the owner has shared.
        readers = [asyncio.create_task(each.read("s", after)) for each in (there, elsewhere) for after in (0, 1, 7)]
        server.execute("DEL", key(prefix, "o", "a"))  # as if it had expired
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            ends = [await reader for reader in readers]
        assert ends == [([event(1), event(2)], LOST), ([event(2)], LOST), ([], LOST)] * 2
        assert (await found(there, "s")).state is LOST
        stream.add(event(3))
        assert not await stream.flushed(), "it was only delayed: its stream goes on, but is not shared"
        assert (await there.read("s")) == ([event(1), event(2)], LOST)


async def test_a_valkey_that_takes_nothing_more_keeps_no_reader_waiting(
    own_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is out of memory: the owner cannot publish, and nobody can end the stream."""
    monkeypatch.setattr(follower, "CHECK_S", 0.01)
    async with node(own_server, "a") as here, node(own_server, "b") as there:
        stream = here.open("s")
        stream.add(event(1))
        assert await stream.flushed()
        async with aclosing(there.follower.follow("s", 0, 1).batches()) as batches:
            assert await anext(batches) == [event(1)]
            own_server.execute("CONFIG", "SET", "maxmemory-policy", "noeviction")
            own_server.execute("CONFIG", "SET", "maxmemory", "1")
            stream.add(event(2))
            own_server.execute("DEL", key("streamweir", "o", "a"))
            with pytest.raises(SharedUnavailable, match="out of memory"):
                await anext(batches)
            own_server.execute("CONFIG", "SET", "maxmemory", "0")
        await stream.end()
        assert await there.read("s") == ([event(1), event(2)], COMPLETE)


async def test_a_living_owner_is_not_ended_by_those_who_look(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        stream = here.open("s")
        assert await stream.flushed()
        assert await there.shared.check(["s", "t"]) == {"s": LIVE, "t": None}
        await stream.end()
        server.execute("DEL", key(prefix, "o", "a"))
        assert await there.shared.check(["s"]) == {"s": COMPLETE}, "its end is known, whatever became of its owner"
        assert await there.shared.check([]) == {}


async def test_a_restart_of_valkey_loses_nothing_that_is_still_in_memory(own_server: ValkeyServer) -> None:
    async with node(own_server, "a") as here, node(own_server, "b") as there:
        running, ended, forgotten = here.open("running"), here.open("ended"), here.open("forgotten")
        for stream in (running, ended, forgotten):
            stream.add(event(1), event(2))
        await ended.end()
        await forgotten.end()
        forgotten.published.forget()
        reader = there.follower.follow("running", 0, 2)
        async with aclosing(reader.batches()) as batches:
            assert await anext(batches) == [event(1), event(2)]
            own_server.kill()
            running.add(event(3))
            assert not await running.published.flushed(0.0)
            with pytest.raises(SharedUnavailable):
                await anext(batches)
        own_server.start()
        assert await running.flushed()
        await until_found(there, "ended")
        await running.end()
        assert await there.read("running", 2) == ([event(3)], COMPLETE)
        assert await there.read("ended") == ([event(1), event(2)], COMPLETE)
        assert await there.shared.find("forgotten") is None


async def until_found(reader: StreamNode, stream_id: str) -> None:
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while (stream := await reader.shared.find(stream_id)) is None or stream.state is LIVE:
            await asyncio.sleep(0)


async def test_frames_that_valkey_evicted_are_published_again(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        stream = here.open("s")
        stream.add(event(1), event(2))
        assert await stream.flushed()
        server.execute("DEL", key(prefix, "f", "s"))
        assert await there.shared.check(["s"]) == {"s": None}
        stream.add(event(3))
        await stream.end()
        assert await there.read("s") == ([event(1), event(2), event(3)], COMPLETE)


async def test_a_failover_that_lost_the_last_frames_is_caught_up(server: ValkeyServer) -> None:
    """The replica that took over had received less."""
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        stream = here.open("s")
        stream.add(event(1))
        assert await stream.flushed()
        stream.add(event(2))
        assert await stream.flushed()
        server.execute("XDEL", key(prefix, "f", "s"), "2-0")
        server.execute("XSETID", key(prefix, "f", "s"), "1-0")
        server.execute("HSET", key(prefix, "h", "s"), "last", "1")
        stream.add(event(3))
        await stream.end()
        assert await there.read("s") == ([event(1), event(2), event(3)], COMPLETE)


@pytest.mark.parametrize("is_in_memory", [True, False])
async def test_a_failover_that_lost_the_end_of_a_stream_does_not_leave_it_open(
    is_in_memory: bool, own_server: ValkeyServer
) -> None:
    async with node(own_server, "a") as here, node(own_server, "b") as there:
        stream = here.open("s")
        stream.add(event(1))
        assert await stream.flushed()
        assert own_server.execute("SAVE") == b"+OK\r\n"
        stream.add(event(2))
        await stream.end()
        if not is_in_memory:
            stream.published.forget()
        own_server.kill()
        own_server.start()
        here.publisher.check()
        expected = COMPLETE if is_in_memory else GIVEN_UP
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while (await found(there, "s")).state is LIVE:
                await asyncio.sleep(0.001)
        assert (await found(there, "s")).state is expected
        if is_in_memory:
            assert await there.read("s") == ([event(1), event(2)], COMPLETE)
            assert here.publisher.held_bytes == len(event(1) + event(2))


async def test_a_stream_whose_frames_memory_dropped_is_given_up_for_all(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        given_up, unread = here.open("given_up"), here.open("unread")
        for stream in (given_up, unread):
            stream.add(event(1))
            assert await stream.flushed()
        reader = asyncio.create_task(there.read("given_up"))
        await asyncio.sleep(0)
        given_up.published.give_up()
        unread.add(event(2))
        unread.source.is_kept = False  # dropped before it was published
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            for stream_id in ("given_up", "unread"):
                while (await found(there, stream_id)).state is LIVE:
                    await asyncio.sleep(0)
            assert (await reader)[1] is GIVEN_UP
        assert not await given_up.flushed()
        assert await there.read("unread") == ([], GIVEN_UP)
        assert here.publisher.held_bytes == 0


async def test_what_a_process_has_in_valkey_is_bounded(server: ValkeyServer) -> None:
    """First the oldest that have ended are dropped, then the largest that runs."""
    prefix, large = new_prefix(), [event(number, 1000) for number in range(10)]
    async with (
        node(server, "a", prefix=prefix, total_bytes=25_000) as here,
        node(server, "b", prefix=prefix) as there,
    ):
        streams = [here.open(f"s{number}") for number in range(4)]
        for stream in streams[:3]:
            stream.add(*large)
            await stream.end()
        states = [(await found(there, f"s{number}")).state for number in range(1, 3)]
        assert states == [COMPLETE, COMPLETE]
        await until_given_up(there, "s0")
        streams[3].add(*large * 3)
        await until_given_up(there, "s1", "s2", "s3")
        assert here.publisher.held_bytes <= 25_000


async def until_given_up(reader: StreamNode, *stream_ids: str) -> None:
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        for stream_id in stream_ids:
            while (await found(reader, stream_id)).state is not GIVEN_UP:
                await asyncio.sleep(0)


async def test_a_reader_that_does_not_read_keeps_few_frames_here_and_gets_all_of_them(server: ValkeyServer) -> None:
    prefix = new_prefix()
    events = [event(number, 30_000) for number in range(200)]
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        stream = here.open("s")
        stream.add(*events)
        await stream.end()
        slow = there.follower.follow("s", 0, len(events))
        async with aclosing(slow.batches()) as batches:
            got = await anext(batches)
            assert len(got) < len(events)
            assert await there.read("s") == (events, COMPLETE), "another reader does not wait for it"
            assert slow._queued_bytes < 4_000_000
            while len(got) < len(events):
                got += await anext(batches)
            with pytest.raises(StreamEnded):
                await anext(batches)
        assert got == events


async def test_nothing_fails_while_valkey_is_not_there(own_server: ValkeyServer) -> None:
    own_server.kill()
    async with node(own_server, "a") as here:
        streams: list[OwnStream] = [here.open(f"s{number}") for number in range(3)]
        for stream in streams:
            stream.add(event(1))
        streams[1].published.ended(COMPLETE)
        streams[2].published.give_up()
        assert not await streams[0].published.flushed(0.0)
        with pytest.raises(SharedUnavailable):
            await here.shared.find("s0")
        with pytest.raises(SharedUnavailable):
            await anext(here.follower.follow("s0", 0, 0).batches())
        own_server.start()
        assert await streams[0].flushed()
        assert await streams[1].flushed()
        assert await here.read("s1") == ([event(1)], COMPLETE)


async def test_every_key_expires_and_frames_before_their_head(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here:
        running, ended = here.open("running", idempotency="k:1"), here.open("ended")
        running.add(event(1))
        ended.add(event(1))
        assert await running.flushed()
        await ended.end()
        await here.shared.tell("b", kind="stop", stream="s")
        lives = {name: remaining_s(server, name) for name in keys(server, prefix)}
    kinds = {(name.split(":")[2], name.split(":")[3]): rest for name, rest in lives.items()}
    assert kinds.keys() == {
        *(("h", "running"), ("f", "running"), ("h", "ended"), ("f", "ended")),
        *(("o", "a"), ("k", "k"), ("m", "b")),
    }
    assert all(rest > 0 for rest in kinds.values()), kinds
    assert LIVES.keep_s - 60 < kinds["f", "ended"] <= LIVES.keep_s
    assert LIVES.known_s - 60 < kinds["h", "ended"] <= LIVES.known_s
    assert LIVES.live_s - 60 < kinds["f", "running"] <= LIVES.live_s


def keys(server: ValkeyServer, prefix: str) -> list[str]:
    return re.findall(rf"\{{{prefix}\}}:st:[^\r]+", server.execute("KEYS", f"*{prefix}*").decode())


def remaining_s(server: ValkeyServer, name: str) -> int:
    return int(server.execute("TTL", name).strip(b":\r\n"))


async def test_the_lease_and_the_lives_of_a_silent_stream_are_renewed(server: ValkeyServer) -> None:
    prefix, lifetimes = new_prefix(), Lifetimes(lease_s=0.1, live_s=4.0)
    async with (
        node(server, "a", prefix=prefix, lifetimes=lifetimes) as here,
        node(server, "b", prefix=prefix) as there,
    ):
        assert await here.open("s").flushed()
        server.execute("PEXPIRE", key(prefix, "h", "s"), "60000")
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while remaining_s(server, key(prefix, "h", "s")) > 30:
                await asyncio.sleep(0.01)
        assert await there.shared.find("s") is not None


async def test_a_clock_that_is_set_back_makes_no_stream_uncertain(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here:
        server.execute("SET", f"{{{prefix}}}:st:b", "9999999999999")
        assert await here.shared.find("s") is None


async def test_a_process_that_ends_leaves_no_lease(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here:
        stream = here.open("s")
        stream.add(event(1))
        stream.published.ended(SharedState.CUT)
        await here.publisher.close(WAIT_TIMEOUT_S)
        assert (await found(here, "s")).state is SharedState.CUT, "what there was is published first"
        assert not (await found(here, "s")).is_owner_alive


async def test_messages_reach_a_process_in_their_order(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        here.follower.start()
        for number in range(5):
            await there.shared.tell("a", kind="stop", stream=f"s{number}")
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while len(here.messages) < 5:
                await asyncio.sleep(0)
        assert here.messages == [{"kind": "stop", "stream": f"s{number}"} for number in range(5)]


async def test_a_reader_that_leaves_is_forgotten(server: ValkeyServer) -> None:
    prefix = new_prefix()
    async with node(server, "a", prefix=prefix) as here, node(server, "b", prefix=prefix) as there:
        stream = here.open("s")
        stream.add(event(1))
        assert await stream.flushed()
        async with aclosing(there.follower.follow("s", 0, 1).batches()) as batches:
            assert await anext(batches) == [event(1)]
        assert there.follower._followings == {}
