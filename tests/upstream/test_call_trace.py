"""What is known of the way to an upstream: the address, how long each step took, and whether it was taken before."""

import asyncio
import socket
from typing import Any

import pytest

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import StreamweirError
from streamweir.upstream.base import Call, Endpoint
from support.certificate import Certificate, make_certificate
from support.deadlines import WAIT_TIMEOUT_S
from support.upstream_server import (
    CHUNKED,
    REQUEST,
    WHOLE,
    Recorder,
    UpstreamServer,
    refusing,
    swallowing,
    using,
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def trace_of(call: Call) -> CallTrace:
    assert call.trace is not None
    return call.trace


async def failing(endpoint: Endpoint) -> StreamweirError:
    async with using(endpoint) as upstream:
        with pytest.raises(StreamweirError) as raised:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                await upstream.open(REQUEST, Recorder())
    return raised.value


def failed_trace(error: StreamweirError) -> CallTrace:
    assert error.trace is not None
    return error.trace


def reason(error: StreamweirError) -> str:
    return error.report.text if error.report is not None else ""


async def test_a_new_connection_and_the_same_one_again() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        before = asyncio.get_running_loop().time()
        first = Recorder()
        call = await upstream.open(REQUEST, first)
        opened = trace_of(call)
        peer = await server.accept()
        await peer.answer(WHOLE)
        await first.over()
        assert trace_of(call) == opened  # also when the call is over
        assert (opened.address, opened.via_proxy, opened.is_reused) == (f"127.0.0.1:{server.port}", False, False)
        assert opened.dns_s is not None
        assert opened.connect_s is not None
        assert opened.tls_s is None
        assert opened.sent_at is not None
        assert opened.sent_at >= before
        again = Recorder()
        second = await upstream.open(REQUEST, again)
        assert trace_of(second) == CallTrace(
            address=opened.address, is_reused=True, sent_at=trace_of(second).sent_at
        )  # no step was taken for it
        await peer.answer(WHOLE)
        await again.over()


async def test_tls_has_a_time_of_its_own(certificate: Certificate) -> None:
    trust = str(certificate.cert_file)
    async with (
        UpstreamServer(certificate.server_context()) as server,
        using(server.endpoint(ca_file=trust)) as upstream,
    ):
        call = await upstream.open(REQUEST, Recorder())
        trace = trace_of(call)
        assert trace.tls_s is not None
        assert trace.tls_s > 0.0
        call.abort()
        assert trace_of(call) == trace


async def test_of_several_addresses_the_one_that_answered_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with UpstreamServer() as server, using(Endpoint(base_url="http://provider.example")) as upstream:
        with refusing() as dead:

            def getaddrinfo(*_: object, **__: object) -> list[tuple[Any, ...]]:
                return [(socket.AF_INET, 1, 6, "", ("127.0.0.1", port)) for port in (dead, server.port)]

            monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
            call = await upstream.open(REQUEST, Recorder())
            assert trace_of(call).address == f"127.0.0.1:{server.port}"  # not of the one that refused
            call.abort()


async def test_an_ipv6_address_is_in_brackets() -> None:
    error = await failing(Endpoint(base_url="http://[::1]:1"))  # refused, or without IPv6 no route
    assert failed_trace(error).address == "[::1]:1"


async def test_through_a_proxy_the_address_is_the_proxys(certificate: Certificate) -> None:
    async with UpstreamServer() as proxy:
        endpoint = Endpoint(base_url="http://provider.example/v1", proxy=f"http://127.0.0.1:{proxy.port}")
        async with using(endpoint) as upstream:
            call = await upstream.open(REQUEST, Recorder())
            assert (trace_of(call).address, trace_of(call).via_proxy) == (f"127.0.0.1:{proxy.port}", True)
            call.abort()
        endpoint = Endpoint(
            base_url="https://provider.example/v1",
            proxy=f"http://127.0.0.1:{proxy.port}",
            ca_file=str(certificate.cert_file),
        )
        opening = asyncio.create_task(failing(endpoint))
        await proxy.accept()
        await (await proxy.accept()).answer(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        trace = failed_trace(await opening)
        assert (trace.address, trace.via_proxy, trace.tls_s) == (f"127.0.0.1:{proxy.port}", True, None)
        assert trace.connect_s is not None  # the tunnel is part of it


async def test_a_refused_connection_names_its_address_and_the_reason() -> None:
    with refusing() as port:
        error = await failing(Endpoint(base_url=f"http://127.0.0.1:{port}"))
    trace = failed_trace(error)
    assert (trace.address, reason(error)) == (f"127.0.0.1:{port}", "Connection refused")
    assert trace.connect_s is not None


async def test_a_name_that_does_not_exist_has_no_address() -> None:
    error = await failing(Endpoint(base_url="http://nx.invalid"))
    trace = failed_trace(error)
    assert (trace.address, trace.connect_s) == ("", None)
    assert trace.dns_s is not None
    assert reason(error) != ""


async def test_the_step_that_took_too_long_has_its_time() -> None:
    with swallowing() as port:
        error = await failing(Endpoint(base_url=f"http://127.0.0.1:{port}", connect_s=0.01))
    trace = failed_trace(error)
    assert (error.code, trace.address, trace.tls_s) == ("upstream_timeout", f"127.0.0.1:{port}", None)
    assert trace.dns_s is not None
    assert trace.connect_s is not None


async def test_a_certificate_that_is_not_trusted_says_why(certificate: Certificate) -> None:
    async with UpstreamServer(certificate.server_context()) as server:
        error = await failing(server.endpoint())
        trace = failed_trace(error)
        assert "certificate" in reason(error)
        assert trace.address == f"127.0.0.1:{server.port}"
        assert trace.tls_s is not None


async def test_a_server_without_tls_says_why(certificate: Certificate) -> None:
    async with UpstreamServer() as server:
        endpoint = Endpoint(base_url=f"https://127.0.0.1:{server.port}", ca_file=str(certificate.cert_file))
        opening = asyncio.create_task(failing(endpoint))
        (await server.accept()).send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        error = await opening
        assert (error.code, failed_trace(error).tls_s is not None) == ("upstream_tls_failed", True)
        assert reason(error) != ""


async def test_a_reset_has_its_reason() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(CHUNKED)
        await recorder.until(lambda: recorder.status == 200)
        peer.reset()
        await recorder.over()
        assert recorder.error is not None
        assert reason(recorder.error) == "Connection reset by peer"
        assert trace_of(call).address == f"127.0.0.1:{server.port}"


async def test_a_request_that_was_sent_again_has_the_new_connection() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        first = Recorder()
        await upstream.open(REQUEST, first)
        peer = await server.accept()
        await peer.answer(WHOLE)
        await first.over()
        again = Recorder()
        call = await upstream.open(REQUEST, again)
        assert trace_of(call).is_reused
        await peer.request()
        peer.finish()
        await (await server.accept()).answer(WHOLE)
        await again.over()
        assert (call.resends, trace_of(call).is_reused) == (1, False)
        assert trace_of(call).connect_s is not None
