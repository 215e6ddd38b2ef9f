"""The prices of a route and its fallbacks: the quote, and its text, which the reservation stores.

They depend on the price group of the caller, and are needed for nearly every request, so they are cached for a minute.
Callers choose the names of routes (`{provider}/{anything}`, names that match a pattern), so the cache is bounded.
"""

from collections.abc import Mapping

from msgspec import structs

from streamweir.core.errors import CallerError
from streamweir.core.request import ChatRequest
from streamweir.pipeline.search_bound import searches_of, searches_unasked
from streamweir.policy.pricing.price_group import DEFAULT_GROUP, DatedPrices, PriceGroup, Sale
from streamweir.policy.pricing.pricebook import PriceBook
from streamweir.policy.pricing.prices import Quote, encode_quote
from streamweir.policy.pricing.target_cost import TargetCosts
from streamweir.policy.routing.route import Route

_MAX_ROUTES = 4096
"""Routes whose prices are cached."""
_MINUTE_MS = 60_000
_UNKNOWN_GROUP = (
    'The price group "{}" of this key or workspace is not in the configuration, so no price is known. '
    "Add it under [[price_groups]], or give the key or workspace another."
)


class RoutePrices:
    def __init__(
        self,
        prices: PriceBook,
        kinds: Mapping[str, str],
        own_prices: Mapping[str, DatedPrices],
        groups: Mapping[str, PriceGroup],
        costs: TargetCosts,
    ) -> None:
        """`kinds`: of the providers, by name. `own_prices`: those of models, by model id. `groups`: by name. `costs`:
        of targets, as far as the operator's file has them."""
        self.prices = prices
        self._kinds = kinds
        self._own_prices = own_prices
        self._groups = groups
        self._costs = costs
        self._minute = -1
        self._cache: dict[tuple[str, str | None], tuple[Quote, str]] = {}

    @property
    def groups(self) -> Mapping[str, PriceGroup]:
        return self._groups

    def of(self, route: Route, at_ms: int, group: str | None = None) -> tuple[Quote, str]:
        """`group`: the price group of the caller. Raises `CallerError` if there is none of this name."""
        minute = at_ms // _MINUTE_MS
        if minute != self._minute or len(self._cache) >= _MAX_ROUTES:
            self._cache.clear()
            self._minute = minute
        # Names that match one pattern differ only in what a group sells them for.
        key = (route.id if self._groups else route.configured_id, group)
        cached = self._cache.get(key)
        if cached is None:
            found = self._group(group)
            quotes = [self._quote(each, found, at_ms) for each in (route, *route.reachable)]
            quote = self.prices.combine(quotes)
            if searches := searches_unasked(quote.rates):
                quote = structs.replace(quote, searches=searches)
            cached = self._cache[key] = (quote, encode_quote(quote))
        return cached

    def _group(self, name: str | None) -> PriceGroup | None:
        found = self._groups.get(name or DEFAULT_GROUP)
        if found is None and name is not None:
            raise CallerError("model_unpriced", _UNKNOWN_GROUP.format(name))
        return found

    def _quote(self, route: Route, group: PriceGroup | None, at_ms: int) -> Quote:
        """Of its own targets."""
        targets = [
            (entry.target.provider, self._kinds[entry.target.provider], entry.target.model) for entry in route.targets
        ]
        sale = Sale(model=route.id, own=self._own_prices.get(route.configured_id, ()), group=group)
        return self.prices.quote(targets, sale, at_ms, self._costs)


def cover_searches(quote: Quote, chat: ChatRequest) -> Quote:
    """The quote by which the request is reserved: with as many searches as it allows."""
    searches = searches_of(chat)
    return structs.replace(quote, searches=searches) if searches > quote.searches else quote
