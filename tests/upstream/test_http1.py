"""A request and its answer over a real socket: what is sent, what is received, and every way a body can end."""

import asyncio
import socket
import sys

import pytest

from streamweir.core.errors import GatewayFault, UpstreamError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.base import Call, Endpoint, Upstream
from streamweir.upstream.http1 import Http1Upstream
from streamweir.upstream.reply import MAX_HEAD_BYTES
from support.upstream_server import (
    CHUNKED,
    LAST_CHUNK,
    OK,
    REQUEST,
    WHOLE,
    Peer,
    Recorder,
    UpstreamServer,
    chunk,
    turns,
    using,
)

BY_LENGTH = OK + b"content-length: 10\r\n\r\n"
UNTIL_CLOSE = OK + b"content-type: text/plain\r\n\r\n"


async def exchange(data: bytes, how: str | None = None) -> Recorder:
    """One call that is answered with this, after which the server closes, resets or does nothing."""
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(data)
        end(peer, how)
        return await recorder.over()


def end(peer: Peer, how: str | None) -> None:
    if how == "fin":
        peer.finish()
    elif how == "rst":
        peer.reset()


def test_it_is_an_upstream() -> None:
    upstream: Upstream = Http1Upstream(Endpoint(base_url="http://127.0.0.1:1"))
    assert isinstance(upstream, Http1Upstream)


@pytest.mark.parametrize(
    "endpoint",
    [
        Endpoint(base_url="http://u:p@127.0.0.1"),
        Endpoint(base_url="http://127.0.0.1", headers=(("x", "a\nb"),)),
        Endpoint(base_url="http://127.0.0.1", proxy="socks5://127.0.0.1:1"),
        Endpoint(base_url="http://127.0.0.1", max_connections=0),
    ],
)
def test_an_endpoint_that_cannot_be_used(endpoint: Endpoint) -> None:
    with pytest.raises(ValueError, match=r"base URL|header|proxy|connection"):
        Http1Upstream(endpoint)


async def test_what_is_sent_and_received() -> None:
    async with UpstreamServer() as server, using(server.endpoint(headers=(("x-team", "a"),))) as upstream:
        recorder = Recorder()
        call: Call = await upstream.open(REQUEST, recorder)
        assert recorder.calls == []
        peer = await server.accept()
        request = await peer.answer(WHOLE)
        assert request.startswith(b"POST /v1/chat HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n" % server.port)
        assert b"\r\nx-team: a\r\n" in request
        assert request.endswith(b'\r\ncontent-length: 7\r\n\r\n{"n":1}')
        await recorder.over()
        assert recorder.calls == ["head", "body", "ended"]
        assert (recorder.status, recorder.headers, recorder.body) == (200, {"content-length": "2"}, b"hi")
        assert call.resends == 0
        assert (upstream.in_use, upstream.idle) == (0, 1)


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 4_000_000])
async def test_bodies_of_every_size_are_sent_whole(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()
        await upstream.open(UpstreamRequest(path="/x", headers=(), body=body[:size]), recorder)
        peer = await server.accept()
        request = await peer.answer(WHOLE)
        assert request.partition(b"\r\n\r\n")[2] == body[:size]
        await recorder.over()


async def test_a_request_is_not_held_once_it_is_answered() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        body = b"x" * 50_000
        request = UpstreamRequest(path="/", headers=(), body=body)
        held = sys.getrefcount(body)
        recorder = Recorder()
        call = await upstream.open(request, recorder)
        assert sys.getrefcount(body) == held + 1
        await (await server.accept()).answer(CHUNKED)
        await recorder.until(lambda: recorder.status == 200)
        assert sys.getrefcount(body) == held
        call.abort()


async def test_a_request_that_cannot_be_sent_takes_no_slot() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        with pytest.raises(GatewayFault) as raised:
            await upstream.open(UpstreamRequest(path="/", headers=(("x", "\n"),), body=b""), Recorder())
        assert raised.value.code == "internal_error"
        assert upstream.in_use == 0
        assert server.peers == []


async def test_one_read_is_one_callback() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(CHUNKED)
        await recorder.until(lambda: recorder.status == 200)
        peer.send(chunk(b"one") + chunk(b"two") + chunk(b"three"))
        await recorder.until(lambda: recorder.body != b"")
        peer.send(chunk(b"four") + LAST_CHUNK)
        await recorder.over()
        assert recorder.reads == [b"onetwothree", b"four"]
        assert recorder.calls == ["head", "body", "body", "ended"]


@pytest.mark.parametrize("status", [200, 204, 301, 307, 401, 429, 500, 503])
async def test_any_status_is_handed_up(status: int) -> None:
    fields = b"content-length: 0\r\nlocation: http://127.0.0.1:1/\r\ncontent-encoding: gzip\r\n\r\n"
    recorder = await exchange(b"HTTP/1.1 %d Any\r\n" % status + fields)
    assert (recorder.status, recorder.calls) == (status, ["head", "ended"])
    assert recorder.headers["location"] == "http://127.0.0.1:1/"
    assert recorder.headers["content-encoding"] == "gzip"


async def test_interim_heads_are_skipped() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    recorder = await exchange(interim + WHOLE)
    assert (recorder.status, recorder.headers, recorder.calls) == (
        200,
        {"content-length": "2"},
        ["head", "body", "ended"],
    )


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (CHUNKED + chunk(b"hello") + LAST_CHUNK, b"hello"),
        (CHUNKED + b"5;a=b\r\nhello\r\n0\r\nx-trailer: y\r\n\r\n", b"hello"),
        (OK + b"content-length: 5\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" + WHOLE, b"hi"),
    ],
    ids=["chunked", "extensions_and_trailers", "length", "interim"],
)
async def test_split_at_every_byte(data: bytes, body: bytes) -> None:
    # `test_reply` holds the machine to this without sockets; here the same on one kept connection.
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        peer: Peer | None = None
        for at in range(1, len(data)):
            recorder = Recorder()
            await upstream.open(REQUEST, recorder)
            peer = peer or await server.accept()
            await peer.answer(data[:at])
            await turns()
            peer.send(data[at:])
            await recorder.over()
            assert (recorder.body, recorder.calls[0], recorder.error) == (body, "head", None)
        assert len(server.peers) == 1


