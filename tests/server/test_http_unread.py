"""A body that is read on request: not a byte of it is read before, and a failure is reported once."""

import asyncio
from collections.abc import Callable

import pytest

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.server.http.message import Answer, Request, Response
from support.deadlines import WAIT_TIMEOUT_S
from support.http_app import Serving, SmallApp, chunked, get, post, serving
from support.raw_client import RawClient

Leave = Callable[[RawClient], None]


def asked(response: Response, most: int | None = None) -> "asyncio.Future[StreamweirError | None]":
    told: asyncio.Future[StreamweirError | None] = asyncio.get_running_loop().create_future()
    response.read_body(most, told.set_result)
    return told


async def the_error(told: "asyncio.Future[StreamweirError | None]") -> str:
    error = await asyncio.wait_for(told, WAIT_TIMEOUT_S)
    assert isinstance(error, CallerError)
    return error.code


async def answered(at: Serving, client: RawClient, held: Response, *, closes: bool) -> None:
    held.send(Answer(status=200))
    reply = await client.response()
    assert (reply.status, reply.header("connection")) == (200, "close" if closes else None)
    assert at.app.served == []
    assert at.app.refused == []


@pytest.mark.parametrize("cut", [0, 3, 7])
async def test_a_body_comes_when_it_is_asked_for(cut: int) -> None:
    for wire in (post("/later", b"0123456"), chunked("/later", b"012", b"3456")):
        head, _, body = wire.partition(b"\r\n\r\n")
        async with serving() as at, await RawClient.open(at.address) as client:
            await client.send(head + b"\r\n\r\n" + body[:cut])
            held = await at.app.hold()
            await at.accepted()
            assert at.app.begun[0].body == b""
            told = asked(held)
            await client.send(body[cut:] + get("/echo"))
            assert await asyncio.wait_for(told, WAIT_TIMEOUT_S) is None
            assert at.app.begun[0].body == b"0123456"
            held.send(Answer(status=200))
            assert [(await client.response()).status for _ in range(2)] == [200, 200]


async def test_without_a_body_there_is_nothing_to_wait_for() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/later"))
        held = await at.app.hold()
        assert await asked(held) is None
        await answered(at, client, held, closes=False)


async def test_data_that_is_not_requested_stays_in_the_kernel() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /later HTTP/1.1\r\nhost: a\r\ncontent-length: 8000000\r\n\r\n")
        held = await at.app.hold()
        sending = asyncio.ensure_future(client.send(bytes(100_000_000)))
        await asyncio.wait({sending}, timeout=0.1)  # more than any kernel takes: it cannot get through, given any time
        assert not sending.done()
        held.send(Answer(status=401))
        reply = await client.response()
        assert (reply.status, reply.header("connection")) == (401, "close")
        with pytest.raises(ConnectionError):
            await sending
        assert at.app.served == []


async def test_100_continue_is_sent_when_the_body_is_read() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /later HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        held = await at.app.hold()
        told = asked(held)
        assert (await client.response()).status == 100
        await client.send(b"ab")
        assert await asyncio.wait_for(told, WAIT_TIMEOUT_S) is None
        await answered(at, client, held, closes=False)


async def test_each_caller_may_have_its_own_limit() -> None:
    async with serving(body_bytes=100) as at:
        for wire in (post("/later", bytes(11)), chunked("/later", bytes(6), bytes(5))):
            async with await RawClient.open(at.address) as client:
                await client.send(wire)
                held = await at.app.hold()
                assert await the_error(asked(held, 10)) == "request_too_large"
                await answered(at, client, held, closes=True)


async def test_a_limit_of_its_own_is_not_above_that_of_all() -> None:
    async with serving(body_bytes=100) as at, await RawClient.open(at.address) as client:
        await client.send(chunked("/later", bytes(101)))
        held = await at.app.hold()
        assert await the_error(asked(held, 1000)) == "request_too_large"
        await answered(at, client, held, closes=True)


async def test_an_invalid_body_is_reported_to_its_reader() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(chunked("/later", b"hello").replace(b"5", b"x"))
        held = await at.app.hold()
        assert await the_error(asked(held)) == "invalid_value"
        await answered(at, client, held, closes=True)


async def test_a_body_that_is_late_is_reported_to_its_reader() -> None:
    async with serving(body_s=0.03) as at, await RawClient.open(at.address) as client:
        await client.send(post("/later", b"abc")[:-1])
        held = await at.app.hold()
        assert await the_error(asked(held)) == "request_timeout"
        await answered(at, client, held, closes=True)


@pytest.mark.parametrize("leave", [RawClient.close, RawClient.reset, RawClient.half_close])
async def test_leaving_within_a_body_that_was_asked_for(leave: Leave) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(post("/later", b"abc")[:-1])
        told = asked(await at.app.hold())
        leave(client)
        await at.app.until(lambda: at.app.events)
        await at.emptied()
        assert at.app.events == ["gone"]
        assert not told.done()


class Hold:
    """See `server.http.message.BodyHold`."""

    def __init__(self, storage: int) -> None:
        self.storage = storage
        self.events: list[int | str] = []

    def grow(self, to_bytes: int, /) -> StreamweirError | None:
        self.events.append(to_bytes)
        return None if to_bytes <= self.storage else CallerError("concurrency_limit_exceeded", "full")

    def release(self) -> None:
        self.events.append("released")


class Holding(SmallApp):
    def __init__(self, hold: Hold) -> None:
        super().__init__()
        self.hold_ = hold

    def begin(self, request: Request, response: Response, /) -> bool | None:
        request.hold = self.hold_
        return super().begin(request, response)


async def test_a_chunked_body_that_finds_no_memory_is_refused_where_it_grows() -> None:
    hold = Hold(storage=100_000)
    async with serving(Holding(hold)) as at, await RawClient.open(at.address) as client:
        await client.send(chunked("/echo", bytes(100_000))[:-5])
        await at.app.until(lambda: hold.events)
        assert at.app.refused == []
        await client.send(b"1\r\na\r\n")
        reply = await client.response()
        assert (reply.status, reply.header("connection")) == (429, "close")
        assert await client.is_closed()
        assert hold.events[-2:] == [100_001, "released"]
        assert at.app.served == []


@pytest.mark.parametrize("path", ["/hold", "/later"])
async def test_memory_is_held_until_the_answer_is_over(path: str) -> None:
    hold = Hold(storage=100)
    async with serving(Holding(hold)) as at, await RawClient.open(at.address) as client:
        await client.send(post(path, b"abc"))
        held = await at.app.hold()
        if path == "/later":
            assert await asyncio.wait_for(asked(held), WAIT_TIMEOUT_S) is None
        held.start(200, (), b"x")
        assert hold.events == []
        held.end()
        assert hold.events == ["released"]
        await client.response()


async def test_memory_is_released_when_the_caller_disconnects() -> None:
    hold = Hold(storage=100)
    async with serving(Holding(hold)) as at, await RawClient.open(at.address) as client:
        await client.send(post("/echo", b"abc")[:-1])
        await at.app.until(lambda: at.app.begun)
        client.close()
        await at.emptied()
        assert hold.events == ["released"]
