"""What the models of a route read and write at the most, as far as a reservation needs to know it.

Asked for every request whose money is limited, so it is made once for a route and kept for as long as the
price table is the same. Callers choose names of routes (`{provider}/{anything}`): what is kept is bounded.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from streamweir.config.model import Store
from streamweir.pipeline.prompt_bound import IMAGE_TOKENS, SMALL_TOKEN_IMAGE
from streamweir.policy.pricebook import PriceBook
from streamweir.policy.pricetable import PriceTable
from streamweir.policy.route import Route
from streamweir.providers.outputs import longest_answer

_SMALL_TOKENS = re.compile(r"4o-mini")
_READ_IMAGES_ALONE = frozenset({"anthropic", "azure", "openai"})
"""Kinds of providers for which the address of a picture is that of a picture."""
_MOST = 4096


class ModelLimits(Struct, frozen=True, kw_only=True):
    image_tokens: int
    """The most that a picture takes."""
    links_are_images: bool
    """None of them reads anything else from the address of a picture."""
    widest: int
    """The most tokens that any of them reads, where that is known of it; else what is assumed."""
    narrowest: int | None
    """The least that any of them reads. None: that is known of none."""
    answer: int
    """The longest that each of them gives."""


class ModelLimitsTable:
    def __init__(self, kinds: Mapping[str, str], prices: PriceBook, store: Store) -> None:
        """`kinds` of the providers by their names."""
        self._kinds = kinds
        self._prices = prices
        self._store = store
        self._made: dict[str, ModelLimits] = {}
        self._made_by: PriceTable | None = None

    def of(self, route: Route) -> ModelLimits:
        table = self._prices.table
        if table is not self._made_by or len(self._made) >= _MOST:
            self._made.clear()
            self._made_by = table
        made = self._made.get(route.id)
        if made is None:
            made = self._made[route.id] = self._make(route, table)
        return made

    def _make(self, route: Route, table: PriceTable) -> ModelLimits:
        targets = [(self._kinds[each.target.provider], each.target.model) for each in route.targets]
        windows = [table.context_window(kind, model) for kind, model in targets]
        return ModelLimits(
            image_tokens=SMALL_TOKEN_IMAGE
            if any(_SMALL_TOKENS.search(model) for _, model in targets)
            else IMAGE_TOKENS,
            links_are_images={kind for kind, _ in targets} <= _READ_IMAGES_ALONE,
            widest=max(window or self._store.remote_tokens for window in windows),
            narrowest=min([window for window in windows if window is not None], default=None),
            answer=min(longest_answer(model) or self._store.answer_tokens for _, model in targets),
        )
