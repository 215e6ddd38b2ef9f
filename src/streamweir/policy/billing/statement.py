"""A statement: what a workspace is charged for a month, and what became of its credit.

Its lines are by day, key and model; everything else on it is a sum of them, so that it cannot disagree with itself. A
request belongs to the month (UTC) in which it was reserved, also if it was settled in the next. A statement has prices
only: nothing on it says what the providers ask. Pure.
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from operator import attrgetter

from msgspec import Struct

from streamweir.policy.limits.budget import dollars_of, ends_at

DAY_MS = 86_400_000
CENT = 10_000_000
_MONTH = re.compile(r"[12]\d{3}-(?:0[1-9]|1[0-2])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Charges(Struct, frozen=True, kw_only=True):
    """Sums of requests. Amounts are in nano-dollars."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    unpriced: int = 0
    """Requests without a price, which are not in `price`."""
    price: int = 0


class Line(Struct, frozen=True, kw_only=True):
    day: int
    """Since 1970."""
    key_id: str
    key: str
    """Its name, or its id if it is not known."""
    model: str
    charges: Charges

    @property
    def date(self) -> str:
        return (_EPOCH + timedelta(days=self.day)).date().isoformat()


class Credit(Struct, frozen=True, kw_only=True):
    at_ms: int
    amount: int
    note: str

    @property
    def date(self) -> str:
        return (_EPOCH + timedelta(milliseconds=self.at_ms)).date().isoformat()


class Statement(Struct, frozen=True, kw_only=True):
    workspace: str
    workspace_id: str
    month: str
    is_prepaid: bool
    lines: list[Line]
    credits: list[Credit]
    balance_before: int
    """Credits less charges of all months before."""
    open_requests: int
    """Of the month, not settled yet: they are charged to it when they are."""
    is_over: bool
    """The month has ended."""

    @property
    def total(self) -> Charges:
        return add(line.charges for line in self.lines)

    @property
    def credited(self) -> int:
        return sum(credit.amount for credit in self.credits)

    @property
    def balance(self) -> int:
        """At the end of the month, when all its requests are settled."""
        return self.balance_before + self.credited - self.total.price

    @property
    def has_account(self) -> bool:
        """Whether credit matters: it is prepaid, or has or had some."""
        return self.is_prepaid or bool(self.credits) or self.balance_before > 0


def add(charges: Iterable[Charges]) -> Charges:
    sums = dict.fromkeys(Charges.__struct_fields__, 0)
    for each in charges:
        for name in sums:
            sums[name] += getattr(each, name)
    return Charges(**sums)


def sum_by(lines: Iterable[Line], *names: str) -> list[tuple[tuple[str, ...], Charges]]:
    """Grouped by members of the lines, in their order."""
    group_of: Callable[[Line], str | tuple[str, ...]] = attrgetter(*names)
    groups: dict[tuple[str, ...], list[Charges]] = {}
    for line in lines:
        group = group_of(line)
        groups.setdefault((group,) if isinstance(group, str) else group, []).append(line.charges)
    return [(group, add(groups[group])) for group in sorted(groups)]


def span_of_month(month: str) -> tuple[int, int]:
    """Its first moment and that of the next, in Unix milliseconds. ValueError: it is not `YYYY-MM`."""
    if not _MONTH.fullmatch(month):
        raise ValueError("expected a month such as 2026-11")
    begins = (datetime.fromisoformat(f"{month}-01T00:00:00+00:00") - _EPOCH).total_seconds()
    ends = ends_at("month", begins)
    assert ends is not None  # noqa: S101 (only `total` has no end)
    return round(begins * 1000), round(ends * 1000)


def decimals_of(amounts: Iterable[int]) -> int:
    """The number of decimals with which all these amounts are exact: at least two."""
    return max(2, *(9 - _trailing_zeros(amount) for amount in amounts), 0)


def money(nano: int, decimals: int) -> str:
    """`1,234.50`, exact if it has no more decimals."""
    return f"{dollars_of(nano):,.{decimals}f}"


def rounded_to_cents(nano: int) -> int:
    cents = (Decimal(nano) / CENT).quantize(Decimal(1), rounding=ROUND_HALF_UP)
    return int(cents) * CENT


def _trailing_zeros(amount: int) -> int:
    if amount == 0:
        return 9
    text = str(amount)
    return min(9, len(text) - len(text.rstrip("0")))
