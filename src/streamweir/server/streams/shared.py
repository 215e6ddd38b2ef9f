"""What a process needs to share its resumable streams with other nodes, through Valkey.

publisher        its own streams -> Valkey
remote           streams of other nodes <- Valkey, and messages about its own
remote_readers   the readers of its own streams at other nodes
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.server.streams.frames import GivenUp, Process, StreamHead, StreamSettings
from streamweir.server.streams.remote import RemoteStreams
from streamweir.server.streams.remote_endpoint import RemoteStreamEndpoint
from streamweir.server.streams.remote_readers import RemoteReaders
from streamweir.server.streams.remote_replays import RemoteReplays
from streamweir.server.streams.shared_memory import SharedMemoryFrameStore
from streamweir.server.streams.table import StreamTable
from streamweir.server.telemetry.log import logger
from streamweir.store.limits.errors import SharedUnavailable
from streamweir.store.limits.shared import server_url
from streamweir.store.streams.follower import FrameFollower, Message
from streamweir.store.streams.publisher import FramePublisher
from streamweir.store.streams.shared_frames import Lifetimes, open_shared_frames

KNOWN_S = 600.0
"""How long after its frames the head of a stream is kept."""
_CONNECT_S = 1.0
_CLOSE_S = 2.0
_HAND_OVER_S = 0.2
_RENEWALS = 4
_RECOVERY_LEASES = 2
"""A process that lives has renewed its lease by then, and has published again what Valkey has lost."""


class SharedStreams:
    def __init__(self, url: str, process: Process, settings: StreamSettings, background: BackgroundTasks) -> None:
        """`url`: of Valkey, as it is configured. Does not connect yet."""
        lifetimes = Lifetimes(
            lease_s=process.lease_s,
            keep_s=settings.keep_s,
            known_s=settings.keep_s + KNOWN_S,
            recovery_s=_RECOVERY_LEASES * process.lease_s,
        )
        self._frames = open_shared_frames(url, process.instance, process.node, lifetimes, process.timeout_s)
        self._background = background
        self.publisher = FramePublisher(
            self._frames, total_bytes=settings.total_bytes, background=background, on_deleted=self._delete
        )
        self._follower = FrameFollower(
            self._frames,
            server_url(url),
            background=background,
            on_message=self._take_message,
            on_connected=self._connected,
        )
        self._has_warned = False
        self.remote = RemoteStreams(self._frames, self._follower, background)
        self._readers: RemoteReaders | None = None
        self._table: StreamTable | None = None
        self._tasks: list[BackgroundTask] = []
        self._is_draining = False

    def make_store(self, settings: StreamSettings, given_up: Callable[[GivenUp], None]) -> SharedMemoryFrameStore:
        return SharedMemoryFrameStore(settings, given_up, self.publisher, self._may_share)

    async def start(self, table: StreamTable) -> None:
        self._table, self._readers = table, RemoteReaders(table.own, self._confirm)
        await self.remote.start(_CONNECT_S)
        self._tasks.append(self._background.start("stream node", self._serve))

    def reads(self, table: StreamTable, keepalive_s: Callable[[], float]) -> RemoteStreamEndpoint:
        return RemoteStreamEndpoint(table, self.remote, keepalive_s)

    def replays(self, table: StreamTable, keepalive_s: Callable[[], float]) -> RemoteReplays:
        return RemoteReplays(table, self.remote, keepalive_s)

    def hand_over(self) -> None:
        """This process takes no more requests: callers whose streams another node can serve are to go there."""
        if not self._is_draining:
            self._is_draining = True
            self._tasks.append(self._background.start("stream hand-over", self._hand_over))

    async def close(self) -> None:
        """After all streams of this process have ended."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.over()
        if self._readers is not None:
            self._readers.close()
        await self.publisher.close(_CLOSE_S)
        await self.remote.close()
        await self._frames.close()

    def _may_share(self, head: StreamHead) -> bool:
        """Answers go to a disk only if their key stores content."""
        return head.keeps_content or self._follower.writes_to_disk is False

    def _connected(self) -> None:
        self.publisher.check()
        if self._follower.writes_to_disk and not self._has_warned:
            self._has_warned = True
            logger.warning("Valkey writes to its disk: resumable streams are shared only for keys with log_content")

    def _take_message(self, message: Message) -> None:
        if self._readers is not None:
            self._readers.take(message)

    def _delete(self, stream_id: str) -> None:
        """Its caller has deleted it at another node, and the message about that was lost."""
        stream = self._table.own(stream_id) if self._table is not None else None
        if stream is not None:
            stream.delete()

    def _confirm(self, stream_id: str, was_here: bool) -> None:
        self.publisher.confirm_deletion(stream_id, was_here=was_here)

    async def _serve(self) -> None:
        """Other nodes know that this process takes requests."""
        while not self._is_draining:
            with suppress(SharedUnavailable):
                await self._frames.serve()
            await asyncio.sleep(self._frames.lifetimes.lease_s / _RENEWALS)
        await asyncio.Event().wait()

    async def _hand_over(self) -> None:
        """Also of streams that begin only now, and as soon as another node serves."""
        while True:
            with suppress(SharedUnavailable):
                await self._frames.serve(serves=False)
                if self._table is not None and await self._frames.is_other_serving():
                    self.remote.interrupt()
                    await self._table.hand_over()
            await asyncio.sleep(_HAND_OVER_S)
