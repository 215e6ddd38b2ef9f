"""The resumable streams of this process: found by their id, by their request, or by a caller's `Idempotency-Key`.

A stream is here from the request on that asks for it, under its id from the head of its answer on, and for a while
after its end. Then, or when memory is short, it is dropped. Its id is remembered for a while, so that its caller learns
that it is gone. A stream belongs to its key: for another key there is none with this id.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.policy.access import Key
from streamweir.server.http.message import Request, Response
from streamweir.server.streams.frames import Frames, FrameStore, Idempotency, StreamEnd, StreamHead, StreamSettings
from streamweir.server.streams.reader import Reader
from streamweir.server.streams.stream import ResumableStream

ID_PREFIX = "strm_"
MAX_READERS = 16
"""Of one stream at a time."""
_MAX_REMEMBERED = 10_000
"""Ids of streams that were dropped."""
_BOOLEANS = {"true": True, "false": False}


class StreamCounts(Struct, kw_only=True):
    """For the metrics."""

    read: int = 0
    away: int = 0
    finished: int = 0


def asks_for_resumable(headers: Mapping[str, str], key: Key, *, is_replayable: bool) -> bool:
    """Raises `CallerError`."""
    sent = headers.get("x-streamweir-resumable")
    if sent is None:
        return key.resumable or is_replayable
    if sent.lower() not in _BOOLEANS:
        raise CallerError("invalid_value", "x-streamweir-resumable must be true or false.")
    return _BOOLEANS[sent.lower()]


def asks_for_ids(headers: Mapping[str, str]) -> bool:
    return headers.get("x-streamweir-event-ids", "").lower() == "include"


class StreamTable:
    """See `server.streams.stream.Table`."""

    def __init__(self, store: FrameStore, settings: StreamSettings, resumed: Callable[[], None] = lambda: None) -> None:
        """`resumed` is called for every reader that comes back or comes in addition."""
        self.store = store
        store.on_discarded = self._discarded
        self.use(settings)
        self._resumed = resumed
        self._streams: dict[str, ResumableStream] = {}
        self._of_request: dict[str, ResumableStream] = {}  # of those that run
        self._replayed: dict[tuple[str, bytes], ResumableStream] = {}
        self._not_replayed: OrderedDict[tuple[str, bytes], str] = OrderedDict()  # why their answers are gone
        self._expiries: dict[str, asyncio.TimerHandle] = {}
        self._dropped: OrderedDict[str, tuple[str, bool]] = (
            OrderedDict()
        )  # ids: the key, and if other nodes may have it

    def use(self, settings: StreamSettings) -> None:
        """From now on."""
        self.grace_s, self._keep_s, self.max_bytes = settings.grace_s, settings.keep_s, settings.max_bytes
        self.store.use(settings)

    # For requests.

    def wrap(
        self, request: Request, response: Response, key: Key, frontend: str, idempotency: Idempotency | None = None
    ) -> ResumableStream | None:
        """The response to write to. None: it is an ordinary one. `idempotency`: of a request with an
        `Idempotency-Key`. Raises `CallerError`."""
        if not asks_for_resumable(request.headers, key, is_replayable=idempotency is not None):
            return None
        head = StreamHead(
            id=ID_PREFIX + secrets.token_urlsafe(24),
            request_id=request.id,
            key_id=key.id,
            frontend=frontend,
            has_ids=asks_for_ids(request.headers),
            keeps_content=key.log_content,
            idempotency=idempotency,
        )
        stream = self._of_request[request.id] = ResumableStream(self, head, response, request.arrived_s)
        if idempotency is not None:
            stream.is_replayable = True
            self._replayed.setdefault((key.id, idempotency.key), stream)
        return stream

    def admitted(self, stream: ResumableStream) -> None:
        """No other request has used its `Idempotency-Key`."""
        stream.is_admitted = True
        if (idempotency := stream.head.idempotency) is not None and stream.is_replayable:
            self._replayed[stream.head.key_id, idempotency.key] = stream

    def replay(self, request: Request, response: Response, key: Key, idempotency: Idempotency) -> bool:
        """Answers with the stream of the request that this one repeats. False: this process has none. Raises
        `CallerError`."""
        stream = self._replayed.get((key.id, idempotency.key))
        if stream is None or stream.head.idempotency != idempotency or (stream.started and not stream.is_kept):
            return False
        if asks_for_resumable(request.headers, key, is_replayable=True):
            self.check_readers(stream)
            self._resumed()
            stream.attach(Reader(response, has_ids=_wants_ids(request, stream), is_replay=True), 0)
            return True
        return False

    def is_reused(self, key_id: str, idempotency: Idempotency) -> bool:
        """Whether another request was sent with this `Idempotency-Key`, and its answer is kept or still to come."""
        stream = self._replayed.get((key_id, idempotency.key))
        return stream is not None and stream.is_admitted and stream.head.idempotency != idempotency

    def why_not_replayed(self, key_id: str, idempotency: Idempotency) -> str:
        """Why the answer to a request that is repeated is not kept. Empty: that is not known here."""
        return self._not_replayed.get((key_id, idempotency.key), "")

    def request_ended(self, request_id: str) -> None:
        """A request whose task was cancelled may not have ended its stream."""
        stream = self._of_request.pop(request_id, None)
        if stream is not None:
            stream.cut()

    # For readers.

    def find(self, stream_id: str, key_id: str, *, is_anywhere: bool = False) -> ResumableStream | None:
        """None: this process has none. Raises `CallerError` if it had it and dropped it; with `is_anywhere`, only if
        no other node can have it either."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            return stream if stream.head.key_id == key_id else None
        owner, may_be_elsewhere = self._dropped.get(stream_id, ("", False))
        if owner == key_id and not (is_anywhere and may_be_elsewhere):
            raise not_resumable()
        return None

    def attach(self, stream: ResumableStream, response: Response, after: int, *, has_ids: bool) -> None:
        """Raises `CallerError`."""
        frames = stream.frames
        if frames is None or not stream.is_kept:
            raise not_resumable()
        if after > frames.events:
            raise CallerError("invalid_after", f"This stream has sent {frames.events} events, not {after}.")
        self.check_readers(stream)
        self._resumed()
        stream.attach(Reader(response, has_ids=has_ids or stream.head.has_ids), after)

    @staticmethod
    def check_readers(stream: ResumableStream) -> None:
        if len(stream.readers) >= MAX_READERS:
            raise too_many_readers()

    def own(self, stream_id: str) -> ResumableStream | None:
        """A stream of this process, of any key."""
        return self._streams.get(stream_id)

    def count_resume(self) -> None:
        """A reader has come back to a stream of another node."""
        self._resumed()

    async def hand_over(self) -> None:
        """Closes the readers of all streams that other nodes can serve: they are to come back, there."""
        streams = [stream for stream in self._running() if stream.is_kept and stream.has_readers_here]
        shared = await asyncio.gather(*[self.store.is_shared(stream.frames) for stream in streams if stream.frames])
        for stream, is_shared in zip(streams, shared, strict=True):
            if is_shared:
                stream.close_readers()

    def give_up_all(self) -> int:
        """Memory is short. Returns how many bytes are free again."""
        return self.store.give_up_all()

    def counts(self) -> StreamCounts:
        counts = StreamCounts()
        for stream in self._running():
            if stream.is_away:
                counts.away += 1
            else:
                counts.read += 1
        counts.finished = len(self._expiries)
        return counts

    def close(self) -> None:
        """The process ends."""
        for handle in self._expiries.values():
            handle.cancel()
        for stream in list(self._streams.values()):
            if stream.over:
                self.lost(stream)

    def _running(self) -> Iterator[ResumableStream]:
        return (stream for stream in self._of_request.values() if stream.started and not stream.over)

    # Called by streams.

    def opened(self, stream: ResumableStream, /) -> Frames | None:
        frames = self.store.open(stream.head, stream)
        if frames is not None:
            self._streams[stream.head.id] = stream
        return frames

    def ended(self, stream: ResumableStream, /) -> None:
        loop, id = asyncio.get_running_loop(), stream.head.id
        self._expiries[id] = loop.call_later(self._keep_s, self.lost, stream)

    def lost(self, stream: ResumableStream, /) -> None:
        """Drops it, if it was kept."""
        head = stream.head
        if (handle := self._expiries.pop(head.id, None)) is not None:
            handle.cancel()
        self._forget_replay(stream, _why_gone(stream) if stream.is_replayable else "")
        if self._streams.pop(head.id, None) is None:
            return
        is_whole = stream.end_state is StreamEnd.COMPLETE and (stream.frames is None or stream.frames.given_up is None)
        self._dropped[head.id] = head.key_id, is_whole
        if len(self._dropped) > _MAX_REMEMBERED:
            self._dropped.popitem(last=False)
        if stream.frames is not None:
            self.store.discard(stream.frames)

    def freed(self, stream: ResumableStream, /) -> None:
        self._forget_replay(stream, "")
        if stream.frames is not None:
            self.store.unlink(stream.frames)

    def _forget_replay(self, stream: ResumableStream, reason: str) -> None:
        if (idempotency := stream.head.idempotency) is None:
            return
        name = stream.head.key_id, idempotency.key
        if self._replayed.get(name) is stream:
            del self._replayed[name]
            self._not_replayed.pop(name, None)
            if reason:
                self._not_replayed[name] = reason
                if len(self._not_replayed) > _MAX_REMEMBERED:
                    self._not_replayed.popitem(last=False)

    def _discarded(self, stream_id: str) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._forget_replay(stream, _MEMORY)
            self.lost(stream)


_MEMORY = "There was not enough memory to keep it."
_REASONS = {
    StreamEnd.COMPLETE: "The time that answers are kept is over.",
    StreamEnd.CUT: "It has ended without an end.",
    StreamEnd.LEFT: "Nobody had read it to its end.",
    StreamEnd.DELETED: "Its caller had ended it.",
}


def _why_gone(stream: ResumableStream) -> str:
    frames, end = stream.frames, stream.end_state
    if end is StreamEnd.COMPLETE and (frames is None or frames.given_up is not None):
        return _MEMORY
    return _REASONS[end] if end is not None else ""


def _wants_ids(request: Request, stream: ResumableStream) -> bool:
    return asks_for_ids(request.headers) or stream.head.has_ids


def not_found() -> CallerError:
    return CallerError("stream_not_found", "No stream of this key has this id.")


def too_many_readers() -> CallerError:
    message = f"This stream has {MAX_READERS} readers, and may have no more."
    return CallerError("concurrency_limit_exceeded", message, retry_after_s=1)


def not_resumable() -> CallerError:
    return CallerError("stream_not_resumable", "The events of this stream are not kept any more.")
