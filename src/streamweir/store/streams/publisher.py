"""Copies the frames of this process's streams to Valkey, in the background: no chunk waits for it.

One task takes what was appended to all streams since its last call, and sends it in one call. Then it waits a little,
so that the next call has the chunks of some time, however many streams there are. Frames are not queued here: each
stream reads them from memory, and knows what Valkey has of it (`published_stream`). So a call that failed is only
repeated, and after a restart of Valkey everything that is still in memory is published again.

No stream is affected by this: if it cannot be shared, it goes on where it is. The memory of Valkey has a bound too, for
each process: of streams that have ended the oldest are dropped there first, then the largest live one.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.store.limits.errors import SharedUnavailable
from streamweir.store.streams.published_stream import PublishedStream, Source
from streamweir.store.streams.shared_frames import SharedFrames

LINGER_S = 0.02
"""Between two calls."""
MAX_CALL_BYTES = 256 * 1024
"""Of frames, so that a call does not make the limits wait long, which are kept by the same server."""
MAX_STREAMS_PER_CALL = 256
_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 2.0
_MAX_DROPPED = 1000
"""Streams that were given up or deleted, of which Valkey is told again after it has lost its data."""
_RENEWALS = 4
"""How often a lease is renewed within its time."""


class FramePublisher:
    def __init__(
        self,
        shared: SharedFrames,
        *,
        total_bytes: int,
        background: BackgroundTasks,
        linger_s: float = LINGER_S,
        on_deleted: Callable[[str], None] = lambda _stream_id: None,
    ) -> None:
        """`total_bytes`: how much this process may have in Valkey. `on_deleted` is called with the id of a stream that
        its caller has ended at another node."""
        self._shared = shared
        self.total_bytes = total_bytes
        self._background = background
        self._linger_s = linger_s
        self._on_deleted = on_deleted
        self.held_bytes = 0
        """In Valkey."""
        self._live: dict[str, PublishedStream] = {}
        self._ended: OrderedDict[str, PublishedStream] = OrderedDict()  # Valkey has their ends, and keeps them
        self._expiries: dict[str, asyncio.TimerHandle] = {}
        self._dirty: dict[PublishedStream, None] = {}
        self._dropped: OrderedDict[str, PublishedStream] = OrderedDict()  # Valkey has their states
        self._steps: dict[tuple[str, ...], None] = {}  # others than those of the streams
        self._wake = asyncio.Event()
        self._must_check = asyncio.Event()
        self._tasks: list[BackgroundTask] = []
        self._failures = 0
        self._has_lease = False

    @property
    def _has_work(self) -> bool:
        return bool(self._dirty or self._steps)

    @property
    def is_available(self) -> bool:
        """The last call succeeded."""
        return not self._failures

    def open(self, stream_id: str, meta: str, idempotency: str, source: Source) -> PublishedStream:
        """`idempotency`: the key of an Idempotency-Key, or empty."""
        self._start()
        stream = self._live[stream_id] = PublishedStream(self, stream_id, meta, idempotency, source)
        stream.appended()
        return stream

    def confirm_deletion(self, stream_id: str, *, was_here: bool) -> None:
        """Of a stream that its caller has deleted at another node, and that has ended here."""
        self._start()
        self._add_step("stopped", stream_id, "1" if was_here else "0")

    def check(self) -> None:
        """Valkey can be reached again: whether it still has everything is asked soon."""
        self._must_check.set()

    async def close(self, timeout_s: float) -> None:
        """Publishes what there is, and ends."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            await task.over()
        until = time.monotonic() + timeout_s
        while self._has_work and self.is_available and time.monotonic() < until:
            await self._publish()
        if self._tasks and self.is_available:
            await self._shared.leave()
        self._tasks = []
        for expiry in self._expiries.values():
            expiry.cancel()

    # Called by streams.

    def add_dirty(self, stream: PublishedStream, /) -> None:
        self._dirty[stream] = None
        self._wake.set()

    def unlink(self, stream_id: str, idempotency: str, /) -> None:
        self._add_step("unlink", stream_id, idempotency)

    def note_sent(self, size: int, /) -> None:
        self.held_bytes += size

    def stream_done(self, stream: PublishedStream, /) -> None:
        self._live.pop(stream.id, None)
        if stream.is_refused:
            self._ended.pop(stream.id, None)
        elif stream.is_dropped:
            self._ended.pop(stream.id, None)
            self._dropped[stream.id] = stream
            if len(self._dropped) > _MAX_DROPPED:
                self._dropped.popitem(last=False)
        elif stream.id not in self._ended:
            self._ended[stream.id] = stream
            keep_s = self._shared.lifetimes.keep_s
            self._expiries[stream.id] = asyncio.get_running_loop().call_later(keep_s, self._expire, stream.id)

    def deleted_elsewhere(self, stream: PublishedStream, /) -> None:
        self._on_deleted(stream.id)

    def _expire(self, stream_id: str) -> None:
        del self._expiries[stream_id]
        stream = self._ended.pop(stream_id, None)
        if stream is not None:
            self.held_bytes -= stream.sent_bytes
            stream.sent_bytes = 0

    def _start(self) -> None:
        if not self._tasks:
            start = self._background.start
            self._tasks = [start("stream publisher", self._run), start("stream lease", self._renew)]

    def _add_step(self, *words: str) -> None:
        self._steps[words] = None
        self._wake.set()

    # The tasks.

    async def _run(self) -> None:
        while True:
            if not self._has_work:
                await self._wake.wait()
            self._wake.clear()
            while self._has_work:
                await self._publish()
                failures = self._failures
                await asyncio.sleep(min(_LAST_RETRY_S, _FIRST_RETRY_S * 2.0**failures) if failures else self._linger_s)

    async def _publish(self) -> None:
        words: list[str | bytes] = []
        taken: list[tuple[PublishedStream, int, int]] = []
        size = 0
        while self._dirty and size < MAX_CALL_BYTES and len(taken) < MAX_STREAMS_PER_CALL:
            stream = next(iter(self._dirty))
            del self._dirty[stream]
            of_stream, count, of_bytes = stream.steps(MAX_CALL_BYTES - size)
            if count:
                words += of_stream
                taken.append((stream, count, of_bytes))
                size += of_bytes
            else:
                stream.apply((), 0)
        steps = list(self._steps)  # after those of the streams, which may have linked what they unlink
        for step in steps:
            words += step
        if words and await self._call(words, taken):
            for step in steps:
                self._steps.pop(step, None)
            self._make_room()

    async def _call(self, words: list[str | bytes], taken: list[tuple[PublishedStream, int, int]]) -> bool:
        """False: Valkey is unavailable."""
        try:
            published = await self._shared.publish(words)
        except SharedUnavailable:
            self._failures = min(self._failures + 1, 16)
            for stream, _, _ in taken:
                stream.retry()
            return False
        self._failures = at = 0
        for stream, count, of_bytes in taken:
            stream.apply(published.answers[at : at + count], of_bytes)
            at += count
        self._note_lease(had_lease=published.had_lease)
        return True

    def _confirm_all(self) -> None:
        for stream in (*self._live.values(), *self._ended.values(), *self._dropped.values()):
            stream.confirm()

    def _note_lease(self, *, had_lease: bool) -> None:
        """Without a lease Valkey may have lost its data: whatever is still in memory is offered again."""
        if self._has_lease and not had_lease:
            for stream in (*self._live.values(), *self._ended.values(), *self._dropped.values()):
                stream.publish_again()
        self._has_lease = True

    def _make_room(self) -> None:
        held = self.held_bytes
        while held > self.total_bytes and self._ended:
            _, oldest = self._ended.popitem(last=False)
            held -= oldest.sent_bytes
            oldest.give_up()
        if held > self.total_bytes and self._live:
            max(self._live.values(), key=lambda stream: stream.sent_bytes).give_up()

    async def _renew(self) -> None:
        """The lease of this process while it has streams, and now and then the lifetimes of these."""
        lifetimes = self._shared.lifetimes
        wait_s = lifetimes.lease_s / _RENEWALS
        rounds = max(1, round(lifetimes.live_s / wait_s / _RENEWALS))
        number = 0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._must_check.wait()
                self._confirm_all()
            self._must_check.clear()
            if not (self._live or self._ended or self._dropped):  # one that was given up may run
                self._has_lease = False
                continue
            number += 1
            await self._renew_once(with_streams=number % rounds == 0)

    async def _renew_once(self, *, with_streams: bool) -> None:
        words: list[str | bytes] = []
        for stream in self._live.values() if with_streams else ():
            words += ("renew", stream.id, stream.idempotency)
        try:
            self._note_lease(had_lease=(await self._shared.publish(words)).had_lease)
        except SharedUnavailable:
            self._failures = max(self._failures, 1)
        else:
            self._failures = 0
