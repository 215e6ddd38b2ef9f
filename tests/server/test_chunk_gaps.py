"""The time between the pieces of an answer: counted, and per stream."""

import asyncio
import random

import pytest

from streamweir.server.relay.chunk_gaps import BOUNDS_S, empty_buckets, summarize_gaps
from streamweir.server.relay.relay import Relay
from streamweir.server.telemetry.record import Gaps
from support.answers import openai_frames
from support.attempt import attempt
from support.script import Drip, End, Head, Step, whole


def counted(gaps_s: list[float]) -> Gaps:
    buckets = empty_buckets()
    for gap_s in gaps_s:
        buckets[sum(bound < gap_s for bound in BOUNDS_S)] += 1
    return summarize_gaps(buckets, max(gaps_s, default=0.0))


def test_one_piece_has_no_gap() -> None:
    assert counted([]) == Gaps(count=1)


@pytest.mark.parametrize("gap_s", [0.0015, 0.02, 0.5, 3.0, 59.0])
def test_gaps_that_are_all_alike(gap_s: float) -> None:
    gaps = counted([gap_s] * 100)
    assert (gaps.count, gaps.max_s) == (101, gap_s)
    assert gap_s / 1.4 <= gaps.p50_s <= gaps.p99_s <= gap_s


@pytest.mark.parametrize(("gap_s", "least_s"), [(0.0, 0.0), (0.0002, 0.0), (500.0, 60.0)])
def test_beyond_the_bounds_they_are_coarse(gap_s: float, least_s: float) -> None:
    gaps = counted([gap_s] * 100)
    assert least_s <= gaps.p50_s <= gaps.p99_s <= gaps.max_s == gap_s


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_right_to_within_a_bucket(seed: int) -> None:
    rng = random.Random(seed)
    gaps_s = sorted(rng.lognormvariate(-4, 1.5) for _ in range(999))
    gaps = counted(gaps_s)
    assert gaps.max_s == gaps_s[-1]
    assert gaps.p50_s == pytest.approx(gaps_s[499], rel=0.35, abs=0.001)
    assert gaps.p99_s == pytest.approx(gaps_s[989], rel=0.35, abs=0.001)


def test_the_bounds_grow() -> None:
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))
    assert BOUNDS_S[-1] > 60


async def test_a_stream_has_its_own() -> None:
    frames, pace = openai_frames(), asyncio.Semaphore(0)
    script: list[Step] = [Head(), *(Drip(frame, pace, len(frame)) for frame in frames), End()]
    async with attempt(script) as (run, _):
        assert run.relay.gaps() is None
        for _ in frames:
            size = run.relay.bytes_in
            pace.release()
            await run.until(lambda size=size: run.relay.bytes_in > size)  # type: ignore[misc]
        await run.over()
        gaps = run.relay.gaps()
        assert gaps is not None
        assert gaps.count == len(run.watch.gaps) + 1 == len(frames)
        assert gaps.max_s == max(run.watch.gaps)
        assert 0 < gaps.p50_s <= gaps.p99_s <= gaps.max_s


async def test_a_whole_answer_has_them_too() -> None:
    async with attempt(whole(b'{"error":{"message":"no"}}'), stream=False) as (run, _):
        await run.over()
        assert isinstance(run.relay, Relay)
        assert run.relay.gaps() == Gaps(count=1)
