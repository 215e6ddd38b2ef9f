"""What a request is admitted at: one quote over all targets that may come to answer it.

The operator's own price for a model stands over the table for every target of it, whole: nothing of
the table is mixed in. The version says which table a quote was made from and whether the operator's
file was over it; together with the moment of the request that names its prices for good. Asked for
every request, so quotes are remembered, for as long as no price can change: a minute.
"""

from collections.abc import Sequence

from streamweir.policy.prices import Quote, Rates
from streamweir.policy.pricetable import BUILT_IN, PriceTable

Target = tuple[str, str, str]
"""The provider's name, its kind, the model as the provider knows it."""

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

    def _make(self, targets: Sequence[Target], override: Rates | None, at_ms: int) -> Quote:
        rates = {
            f"{name}/{model}": override if override is not None else self.table.find(kind, model, at_ms)
            for name, kind, model in targets
        }
        return Quote(self._version(targets, override), rates)

    def _version(self, targets: Sequence[Target], override: Rates | None) -> str:
        if override is not None:
            return f"{self.table.version}+config"
        return "built-in" if all(kind in BUILT_IN for _, kind, _ in targets) else self.table.version
