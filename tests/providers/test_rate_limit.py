"""The providers' headers about rate limits: every documented form is read, everything else is ignored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.providers.rate_limit import MAX_RESET_S, Bucket, RateLimitReport, read_rate_limits

DATE = "Thu, 21 Aug 2025 12:40:59 GMT"
UNIX = 1_755_780_059


def reset_of(text: str, date: str | None = DATE) -> float | None:
    headers = {"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": text}
    report = read_rate_limits(headers if date is None else {**headers, "date": date})
    assert report is not None
    assert report.requests is not None
    return report.requests.reset_s


def test_headers_of_openai() -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-reset-tokens": "6m0s",
        "x-ratelimit-limit-project-tokens": "60000",
        "x-ratelimit-remaining-project-tokens": "57000",
        "x-ratelimit-reset-project-tokens": "3s",
    }
    tokens = (Bucket(149_984, 150_000, 360.0), Bucket(57_000, 60_000, 3.0))
    assert read_rate_limits(headers) == RateLimitReport(Bucket(59, 60, 1.0), tokens)


def test_anthropic_counts_tokens_as_they_are_used() -> None:
    headers = {
        "date": DATE,
        "anthropic-ratelimit-requests-limit": "1000",
        "anthropic-ratelimit-requests-remaining": "999",
        "anthropic-ratelimit-requests-reset": "2025-08-21T12:41:00Z",
        "anthropic-ratelimit-tokens-limit": "96000",
        "anthropic-ratelimit-tokens-remaining": "95000",
        "anthropic-ratelimit-tokens-reset": "2025-08-21T14:41:29+02:00",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2025-08-21T12:40:58Z",
        "anthropic-ratelimit-output-tokens-limit": "16000",
        "anthropic-ratelimit-output-tokens-remaining": "16000",
    }
    assert read_rate_limits(headers) == RateLimitReport(
        Bucket(999, 1000, 1.0, is_by_estimate=False),
        (
            Bucket(95_000, 96_000, 30.0, is_by_estimate=False),
            Bucket(0, None, 0.0, is_by_estimate=False),
            Bucket(16_000, 16_000, None, is_by_estimate=False),
        ),
    )


def test_requests_or_tokens_may_be_missing() -> None:
    assert read_rate_limits({"x-ratelimit-remaining-tokens": "7"}) == RateLimitReport(None, (Bucket(7, None, None),))
    assert read_rate_limits({"x-ratelimit-remaining-requests": "7"}) == RateLimitReport(Bucket(7, None, None))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("20ms", 0.02),
        ("1m30.951s", 90.951),
        ("2h30m0s", 9000.0),
        ("7.66s", 7.66),
        ("0s", 0.0),
        ("1d", MAX_RESET_S),
        ("99h", MAX_RESET_S),
        ("512us", 512e-6),
        ("0", 0.0),
        ("60", 60.0),
        ("33011.382867", 33011.382867),
        (str(UNIX + 5), 5.0),
        (str((UNIX + 5) * 1000), 5.0),
        (str(UNIX - 5), 0.0),
        ("2025-08-21T12:41:04Z", 5.0),
        ("2025-08-21T12:41:04.500Z", 5.5),
        ("2125-08-21T12:41:04Z", MAX_RESET_S),
        ("0001-01-01T00:00:00+23:59", 0.0),
    ],
)
def test_every_form_of_a_reset_is_read(text: str, seconds: float) -> None:
    assert reset_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", "-1", "soon", "1 s", "s", "1x", "1e9", "nan", "inf", "1s, 2s", "٣s", "1.2.3s", "²"),
        *("1" * 14, "1s" * 7, "1s" * 1000),
        *("2025-08-21", "2025-08-21T12:41:04", "2025-13-21T12:41:04Z"),
    ],
)
def test_what_cannot_be_read_is_not_known(text: str) -> None:
    assert reset_of(text) is None


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 21 Aug 2025 12:40:59 -0000", "x" * 10_000])
def test_a_time_needs_the_date_of_the_response(date: str | None) -> None:
    assert reset_of("2025-08-21T12:41:04Z", date) is None
    assert reset_of(str(UNIX + 5), date) is None
    assert reset_of("5s", date) == 5.0


@pytest.mark.parametrize("count", ["-1", "", "1.5", "1e3", "+1", " 1", "١", "1" * 13, "1, 2", "unlimited"])
def test_a_remainder_that_is_no_number_says_nothing(count: str) -> None:
    """Azure sends -1 where it does not know."""
    assert read_rate_limits({"x-ratelimit-remaining-requests": count, "x-ratelimit-remaining-tokens": count}) is None


def test_other_headers_say_nothing() -> None:
    assert read_rate_limits({"x-ratelimit-remaining": "0", "retry-after": "5", "content-type": "text/plain"}) is None
    assert read_rate_limits({}) is None


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_read_without_an_error_and_within_bounds(count: str, reset: str, date: str) -> None:
    for start, kind in (("x-ratelimit-{}-requests", "remaining"), ("anthropic-ratelimit-requests-{}", "remaining")):
        headers = {start.format(kind): count, start.format("reset"): reset, "date": date}
        report = read_rate_limits(headers)
        if report is not None and report.requests is not None:
            assert 0 <= report.requests.remaining < 10**12
            assert report.requests.reset_s is None or 0 <= report.requests.reset_s <= MAX_RESET_S
