"""The maximum input and output of a route's models: for reservations, and so that no target refuses its limit.

Needed for nearly every request, so the values of a route are cached while the prices are unchanged. Callers choose the
names of routes (`{provider}/{anything}`), so the cache is bounded.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from streamweir.config.model import Config, Store
from streamweir.pipeline.body_rules import BodyRules
from streamweir.pipeline.prompt_bound import IMAGE_TOKENS, SMALL_TOKEN_IMAGE
from streamweir.policy.pricing.pricebook import PriceBook
from streamweir.policy.pricing.pricetable import PriceTable
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.route import Route
from streamweir.providers.hidden_reasoning import never_hides
from streamweir.providers.output_limits import documented_output_limit, output_limit

_SMALL_TOKENS = re.compile(r"4o-mini")
_IMAGE_URL_KINDS = frozenset({"anthropic", "azure", "openai"})
"""Kinds of providers that read only images from an image URL."""
_MAX_ROUTES = 4096
"""Routes whose limits are cached."""


class AnswerLimits(Struct, frozen=True, kw_only=True):
    """For an answer without a caller's limit, from the models of one route without its fallbacks."""

    smallest_window: int | None
    """The smallest known context window. None: not known for any of them."""
    answer: int
    """The longest answer that every model can give."""


class ModelLimits(Struct, frozen=True, kw_only=True):
    image_tokens: int
    """The maximum for an image."""
    links_are_images: bool
    """All of them read only images from an image URL."""
    largest_window: int
    """The largest context window of the models; a default if it is not known."""
    longest: int | None
    """The longest answer of any of the models. None: not known for all of them."""
    never_hides: bool
    """None of them bills reasoning unless the request asks for it, and the operator sets no members that may ask."""
    answers: tuple[AnswerLimits, ...]
    """Of the route itself, and of each route that is reachable by fallbacks."""


class ModelLimitsTable:
    def __init__(
        self,
        kinds: Mapping[str, str],
        prices: PriceBook,
        store: Store,
        outputs: Mapping[TargetId, int] = MappingProxyType({}),
        rules_of: Callable[[TargetId], BodyRules | None] = lambda _: None,
    ) -> None:
        """`kinds`: of the providers, by name. `outputs`: the longest answers that the operator has configured.
        `rules_of`: what the operator changes in the bodies that a target gets."""
        self._kinds = kinds
        self._prices = prices
        self._store = store
        self.configured_outputs = outputs
        self._rules_of = rules_of
        self._cache: dict[str, ModelLimits] = {}
        self._outputs: dict[TargetId, int | None] = {}
        self._cache_table: PriceTable | None = None

    def of(self, route: Route) -> ModelLimits:
        if self._prices.table is not self._cache_table or len(self._cache) >= _MAX_ROUTES:
            self._forget()
        cached = self._cache.get(route.configured_id)
        if cached is None:
            cached = self._cache[route.configured_id] = self._make(route, self._prices.table)
        return cached

    def max_output(self, target: TargetId) -> int | None:
        """The longest answer, as configured, else as documented. None: not known."""
        if self._prices.table is not self._cache_table or len(self._outputs) >= _MAX_ROUTES:
            self._forget()
        if target not in self._outputs:
            self._outputs[target] = self._max_output(target)
        return self._outputs[target]

    def _forget(self) -> None:
        self._cache.clear()
        self._outputs.clear()
        self._cache_table = self._prices.table

    def _max_output(self, target: TargetId) -> int | None:
        own = self.configured_outputs.get(target)
        if own is not None:
            return own
        window = self._prices.table.context_window(self._kinds[target.provider], target.model)
        documented = documented_output_limit(target.model)
        return min([limit for limit in (documented, window) if limit is not None], default=None)

    def _answer(self, target: TargetId) -> int:
        """The longest answer that it can be asked for; a default if it is not known."""
        return self.configured_outputs.get(target) or output_limit(target.model) or self._store.answer_tokens

    def _sets_members(self, target: TargetId) -> bool:
        rules = self._rules_of(target)
        return rules is not None and bool(rules.defaults or rules.override)

    def _make(self, route: Route, table: PriceTable) -> ModelLimits:
        """Fallbacks included: any of them may answer."""
        routes = (route, *route.reachable)
        all_targets = [entry.target for each in routes for entry in each.targets]
        maxima = [self.max_output(target) for target in all_targets]
        targets = [(self._kinds[target.provider], target.model) for target in all_targets]
        windows = [table.context_window(kind, model) for kind, model in targets]
        return ModelLimits(
            image_tokens=SMALL_TOKEN_IMAGE
            if any(_SMALL_TOKENS.search(model) for _, model in targets)
            else IMAGE_TOKENS,
            links_are_images={kind for kind, _ in targets} <= _IMAGE_URL_KINDS,
            largest_window=max(window or self._store.remote_tokens for window in windows),
            longest=None if None in maxima else max([tokens for tokens in maxima if tokens is not None]),
            never_hides=all(never_hides(target.model) and not self._sets_members(target) for target in all_targets),
            answers=tuple(self._answers(each, table) for each in routes),
        )

    def _answers(self, route: Route, table: PriceTable) -> AnswerLimits:
        targets = [entry.target for entry in route.targets]
        windows = [table.context_window(self._kinds[target.provider], target.model) for target in targets]
        return AnswerLimits(
            smallest_window=min([window for window in windows if window is not None], default=None),
            answer=min(map(self._answer, targets)),
        )


def outputs_of(config: Config) -> dict[TargetId, int]:
    """The longest answers that the operator has configured."""
    return {
        TargetId(target.provider, target.model): target.max_output_tokens
        for model in config.models
        for target in model.targets
        if target.max_output_tokens is not None
    }
