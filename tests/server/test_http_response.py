"""How answers are written: framing, headers, what is left out, and the ends that are none."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

import pytest

from streamweir.server.http.message import Answer, Headers
from support.http_app import get, post, serving
from support.raw_client import CutShort, RawClient


async def test_a_whole_answer() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(post("/hold", b""))
        held = await at.app.hold()
        assert (held.started, held.over) == (False, False)
        held.send(Answer(status=201, headers=(("X-Thing", "a"), ("set-cookie", "b"), ("set-cookie", "c")), body=b"{}"))
        assert (held.started, held.over, held.gone) == (True, True, False)
        reply = await client.response()
        assert reply.head.startswith(b"HTTP/1.1 201 Created\r\n")
        assert [name for name, _ in reply.headers] == [
            *("x-thing", "set-cookie", "set-cookie", "date", "x-request-id", "content-length")
        ]
        assert reply.body == b"{}"
        assert reply.header("x-request-id") == at.app.served[0].id
        assert re.fullmatch("[A-Za-z0-9_-]{1,64}", at.app.served[0].id)
        date = reply.header("date")
        assert date is not None
        assert date.endswith(" GMT")
        assert parsedate_to_datetime(date).tzinfo is UTC


async def test_a_stream_is_framed_write_by_write() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold") + get("/echo"))
        held = await at.app.hold()
        held.start(200, (("content-type", "text/event-stream"),), b"first")
        held.write(b"")
        held.write(b"x" * 5000)
        held.write(b"y")
        held.end(b"last")
        reply = await client.response()
        assert reply.chunks == (b"first", b"x" * 5000, b"y", b"last")
        assert (await client.response()).status == 200


async def test_a_stream_without_first_or_last_bytes() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        held.start(200, ())
        assert (await client.head()).header("transfer-encoding") == "chunked"
        held.end()
        assert await client.chunk() == b""


async def test_head_gets_no_body() -> None:
    request = get("/hold").replace(b"GET", b"HEAD")
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(request * 3 + get("/echo"))
        (await at.app.hold()).send(Answer(status=200, body=b"12345"))
        assert (await client.response(has_body=False)).header("content-length") == "5"
        (await at.app.hold()).send(Answer(status=200, headers=(("Content-Length", "77"),)))
        assert (await client.response(has_body=False)).header("content-length") == "77"
        held = await at.app.hold()
        held.start(200, (), b"first")
        held.write(b"more")
        held.end(b"last")
        assert (await client.response(has_body=False)).status == 200
        assert (await client.response()).status == 200


@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_without_a_body(status: int) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get(f"/status?{status}") + get("/hold"))
        reply = await client.response()
        assert (reply.status, reply.header("content-length")) == (status, None)
        held = await at.app.hold()
        held.start(status, (), b"not sent")
        held.end()
        assert (await client.response()).header("transfer-encoding") is None


async def test_a_status_that_has_no_name() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/status?599"))
        assert (await client.response()).status == 599


DIRTY: list[tuple[Headers, Headers]] = [
    ((("x-a", "b\r\nset-cookie: c"),), (("x-a", "bset-cookie: c"),)),
    ((("x-a", "b\x00\x01\x7f\tc"),), (("x-a", "b\tc"),)),
    ((("x-a", "caf\xe9 \u20ac\u2028\ud800."),), (("x-a", "caf\xe9 ."),)),
    ((("x\r\ny: z", "1"),), (("xyz", "1"),)),
    ((("\r\n", "1"), ("", "2")), ()),
    ((("Server", "x"), ("Connection", "upgrade"), ("Upgrade", "h2c"), ("transfer-encoding", "gzip")), ()),
    ((("content-LENGTH", "5"), ("Date", "never"), ("X-Request-Id", "other"), ("Content-Length\n", "6")), ()),
]


@pytest.mark.parametrize(("given", "sent"), DIRTY)
async def test_invalid_header_characters_are_left_out(given: Headers, sent: Headers) -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold") * 2)
        (await at.app.hold()).send(Answer(status=200, headers=given, body=b"abc"))
        whole = await client.response()
        held = await at.app.hold()
        held.start(200, given)
        held.end(b"abc")
        streamed = await client.response()
        for reply in (whole, streamed):
            assert reply.body == b"abc"
            assert reply.headers[: len(sent)] == sent
            rest = {name for name, _ in reply.headers[len(sent) :]}
            assert rest <= {"date", "x-request-id", "content-length", "transfer-encoding"}
            assert len(reply.headers) == len(sent) + 3


async def test_a_stream_that_is_cut_does_not_look_whole() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        held.start(200, (), b"some")
        reply = await client.head()
        assert await client.chunk() == b"some"
        held.cut()
        held.cut()
        held.write(b"more")
        held.end()
        assert (reply.status, held.over, held.gone) == (200, True, False)
        with pytest.raises(CutShort):
            await client.chunk()
        await at.emptied()
        assert at.app.events == []


async def test_nor_does_one_that_has_no_frames() -> None:
    """Closing is the end of an HTTP/1.0 answer: only a reset is none."""
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(b"GET /hold HTTP/1.0\r\n\r\n")
        held = await at.app.hold()
        held.start(200, (), b"some")
        assert (await client.head()).status == 200
        assert await client.read_exactly(4) == b"some"
        held.cut()
        with pytest.raises(ConnectionResetError):
            await client.read_to_end()


async def test_cut_before_anything() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        held.cut()
        held.send(Answer(status=200))
        assert await client.is_closed()


async def test_errors_of_the_writer_are_reported() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        with pytest.raises(RuntimeError, match="a body before its head"):
            held.write(b"x")
        with pytest.raises(RuntimeError, match="an end before a head"):
            held.end()
        held.start(200, ())
        with pytest.raises(RuntimeError, match="an answer within an answer"):
            held.send(Answer(status=200))
        held.end()
        held.end()
        held.send(Answer(status=200))
        held.write(b"x")
        assert (await client.response()).body == b""
