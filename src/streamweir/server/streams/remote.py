"""Streams that other nodes read from their upstreams: found in Valkey, and followed there (`store.streams.follower`).

The owner of a stream learns who reads it elsewhere, because it reads its upstream on as long as somebody does. Every
reader is announced to it, and announced again every few seconds: a message that is lost matters no more than a node
that dies without a word.
"""

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import TypeVar

import msgspec

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.core.errors import GatewayFault
from streamweir.server.streams.frames import StreamHead
from streamweir.server.streams.table import MAX_READERS, too_many_readers
from streamweir.store.limits.errors import SharedUnavailable
from streamweir.store.streams.follower import Following, FrameFollower, StreamEnded
from streamweir.store.streams.shared_frames import (
    FoundStream,
    SharedFrames,
    SharedIncomplete,
    SharedState,
    idempotency_key,
)

FIND_S = (0.0, 0.05, 0.15, 0.4)
"""A stream that has just begun may not be in Valkey yet: it is looked for again after so long."""
ANNOUNCE_S = 4.0
"""Between two announcements of a reader."""
READER_TIMEOUT_S = 15.0
"""A reader that was not announced for so long has gone."""
STOP_S = (0.03, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0)
"""After so long it is asked whether the owner of a stream has ended it; by the end the lease of a dead one is over."""
_MAX_ANNOUNCED = 200
"""Readers in one message."""
_NOT_KEPT = frozenset({SharedState.GIVEN_UP, SharedState.CUT, SharedState.LEFT, SharedState.DELETED})

_T = TypeVar("_T")
READ, LEFT, STOP = "read", "left", "stop"
"""The kinds of messages to the owner of a stream."""


class StreamGone(Exception):
    """The stream ended without an end, or nobody can come back to it."""


class StreamInterrupted(Exception):
    """It goes on, but cannot be read here at the moment: its reader is to come back."""


class RemoteStream:
    """See `SharedStream`."""

    def __init__(self, streams: "RemoteStreams", found: FoundStream) -> None:
        self._streams = streams
        self._found = found
        self.head = msgspec.json.decode(found.meta, type=StreamHead)
        self.events = found.events

    @property
    def is_kept(self) -> bool:
        return self._found.state not in _NOT_KEPT

    @property
    def is_live(self) -> bool:
        return self._found.state is SharedState.LIVE

    @property
    def is_lost(self) -> bool:
        """Its node is dead: what it had sent and not shared is gone, so a caller may have more than is known here."""
        return self._found.state is SharedState.LOST or (self.is_live and not self._found.is_owner_alive)

    async def follow(self, after: int, /) -> AsyncGenerator[list[bytes]]:
        """The events behind the Nth, then those that come. Ends with the stream. Raises `GatewayFault` if its node
        is dead, `StreamGone` or `StreamInterrupted`."""
        following = self._streams.join(self._found, after)
        try:
            await self._streams.announce(following)
            async with aclosing(following.batches()) as batches:
                async for events in batches:
                    yield events
        except StreamEnded as end:
            if end.state is SharedState.LOST:
                raise GatewayFault("stream_lost", "The node that was answering this request has failed.") from None
            if end.state is not SharedState.COMPLETE:
                raise StreamGone(end.state) from None
        except SharedUnavailable as reason:
            raise StreamInterrupted(str(reason)) from None
        finally:
            await self._streams.leave(following)

    async def first_event(self) -> bytes:
        """Empty: there is none."""
        with suppress(GatewayFault, StreamGone, StreamInterrupted):
            async with aclosing(self.follow(0)) as batches:
                async for events in batches:
                    return events[0]
        return b""

    async def delete(self) -> bool:
        """Ends it here and at its owner. False: there was nothing of it any more. Raises `GatewayFault` if it is not
        known whether its owner has ended it."""
        return await self._streams.delete(self._found)


