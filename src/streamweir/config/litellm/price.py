"""Converts the prices of a deployment: from US dollars per token to a price of ours, with its tiers and service tiers.

LiteLLM writes a tier and a service tier into the name of a setting: `input_cost_per_token_above_200k_tokens`,
`output_cost_per_token_flex`. What is given for a batch, a second, a character or an image has no equivalent.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from streamweir.config.litellm.report import Place
from streamweir.config.litellm.tree import Branch

Price = dict[str, Any]
"""As a table of our file: amounts, and lists of tables."""

_MAX_DOLLARS = 1_000_000
_MILLION = 1_000_000
_PER_TOKEN = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "input_cost_per_audio_token": "audio_input",
    "output_cost_per_audio_token": "audio_output",
    "input_cost_per_image_token": "image_input",
    "output_cost_per_image_token": "image_output",
    "output_cost_per_reasoning_token": "reasoning",
}
_PER_REQUEST = {"input_cost_per_request": "per_request"}
_SEARCH = "search_context_cost_per_query"
_SEARCH_SIZES = ("search_context_size_medium", "search_context_size_low", "search_context_size_high")
"""The first that is there is converted: a request without a size has the medium one."""
_NAME = re.compile(r"(?P<base>.+?)(?P<above>_above_(?P<thousands>\d{1,6})k_tokens)?(?P<service>_flex|_priority)?")
_ORDER = (*_PER_TOKEN.values(), *_PER_REQUEST.values(), "per_search", "tiers", "service_tiers")


class _Amount(NamedTuple):
    service: str | None
    """The service tier."""
    above: int | None
    """The start of the tier."""
    name: str
    """Ours."""
    dollars: Decimal
    place: Place


def take_price(branches: Sequence[Branch]) -> tuple[Price | None, list[Place]]:
    """The price, and where it is. Earlier branches override later ones."""
    found: dict[tuple[str | None, int | None], dict[str, Decimal]] = {}
    places: list[Place] = []
    for branch in branches:
        for name in branch.names():
            taken = _take_amount(branch, name) if name != _SEARCH else _take_search(branch.branch(name))
            if taken is None:
                continue
            amounts = found.setdefault((taken.service, taken.above), {})
            if taken.name in amounts:
                branch.report.drop(taken.place, f"{branches[0].where} overrides it")
            else:
                amounts[taken.name] = taken.dollars
                places.append(taken.place)
    if not {"input", "output"} <= found.get((None, None), {}).keys():
        for place in places:
            branches[0].report.drop(place, "a price needs both input_cost_per_token and output_cost_per_token")
        return None, []
    return _price(found), places


def _take_amount(branch: Branch, name: str) -> _Amount | None:
    """None: it is not a price."""
    parts = _NAME.fullmatch(name)
    base = parts["base"] if parts is not None else ""
    ours = _PER_TOKEN.get(base) or _PER_REQUEST.get(base)
    number = branch.take_number(name) if ours is not None else None
    if parts is None or ours is None or number is None:
        return None
    dollars = number if base in _PER_REQUEST else number * _MILLION
    above = int(parts["thousands"]) * 1000 if parts["thousands"] is not None else None
    if not 0 <= dollars <= _MAX_DOLLARS or above == 0:
        branch.drop(name, "not a valid price")
        return None
    service = parts["service"][1:] if parts["service"] is not None else None
    return _Amount(service, above, ours, dollars, branch.place(name))


def _take_search(sizes: Branch) -> _Amount | None:
    found: _Amount | None = None
    for size in _SEARCH_SIZES:
        dollars = sizes.take_number(size)
        if dollars is None:
            continue
        if found is not None:
            sizes.drop(size, "one price holds for all sizes of the context")
        elif not 0 <= dollars <= _MAX_DOLLARS:
            sizes.drop(size, "not a valid price")
        else:
            found = _Amount(None, None, "per_search", dollars, sizes.place(size))
    sizes.report_remaining({})
    return found


def _price(found: dict[tuple[str | None, int | None], dict[str, Decimal]]) -> Price:
    services = sorted({service for service, _ in found if service is not None})
    price: Price = {**found[None, None], **_tiers(found, None)}
    if services:
        price["service_tiers"] = [
            {"name": name, **_in_order({**found.get((name, None), {}), **_tiers(found, name)})} for name in services
        ]
    return _in_order(price)


def _tiers(found: dict[tuple[str | None, int | None], dict[str, Decimal]], service: str | None) -> Price:
    starts = sorted(above for name, above in found if name == service and above is not None)
    return {"tiers": [{"above": above, **_in_order(found[service, above])} for above in starts]} if starts else {}


def _in_order(price: Price) -> Price:
    return {name: price[name] for name in _ORDER if name in price}
