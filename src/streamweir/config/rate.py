"""A price of the operator's file, as the rates that requests are billed by.

A tier or a service tier sets what differs from the price that it belongs to, and has the rest of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from json import dumps
from typing import Any

from streamweir.config.error import ConfigProblem, entry
from streamweir.config.model import Price, PriceParts, PriceTier
from streamweir.policy.pricing.prices import PER_UNIT, TOKEN_RATES, Rates, Service, Tier, rate_of

_HOUR_TO_MINUTES = Decimal("1.6")
"""Anthropic's price for an hour in the cache (twice its input) divided by that for five minutes (1.25 times). Only one
provider has caches of an hour: if the rate for that is not given, it is derived from the other one by this."""


def rates_of(price: Price) -> Rates:
    own = _amounts(price)
    services = tuple(Service(each.name, _rates(own | _amounts(each), each.tiers)) for each in price.service_tiers)
    return _rates(own, price.tiers, services)


def check_price(price: Price, where: str) -> Iterator[ConfigProblem]:
    """What the types cannot express: each tier is there once."""
    yield from _check_tiers(price.tiers, f"{where}.tiers")
    first: dict[str, int] = {}
    for index, service in enumerate(price.service_tiers):
        at = entry(f"{where}.service_tiers", index)
        if first.setdefault(service.name, index) != index:
            before = entry(f"{where}.service_tiers", first[service.name])
            yield ConfigProblem(f"{at}.name", f"{dumps(service.name)} is already used by {before}")
        yield from _check_tiers(service.tiers, f"{at}.tiers")


def _check_tiers(tiers: Sequence[PriceTier], where: str) -> Iterator[ConfigProblem]:
    first: dict[int, int] = {}
    for index, tier in enumerate(tiers):
        if first.setdefault(tier.above, index) != index:
            yield ConfigProblem(
                f"{entry(where, index)}.above", f"is the same as that of {entry(where, first[tier.above])}"
            )


def _rates(amounts: Mapping[str, float], tiers: Sequence[PriceTier], services: tuple[Service, ...] = ()) -> Rates:
    steps = sorted(tiers, key=lambda tier: tier.above)
    found: dict[str, Any] = _nano(amounts)
    return Rates(
        **found,
        tiers=tuple(Tier(step.above, Rates(**_nano({**amounts, **_amounts(step)}))) for step in steps),
        services=services,
    )


def _amounts(price: PriceParts) -> dict[str, float]:
    """The members that are set."""
    found = ((name, getattr(price, name)) for name in (*TOKEN_RATES, *PER_UNIT))
    return {name: dollars for name, dollars in found if dollars is not None}


def _nano(amounts: Mapping[str, float]) -> dict[str, Any]:
    written, kept = amounts.get("cache_write"), amounts.get("cache_write_1h")
    if kept is None and written is not None:
        amounts = {**amounts, "cache_write_1h": float(Decimal(repr(written)) * _HOUR_TO_MINUTES)}
    return {name: rate_of(dollars) for name, dollars in amounts.items()}
