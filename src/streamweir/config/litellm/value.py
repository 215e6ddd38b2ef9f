"""Converts numbers of the old file: seconds, megabytes, durations, prices, weights.

Each is converted exactly, or left out with a note if it is out of range. Seconds may also be a variable.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from math import gcd

from streamweir.config.litellm.tree import Branch, number_of
from streamweir.config.litellm.variable import REFERENCE, Variables

_MAX_SECONDS = 86_400
_MAX_DOLLARS = 1_000_000
_MAX_WEIGHT = 1_000_000
_LENGTH = re.compile(r"(?P<count>\d+(\.\d+)?)\s*(?P<unit>s|m|h|d|w|mo)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "mo": 2_592_000}


def take_seconds(branch: Branch, name: str, variables: Variables) -> Decimal | str | None:
    value = branch.take(name)
    if isinstance(value, str) and value.startswith(REFERENCE):
        return variables.text(value, branch.path_of(name))
    return _take_within(branch, name, value, 0, _MAX_SECONDS)


def take_bytes(branch: Branch, name: str) -> int | None:
    """From a size in megabytes."""
    size = _take_within(branch, name, branch.take(name), 0, 1024)
    return max(1024, int(size * 2**20)) if size is not None else None


def take_days(branch: Branch, name: str) -> Decimal | None:
    """From a duration such as 30d."""
    text = branch.take_text(name)
    if text is None:
        return None
    found = _LENGTH.fullmatch(text.strip())
    days = Decimal(found["count"]) * _SECONDS[found["unit"]] / 86_400 if found is not None else Decimal(0)
    if not 0 < days <= 36_500:
        branch.notes.add_dropped(branch.path_of(name), "a length such as 30d was expected")
        return None
    return round(days, 6).normalize()


def take_price(branches: Sequence[Branch]) -> dict[str, Decimal] | None:
    """From US dollars per token. Earlier branches override later ones."""
    found: dict[str, Decimal] = {}
    for ours, theirs in (
        ("input", "input_cost_per_token"),
        ("output", "output_cost_per_token"),
        ("cache_read", "cache_read_input_token_cost"),
        ("cache_write", "cache_creation_input_token_cost"),
        ("cache_write_1h", "cache_creation_input_token_cost_above_1hr"),
    ):
        for branch in branches:
            number = branch.take_number(theirs)
            if number is None or ours in found:
                continue
            if not 0 <= number * 1_000_000 <= _MAX_DOLLARS:
                branch.notes.add_dropped(branch.path_of(theirs), "not a valid price")
                continue
            found[ours] = number * 1_000_000
    if not found:
        return None
    if not {"input", "output"} <= found.keys():
        branches[0].notes.add_dropped(
            branches[0].where, "a price needs both input_cost_per_token and output_cost_per_token"
        )
        return None
    return found


def integer_weights(weights: Sequence[Decimal]) -> list[int]:
    """Integers from 1 to a million in nearly the same proportion."""
    minimum = min(weights)
    scale = Decimal(1)
    while any(weight * scale != int(weight * scale) for weight in weights) and minimum * scale < 1000:
        scale *= 10
    maximum = max(weights) * scale
    if maximum > _MAX_WEIGHT:
        scale *= _MAX_WEIGHT / maximum
    whole = [max(1, round(weight * scale)) for weight in weights]
    common = gcd(*whole)
    return [weight // common for weight in whole]


def _take_within(branch: Branch, name: str, value: object, above: int, maximum: int) -> Decimal | None:
    if value is None:
        return None
    number = number_of(value)
    if number is None or not above < number <= maximum:
        branch.notes.add_dropped(branch.path_of(name), f"a number above {above}, at most {maximum}, was expected")
        return None
    return number
