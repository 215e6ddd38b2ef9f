"""The frames of resumable streams in memory and in Valkey: see `server.streams.frames` and `store.streams`.

What is in memory decides: readers at the node of a stream are served from there, and the publisher copies from there to
Valkey what readers at other nodes get. Valkey keeps a stream that has ended also if memory does not, unless its caller
deletes it. A stream that was given up here before Valkey had all of it is given up there.
"""

from collections.abc import Callable

import msgspec

from streamweir.server.streams.frames import FrameReaders, Frames, GivenUp, StreamEnd, StreamHead, StreamSettings
from streamweir.server.streams.memory import MemoryFrames, MemoryFrameStore
from streamweir.store.streams.published_stream import PublishedStream
from streamweir.store.streams.publisher import FramePublisher
from streamweir.store.streams.shared_frames import SharedState, idempotency_key

FLUSH_S = 1.0


class SharedMemoryFrames(MemoryFrames):
    """See `Frames`."""

    __slots__ = ("published",)

    published: PublishedStream

    def append(self, event: bytes, size: int, /) -> None:
        MemoryFrames.append(self, event, size)
        self.published.appended()

    def finish(self, end: StreamEnd, /) -> None:
        super().finish(end)
        self.published.ended(SharedState(end.value))

    def delete(self) -> None:
        self.published.delete()

    def drop(self) -> None:
        super().drop()
        self.published.forget()


class SharedMemoryFrameStore(MemoryFrameStore):
    """See `FrameStore`."""

    def __init__(
        self,
        settings: StreamSettings,
        given_up: Callable[[GivenUp], None],
        publisher: FramePublisher,
        may_share: Callable[[StreamHead], bool],
    ) -> None:
        """`may_share`: whether Valkey may have the events of this stream."""
        self._publisher = publisher
        self._may_share = may_share
        super().__init__(settings, given_up)

    def use(self, settings: StreamSettings) -> None:
        super().use(settings)
        self._publisher.total_bytes = settings.total_bytes

    def make(self, head: StreamHead, readers: FrameReaders) -> MemoryFrames:
        if not self._may_share(head):
            return super().make(head, readers)
        frames = SharedMemoryFrames(self, head, readers)
        idempotency = idempotency_key(head.key_id, head.idempotency.key) if head.idempotency is not None else ""
        meta = msgspec.json.encode(head).decode()
        frames.published = self._publisher.open(head.id, meta, idempotency, frames)
        return frames

    def unlink(self, frames: Frames, /) -> None:
        if isinstance(frames, SharedMemoryFrames):
            frames.published.unlink()

    async def is_shared(self, frames: Frames, /) -> bool:
        return isinstance(frames, SharedMemoryFrames) and await frames.published.flushed(FLUSH_S)
