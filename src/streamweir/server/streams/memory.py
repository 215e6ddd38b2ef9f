"""The frames of resumable streams in the memory of one process: see `server.streams.frames`."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, MutableMapping

from streamweir.server.streams.frames import (
    FRAME_BYTES,
    FrameReaders,
    Frames,
    GivenUp,
    StreamEnd,
    StreamHead,
    StreamSettings,
)

_FREED_PART = 16
"""If running streams must be given up, this part of all memory is freed at once, so that it is rarely done."""


class MemoryFrames:
    """See `Frames`."""

    __slots__ = ("_events", "_first", "_store", "end", "given_up", "head", "held_bytes", "is_kept", "readers")

    def __init__(self, store: "MemoryFrameStore", head: StreamHead, readers: FrameReaders) -> None:
        self._store = store
        self._events: list[bytes] = []
        self._first = 0  # how many were dropped
        self.head = head
        self.readers = readers
        self.end: StreamEnd | None = None
        self.is_kept = True
        self.given_up: GivenUp | None = None
        self.held_bytes = 0

    @property
    def events(self) -> int:
        return self._first + len(self._events)

    def append(self, event: bytes, size: int, /) -> None:
        self._events.append(event)
        store = self._store
        size += FRAME_BYTES
        self.held_bytes += size
        store.held_bytes += size
        if self.held_bytes > store.max_bytes or store.held_bytes > store.total_bytes:
            store.make_room(self)

    def read(self, after: int, max_bytes: int, /) -> list[bytes]:
        found: list[bytes] = []
        for at in range(after - self._first, len(self._events)):
            event = self._events[at]
            found.append(event)
            max_bytes -= len(event)
            if max_bytes <= 0:
                break
        return found

    def trim(self, before: int, /) -> None:
        dropped = self._events[: before - self._first]
        if dropped:
            del self._events[: len(dropped)]
            self._first += len(dropped)
            freed = sum(map(len, dropped)) + FRAME_BYTES * len(dropped)
            self.held_bytes -= freed
            self._store.held_bytes -= freed
            self._store.trimmed(self)

    def finish(self, end: StreamEnd, /) -> None:
        if self.end is None:
            self.end = end
            self._store.finished(self)

    def delete(self) -> None:
        """Other nodes do not have it."""

    def drop(self) -> None:
        """Keeps only what connected readers have not read."""
        self.is_kept = False
        self._store.dropped(self)
        self.trim(self.readers.unread())


class MemoryFrameStore:
    """See `FrameStore`."""

    def __init__(self, settings: StreamSettings, given_up: Callable[[GivenUp], None] = lambda _reason: None) -> None:
        """`given_up` is called for every running stream that nobody can come back to any more."""
        self.held_bytes = 0
        self.on_discarded: Callable[[str], None] | None = None
        self._given_up = given_up
        self._of_key: dict[str, dict[str, MemoryFrames]] = {}  # those that are kept
        self._finished: OrderedDict[str, MemoryFrames] = OrderedDict()  # those of them that have ended
        self._unkept: dict[str, dict[str, MemoryFrames]] = {}  # by key: those that run, or were not read to the end
        self.use(settings)

    def use(self, settings: StreamSettings, /) -> None:
        self.max_bytes, self.total_bytes = settings.max_bytes, settings.total_bytes
        self._max_per_key = settings.max_per_key

    def open(self, head: StreamHead, readers: FrameReaders, /) -> MemoryFrames | None:
        of_key = self._of_key.setdefault(head.key_id, {})
        if len(of_key) >= self._max_per_key:
            oldest = next((each for each in of_key.values() if each.end is not None), None)
            if oldest is None:
                self._given_up(GivenUp.PER_KEY)
                return None
            self._evict(oldest)
            of_key = self._of_key.setdefault(head.key_id, {})
        frames = of_key[head.id] = self.make(head, readers)
        return frames

    def make(self, head: StreamHead, readers: FrameReaders) -> MemoryFrames:
        return MemoryFrames(self, head, readers)

    async def is_shared(self, _frames: Frames, /) -> bool:
        return False

    def discard(self, frames: Frames, /) -> None:
        assert isinstance(frames, MemoryFrames)  # noqa: S101 (for the type checker: what `open` returned)
        self._forget(frames)
        frames.drop()

    def unlink(self, frames: Frames, /) -> None:
        """Nobody else knows it."""

    def finished(self, frames: MemoryFrames) -> None:
        """Called by the frames."""
        if frames.is_kept:
            self._finished[frames.head.id] = frames
        self.trimmed(frames)

    def dropped(self, frames: MemoryFrames) -> None:
        """Called by the frames: they are not kept any more."""
        self._unkept.setdefault(frames.head.key_id, {})[frames.head.id] = frames
        self.trimmed(frames)

    def trimmed(self, frames: MemoryFrames) -> None:
        """Called by the frames."""
        if not (frames.is_kept or frames.held_bytes or frames.end is None):
            _remove(self._unkept, frames.head)

    def make_room(self, frames: MemoryFrames) -> None:
        """Called by the frames that have grown over a bound."""
        if frames.is_kept and frames.held_bytes > self.max_bytes:
            self._give_up(frames, GivenUp.STREAM_BYTES)
        while self.held_bytes > self.total_bytes and self._finished:
            self._evict(next(iter(self._finished.values())))
        if self.held_bytes > self.total_bytes:
            self._give_up_running(self.total_bytes - self.total_bytes // _FREED_PART)

    def give_up_all(self) -> int:
        held_before = self.held_bytes
        for frames in list(self._finished.values()):
            self._evict(frames)
        for frames in [frames for kept in self._of_key.values() for frames in kept.values()]:
            self._give_up(frames, GivenUp.TOTAL_BYTES)
        if held_before == self.held_bytes:
            for frames in [frames for unkept in self._unkept.values() for frames in unkept.values()]:
                if frames.end is not None:  # one that runs is ended by its request
                    _cut(frames)
        return held_before - self.held_bytes

    def _give_up_running(self, down_to: int) -> None:
        """The largest streams of the keys that hold most, until so few bytes are held; then what their readers have
        not read."""
        held: Counter[str] = Counter()
        for of_key in (self._of_key, self._unkept):
            for key_id, each in of_key.items():
                held[key_id] += sum(frames.held_bytes for frames in each.values())
        while self.held_bytes > down_to and held:
            key_id = max(held, key=held.__getitem__)
            kept, unkept = _largest(self._of_key.get(key_id)), _largest(self._unkept.get(key_id))
            before = self.held_bytes
            if kept is not None:
                self._give_up(kept, GivenUp.TOTAL_BYTES)
            elif unkept is not None:
                _cut(unkept)
            else:
                return
            held[key_id] -= before - self.held_bytes

    def _give_up(self, frames: MemoryFrames, reason: GivenUp) -> None:
        self._forget(frames)
        frames.given_up = reason
        frames.drop()
        frames.readers.given_up()
        self._given_up(reason)

    def _evict(self, frames: MemoryFrames) -> None:
        """A finished one."""
        self._forget(frames)
        frames.drop()
        if self.on_discarded is not None:
            self.on_discarded(frames.head.id)

    def _forget(self, frames: MemoryFrames) -> None:
        self._finished.pop(frames.head.id, None)
        _remove(self._of_key, frames.head)


def _remove(of_keys: MutableMapping[str, dict[str, MemoryFrames]], head: StreamHead) -> None:
    of_key = of_keys.get(head.key_id)
    if of_key is not None:
        of_key.pop(head.id, None)
        if not of_key:
            del of_keys[head.key_id]


def _largest(of_key: Mapping[str, MemoryFrames] | None) -> MemoryFrames | None:
    """None: there is none that holds anything."""
    largest = max(of_key.values(), key=lambda frames: frames.held_bytes, default=None) if of_key else None
    return largest if largest is not None and largest.held_bytes else None


def _cut(frames: MemoryFrames) -> None:
    """What its readers have not read is dropped, and they do not get it."""
    frames.readers.cut_behind()
    frames.trim(frames.events)
