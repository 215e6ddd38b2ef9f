"""Periods by the UTC calendar, and money to the nano-dollar."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.policy.limits.budget import (
    MAX_NANO,
    PERIODS,
    dollars_of,
    ends_at,
    key_account,
    nano_of,
    period_of,
    workspace_account,
)

MOMENTS = st.floats(0, 32_503_680_000, allow_nan=False)  # up to the year 3000


def unix(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("moment", "day", "week", "month"),
    [
        ("2026-11-15T12:00:00", "2026-11-15", "2026-W46", "2026-11"),
        ("2026-12-31T23:59:59.999", "2026-12-31", "2026-W53", "2026-12"),
        ("2027-01-01T00:00:00", "2027-01-01", "2026-W53", "2027-01"),
        ("2027-01-04T00:00:00", "2027-01-04", "2027-W01", "2027-01"),
        ("2024-02-29T01:00:00", "2024-02-29", "2024-W09", "2024-02"),
        ("2024-12-30T00:00:00", "2024-12-30", "2025-W01", "2024-12"),
    ],
)
def test_periods_have_the_calendars_names(moment: str, day: str, week: str, month: str) -> None:
    now = unix(moment)
    assert [period_of(kind, now) for kind in PERIODS] == [day, week, month, "total"]


@pytest.mark.parametrize(
    ("kind", "moment", "end"),
    [
        ("day", "2026-11-15T12:00:00", "2026-11-16"),
        ("day", "2026-11-15T00:00:00", "2026-11-16"),
        ("week", "2026-11-15T12:00:00", "2026-11-16"),
        ("week", "2026-11-16T00:00:00", "2026-11-23"),
        ("month", "2026-12-31T23:59:59", "2027-01-01"),
        ("month", "2026-01-31T00:00:00", "2026-02-01"),
    ],
)
def test_periods_end_at_midnight(kind: str, moment: str, end: str) -> None:
    assert ends_at(kind, unix(moment)) == unix(end)


@given(MOMENTS, st.sampled_from(["day", "week", "month"]))
def test_a_period_lasts_until_its_end_and_no_longer(now: float, kind: str) -> None:
    end = ends_at(kind, now)
    assert end is not None
    assert now < end <= now + timedelta(days=31).total_seconds()
    assert period_of(kind, end - 0.001) == period_of(kind, min(now, end - 0.001))
    assert period_of(kind, end) != period_of(kind, end - 0.001)


def test_a_budget_for_ever_never_ends() -> None:
    assert ends_at("total", 0.0) is None
    assert period_of("total", 0.0) == period_of("total", 1e9) == "total"


def test_no_other_period_is_known() -> None:
    for ask in (period_of, ends_at):
        with pytest.raises(ValueError, match="no such period"):
            ask("year", 0.0)


def test_accounts_have_names() -> None:
    assert key_account("k1", "2026-W46") == "key:k1:2026-W46"
    assert workspace_account("w1") == "ws:w1"


@pytest.mark.parametrize(
    ("dollars", "nano"),
    [
        ("2.5", 2_500_000_000),
        (2.5, 2_500_000_000),
        (0.1, 100_000_000),
        (1e-9, 1),
        (3, 3_000_000_000),
        (-3, -3_000_000_000),
        ("1.0000000000", 1_000_000_000),
        ("0e-500", 0),
        (Decimal("9223372036"), 9_223_372_036_000_000_000),
    ],
)
def test_dollars_become_nano_dollars_exactly(dollars: Decimal | float | str, nano: int) -> None:
    assert nano_of(dollars) == nano


@pytest.mark.parametrize(
    "dollars",
    [
        "1e-10",
        "1e-200",
        "0.0000000001",
        1e-10,
        "nan",
        "sNaN",
        "inf",
        "-inf",
        float("nan"),
        "x",
        "",
        "9223372037",
        "1e99999999",
    ],
)
def test_what_is_no_whole_number_of_them_or_too_much_is_refused(dollars: float | str) -> None:
    with pytest.raises(ValueError, match="dollars"):
        nano_of(dollars)


@given(st.integers(-(MAX_NANO // 10**9) * 10**9, MAX_NANO // 10**9 * 10**9))
def test_money_survives_the_way_there_and_back(nano: int) -> None:
    assert nano_of(dollars_of(nano)) == nano_of(str(dollars_of(nano))) == nano
    assert format(dollars_of(nano), "f").partition(".")[2] == f"{abs(nano) % 10**9:09}"
