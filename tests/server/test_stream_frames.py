"""The frames of resumable streams in memory: what is kept, what goes when memory is short, and the sums."""

from hypothesis import given
from hypothesis import strategies as st

from streamweir.server.streams.frames import FRAME_BYTES, GivenUp, StreamEnd, StreamHead, StreamSettings
from streamweir.server.streams.memory import MemoryFrames, MemoryFrameStore


def head(id: str, key: str = "a") -> StreamHead:
    return StreamHead(id=id, request_id=f"req_{id}", key_id=key, frontend="openai")


def store_of(max_bytes: int = 10_000, total_bytes: int = 10_000, max_per_key: int = 10) -> MemoryFrameStore:
    return MemoryFrameStore(StreamSettings(max_bytes=max_bytes, total_bytes=total_bytes, max_per_key=max_per_key))


class Readers:
    """See `FrameReaders`."""

    def __init__(self, read: int | None = 0) -> None:
        """`read`: the last event that every reader has; None: all are up to date."""
        self.read = read
        self.frames: MemoryFrames | None = None
        self.times_given_up = 0
        self.times_cut = 0

    def unread(self) -> int:
        if self.read is None:
            return self.frames.events if self.frames is not None else 0
        return self.read

    def given_up(self) -> None:
        self.times_given_up += 1

    def cut_behind(self) -> None:
        self.times_cut += 1
        self.read = None


def open_frames(store: MemoryFrameStore, id: str, key: str = "a", unread: int | None = None) -> MemoryFrames:
    readers = Readers(unread)
    readers.frames = store.open(head(id, key), readers)
    assert readers.frames is not None
    return readers.frames


def add(frames: MemoryFrames, count: int, size: int = 10) -> None:
    for _ in range(count):
        frames.append(b"x" * size, size)
        if not frames.is_kept:
            frames.trim(frames.readers.unread())


def test_events_are_read_from_any_place() -> None:
    frames = open_frames(store_of(), "s")
    for number in range(1, 6):
        frames.append(b"%d" % number, 1)
    assert frames.events == 5
    assert frames.read(0, 100) == [b"1", b"2", b"3", b"4", b"5"]
    assert frames.read(3, 100) == [b"4", b"5"]
    assert frames.read(1, 2) == [b"2", b"3"]
    assert frames.read(1, 0) == [b"2"]
    assert frames.read(5, 100) == []


def test_a_stream_that_grows_too_large_is_given_up_and_not_ended() -> None:
    told: list[GivenUp] = []
    limits = StreamSettings(max_bytes=200, total_bytes=10_000, max_per_key=10)
    store = MemoryFrameStore(limits, told.append)
    frames = open_frames(store, "s")
    add(frames, 3)
    assert frames.given_up is None
    add(frames, 1)
    assert frames.given_up is GivenUp.STREAM_BYTES
    assert told == [GivenUp.STREAM_BYTES]
    assert store.held_bytes == frames.held_bytes == 0
    assert frames.events == 4, "ids go on where they were"


def test_what_a_reader_has_not_read_is_not_dropped() -> None:
    store = store_of(max_bytes=200)
    frames = open_frames(store, "s", unread=2)
    add(frames, 4)
    assert frames.given_up is GivenUp.STREAM_BYTES
    assert frames.read(2, 1000) == [b"x" * 10] * 2
    assert store.held_bytes == frames.held_bytes == 2 * (10 + FRAME_BYTES)
    frames.trim(4)
    assert store.held_bytes == 0


def test_finished_streams_go_before_running_ones_and_the_oldest_first() -> None:
    store = store_of(total_bytes=10 * (10 + FRAME_BYTES))
    gone: list[str] = []
    store.on_discarded = gone.append
    running, first, second = (open_frames(store, id) for id in ("running", "first", "second"))
    for frames in (running, first, second):
        add(frames, 3)
    second.finish(StreamEnd.COMPLETE)
    first.finish(StreamEnd.COMPLETE)
    add(running, 2)
    assert gone == ["second"]
    add(running, 4)
    assert gone == ["second", "first"]
    assert running.given_up is None


def test_the_key_that_holds_most_loses_first() -> None:
    store = store_of(total_bytes=20 * (10 + FRAME_BYTES))
    modest = open_frames(store, "modest", "b")
    add(modest, 6)
    hostile = [open_frames(store, f"h{n}", "a") for n in range(3)]
    for frames in hostile:
        add(frames, 4)
    add(hostile[1], 3)
    assert hostile[1].given_up is GivenUp.TOTAL_BYTES
    assert modest.given_up is None


