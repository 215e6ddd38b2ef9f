"""What may be tried once more, where, when, and how much of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import (
    CALLER_CODES,
    GATEWAY_CODES,
    UPSTREAM_CODES,
    CallerError,
    GatewayFault,
    StreamweirError,
    UpstreamError,
)
from streamweir.policy.routing.health import Candidate, TargetId
from streamweir.policy.routing.retry import RetryBudget, backoff_s, error_to_show, may_try_again, may_try_elsewhere
from streamweir.policy.routing.route import RouteTable
from streamweir.policy.routing.router import Router

ELSEWHERE = set(UPSTREAM_CODES) - {"response_too_large", "stream_deadline_exceeded", "no_available_deployment"}
AGAIN = {
    "upstream_connect_failed",
    "upstream_dns_failed",
    "upstream_server_error",
    "upstream_overloaded",
    "upstream_empty_response",
    "upstream_stream_truncated",
    "upstream_stream_reset",
}


@pytest.mark.parametrize("code", UPSTREAM_CODES)
def test_an_upstreams_failure(code: str) -> None:
    error = UpstreamError(code, "m")
    assert may_try_elsewhere(error) is (code in ELSEWHERE)
    assert may_try_again(error) is (code in AGAIN)


@pytest.mark.parametrize("code", ["upstream_auth_failed", "upstream_quota_exhausted", "upstream_redirect_blocked"])
def test_what_does_not_pass_by_itself_is_tried_elsewhere_alone(code: str) -> None:
    assert may_try_elsewhere(UpstreamError(code, "m"))
    assert not may_try_again(UpstreamError(code, "m"))


@pytest.mark.parametrize("code", CALLER_CODES)
def test_a_callers_fault_is_never_tried_again(code: str) -> None:
    error = CallerError(code, "m")
    assert not may_try_elsewhere(error)
    assert not may_try_again(error)


@pytest.mark.parametrize("code", GATEWAY_CODES)
def test_of_the_gateways_faults_only_a_full_pool_is_tried_elsewhere(code: str) -> None:
    error = GatewayFault(code, "m")
    assert may_try_elsewhere(error) is (code == "overloaded")
    assert not may_try_again(error)


@pytest.mark.parametrize(
    ("code", "retry_after_s", "may"),
    [
        ("upstream_rate_limited", None, False),
        ("upstream_rate_limited", 0.0, True),
        ("upstream_rate_limited", 2.0, True),
        ("upstream_rate_limited", 2.1, False),
        ("upstream_overloaded", None, True),
        ("upstream_overloaded", 1.0, True),
        ("upstream_overloaded", 30.0, False),
        ("upstream_timeout", None, False),
    ],
)
def test_a_short_wait_is_waited_out(code: str, retry_after_s: float | None, may: bool) -> None:
    error: StreamweirError = UpstreamError(code, "m", retry_after_s=retry_after_s)
    assert may_try_again(error) is may


@pytest.mark.parametrize(("attempt", "ceiling_s"), [(0, 0.1), (1, 0.2), (2, 0.4), (4, 1.6), (5, 2.0), (5000, 2.0)])
def test_backoff_is_anything_up_to_its_ceiling(attempt: int, ceiling_s: float) -> None:
    assert backoff_s(attempt, lambda: 0.0) == 0.0
    assert backoff_s(attempt, lambda: 0.5) == pytest.approx(ceiling_s / 2)
    assert backoff_s(attempt, lambda: 1.0) == pytest.approx(ceiling_s)


def test_never_before_the_upstream_said() -> None:
    assert backoff_s(0, lambda: 0.0, 7.0) == 7.0
    assert backoff_s(0, lambda: 0.5, 7.0) == 7.05
    assert backoff_s(0, lambda: 0.0, 0.0) == 1.0
    assert backoff_s(0, lambda: 0.0, None) == 0.0


@pytest.mark.parametrize("retry_after_s", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("code", ["upstream_rate_limited", "upstream_overloaded"])
def test_after_the_wait_the_target_is_there_again(code: str, retry_after_s: float) -> None:
    error, candidate = UpstreamError(code, "m", retry_after_s=retry_after_s), Candidate(TargetId("p", "m"))
    router = Router(RouteTable([], {"p"}), {"p"})
    router.failed(candidate, 50.0, error)
    assert may_try_again(error)
    assert router.take(candidate, 50.0) is None
    assert router.take(candidate, 50.0 + backoff_s(0, lambda: 0.0, retry_after_s)) is candidate


def test_a_floor_for_the_few() -> None:
    budget = RetryBudget()
    assert [budget.take(0.0) for _ in range(12)] == [True] * 10 + [False] * 2


def test_a_share_for_the_many_not_on_top_of_the_floor() -> None:
    budget = RetryBudget()
    for _ in range(100):
        budget.note_request(0.0)
    assert sum(budget.take(0.0) for _ in range(100)) == 20


def test_no_part_of_a_retry_is_rounded_up() -> None:
    budget = RetryBudget()
    for _ in range(59):
        budget.note_request(0.0)
    assert sum(budget.take(0.0) for _ in range(100)) == 11


def test_the_budget_fills_up_again() -> None:
    budget = RetryBudget(minimum=1)
    assert budget.take(0.0)
    assert not budget.take(9.9)
    assert budget.take(10.6)


def test_at_total_failure_repeats_are_a_fifth() -> None:
    """docs/spec/failures.md U10."""
    budget, attempts = RetryBudget(), 0
    for number in range(1000):
        now = number / 200
        budget.note_request(now)
        attempts += 1
        for _ in range(2):
            attempts += budget.take(now)
    assert 1000 < attempts <= 1.2 * 1000


# Whether a retry is asked for (else it is a request), and how many eighths of a second later.
STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from([0, 0, 0, 0, 1, 8, 40])), max_size=300)


@given(STEPS)
def test_attempts_are_at_most_a_fifth_more_than_requests(steps: list[tuple[bool, int]]) -> None:
    budget, now = RetryBudget(), 0.0
    requests: list[float] = []
    retries: list[float] = []
    for is_retry, eighths in steps:
        now += eighths / 8
        if not is_retry:
            budget.note_request(now)
            requests.append(now)
        elif budget.take(now):
            retries.append(now)
            # A moment counts until its tick of half a second is out of the window.
            first = (now // 0.5) * 0.5 - 10.0
            counted = sum(moment >= first for moment in requests), sum(moment >= first for moment in retries)
            assert counted[1] <= max(10, 0.2 * counted[0])
            if counted[0] >= 50:
                assert sum(counted) <= 1.2 * counted[0]


LIMITED, AUTH = UpstreamError("upstream_rate_limited", "m"), UpstreamError("upstream_auth_failed", "m")
OVERLOADED, TOO_LONG = UpstreamError("upstream_overloaded", "m"), CallerError("context_length_exceeded", "m")


@pytest.mark.parametrize(
    ("earlier", "latest", "shown"),
    [
        (None, AUTH, AUTH),
        (LIMITED, AUTH, LIMITED),
        (AUTH, LIMITED, LIMITED),
        (LIMITED, OVERLOADED, OVERLOADED),
        (AUTH, UpstreamError("upstream_quota_exhausted", "m"), UpstreamError("upstream_quota_exhausted", "m")),
        (LIMITED, TOO_LONG, TOO_LONG),
        (TOO_LONG, AUTH, TOO_LONG),
        (TOO_LONG, LIMITED, LIMITED),
    ],
)
def test_the_error_that_a_caller_can_do_something_about(
    earlier: StreamweirError | None, latest: StreamweirError, shown: StreamweirError
) -> None:
    assert error_to_show(earlier, latest) == shown
