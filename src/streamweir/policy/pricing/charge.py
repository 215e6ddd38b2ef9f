"""What a request costs and what is charged for it, by the quote of its admission.

Cost and price have rates of their own (`policy.pricing.prices.Quote`). If the request went wrong, a rule of its price
group says what is charged (`policy.pricing.charge_rule`). Pure; a settlement and the settlement of an orphan use the
same functions.
"""

from msgspec import Struct, structs

from streamweir.core.delivered import DeliveredPart, delivered_usage
from streamweir.core.usage import Usage
from streamweir.policy.pricing.charge_rule import DEFAULT_RULES, Case, charged
from streamweir.policy.pricing.prices import Quote, Rates, cost_of


class Charge(Struct, frozen=True, gc=False):
    """What a request costs and what it is sold for, in nano-dollars, with their rates. None: not known."""

    cost: int | None
    price: int | None
    rates: Rates | None = None
    """Of the price."""
    cost_rates: Rates | None = None
    rule: str | None = None
    """Of a request that went wrong: the case and its rule, such as `caller_left:used`."""

    @property
    def rates_text(self) -> str | None:
        return self.rates.text if self.rates is not None else None

    @property
    def cost_rates_text(self) -> str | None:
        """None also if they are those of the price."""
        if self.cost_rates is None or self.cost_rates is self.rates or self.cost_rates == self.rates:
            return None
        return self.cost_rates.text


_NOTHING = Charge(0, 0)


def charge_of(
    quote: Quote, target: str | None, usage: Usage | None, service_tier: str | None = None, credential: str = ""
) -> Charge:
    """Of a request that `target` answered. Unused tokens cost nothing, whatever their price.

    `credential`: that of the provider, by which it was asked. Empty: it has only one, or it is not known which.
    """
    if usage is None or target is None:
        return _NOTHING
    if credential and f"{target}@{credential}" in quote.rates:  # see `policy.pricing.target_cost`
        target = f"{target}@{credential}"
    rates = quote.rates.get(target)
    cost = cost_of(usage, rates, service_tier) if rates is not None else None
    if quote.prices is None:
        return Charge(cost, cost, rates, rates)
    sold = quote.prices.get(target)
    return Charge(cost, cost_of(usage, sold, service_tier) if sold is not None else None, sold, rates)


def by_rule(
    charge: Charge,
    quote: Quote,
    case: Case,
    usage: Usage | None,
    service_tier: str | None = None,
    delivered: DeliveredPart | None = None,
) -> Charge:
    """`charge` as the rule for this case says. `delivered`: the part of the answer that was sent, if not all."""
    rule = (quote.rules or DEFAULT_RULES).of(case)
    price_delivered = charge.price
    if rule == "delivered" and delivered is not None and usage is not None and charge.rates is not None:
        price_delivered = cost_of(delivered_usage(usage, delivered), charge.rates, service_tier)
    price = charged(rule, charge.cost, charge.price, price_delivered)
    return structs.replace(charge, price=price, rule=f"{case}:{rule}")
