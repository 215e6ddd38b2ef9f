"""The prices of a route, ready for the books: the quote, and the text that its hold keeps of it.

Asked for every request, so what was made for a route is kept for as long as no price can change.
Callers choose names of routes (`{provider}/{anything}`): what is kept is bounded.
"""

from collections.abc import Mapping

from streamweir.policy.pricebook import PriceBook
from streamweir.policy.prices import Quote, Rates, encode_quote
from streamweir.policy.route import Route

_MINUTE_MS = 60_000
_MOST = 4096


class RoutePrices:
    def __init__(self, prices: PriceBook, kinds: Mapping[str, str], overrides: Mapping[str, Rates]) -> None:
        """`kinds` of the providers by their names; `overrides`: the operator's own prices by the model's id."""
        self.prices = prices
        self._kinds = kinds
        self._overrides = overrides
        self._minute = -1
        self._made: dict[str, tuple[Quote, str]] = {}

    def of(self, route: Route, at_ms: int) -> tuple[Quote, str]:
        minute = at_ms // _MINUTE_MS
        if minute != self._minute or len(self._made) >= _MOST:
            self._made.clear()
            self._minute = minute
        made = self._made.get(route.id)
        if made is None:
            targets = [
                (each.target.provider, self._kinds[each.target.provider], each.target.model) for each in route.targets
            ]
            quote = self.prices.quote(targets, self._overrides.get(route.id), at_ms)
            made = self._made[route.id] = (quote, encode_quote(quote))
        return made
