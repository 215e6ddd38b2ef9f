"""Callers that read slowly, not at all, or disconnect: what waits is bounded, and the writer is notified once."""

import asyncio
import gc
import socket
from collections.abc import Callable

import pytest

from conftest import SOAKS
from streamweir.server.http.connection import Connection
from streamweir.server.http.message import Answer, Response
from support.deadlines import WAIT_TIMEOUT_S
from support.http_app import Serving, chunked, get, post, serving
from support.raw_client import CutShort, RawClient
from support.stalled_loop import run_on_it, the_loop

HIGH = 65536
PIECE = bytes(8192)


def connection_of(at: Serving) -> Connection:
    (connection,) = at.server._open
    return connection


def waiting_at(at: Serving) -> int:
    return connection_of(at)._transport.get_write_buffer_size()


async def fill(at: Serving, response: Response) -> int:
    """Writes until it is told to stop; how many bytes of body that took."""
    count = 0
    while "full" not in at.app.events:
        response.write(PIECE)
        count += len(PIECE)
        await asyncio.sleep(0)
        assert count < 50_000_000
    return count


# Slow readers.


async def test_a_writer_is_paused_and_resumed() -> None:
    async with serving() as at, await RawClient.open(at.address, receive_buffer=8192) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        held.start(200, ())
        count = await fill(at, held)
        assert held.full
        assert HIGH < waiting_at(at) <= HIGH + 2 * len(PIECE)
        head = await client.head()
        reading = asyncio.ensure_future(_read_chunks(client))
        await at.app.until(lambda: at.app.events == ["full", "drained"])
        assert not held.full
        held.end(b"end")
        assert head.status == 200
        assert await reading == bytes(count) + b"end"


async def _read_chunks(client: RawClient) -> bytes:
    body = b""
    while chunk := await client.chunk():
        body += chunk
    return body


async def test_the_writer_is_never_called_back_within_its_own_write() -> None:
    async with serving() as at, await RawClient.open(at.address, receive_buffer=8192) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        held.start(200, (), bytes(10_000_000))
        assert held.full
        assert at.app.events == []
        await at.app.until(lambda: at.app.events == ["full"])


async def test_the_kernel_holds_little_for_a_caller_that_does_not_read() -> None:
    async with serving() as at, await RawClient.open(at.address, receive_buffer=8192) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        held.start(200, ())
        assert await fill(at, held) < 1_000_000
        sock = connection_of(at)._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 2 * HIGH
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for name, value in (("TCP_NOTSENT_LOWAT", 16384), ("TCP_KEEPIDLE", 60), ("TCP_USER_TIMEOUT", 30000)):
            if hasattr(socket, name):
                assert sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value


async def test_a_caller_that_pauses_loses_nothing() -> None:
    async with serving() as at, await RawClient.open(at.address, receive_buffer=8192) as client:
        await client.send(get("/large?3000000") + get("/echo"))
        await at.app.until(lambda: at.app.served)
        await asyncio.sleep(0.02)
        assert len(at.app.begun) == 1  # the second is not begun while the first one's answer piles up
        assert (await client.response()).body == bytes(3000000)
        assert (await client.response()).status == 200


# Standing still.


@pytest.mark.parametrize("size", [3_000_000, 600_000], ids=["above the mark", "below the mark"])
async def test_a_caller_that_takes_nothing_is_dropped(size: int) -> None:
    async with serving(write_stall_s=0.08, high_water=1_000_000) as at:
        async with await RawClient.open(at.address, receive_buffer=4096) as client:
            await client.send(get("/hold"))
            held = await at.app.hold()
            held.start(200, (), bytes(size))
            await at.app.until(lambda: "gone" in at.app.events)
            assert held.gone
            assert held.over
            await at.emptied()
        assert at.app.events.count("gone") == 1


@pytest.mark.parametrize("fields", [(), ("connection: close",)])
async def test_so_it_is_after_the_answer(fields: tuple[str, ...]) -> None:
    async with serving(write_stall_s=0.08, linger_s=0.01, keep_s=0.01) as at:
        async with await RawClient.open(at.address, receive_buffer=4096) as client:
            await client.send(get("/large?3000000", *fields))
            await at.app.until(lambda: at.app.served)
            await at.emptied()
            with pytest.raises((CutShort, ConnectionError)):
                await client.response()
        assert at.app.events == []


def test_a_slow_but_steady_reader_is_not_dropped() -> None:
    """Neither the stall, nor the time limits of idle or closing connections, end an answer that is being read."""

    async def main() -> None:
        async with serving(write_stall_s=60, linger_s=6, keep_s=6) as at:
            for fields in ((), ("connection: close",)):
                async with await RawClient.open(at.address, receive_buffer=4096) as client:
                    await client.send(get("/large?400000", *fields))
                    await client.head()
                    for _ in range(40):
                        assert len(await client.read_exactly(10000)) == 10000
                        the_loop().stand_still(3)
                        await asyncio.sleep(0)

    run_on_it(main)


