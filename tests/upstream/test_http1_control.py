"""What a receiver may do with its call, and when: pause, resume, abort, release, or raise."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

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
from support.watchdog import WatchedLoop


class Scene(NamedTuple):
    upstream: Http1Upstream
    call: Http1Call
    recorder: Recorder
    peer: Peer


@asynccontextmanager
async def scene(
    data: bytes = b"", on: Mapping[str, Callable[[], object]] | None = None, linger_s: float = WAIT_TIMEOUT_S
) -> AsyncIterator[Scene]:
    """A call whose request has been read and answered with this."""
    async with UpstreamServer() as server, using(server.endpoint(), linger_s) as upstream:
        recorder = Recorder(on)
        call = await upstream.open(REQUEST, recorder)
        peer = await server.accept()
        await peer.answer(data)
        yield Scene(upstream, call, recorder, peer)


STARTED = CHUNKED + chunk(b"hello")


async def test_pause_stops_the_flow_and_resume_continues_it() -> None:
    async with scene(CHUNKED) as (_, call, recorder, peer):
        await recorder.until(lambda: recorder.status == 200)
        call.pause()
        call.pause()
        piece = chunk(b"x" * 65536)
        sent = 0
        # Until both kernels' buffers are full and the rest stays with us.
        while peer.writer.transport.get_write_buffer_size() == 0:
            peer.send(piece)
            sent += 65536
            await turns()
        assert recorder.body == b""
        assert sent < 8 * 1024 * 1024
        call.resume()
        call.resume()
        await recorder.until(lambda: len(recorder.body) == sent)
        peer.send(LAST_CHUNK)
        await recorder.over()


async def test_paused_in_its_own_callback() -> None:
    calls: list[Http1Call] = []
    async with scene(on={"body": lambda: calls[0].pause()}) as (_, call, recorder, peer):
        calls.append(call)
        peer.send(STARTED)
        await recorder.until(lambda: recorder.body == b"hello")
        peer.send(chunk(b"more"))
        await turns()
        assert recorder.body == b"hello"
        call.resume()
        await recorder.until(lambda: recorder.body == b"hellomore")
        call.abort()


async def test_a_call_that_ends_paused_leaves_a_connection_that_reads() -> None:
    calls: list[Http1Call] = []
    async with scene(on={"body": lambda: calls[0].pause()}) as (upstream, call, recorder, peer):
        calls.append(call)
        peer.send(WHOLE)
        await recorder.over()
        assert upstream.idle == 1
        peer.finish()
        await settled(lambda: upstream.idle == 0)


async def test_pause_and_resume_after_the_end() -> None:
    async with scene(WHOLE) as (upstream, call, recorder, peer):
        await recorder.over()
        call.pause()
        again = Recorder()
        await upstream.open(REQUEST, again)
        await peer.answer(WHOLE)
        await again.over()
        call.resume()
        call.abort()
        call.release()
        assert upstream.idle == 1


async def test_a_reset_while_paused_is_reported_when_reading_resumes() -> None:
    async with scene(STARTED) as (_, call, recorder, peer):
        await recorder.until(lambda: recorder.body == b"hello")
        call.pause()
        peer.send(chunk(b"more"))
        await turns()
        peer.reset()
        await turns()
        assert recorder.calls == ["head", "body"]
        call.resume()
        await recorder.over()
        assert (recorder.body, recorder.code) == (b"hellomore", "upstream_stream_reset")


@pytest.mark.parametrize("data", [b"", OK, STARTED], ids=["unanswered", "in_the_head", "in_the_body"])
async def test_abort(data: bytes) -> None:
    async with scene(data) as (upstream, call, recorder, peer):
        await turns()
        calls = list(recorder.calls)
        call.abort()
        assert upstream.in_use == 0
        call.abort()
        call.release()
        call.pause()
        call.resume()
        peer.send(chunk(b"more"))
        await peer.gone()
        await turns()
        assert recorder.calls == calls
        assert (upstream.in_use, upstream.idle) == (0, 0)


@pytest.mark.parametrize("moment", ["head", "body"])
@pytest.mark.parametrize("data", [WHOLE, STARTED, STARTED + LAST_CHUNK, STARTED + b"zz\r\n", OK + b"\r\nhello"])
async def test_abort_from_inside_a_callback(moment: str, data: bytes) -> None:
    calls: list[Http1Call] = []
    async with scene(on={moment: lambda: calls[0].abort()}) as (upstream, call, recorder, peer):
        calls.append(call)
        peer.send(data)
        await recorder.until(lambda: moment in recorder.calls)
        assert (upstream.in_use, upstream.idle) == (0, 0)
        await peer.gone()
        await turns()
        assert recorder.calls == ["head", "body"][: 1 + (moment == "body")]


async def test_abort_with_much_unread() -> None:
    async with scene(CHUNKED) as (upstream, call, recorder, peer):
        await recorder.until(lambda: recorder.status == 200)
        call.pause()
        peer.send(chunk(b"x" * 4_000_000))
        await turns()
        call.abort()
        await peer.gone()
        assert upstream.in_use == 0


async def test_releasing_a_whole_answer_keeps_the_connection() -> None:
    calls: list[Http1Call] = []
    async with scene(on={"body": lambda: calls[0].release()}) as (upstream, call, recorder, peer):
        calls.append(call)
        peer.send(STARTED + LAST_CHUNK)
        await recorder.until(lambda: recorder.body == b"hello")
        assert (upstream.in_use, upstream.idle) == (0, 1)
        again = Recorder()
        await upstream.open(REQUEST, again)
        await peer.answer(WHOLE)
        await again.over()
        assert recorder.calls == ["head", "body"]


@pytest.mark.parametrize("end", [Http1Call.abort, Http1Call.release])
async def test_a_call_ended_by_its_receiver_as_it_ends(end: Callable[[Http1Call], None]) -> None:
    calls: list[Http1Call] = []
    async with scene(on={"ended": lambda: end(calls[0])}) as (upstream, call, recorder, peer):
        calls.append(call)
        peer.send(WHOLE)
        await recorder.over()
        assert (upstream.in_use, upstream.idle) == (0, 1)


async def test_released_at_the_head_of_a_whole_answer() -> None:
    calls: list[Http1Call] = []
    async with scene(on={"head": lambda: calls[0].release()}) as (upstream, call, recorder, peer):
        calls.append(call)
        peer.send(WHOLE)
        await recorder.until(lambda: recorder.status == 200)
        assert (upstream.in_use, upstream.idle) == (0, 1)
        await turns()
        assert recorder.calls == ["head"]


@pytest.mark.parametrize("pieces", [[LAST_CHUNK], [b"0", b"\r\n", b"\r", b"\n"], [b"0\r\nx-t: y\r\n", b"\r\n"]])
async def test_released_and_then_the_end(pieces: list[bytes]) -> None:
    async with scene(STARTED) as (upstream, call, recorder, peer):
        await recorder.until(lambda: recorder.body == b"hello")
        call.pause()
        call.release()
        assert (upstream.in_use, upstream.idle) == (1, 0)
        for piece in pieces:
            assert upstream.idle == 0
            peer.send(piece)
            await turns()
        assert (upstream.in_use, upstream.idle) == (0, 1)
        again = Recorder()
        await upstream.open(REQUEST, again)
        call.abort()
        await peer.answer(WHOLE)
        assert (await again.over()).body == b"hi"
        assert recorder.calls == ["head", "body"]


@pytest.mark.parametrize(
    "then",
    [
        lambda peer: peer.send(chunk(b"more")),
        lambda peer: peer.send(chunk(b"more") + LAST_CHUNK),
        lambda peer: peer.send(LAST_CHUNK + b"junk"),
        lambda peer: peer.send(LAST_CHUNK + WHOLE),
        lambda peer: peer.send(b"zz\r\n"),
        lambda peer: peer.send(b"0\r\nx: " + b"y" * 40_000),
        lambda peer: peer.finish(),
        lambda peer: peer.reset(),
    ],
    ids=["body", "body_and_end", "junk", "another_response", "fault", "trailer", "fin", "rst"],
)
async def test_released_and_then_something_else_than_the_end(then: Callable[[Peer], None]) -> None:
    async with scene(STARTED) as (upstream, call, recorder, peer):
        await recorder.until(lambda: recorder.body == b"hello")
        call.release()
        then(peer)
        await settled(lambda: upstream.in_use == 0)
        assert upstream.idle == 0
        await peer.gone()
        assert recorder.calls == ["head", "body"]


async def test_released_and_then_the_end_in_time() -> None:
    async with UpstreamServer() as server, using(server.endpoint(), linger_s=0.03) as upstream:
        peers = []
        for _ in range(2):
            recorder = Recorder()
            call = await upstream.open(REQUEST, recorder)
            peers.append(await server.accept())
            await peers[-1].answer(STARTED)
            await recorder.until(lambda: recorder.body == b"hello")  # noqa: B023
            call.release()
        peers[0].send(LAST_CHUNK)
        await peers[1].gone()  # its time is up, and so would be that of the first
        assert (upstream.in_use, upstream.idle) == (0, 1)


async def test_released_and_then_nothing() -> None:
    async with scene(STARTED, linger_s=0.005) as (upstream, call, recorder, peer):
        await recorder.until(lambda: recorder.body == b"hello")
        call.release()
        assert upstream.in_use == 1
        await peer.gone()
        assert (upstream.in_use, upstream.idle) == (0, 0)


@pytest.mark.parametrize(
    "data",
    [b"", OK, OK + b"\r\nhello", OK + b"connection: close\r\ncontent-length: 9\r\n\r\nhello"],
    ids=["unanswered", "in_the_head", "until_the_close", "connection_close"],
)
async def test_releasing_a_connection_that_cannot_be_kept_closes_it(data: bytes) -> None:
    async with scene(data) as (upstream, call, _, peer):
        await turns()
        call.release()
        assert (upstream.in_use, upstream.idle) == (0, 0)
        await peer.gone()


async def test_released_at_the_head_with_a_part_of_the_body_unread() -> None:
    calls: list[Http1Call] = []
    async with scene(on={"head": lambda: calls[0].release()}) as (upstream, call, recorder, peer):
        calls.append(call)
        peer.send(STARTED)
        await recorder.until(lambda: recorder.status == 200)
        assert (upstream.in_use, upstream.idle) == (0, 0)
        await peer.gone()
        assert recorder.calls == ["head"]


async def test_close_does_not_wait_for_a_released_connection() -> None:
    async with scene(STARTED) as (upstream, call, recorder, peer):
        await recorder.until(lambda: recorder.body == b"hello")
        call.release()
        await upstream.close()
        assert (upstream.in_use, upstream.idle) == (0, 0)
        await peer.gone()


class ExpectedError(Exception):
    pass


def mishap() -> None:
    raise ExpectedError


@pytest.mark.parametrize(
    ("moment", "data", "how"),
    [
        ("head", WHOLE, None),
        ("head", STARTED, None),
        ("body", WHOLE, None),
        ("body", STARTED, None),
        ("ended", WHOLE, None),
        ("ended", OK + b"\r\nhello", "fin"),
        ("failed", STARTED, "fin"),
        ("failed", STARTED, "rst"),
        ("failed", b"junk", None),
    ],
)
async def test_a_receiver_that_fails(moment: str, data: bytes, how: str | None) -> None:
    loop = asyncio.get_running_loop()
    seen: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: seen.append(context))
    async with scene(data, on={moment: mishap}) as (upstream, call, recorder, peer):
        if how == "fin":
            peer.finish()
        elif how == "rst":
            peer.reset()
        await recorder.until(lambda: moment in recorder.calls)
        await settled(lambda: seen != [])
        assert isinstance(seen[0]["exception"], ExpectedError)
        assert (upstream.in_use, upstream.idle) == (0, 0)
        await peer.gone()
        call.abort()
        await turns()
        assert recorder.calls[-1] == moment
        assert len(seen) == 1


def timers() -> int:
    """Those of the event loop that are still to come."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, WatchedLoop)
    return loop.timers


async def test_nothing_is_left_behind() -> None:
    before = timers()
    async with UpstreamServer() as server, using(server.endpoint(max_connections=2)) as upstream:
        recorders = [Recorder() for _ in range(3)]
        calls = [await upstream.open(REQUEST, recorder) for recorder in recorders[:2]]
        waiting = asyncio.get_running_loop().create_task(upstream.open(REQUEST, recorders[2]))
        await settled(lambda: upstream.waiting == 1)
        peers = [await server.accept() for _ in calls]
        await peers[0].answer(WHOLE)
        await waiting
        await peers[0].answer(WHOLE)
        await recorders[2].over()
        await peers[1].answer(STARTED)
        await recorders[1].until(lambda: recorders[1].body == b"hello")
        calls[1].release()
        assert timers() == before + 2  # of the kept one and of the one that was let go
        peers[1].send(LAST_CHUNK)
        await settled(lambda: upstream.idle == 2)
        assert timers() == before + 1
    await turns()
    assert timers() == before
    assert len(asyncio.all_tasks()) == 1
