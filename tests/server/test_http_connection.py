"""One connection over a real socket: turns, limits, deadlines, and what is answered to whom."""

import asyncio
import random

import pytest

from conftest import SOAKS
from streamweir.core.errors import StreamweirError
from streamweir.server.http.body import CHUNK_BUDGET, FREE_CHUNKS, MAX_CHUNKS_PER_TURN, ReadBudget
from streamweir.server.http.message import Answer, Request, Response
from support.http_app import SmallApp, chunked, get, post, serving
from support.raw_client import RawClient
from support.stalled_loop import run_on_it, the_loop


async def test_requests_follow_each_other_on_one_connection() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        for number in range(200):
            await client.send(post("/echo", b"%d" % number))
            reply = await client.response()
            assert (reply.status, reply.body) == (200, b"%d" % number)
            assert reply.header("connection") is None
        assert at.server.connections == 1
        request = at.app.served[0]
        assert request.peer == "127.0.0.1"
        assert (request.method, request.path, request.query) == ("POST", "/echo", "")
        assert len({request.id for request in at.app.served}) == 200


@pytest.mark.parametrize("size", [1, 2, 3, 17])
async def test_a_request_may_come_in_any_pieces(size: int) -> None:
    data = chunked("/echo?x=1", b"hello ", b"w", b"orld" * 10) + post("/stream", b"again") + get("/echo")
    async with serving() as at, await RawClient.open(at.address) as client:
        for cut in range(0, len(data), size):
            await client.send(data[cut : cut + size])
        assert (await client.response()).body == b"hello world" + b"orld" * 9
        assert (await client.response()).body == b"firstagainlast"
        assert (await client.response()).body == b""


async def test_random_cuts() -> None:
    data = chunked("/echo", b"hello ", b"w", b"orld" * 10) + post("/stream", b"again")
    async with serving() as at, await RawClient.open(at.address) as client:
        for seed in range(300 if SOAKS else 30):
            chance = random.Random(seed)
            cut = 0
            while cut < len(data):
                size = chance.randrange(1, 60)
                await client.send(data[cut : cut + size])
                cut += size
            assert (await client.response()).body == b"hello world" + b"orld" * 9
            assert (await client.response()).body == b"firstagainlast"


async def test_pipelined_requests_are_answered_in_order() -> None:
    """The first is held: what follows waits, unread, and none gets another's answer."""
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(
            get("/hold", "authorization: one")
            + post("/echo", b"two", "authorization: two")
            + chunked("/stream", b"th", b"ree")
            + get("/hold", "authorization: four")
            + b"\r\n\r\n"
            + post("/echo", b"five")
        )
        first = await at.app.hold()
        assert [request.headers["authorization"] for request in at.app.begun] == ["one"]
        first.send(Answer(status=200, body=b"one"))
        assert (await client.response()).body == b"one"
        assert (await client.response()).body == b"two"
        assert (await client.response()).body == b"firstthreelast"
        fourth = await at.app.hold()
        assert len(at.app.begun) == 4
        fourth.start(200, ())
        fourth.end(b"four")
        assert (await client.response()).body == b"four"
        assert (await client.response()).body == b"five"


async def test_many_pipelined_requests_give_others_their_turn() -> None:
    async with serving() as at, await RawClient.open(at.address) as one, await RawClient.open(at.address) as other:
        await one.send(get("/hold", "x: first") + get("/echo") * 500)
        held = await at.app.hold()
        await other.send(get("/echo", "x: other"))
        held.send(Answer(status=200))
        assert (await other.response()).status == 200
        for _ in range(501):
            assert (await one.response()).status == 200


async def test_what_is_pipelined_is_bounded() -> None:
    """Past the bound nothing of it is kept, and the caller is told so behind the answer that was under way."""
    async with serving(pipeline_bytes=10000) as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        await client.send(post("/status?200", bytes(300000)) * 3)
        await at.accepted()
        held.send(Answer(status=200))
        first, second = await client.response(), await client.response()
        assert (first.status, first.header("connection")) == (200, None)
        assert (second.status, second.body, second.header("connection")) == (400, b"invalid_value", "close")
        assert await client.is_closed()
        assert [request.path for request in at.app.begun if request.path != "/status"] == ["/hold"]


