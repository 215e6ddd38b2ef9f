"""What tokens cost: rates, the cost of a usage by them, and the prices that a request was admitted at.

Money is whole nano-dollars, a rate is nano-dollars for a million tokens, and a cost is rounded once,
half up, at its end: no float is ever multiplied. A model without a price costs None, which is not 0.
A request is settled by the `Quote` that stands in its row, whatever the tables say by then. Where
rates come from is not known here (`policy.pricetable`, the operator's file).
"""

from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from streamweir.core.usage import Usage
from streamweir.policy.budget import NANO

_MILLION = 1_000_000

Nano = Annotated[int, Meta(ge=0)]


class Rates(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """Of one model, in nano-dollars for a million tokens.

    What has no rate of its own is billed at the plain rate for input or output: a discount is given
    where it is known, and a request is never billed for less than is known.
    """

    input: Nano
    output: Nano
    cache_read: Nano | None = None
    cache_write: Nano | None = None
    cache_write_1h: Nano | None = None
    audio_input: Nano | None = None
    audio_output: Nano | None = None
    reasoning: Nano | None = None
    """None, as nearly everywhere: as output."""
    per_request: Nano = 0
    """On top of the tokens, nano-dollars."""
    tiers: tuple["Tier", ...] = ()
    """Ascending. The one in force holds for the whole request, not only for what lies above."""
    services: tuple["Service", ...] = ()

    def in_force(self, prompt_tokens: int, service_tier: str | None = None) -> "Rates":
        """The rates of a request with so long a prompt, all input counted. An unknown service has the standard ones."""
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

    def of_reasoning(self) -> int:
        return self.output if self.reasoning is None else self.reasoning

    @cached_property
    def highest_input(self) -> int:
        """Without tiers and services, as the next: asked for every request, and made once."""
        cached = max(self.of_cache_read(), self.of_cache_write(), self.of_cache_write_1h())
        return max(self.input, cached, self.of_audio_input())

    @cached_property
    def highest_output(self) -> int:
        return max(self.output, self.of_audio_output(), self.of_reasoning())

    @cached_property
    def text(self) -> str:
        """As JSON, for the row of every request that was settled by it. See `decode_rates`."""
        return _encoder.encode(self).decode()


class Tier(Struct, frozen=True):
    """The rates of requests whose prompt has more tokens than `above`."""

    above: Nano
    rates: Rates


class Service(Struct, frozen=True):
    """The rates of a service tier (`priority`, `flex`), by the name that requests and answers give it."""

    name: str
    rates: Rates


def cost_of(usage: Usage, rates: Rates, service_tier: str | None = None) -> int:
    """Nano-dollars. `service_tier`: as the provider reported it, where it did."""
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
    if not total and not usage.total_tokens:
        return 0  # a provider that reports nothing at all has done nothing
    return _rounded(total) + rates.per_request


def max_cost(rates: Rates, prompt_tokens: int, output_tokens: int, service_tier: str | None = None) -> int:
    """The most that a request can cost which has no more tokens than these, whatever they turn out to be."""
    if not rates.tiers and (service_tier is None or not rates.services):  # nearly all, and asked for every request
        total = prompt_tokens * rates.highest_input + output_tokens * rates.highest_output
        return _rounded(total) + rates.per_request
    return max(
        _rounded(prompt_tokens * each.highest_input + output_tokens * each.highest_output) + each.per_request
        for each in _applicable(rates, prompt_tokens, service_tier)
    )


def affordable(rates: Rates, amount: int, prompt_tokens: int, service_tier: str | None = None) -> int | None:
    """The most tokens of answer for which `max_cost` is at most `amount`. None: any number. -1: not even none."""
    highest_cost: int | None = None
    is_plain = not rates.tiers and (service_tier is None or not rates.services)  # as in `max_cost`
    for each in (rates,) if is_plain else _applicable(rates, prompt_tokens, service_tier):
        remaining = (amount - each.per_request) * _MILLION + _MILLION // 2 - 1 - prompt_tokens * each.highest_input
        if remaining < 0:
            return -1
        if each.highest_output:
            tokens = remaining // each.highest_output
            highest_cost = tokens if highest_cost is None else min(highest_cost, tokens)
    return highest_cost


class Quote(Struct, frozen=True):
    """The prices that a request was admitted at, by target (`{provider}/{model}`). None: no price is known."""

    version: str
    rates: dict[str, Rates | None]

    def hold(self, prompt_tokens: int, output_tokens: int, service_tier: str | None = None) -> int | None:
        """What to hold, so that the dearest of the targets is covered. None: one of them has no price."""
        highest_cost: int | None = None
        for rates in self.rates.values():
            if rates is None:
                return None
            amount = max_cost(rates, prompt_tokens, output_tokens, service_tier)
            highest_cost = amount if highest_cost is None else max(highest_cost, amount)
        return highest_cost

    def affords(self, amount: int, prompt_tokens: int, service_tier: str | None = None) -> int | None:
        """How many tokens of answer `amount` pays for, whichever target gives it. See `affordable`."""
        fewest: int | None = None
        for rates in self.rates.values():
            tokens = affordable(rates, amount, prompt_tokens, service_tier) if rates is not None else None
            if tokens is not None and (fewest is None or tokens < fewest):
                fewest = tokens
        return fewest


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Quote)
_rates_decoder = msgspec.json.Decoder(Rates)


