"""The rates of a model at a time, from a price list: the provider, the matching entry, and the price in force.

Kinds of providers are mapped to the list's providers here; a kind that is not in the map has no prices, and models that
run on the operator's own machine are free. A model that is not in the list has no price, which is not 0. Callers choose
names: so the cache is bounded, and a look-up is at most a loop over one provider's models.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, NamedTuple

from msgspec import structs

from streamweir.policy.pricing.pricelist import Amount, Model, Price, PriceList, Provider, Rule, Stepped, amounts_of
from streamweir.policy.pricing.prices import PER_UNIT, Rates, Service, Tier, rate_of
from streamweir.providers.registry import FAMILIES

BUILT_IN = frozenset({"local", "sim"})
"""Kinds that run inside this program."""
FREE = Rates(input=0, output=0)

PROVIDER_IDS: Mapping[str, str] = {
    **{kind: family.prices for kind, family in FAMILIES.items() if family.prices is not None},
    "cerebras": "cerebras",
    "cohere": "cohere",
    "copilot": "github-copilot",
    "deepseek": "deepseek",
    "doubleword": "doubleword",
    "fireworks": "fireworks",
    "groq": "groq",
    "mistral": "mistral",
    "moonshot": "moonshotai",
    "novita": "novita",
    "openai": "openai",
    "openrouter": "openrouter",
    "perplexity": "perplexity",
    "together": "together",
    "xai": "x-ai",
    "zai": "zai",
}
"""By kind. `huggingface` is a router: the provider whose price applies is a suffix of the model's name
(`model:groq`)."""

_ROUTED = "huggingface_"

_MAX_CACHED = 10_000
_EPOCH = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000
_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)", re.ASCII)


def is_wanted(provider: str) -> bool:
    """Whether a price of this provider of a list can be needed."""
    return provider in PROVIDER_IDS.values() or provider.startswith(_ROUTED)


class Found(NamedTuple):
    model: Model
    is_own: bool
    """The provider's own, and not of another provider whose models it offers."""


class Row(NamedTuple):
    provider: str
    """As in the list."""
    model: Model
    rates: Rates | None


class PriceTable:
    def __init__(self, price_list: PriceList) -> None:
        self.version = price_list.version
        self.source = price_list.source
        self._providers = price_list.providers
        self._provider_prices: dict[str, _ProviderPrices] = {}
        self._found: dict[tuple[str, str], Found | None] = {}

    def find(self, provider_kind: str, model: str, at_ms: int) -> Rates | None:
        if provider_kind in BUILT_IN:
            return FREE
        found = self._find(provider_kind, model)
        return None if found is None else _rates(found, at_ms)

    def context_window(self, provider_kind: str, model: str) -> int | None:
        """The maximum number of prompt tokens, if it is known."""
        found = self._find(provider_kind, model)
        return None if found is None else found.model.context

    def rows(self, at_ms: int) -> Iterator[Row]:
        for id, provider in self._providers.items():
            for model in provider.models:
                yield Row(id, model, _rates(Found(model, True), at_ms))

    def _find(self, kind: str, model: str) -> Found | None:
        name = (kind, model)
        if name not in self._found:
            if len(self._found) >= _MAX_CACHED:
                self._found.clear()
            self._found[name] = self._search(kind, model.lower())
        return self._found[name]

    def _search(self, kind: str, model: str) -> Found | None:
        id = PROVIDER_IDS.get(kind)
        if kind == "huggingface":
            model, _, served_by = model.rpartition(":")
            id = _ROUTED + served_by
        if id not in self._providers:
            return None
        found = self._match(id, model)
        if found is None:
            # Routers write dates without dashes: gpt-5.2-20251211.
            dashed = _COMPACT_DATE.sub(r"-\1-\2-\3", model)
            found = self._match(id, dashed) if dashed != model else None
        return found

    def _match(self, id: str, name: str) -> Found | None:
        for each in (id, *self._providers[id].fallback):
            if each in self._providers:
                model = self._prices_of(each).find(name)
                if model is not None:
                    return Found(model, each == id)
        return None

    def _prices_of(self, id: str) -> "_ProviderPrices":
        if id not in self._provider_prices:
            self._provider_prices[id] = _ProviderPrices(self._providers[id])
        return self._provider_prices[id]


