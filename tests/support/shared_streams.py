"""The shared frames of streams as a node uses them, on a Valkey of the test's own.

async with node(valkey, "a") as here, node(valkey, "b") as there:
    stream = here.open("s1")
    stream.add(b"one", b"two")
    assert await there.read("s1") == ([b"one", b"two"], "complete")
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from streamweir.background import BackgroundTasks
from streamweir.policy.routing.breaker import Breaker
from streamweir.store.limits.valkey import Valkey
from streamweir.store.streams.follower import FrameFollower, Message, StreamEnded
from streamweir.store.streams.published_stream import PublishedStream
from streamweir.store.streams.publisher import FramePublisher
from streamweir.store.streams.shared_frames import Lifetimes, SharedFrames, SharedState, script
from support.deadlines import PROGRAM_TIMEOUT_S
from support.valkey import ValkeyServer

LIVES = Lifetimes(lease_s=4 * PROGRAM_TIMEOUT_S, recovery_s=0.0)
"""A busy machine is not dead."""
_prefixes = itertools.count()


def new_prefix() -> str:
    """For a test by itself, on a server that is shared."""
    return f"streams{next(_prefixes)}"


class Events:
    """The frames of one stream in the memory of its owner."""

    def __init__(self) -> None:
        self.all: list[bytes] = []
        self.is_kept = True

    @property
    def events(self) -> int:
        return len(self.all)

    def read(self, after: int, max_bytes: int, /) -> list[bytes]:
        found: list[bytes] = []
        for event in self.all[after:] if self.is_kept else ():
            found.append(event)
            max_bytes -= len(event)
            if max_bytes <= 0:
                break
        return found


class OwnStream:
    def __init__(self, published: PublishedStream, source: Events) -> None:
        self.published = published
        self.source = source

    def add(self, *events: bytes) -> None:
        for event in events:
            self.source.all.append(event)
            self.published.appended()

    async def end(self, state: SharedState = SharedState.COMPLETE) -> None:
        self.published.ended(state)
        assert await self.flushed()

    async def flushed(self) -> bool:
        return await self.published.flushed(PROGRAM_TIMEOUT_S)


class StreamNode:
    def __init__(self, shared: SharedFrames, publisher: FramePublisher, url: str) -> None:
        self.shared = shared
        self.publisher = publisher
        self.messages: list[Message] = []
        self.follower = FrameFollower(shared, url, background=BackgroundTasks(), on_message=self.messages.append)

    def open(self, stream_id: str, *, meta: str = "{}", idempotency: str = "") -> OwnStream:
        source = Events()
        return OwnStream(self.publisher.open(stream_id, meta, idempotency, source), source)

    async def read(self, stream_id: str, after: int = 0) -> tuple[list[bytes], SharedState]:
        """All of a stream that ends."""
        found = await self.shared.find(stream_id)
        assert found is not None
        events: list[bytes] = []
        try:
            async for batch in self.follower.follow(stream_id, after, found.events).batches():
                events += batch
        except StreamEnded as end:
            return events, end.state
        raise AssertionError("it ends in one way or another")


@asynccontextmanager
async def node(
    server: ValkeyServer,
    instance: str,
    *,
    prefix: str = "streamweir",
    lifetimes: Lifetimes = LIVES,
    total_bytes: int = 2**30,
    linger_s: float = 0.0,
    deleted: list[str] | None = None,
) -> AsyncIterator[StreamNode]:
    valkey = Valkey(server.socket_url, script(), timeout_s=PROGRAM_TIMEOUT_S, breaker=Breaker(open_s=0.0))
    shared = SharedFrames(valkey, instance=instance, prefix=prefix, lifetimes=lifetimes)
    background = BackgroundTasks()
    publisher = FramePublisher(
        shared,
        total_bytes=total_bytes,
        background=background,
        linger_s=linger_s,
        on_deleted=deleted.append if deleted is not None else lambda _stream_id: None,
    )
    made = StreamNode(shared, publisher, server.socket_url)
    try:
        yield made
    finally:
        await made.follower.close()
        await publisher.close(0.0)
        await shared.close()
        assert not any(background.ends.values()), background.ends