async def test_requests_pipelined_after_the_last_answer_get_no_answer() -> None:
    async with serving(pipeline_bytes=10000) as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold", "connection: close") + bytes(20000))
        held = await at.app.hold()
        held.send(Answer(status=200))
        assert (await client.response()).status == 200
        assert await client.is_closed()
        assert at.app.refused == []


async def test_blank_lines_before_a_request_are_ignored() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(b"\r\n\r\n" * 40000 + get("/echo") + b"\r\n\r")
        assert (await client.response()).status == 200
        await client.send(b"\n" + get("/echo"))
        assert (await client.response()).status == 200


async def test_blank_lines_are_no_beginning_of_a_head() -> None:
    """Else the deadline of heads would hold, and a refusal come at its end."""
    async with serving(header_s=1000, keep_s=0.05) as at, await RawClient.open(at.address) as client:
        await client.send(get("/echo") + b"\r\n\r\n\r")
        assert (await client.response()).status == 200
        assert await client.is_closed()
        assert at.app.refused == []


# HTTP/1.0, HEAD and the like.


async def test_http_1_0_is_ended_by_the_connection() -> None:
    async with serving() as at:
        for path, body in (("/echo", b"abc"), ("/stream", b"firstabclast")):
            async with await RawClient.open(at.address) as client:
                await client.send(f"POST {path} HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc".encode())
                reply = await client.response()
                assert (reply.body, reply.header("connection")) == (body, "close")
                assert reply.header("transfer-encoding") is None
                assert await client.is_closed()


async def test_the_caller_may_ask_to_close() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/echo", "connection: close") + get("/echo"))
        reply = await client.response()
        assert reply.header("connection") == "close"
        assert await client.is_closed()
        assert len(at.app.begun) == 1


# The two questions to the application.


async def test_an_answer_to_the_head_spares_the_body() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /deny HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")
        reply = await client.response()
        assert (reply.status, reply.header("connection")) == (401, "close")
        assert await client.is_closed()
        assert at.app.served == []


async def test_an_answer_to_a_head_without_a_body_keeps_the_connection() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/deny") + get("/echo"))
        assert (await client.response()).status == 401
        assert (await client.response()).status == 200


async def test_a_denied_caller_that_is_sending_reads_its_answer() -> None:
    """A reset would take the answer away from it: the connection lingers."""
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /deny HTTP/1.1\r\nhost: a\r\ncontent-length: 8000000\r\n\r\n")
        await at.app.until(lambda: at.app.begun)
        for _ in range(8):
            await client.send(bytes(1000000))
        assert (await client.response()).status == 401
        assert await client.is_closed()


async def test_a_streamed_answer_to_the_head() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(post("/early", b"never read"))
        held = await at.app.hold()
        await client.send(b"nor this")
        held.end(b" end")
        reply = await client.response()
        assert (reply.body, reply.header("connection")) == (b"early end", "close")
        assert await client.is_closed()
        assert at.app.served == []


async def test_a_flood_beside_an_answer_ends_it() -> None:
    """Not to read it would be not to notice when its sender has gone."""
    async with serving(linger_bytes=100000) as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 8000000\r\n\r\n")
        held = await at.app.hold()
        with pytest.raises(ConnectionError):
            await client.send(bytes(100_000_000))
        await at.emptied()
        assert held.gone


async def test_continue_is_sent_once_and_only_if_it_is_expected() -> None:
    expecting = b"POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n"
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(expecting)
        assert (await client.response()).head == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"hel")
        await client.send(b"lo" + expecting + b"hello" + get("/echo", "expect: 100-continue"))
        assert [(await client.response()).status for _ in range(3)] == [200, 200, 200]


async def test_http_1_0_gets_no_100_continue() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /echo HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        await at.app.until(lambda: at.app.begun)
        await client.send(b"ab")
        assert (await client.response()).body == b"ab"


@pytest.mark.parametrize(("budget", "each"), [(CHUNK_BUDGET, MAX_CHUNKS_PER_TURN), (0, FREE_CHUNKS)])
async def test_a_body_in_small_chunks_is_parsed_in_turns_with_everything_else(budget: int, each: int) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        at.server.read_budget = ReadBudget(budget)  # nothing left: others have taken all of it
        read_budget = 0

        async def count() -> None:
            nonlocal read_budget
            while not at.app.served:
                read_budget += bool(at.app.begun)
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count())
        await client.send(chunked("/echo", *([b"a"] * 2000)) + get("/echo"))
        assert (await client.response()).body == b"a" * 2000
        assert (await client.response()).status == 200
        await counting
        assert read_budget >= 2000 // each


