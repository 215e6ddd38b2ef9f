"""Reads the frames of streams that other nodes own, and the messages to this process, as they come.

One connection of its own waits for all of them in one command (`XREAD BLOCK`), so that neither a stream nor a reader
costs a connection. A reader that begins or goes on while the command waits is heard of by a message that this process
sends to itself. Each reader has its own place in its stream; one that does not read is left out until it does, so no
more than a few entries wait for it. Streams that are followed are checked every second: a live one whose owner is
dead is ended by this.

If Valkey is lost, every reader gets `SharedUnavailable`, and begins again where it was when it likes. Nothing else
happens: messages may be lost too, so what they say is repeated by their sender.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.store.limits.errors import SharedUnavailable
from streamweir.store.limits.valkey import pool_of
from streamweir.store.streams.shared_frames import SharedFrames, SharedState

BLOCK_S = 1.0
CHECK_S = 1.0
CONNECT_S = 2.0
ANSWER_S = 5.0
"""How much later than `BLOCK_S` an answer may come."""
MAX_FAILED_CHECKS = 3
"""In a row: then readers are not kept waiting. A server that is out of memory answers, but can end nothing."""
LINGER_S = 0.01
"""Between two commands."""
MAX_ENTRIES, MAX_ENTRIES_OF_STREAM = 1024, 64
"""In one answer."""
MAX_QUEUED_BYTES = 256 * 1024
_RETRY_S = 0.5

Message = dict[str, str]
_Entry = tuple[int, list[bytes], SharedState | None]
"""The number of its last event, its events, and how the stream has ended."""


class StreamEnded(Exception):
    """The stream ended in this way, or its frames are gone (`GIVEN_UP`)."""

    def __init__(self, state: SharedState) -> None:
        super().__init__(state)
        self.state = state


class Following:
    """One reader of one stream."""

    def __init__(self, follower: "FrameFollower", stream_id: str, after: int, known: int) -> None:
        self._follower = follower
        self.stream_id = stream_id
        self.after = min(after, known)
        """The last event that was read from Valkey."""
        self._wanted_after = after
        self._events: list[bytes] = []
        self._queued_bytes = 0
        self._end: Exception | None = None
        self._has_news = asyncio.Event()

    @property
    def wants_more(self) -> bool:
        return self._end is None and self._queued_bytes < MAX_QUEUED_BYTES

    async def batches(self) -> AsyncGenerator[list[bytes]]:
        """The events behind the one where it began, as they come. Raises `StreamEnded` at the end of the stream, and
        `SharedUnavailable` if Valkey was lost."""
        try:
            await self._follower.add(self)
            was_full = False
            while True:
                was_full |= not self.wants_more
                if self._events:
                    events, self._events, self._queued_bytes = self._events, [], 0
                    yield events
                    continue
                if self._end is not None:
                    raise self._end
                if was_full:
                    was_full = False
                    await self._follower.wake()
                    continue
                self._has_news.clear()
                await self._has_news.wait()
        finally:
            self._follower.remove(self)

    def take(self, entry: _Entry) -> None:
        """Called by the follower. What it has already is left out."""
        if self._end is not None:
            return
        last, events, state = entry
        first = last - len(events) + 1
        if first > self.after + 1 or (state is not None and last > self.after):
            self.fail(StreamEnded(SharedState.GIVEN_UP))  # what is missing is gone
            return
        for event in events[max(self.after, self._wanted_after) + 1 - first :]:
            self._events.append(event)
            self._queued_bytes += len(event)
        self.after = max(self.after, last)
        if state is not None:
            self.fail(StreamEnded(state))
        self._has_news.set()

    def fail(self, reason: Exception) -> None:
        if self._end is None:
            self._end = reason
            self._has_news.set()


class FrameFollower:
    def __init__(
        self,
        shared: SharedFrames,
        url: str,
        *,
        background: BackgroundTasks,
        on_message: Callable[[Message], None],
        on_connected: Callable[[], None] = lambda: None,
    ) -> None:
        """Does not connect yet. `url`: as the library knows it. `on_message` is called with each message to this
        process, `on_connected` whenever it has connected, with `writes_to_disk`."""
        self._shared = shared
        self._connection: AbstractConnection = pool_of(url, CONNECT_S).make_connection()  # type: ignore[no-untyped-call]
        self._background = background
        self._on_message = on_message
        self._on_connected = on_connected
        self._followings: dict[str, list[Following]] = {}
        self._inbox_at = b"0-0"
        self._is_waiting = False
        self._tasks: list[BackgroundTask] = []
        self.writes_to_disk: bool | None = None
        """Valkey keeps its data there. None: not known yet."""
        self._connected = asyncio.Event()
        self.lost_at = float("-inf")
        """When the connection was last found broken, by the monotonic clock."""

    def start(self) -> None:
        """At the first stream that is followed, or that others may follow."""
        if not self._tasks:
            start = self._background.start
            self._tasks = [start("stream follower", self._run), start("stream check", self._check)]

    async def connected(self, timeout_s: float) -> None:
        """Until it has connected for the first time, or this time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._connected.wait()

    def follow(self, stream_id: str, after: int, known: int) -> Following:
        """`known`: how many events there were when it was found. A caller may have more, which were not shared yet."""
        return Following(self, stream_id, after, known)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.over()
        self._tasks = []
        self._lose()
        await self._drop(is_last=True)

    # For readers.

    async def add(self, following: Following) -> None:
        self.start()
        self._followings.setdefault(following.stream_id, []).append(following)
        await self.wake()

    def remove(self, following: Following) -> None:
        of_stream = self._followings.get(following.stream_id, [])
        if following in of_stream:
            of_stream.remove(following)
            if not of_stream:
                del self._followings[following.stream_id]

    async def wake(self) -> None:
        """The command that waits does not have all readers: it is answered at once. Without that it lasts a second."""
        if self._is_waiting:
            with suppress(SharedUnavailable):
                await self._shared.tell(self._shared.instance, kind="wake")

    # The tasks.

    async def _run(self) -> None:
        while True:
            try:
                if not self._connection.is_connected:
                    async with asyncio.timeout(CONNECT_S):
                        await self._connection.connect()  # type: ignore[no-untyped-call]
                        self.writes_to_disk = await self._ask_persistence()
                    self._connected.set()
                    self._on_connected()
                has_more = await self._read()
                await asyncio.sleep(0.0 if has_more else LINGER_S)
            except (RedisError, OSError):  # TimeoutError is one of the latter
                self._lose()
                await self._drop()
                await asyncio.sleep(_RETRY_S)

    async def _read(self) -> bool:
        """Whether there is probably more to read at once."""
        inbox = f"{self._shared.prefix}:m:{self._shared.instance}"
        places: dict[str, bytes] = {inbox: self._inbox_at}
        readers: dict[str, list[Following]] = {}  # others may begin somewhere else
        for stream_id, of_stream in self._followings.items():
            wanting = [following for following in of_stream if following.wants_more]
            if wanting:
                key = f"{self._shared.prefix}:f:{stream_id}"
                places[key] = b"%d-0" % min(following.after for following in wanting)
                readers[key] = wanting
        count = max(4, min(MAX_ENTRIES_OF_STREAM, MAX_ENTRIES // len(places)))
        words = ["XREAD", "COUNT", count, "BLOCK", round(BLOCK_S * 1000), "STREAMS", *places, *places.values()]
        self._is_waiting = True
        try:
            async with asyncio.timeout(BLOCK_S + ANSWER_S):
                await self._connection.send_command(*words)
                found = await self._connection.read_response()
        finally:
            self._is_waiting = False
        for key, entries in found or ():
            name = key.decode()
            if name == inbox:
                self._take_messages(entries)
            else:
                _give(readers[name], entries)
        return any(len(entries) == count for _, entries in found or ())

    async def _ask_persistence(self) -> bool:
        """A server that does not show its configuration is asked for its state, which does not tell everything."""
        try:
            save, append = [await self._ask("CONFIG", "GET", name) for name in ("save", "appendonly")]
        except ResponseError:
            try:
                return b"aof_enabled:1" in await self._ask("INFO", "persistence")
            except ResponseError:
                return False
        return bool(save and save[1]) or append[1:] == [b"yes"]

    async def _ask(self, *words: str) -> Any:
        await self._connection.send_command(*words)
        return await self._connection.read_response()

    def _take_messages(self, entries: Iterable[Any]) -> None:
        for place, members in entries:
            self._inbox_at = place
            words = [word.decode() for word in members]
            message = dict(zip(words[::2], words[1::2], strict=True))
            if message.get("kind") != "wake":
                self._on_message(message)

    def _lose(self) -> None:
        self.lost_at = time.monotonic()
        self._inbox_at = b"0-0"  # a restarted Valkey numbers from its own time; what comes twice does no harm
        self._fail_all(SharedUnavailable("the connection to Valkey was lost"))

    def _fail_all(self, reason: SharedUnavailable) -> None:
        for of_stream in self._followings.values():
            for following in of_stream:
                following.fail(reason)

    async def _drop(self, *, is_last: bool = False) -> None:
        with suppress(RedisError, OSError):  # it is closed in any case
            await self._connection.disconnect(nowait=not is_last)

    async def _check(self) -> None:
        """Whether the streams are still there, and their owners."""
        failed = 0
        while True:
            await asyncio.sleep(CHECK_S)
            followed = list(self._followings)
            try:
                for first in range(0, len(followed), 100):
                    self._take_states(await self._shared.check(followed[first : first + 100]))
            except SharedUnavailable as reason:
                failed += 1
                if failed >= MAX_FAILED_CHECKS:
                    self._fail_all(reason)
            else:
                failed = 0

    def _take_states(self, states: dict[str, SharedState | None]) -> None:
        for stream_id, state in states.items():
            if state is None:
                for following in self._followings.get(stream_id, ()):
                    following.fail(SharedUnavailable("the frames are not in Valkey any more"))


def _give(readers: list[Following], entries: Iterable[Any]) -> None:
    read = [_entry(place, members) for place, members in entries]
    for following in readers:
        for entry in read:
            following.take(entry)


def _entry(place: bytes, members: list[bytes]) -> _Entry:
    last, _, kind = place.partition(b"-")
    if kind != b"0":
        return int(last), [], SharedState(members[1].decode())
    ends = [0]
    for length in members[1].split(b","):
        ends.append(ends[-1] + int(length))
    return int(last), [members[3][first:end] for first, end in pairwise(ends)], None
