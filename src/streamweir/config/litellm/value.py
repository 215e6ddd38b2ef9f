"""Converts numbers of the old file: seconds, counts, megabytes, durations, weights.

Each is converted exactly, or left out with a reason if it is out of range. Seconds and counts may also be a variable.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from math import gcd

from streamweir.config.litellm.tree import Branch, number_of
from streamweir.config.litellm.variable import REFERENCE, Variables

Number = Decimal | int | str
"""A text is a reference to a variable."""

_MAX_SECONDS = 86_400
MAX_WEIGHT = 1_000_000
_LENGTH = re.compile(r"(?P<count>\d+(\.\d+)?)\s*(?P<unit>s|m|h|d|w|mo)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "mo": 2_592_000}


def take_seconds(branch: Branch, name: str, variables: Variables) -> Decimal | str | None:
    value = branch.take(name)
    if _is_variable(value):
        return variables.text(value, branch.place(name))
    return _within(branch, name, value, 0, _MAX_SECONDS)


def take_first_event(branch: Branch, variables: Variables) -> Decimal | str | None:
    """From `stream_timeout`, which LiteLLM applies to streams alone."""
    seconds = take_seconds(branch, "stream_timeout", variables)
    if seconds is not None:
        branch.note("stream_timeout", "it holds for whole answers, too")
    return seconds


def take_count(
    branches: Sequence[Branch], name: str, variables: Variables, minimum: int, maximum: int
) -> int | str | None:
    """A whole number, from the first of the branches that has it."""
    found: int | str | None = None
    for branch in branches:
        value = branch.take(name)
        if value is None:
            continue
        if found is not None:
            branch.drop(name, f"{branches[0].where} overrides it")
        elif _is_variable(value):
            found = variables.text(value, branch.place(name))
        else:
            number = number_of(value)
            if number is not None and number == int(number) and minimum <= number <= maximum:
                found = int(number)
            else:
                branch.drop(name, f"a whole number from {minimum} to {maximum} was expected")
    return found


def take_bytes(branch: Branch, name: str) -> int | None:
    """From a size in megabytes."""
    size = _within(branch, name, branch.take(name), 0, 1024)
    return max(1024, int(size * 2**20)) if size is not None else None


def take_days(branch: Branch, name: str) -> Decimal | None:
    """From a duration such as 30d."""
    text = branch.take_text(name)
    if text is None:
        return None
    found = _LENGTH.fullmatch(text.strip())
    days = Decimal(found["count"]) * _SECONDS[found["unit"]] / 86_400 if found is not None else Decimal(0)
    if not 0 < days <= 36_500:
        branch.drop(name, "a length such as 30d was expected")
        return None
    return round(days, 6).normalize()


def integer_weights(weights: Sequence[Decimal]) -> list[int]:
    """Integers from 1 to a million in nearly the same proportion."""
    minimum = min(weights)
    scale = Decimal(1)
    while any(weight * scale != int(weight * scale) for weight in weights) and minimum * scale < 1000:
        scale *= 10
    maximum = max(weights) * scale
    if maximum > MAX_WEIGHT:
        scale *= MAX_WEIGHT / maximum
    whole = [max(1, round(weight * scale)) for weight in weights]
    common = gcd(*whole)
    return [weight // common for weight in whole]


def _is_variable(value: object) -> bool:
    return isinstance(value, str) and value.startswith(REFERENCE)


def _within(branch: Branch, name: str, value: object, above: int, maximum: int) -> Decimal | None:
    if value is None:
        return None
    number = number_of(value)
    if number is None or not above < number <= maximum:
        branch.drop(name, f"a number above {above}, at most {maximum}, was expected")
        return None
    return number