@pytest.mark.parametrize("how", ["fin", "rst", None])
@pytest.mark.parametrize(
    "data",
    [CHUNKED + chunk(b"hello") + LAST_CHUNK, OK + b"content-length: 5\r\n\r\nhello"],
    ids=["chunked", "length"],
)
async def test_a_whole_body_whatever_follows(data: bytes, how: str | None) -> None:
    recorder = await exchange(data, how)
    assert (recorder.body, recorder.calls) == (b"hello", ["head", "body", "ended"])


@pytest.mark.parametrize(("how", "code"), [("fin", "upstream_stream_truncated"), ("rst", "upstream_stream_reset")])
@pytest.mark.parametrize(
    "data",
    [
        BY_LENGTH + b"hello",
        CHUNKED + chunk(b"hello"),
        CHUNKED + chunk(b"hello") + b"5\r\n",
        CHUNKED + b"9\r\nhello",
        CHUNKED + chunk(b"hello") + b"0\r\n",
        CHUNKED + chunk(b"hello") + b"0\r\nx-trailer: y\r\n",
    ],
)
async def test_a_body_cut_short(data: bytes, how: str, code: str) -> None:
    recorder = await exchange(data, how)
    assert (recorder.status, recorder.body, recorder.code) == (200, b"hello", code)
    assert recorder.calls == ["head", "body", "failed"]


async def test_a_body_until_the_close_ends_with_it() -> None:
    recorder = await exchange(UNTIL_CLOSE + b"hello", "fin")
    assert (recorder.body, recorder.calls) == (b"hello", ["head", "body", "ended"])


async def test_an_empty_body_until_the_close() -> None:
    assert (await exchange(UNTIL_CLOSE, "fin")).calls == ["head", "ended"]


async def test_a_body_until_the_close_does_not_end_with_a_reset() -> None:
    recorder = await exchange(UNTIL_CLOSE + b"hello", "rst")
    assert (recorder.body, recorder.code) == (b"hello", "upstream_stream_reset")


@pytest.mark.parametrize(("how", "code"), [("fin", "upstream_empty_response"), ("rst", "upstream_stream_reset")])
async def test_no_answer_at_all(how: str, code: str) -> None:
    recorder = await exchange(b"", how)
    assert (recorder.code, recorder.calls) == (code, ["failed"])


