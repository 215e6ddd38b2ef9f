"""Through a proxy: CONNECT and TLS inside it for https, the whole address in the request line for http."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.upstream.base import Endpoint
from support.certificate import Certificate, make_certificate
from support.deadlines import WAIT_TIMEOUT_S
from support.upstream_server import REQUEST, WHOLE, Peer, Recorder, UpstreamServer, refusing, swallowing, turns, using

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "provider.example")


async def join(peer: Peer, port: int) -> None:
    """Carries bytes both ways until both ends are done."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
        except ConnectionError:
            pass
        sink.close()

    async with asyncio.timeout(WAIT_TIMEOUT_S):
        await asyncio.gather(carry(peer.reader, writer), carry(reader, peer.writer))


@pytest.mark.parametrize(
    "established",
    [
        ESTABLISHED,
        b"HTTP/1.0 200\r\n\r\n",
        b"HTTP/1.1 299 Fine\r\nvia: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
async def test_https_through_a_tunnel(certificate: Certificate, established: bytes) -> None:
    async with UpstreamServer() as proxy, UpstreamServer(certificate.server_context()) as server:
        endpoint = Endpoint(
            base_url="https://provider.example/v1",
            proxy=f"http://user:pass@127.0.0.1:{proxy.port}",
            ca_file=str(certificate.cert_file),
        )
        async with using(endpoint) as upstream:
            recorder = Recorder()
            opening = asyncio.create_task(upstream.open(REQUEST, recorder))
            middle = await proxy.accept()
            assert await middle.answer(established) == (
                b"CONNECT provider.example:443 HTTP/1.1\r\nhost: provider.example:443\r\n"
                b"proxy-authorization: Basic dXNlcjpwYXNz\r\n\r\n"
            )
            joining = asyncio.create_task(join(middle, server.port))
            peer = await server.accept()
            request = await peer.answer(WHOLE)
            assert request.startswith(b"POST /v1/chat HTTP/1.1\r\nhost: provider.example\r\n")
            assert b"proxy-authorization" not in request
            await opening
            assert (await recorder.over()).body == b"hi"
            again = Recorder()
            await upstream.open(REQUEST, again)
            await peer.answer(WHOLE)
            await again.over()
            assert len(proxy.peers) == 1
            peer.finish()
            await peer.gone()
        await joining


async def test_http_through_a_proxy() -> None:
    async with UpstreamServer() as proxy:
        endpoint = Endpoint(base_url="http://provider.example/v1", proxy=f"http://u:p@127.0.0.1:{proxy.port}")
        async with using(endpoint) as upstream:
            recorder = Recorder()
            await upstream.open(REQUEST, recorder)
            request = await (await proxy.accept()).answer(WHOLE)
            assert request.startswith(b"POST http://provider.example/v1/chat HTTP/1.1\r\nhost: provider.example\r\n")
            assert b"\r\nproxy-authorization: Basic dTpw\r\n" in request
            await recorder.over()
            assert upstream.idle == 1


async def failing(
    proxy_port: int, act: Callable[[], Any] | None = None, connect_s: float = WAIT_TIMEOUT_S
) -> UpstreamError:
    endpoint = Endpoint(
        base_url="https://provider.example", proxy=f"http://127.0.0.1:{proxy_port}", connect_s=connect_s
    )
    async with using(endpoint) as upstream:
        opening = asyncio.create_task(upstream.open(REQUEST, Recorder()))
        if act is not None:
            await act()
        with pytest.raises(UpstreamError) as raised:
            await opening
        assert upstream.in_use == 0
    await turns()
    assert len(asyncio.all_tasks()) == 1
    return raised.value


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n", "The proxy refused the connection (407)."),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\nsecret text", "The proxy refused the connection (502)."),
        (b"HTTP/1.1 302 Found\r\nlocation: http://evil/\r\n\r\n", "The proxy refused the connection (302)."),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "The proxy refused the connection (100)."),
        (b"HTTP/1.1 20 OK\r\n\r\n", "The proxy refused the connection."),
        (b"SSH-2.0-x\r\n\r\n", "The proxy refused the connection."),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 20_000, "The proxy refused the connection (200)."),
        (ESTABLISHED + b"hello", "The proxy sent unexpected data."),
    ],
)
async def test_a_refused_tunnel(answer: bytes, message: str) -> None:
    async with UpstreamServer() as proxy:

        async def act() -> None:
            await (await proxy.accept()).answer(answer)

        error = await failing(proxy.port, act)
        assert (error.code, error.message) == ("upstream_connect_failed", message)


@pytest.mark.parametrize("how", ["finish", "reset"])
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n"])
async def test_a_proxy_that_leaves(answer: bytes, how: str) -> None:
    async with UpstreamServer() as proxy:

        async def act() -> None:
            peer = await proxy.accept()
            await peer.answer(answer)
            getattr(peer, how)()

        assert (await failing(proxy.port, act)).code == "upstream_connect_failed"


async def test_a_proxy_that_leaves_right_after_the_tunnel_is_open() -> None:
    async with UpstreamServer() as proxy:

        async def act() -> None:
            peer = await proxy.accept()
            await peer.answer(ESTABLISHED)
            peer.finish()

        assert (await failing(proxy.port, act)).code == "upstream_tls_failed"


async def test_a_proxy_that_does_not_answer() -> None:
    async with UpstreamServer() as proxy:
        assert (await failing(proxy.port, connect_s=0.02)).code == "upstream_timeout"


async def test_a_proxy_that_is_not_there() -> None:
    with refusing() as port:
        assert (await failing(port)).code == "upstream_connect_failed"
    with swallowing() as port:
        assert (await failing(port, connect_s=0.02)).code == "upstream_timeout"


async def test_the_certificate_is_the_targets_and_not_the_proxys(tmp_path: Path) -> None:
    other = make_certificate(tmp_path, "127.0.0.1")
    async with UpstreamServer() as proxy, UpstreamServer(other.server_context()) as server:
        endpoint = Endpoint(
            base_url="https://provider.example",
            proxy=f"http://127.0.0.1:{proxy.port}",
            ca_file=str(other.cert_file),
        )
        async with using(endpoint) as upstream:
            opening = asyncio.create_task(upstream.open(REQUEST, Recorder()))
            middle = await proxy.accept()
            await middle.answer(ESTABLISHED)
            joining = asyncio.create_task(join(middle, server.port))
            with pytest.raises(UpstreamError) as raised:
                await opening
            assert raised.value.message == "The provider's certificate is for another name."
            await joining


async def test_the_head_of_the_proxys_answer_in_pieces(certificate: Certificate) -> None:
    async with UpstreamServer() as proxy, UpstreamServer(certificate.server_context()) as server:
        endpoint = Endpoint(
            base_url="https://provider.example",
            proxy=f"http://127.0.0.1:{proxy.port}",
            ca_file=str(certificate.cert_file),
        )
        async with using(endpoint) as upstream:
            opening = asyncio.create_task(upstream.open(REQUEST, Recorder()))
            middle = await proxy.accept()
            assert b"proxy-authorization" not in await middle.request()
            for at in range(len(ESTABLISHED)):
                middle.send(ESTABLISHED[at : at + 1])
                await turns()
            joining = asyncio.create_task(join(middle, server.port))
            (await opening).abort()
            await joining
