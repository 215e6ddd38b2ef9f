"""How a connection is made or not made: names, addresses, the deadline, and whose fault it is."""

import asyncio
import errno
import resource
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event
from typing import Any

import pytest

from streamweir.core.errors import StreamweirError
from streamweir.upstream import dial
from streamweir.upstream.base import Endpoint
from support.certificate import Certificate, make_certificate
from support.deadlines import WAIT_TIMEOUT_S
from support.upstream_server import (
    REQUEST,
    WHOLE,
    Recorder,
    UpstreamServer,
    refusing,
    settled,
    swallowing,
    turns,
    using,
)

AT_ONCE_S = 0.01


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Small, and so read in no time."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


async def opening_fails(endpoint: Endpoint) -> StreamweirError:
    async with using(endpoint) as upstream:
        recorder = Recorder()
        with pytest.raises(StreamweirError) as raised:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                await upstream.open(REQUEST, recorder)
        assert recorder.calls == []
        assert upstream.in_use == 0
        return raised.value


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[Any, ...]) -> list[str]:
    """The resolver, which is beyond our reach, answers with these. What it was asked is given back."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        assert (host, port) == ("provider.example", 80)
        asked.append(host)
        families = [socket.AF_INET6 if ":" in address[0] else socket.AF_INET for address in addresses]
        return [(family, 1, 6, "", address) for family, address in zip(families, addresses, strict=True)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


@contextmanager
def silent_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """It answers nothing, until the end. What it was asked is given."""
    asked: list[str] = []
    is_over = Event()

    def getaddrinfo(host: str, *_: object, **__: object) -> None:
        asked.append(host)
        is_over.wait(WAIT_TIMEOUT_S)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    try:
        yield asked
    finally:
        is_over.set()


async def test_refused() -> None:
    with refusing() as port:
        error = await opening_fails(Endpoint(base_url=f"http://127.0.0.1:{port}"))
    assert error.code == "upstream_connect_failed"
    assert "127.0.0.1" not in error.message


async def test_no_such_name() -> None:
    error = await opening_fails(Endpoint(base_url="http://nx.invalid"))
    assert error.code == "upstream_dns_failed"
    assert "nx.invalid" not in error.message


async def test_a_connection_that_is_never_made() -> None:
    with swallowing() as port:
        error = await opening_fails(Endpoint(base_url=f"http://127.0.0.1:{port}", connect_s=AT_ONCE_S))
    assert error.code == "upstream_timeout"


async def test_a_name_that_is_never_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_resolver(monkeypatch) as asked:
        for _ in range(5):  # whoever asks again joins the look-up that hangs
            error = await opening_fails(Endpoint(base_url="http://provider.example", connect_s=AT_ONCE_S))
            assert error.code == "upstream_timeout"
            assert len(asyncio.all_tasks()) == 1
        assert asked == ["provider.example"]


async def test_names_that_are_never_looked_up_are_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {f"p{number}.example" for number in range(40)}  # more than the threads of any loop
    with silent_resolver(monkeypatch) as asked:
        endpoints = [Endpoint(base_url=f"http://{name}", connect_s=AT_ONCE_S) for name in names]
        errors = await asyncio.gather(*map(opening_fails, endpoints))
        assert {error.code for error in errors} == {"upstream_timeout"}
        assert set(asked) == names
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            assert await asyncio.to_thread(int) == 0


async def test_a_name_is_looked_up_once_for_all_who_ask_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with UpstreamServer() as server, using(Endpoint(base_url="http://provider.example")) as upstream:
        asked = resolving(monkeypatch, ("127.0.0.1", server.port))
        loop = asyncio.get_running_loop()
        first, *others = [loop.create_task(upstream.open(REQUEST, Recorder())) for _ in range(5)]
        await asyncio.sleep(0)
        first.cancel()
        calls = await asyncio.gather(*others)
        assert len(asked) == 1
        calls.append(await upstream.open(REQUEST, Recorder()))
        assert len(asked) == 2
        for call in calls:
            call.abort()


async def test_a_look_up_that_fails_fails_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    async with using(Endpoint(base_url="http://provider.example")) as upstream:
        results = await asyncio.gather(*(upstream.open(REQUEST, Recorder()) for _ in range(3)), return_exceptions=True)
    assert [result.code for result in results if isinstance(result, StreamweirError)] == ["upstream_dns_failed"] * 3


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_host_by_name_and_by_address(host: str) -> None:
    async with UpstreamServer() as server, using(server.endpoint(base_url=f"http://{host}:{server.port}")) as upstream:
        recorder = Recorder()
        await upstream.open(REQUEST, recorder)
        await (await server.accept()).answer(WHOLE)
        await recorder.over()


@contextmanager
def listening_on_ipv6() -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_INET6)) as listener:
        try:
            listener.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        listener.listen()
        listener.setblocking(False)
        yield listener


async def test_a_host_by_ipv6() -> None:
    with listening_on_ipv6() as listener:
        port = listener.getsockname()[1]
        async with using(Endpoint(base_url=f"http://[::1]:{port}")) as upstream:
            call = await upstream.open(REQUEST, Recorder())
            loop = asyncio.get_running_loop()
            accepted, _ = await loop.sock_accept(listener)
            with closing(accepted):
                assert f"host: [::1]:{port}\r\n".encode() in await loop.sock_recv(accepted, 65536)
                call.abort()


async def test_the_next_address_where_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with UpstreamServer() as server, using(Endpoint(base_url="http://provider.example")) as upstream:
        with refusing() as dead:
            resolving(monkeypatch, ("127.0.0.1", dead), ("127.0.0.1", dead), ("127.0.0.1", server.port))
            recorder = Recorder()
            await upstream.open(REQUEST, recorder)
            await (await server.accept()).answer(WHOLE)
            await recorder.over()
    await turns()
    assert len(asyncio.all_tasks()) == 1


async def test_the_next_address_where_one_swallows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "ATTEMPT_DELAY_S", 0.001)
    async with UpstreamServer() as server, using(Endpoint(base_url="http://provider.example")) as upstream:
        with swallowing() as dead:
            resolving(monkeypatch, ("127.0.0.1", dead), ("127.0.0.1", server.port))
            recorder = Recorder()
            await upstream.open(REQUEST, recorder)
            await turns()
            assert len(asyncio.all_tasks()) == 1
            await (await server.accept()).answer(WHOLE)
            await recorder.over()


async def test_attempts_that_all_succeed_leave_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "ATTEMPT_DELAY_S", 0)
    endpoint = Endpoint(base_url="http://provider.example")
    async with UpstreamServer() as one, UpstreamServer() as other, using(endpoint) as upstream:
        resolving(monkeypatch, ("127.0.0.1", one.port), ("127.0.0.1", other.port))
        call = await upstream.open(REQUEST, Recorder())
        await turns()
        assert upstream.in_use == len(asyncio.all_tasks()) == 1
        call.abort()


async def test_no_address_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with refusing() as one, refusing() as other:
        resolving(monkeypatch, ("127.0.0.1", one), ("127.0.0.1", other))
        error = await opening_fails(Endpoint(base_url="http://provider.example"))
    assert error.code == "upstream_connect_failed"


async def test_the_deadline_holds_for_all_addresses_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with swallowing() as one, swallowing() as other:
        resolving(monkeypatch, ("127.0.0.1", one), ("127.0.0.1", other))
        error = await opening_fails(Endpoint(base_url="http://provider.example", connect_s=AT_ONCE_S))
    assert error.code == "upstream_timeout"
    await turns()
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize(
    ("found", "addresses"),
    [
        ([("10.0.0.1", 1)], [("10.0.0.1", 1)]),
        (
            [("::1", 1, 0, 0), ("::2", 1, 0, 0), ("10.0.0.1", 1), ("10.0.0.2", 1), ("10.0.0.3", 1)],
            [("::1", 1), ("10.0.0.1", 1), ("::2", 1), ("10.0.0.2", 1), ("10.0.0.3", 1)],
        ),
        ([("10.0.0.1", 1), ("10.0.0.1", 1)], [("10.0.0.1", 1)]),
        ([("fe80::1", 1, 0, 2)], [("fe80::1%2", 1)]),
        ([(f"10.0.0.{n}", 1) for n in range(50)], [(f"10.0.0.{n}", 1) for n in range(8)]),
    ],
)
def test_the_order_of_addresses(found: list[tuple[Any, ...]], addresses: list[tuple[str, int]]) -> None:
    infos = [(10 if ":" in name[0] else 2, 1, 6, "", name) for name in found]
    assert dial.interleave_families(infos) == addresses


@pytest.mark.parametrize("kind", ["http", "https"])
async def test_cancelled_while_connecting(kind: str, certificate: Certificate) -> None:
    with swallowing() as port:
        endpoint = Endpoint(base_url=f"{kind}://127.0.0.1:{port}", ca_file=str(certificate.cert_file))
        async with using(endpoint) as upstream:
            opening = asyncio.get_running_loop().create_task(upstream.open(REQUEST, Recorder()))
            await settled(lambda: upstream.in_use == 1)
            await turns()
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            assert opening.cancelled()
            assert upstream.in_use == 0


@pytest.mark.parametrize("kind", ["http", "https"])
@pytest.mark.parametrize("steps", range(15))
async def test_cancelled_at_every_step(kind: str, steps: int, certificate: Certificate) -> None:
    # The server speaks no TLS, so the handshake stays open; leaving the block proves that no socket does.
    async with UpstreamServer() as server:
        base_url = f"{kind}://127.0.0.1:{server.port}"
        async with using(server.endpoint(base_url=base_url, ca_file=str(certificate.cert_file))) as upstream:
            recorder = Recorder()
            opening = asyncio.get_running_loop().create_task(upstream.open(REQUEST, recorder))
            for _ in range(steps):
                await asyncio.sleep(0)
            if not opening.cancel():
                opening.result().abort()
            await asyncio.gather(opening, return_exceptions=True)
            assert upstream.in_use == 0
            await turns()
            assert recorder.calls == []


@pytest.mark.parametrize("steps", range(20))
async def test_cancelled_at_every_step_of_a_race(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dial, "ATTEMPT_DELAY_S", 0)
    endpoint = Endpoint(base_url="http://provider.example")
    async with UpstreamServer() as one, UpstreamServer() as other, using(endpoint) as upstream:
        resolving(monkeypatch, ("127.0.0.1", one.port), ("127.0.0.1", other.port))
        opening = asyncio.get_running_loop().create_task(upstream.open(REQUEST, Recorder()))
        for _ in range(steps):
            await asyncio.sleep(0)
        if not opening.cancel():
            opening.result().abort()
        await asyncio.gather(opening, return_exceptions=True)
        await turns()
        assert upstream.in_use == 0
        assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize(
    ("kind", "says", "code"),
    [
        ("http", b"", "upstream_empty_response"),
        ("http", b"220 ready\r\n", "upstream_bad_response"),
        ("https", b"", "upstream_tls_failed"),
        ("https", b"220 ready\r\n", "upstream_tls_failed"),
    ],
)
async def test_a_server_that_sends_or_closes_first(kind: str, says: bytes, code: str, certificate: Certificate) -> None:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        base_url = f"{kind}://127.0.0.1:{listener.getsockname()[1]}"
        endpoint = Endpoint(base_url=base_url, ca_file=str(certificate.cert_file))
        opening = asyncio.get_running_loop().create_task(opening_fails(endpoint))
        while not opening.done():
            await asyncio.sleep(0)
            with suppress(BlockingIOError):  # by hand, and so before the client's loop has looked at its socket
                accepted, _ = listener.accept()
                accepted.sendall(says)
                accepted.close()
        assert (await opening).code == code


async def test_out_of_file_descriptors_is_a_gateway_fault() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with UpstreamServer() as server:
        with closing(socket.socket()) as highest:
            await turns()
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest.fileno(), hard))
            try:
                error = await opening_fails(server.endpoint())
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert error.code == "overloaded"


@pytest.mark.parametrize(
    ("error", "is_in_tls", "code"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, ""), False, "upstream_connect_failed"),
        (OSError(errno.EHOSTUNREACH, ""), False, "upstream_connect_failed"),
        (OSError(errno.ENETUNREACH, ""), False, "upstream_connect_failed"),
        (TimeoutError(errno.ETIMEDOUT, ""), False, "upstream_timeout"),
        (TimeoutError(), True, "upstream_timeout"),
        (OSError(errno.EADDRNOTAVAIL, ""), False, "overloaded"),
        (ConnectionResetError(), True, "upstream_tls_failed"),
    ],
)
def test_whose_fault_it_is(error: OSError, is_in_tls: bool, code: str) -> None:
    assert dial.connect_error(error, is_in_tls).code == code
