"""The listener: places, files, TLS, and the three steps of its end."""

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from streamweir.server.http.limits import HttpLimits
from streamweir.server.http.listener import HttpServer
from streamweir.server.http.message import Answer
from streamweir.server.process.supervisor import open_listeners
from support.certificate import make_certificate
from support.deadlines import WAIT_TIMEOUT_S
from support.http_app import Serving, SmallApp, get, post, serving
from support.raw_client import RawClient

# Places.


async def test_one_connection_too_many_gets_an_error_and_is_closed() -> None:
    async with serving(connections=2) as at:
        async with await RawClient.open(at.address) as one, await RawClient.open(at.address) as two:
            for client in (one, two):
                await client.send(get("/echo"))
                assert (await client.response()).status == 200
            async with await RawClient.open(at.address) as third:
                await third.send(get("/echo"))
                reply = await third.response()
                assert (reply.status, reply.body) == (503, b"overloaded")
                assert reply.header("connection") == "close"
                assert 1 <= float(reply.header("retry-after") or 0) <= 5
                assert await third.is_closed()
            await two.send(get("/echo"))
            assert (await two.response()).status == 200
        await at.emptied()
        async with await RawClient.open(at.address) as client:
            await client.send(get("/echo"))
            assert (await client.response()).status == 200


async def test_many_requests_without_slots_leave_nothing_behind() -> None:
    """More than can be ended gently at the same time: every one is told, none keeps its socket."""
    async with serving(connections=1, linger_s=1000) as at, await RawClient.open(at.address) as first:
        at.server.refusal = lambda: b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
        await first.send(get("/echo"))
        await first.response()
        crowd = [await RawClient.open(at.address) for _ in range(100)]
        for client in crowd:
            with suppress(ConnectionError):
                await client.send(get("/echo"))
            assert (await client.response()).status == 503
            assert await client.is_closed()
            client.close()
        await first.send(get("/echo"))
        assert (await first.response()).status == 200


async def test_the_connection_limit_is_the_file_limit_less_the_own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (66, 66))
    async with (
        serving() as at,
        await RawClient.open(at.address) as one,
        await RawClient.open(at.address) as two,
        await RawClient.open(at.address) as three,
    ):
        await three.send(get("/echo"))
        assert (await three.response()).status == 503
        for client in (one, two):
            await client.send(get("/echo"))
            assert (await client.response()).status == 200


async def test_a_reserved_path_is_served_although_all_connections_are_taken() -> None:
    async with serving(connections=1, reserved_paths=("/status",)) as at, await RawClient.open(at.address) as first:
        await first.send(get("/echo"))
        await first.response()
        for path, status in [("/status?204", 204), ("/echo", 503)]:
            async with await RawClient.open(at.address) as client:
                await client.send(get(path))
                reply = await client.response()
                assert (reply.status, reply.header("connection")) == (status, "close")


async def test_files_of_upstreams_count_as_files_of_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64 + 4, 64 + 4))
    async with serving() as at, await RawClient.open(at.address) as one:
        at.server.upstream_files = lambda: 3
        await one.send(get("/echo"))
        assert (await one.response()).status == 200
        async with await RawClient.open(at.address) as two:
            await two.send(get("/echo"))
            assert (await two.response()).status == 503


async def test_many_that_wait_are_accepted_in_a_few_turns_of_the_loop() -> None:
    count = 300
    async with serving() as at:
        waiting = [socket.create_connection(at.address) for _ in range(count)]  # the loop stands still meanwhile
        assert at.server.queued[0][1] == count
        turns = 0
        while at.server.connections < count:
            turns += 1
            await asyncio.sleep(0)
        assert at.server.queued[0][1] == 0
        for sock in waiting:
            sock.close()
    assert turns < count / 10


async def test_without_files_waiting_connections_get_an_error_and_the_listener_stays() -> None:
    """Accepting fails then: it must neither spin nor end the listener, and callers get HTTP."""
    loop = asyncio.get_running_loop()
    faults: list[dict[str, object]] = []
    exhausted: list[OSError] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    async with serving(connections=1000) as at, await RawClient.open(at.address) as first:
        at.server.refusal = lambda: b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
        at.server.on_files_exhausted = exhausted.append
        await first.send(get("/echo"))
        await first.response()
        waiting = [RawClient(sock) for sock in [socket.socket() for _ in range(20)]]
        with _no_files_left():
            for client in waiting:
                client.sock.setblocking(False)
                await loop.sock_connect(client.sock, at.address)
            for client in waiting:
                assert (await client.response()).status == 503
                assert await client.is_closed()
            await first.send(get("/echo"))
            assert (await first.response()).status == 200
        for client in waiting:
            client.close()
        async with await RawClient.open(at.address) as client:
            await client.send(get("/echo"))
            assert (await client.response()).status == 200
    assert faults == []
    assert exhausted


@contextmanager
def _no_files_left() -> Iterator[None]:
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.open("/", os.O_RDONLY)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


# TLS.