def test_readers_that_are_behind_do_not_take_the_memory_of_other_keys() -> None:
    """Whether their streams run or have ended."""
    event_bytes = 10 + FRAME_BYTES
    store = store_of(max_bytes=30 * event_bytes, total_bytes=20 * event_bytes)
    modest = open_frames(store, "modest", "b")
    add(modest, 4)
    hostile = [open_frames(store, f"h{n}", "a", unread=0) for n in range(3)]
    for frames in hostile:
        add(frames, 5)
    hostile[0].finish(StreamEnd.COMPLETE)
    store.discard(hostile[0])
    assert hostile[0].held_bytes == 5 * event_bytes, "it may be read to its end"
    add(modest, 2)
    assert store.held_bytes <= 20 * event_bytes
    assert modest.given_up is None
    assert [frames.is_kept for frames in hostile] == [False] * 3
    assert sum(not frames.held_bytes for frames in hostile) == 1, "one was cut, and that was enough"


def test_without_anything_else_to_give_up_finished_streams_are_not_read_on() -> None:
    store = store_of()
    finished, running = open_frames(store, "1", unread=0), open_frames(store, "2", unread=0)
    for frames in (finished, running):
        add(frames, 3)
    finished.finish(StreamEnd.COMPLETE)
    assert store.give_up_all() == 3 * (10 + FRAME_BYTES)
    assert (finished.held_bytes, running.held_bytes) == (0, 3 * (10 + FRAME_BYTES))
    assert store._unkept == {"a": {"2": running}}
    running.trim(3)
    running.finish(StreamEnd.COMPLETE)
    assert (store.held_bytes, store._unkept) == (0, {})


def test_a_key_keeps_no_more_than_its_number_of_streams() -> None:
    told: list[GivenUp] = []
    store = MemoryFrameStore(StreamSettings(max_bytes=100, total_bytes=1000, max_per_key=2), told.append)
    first, _ = open_frames(store, "1"), open_frames(store, "2")
    assert store.open(head("3"), Readers()) is None
    assert told == [GivenUp.PER_KEY]
    assert store.open(head("3", "other"), Readers()) is not None
    gone: list[str] = []
    store.on_discarded = gone.append
    first.finish(StreamEnd.COMPLETE)
    assert store.open(head("3"), Readers()) is not None
    assert gone == ["1"], "the finished one makes room"


def test_all_can_be_given_up_at_once() -> None:
    store = store_of()
    running, finished = open_frames(store, "1"), open_frames(store, "2", "b")
    add(running, 3)
    add(finished, 3)
    finished.finish(StreamEnd.COMPLETE)
    assert store.give_up_all() == 6 * (10 + FRAME_BYTES)
    assert store.held_bytes == 0
    assert running.given_up is GivenUp.TOTAL_BYTES
    assert finished.given_up is None, "that happened after its end"
    assert not running.is_kept
    assert not finished.is_kept


STEPS = st.lists(
    st.tuples(st.sampled_from(["open", "append", "finish", "discard", "read"]), st.integers(0, 9), st.integers(1, 90)),
    max_size=120,
)


@given(STEPS)
def test_the_sums_are_right_and_the_bounds_hold_after_any_steps(steps: list[tuple[str, int, int]]) -> None:
    store = store_of(max_bytes=600, total_bytes=2000, max_per_key=3)
    opened: list[tuple[MemoryFrames, Readers]] = []
    for step, which, size in steps:
        if step == "open":
            readers = Readers()
            frames = store.open(head(f"s{len(opened)}", f"k{which % 3}"), readers)
            if frames is not None:
                opened.append((frames, readers))
            continue
        if not opened:
            continue
        frames, readers = opened[which % len(opened)]
        if step == "append" and frames.end is None:
            if frames.is_kept or frames.held_bytes < 300:  # else its upstream is paused
                frames.append(b"x" * size, size)
        elif step == "finish":
            frames.finish(StreamEnd.COMPLETE)
        elif step == "discard" and frames.end is not None:
            store.discard(frames)
        elif step == "read":
            readers.read = frames.events
            if not frames.is_kept:
                frames.trim(frames.events)
        assert store.held_bytes == sum(each.held_bytes for each, _ in opened)
        assert all(readers.times_given_up == (each.given_up is not None) for each, readers in opened)
        kept = [each for each, _ in opened if each.is_kept]
        assert all(each.held_bytes <= 600 for each in kept)
        assert store.held_bytes <= 2000 or not any(each.held_bytes for each in kept)
        for key in ("k0", "k1", "k2"):
            assert sum(each.head.key_id == key for each in kept) <= 3


def test_a_stream_is_given_up_once_however_many_there_are() -> None:
    count = 200
    told: list[GivenUp] = []
    limits = StreamSettings(max_bytes=10**6, total_bytes=count * 100, max_per_key=count)
    store = MemoryFrameStore(limits, told.append)
    frames = [open_frames(store, f"s{n}", f"k{n % 7}") for n in range(count)]
    for _ in range(10):
        for each in frames:
            add(each, 1)
    assert store.held_bytes <= count * 100
    assert len(told) <= count
