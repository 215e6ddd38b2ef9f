"""Prices of tokens: rates, the cost of a usage, and the prices at the admission of a request.

Money is whole nano-dollars, a rate is nano-dollars per million tokens, and a cost is rounded once, half up, at the end:
floats are never multiplied. A model without a price costs None, which is not 0. A request is settled by the `Quote` in
its row, even if the tables have changed since. Rates come from `policy.pricing.pricetable` and the operator's file.
"""

from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from streamweir.core.usage import Usage
from streamweir.policy.limits.budget import NANO
from streamweir.policy.pricing.charge_rule import ChargeRules

_MILLION = 1_000_000

Nano = Annotated[int, Meta(ge=0)]


class Rates(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """The rates of one model, in nano-dollars per million tokens.

    A category without a rate of its own is billed at the plain rate for input or output: a discount is given only if it
    is known.
    """

    input: Nano
    output: Nano
    cache_read: Nano | None = None
    cache_write: Nano | None = None
    cache_write_1h: Nano | None = None
    audio_input: Nano | None = None
    audio_output: Nano | None = None
    image_input: Nano | None = None
    image_output: Nano | None = None
    reasoning: Nano | None = None
    """None, as for nearly all models: the rate of output."""
    per_request: Nano = 0
    """In addition to the tokens, in nano-dollars, like the next."""
    per_search: Nano = 0
    tiers: tuple["Tier", ...] = ()
    """Ascending. The one that applies is used for the whole request, not only for tokens above it."""
    services: tuple["Service", ...] = ()

    def in_force(self, prompt_tokens: int, service_tier: str | None = None) -> "Rates":
        """The rates of a request with this prompt (all input). An unknown service tier has the standard rates."""
        chosen = self
        for service in self.services:
            if service.name == service_tier:
                chosen = service.rates
        for tier in reversed(chosen.tiers):
            if prompt_tokens > tier.above:
                return tier.rates
        return chosen

    def of_cache_read(self) -> int:
        return self.input if self.cache_read is None else self.cache_read

    def of_cache_write(self) -> int:
        return self.input if self.cache_write is None else self.cache_write

    def of_cache_write_1h(self) -> int:
        return self.of_cache_write() if self.cache_write_1h is None else self.cache_write_1h

    def of_audio_input(self) -> int:
        return self.input if self.audio_input is None else self.audio_input

    def of_audio_output(self) -> int:
        return self.output if self.audio_output is None else self.audio_output

    def of_image_input(self) -> int:
        return self.input if self.image_input is None else self.image_input

    def of_image_output(self) -> int:
        return self.output if self.image_output is None else self.image_output

    def of_reasoning(self) -> int:
        return self.output if self.reasoning is None else self.reasoning

    @cached_property
    def highest_input(self) -> int:
        """Without tiers and services, like the next: needed for every request, and computed once."""
        cached = max(self.of_cache_read(), self.of_cache_write(), self.of_cache_write_1h())
        return max(self.input, cached, self.of_audio_input(), self.of_image_input())

    @cached_property
    def highest_output(self) -> int:
        return max(self.output, self.of_audio_output(), self.of_image_output(), self.of_reasoning())

    @cached_property
    def text(self) -> str:
        """As JSON, for the row of every request that was settled by it. See `decode_rates`."""
        return _encoder.encode(self).decode()


class Tier(Struct, frozen=True):
    """The rates of requests whose prompt has more tokens than `above`."""

    above: Nano
    rates: Rates


class Service(Struct, frozen=True):
    """The rates of a service tier (`priority`, `flex`), by its name in requests and answers."""

    name: str
    rates: Rates


def cost_of(usage: Usage, rates: Rates, service_tier: str | None = None) -> int:
    """In nano-dollars. `service_tier`: as reported by the provider, if it was."""
    if rates.tiers or (rates.services and service_tier is not None):
        rates = rates.in_force(usage.prompt_tokens, service_tier)
    total = usage.input_uncached * rates.input + usage.output * rates.output
    if usage.cache_read:
        total += usage.cache_read * rates.of_cache_read()
    if usage.cache_write_5m:
        total += usage.cache_write_5m * rates.of_cache_write()
    if usage.cache_write_1h:
        total += usage.cache_write_1h * rates.of_cache_write_1h()
    if usage.audio_input:
        total += usage.audio_input * rates.of_audio_input()
    if usage.reasoning:
        total += usage.reasoning * rates.of_reasoning()
    if usage.audio_output:
        total += usage.audio_output * rates.of_audio_output()
    if usage.image_input:
        total += usage.image_input * rates.of_image_input()
    if usage.image_output:
        total += usage.image_output * rates.of_image_output()
    if usage.searches:
        total += usage.searches * rates.per_search * _MILLION
    elif not total and not usage.total_tokens:
        return 0  # a provider that reports nothing has done nothing
    return _rounded(total) + rates.per_request


def max_cost(
    rates: Rates, prompt_tokens: int, output_tokens: int, service_tier: str | None = None, searches: int = 0
) -> int:
    """The maximum cost of a request with at most these tokens, of any category, and searches."""
    if not rates.tiers and (service_tier is None or not rates.services):  # nearly always, and for every request
        total = prompt_tokens * rates.highest_input + output_tokens * rates.highest_output
        return _rounded(total) + rates.per_request + searches * rates.per_search
    return max(
        _rounded(prompt_tokens * each.highest_input + output_tokens * each.highest_output)
        + each.per_request
        + searches * each.per_search
        for each in _applicable(rates, prompt_tokens, service_tier)
    )


def affordable(
    rates: Rates, amount: int, prompt_tokens: int, service_tier: str | None = None, searches: int = 0
) -> int | None:
    """The maximum answer tokens for which `max_cost` is at most `amount`. None: any number. -1: not even 0."""
    highest_cost: int | None = None
    is_plain = not rates.tiers and (service_tier is None or not rates.services)  # as in `max_cost`
    for each in (rates,) if is_plain else _applicable(rates, prompt_tokens, service_tier):
        others = each.per_request + searches * each.per_search
        remaining = (amount - others) * _MILLION + _MILLION // 2 - 1 - prompt_tokens * each.highest_input
        if remaining < 0:
            return -1
        if each.highest_output:
            tokens = remaining // each.highest_output
            highest_cost = tokens if highest_cost is None else min(highest_cost, tokens)
    return highest_cost


class Quote(Struct, frozen=True, omit_defaults=True):
    """The rates at the admission of a request, by target (`{provider}/{model}`). None: not known.

    What is reserved, charged and limited is the price.
    """

    version: str
    rates: dict[str, Rates | None]
    """Of the cost: what the provider asks for."""
    prices: dict[str, Rates | None] | None = None
    """Of the price: what it is sold for. None: it is sold at cost."""
    searches: int = 0
    """How many searches a reservation covers: see `pipeline.search_bound`."""
    rules: ChargeRules | None = None
    """What is charged if it goes wrong. None: the defaults."""

    @property
    def sold(self) -> dict[str, Rates | None]:
        return self.rates if self.prices is None else self.prices

    def hold(self, prompt_tokens: int, output_tokens: int, service_tier: str | None = None) -> int | None:
        """The amount to hold, so that the most expensive target is covered. None: one of them has no price."""
        highest_cost: int | None = None
        for rates in (self.rates if self.prices is None else self.prices).values():
            if rates is None:
                return None
            amount = max_cost(rates, prompt_tokens, output_tokens, service_tier, self.searches)
            highest_cost = amount if highest_cost is None else max(highest_cost, amount)
        return highest_cost

    def is_free(self, service_tier: str | None = None) -> bool:
        """No answer costs anything, at any target whose price is known: `affords` says None for every amount."""
        for rates in (self.rates if self.prices is None else self.prices).values():
            if rates is None:
                continue
            if rates.tiers or (rates.services and service_tier is not None):
                if affordable(rates, 0, 0, service_tier, self.searches) is not None:
                    return False
            elif rates.highest_output or rates.per_request or (self.searches and rates.per_search):
                return False
        return True

    def affords(self, amount: int, prompt_tokens: int, service_tier: str | None = None) -> int | None:
        """The answer tokens that `amount` pays for, at any target. See `affordable`."""
        fewest: int | None = None
        for rates in (self.rates if self.prices is None else self.prices).values():
            if rates is None:
                continue
            tokens = affordable(rates, amount, prompt_tokens, service_tier, self.searches)
            if tokens is not None and (fewest is None or tokens < fewest):
                fewest = tokens
        return fewest


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Quote)
_rates_decoder = msgspec.json.Decoder(Rates)


