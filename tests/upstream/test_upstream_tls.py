"""TLS to an upstream: always verified, and the same rules for the end of a body, with one more."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.base import Endpoint
from support.certificate import Certificate, make_certificate
from support.deadlines import WAIT_TIMEOUT_S
from support.upstream_server import (
    CHUNKED,
    LAST_CHUNK,
    OK,
    REQUEST,
    WHOLE,
    Recorder,
    UpstreamServer,
    chunk,
    settled,
    turns,
    using,
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def server_context(certificate: Certificate) -> ssl.SSLContext:
    context = certificate.server_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.fixture
async def server(certificate: Certificate) -> AsyncIterator[UpstreamServer]:
    async with UpstreamServer(server_context(certificate)) as server:
        yield server


@pytest.fixture
def trust(certificate: Certificate) -> dict[str, Any]:
    return {"ca_file": str(certificate.cert_file)}


async def failing(server: UpstreamServer, **more: Any) -> UpstreamError:
    async with using(server.endpoint(**more)) as upstream:
        with pytest.raises(UpstreamError) as raised:
            await upstream.open(REQUEST, Recorder())
        assert upstream.in_use == 0
    return raised.value


async def test_a_call_and_another_on_the_same_connection(server: UpstreamServer, trust: dict[str, Any]) -> None:
    async with using(server.endpoint(**trust)) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        assert peer.writer.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
        request = await peer.answer(CHUNKED + chunk(b"hello") + LAST_CHUNK)
        assert request.startswith(b"POST /v1/chat HTTP/1.1\r\nhost: 127.0.0.1:")
        await recorder.over()
        assert recorder.calls == ["head", "body", "ended"]
        again = Recorder()
        call = await upstream.open(REQUEST, again)
        await peer.answer(WHOLE)
        await again.over()
        assert (call.resends, upstream.idle, len(server.peers)) == (0, 1, 1)


async def test_a_large_request_and_a_large_answer(server: UpstreamServer, trust: dict[str, Any]) -> None:
    data = bytes(range(256)) * 8_000
    async with using(server.endpoint(**trust)) as upstream:
        recorder = Recorder()
        await upstream.open(UpstreamRequest(path="/", headers=(), body=data), recorder)
        peer = await server.accept()
        request = await peer.answer(OK + b"content-length: %d\r\n\r\n" % len(data) + data)
        assert request.endswith(data)
        await recorder.over()
        assert recorder.body == data
        assert upstream.idle == 1


async def test_a_certificate_of_an_unknown_authority(server: UpstreamServer) -> None:
    error = await failing(server)
    assert (error.code, error.message) == (
        "upstream_tls_failed",
        "The provider's certificate is not signed by a trusted authority.",
    )


@pytest.mark.parametrize(
    ("name", "days", "fault"),
    [
        ("127.0.0.1", (-2, -1), "has expired"),
        ("127.0.0.1", (1, 2), "is not valid yet"),
        ("127.0.0.2", (-1, 1), "is for another address"),
        ("other.example", (-1, 1), "is for another address"),
    ],
)
async def test_a_certificate_that_is_not_right(tmp_path: Path, name: str, days: tuple[int, int], fault: str) -> None:
    valid_from, valid_to = (datetime.now(UTC) + timedelta(days=day) for day in days)
    certificate = make_certificate(tmp_path, name, valid_from, valid_to)
    async with UpstreamServer(certificate.server_context()) as server:
        error = await failing(server, ca_file=str(certificate.cert_file))
    assert (error.code, error.message) == ("upstream_tls_failed", f"The provider's certificate {fault}.")


async def test_the_name_is_sent_and_verified(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "localhost")
    context = certificate.server_context()
    names: list[str | None] = []
    context.sni_callback = lambda _sock, name, _context: names.append(name)
    async with UpstreamServer(context) as server:
        base_url = f"https://localhost:{server.port}"
        async with using(server.endpoint(base_url=base_url, ca_file=str(certificate.cert_file))) as upstream:
            recorder = Recorder()
            await upstream.open(REQUEST, recorder)
            await (await server.accept()).answer(WHOLE)
            await recorder.over()
        error = await failing(server, ca_file=str(certificate.cert_file))
    assert names == ["localhost", None]
    assert error.message == "The provider's certificate is for another address."


async def test_another_name_than_the_certificates(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "other.example")
    async with UpstreamServer(certificate.server_context()) as server:
        base_url = f"https://localhost:{server.port}"
        error = await failing(server, base_url=base_url, ca_file=str(certificate.cert_file))
    assert error.message == "The provider's certificate is for another name."


async def test_old_versions_are_refused(certificate: Certificate, trust: dict[str, Any]) -> None:
    context = certificate.server_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLS"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLS"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with UpstreamServer(context) as server:
        assert (await failing(server, **trust)).code == "upstream_tls_failed"


def refuse_strangers(listener: socket.socket, context: ssl.SSLContext) -> None:
    """One handshake by OpenSSL itself, which says why it ends; uvloop's server does not."""
    accepted, _ = listener.accept()
    with closing(accepted):
        accepted.settimeout(WAIT_TIMEOUT_S)
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(accepted, server_side=True)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_server_that_requires_a_client_certificate(
    certificate: Certificate, trust: dict[str, Any], version: ssl.TLSVersion
) -> None:
    # In TLS 1.3 it says so only after the handshake is over for us, and the request sent.
    context = certificate.server_context()
    context.maximum_version = version
    context.verify_mode = ssl.CERT_REQUIRED
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        refusing = asyncio.create_task(asyncio.to_thread(refuse_strangers, listener, context))
        base_url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        async with using(Endpoint(base_url=base_url, **trust)) as upstream:
            recorder = Recorder()

            async def answered() -> None:
                await upstream.open(REQUEST, recorder)
                await recorder.over()
                assert recorder.error is not None
                raise recorder.error

            with pytest.raises(UpstreamError) as raised:
                await answered()
            assert raised.value.code == "upstream_tls_failed"
        await refusing


