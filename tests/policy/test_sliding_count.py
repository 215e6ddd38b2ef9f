"""A count over the last seconds: never too low, bounded, and steady when the clock is not."""

from hypothesis import given
from hypothesis import strategies as st

from streamweir.policy.limits.window import MINUTE_S, MINUTE_TICK_S, REQUESTS, TOKENS, MinuteUsage, SlidingCount

SPAN_S, TICK_S = 10.0, 0.5
EIGHTHS = st.integers(0, 240).map(lambda number: number / 8)  # sums of them are exact
STEPS = st.lists(EIGHTHS, max_size=60)


def test_empty() -> None:
    count = SlidingCount(SPAN_S, TICK_S)
    assert count.count(5.0) == 0
    assert count.empty_in_s(5.0) == 0


def test_events_older_than_the_span_are_dropped() -> None:
    count = SlidingCount(SPAN_S, TICK_S)
    for now in (0.0, 0.2, 4.0):
        count.add(now)
    assert count.count(10.4) == 3
    assert count.count(10.5) == 1
    assert count.empty_in_s(10.5) == 4.0
    assert count.count(14.5) == 0


def test_how_long_until_there_are_none() -> None:
    count = SlidingCount(SPAN_S, TICK_S)
    count.add(1.1)
    count.add(3.0)
    assert count.empty_in_s(3.0) == 10.5
    assert count.count(3.0 + 8.5) == 1
    assert count.count(3.0 + 10.5) == 0


@given(STEPS)
def test_never_too_low_and_by_one_tick_at_most_too_high(steps: list[float]) -> None:
    count, moments, now = SlidingCount(SPAN_S, TICK_S), list[float](), 1000.0
    for step in steps:
        now += step
        count.add(now)
        moments.append(now)
        exact = sum(moment >= now - SPAN_S for moment in moments)
        most = sum(moment >= now - SPAN_S - TICK_S for moment in moments)
        assert exact <= count.count(now) <= most
        assert len(count._ticks) <= SPAN_S / TICK_S + 1, "bounded, whatever the number"


@given(STEPS, st.integers(0, 8_000_000).map(lambda number: number / 8))
def test_a_clock_that_is_set_back_changes_nothing(steps: list[float], back_s: float) -> None:
    steady, set_back, now = SlidingCount(SPAN_S, TICK_S), SlidingCount(SPAN_S, TICK_S), 1e6
    for number, step in enumerate(steps):
        before = number < len(steps) // 2
        now += 0.0 if number == len(steps) // 2 else step  # what passed during the jump cannot be known
        told = now if before else now - back_s
        steady.add(now)
        set_back.add(told)
        assert steady.count(now) == set_back.count(told)


@given(STEPS)
def test_the_use_of_a_minute_is_bounded_whatever_the_number(steps: list[float]) -> None:
    use, moments, now = MinuteUsage(), list[float](), 1000.0
    for step in steps:
        for _ in range(3):
            now += step / 3
            use.drop_before(now)
            use.add(use.tick_at(now), 1, 10)
            moments.append(now)
        exact = sum(moment >= now - MINUTE_S for moment in moments)
        most = sum(moment >= now - MINUTE_S - MINUTE_TICK_S for moment in moments)
        assert exact <= use.totals[REQUESTS] <= most
        assert use.totals[TOKENS] == 10 * use.totals[REQUESTS]
        assert len(use._ticks) <= MINUTE_S / MINUTE_TICK_S + 1
