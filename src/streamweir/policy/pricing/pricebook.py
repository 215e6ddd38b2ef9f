"""The prices for the admission of a request: one quote over all targets that may answer it.

A quote has the cost of each target (`policy.pricing.target_cost`), and what it is sold for
(`policy.pricing.price_group`). The version of a quote names the list, and what of the operator's file replaced it;
together with the time of the request it identifies the prices permanently.
"""

from collections.abc import Sequence

from streamweir.policy.pricing.charge_rule import DEFAULT_RULES
from streamweir.policy.pricing.price_group import Sale
from streamweir.policy.pricing.prices import Quote, Rates
from streamweir.policy.pricing.pricetable import BUILT_IN, PriceTable
from streamweir.policy.pricing.target_cost import TargetCosts

Target = tuple[str, str, str]
"""The provider's name, its kind, the provider's name of the model."""

BUILT_IN_VERSION = "built-in"
_LISTED = TargetCosts()


class PriceBook:
    def __init__(self, table: PriceTable) -> None:
        self.table = table

    def quote(self, targets: Sequence[Target], sale: Sale, at_ms: int, costs: TargetCosts = _LISTED) -> Quote:
        """Not cached here: see `server.request.runtime.route_prices`."""
        rates: dict[str, Rates | None] = {}
        for name, kind, model in targets:
            rates.update(costs.of(self.table, name, kind, model, at_ms))
        sold = {target: sale.price_of(cost, at_ms) for target, cost in rates.items()}
        source = max((source for _, source in sold.values()), key=len, default="")
        rules = sale.group.rules if sale.group is not None else DEFAULT_RULES
        is_own = any(costs.is_own(name, model) for name, _, model in targets)
        suffix = source or ("config" if is_own else "")
        return Quote(
            f"{self.table.version}+{suffix}" if suffix else self._version(targets),
            rates,
            {target: price for target, (price, _) in sold.items()} if source else None,
            rules=rules if rules != DEFAULT_RULES else None,
        )

    def combine(self, quotes: Sequence[Quote]) -> Quote:
        """One quote over all targets, of one price group. A target that is in several has the price of the first."""
        if len(quotes) == 1:
            return quotes[0]
        rates = {target: rates for quote in reversed(quotes) for target, rates in quote.rates.items()}
        prices: dict[str, Rates | None] | None = None
        if any(quote.prices is not None for quote in quotes):
            prices = {target: rates for quote in reversed(quotes) for target, rates in quote.sold.items()}
        versions = {quote.version for quote in quotes} - {BUILT_IN_VERSION}
        version = max(versions, key=len, default=BUILT_IN_VERSION)  # the file's is the longer one
        return Quote(version, rates, prices, rules=quotes[0].rules)

    def _version(self, targets: Sequence[Target]) -> str:
        return BUILT_IN_VERSION if all(kind in BUILT_IN for _, kind, _ in targets) else self.table.version