async def test_a_server_without_tls() -> None:
    async with UpstreamServer() as server:
        opening = asyncio.create_task(failing(server, base_url=f"https://127.0.0.1:{server.port}"))
        (await server.accept()).send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        assert (await opening).code == "upstream_tls_failed"


@pytest.mark.parametrize("how", ["finish", "reset"])
async def test_a_server_that_leaves_during_the_handshake(how: str) -> None:
    async with UpstreamServer() as server:
        opening = asyncio.create_task(failing(server, base_url=f"https://127.0.0.1:{server.port}"))
        peer = await server.accept()
        await peer.reader.read(1)
        getattr(peer, how)()
        assert (await opening).code == "upstream_tls_failed"


async def test_a_handshake_that_is_never_finished(trust: dict[str, Any]) -> None:
    async with UpstreamServer() as server:
        base_url = f"https://127.0.0.1:{server.port}"
        error = await failing(server, base_url=base_url, connect_s=0.05, **trust)
        assert error.code == "upstream_timeout"


async def test_authorities_that_cannot_be_read(server: UpstreamServer, tmp_path: Path) -> None:
    for path in (tmp_path / "missing.pem", tmp_path):
        error = await failing(server, ca_file=str(path))
        assert (error.code, server.peers) == ("upstream_tls_failed", [])
    (tmp_path / "bad.pem").write_text("nothing")
    assert (await failing(server, ca_file=str(tmp_path / "bad.pem"))).code == "upstream_tls_failed"