# Leaving.


Leave = Callable[[RawClient], None]
WAYS: dict[str, Leave] = {"close": RawClient.close, "reset": RawClient.reset, "half close": RawClient.half_close}


@pytest.fixture(params=WAYS)
def leave(request: pytest.FixtureRequest) -> Leave:
    return WAYS[request.param]


async def test_leaving_before_the_answer(leave: Leave) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(post("/hold", b"abc"))
        held = await at.app.hold()
        leave(client)
        await at.app.until(lambda: at.app.events)
        await at.emptied()
        assert (held.gone, held.over, held.started) == (True, True, False)
        held.start(200, ())
        held.write(b"x")
        held.end()
        held.send(Answer(status=200))
        held.cut()
        assert at.app.events == ["gone"]


async def test_leaving_within_the_answer(leave: Leave) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        held.start(200, (), b"x")
        await client.head()
        assert await client.chunk() == b"x"
        leave(client)
        await at.app.until(lambda: at.app.events)
        await at.emptied()
        held.write(b"y")
        held.end()
        assert at.app.events == ["gone"]


async def test_leaving_within_the_body(leave: Leave) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(chunked("/echo", b"hello")[:-5])
        await at.app.until(lambda: at.app.begun)
        leave(client)
        await at.emptied()
        assert at.app.events == ["gone"]
        assert at.app.served == []
        assert at.app.refused == []


@pytest.mark.parametrize("sent", [b"", b"GET / HT", get("/echo")], ids=["fresh", "head", "idle"])
async def test_leaving_while_nothing_is_under_way(sent: bytes, leave: Leave) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/echo") if sent else b"")
        if sent:
            await client.response()
        await client.send(sent)
        if sent == get("/echo"):
            await client.response()
        await at.accepted()
        leave(client)
        await at.emptied()
        assert at.app.events == []
        assert at.app.refused == []


async def test_leaving_while_lingering(leave: Leave) -> None:
    async with serving(linger_s=1000) as at, await RawClient.open(at.address) as client:
        await client.send(b"nonsense\r\n\r\n")
        assert (await client.response()).status == 400
        leave(client)
        await at.emptied()


async def test_leaving_with_more_requests_than_answers(leave: Leave) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold") + get("/hold") * 3)
        held = await at.app.hold()
        leave(client)
        await at.emptied()
        assert at.app.events == ["gone"]
        assert held.gone
        assert len(at.app.begun) == 1


async def test_leaving_with_more_behind_the_request_than_is_kept(leave: Leave) -> None:
    async with serving(pipeline_bytes=1000) as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold") + get("/hold") * 3000)
        held = await at.app.hold()
        leave(client)
        await at.app.until(lambda: at.app.events)
        await at.emptied()
        assert at.app.events == ["gone"]
        assert held.gone


async def test_what_was_answered_reaches_a_caller_that_has_closed_its_side() -> None:
    async with serving() as at, await RawClient.open(at.address, receive_buffer=8192) as client:
        await client.send(get("/large?1000000"))
        client.half_close()
        assert (await client.response()).body == bytes(1000000)
        assert await client.is_closed()
        assert at.app.events == []


async def test_a_silent_disconnect_while_the_writer_waits() -> None:
    """The caller's socket is closed with unread bytes in it: that is a reset, seen though nothing is written."""
    async with serving() as at, await RawClient.open(at.address, receive_buffer=8192) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        held.start(200, ())
        await fill(at, held)
        client.close()
        await at.app.until(lambda: "gone" in at.app.events)


async def test_nothing_is_left_of_a_connection(leave: Leave) -> None:
    """No timer, no callback, no cycle that only the collector finds."""
    begun = post("/hold", b"x")[:-1]
    async with serving() as at:
        gc.collect()
        before = connections_left()  # those in the report of a test that failed
        gc.disable()
        try:
            for sent in (b"", b"GET", get("/echo"), get("/hold"), get("/large?1000000"), b"\x00", begun):
                client = await RawClient.open(at.address)
                await client.send(sent)
                await at.accepted()
                leave(client)
                client.close()
                await at.emptied()
            at.app.forget()
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while connections_left() > before:  # the thread of the watchdog may just look at the stack of one
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()


def connections_left() -> int:
    return sum(isinstance(item, Connection) for item in gc.get_objects())


async def test_many_leave_at_any_moment() -> None:
    async with serving() as at:
        for number in range(2000 if SOAKS else 200):
            client = await RawClient.open(at.address)
            await client.send(chunked("/hold", b"hello", b"world")[: 20 + number % 110])
            if number % 3 == 0:
                await asyncio.sleep(0)
            (client.reset if number % 2 else client.close)()
        await at.emptied()
        for held in at.app.held:
            assert held.gone
        assert len(at.app.events) == len(at.app.begun)
