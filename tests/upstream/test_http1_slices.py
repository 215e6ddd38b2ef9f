"""A large read has several turns of the loop: others come between, nothing is lost, and the end comes last."""

import asyncio
from collections.abc import Callable

import pytest

from streamweir.upstream.connection import Connection
from streamweir.upstream.pool import Pool
from support.upstream_server import (
    CHUNKED,
    LAST_CHUNK,
    REQUEST,
    Recorder,
    UpstreamServer,
    chunk,
    using,
)

BODY = bytes(range(256)) * 1024


class Line(asyncio.Transport):
    """A transport that only remembers whether it is read from."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reading_now = True
        self.is_aborted = False

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def write(self, data: object) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def get_write_buffer_size(self) -> int:
        return 0


class Sender:
    def response_started(self) -> None: ...

    def detached(self) -> None: ...

    def send_again(self, _receiver: object) -> None:
        raise AssertionError("nothing is sent again")


class Received:
    """A `Receiver` that does something at each piece."""

    def __init__(self, on_body: Callable[[], object] = lambda: None) -> None:
        self.pieces: list[bytes] = []
        self.end: str | None = None
        self.on_body = on_body

    def head_received(self, status: int, headers: object, /) -> None: ...

    def body_received(self, data: bytes, /) -> None:
        self.pieces.append(data)
        self.on_body()

    def body_ended(self) -> None:
        self.end = "ended"

    def call_failed(self, error: Exception, /) -> None:
        self.end = getattr(error, "code", "?")


def connected(received: Received) -> tuple[Connection, Line]:
    connection, line = Connection(Pool(max_connections=1, wait_s=60.0, keep_s=60.0)), Line()
    connection.connection_made(line)
    connection.send(Sender(), received, b"", b"")
    return connection, line


async def test_one_slice_a_turn_and_nothing_is_read_meanwhile() -> None:
    received = Received()
    connection, line = connected(received)
    connection.data_received(CHUNKED + chunk(BODY) + LAST_CHUNK)
    assert not line.is_reading_now
    turns = 0
    while received.end is None:
        before = sum(map(len, received.pieces))
        await asyncio.sleep(0)
        assert sum(map(len, received.pieces)) - before <= 16 * 1024
        turns += 1
    assert b"".join(received.pieces) == BODY
    assert received.end == "ended"
    assert turns >= len(BODY) // (16 * 1024) - 1
    assert line.is_reading_now
    assert not line.is_aborted, "it may serve another request"


async def test_paused_between_two_slices() -> None:
    received = Received()
    connection, line = connected(received)
    connection.data_received(CHUNKED + chunk(BODY) + LAST_CHUNK)
    connection.pause()
    had = len(received.pieces)
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(received.pieces) == had
    connection.resume()
    connection.resume()
    assert not line.is_reading_now, "there is enough to do"
    while received.end is None:
        await asyncio.sleep(0)
    assert b"".join(received.pieces) == BODY


@pytest.mark.parametrize("end", ["eof", "reset"])
async def test_the_end_of_the_connection_waits_for_what_was_read(end: str) -> None:
    received = Received()
    connection, _ = connected(received)
    connection.data_received(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + BODY)
    connection.data_received(b"last")
    if end == "eof":
        connection.eof_received()
    connection.connection_lost(None if end == "eof" else ConnectionResetError())
    assert received.end is None
    while received.end is None:
        await asyncio.sleep(0)
    assert b"".join(received.pieces) == BODY + b"last"
    assert received.end == ("ended" if end == "eof" else "upstream_stream_reset")


async def test_aborted_between_two_slices() -> None:
    received = Received()
    connection, line = connected(received)
    connection.data_received(CHUNKED + chunk(BODY) + LAST_CHUNK)
    connection.drop()
    had = len(received.pieces)
    for _ in range(3):
        await asyncio.sleep(0)
    assert (len(received.pieces), received.end, line.is_aborted) == (had, None, True)


async def test_released_with_slices_left() -> None:
    connections: list[Connection] = []
    received = Received(lambda: connections[0].release(60.0))
    connection, line = connected(received)
    connections.append(connection)
    connection.data_received(CHUNKED + chunk(BODY) + LAST_CHUNK)
    assert line.is_aborted, "what is left of it may be anything"


async def test_over_a_socket_and_the_connection_serves_again() -> None:
    async with UpstreamServer() as server, using(server.endpoint()) as upstream:
        first, second = Recorder(), Recorder()
        await upstream.open(REQUEST, first)
        peer = await server.accept()
        await peer.answer(CHUNKED + chunk(BODY) * 4 + LAST_CHUNK)
        await first.over()
        await upstream.open(REQUEST, second)
        await peer.answer(CHUNKED + chunk(BODY) + LAST_CHUNK)
        await second.over()
        assert (first.body, second.body) == (BODY * 4, BODY)
        assert len(server.peers) == 1
