"""The prices for the admission of a request: one quote over all targets that may answer it.

A quote has the cost of each target, by the price list, and what it is sold for (`policy.price_group`). The version of a
quote names the list, and what of the operator's file replaced the cost; together with the time of the request it
identifies the prices permanently.
"""

from collections.abc import Sequence

from streamweir.policy.charge_rule import DEFAULT_RULES
from streamweir.policy.price_group import Sale
from streamweir.policy.prices import Quote, Rates
from streamweir.policy.pricetable import BUILT_IN, PriceTable

Target = tuple[str, str, str]
"""The provider's name, its kind, the provider's name of the model."""

BUILT_IN_VERSION = "built-in"


class PriceBook:
    def __init__(self, table: PriceTable) -> None:
        self.table = table

    def quote(self, targets: Sequence[Target], sale: Sale, at_ms: int) -> Quote:
        """Not cached here: see `server.request.route_prices`."""
        rates = {f"{name}/{model}": self.table.find(kind, model, at_ms) for name, kind, model in targets}
        sold = {target: sale.price_of(cost, at_ms) for target, cost in rates.items()}
        source = max((source for _, source in sold.values()), key=len, default="")
        rules = sale.group.rules if sale.group is not None else DEFAULT_RULES
        return Quote(
            f"{self.table.version}+{source}" if source else self._version(targets),
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