async def test_authorities_are_read_once(server: UpstreamServer, certificate: Certificate, tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    async with using(server.endpoint(ca_file=str(ca_file))) as upstream:
        with pytest.raises(UpstreamError):
            await upstream.open(REQUEST, Recorder())
        ca_file.write_bytes(certificate.cert_file.read_bytes())
        calls = await asyncio.gather(*(upstream.open(REQUEST, Recorder()) for _ in range(3)))
        ca_file.unlink()
        calls.append(await upstream.open(REQUEST, Recorder()))
        for call in calls:
            call.abort()


async def test_one_that_is_cancelled_does_not_keep_the_others_from_the_authorities(
    server: UpstreamServer, trust: dict[str, Any]
) -> None:
    async with using(server.endpoint(**trust)) as upstream:
        first, second = (asyncio.create_task(upstream.open(REQUEST, Recorder())) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        (await second).abort()
        assert first.cancelled()


UNTIL_CLOSE = OK + b"\r\nhello"


@pytest.mark.parametrize(
    ("data", "how", "code"),
    [
        (CHUNKED + chunk(b"hello") + LAST_CHUNK, "finish", None),
        (CHUNKED + chunk(b"hello") + LAST_CHUNK, "cut", None),
        (CHUNKED + chunk(b"hello"), "finish", "upstream_stream_truncated"),
        (CHUNKED + chunk(b"hello"), "cut", "upstream_stream_truncated"),
        (CHUNKED + chunk(b"hello"), "reset", "upstream_stream_reset"),
        (UNTIL_CLOSE, "finish", None),
        (UNTIL_CLOSE, "cut", "upstream_stream_truncated"),
        (UNTIL_CLOSE, "reset", "upstream_stream_reset"),
    ],
)
async def test_every_end_of_a_body(
    server: UpstreamServer, trust: dict[str, Any], data: bytes, how: str, code: str | None
) -> None:
    async with using(server.endpoint(**trust)) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(data)
        await recorder.until(lambda: recorder.body == b"hello")
        if how == "cut":
            peer.writer.transport.abort()  # FIN, but not the one of TLS: anyone on the way can do that
        else:
            getattr(peer, how)()
        await recorder.over()
        assert (recorder.body, recorder.code) == (b"hello", code)
        await settled(lambda: upstream.in_use == 0)


@pytest.mark.parametrize("how", ["finish", "cut", "reset"])
async def test_no_answer(server: UpstreamServer, trust: dict[str, Any], how: str) -> None:
    async with using(server.endpoint(**trust)) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.request()
        if how == "cut":
            peer.writer.transport.abort()
        else:
            getattr(peer, how)()
        await recorder.over()
        assert recorder.code == ("upstream_stream_reset" if how == "reset" else "upstream_empty_response")


@pytest.mark.parametrize("how", ["finish", "cut", "reset"])
async def test_a_stale_connection_is_replaced(server: UpstreamServer, trust: dict[str, Any], how: str) -> None:
    async with using(server.endpoint(**trust)) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(WHOLE)
        await recorder.over()
        again = Recorder()
        call = await upstream.open(REQUEST, again)
        await peer.request()
        if how == "cut":
            peer.writer.transport.abort()
        else:
            getattr(peer, how)()
        await (await server.accept()).answer(WHOLE)
        assert (await again.over()).body == b"hi"
        assert call.resends == 1


async def test_pause_stops_the_flow(server: UpstreamServer, trust: dict[str, Any]) -> None:
    async with using(server.endpoint(**trust)) as upstream:
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(CHUNKED)
        await recorder.until(lambda: recorder.status == 200)
        call.pause()
        sent = 0
        while peer.writer.transport.get_write_buffer_size() == 0:
            peer.send(chunk(b"x" * 65536))
            sent += 65536
            await turns()
        assert recorder.body == b""
        assert sent < 16 * 1024 * 1024
        call.resume()
        await recorder.until(lambda: len(recorder.body) == sent)
        call.abort()


async def test_what_was_sent_before_a_close_is_not_lost_on_a_paused_call(
    server: UpstreamServer, trust: dict[str, Any]
) -> None:
    async with using(server.endpoint(**trust)) as upstream:
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(CHUNKED + chunk(b"hello"))
        await recorder.until(lambda: recorder.body == b"hello")
        call.pause()
        peer.send(chunk(b"more") + LAST_CHUNK)
        await turns()
        peer.writer.transport.abort()
        await turns()
        assert recorder.calls == ["head", "body"]
        call.resume()
        assert (await recorder.over()).body == b"hellomore"
        assert recorder.calls[-1] == "ended"