class _ProviderPrices:
    """One provider's models. Most of them match whole names, which need no loop."""

    def __init__(self, provider: Provider) -> None:
        self._models = provider.models
        self._by_name: dict[str, int] = {}
        self._rules: list[tuple[int, Rule]] = []
        for index, model in enumerate(provider.models):
            rule = model.match or Rule(equals=model.id.lower())
            names = [each.equals for each in (rule.any_of or (rule,))]
            for name in names:
                if name is not None:
                    self._by_name.setdefault(name, index)
            if None in names:
                self._rules.append((index, rule))

    def find(self, name: str) -> Model | None:
        best = self._by_name.get(name, len(self._models))
        for index, rule in self._rules:
            if index >= best:
                break
            if matches(rule, name):
                best = index
        return self._models[best] if best < len(self._models) else None


def matches(rule: Rule, name: str) -> bool:
    """`name` is in lower case."""
    if rule.any_of is not None:
        return any(matches(each, name) for each in rule.any_of)
    if rule.all_of is not None:
        return all(matches(each, name) for each in rule.all_of)
    return (
        (rule.equals is not None and name == rule.equals)
        or (rule.starts_with is not None and name.startswith(rule.starts_with))
        or (rule.ends_with is not None and name.endswith(rule.ends_with))
        or (rule.contains is not None and rule.contains in name)
        or (rule.regex is not None and re.search(rule.regex, name) is not None)
    )


def _rates(found: Found, at_ms: int) -> Rates | None:
    model = found.model
    prices = [price for price in model.prices if _is_in_force(price, at_ms)] or model.prices[:1]
    if not prices:
        return None
    amounts, per_unit = dict(amounts_of(prices[-1])), _per_unit(prices[-1])
    if _makes_vectors(model):
        amounts.setdefault("output", 0.0)
    standard = _of_amounts(amounts, per_unit)
    if standard is None or not found.is_own:  # service tiers of another provider do not apply
        return standard
    changed: dict[str, dict[str, Amount]] = {}
    others: dict[str, dict[str, int]] = {}
    for price in model.services:
        if price.service is not None and _is_in_force(price, at_ms):
            changed[price.service] = dict(amounts_of(price)) | changed.get(price.service, {})
            others[price.service] = _per_unit(price) | others.get(price.service, {})
    services = {name: _of_amounts(amounts | changes, per_unit | others[name]) for name, changes in changed.items()}
    return structs.replace(
        standard, services=tuple(Service(name, rates) for name, rates in services.items() if rates is not None)
    )


def _makes_vectors(model: Model) -> bool:
    """An embedding model, which has no output to pay for. Of any other a missing price is not 0."""
    names = [model.id, *(each.equals or "" for each in (model.match.any_of or () if model.match is not None else ()))]
    return any("embed" in name.lower() for name in names)


def _is_in_force(price: Price, at_ms: int) -> bool:
    if price.since is not None and _EPOCH + at_ms // _DAY_MS < price.since.toordinal():
        return False
    if price.hours is None:
        return True
    start, end = (int(hour[:2]) * 60 + int(hour[3:]) for hour in price.hours)
    minute = at_ms % _DAY_MS // 60_000
    return start <= minute < end if start <= end else minute >= start or minute < end


def _per_unit(price: Price) -> dict[str, int]:
    """For a request and a search, if the price has them."""
    found = ((name, getattr(price, name)) for name in PER_UNIT)
    return {name: rate_of(dollars) for name, dollars in found if dollars is not None}


def _of_amounts(amounts: Mapping[str, Amount], per_unit: Mapping[str, int]) -> Rates | None:
    if "input" not in amounts or "output" not in amounts:
        return None
    starts = sorted({step.above for each in amounts.values() if isinstance(each, Stepped) for step in each.steps})
    tiers = tuple(Tier(start, _flat(amounts, start, per_unit)) for start in starts)
    return structs.replace(_flat(amounts, -1, per_unit), tiers=tiers)


def _flat(amounts: Mapping[str, Amount], above: int, per_unit: Mapping[str, int]) -> Rates:
    """The rates beyond the step `above`; -1: before all steps."""
    rates: dict[str, Any] = dict(per_unit)
    for name, amount in amounts.items():
        if isinstance(amount, Stepped):
            reached = [step.rate for step in amount.steps if step.above <= above]
            rates[name] = rate_of(reached[-1] if reached else amount.base)
        else:
            rates[name] = rate_of(amount)
    return Rates(**rates)
