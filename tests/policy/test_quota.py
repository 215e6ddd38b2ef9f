"""The providers' own limits, as they report them: what is left, less what was sent since, until it is refilled."""

from hypothesis import given
from hypothesis import strategies as st

from streamweir.policy.routing.quota import MAX_AGE_S, UNKNOWN_RESET_S, Quotas
from streamweir.providers.rate_limit import Bucket, RateLimitReport


def reported(report: RateLimitReport, at: float = 100.0) -> Quotas:
    quotas = Quotas()
    quotas.note("a", report, at)
    return quotas


def test_nothing_is_known_of_a_candidate_that_never_answered() -> None:
    assert Quotas().has_room("a", 10**9, 0.0)
    quotas = Quotas()
    quotas.note_sent("a", 5)
    assert len(quotas) == 0


def test_requests_are_counted_down_until_the_reset() -> None:
    quotas = reported(RateLimitReport(Bucket(2, None, 60.0)))
    for _ in range(2):
        assert quotas.has_room("a", 1, 100.0)
        quotas.note_sent("a", 1)
    assert not quotas.has_room("a", 1, 159.9)
    assert quotas.has_room("a", 1, 160.0)
    assert quotas.has_room("b", 1, 100.0), "of another candidate"


def test_tokens_are_compared_with_the_estimate() -> None:
    quotas = reported(RateLimitReport(None, (Bucket(100, None, 60.0), Bucket(50, None, 30.0))))
    assert quotas.has_room("a", 50, 100.0)
    assert not quotas.has_room("a", 51, 100.0)
    assert quotas.has_room("a", 51, 130.0)
    quotas.note_sent("a", 60)
    assert not quotas.has_room("a", 41, 130.0)
    assert quotas.has_room("a", 40, 130.0)


def test_tokens_that_are_counted_as_used_may_hold_any_request() -> None:
    """A long conversation costs little there if it is cached."""
    quotas = reported(RateLimitReport(None, (Bucket(1, None, 60.0, is_by_estimate=False),)))
    quotas.note_sent("a", 500_000)
    assert quotas.has_room("a", 500_000, 100.0)
    assert not reported(RateLimitReport(None, (Bucket(0, None, 60.0, is_by_estimate=False),))).has_room("a", 1, 100.0)


def test_a_bucket_refills_continuously() -> None:
    """The reset is the time until all of it is there; a part is there before."""
    quotas = reported(RateLimitReport(Bucket(0, 60, 60.0), (Bucket(0, 6000, 60.0),)))
    assert not quotas.has_room("a", 10, 100.9)
    assert quotas.has_room("a", 100, 101.0)
    assert not quotas.has_room("a", 101, 101.0)
    quotas.note_sent("a", 100)
    assert not quotas.has_room("a", 1, 101.5)


def test_a_newer_report_replaces_what_was_counted() -> None:
    quotas = reported(RateLimitReport(Bucket(1, None, 60.0)))
    quotas.note_sent("a", 1)
    quotas.note("a", RateLimitReport(Bucket(1, None, 60.0)), 101.0)
    assert quotas.has_room("a", 1, 101.0)


def test_no_report_holds_for_long() -> None:
    assert not reported(RateLimitReport(Bucket(0, None, 86_400.0))).has_room("a", 1, 100.0 + MAX_AGE_S - 1)
    quotas = reported(RateLimitReport(Bucket(0, None, 86_400.0)))
    assert quotas.has_room("a", 1, 100.0 + MAX_AGE_S)
    assert len(quotas) == 0
    unknown = reported(RateLimitReport(Bucket(0, None, None)))
    assert not unknown.has_room("a", 1, 100.0 + UNKNOWN_RESET_S - 1)
    assert unknown.has_room("a", 1, 100.0 + UNKNOWN_RESET_S)
    assert reported(RateLimitReport(Bucket(0, None, 0.0))).has_room("a", 1, 100.0), "it is refilled already"
    assert reported(RateLimitReport(Bucket(0, None, 60.0))).has_room("a", 1, 99.0), "the clock was set back"


def test_what_is_kept_is_bounded() -> None:
    quotas = Quotas(max_known=3)
    for number in range(10):
        quotas.note(number, RateLimitReport(Bucket(0, None, 60.0)), 0.0)
    assert len(quotas) == 3
    assert [quotas.has_room(number, 1, 0.0) for number in (0, 7, 9)] == [True, False, False]


@given(st.integers(0, 50), st.integers(0, 50), st.floats(0, 60), st.integers(0, 60))
def test_there_is_never_less_room_later_nor_more_than_the_limit(left: int, used: int, later: float, sent: int) -> None:
    quotas = reported(RateLimitReport(Bucket(left, left + used, 60.0)))
    for _ in range(sent):
        quotas.note_sent("a", 1)
    if quotas.has_room("a", 1, 100.0):
        assert quotas.has_room("a", 1, 100.0 + later)
    if later < 60.0 and quotas.has_room("a", 1, 100.0 + later):
        assert sent + 1 <= left + used