async def test_all_connections_share_what_is_parsed_in_a_turn() -> None:
    read_budget = ReadBudget(2 * MAX_CHUNKS_PER_TURN)
    assert read_budget.allowed() == MAX_CHUNKS_PER_TURN
    for _ in range(3):
        read_budget.spent(MAX_CHUNKS_PER_TURN)
    assert read_budget.allowed() == FREE_CHUNKS
    read_budget.spent(FREE_CHUNKS)
    await asyncio.sleep(0)
    assert read_budget.allowed() == MAX_CHUNKS_PER_TURN


# Limits.


async def test_eight_mebibytes_are_taken() -> None:
    body = random.Random(1).randbytes(8 * 1024 * 1024)
    async with serving() as at, await RawClient.open(at.address) as client:
        for request in (post("/hold", body), chunked("/hold", body[:1000], body[1000:])):
            await client.send(request)
            held = await at.app.hold()
            assert at.app.served.pop().body == body
            held.send(Answer(status=200))
            assert (await client.response()).status == 200


async def test_a_body_declared_too_large_is_refused_unread() -> None:
    async with serving(body_bytes=1000) as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1001\r\n\r\n")
        reply = await client.response()
        assert (reply.status, reply.body, reply.header("connection")) == (413, b"request_too_large", "close")
        assert await client.is_closed()
        request, error = at.app.refused[0]
        assert request is not None
        assert request.path == "/echo"
        assert error.code == "request_too_large"
        assert at.app.begun == []


async def test_a_chunked_body_is_refused_at_the_limit() -> None:
    async with serving(body_bytes=1000, linger_bytes=100000) as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(30):
            await client.send(b"64\r\n" + bytes(100) + b"\r\n")
        assert (await client.response()).status == 413
        assert await client.is_closed()
        assert at.app.served == []


async def test_a_flood_after_the_answer_is_cut() -> None:
    async with serving(body_bytes=1000, linger_bytes=100000, linger_s=1000) as at:
        async with await RawClient.open(at.address) as client:
            await client.send(b"nonsense\r\n\r\n")
            with pytest.raises(ConnectionError):
                await client.send(bytes(100_000_000))
        await at.emptied()


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/echo", "x: " + "a" * 40000),
        get("/" + "a" * 40000),
        get("/echo", *(f"x{number}: y" for number in range(100))),
        b"GET / HTTP/1.1\r\nhost: a\r\n" + b"a: b\r\n" * 20000,
    ],
    ids=["value", "line", "fields", "endless"],
)
async def test_a_head_that_is_too_large(request_bytes: bytes) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(request_bytes)
        reply = await client.response()
        assert (reply.status, reply.body) == (431, b"headers_too_large")
        assert await client.is_closed()
        assert at.app.begun == []


# Deadlines.


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost"])
async def test_a_head_has_a_deadline(sent: bytes) -> None:
    async with serving(header_s=0.03) as at, await RawClient.open(at.address) as client:
        await client.send(sent)
        reply = await client.response()
        assert (reply.status, reply.body, reply.header("connection")) == (408, b"request_timeout", "close")
        assert await client.is_closed()
        assert at.app.begun == []


def test_the_next_head_has_its_own_deadline() -> None:
    async def main() -> None:
        async with serving(header_s=60, keep_s=3600) as at, await RawClient.open(at.address) as client:
            await client.send(get("/echo"))
            assert (await client.response()).status == 200
            the_loop().stand_still(70)  # being idle is not being late
            await client.send(get("/echo") + b"GET")
            assert (await client.response()).status == 200
            the_loop().stand_still(70)
            assert (await client.response()).status == 408
            assert await client.is_closed()

    run_on_it(main)


