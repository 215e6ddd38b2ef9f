"""Types of command-line arguments: amounts, durations, dates, or none.

Amounts are decimal and become integer nano-dollars, never floats. Times are durations (`90s 30m 12h 30d 2w`) or dates,
in the local time zone. The current time is an argument.
"""

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import click

from streamweir.policy.limits.budget import nano_of

NO_LIMIT = "none"
"""Removes a limit."""

_AMOUNT = re.compile(r"(?P<sign>[+-]?)\$?(?P<number>\d{1,9}(?:\.\d{1,9})?)", re.ASCII)
_LENGTH = re.compile(r"(?P<count>\d{1,7})(?P<unit>[smhdw])", re.ASCII)
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def parse_dollars(text: str) -> int | None:
    """In nano-dollars. None if it is not an amount."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        return None
    nano = nano_of(Decimal(found["number"]))
    return -nano if found["sign"] == "-" else nano


def parse_length(text: str) -> int | None:
    """In milliseconds. None if it is not a duration."""
    found = _LENGTH.fullmatch(text.strip())
    if found is not None:
        return int(found["count"]) * _UNIT_MS[found["unit"]]
    return 0 if text.strip() == "0" else None


def parse_moment(text: str, now_ms: int) -> int | None:
    """In Unix milliseconds: a duration from now, or a date with or without a time. None if it is neither."""
    length = parse_length(text)
    if length is not None:
        return now_ms + length
    try:
        moment = datetime.fromisoformat(text.strip())
        return round((moment if moment.tzinfo is not None else moment.astimezone()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


class _ParsedType(click.ParamType[int]):
    def __init__(self, name: str, expected: str, parse: Callable[[str], int | None]) -> None:
        self.name = name
        self._expected = expected
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = self._parse(value)
        if found is None:
            self.fail(f"expected {self._expected}", param, ctx)
        return found


class OrNone(click.ParamType[Any]):
    """Accepts what `inner` accepts, or `none`, which stays a string: None means that the option was not given."""

    def __init__(self, inner: click.ParamType[Any]) -> None:
        self.name = inner.name
        self._inner = inner

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return NO_LIMIT if value in (NO_LIMIT, "never") else self._inner.convert(value, param, ctx)


def moment_type(now_ms: Callable[[], int]) -> click.ParamType[int]:
    expected = "a length such as 30d or 12h, or a date such as 2027-01-31"
    return _ParsedType("30d|DATE", expected, lambda text: parse_moment(text, now_ms()))


DOLLARS: click.ParamType[int] = _ParsedType(
    "USD", "dollars such as 25 or 0.50, with nine decimals at the most", parse_dollars
)
LENGTH: click.ParamType[int] = _ParsedType("1h", "a length such as 90s, 30m, 1h, 7d or 2w, or 0", parse_length)
SEQ = click.IntRange(1, 2**63 - 1)
"""The number of a row."""
