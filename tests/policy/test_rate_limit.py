"""Requests per minute: never more in any minute, also when the clock is set."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from streamweir.policy.rate import WINDOW_S, Admission, RateLimiter

EIGHTHS = st.integers(1, 57_600).map(lambda number: number / 8)  # sums of them are exact
STEPS = st.lists(st.integers(0, 560).map(lambda number: number / 8) | st.sampled_from([0.0, 0.125, 0.5]), min_size=1)
RPM = st.integers(1, 12)


def most_in_a_window(moments: Sequence[float]) -> int:
    return max((sum(start <= moment < start + WINDOW_S for moment in moments) for start in moments), default=0)


def test_a_burst_of_the_whole_limit_and_no_more() -> None:
    limiter = RateLimiter()
    admissions = [limiter.admit("ci", 3, 100.0) for _ in range(4)]
    assert [each.allowed for each in admissions] == [True, True, True, False]
    assert [each.remaining for each in admissions] == [2, 1, 0, 0]
    assert admissions[0] == Admission(allowed=True, limit=3, remaining=2, reset_s=60.5)
    assert admissions[3] == Admission(allowed=False, limit=3, remaining=0, reset_s=60.5, retry_after_s=60.5)


def test_waiting_as_told_is_enough() -> None:
    limiter = RateLimiter()
    limiter.admit("ci", 2, 0.3)
    limiter.admit("ci", 2, 20.0)
    refused = limiter.admit("ci", 2, 30.0)
    assert not refused.allowed
    assert refused.retry_after_s == 30.5
    assert refused.reset_s == 50.5
    assert not limiter.admit("ci", 2, 60.4).allowed
    assert limiter.admit("ci", 2, 30.0 + refused.retry_after_s).allowed


def test_keys_have_their_own_limits() -> None:
    limiter = RateLimiter()
    assert limiter.admit("a", 1, 0.0).allowed
    assert limiter.admit("b", 1, 0.0).allowed
    assert not limiter.admit("a", 1, 0.0).allowed


def test_a_limit_that_was_changed_holds_at_once() -> None:
    limiter = RateLimiter()
    for _ in range(5):
        limiter.admit("a", 5, 0.0)
    assert limiter.admit("a", 6, 1.0).allowed
    lowered = limiter.admit("a", 2, 1.0)
    assert (lowered.allowed, lowered.limit, lowered.remaining) == (False, 2, 0)


def test_the_number_of_keys_is_bounded() -> None:
    limiter = RateLimiter(most_keys=2)
    for name in ("a", "b", "a", "c"):  # b was used least recently
        limiter.admit(name, 1, 0.0)
    assert not limiter.admit("a", 1, 0.0).allowed
    assert limiter.admit("b", 1, 0.0).allowed


@given(STEPS, RPM)
def test_never_more_than_the_limit_in_any_minute(steps: list[float], rpm: int) -> None:
    limiter, now, admitted = RateLimiter(), 50.0, list[float]()
    for step in steps:
        now += step
        admission = limiter.admit("ci", rpm, now)
        assert 0 <= admission.remaining < rpm
        assert admission.allowed == (admission.retry_after_s == 0)
        if admission.allowed:
            admitted.append(now)
        else:
            assert sum(moment > now - WINDOW_S - 0.5 for moment in admitted) >= rpm, "refused for nothing"
    assert most_in_a_window(admitted) <= rpm


@given(STEPS, RPM, st.integers(0, 60), EIGHTHS)
def test_a_clock_that_is_set_back_grants_nothing_and_stops_nobody(
    steps: list[float], rpm: int, at: int, back_s: float
) -> None:
    limiter, truth, clock, admitted = RateLimiter(), 0.0, 10_000.0, list[float]()
    for number, step in enumerate(steps):
        truth += step
        clock += step - (back_s if number == at else 0.0)
        if limiter.admit("ci", rpm, clock).allowed:
            admitted.append(truth)
    assert most_in_a_window(admitted) <= rpm
    assert limiter.admit("ci", rpm, clock + WINDOW_S + 1.0).allowed


@given(STEPS, RPM, st.lists(st.integers(0, 60), min_size=2, max_size=2, unique=True), EIGHTHS)
def test_a_clock_that_is_set_back_and_put_right_grants_one_window_at_most(
    steps: list[float], rpm: int, at: list[int], by_s: float
) -> None:
    limiter, truth, clock, admitted = RateLimiter(), 0.0, 10_000.0, list[float]()
    for number, step in enumerate(steps):
        truth += step
        clock += step - (by_s if number == min(at) else 0.0) + (by_s if number == max(at) else 0.0)
        if limiter.admit("ci", rpm, clock).allowed:
            admitted.append(truth)
    assert most_in_a_window(admitted) <= 2 * rpm