def encode_quote(quote: Quote) -> str:
    return _encoder.encode(quote).decode()


def decode_quote(text: str) -> Quote:
    """Raises `msgspec.DecodeError` for what `encode_quote` did not write."""
    return _decoder.decode(text)


def decode_rates(text: str) -> Rates:
    """Raises `msgspec.DecodeError` for what is not `Rates.text`."""
    return _rates_decoder.decode(text)


def cost(quote: Quote, target: str, usage: Usage, service_tier: str | None = None) -> int | None:
    """What a request that `target` answered costs. None: it has no price."""
    rates = quote.rates.get(target)
    return None if rates is None else cost_of(usage, rates, service_tier)


def rate_of(dollars: float) -> int:
    """Dollars as someone wrote them down, in nano-dollars. What is finer than those is noise, and is rounded."""
    return int((Decimal(repr(dollars)) * NANO).to_integral_value(ROUND_HALF_UP))


def number_of(nano: int) -> int | float:
    """Dollars, for JSON: the number whose shortest decimal is the exact amount, up to a million dollars."""
    return nano // NANO if nano % NANO == 0 else nano / NANO


_HOUR_TO_MINUTES = Decimal("1.6")
"""What Anthropic takes for an hour in a cache, twice its input, by what it takes for five minutes, 1.25 times that."""


def rates_of_dollars(
    input: float,
    output: float,
    cache_read: float | None = None,
    cache_write: float | None = None,
    cache_write_1h: float | None = None,
) -> Rates:
    """The operator's own price, in dollars for a million tokens. Only one provider writes to its cache for an hour: the
    rate for that follows from the other by its proportion, where it is not given."""
    if cache_write_1h is None and cache_write is not None:
        cache_write_1h = float(Decimal(repr(cache_write)) * _HOUR_TO_MINUTES)
    return Rates(
        input=rate_of(input),
        output=rate_of(output),
        cache_read=None if cache_read is None else rate_of(cache_read),
        cache_write=None if cache_write is None else rate_of(cache_write),
        cache_write_1h=None if cache_write_1h is None else rate_of(cache_write_1h),
    )


def in_dollars(rates: Rates) -> dict[str, Any]:
    """For people and programs to read: the rates that are known, in dollars for a million tokens."""
    dollars: dict[str, Any] = {name: number_of(value) for name in _NAMES if (value := getattr(rates, name)) is not None}
    if rates.per_request:
        dollars["per_request"] = number_of(rates.per_request)
    if rates.tiers:
        dollars["tiers"] = [{"above_prompt_tokens": tier.above, **in_dollars(tier.rates)} for tier in rates.tiers]
    if rates.services:
        dollars["services"] = {service.name: in_dollars(service.rates) for service in rates.services}
    return dollars


def highest_rates(all_rates: Iterable[Rates]) -> Rates:
    """The highest of each standard rate. There must be one."""
    found = list(all_rates)
    starts = sorted({tier.above for rates in found for tier in rates.tiers})
    base = _highest([rates.in_force(0) for rates in found])
    tiers = tuple(Tier(above, _highest([rates.in_force(above + 1) for rates in found])) for above in starts)
    return msgspec.structs.replace(base, tiers=tiers)


_NAMES = (
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "audio_input",
    "audio_output",
    "reasoning",
)
"""Of the rates for tokens."""


def _rounded(total: int) -> int:
    return (total + _MILLION // 2) // _MILLION


def _applicable(rates: Rates, prompt_tokens: int, service_tier: str | None) -> Iterator[Rates]:
    """Standard rates are always among them: a service tier that was asked for need not be the one that is given."""
    for each in (rates, *(service.rates for service in rates.services if service.name == service_tier)):
        yield each
        yield from (tier.rates for tier in each.tiers if prompt_tokens > tier.above)


def _highest(found: list[Rates]) -> Rates:
    highest: dict[str, Any] = {"per_request": max(rates.per_request for rates in found)}
    for name in _NAMES:
        if any(getattr(rates, name) is not None for rates in found):
            highest[name] = max(_effective(rates, name) for rates in found)
    return Rates(**highest)


def _effective(rates: Rates, name: str) -> int:
    if name in ("input", "output"):
        return rates.input if name == "input" else rates.output
    value: int = getattr(rates, f"of_{name}")()
    return value
