"""The hours of a period of a budget, and the period in the id of an account. `policy.limits.budget` names periods."""

from datetime import UTC, date, datetime, timedelta

from streamweir.policy.limits.budget import MAX_NANO

HOUR_MS = 3_600_000


def span_of(period: str) -> tuple[int, int]:
    """The first hour of a period and the first one after it (Unix hours)."""
    if period == "total":
        return 0, MAX_NANO
    try:
        if "W" in period:
            first = date.fromisocalendar(int(period[:4]), int(period[6:]), 1)
            last = first + timedelta(days=7)
        elif len(period) == len("2026-11"):
            first = date(int(period[:4]), int(period[5:]), 1)
            last = (first + timedelta(days=32)).replace(day=1)
        else:
            first = date.fromisoformat(period)
            last = first + timedelta(days=1)
    except ValueError:
        raise ValueError(f"no such period: {period!r}") from None
    return _hour_of(first), _hour_of(last)


def _hour_of(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) // 3600


def period_of_account(account_id: str) -> str:
    """The name of the period of an account of a budget, as `policy.limits.budget` names it."""
    return account_id.rpartition(":")[2]
