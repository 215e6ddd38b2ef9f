"""One form for what providers export: rows with a period, a model, a key, and amounts.

A value that an export does not have is None, which is not 0: nothing is compared with it. Amounts are exact: decimals
are read as they are written, and money is rounded to nano-dollars once, here. A file that cannot be read as a whole
raises `ExportError` with the place; no row is left out without a note.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, Literal

from msgspec import Struct, structs

from streamweir.core.text import cut

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?)?(?: ?(?:Z|UTC|\+00:00))?")
_NANO = Context(prec=60, rounding=ROUND_HALF_EVEN)
_EARLIEST_MS = 946_684_800_000  # 2000-01-01
_LATEST_MS = 4_102_444_800_000  # 2100-01-01
_MAX_COUNT = 2**62
_CENT = 10_000_000
"""In nano-dollars."""
_MAX_DOLLARS = 10**9

Zone = Literal["UTC", "Pacific"]


class ExportError(ValueError):
    """The file is not an export that can be read; says where and why."""


class Amounts(Struct, frozen=True, kw_only=True):
    """What was used in a period. Input includes what was read from and written to a cache."""

    requests: int | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost: int | None = None
    """In nano-dollars."""
    rounding: int = 0
    """By how much `cost` may differ because the provider has rounded it."""


class ExportRow(Struct, frozen=True, kw_only=True):
    start_ms: int
    end_ms: int
    model: str | None = None
    """Of what is no model's (a search tool, for example): the provider's name for it."""
    key: str | None = None
    amounts: Amounts


class Export(Struct, frozen=True, kw_only=True):
    provider: Literal["openai", "anthropic", "google"]
    what: Literal["usage", "cost", "usage and cost"]
    rows: list[ExportRow]
    zone: Zone = "UTC"
    """In which its days begin."""
    notes: list[str] = []
    """What was left out of the file, and why."""


def count_of(value: Any, where: str) -> int:
    """A number of tokens or requests: also as text (`59200.0`, `1,983`). Nothing is 0."""
    if value is None or value == "":
        return 0
    number = _decimal(value, where)
    if not 0 <= number <= _MAX_COUNT or number != number.to_integral_value():
        raise ExportError(f"{where}: expected a count, found {shown(value)}")
    return int(number)


def count_in(line: Mapping[str, str], name: str, where: str) -> int | None:
    """Of a line of CSV. None: the file has no such column, and nothing is compared with it."""
    return count_of(line[name], f"{where}, {name}") if name in line else None


def nano_of_dollars(value: Any, where: str, *, divided_by: int = 1) -> int:
    """Rounded to nano-dollars. A credit is negative. `divided_by`: 100 for cents."""
    number = _decimal(value, where)
    if number.copy_abs() > _MAX_DOLLARS * divided_by:  # `abs` fails for the largest exponents
        raise ExportError(f"{where}: the amount is too large")
    nano = _NANO.divide(number.scaleb(9, _NANO), Decimal(divided_by))
    return int(nano.to_integral_value(rounding=ROUND_HALF_EVEN))


def with_rounding(rows: list[ExportRow]) -> list[ExportRow]:
    """Of a file whose costs may be rounded: to cents, if none of them has a part of one. How many decimals a single
    amount has says nothing: programs leave out zeros behind the point."""
    costs = [row.amounts.cost or 0 for row in rows]
    if any(cost % _CENT for cost in costs):
        return rows
    return [structs.replace(row, amounts=structs.replace(row.amounts, rounding=_CENT // 2)) for row in rows]


def moment_of(value: Any, where: str) -> int:
    """A date or a time in UTC, as text, in Unix milliseconds."""
    found = _MOMENT.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        if found is not None:
            at = datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00'}+00:00")
            return in_range((at - _EPOCH) // timedelta(milliseconds=1), where)
    except ExportError:
        raise
    except ValueError:
        pass  # a date that does not exist
    raise ExportError(f"{where}: expected a date or a time in UTC, found {shown(value)}")


def in_range(at_ms: int, where: str) -> int:
    """A moment that a bill can be about: others are a mistake in the file."""
    if not _EARLIEST_MS <= at_ms < _LATEST_MS:
        raise ExportError(f"{where}: the time is not of this century")
    return at_ms


def text_of(value: Any) -> str | None:
    """A name. None: there is none."""
    return value.strip() or None if isinstance(value, str) else None


def shown(value: Any) -> str:
    """A foreign value in a message, bounded."""
    return repr(cut(str(value), 40))


def start_of_day(at_ms: int, zone: Zone) -> int:
    """The beginning of the day that this moment is in, in Unix milliseconds."""
    local = at_ms - _behind_utc(at_ms, zone)
    midnight = local // DAY_MS * DAY_MS
    return midnight_in(midnight, zone)


def midnight_in(day_ms: int, zone: Zone) -> int:
    """When a day begins in a zone; `day_ms`: when it begins in UTC."""
    return day_ms if zone == "UTC" else day_ms + _behind_utc(day_ms + 8 * HOUR_MS, zone)


def day_name(at_ms: int, zone: Zone = "UTC") -> str:
    """`2026-11-18`: the day that a moment is in."""
    return (_EPOCH + timedelta(milliseconds=at_ms - _behind_utc(at_ms, zone))).date().isoformat()


def _behind_utc(at_ms: int, zone: Zone) -> int:
    """Pacific time of the United States is eight hours behind, and seven from the second Sunday of March, 10:00 UTC,
    to the first of November, 09:00 UTC."""
    if zone == "UTC":
        return 0
    at = _EPOCH + timedelta(milliseconds=at_ms)
    begins = _sunday(at.year, 3, 2) + timedelta(hours=10)
    ends = _sunday(at.year, 11, 1) + timedelta(hours=9)
    return (7 if begins <= at < ends else 8) * HOUR_MS


def _sunday(year: int, month: int, number: int) -> datetime:
    first = datetime(year, month, 1, tzinfo=UTC)
    return first + timedelta(days=(6 - first.weekday()) % 7 + 7 * (number - 1))


def _decimal(value: Any, where: str) -> Decimal:
    """Floats are read as the decimal number that they are printed as, which is the one that was written."""
    if isinstance(value, str):
        value = value.strip().replace(",", "").removeprefix("$")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise ExportError(f"{where}: expected a number, found {shown(value)}")
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise ExportError(f"{where}: expected a number, found {shown(value)}") from None
    if not number.is_finite():
        raise ExportError(f"{where}: expected a number, found {shown(value)}")
    return number


def member(document: Any, name: str, where: str) -> Any:
    """A member of an object. None: it is absent or null."""
    if not isinstance(document, Mapping):
        raise ExportError(f"{where}: expected an object")
    return document.get(name)


def elements(document: Any, name: str, where: str) -> list[Any]:
    found = member(document, name, where)
    if not isinstance(found, list):
        raise ExportError(f"{where}.{name}: expected a list")
    return found


def without_columns(line: Mapping[str, str] | None, columns: Mapping[str, str]) -> list[str]:
    """`line`: any of the file. `columns`: what each of them is needed for."""
    missing = [name for name in columns if line is not None and name not in line]
    return [f"The file has no column {name}: its {columns[name]} is not compared." for name in missing]


def further_pages(has_more: bool) -> list[str]:
    """`has_more`: of the last page."""
    return ["The last page says has_more: there are further pages, which are not in this file."] if has_more else []