async def test_bytes_do_not_put_a_deadline_off() -> None:
    async with serving(header_s=0.05, body_s=0.05) as at:
        for beginning in (
            b"GET / HTTP/1.1\r\nx: ",
            b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n",
        ):
            async with await RawClient.open(at.address) as client:
                await client.send(beginning)
                answer = asyncio.ensure_future(client.response())
                while not answer.done():
                    await client.send(b"a")
                    await asyncio.sleep(0.002)
                assert answer.result().status == 408


async def test_a_body_has_a_deadline() -> None:
    async with serving(body_s=0.03) as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nabc")
        assert (await client.response()).status == 408
        assert await client.is_closed()
        request, _ = at.app.refused[0]
        assert request is at.app.begun[0]
        assert at.app.events == []


async def test_an_idle_connection_is_closed_silently() -> None:
    async with serving(keep_s=0.03) as at, await RawClient.open(at.address) as client:
        await client.send(get("/echo"))
        assert (await client.response()).status == 200
        assert await client.is_closed()
        assert at.app.refused == []
        await at.emptied()


def test_an_answer_has_no_deadline_here() -> None:
    async def main() -> None:
        async with (
            serving(header_s=60, body_s=60, keep_s=60) as at,
            await RawClient.open(at.address) as client,
            await RawClient.open(at.address) as silent,
        ):
            await client.send(get("/hold"))
            held = await at.app.hold()
            the_loop().stand_still(70)
            assert (await silent.response()).status == 408  # so the limits are over
            held.send(Answer(status=200))
            assert (await client.response()).status == 200

    run_on_it(main)


async def test_slowloris_takes_nothing_from_others() -> None:
    count, header_s = (2000, 5.0) if SOAKS else (200, 0.5)
    async with serving(header_s=header_s) as at, await RawClient.open(at.address) as honest:
        await honest.send(get("/echo"))
        assert (await honest.response()).status == 200
        slow = [await RawClient.open(at.address) for _ in range(count)]
        for client in slow:
            await client.send(b"GET / HTTP/1.1\r\nx: ")
        for _ in range(20):
            await honest.send(post("/echo", b"hello"))
            assert (await honest.response()).body == b"hello"
        for client in slow:
            assert (await client.response()).status == 408
            client.close()


# Faults of the application.


class Faults:
    """What reached the loop."""

    def __init__(self) -> None:
        self.seen: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(self._note)

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        reason = context.get("exception")
        assert isinstance(reason, BaseException)
        self.seen.append(reason)


@pytest.mark.parametrize("path", ["/raise", "/raise-early"])
async def test_a_fault_that_escapes_ends_the_connection_and_reaches_the_loop(path: str) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        faults = Faults()
        await client.send(get(path) + get("/echo"))
        assert await client.is_closed()
        await at.emptied()
        assert [type(fault) for fault in faults.seen] == [ZeroDivisionError]
        assert at.app.events == ["gone"]
        assert len(at.app.begun) == 1


async def test_a_fault_of_the_next_request_does_not_reach_the_one_before() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        faults = Faults()
        await client.send(get("/hold") + get("/raise"))
        held = await at.app.hold()
        held.send(Answer(status=200))
        assert (await client.response()).status == 200
        assert await client.is_closed()
        assert [type(fault) for fault in faults.seen] == [ZeroDivisionError]


class BrokenRefusal(SmallApp):
    def refuse(self, _request: Request, _error: StreamweirError, /) -> Answer:
        raise ZeroDivisionError("refuse")


async def test_a_refusal_that_fails_ends_the_connection() -> None:
    async with serving(BrokenRefusal()) as at, await RawClient.open(at.address) as client:
        faults = Faults()
        await client.send(b"nonsense\r\n\r\n")
        assert await client.is_closed()
        assert [type(fault) for fault in faults.seen] == [ZeroDivisionError]


class LateAnswer(SmallApp):
    """Answers while the body is still coming."""

    def begin(self, request: Request, response: Response, /) -> None:
        super().begin(request, response)
        self.held.append(response)


async def test_an_answer_in_the_middle_of_a_body_ends_the_reading() -> None:
    async with serving(LateAnswer()) as at, await RawClient.open(at.address) as client:
        await client.send(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nab")
        held = await at.app.hold()
        held.send(Answer(status=503))
        await client.send(b"cde")
        reply = await client.response()
        assert (reply.status, reply.header("connection")) == (503, "close")
        assert await client.is_closed()
        assert at.app.served == []
