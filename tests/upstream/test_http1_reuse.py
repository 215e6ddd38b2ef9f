"""Connections that serve more than one call: when they are kept, when never, and what a dead one costs."""

import asyncio
from collections.abc import Callable

import pytest

from streamweir.core.errors import GatewayFault
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.http1 import Http1Call, Http1Upstream
from support.deadlines import WAIT_TIMEOUT_S
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
    settled,
    turns,
    using,
)


async def served(upstream: Http1Upstream, server: UpstreamServer, data: bytes = WHOLE) -> Peer:
    """A call that is answered on a new connection."""
    recorder = Recorder()
    await upstream.open(REQUEST, recorder)
    peer = await server.accept()
    await peer.answer(data)
    await recorder.over()
    return peer


async def open_codes(upstream: Http1Upstream) -> str:
    with pytest.raises(GatewayFault) as raised:
        await upstream.open(REQUEST, Recorder())
    return raised.value.code


async def test_calls_follow_each_other_on_one_connection() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        peer = await served(upstream, server)
        for data in [WHOLE, CHUNKED + chunk(b"x") + b"0\r\nt: u\r\n\r\n", WHOLE, b"HTTP/1.1 204 No\r\n\r\n", WHOLE]:
            recorder = Recorder()
            call = await upstream.open(REQUEST, recorder)
            assert upstream.in_use == 1
            await peer.answer(data)
            await recorder.over()
            assert (recorder.calls[-1], call.resends) == ("ended", 0)
            assert "t" not in recorder.headers
            assert (upstream.in_use, upstream.idle) == (0, 1)
        assert len(server.peers) == 1


async def test_calls_at_the_same_time_have_a_connection_each() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorders = [Recorder() for _ in range(3)]
        for recorder in recorders:
            await upstream.open(REQUEST, recorder)
        assert upstream.in_use == 3
        for _ in recorders:
            await (await server.accept()).answer(WHOLE)
        for recorder in recorders:
            assert (await recorder.over()).body == b"hi"
        assert (upstream.in_use, upstream.idle) == (0, 3)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"content-length: 2\r\nconnection: close\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi",
        WHOLE + b"junk",
        WHOLE + WHOLE,
        CHUNKED + chunk(b"hi") + LAST_CHUNK + b"HTTP",
    ],
    ids=["close", "http_1_0", "junk", "another_response", "part_of_another"],
)
async def test_a_connection_that_is_not_kept(data: bytes) -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        peer = await served(upstream, server, data)
        assert (upstream.in_use, upstream.idle) == (0, 0)
        await peer.gone()
        await served(upstream, server)
        assert len(server.peers) == 2


async def test_a_connection_whose_request_is_not_sent_to_the_end_is_not_kept() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()
        body = b"x" * 8_000_000
        await upstream.open(UpstreamRequest(path="/", headers=(), body=body), recorder)
        peer = await server.accept()
        peer.send(OK.replace(b"200", b"413") + b"content-length: 0\r\n\r\n")
        await recorder.over()
        assert (recorder.status, recorder.calls) == (413, ["head", "ended"])
        assert (upstream.in_use, upstream.idle) == (0, 0)


async def test_an_answer_is_read_although_the_request_was_cut() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        recorder = Recorder()
        await upstream.open(UpstreamRequest(path="/", headers=(), body=b"x" * 8_000_000), recorder)
        peer = await server.accept()
        await turns()
        peer.send(OK.replace(b"200", b"413") + b"content-length: 2\r\n\r\nno")
        peer.reset()
        await recorder.over()
        assert (recorder.status, recorder.body, recorder.calls) == (413, b"no", ["head", "body", "ended"])


@pytest.mark.parametrize("how", ["fin", "rst", "data", "blank_line"])
async def test_an_idle_connection_that_receives_data_is_dropped_at_once(how: str) -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        peer = await served(upstream, server)
        if how == "fin":
            peer.finish()
        elif how == "rst":
            peer.reset()
        else:
            peer.send(b"HTTP/1.1 408 Too slow\r\n\r\n" if how == "data" else b"\r\n")
        await settled(lambda: upstream.idle == 0)
        await peer.gone()
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        await (await server.accept()).answer(WHOLE)
        assert (await recorder.over()).body == b"hi"
        assert call.resends == 0


async def test_kept_connections_are_closed_after_a_while() -> None:
    async with UpstreamServer() as server, using(server.endpoint(keep_s=0.01)) as upstream:
        peer = await served(upstream, server)
        assert upstream.idle == 1
        await peer.gone()
        assert upstream.idle == 0


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_stale_connection_is_replaced_and_the_request_sent_again(how: str) -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        first = await served(upstream, server)
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        request = await first.request()
        if how == "fin":
            first.finish()
        else:
            first.reset()
        second = await server.accept()
        assert upstream.in_use == 1
        assert await second.answer(WHOLE) == request
        await recorder.over()
        assert recorder.calls == ["head", "body", "ended"]
        assert call.resends == 1
        assert (upstream.in_use, upstream.idle) == (0, 1)


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_it_is_never_sent_a_third_time(how: str) -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        peer = await served(upstream, server)
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        for _ in range(2):
            await peer.request()
            if how == "fin":
                peer.finish()
            else:
                peer.reset()
            if peer is server.peers[0]:
                peer = await server.accept()
        await recorder.over()
        assert recorder.calls == ["failed"]
        assert recorder.code == ("upstream_empty_response" if how == "fin" else "upstream_stream_reset")
        assert call.resends == 1
        assert len(server.peers) == 2


async def test_a_kept_connection_that_answers_is_not_stale() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        peer = await served(upstream, server)
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        await peer.answer(b"H")
        peer.finish()
        await recorder.over()
        assert recorder.code == "upstream_stream_truncated"
        assert call.resends == 0
        assert len(server.peers) == 1