def encode_quote(quote: Quote) -> str:
    return _encoder.encode(quote).decode()


def decode_quote(text: str) -> Quote:
    """Raises `msgspec.DecodeError` if `encode_quote` did not write it."""
    return _decoder.decode(text)


def decode_rates(text: str) -> Rates:
    """Raises `msgspec.DecodeError` if it is not `Rates.text`."""
    return _rates_decoder.decode(text)


def price_of(quote: Quote, target: str, usage: Usage, service_tier: str | None = None) -> int | None:
    """The price of a request that `target` answered. None: it has none."""
    rates = quote.sold.get(target)
    return None if rates is None else cost_of(usage, rates, service_tier)


def rate_of(dollars: float) -> int:
    """Dollars in nano-dollars. Smaller fractions are noise, and are rounded."""
    return int((Decimal(repr(dollars)) * NANO).to_integral_value(ROUND_HALF_UP))


def number_of(nano: int) -> int | float:
    """Dollars, for JSON: the number whose shortest decimal form is the exact amount, up to a million dollars."""
    return nano // NANO if nano % NANO == 0 else nano / NANO


def in_dollars(rates: Rates) -> dict[str, Any]:
    """For display: the known rates, in dollars per million tokens, and the amounts per request and search."""
    known = ((name, getattr(rates, name)) for name in TOKEN_RATES)
    dollars: dict[str, Any] = {name: number_of(value) for name, value in known if value is not None}
    for name in PER_UNIT:
        if value := getattr(rates, name):
            dollars[name] = number_of(value)
    if rates.tiers:
        dollars["tiers"] = [{"above_prompt_tokens": tier.above, **in_dollars(tier.rates)} for tier in rates.tiers]
    if rates.services:
        dollars["services"] = {service.name: in_dollars(service.rates) for service in rates.services}
    return dollars


