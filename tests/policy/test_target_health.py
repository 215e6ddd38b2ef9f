"""When a candidate is ejected, for how long, and which request probes it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError, UpstreamError
from streamweir.policy.routing.health import (
    MAX_EJECTION_S,
    MAX_FAILURES,
    PROBE_LEASE_S,
    Candidate,
    Health,
    HealthSettings,
    Probe,
    Span,
    State,
    TargetId,
)

CANDIDATE = Candidate(TargetId("openai", "gpt-4o"))
BROKEN = UpstreamError("upstream_server_error", "m")


def limited(retry_after_s: float | None, code: str = "upstream_rate_limited") -> UpstreamError:
    return UpstreamError(code, "m", retry_after_s=retry_after_s)


def ejected(at: float = 0.0) -> Health:
    health = Health()
    told = [health.failed(CANDIDATE, at, BROKEN) for _ in range(MAX_FAILURES)]
    assert told == [False, False, False, False, True]
    return health


def probe_of(health: Health, now: float) -> Probe:
    taken = health.begin(CANDIDATE, now)
    assert isinstance(taken, Probe)
    return taken


def test_a_targets_name() -> None:
    assert str(CANDIDATE.target) == "openai/gpt-4o"
    assert Probe(*CANDIDATE) == CANDIDATE
    assert hash(Probe(*CANDIDATE)) == hash(CANDIDATE)
    assert str(Probe(*CANDIDATE).target) == "openai/gpt-4o"


def test_five_failures_in_a_row_eject_it_for_half_a_minute() -> None:
    health = ejected(at=100.0)
    assert health.state(100.0) is health.state(129.9) is State.UNAVAILABLE
    assert health.remaining_s(110.0) == 20.0
    assert health.state(130.0) is State.PROBING
    assert health.remaining_s(130.0) == 0.0


def test_a_success_between_them_resets_the_count() -> None:
    health = Health()
    for _ in range(3):
        for _ in range(MAX_FAILURES - 1):
            assert not health.failed(CANDIDATE, 0.0, BROKEN)
        health.succeeded(0.0, None)
    assert health.state(0.0) is State.HEALTHY


def test_a_first_token_alone_does_not() -> None:
    """A target that breaks off every answer is as bad as one that gives none."""
    health = Health()
    for number in range(MAX_FAILURES):
        health.answered(0.0, 0.5)
        assert health.failed(CANDIDATE, 0.0, UpstreamError("upstream_stream_truncated", "m")) is (number == 4)


def test_each_ejection_is_twice_as_long() -> None:
    health, now, away = ejected(), 0.0, []
    for _ in range(8):
        away.append(health.remaining_s(now))
        now += away[-1]
        assert health.failed(probe_of(health, now), now, BROKEN)
    assert away == [30.0, 60.0, 120.0, 240.0, *[MAX_EJECTION_S] * 4]
    now += MAX_EJECTION_S
    probe_of(health, now)
    health.succeeded(now, 0.1)
    for _ in range(MAX_FAILURES):
        health.failed(CANDIDATE, now, BROKEN)
    assert health.remaining_s(now) == 30.0, "a success forgives all"


def test_a_probe_that_only_began_to_answer_reopens_but_does_not_reset_the_count() -> None:
    health = ejected()
    probe_of(health, 30.0)
    health.answered(30.0, 0.1)
    assert health.state(30.0) is State.HEALTHY
    for _ in range(MAX_FAILURES):
        health.failed(CANDIDATE, 31.0, BROKEN)
    assert health.remaining_s(31.0) == 60.0


def test_one_probe_at_a_time() -> None:
    health = ejected()
    probe = probe_of(health, 30.0)
    assert health.state(30.0) is State.UNAVAILABLE
    assert health.remaining_s(30.0) == 1.0
    health.abandoned(probe)
    assert health.state(31.0) is State.PROBING
    probe_of(health, 31.0)
    assert health.state(31.0) is State.UNAVAILABLE


def test_only_the_probing_request_can_release_the_probe() -> None:
    health = ejected()
    probe_of(health, 30.0)
    health.abandoned(CANDIDATE)  # an attempt from before it was sent away
    health.abandoned(Probe(*CANDIDATE))
    assert health.state(31.0) is State.UNAVAILABLE


def test_a_probe_without_a_report_expires() -> None:
    health = ejected()
    lost = probe_of(health, 30.0)
    later = 30.0 + PROBE_LEASE_S
    assert health.state(later - 0.1) is State.UNAVAILABLE
    second = probe_of(health, later)
    assert not health.failed(lost, later, BROKEN)
    assert health.failed(second, later, BROKEN)


def test_a_late_failure_does_not_prolong_the_ejection() -> None:
    health = ejected()
    for _ in range(50):
        assert not health.failed(CANDIDATE, 5.0, BROKEN)
    assert health.remaining_s(5.0) == 25.0
    probe_of(health, 30.0)
    assert not health.failed(CANDIDATE, 31.0, BROKEN)
    assert health.remaining_s(31.0) == 1.0


def test_a_failure_during_the_probe_counts_for_any_request() -> None:
    health = ejected()
    assert health.failed(CANDIDATE, 40.0, BROKEN)
    assert health.remaining_s(40.0) == 60.0


def test_a_late_success_ends_the_ejection() -> None:
    health = ejected()
    health.succeeded(5.0, 0.2)
    assert health.state(5.0) is State.HEALTHY


@pytest.mark.parametrize(
    "error",
    [
        CallerError("invalid_value", "m"),
        GatewayFault("overloaded", "m"),
        GatewayFault("internal_error", "m"),
        UpstreamError("upstream_model_not_found", "m"),
        limited(None),
    ],
    ids=lambda error: error.code,
)
def test_errors_that_do_not_concern_health(error: StreamweirError) -> None:
    health = Health()
    for number in range(50):
        assert not health.failed(CANDIDATE, number * 200.0, error)
    assert health.state(50 * 200.0) is State.HEALTHY
    health = ejected()
    health.failed(probe_of(health, 30.0), 30.0, error)
    assert health.state(32.0) is State.PROBING, "the probe is free again, and has shown nothing"


@pytest.mark.parametrize("code", ["upstream_auth_failed", "upstream_quota_exhausted", "upstream_timeout"])
def test_what_does(code: str) -> None:
    health = Health()
    assert [health.failed(CANDIDATE, 0.0, UpstreamError(code, "m")) for _ in range(5)][-1]


@pytest.mark.parametrize(
    ("retry_after_s", "pause_s"), [(None, 1.0), (0.0, 1.0), (0.2, 1.0), (7.0, 7.0), (120.0, 120.0), (999.0, 120.0)]
)
def test_a_rate_limit_is_a_pause_of_the_length_it_asks_for(retry_after_s: float | None, pause_s: float) -> None:
    health = Health()
    health.failed(CANDIDATE, 10.0, limited(retry_after_s))
    assert health.remaining_s(10.0) == pause_s
    assert health.is_limited(10.0)
    assert health.state(10.0 + pause_s - 0.01) is State.UNAVAILABLE
    assert health.state(10.0 + pause_s) is State.HEALTHY
    assert not health.is_limited(10.0 + pause_s)


def test_a_pause_is_not_cut_short_by_a_shorter_one() -> None:
    health = Health()
    health.failed(CANDIDATE, 0.0, limited(60.0))
    health.failed(CANDIDATE, 1.0, limited(2.0))
    assert health.remaining_s(1.0) == 59.0


def test_an_overload_that_says_how_long_is_a_pause_and_a_failure() -> None:
    health = Health()
    for _ in range(MAX_FAILURES):
        health.failed(CANDIDATE, 0.0, limited(40.0, "upstream_overloaded"))
    assert health.remaining_s(0.0) == 40.0
    assert not health.is_limited(0.0)
    assert health.state(35.0) is State.UNAVAILABLE
    assert health.state(40.0) is State.PROBING


def test_a_clock_that_was_set_back_ends_every_wait() -> None:
    health = ejected(at=5000.0)
    assert health.state(1000.0) is State.PROBING
    assert Span(5.0, 10.0).covers(4.0) is False
    assert Span(5.0, 10.0).remaining_s(4.0) == 0.0


def test_the_time_to_the_first_token_is_a_decaying_mean() -> None:
    health = Health()
    assert health.ttft_s is None
    health.succeeded(0.0, None)
    assert health.ttft_s is None
    health.answered(0.0, 1.0)
    assert health.ttft_s == 1.0
    health.succeeded(0.0, 2.0)
    assert health.ttft_s == pytest.approx(1.2)
    health.succeeded(60.0, 2.0)  # the old mean has lost half of its weight
    assert health.ttft_s == pytest.approx(0.4 * 1.2 + 0.6 * 2.0)
    health.succeeded(100_000.0, 5.0)
    assert health.ttft_s == pytest.approx(5.0)
    health.succeeded(0.0, 4.0)  # set back: as if no time had passed
    assert health.ttft_s == pytest.approx(4.8)


@given(st.lists(st.tuples(st.floats(0, 600), st.floats(0.001, 60)), min_size=1))
def test_the_mean_stays_within_what_was_measured(measured: list[tuple[float, float]]) -> None:
    health, now = Health(), 0.0
    for step, ttft_s in measured:
        now += step
        health.succeeded(now, ttft_s)
    times = [ttft_s for _, ttft_s in measured]
    assert health.ttft_s is not None
    assert min(times) * 0.999 <= health.ttft_s <= max(times) * 1.001


class Probing(RuleBasedStateMachine):
    """Callers that take the target when it is there, and report on it later, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.health = Health()
        self.now = 0.0
        self.under_way: list[Candidate] = []

    @rule(step=st.sampled_from([0.0, 1.0, 10.0, 30.0]))
    def wait(self, step: float) -> None:
        is_probed = any(isinstance(each, Probe) for each in self.under_way)
        self.now += min(step, 1.0) if is_probed else step  # no probe outlives its lease here

    @rule()
    def take(self) -> None:
        state = self.health.state(self.now)
        taken = self.health.begin(CANDIDATE, self.now)
        assert (taken is None) is (state is State.UNAVAILABLE)
        assert isinstance(taken, Probe) is (state is State.PROBING)
        if taken is not None:
            self.under_way.append(taken)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), how=st.sampled_from(["succeeded", "failed", "failed", "failed", "abandoned"]))
    def report(self, data: st.DataObject, how: str) -> None:
        candidate = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        if how == "succeeded":
            self.health.succeeded(self.now, 0.1)
            # From now on it is well: who was probing is one of many.
            self.under_way = [Candidate(*each) for each in self.under_way]
        elif how == "failed":
            self.health.failed(candidate, self.now, BROKEN)
        else:
            self.health.abandoned(candidate)

    @invariant()
    def at_most_one_probe(self) -> None:
        assert sum(isinstance(each, Probe) for each in self.under_way) <= 1

    @invariant()
    def away_means_not_for_long(self) -> None:
        away = self.health.state(self.now) is State.UNAVAILABLE
        assert away is (self.health.remaining_s(self.now) > 0)
        assert self.health.remaining_s(self.now) <= MAX_EJECTION_S