async def test_resending_fails_if_nothing_listens_any_more() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        peer = await served(upstream, server)
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        await peer.request()
        server.stop_listening()
        peer.finish()
        await recorder.over()
        assert recorder.calls == ["failed"]
        assert recorder.code == "upstream_connect_failed"
        assert call.resends == 1
        assert upstream.in_use == 0


@pytest.mark.parametrize("end", [Http1Call.abort, Http1Call.release])
async def test_a_call_ended_while_it_is_sent_again(end: Callable[[Http1Call], None]) -> None:
    async with UpstreamServer() as server, using(server.endpoint(max_connections=1)) as upstream:
        peer = await served(upstream, server)
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        await peer.request()
        peer.finish()
        await settled(lambda: call.resends == 1)
        end(call)
        assert upstream.in_use == 0
        end(call)
        assert upstream.in_use == 0
        await turns()
        assert recorder.calls == []
        assert len(asyncio.all_tasks()) == 1


async def test_a_call_paused_while_it_is_sent_again_stays_paused() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        peer = await served(upstream, server)
        recorder = Recorder()
        call = await upstream.open(REQUEST, recorder)
        await peer.request()
        peer.finish()
        await settled(lambda: call.resends == 1)
        call.pause()
        await (await server.accept()).answer(WHOLE)
        await turns()
        assert recorder.calls == []
        call.resume()
        assert (await recorder.over()).body == b"hi"


async def test_the_limit_and_those_who_wait() -> None:
    async with (
        UpstreamServer() as server,
        using(server.endpoint(max_connections=2, wait_s=WAIT_TIMEOUT_S)) as upstream,
    ):
        recorders = [Recorder() for _ in range(6)]
        opening = [asyncio.get_running_loop().create_task(upstream.open(REQUEST, each)) for each in recorders]
        peers = [await server.accept(), await server.accept()]
        await settled(lambda: upstream.waiting == 4)
        assert upstream.in_use == 2
        for count in range(3):
            for peer in peers:
                await peer.answer(WHOLE)
            for recorder in recorders[2 * count : 2 * count + 2]:
                await recorder.over()
        await asyncio.gather(*opening)
        assert len(server.peers) == 2
        assert (upstream.in_use, upstream.idle, upstream.waiting) == (0, 2, 0)


async def test_the_limit_and_those_who_wait_too_long() -> None:
    async with UpstreamServer() as server, using(server.endpoint(max_connections=1, wait_s=0.005)) as upstream:
        call = await upstream.open(REQUEST, Recorder())
        assert await open_codes(upstream) == "overloaded"
        assert (upstream.in_use, upstream.waiting) == (1, 0)
        call.abort()
        await served_second(upstream, server)


async def served_second(upstream: Http1Upstream, server: UpstreamServer) -> None:
    await (await server.accept()).gone()
    await served(upstream, server)


async def test_an_aborted_call_frees_its_slot_at_once() -> None:
    async with UpstreamServer() as server, using(server.endpoint(max_connections=1)) as upstream:
        call = await upstream.open(REQUEST, Recorder())
        waiting = asyncio.get_running_loop().create_task(upstream.open(REQUEST, recorder := Recorder()))
        await settled(lambda: upstream.waiting == 1)
        call.abort()
        assert (upstream.in_use, upstream.waiting) == (1, 0)
        await waiting
        await (await server.accept()).gone()
        await (await server.accept()).answer(WHOLE)
        await recorder.over()


async def test_a_cancelled_waiter_with_a_connection_in_its_hands() -> None:
    async with UpstreamServer() as server, using(server.endpoint(max_connections=1)) as upstream:
        recorder = Recorder()
        tasks: list[asyncio.Task[Http1Call]] = []
        # Cancelled in the very callback in which the connection was handed to it.
        first = Recorder({"ended": lambda: asyncio.get_running_loop().call_soon(tasks[0].cancel)})
        await upstream.open(REQUEST, first)
        tasks += [
            asyncio.get_running_loop().create_task(upstream.open(REQUEST, each)) for each in (Recorder(), recorder)
        ]
        await settled(lambda: upstream.waiting == 2)
        peer = await server.accept()
        await peer.answer(WHOLE)
        await tasks[1]
        assert tasks[0].cancelled()
        await peer.answer(WHOLE)
        await recorder.over()
        assert (upstream.in_use, upstream.idle, upstream.waiting) == (0, 1, 0)


async def test_close_ends_what_is_idle_now_and_the_rest_later() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        busy = Recorder()
        await upstream.open(REQUEST, busy)
        busy_peer = await server.accept()
        idle_peer = await served(upstream, server)
        assert (upstream.in_use, upstream.idle) == (1, 1)
        await upstream.close()
        await idle_peer.gone()
        assert (upstream.in_use, upstream.idle) == (1, 0)
        late_peer = await served(upstream, server)
        await late_peer.gone()
        await busy_peer.answer(WHOLE)
        assert (await busy.over()).body == b"hi"
        assert (upstream.in_use, upstream.idle) == (0, 0)
        await busy_peer.gone()


async def test_close_with_some_waiting() -> None:
    async with UpstreamServer() as server, using(server.endpoint(max_connections=1)) as upstream:
        call, recorder = await upstream.open(REQUEST, Recorder()), Recorder()
        await server.accept()
        waiting = asyncio.get_running_loop().create_task(upstream.open(REQUEST, recorder))
        await settled(lambda: upstream.waiting == 1)
        await upstream.close()
        call.abort()
        await waiting
        peer = await server.accept()
        await peer.answer(WHOLE)
        assert (await recorder.over()).body == b"hi"
        await peer.gone()
