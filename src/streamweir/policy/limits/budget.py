"""The units of a budget: periods, accounts and exact money.

Periods have names by the UTC calendar, so that all nodes use the same names, and a new period starts with nothing
used: no counter is ever reset. Money is integer nano-dollars everywhere inside; dollars are converted here, exactly or
not at all. There is no state and no clock here.
"""

from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Literal

Period = Literal["day", "week", "month", "total"]
PERIODS: tuple[Period, ...] = ("day", "week", "month", "total")

NANO = 1_000_000_000
MAX_NANO = 2**63 - 1
"""The maximum of a database column: nine thousand million dollars."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = Context(prec=40)
_ONE_NANO = Decimal("1e-9")


def period_of(kind: str, now: float) -> str:
    """The name of the period that `now` (Unix seconds) is in: `2026-11-15`, `2026-W46`, `2026-11` or `total`."""
    if kind == "total":
        return "total"
    at = _moment(now)
    if kind == "day":
        return f"{at.year:04}-{at.month:02}-{at.day:02}"
    if kind == "week":
        year, week, _ = at.isocalendar()
        return f"{year:04}-W{week:02}"
    if kind == "month":
        return f"{at.year:04}-{at.month:02}"
    raise ValueError(f"no such period: {kind}")


def ends_at(kind: str, now: float) -> float | None:
    """When the next period begins, in Unix seconds. None: never."""
    if kind == "total":
        return None
    today = _moment(now).replace(hour=0, minute=0, second=0, microsecond=0)
    if kind == "day":
        end = today + timedelta(days=1)
    elif kind == "week":
        end = today + timedelta(days=7 - today.weekday())
    elif kind == "month":
        end = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    else:
        raise ValueError(f"no such period: {kind}")
    return (end - _EPOCH).total_seconds()


def key_account(key_id: str, period: str) -> str:
    """The account of a key's budget in a period that `period_of` named."""
    return f"key:{key_id}:{period}"


def key_accounts(key_id: str, now: float) -> tuple[str, ...]:
    """All accounts that a key could have at `now`, for any period of its budget."""
    return tuple([f"key:{key_id}:{period}" for period in _periods_of(int(now // 3600))])


def workspace_account(workspace_id: str) -> str:
    return f"ws:{workspace_id}"


def nano_of(dollars: Decimal | float | str) -> int:
    """Dollars in nano-dollars. ValueError if that is not a whole number of them, or too large.

    A float is read as the decimal number that it is printed as, which is the one that was written.
    """
    try:
        exact = Decimal(repr(dollars) if isinstance(dollars, float) else dollars)
    except InvalidOperation:
        raise ValueError("not a number of dollars") from None
    if not exact.is_finite():
        raise ValueError("not a number of dollars")
    if exact.copy_abs() > MAX_NANO // NANO:
        raise ValueError("the amount in dollars is too large")
    whole = exact.quantize(_ONE_NANO, context=_EXACT)
    if whole != exact:
        raise ValueError("dollars have at most nine decimal places")
    return int(whole.scaleb(9, _EXACT))


def dollars_of(nano: int) -> Decimal:
    """Nano-dollars in dollars, exactly, with all nine decimal places."""
    return Decimal(nano).scaleb(-9, _EXACT)


@lru_cache(maxsize=4)
def _periods_of(hour: int) -> tuple[str, ...]:
    """Each period begins with an hour."""
    return tuple(period_of(kind, hour * 3600) for kind in PERIODS)


def _moment(now: float) -> datetime:
    return _EPOCH + timedelta(seconds=now)
