"""What tokens cost, to the nano-dollar: every bucket at its rate, rounded once, and holds that cover any cost."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamweir.core.usage import Usage
from streamweir.policy.pricing.prices import (
    Quote,
    Rates,
    Service,
    Tier,
    cost_of,
    decode_quote,
    encode_quote,
    highest_rates,
    in_dollars,
    max_cost,
    number_of,
    price_of,
    rate_of,
)
from support.rate_strategies import flat_rates, tiered_rates

USD = 1_000_000_000
PLAIN = Rates(input=2 * USD, output=10 * USD)
FULL = Rates(
    input=2 * USD,
    output=10 * USD,
    cache_read=1 * USD,
    cache_write=3 * USD,
    cache_write_1h=4 * USD,
    audio_input=20 * USD,
    audio_output=40 * USD,
    reasoning=5 * USD,
    image_input=6 * USD,
    image_output=60 * USD,
    per_search=10_000_000,
)
TIERED = structs.replace(FULL, tiers=(Tier(1000, Rates(input=3 * USD, output=12 * USD)),))

tokens = st.integers(0, 10**7)
tiered = tiered_rates(10**7)
any_rates = st.builds(
    lambda rates, service: structs.replace(rates, services=(Service("priority", service),)), tiered, tiered
)
BUCKETS = (
    "input_uncached",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "audio_input",
    "output",
    "reasoning",
    "audio_output",
    "image_input",
    "image_output",
)
usages = st.builds(Usage, **dict.fromkeys(BUCKETS, tokens), searches=st.none() | st.integers(0, 100))


@pytest.mark.parametrize(
    ("usage", "rates", "expected"),
    [
        ({"input_uncached": 1_000_000}, PLAIN, 2 * USD),
        ({"output": 1_000_000}, PLAIN, 10 * USD),
        ({"input_uncached": 1000, "output": 50}, PLAIN, 2_000_000 + 500_000),
        ({"cache_read": 1_000_000}, FULL, 1 * USD),
        ({"cache_write_5m": 1_000_000}, FULL, 3 * USD),
        ({"cache_write_1h": 1_000_000}, FULL, 4 * USD),
        ({"audio_input": 1_000_000}, FULL, 20 * USD),
        ({"audio_output": 1_000_000}, FULL, 40 * USD),
        ({"reasoning": 1_000_000}, FULL, 5 * USD),
        ({"cache_read": 1_000_000}, PLAIN, 2 * USD),
        ({"cache_write_5m": 1_000_000}, PLAIN, 2 * USD),
        ({"cache_write_1h": 1_000_000}, PLAIN, 2 * USD),
        ({"cache_write_1h": 1_000_000}, structs.replace(PLAIN, cache_write=3 * USD), 3 * USD),
        ({"audio_input": 1_000_000}, PLAIN, 2 * USD),
        ({"audio_output": 1_000_000}, PLAIN, 10 * USD),
        ({"reasoning": 1_000_000}, PLAIN, 10 * USD),
        ({"image_input": 1_000_000}, FULL, 6 * USD),
        ({"image_output": 1_000_000}, FULL, 60 * USD),
        ({"image_input": 1_000_000}, PLAIN, 2 * USD),
        ({"image_output": 1_000_000}, PLAIN, 10 * USD),
        ({"output": 1, "searches": 3}, FULL, 10_000 + 30_000_000),
        ({"searches": 2}, FULL, 20_000_000),
        ({"output": 1, "searches": 3}, PLAIN, 10_000),
        ({"input_uncached": 10**10}, PLAIN, 20_000 * USD),
        ({}, FULL, 0),
        ({"cache_read": 0, "output": 0}, structs.replace(FULL, per_request=7), 0),
        ({"output": 1}, structs.replace(PLAIN, per_request=7), 10_007),
    ],
)
def test_each_bucket_at_its_rate(usage: dict[str, Any], rates: Rates, expected: int) -> None:
    assert cost_of(Usage(**usage), rates) == expected


@pytest.mark.parametrize(
    ("count", "rate", "expected"),
    [(1, 499_999, 0), (1, 500_000, 1), (3, 500_000, 2), (1, 1_499_999, 1), (1, 1_500_000, 2)],
)
def test_half_a_nano_dollar_is_rounded_up(count: int, rate: int, expected: int) -> None:
    assert cost_of(Usage(input_uncached=count), Rates(input=rate, output=0)) == expected


def test_it_is_rounded_once_and_not_for_each_bucket() -> None:
    rates = Rates(input=400_000, output=400_000)
    assert cost_of(Usage(input_uncached=1, cache_read=1, output=1), rates) == 1


@pytest.mark.parametrize(("prompt", "expected"), [(1000, 2 * 1000), (1001, 3 * 1001)])
def test_a_tier_holds_for_the_whole_request(prompt: int, expected: int) -> None:
    assert cost_of(Usage(input_uncached=prompt), TIERED) == expected * 1000


def test_all_input_counts_for_the_tier() -> None:
    usage = Usage(input_uncached=400, cache_read=300, cache_write_1h=200, audio_input=101, output=1)
    assert cost_of(usage, TIERED) == 1001 * 3000 + 12_000


def test_a_service_tier_has_its_own_rates_and_an_unknown_one_the_standard_ones() -> None:
    rates = structs.replace(PLAIN, services=(Service("priority", Rates(input=4 * USD, output=20 * USD)),))
    usage = Usage(input_uncached=1000)
    assert cost_of(usage, rates, "priority") == 4_000_000
    assert cost_of(usage, rates, "default") == cost_of(usage, rates) == 2_000_000
    assert max_cost(rates, 1000, 0, "priority") == 4_000_000
    cheap = structs.replace(PLAIN, services=(Service("flex", Rates(input=USD, output=USD)),))
    assert max_cost(cheap, 1000, 0, "flex") == 2_000_000, "who asks for less may be given, and billed, the standard"


@given(usages, any_rates, st.sampled_from([None, "priority"]))
def test_a_cost_is_the_exact_sum_rounded_half_up(usage: Usage, rates: Rates, service: str | None) -> None:
    used = rates.in_force(usage.prompt_tokens, service)
    pairs = [
        (usage.input_uncached, used.input),
        (usage.cache_read, used.cache_read if used.cache_read is not None else used.input),
        (usage.cache_write_5m, used.of_cache_write()),
        (usage.cache_write_1h, used.of_cache_write_1h()),
        (usage.audio_input, used.of_audio_input()),
        (usage.output, used.output),
        (usage.reasoning, used.of_reasoning()),
        (usage.audio_output, used.of_audio_output()),
        (usage.image_input, used.of_image_input()),
        (usage.image_output, used.of_image_output()),
    ]
    exact = sum((Decimal(count or 0) * rate for count, rate in pairs), Decimal(0)) / 1_000_000
    expected = int(exact.to_integral_value(ROUND_HALF_UP)) + (usage.searches or 0) * used.per_search
    expected += used.per_request if usage.total_tokens or usage.searches else 0
    assert cost_of(usage, rates, service) == expected >= 0


@given(usages, flat_rates, st.sampled_from(BUCKETS), tokens)
def test_more_tokens_never_cost_less(usage: Usage, rates: Rates, bucket: str, more: int) -> None:
    larger: Usage = structs.replace(usage, **{bucket: getattr(usage, bucket) + more})
    assert cost_of(larger, rates) >= cost_of(usage, rates)


@given(usages, usages, flat_rates)
def test_two_requests_cost_what_they_cost_together(one: Usage, other: Usage, rates: Rates) -> None:
    rates = structs.replace(rates, per_request=0)
    searches = (one.searches or 0) + (other.searches or 0)
    both = Usage(**{name: getattr(one, name) + getattr(other, name) for name in BUCKETS}, searches=searches)
    assert abs(cost_of(both, rates) - cost_of(one, rates) - cost_of(other, rates)) <= 1


@given(usages, st.dictionaries(st.sampled_from("abc"), any_rates, min_size=1), st.sampled_from([None, "priority"]))
def test_a_hold_covers_any_kind_of_tokens(usage: Usage, rates: dict[str, Rates], service: str | None) -> None:
    quote = Quote("v", dict(rates), searches=usage.searches or 0)
    held = quote.hold(usage.prompt_tokens, usage.completion_tokens, service)
    assert held is not None
    for target in rates:
        for given_service in (None, service):
            paid = price_of(quote, target, usage, given_service)
            assert paid is not None
            assert held >= paid


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7), any_rates)
def test_a_longer_answer_is_held_for_with_no_less(prompt: int, output: int, more: int, rates: Rates) -> None:
    assert max_cost(rates, prompt, output + more) >= max_cost(rates, prompt, output)
    assert max_cost(rates, prompt + more, output) >= max_cost(rates, prompt, output)


def test_a_hold_is_for_the_most_expensive_target_and_input() -> None:
    cheap, dear = PLAIN, Rates(input=USD, output=11 * USD, cache_write=5 * USD)
    assert Quote("v", {"a/m": cheap, "b/m": dear}).hold(1000, 100) == 5_000_000 + 1_100_000


def test_a_tier_that_cannot_be_reached_is_not_held_for() -> None:
    plain = Rates(input=USD, output=USD, tiers=(Tier(1000, Rates(input=9 * USD, output=9 * USD)),))
    assert max_cost(plain, 1000, 0) == 1_000_000
    assert max_cost(plain, 1001, 0) == 9_009_000


def test_a_missing_price_is_none_and_not_zero() -> None:
    quote = Quote("v", {"a/m": PLAIN, "b/m": None})
    assert quote.hold(1, 1) is None
    assert Quote("v", {}).hold(1, 1) is None
    assert price_of(quote, "b/m", Usage(output=1)) is None
    assert price_of(quote, "never/heard/of", Usage(output=1)) is None
    assert price_of(quote, "a/m", Usage(output=1)) == 10_000
    assert Quote("v", {"a/m": Rates(input=0, output=0)}).hold(1, 1) == 0


@given(st.dictionaries(st.text(max_size=20), st.none() | any_rates), st.text(max_size=10))
def test_a_quote_survives_being_written_down(rates: dict[str, Rates | None], version: str) -> None:
    quote = Quote(version, rates)
    assert decode_quote(encode_quote(quote)) == quote


@pytest.mark.parametrize(
    "text", ["", "{}", '{"version":"v","rates":{"a":{"input":-1,"output":0}}}', '{"version":1,"rates":{}}']
)
def test_an_invalid_quote(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_quote(text)


@pytest.mark.parametrize(
    ("dollars", "expected"),
    [
        (2.5, 2_500_000_000),
        (0.1, 100_000_000),
        (0.003625, 3_625_000),
        (1e-9, 1),
        (1e-10, 0),
        (0.18000000000000002, 180_000_000),
        (1_000_000.0, 10**15),
        (15, 15_000_000_000),
        (0, 0),
    ],
)
def test_dollars_as_they_were_written(dollars: float, expected: int) -> None:
    assert rate_of(dollars) == expected


@given(st.integers(0, 10**15))
def test_an_amount_shown_is_the_exact_amount(nano: int) -> None:
    shown = number_of(nano)
    assert Decimal(repr(shown)) * USD == nano
    assert msgspec.json.decode(msgspec.json.encode(shown)) == shown
    assert rate_of(shown) == nano


def test_what_is_shown_are_the_rates_that_are_known() -> None:
    shown: dict[str, Any] = in_dollars(structs.replace(TIERED, per_request=12_000_000))
    assert shown == {
        "input": 2,
        "output": 10,
        "cache_read": 1,
        "cache_write": 3,
        "cache_write_1h": 4,
        "audio_input": 20,
        "audio_output": 40,
        "image_input": 6,
        "image_output": 60,
        "reasoning": 5,
        "per_request": 0.012,
        "per_search": 0.01,
        "tiers": [{"above_prompt_tokens": 1000, "input": 3, "output": 12}],
    }
    assert in_dollars(structs.replace(PLAIN, services=(Service("flex", PLAIN),)))["services"] == {
        "flex": {"input": 2, "output": 10}
    }


def test_the_most_expensive_of_several() -> None:
    other = Rates(input=1 * USD, output=30 * USD, tiers=(Tier(10, Rates(input=50 * USD, output=31 * USD)),))
    found = highest_rates([FULL, other])
    assert (found.input, found.output, found.cache_read) == (2 * USD, 30 * USD, 1 * USD)
    assert found.reasoning == 30 * USD, "the other bills it as output"
    assert found.tiers[0].above == 10
    assert (found.tiers[0].rates.input, found.tiers[0].rates.cache_read) == (50 * USD, 50 * USD)
    assert highest_rates([PLAIN]) == PLAIN


@given(st.lists(any_rates, min_size=1, max_size=3), usages)
def test_no_answer_costs_more_than_the_highest_price(all_rates: list[Rates], usage: Usage) -> None:
    most = cost_of(usage, highest_rates(all_rates))
    assert all(cost_of(usage, rates) <= most for rates in all_rates)
