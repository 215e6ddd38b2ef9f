"""When the pieces of an answer went out: every one is counted, in a slot that covers its moment, in little memory."""

import asyncio
import sys
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.pipeline.plan import Mode
from streamweir.server.telemetry.timeline import (
    SLOT_MS,
    SLOTS,
    SLOTS_PER_S,
    Timeline,
    read_timeline,
    timeline_from,
)
from streamweir.store.db.request_log import StripView
from support.answers import openai_frames, openai_stream, openai_whole
from support.attempt import attempt
from support.script import Drip, End, Head, Step, Wait, stream, whole

ARRIVED_S = 1000.0
moments = st.lists(st.floats(0, 7200), min_size=1, max_size=300).map(sorted)


def counted(after_s: list[float], start_s: float = ARRIVED_S) -> Timeline:
    """Of pieces so long after the first."""
    timeline = timeline_from(start_s)
    for each in after_s:
        timeline.add(start_s + each)
    return timeline


def places(after_s: list[float], slot_ms: int, start_s: float = ARRIVED_S) -> list[int]:
    """What they are, counted in another way: in the slots of the end at once."""
    every = [int((start_s + each - start_s) * SLOTS_PER_S) // (slot_ms // SLOT_MS) for each in [0.0, *after_s]]
    return [every.count(place) for place in range(max(every) + 1)]


@given(moments)
def test_every_piece_is_counted_in_a_slot_that_covers_its_moment(after_s: list[float]) -> None:
    view = read_timeline(counted(after_s), ARRIVED_S)
    assert sum(view.counts) == 1 + len(after_s)
    assert len(view.counts) <= SLOTS
    assert view.counts[-1] > 0
    assert view.counts == places(after_s, view.slot_ms)
    last_ms = after_s[-1] * 1000
    assert (len(view.counts) - 1) * view.slot_ms <= last_ms + 1 <= len(view.counts) * view.slot_ms + 2


@given(moments)
def test_slots_are_no_wider_than_they_must_be(after_s: list[float]) -> None:
    view = read_timeline(counted(after_s), ARRIVED_S)
    assert view.slot_ms == SLOT_MS or len(view.counts) > SLOTS // 2


@given(moments, st.randoms())
def test_it_is_the_same_whenever_it_was_folded(after_s: list[float], rng: object) -> None:
    shuffled = list(after_s)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert read_timeline(counted(shuffled), 0.0) == read_timeline(counted(after_s), 0.0)


def test_a_pause_shows_as_empty_slots() -> None:
    view = read_timeline(counted([0.001, 0.009, 0.021, 0.505, 0.515]), ARRIVED_S - 0.25)
    assert (view.start_ms, view.slot_ms) == (250, 10)
    assert view.counts == [3, 0, 1, *[0] * 47, 1, 1]


def test_one_piece() -> None:
    assert read_timeline(timeline_from(7.5), 7.0) == StripView(start_ms=500, slot_ms=10, counts=[1])


@pytest.mark.parametrize("later_s", [0.0, 5.0])
def test_a_slot_takes_more_than_two_bytes_hold(later_s: float) -> None:
    timeline = timeline_from(0.0)
    timeline.counts[0] = timeline.counts[1] = 0xFFFF
    timeline.add(later_s)
    assert sum(timeline.counts) == 2 * 0xFFFF + 1
    timeline.add(100.0)
    assert sum(timeline.counts) == 2 * 0xFFFF + 2


def test_it_is_small() -> None:
    timeline = timeline_from(1.0)
    folded = counted([3000.0])
    for each in (timeline, folded):
        assert isinstance(each.counts, array)
        assert sys.getsizeof(each) + sys.getsizeof(each.counts) + sys.getsizeof(each.start_s) + 8 < 300


@pytest.mark.parametrize("mode", list(Mode))
async def test_a_stream_has_one_of_its_pieces_whichever_way_its_bytes_go(mode: Mode) -> None:
    frames, pace = openai_frames(), asyncio.Semaphore(0)
    script: list[Step] = [Head(), *(Drip(frame, pace, len(frame)) for frame in frames), End()]
    async with attempt(script, mode=mode) as (run, _):
        assert run.relay.timeline is None
        for _ in frames:
            size = run.relay.bytes_in
            pace.release()
            await run.until(lambda size=size: run.relay.bytes_in > size)  # type: ignore[misc]
        await run.over()
        assert run.relay.timeline is not None
        assert sum(run.relay.timeline.counts) == run.writes


async def test_a_keep_alive_is_not_part_of_the_answer() -> None:
    frames, go_on = openai_frames(["a", "b"]), asyncio.Event()
    script: list[Step] = [*stream(b"".join(frames[:2]))[:-1], Wait(go_on), *stream(b"".join(frames[2:]))[1:]]
    async with attempt(script, keepalive_s=0.02) as (run, _):
        await run.until(lambda: run.written.count(b": keep-alive") >= 2)
        timeline, sent_at = run.relay.timeline, run.relay.sent_at
        assert timeline is not None
        assert sum(timeline.counts) == 1
        go_on.set()
        await run.over()
        assert sum(timeline.counts) == 2
        assert sent_at is not None
        assert run.relay.sent_at is not None
        assert sent_at < run.relay.sent_at


async def test_a_head_without_a_piece_does_not_match() -> None:
    """It goes out when the upstream takes long to begin."""
    go_on = asyncio.Event()
    async with attempt([Head(), Wait(go_on), *stream(openai_stream())[1:]], commit_at=0.02) as (run, _):
        await run.until(lambda: run.response.started)
        assert (run.relay.timeline, run.relay.sent_at) == (None, None)
        go_on.set()
        await run.over()
        assert run.relay.timeline is not None
        assert sum(run.relay.timeline.counts) == 1
        assert run.status == 200
        assert run.body.endswith(b"[DONE]\n\n")


async def test_an_answer_in_one_piece() -> None:
    async with attempt(stream(openai_stream())) as (run, _):
        await run.over()
        assert run.relay.timeline is not None
        assert sum(run.relay.timeline.counts) == 1


async def test_a_whole_answer_has_none() -> None:
    async with attempt(whole(openai_whole()), stream=False) as (run, _):
        await run.over()
        assert (run.relay.timeline, run.relay.sent_at) == (None, None)