async def test_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate.cert_file))
    body = bytes(range(256)) * 4000
    async with serving(tls=certificate.server_context()) as at:
        reader, writer = await asyncio.open_connection(*at.address, ssl=trust)
        writer.write(post("/echo", body) + get("/echo", "connection: close"))
        answer = await asyncio.wait_for(reader.read(), WAIT_TIMEOUT_S)
        assert body in answer
        assert answer.endswith(b"content-length: 0\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        await at.emptied()


async def test_a_tls_caller_that_leaves_is_gone(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate.cert_file))
    async with serving(tls=certificate.server_context()) as at:
        _, writer = await asyncio.open_connection(*at.address, ssl=trust)
        writer.write(get("/hold"))
        held = await at.app.hold()
        held.start(200, (), bytes(1_000_000))
        writer.transport.abort()
        await at.app.until(lambda: "gone" in at.app.events)
        await at.emptied()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_tls_handshake_has_the_deadline_of_a_head(tmp_path: Path, sent: bytes) -> None:
    context = make_certificate(tmp_path).server_context()
    async with serving(tls=context, header_s=0.05) as at, await RawClient.open(at.address) as client:
        await client.send(sent)
        with suppress(ConnectionError):
            await client.read_to_end()  # at most an alert, and the end
        assert at.app.begun == []
        assert at.app.refused == []


# The end.


async def test_stop_admitting_ends_what_is_idle_and_then_each_with_its_answer() -> None:
    async with serving() as at:
        async with (
            await RawClient.open(at.address) as idle,
            await RawClient.open(at.address) as busy,
            await RawClient.open(at.address) as fresh,
        ):
            await idle.send(get("/echo"))
            await idle.response()
            await busy.send(get("/hold"))
            held = await at.app.hold()
            await at.accepted()
            at.server.stop_admitting()
            assert await idle.is_closed()
            held.start(200, (), b"still ")
            held.end(b"answered")
            reply = await busy.response()
            assert (reply.body, reply.header("connection")) == (b"still answered", "close")
            assert await busy.is_closed()
            await fresh.send(get("/echo"))
            assert (await fresh.response()).header("connection") == "close"
            async with await RawClient.open(at.address) as new:
                await new.send(get("/echo") * 2)
                assert (await new.response()).header("connection") == "close"
                assert await new.is_closed()
        await at.emptied()


_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
_CLOSING = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def _refuse_posts(data: bytes, *, closes: bool) -> bytes | None:
    return (_CLOSING if closes else _REFUSAL) if data.startswith(b"POST") else None


def _ask_and_connect(at: Serving) -> RawClient:
    """Its request is there when it is accepted: the loop stands still meanwhile."""
    sock = socket.create_connection(at.address)
    sock.sendall(post("/echo", b"a"))
    sock.setblocking(False)
    return RawClient(sock)


async def test_one_that_was_refused_as_it_was_accepted_is_kept_as_any_other_that_was_answered() -> None:
    """It has asked already: that nothing more comes is no request that comes too late."""
    async with serving(header_s=0.05, keep_s=1000) as at:
        at.server.set_early_refusal(_refuse_posts)
        clients = [_ask_and_connect(at) for _ in range(4)]
        kept, *_ = [client for client in clients if (await client.response()).header("connection") is None]
        async with await RawClient.open(at.address) as silent:
            assert (await silent.response()).status == 408
        await kept.send(get("/echo"))
        assert (await kept.response()).status == 200
        for client in clients:
            client.close()


async def test_refused_connections_beyond_the_limit_or_during_a_stop_are_closed() -> None:
    async with serving(connections=1) as at, await RawClient.open(at.address) as first:
        await first.send(get("/echo"))
        await first.response()
        at.server.set_early_refusal(_refuse_posts)
        for _ in range(4):
            async with _ask_and_connect(at) as client:
                assert (await client.response()).header("connection") == "close"
                assert await client.is_closed()
    async with serving() as at:
        at.server.set_early_refusal(_refuse_posts)
        at.server.end_with_answers()
        for _ in range(4):
            async with _ask_and_connect(at) as client:
                assert (await client.response()).header("connection") == "close"
                assert await client.is_closed()


async def test_closed_listeners_accept_no_connections() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        address = at.address
        await at.accepted()
        at.server.close_listeners()
        assert at.server.addresses == []
        await client.send(get("/echo"))
        assert (await client.response()).status == 200
        with pytest.raises(ConnectionRefusedError):
            await RawClient.open(address)


async def test_close_waits_for_the_grace() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        closing = asyncio.ensure_future(at.server.close(WAIT_TIMEOUT_S))
        await asyncio.sleep(0)
        held.send(Answer(status=200, body=b"in time"))
        assert (await client.response()).body == b"in time"
        client.close()
        await closing
        assert at.app.events == []


async def test_close_cuts_off_what_is_left() -> None:
    async with serving() as at, await RawClient.open(at.address) as client:
        await client.send(get("/hold"))
        held = await at.app.hold()
        held.start(200, (), b"x")
        await at.server.close(0.02)
        assert at.server.connections == 0
        assert at.app.events == ["gone"]
        assert held.gone


async def test_several_addresses() -> None:
    server = HttpServer(SmallApp(), HttpLimits())
    for host in ("127.0.0.1", "::1" if _has_ipv6() else "127.0.0.1"):
        (listener,) = open_listeners(host, 0)
        await server.listen(listener)
    for address in server.addresses:
        async with await RawClient.open(address) as client:
            await client.send(get("/echo"))
            assert (await client.response()).status == 200
    with pytest.raises(OSError, match="in use"):
        open_listeners(*server.addresses[0])
    await server.close()


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
