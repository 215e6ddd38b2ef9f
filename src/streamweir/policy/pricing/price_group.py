"""What a request is sold for: the prices of a price group, else the model's own price, else its cost.

A key or a workspace names a group; the group `default` is that of all others. One group applies to a request: it has
prices for models by name or pattern, a markup on the cost for all others, and rules for requests that went wrong
(`policy.pricing.charge_rule`). Of several prices for one model the latest that has begun applies. Pure: costs and time
are arguments.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, structs

from streamweir.policy.pricing.charge_rule import DEFAULT_RULES, ChargeRules
from streamweir.policy.pricing.prices import Rates, Service, Tier
from streamweir.policy.routing.route import is_pattern, matches_pattern

DEFAULT_GROUP = "default"
PERCENT = 1000
"""Markups are in thousandths of a percent."""
_WHOLE = 100 * PERCENT


class DatedPrice(Struct, frozen=True, kw_only=True):
    """A price from some time on: rates of its own, or a markup on the cost."""

    from_ms: int | None = None
    """None: always."""
    rates: Rates | None = None
    markup: int = 0
    """Without rates."""

    def of(self, cost: Rates | None) -> Rates | None:
        """None: it is a markup on a cost that is not known."""
        if self.rates is not None or cost is None:
            return self.rates
        return with_markup(cost, self.markup)


DatedPrices = tuple[DatedPrice, ...]


class PriceGroup(Struct, frozen=True, kw_only=True, dict=True):
    name: str
    markup: int | None = None
    """For models that `prices` does not name."""
    prices: Mapping[str, DatedPrices] = {}
    """By the model's name as callers ask for it, or a pattern."""
    rules: ChargeRules = DEFAULT_RULES

    @cached_property
    def _patterns(self) -> Sequence[str]:
        """Those with more characters besides `*` first."""
        return sorted(filter(is_pattern, self.prices), key=lambda name: name.count("*") - len(name))

    def price_of(self, model: str, cost: Rates | None, at_ms: int) -> Rates | None:
        """None: it has no price for this model."""
        named = [model] if model in self.prices and not is_pattern(model) else []
        for name in (*named, *(each for each in self._patterns if matches_pattern(model, each))):
            price = in_force(self.prices[name], at_ms)
            if price is not None:
                return price.of(cost)
        return with_markup(cost, self.markup) if self.markup is not None and cost is not None else None


class Sale(Struct, frozen=True, kw_only=True):
    """By what the requests for one model are sold."""

    model: str
    """As callers ask for it."""
    own: DatedPrices = ()
    """The model's own price."""
    group: PriceGroup | None = None

    def price_of(self, cost: Rates | None, at_ms: int) -> tuple[Rates | None, str]:
        """And where it comes from: `group:{name}`, `config`, or empty if it is sold at cost."""
        group, own = self.group, in_force(self.own, at_ms)
        price = group.price_of(self.model, cost, at_ms) if group is not None else None
        if group is not None and price is not None:
            return price, f"group:{group.name}"
        price = own.of(cost) if own is not None else None
        return (price, "config") if price is not None else (cost, "")


def in_force(prices: DatedPrices, at_ms: int) -> DatedPrice | None:
    begun = [price for price in prices if price.from_ms is None or price.from_ms <= at_ms]
    return max(begun, key=lambda price: (price.from_ms is not None, price.from_ms or 0), default=None)


def with_markup(rates: Rates, markup: int) -> Rates:
    """Each rate, also those of tiers and services, rounded half up."""
    return _scaled(rates, _WHOLE + markup) if markup else rates


def _scaled(rates: Rates, factor: int) -> Rates:
    changed: dict[str, Any] = {}
    for name in Rates.__struct_fields__:
        value = getattr(rates, name)
        if isinstance(value, int):
            changed[name] = (value * factor + _WHOLE // 2) // _WHOLE
    changed["tiers"] = tuple(Tier(tier.above, _scaled(tier.rates, factor)) for tier in rates.tiers)
    changed["services"] = tuple(Service(each.name, _scaled(each.rates, factor)) for each in rates.services)
    return structs.replace(rates, **changed)
