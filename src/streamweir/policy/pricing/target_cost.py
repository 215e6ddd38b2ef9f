"""What targets cost: by the operator's file, else by the price list, and less with accounts that have a discount.

A quote has the cost of a target under its name. A credential that pays another one has an entry of its own,
`{target}@{credential}`; the entry of the target is the highest of its credentials' costs, for those who do not know
which of them is used.
"""

from collections.abc import Mapping

from msgspec import Struct

from streamweir.policy.pricing.price_group import with_markup
from streamweir.policy.pricing.prices import Rates
from streamweir.policy.pricing.pricetable import PriceTable


class TargetCosts(Struct, frozen=True, kw_only=True):
    own: Mapping[str, Rates] = {}
    """Those of the operator's file, by target."""
    discounts: Mapping[str, Mapping[str, int]] = {}
    """By provider, and then by credential, in thousandths of a percent: all credentials of a provider that has any."""

    def is_own(self, provider: str, model: str) -> bool:
        """Whether the operator's file says something about it."""
        return f"{provider}/{model}" in self.own or provider in self.discounts

    def of(self, table: PriceTable, provider: str, kind: str, model: str, at_ms: int) -> dict[str, Rates | None]:
        """The entries of one target for a quote."""
        target = f"{provider}/{model}"
        cost = self.own.get(target) or table.find(kind, model, at_ms)
        discounts = self.discounts.get(provider)
        if cost is None or not discounts:
            return {target: cost}
        least = min(discounts.values())
        entries: dict[str, Rates | None] = {target: with_markup(cost, -least)}
        for credential, discount in discounts.items():
            if discount != least:
                entries[f"{target}@{credential}"] = with_markup(cost, -discount)
        return entries