@pytest.mark.parametrize(("how", "code"), [("fin", "upstream_stream_truncated"), ("rst", "upstream_stream_reset")])
@pytest.mark.parametrize("data", [b"H", OK, OK + b"content-length: 1", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_head_cut_short(data: bytes, how: str, code: str) -> None:
    recorder = await exchange(data, how)
    assert (recorder.code, recorder.calls) == (code, ["failed"])


@pytest.mark.parametrize(
    "data",
    [b"SSH-2.0-OpenSSH_9\r\n", b"\x15\x03\x03\x00\x02\x02\x0a", b"<html>no</html>", b"HTTP/1.1 101 Up\r\n\r\n"],
)
async def test_something_else_than_http(data: bytes) -> None:
    recorder = await exchange(data)
    assert (recorder.code, recorder.calls) == ("upstream_bad_response", ["failed"])


async def test_broken_framing_after_a_part_of_the_body() -> None:
    recorder = await exchange(CHUNKED + chunk(b"hello") + b"zz\r\n")
    assert (recorder.body, recorder.code, recorder.calls) == (
        b"hello",
        "upstream_bad_response",
        ["head", "body", "failed"],
    )


@pytest.mark.parametrize(
    "head",
    [
        OK + b"".join(b"x-%d: y\r\n" % n for n in range(101)) + b"content-length: 0\r\n\r\n",
        OK + b"x: " + b"y" * 100_000 + b"\r\n\r\n",
        OK + b"x: " + b"y" * (MAX_HEAD_BYTES + 1),
        OK[:-2] + b"y" * (MAX_HEAD_BYTES + 1),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 200,
        b"\r\n" * MAX_HEAD_BYTES,
    ],
    ids=["fields", "bytes", "endless_field", "endless_reason", "interim", "blank_lines"],
)
async def test_a_head_that_is_too_large(head: bytes) -> None:
    recorder = await exchange(head)
    assert (recorder.code, recorder.calls) == ("upstream_bad_response", ["failed"])


@pytest.mark.parametrize(
    "rest",
    [
        chunk(b"hello") + b"0\r\nx: " + b"y" * (MAX_HEAD_BYTES + 1),
        chunk(b"hello") + b"5;x=" + b"y" * (MAX_HEAD_BYTES + 1),
    ],
    ids=["trailer", "extension"],
)
async def test_data_between_chunks_is_bounded_too(rest: bytes) -> None:
    # Each in a read of its own, so that there is one without a body.
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(CHUNKED + chunk(b"hello"))
        await recorder.until(lambda: recorder.body == b"hello")
        peer.send(rest[len(chunk(b"hello")) :])
        await recorder.over()
        assert recorder.code == "upstream_bad_response"


async def test_sizes_of_chunks_sent_apart_from_them_add_up_to_nothing() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(CHUNKED)
        extension = b";" + b"x" * 3000
        for count in range(20):
            peer.send(b"1" + extension + b"\r\n")
            await turns()
            peer.send(b"z\r\n")
            await recorder.until(lambda count=count: len(recorder.body) == count + 1)  # type: ignore[misc]
        peer.send(LAST_CHUNK)
        await recorder.over()
        assert recorder.calls[-1] == "ended"


async def test_a_large_answer_arrives_whole() -> None:
    data = bytes(range(256)) * 20_000
    recorder = await exchange(OK + b"content-length: %d\r\n\r\n" % len(data) + data)
    assert recorder.body == data
    assert max(map(len, recorder.reads)) <= 256_000


async def test_the_socket_is_tuned() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        assert call._connection is not None
        sock = call._connection._raw_transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 256 * 1024
        await (await server.accept()).answer(WHOLE)
        await recorder.over()


async def test_an_answer_before_the_request_is_sent() -> None:
    # It may be seen before the request is written or after it; it is refused either way.
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()

        async def answered() -> None:
            await upstream.open(REQUEST, recorder)
            await recorder.over()
            assert recorder.error is not None
            raise recorder.error

        asking = asyncio.get_running_loop().create_task(answered())
        (await server.accept()).send(b"220 mail.example ESMTP\r\n")
        with pytest.raises(UpstreamError) as raised:
            await asking
        assert raised.value.code == "upstream_bad_response"
        assert upstream.in_use == 0
