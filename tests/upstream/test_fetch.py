"""Small answers as a whole: what is sent, what is returned, and everything that bounds it."""

import asyncio

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.upstream.fetch import Fetched, fetch
from support.deadlines import WAIT_TIMEOUT_S
from support.upstream_server import OK, Peer, UpstreamServer, refusing


async def fetched(server: UpstreamServer, data: bytes, **more: object) -> tuple[Fetched, bytes, Peer]:
    """One answer to a GET, the request that was sent for it, and the server's side of the connection."""
    given = {"timeout_s": WAIT_TIMEOUT_S, **more}
    running = asyncio.ensure_future(fetch(f"http://127.0.0.1:{server.port}/a/b?c=d%2F", **given))  # type: ignore[arg-type]
    peer = await server.accept()
    request = await peer.answer(data)
    return await running, request, peer


async def test_a_get_and_its_answer() -> None:
    async with UpstreamServer() as server:
        answer, request, peer = await fetched(
            server, OK + b"x-a: b\r\ncontent-length: 2\r\n\r\nhi", headers=(("x", "y"),)
        )
        assert (answer.status, answer.headers["x-a"], answer.body) == (200, "b", b"hi")
        assert request.startswith(b"GET /a/b?c=d%2F HTTP/1.1\r\nhost: 127.0.0.1:")
        assert b"\r\nx: y\r\n" in request
        assert b"content-length" not in request
        assert b"hi" not in repr(answer).encode()
        await peer.gone()  # nothing is kept


async def test_other_methods_have_a_length() -> None:
    async with UpstreamServer() as server:
        _, request, _ = await fetched(server, OK + b"content-length: 0\r\n\r\n", method="PUT")
        assert request.startswith(b"PUT /a/b?c=d%2F HTTP/1.1\r\n")
        assert b"\r\ncontent-length: 0\r\n" in request
        _, request, _ = await fetched(server, OK + b"content-length: 0\r\n\r\n", method="POST", body=b"x=1")
        assert request.endswith(b"\r\ncontent-length: 3\r\n\r\nx=1")


async def test_a_redirect_is_an_answer() -> None:
    async with UpstreamServer() as server:
        head = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:%d/other\r\ncontent-length: 0\r\n\r\n" % server.port
        answer, _, _ = await fetched(server, head)
        assert (answer.status, answer.is_success) == (302, False)
        assert len(server.peers) == 1


async def test_an_answer_that_is_too_large() -> None:
    async with UpstreamServer() as server:
        body = b"x" * 1001
        data = OK + b"content-length: 1001\r\n\r\n" + body
        with pytest.raises(UpstreamError) as caught:
            await fetched(server, data, max_bytes=1000)
        assert caught.value.code == "upstream_bad_response"
        answer, _, _ = await fetched(server, data, max_bytes=1001)
        assert answer.body == body


@pytest.mark.parametrize("sent", [b"", OK, OK + b"content-length: 10\r\n\r\nhalf"])
async def test_a_server_that_hangs(sent: bytes) -> None:
    async with UpstreamServer() as server:
        running = asyncio.ensure_future(fetch(f"http://127.0.0.1:{server.port}", timeout_s=0.05))
        peer = await server.accept()
        await peer.answer(sent)
        with pytest.raises(UpstreamError) as caught:
            await running
        assert caught.value.code == "upstream_timeout"
        await peer.gone()


async def test_a_cancelled_fetch_closes_its_connection() -> None:
    async with UpstreamServer() as server:
        running = asyncio.ensure_future(fetch(f"http://127.0.0.1:{server.port}", timeout_s=WAIT_TIMEOUT_S))
        peer = await server.accept()
        await peer.request()
        running.cancel()
        await peer.gone()


async def test_what_cannot_be_reached() -> None:
    with refusing() as port, pytest.raises(UpstreamError) as caught:
        await fetch(f"http://127.0.0.1:{port}/", timeout_s=WAIT_TIMEOUT_S)
    assert caught.value.code == "upstream_connect_failed"


@pytest.mark.parametrize("url", ["ftp://a/b", "http://user:geheim@host/", "nothing", "http://[::1", "http://a b/"])
async def test_addresses_that_cannot_be_used(url: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        await fetch(url, timeout_s=WAIT_TIMEOUT_S)
    assert caught.value.code == "upstream_connect_failed"
    assert "geheim" not in caught.value.message