TestProbing = Probing.TestCase


def test_the_total_of_ejections_is_never_reset() -> None:
    health = Health()
    assert health.times_ejected == 0
    for number in range(3):
        now = number * 1000.0
        for _ in range(MAX_FAILURES):
            health.failed(CANDIDATE, now, BROKEN)
        assert health.times_ejected == 2 * number + 1
        health.failed(probe_of(health, now + 30), now + 30, BROKEN)
        health.failed(CANDIDATE, now + 31, BROKEN)
        assert health.times_ejected == 2 * number + 2, "late news is none"
        health.succeeded(now + 500, None)


# The settings.


def failures(health: Health, count: int, now: float = 0.0, error: StreamweirError = BROKEN) -> list[bool]:
    return [health.failed(CANDIDATE, now, error) for _ in range(count)]


def test_the_number_of_failures_is_a_setting() -> None:
    assert failures(Health(HealthSettings(max_failures=2)), 2) == [False, True]
    assert failures(Health(HealthSettings(max_failures=1)), 1) == [True]
    never = Health(HealthSettings(max_failures=0))
    assert not any(failures(never, 100))
    assert never.state(0.0) is State.HEALTHY


def test_the_first_ejection_is_a_setting_and_may_be_longer_than_the_longest() -> None:
    short, long = Health(HealthSettings(1, 2.0)), Health(HealthSettings(1, 1000.0))
    now = 0.0
    for health, durations in ((short, [2.0, 4.0, 8.0]), (long, [1000.0, 1000.0, 1000.0])):
        for duration_s in durations:
            probe = health.begin(CANDIDATE, now)
            assert probe is not None
            assert health.failed(probe, now, BROKEN)
            assert health.remaining_s(now) == duration_s
            now += duration_s


def test_a_rate_limit_without_a_time_has_the_cool_down_of_the_settings() -> None:
    for cooldown_s in (0.0, 20.0, 3600.0):
        health = Health(HealthSettings(cooldown_s=cooldown_s))
        health.failed(CANDIDATE, 0.0, limited(None))
        assert health.remaining_s(0.0) == cooldown_s
    health = Health(HealthSettings(cooldown_s=3.0))
    health.failed(CANDIDATE, 0.0, limited(7.0))
    assert health.remaining_s(0.0) == 7.0