class RemoteStreams:
    def __init__(self, shared: SharedFrames, follower: FrameFollower, background: BackgroundTasks) -> None:
        self._shared = shared
        self._follower = follower
        self._background = background
        self._readers: dict[Following, tuple[str, str]] = {}
        """With the owner of a live stream, else nothing, and the word by which the owner knows the reader."""
        self._task: BackgroundTask | None = None

    async def start(self, timeout_s: float) -> None:
        """Streams are followed from now on, and messages read. Returns when Valkey is connected, or this time is
        over."""
        self._follower.start()
        self._task = self._background.start("stream readers", self._announce)
        await self._follower.connected(timeout_s)

    async def close(self) -> None:
        self.interrupt()
        if self._task is not None:
            self._task.cancel()
            await self._task.over()
        await self._follower.close()

    def interrupt(self) -> None:
        """All readers here are to come back, at another node."""
        for following in list(self._readers):
            following.fail(SharedUnavailable("the process ends"))

    def check_readers(self, stream_id: str) -> None:
        """Raises `CallerError` if it has as many as it may have at this node."""
        if sum(following.stream_id == stream_id for following in self._readers) >= MAX_READERS:
            raise too_many_readers()

    async def find(self, stream_id: str) -> RemoteStream | None:
        """Raises `GatewayFault` if Valkey is unavailable."""
        return await self._find(partial(self._shared.find, stream_id))

    async def find_replayed(self, key_id: str, idempotency: bytes, *, is_used: bool) -> RemoteStream | None:
        """As `find`, but if it is not known that there was such a request, it looks once."""
        look = partial(self._shared.find_idempotent, idempotency_key(key_id, idempotency))
        return await self._find(look) if is_used else self._found(await _available(look()))

    async def _find(self, look: Callable[[], Awaitable[FoundStream | None]]) -> RemoteStream | None:
        is_complete = True
        for wait_s in FIND_S:
            await asyncio.sleep(wait_s)
            try:
                found = self._found(await look())
            except SharedIncomplete:
                found, is_complete = None, False
            except SharedUnavailable:
                raise unavailable() from None
            if found is not None:
                return found
        if not is_complete or time.monotonic() - self._follower.lost_at < self._shared.lifetimes.recovery_s:
            raise unavailable()
        return None

    def _found(self, found: FoundStream | None) -> RemoteStream | None:
        return RemoteStream(self, found) if found is not None else None

    # For streams.

    def join(self, stream: FoundStream, after: int) -> Following:
        following = self._follower.follow(stream.id, after, stream.events)
        owner = stream.owner if stream.state is SharedState.LIVE else ""
        self._readers[following] = owner, f"{stream.id}/{secrets.token_hex(6)}"
        return following

    async def announce(self, following: Following) -> None:
        owner, reader = self._readers[following]
        if owner:
            await self._tell(owner, READ, [reader])

    async def leave(self, following: Following) -> None:
        owner, reader = self._readers.pop(following, ("", ""))
        if owner:
            await self._tell(owner, LEFT, [reader])

    async def delete(self, stream: FoundStream) -> bool:
        deletion = await _available(self._shared.delete(stream.id))
        if deletion is None or (deletion.before is SharedState.DELETED and deletion.was_stopped is not None):
            return False
        was_kept = deletion.before not in _NOT_KEPT
        if deletion.is_owner_alive:
            await _available(self._shared.tell(stream.owner, kind=STOP, stream=stream.id))
        for wait_s in STOP_S:
            if deletion is None or deletion.was_stopped is not None or not deletion.is_owner_alive:
                return was_kept or (deletion is not None and deletion.was_stopped is True)
            await asyncio.sleep(wait_s)
            deletion = await _available(self._shared.delete(stream.id))
        raise unavailable("The node that reads this stream did not confirm that it has ended it. Try again soon.")

    async def _announce(self) -> None:
        while True:
            await asyncio.sleep(ANNOUNCE_S)
            readers: dict[str, list[str]] = defaultdict(list)
            for owner, reader in self._readers.values():
                if owner:
                    readers[owner].append(reader)
            for owner, of_owner in readers.items():
                for first in range(0, len(of_owner), _MAX_ANNOUNCED):
                    await self._tell(owner, READ, of_owner[first : first + _MAX_ANNOUNCED])

    async def _tell(self, owner: str, kind: str, readers: list[str]) -> None:
        """Without Valkey nothing is announced, and later again."""
        with suppress(SharedUnavailable):
            await self._shared.tell(owner, kind=kind, readers=" ".join(readers))


def unavailable(message: str = "Streams of other nodes cannot be read at the moment. Try again soon.") -> GatewayFault:
    return GatewayFault("streams_unavailable", message, retry_after_s=1)


async def _available(call: Awaitable[_T]) -> _T:
    try:
        return await call
    except SharedUnavailable:
        raise unavailable() from None
