"""The prices for the admission of a request: one quote over all targets that may answer it.

The operator's own price for a model replaces the table for every target, completely: nothing is mixed. The version of a
quote names the table and whether the operator's file replaced it; together with the time of the request it identifies
the prices permanently. A quote is needed for every request, so quotes are cached for as long as no price can change: a
minute.
"""

from collections.abc import Sequence

from streamweir.policy.prices import Quote, Rates
from streamweir.policy.pricetable import BUILT_IN, PriceTable

Target = tuple[str, str, str]
"""The provider's name, its kind, the provider's name of the model."""

BUILT_IN_VERSION = "built-in"
_MINUTE_MS = 60_000


class PriceBook:
    def __init__(self, table: PriceTable, max_quotes: int = 4096) -> None:
        self.table = table
        self._max_quotes = max_quotes
        self._minute = -1
        self._quotes: dict[tuple[tuple[Target, ...], Rates | None], Quote] = {}

    def quote(self, targets: Sequence[Target], override: Rates | None, at_ms: int) -> Quote:
        minute = at_ms // _MINUTE_MS
        if minute != self._minute or len(self._quotes) >= self._max_quotes:
            self._quotes.clear()
            self._minute = minute
        key = (tuple(targets), override)
        quote = self._quotes.get(key)
        if quote is None:
            quote = self._quotes[key] = self._make(targets, override, at_ms)
        return quote

    def combine(self, quotes: Sequence[Quote]) -> Quote:
        """One quote over all targets. A target that is in several has the price of the first."""
        if len(quotes) == 1:
            return quotes[0]
        rates = {target: rates for quote in reversed(quotes) for target, rates in quote.rates.items()}
        versions = {quote.version for quote in quotes} - {BUILT_IN_VERSION}
        return Quote(max(versions, key=len, default=BUILT_IN_VERSION), rates)  # the file's is the longer one

    def _make(self, targets: Sequence[Target], override: Rates | None, at_ms: int) -> Quote:
        rates = {
            f"{name}/{model}": override if override is not None else self.table.find(kind, model, at_ms)
            for name, kind, model in targets
        }
        return Quote(self._version(targets, override), rates)

    def _version(self, targets: Sequence[Target], override: Rates | None) -> str:
        if override is not None:
            return f"{self.table.version}+config"
        return BUILT_IN_VERSION if all(kind in BUILT_IN for _, kind, _ in targets) else self.table.version
