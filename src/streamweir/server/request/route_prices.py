"""The prices of a route and its fallbacks: the quote, and its text, which the reservation stores.

Needed for nearly every request, so they are cached for a minute. Callers choose the names of routes
(`{provider}/{anything}`), so the cache is bounded.
"""

from collections.abc import Mapping

from msgspec import structs

from streamweir.core.request import ChatRequest
from streamweir.pipeline.search_bound import searches_of, searches_unasked
from streamweir.policy.pricebook import PriceBook
from streamweir.policy.prices import Quote, Rates, encode_quote
from streamweir.policy.route import Route

_MAX_ROUTES = 4096
"""Routes whose prices are cached."""
_MINUTE_MS = 60_000


class RoutePrices:
    def __init__(self, prices: PriceBook, kinds: Mapping[str, str], overrides: Mapping[str, Rates]) -> None:
        """`kinds`: of the providers, by name. `overrides`: the operator's own prices, by model id."""
        self.prices = prices
        self._kinds = kinds
        self._overrides = overrides
        self._minute = -1
        self._cache: dict[str, tuple[Quote, str]] = {}

    def of(self, route: Route, at_ms: int) -> tuple[Quote, str]:
        minute = at_ms // _MINUTE_MS
        if minute != self._minute or len(self._cache) >= _MAX_ROUTES:
            self._cache.clear()
            self._minute = minute
        cached = self._cache.get(route.configured_id)
        if cached is None:
            quote = self.prices.combine([self._quote(each, at_ms) for each in (route, *route.reachable)])
            if searches := searches_unasked(quote.rates):
                quote = structs.replace(quote, searches=searches)
            cached = self._cache[route.configured_id] = (quote, encode_quote(quote))
        return cached

    def _quote(self, route: Route, at_ms: int) -> Quote:
        """Of its own targets."""
        targets = [
            (entry.target.provider, self._kinds[entry.target.provider], entry.target.model) for entry in route.targets
        ]
        return self.prices.quote(targets, self._overrides.get(route.configured_id), at_ms)


def cover_searches(quote: Quote, chat: ChatRequest) -> Quote:
    """The quote by which the request is reserved: with as many searches as it allows."""
    searches = searches_of(chat)
    return structs.replace(quote, searches=searches) if searches > quote.searches else quote