def highest_rates(all_rates: Iterable[Rates]) -> Rates:
    """The highest of each standard rate. There must be at least one."""
    found = list(all_rates)
    starts = sorted({tier.above for rates in found for tier in rates.tiers})
    base = _highest([rates.in_force(0) for rates in found])
    tiers = tuple(Tier(above, _highest([rates.in_force(above + 1) for rates in found])) for above in starts)
    return msgspec.structs.replace(base, tiers=tiers)


TOKEN_RATES = (
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "audio_input",
    "audio_output",
    "image_input",
    "image_output",
    "reasoning",
)
"""The names of the rates for tokens."""
PER_UNIT = ("per_request", "per_search")
"""The names of the amounts for other things than tokens."""


def _rounded(total: int) -> int:
    return (total + _MILLION // 2) // _MILLION


def _applicable(rates: Rates, prompt_tokens: int, service_tier: str | None) -> Iterator[Rates]:
    """Includes the standard rates: the requested service tier need not be the one that is used."""
    for each in (rates, *(service.rates for service in rates.services if service.name == service_tier)):
        yield each
        yield from (tier.rates for tier in each.tiers if prompt_tokens > tier.above)


def _highest(found: list[Rates]) -> Rates:
    highest: dict[str, Any] = {name: max(getattr(rates, name) for rates in found) for name in PER_UNIT}
    for name in TOKEN_RATES:
        if any(getattr(rates, name) is not None for rates in found):
            highest[name] = max(_effective(rates, name) for rates in found)
    return Rates(**highest)


def _effective(rates: Rates, name: str) -> int:
    if name in ("input", "output"):
        return rates.input if name == "input" else rates.output
    value: int = getattr(rates, f"of_{name}")()
    return value
