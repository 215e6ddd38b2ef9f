"""Answers with a stream of another node: what came behind the Nth event, then what comes.

The bytes are those that its own node would send. A comment is written while nothing comes. If that node is dead, the
answer ends with an error of the stream's API; if the stream cannot be read here any longer, it ends between two
events, and the caller is to come back.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.frontends.base import Frontend
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.access import Key
from streamweir.server.http.answers import failure_answer
from streamweir.server.http.message import Answer, Request, Response
from streamweir.server.streams.error_frame import error_frames
from streamweir.server.streams.reader import headers_for
from streamweir.server.streams.remote import (
    RemoteStream,
    RemoteStreams,
    StreamGone,
    StreamInterrupted,
    unavailable,
)
from streamweir.server.streams.table import (
    StreamTable,
    asks_for_ids,
    not_found,
    not_resumable,
)
from streamweir.wire.event_blocks import event_blocks, with_id
from streamweir.wire.sse import write_comment

_KEEP_ALIVE = write_comment(b"keep-alive")
_ARRIVAL_S = (0.05, 0.2, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
"""Events that a caller has may not be in Valkey yet, and will never be if their node is dead: the stream is looked at
again after so long, until the lease of that node has expired."""


class RemoteStreamAnswer:
    """One answer."""

    def __init__(
        self, stream: RemoteStream, response: Response, after: int, *, has_ids: bool, is_replay: bool = False
    ) -> None:
        """`is_replay`: for a request that was sent again."""
        self._stream = stream
        self._headers = headers_for(stream.head, is_replay=is_replay)
        self._response = response
        self._number = after
        self._has_ids = has_ids or stream.head.has_ids
        self._wrote_at = time.monotonic()
        self._has_room = asyncio.Event()

    async def run(self, keepalive_s: float) -> None:
        response = self._response
        if self._stream.head.is_whole:
            response.send(await self._whole())
            return
        response.on_drained = self._has_room.set
        response.start(200, self._headers)
        timer = asyncio.get_running_loop().call_later(keepalive_s, self._keep_alive, keepalive_s)
        self._timer = timer
        try:
            async with aclosing(self._stream.follow(self._number)) as batches:
                async for events in batches:
                    await self._write(events)
        except GatewayFault as error:
            response.end(await self._error(error))
        except StreamInterrupted:
            response.end()
        except StreamGone:
            response.cut()
        else:
            response.end()
        finally:
            self._timer.cancel()

    async def _whole(self) -> Answer:
        """An answer in one piece, which its node has sent already."""
        head, parts = self._stream.head, []
        try:
            async with aclosing(self._stream.follow(0)) as batches:
                async for events in batches:
                    parts += events
        except (GatewayFault, StreamInterrupted, StreamGone):
            return failure_answer(unavailable(), FRONTENDS.by_name[head.frontend], (), head.request_id)
        return Answer(status=head.status, headers=self._headers, body=b"".join(parts))

    async def _write(self, events: list[bytes]) -> None:
        first, response = self._number + 1, self._response
        if self._has_ids:
            events = [with_id(event, number) for number, event in enumerate(events, first)]
        self._number += len(events)
        self._wrote_at = time.monotonic()
        response.write(b"".join(events))
        while response.full:
            self._has_room.clear()
            await self._has_room.wait()

    async def _error(self, error: GatewayFault) -> bytes:
        head = self._stream.head
        first = await self._stream.first_event()
        frames = error_frames(FRONTENDS.by_name[head.frontend], error, head.request_id, first, self._number)
        if not self._has_ids:
            return frames
        return b"".join([with_id(event, at) for at, event in enumerate(event_blocks(frames), self._number + 1)])

    def _keep_alive(self, keepalive_s: float) -> None:
        now = time.monotonic()
        if now - self._wrote_at >= keepalive_s and not self._response.full:
            self._response.write(_KEEP_ALIVE)
            self._wrote_at = now
        wait_s = max(keepalive_s - (now - self._wrote_at), 0.1)
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._keep_alive, keepalive_s)


class RemoteStreamEndpoint:
    """See `server.streams.endpoint.OtherNodesEndpoint`."""

    def __init__(self, table: StreamTable, streams: RemoteStreams, keepalive_s: Callable[[], float]) -> None:
        """`keepalive_s`: how long an answer may be silent."""
        self._table = table
        self._streams = streams
        self._keepalive_s = keepalive_s

    async def serve(
        self, request: Request, response: Response, key: Key, frontend: Frontend, stream_id: str, after: int, /
    ) -> None:
        try:
            stream = await self._find(key, stream_id)
            if request.method == "DELETE":
                if not await stream.delete():
                    raise not_resumable()
                response.send(Answer(status=204))
                return
            if not stream.is_kept:
                raise not_resumable()
            stream = await _find_place(self._streams, stream, after)
            self._streams.check_readers(stream_id)  # nothing is awaited until it is counted
        except StreamweirError as error:
            response.send(failure_answer(error, frontend, (), request.id))
            return
        self._table.count_resume()
        reading = RemoteStreamAnswer(stream, response, after, has_ids=asks_for_ids(request.headers))
        await reading.run(self._keepalive_s())

    async def _find(self, key: Key, stream_id: str) -> RemoteStream:
        """Raises `StreamweirError`."""
        stream = await self._streams.find(stream_id)
        if stream is None:
            self._table.find(stream_id, key.id)  # raises if this process had it
            raise not_found()
        if stream.head.key_id != key.id:
            raise not_found()
        return stream


async def _find_place(streams: RemoteStreams, stream: RemoteStream, after: int) -> RemoteStream:
    """The stream as soon as it has the Nth event, or has lost its node. Raises `CallerError`."""
    for wait_s in _ARRIVAL_S:
        if after <= stream.events or not stream.is_live or stream.is_lost:
            break
        await asyncio.sleep(wait_s)
        stream = await streams.find(stream.head.id) or stream
    if not stream.is_kept:
        raise not_resumable()
    if after > stream.events and not stream.is_lost:
        raise CallerError("invalid_after", f"This stream has sent {stream.events} events, not {after}.")
    return stream
