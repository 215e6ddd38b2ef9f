"""The arithmetic of a cost: its lines add up to what was charged, exactly, whatever was used at whatever rates."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamweir.core.usage import Usage
from streamweir.policy.billing.bill import FEMTO, ROUNDING, BillLine, bill_of, dollars_of_femto
from streamweir.policy.pricing.prices import Rates, Service, Tier, cost_of, decode_rates
from support.rate_strategies import tiered_rates

USD = 1_000_000_000
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
    per_request=7,
    per_search=10_000_000,
)
tiered = tiered_rates(10**5)
services = st.lists(st.builds(Service, st.sampled_from(["priority", "flex"]), tiered), max_size=2).map(tuple)
any_rates = st.builds(lambda rates, found: structs.replace(rates, services=found), tiered, services)
tokens = st.integers(0, 10**5)
some = st.none() | tokens
usages = st.builds(
    Usage,
    input_uncached=tokens,
    cache_read=some,
    cache_write_5m=some,
    cache_write_1h=some,
    audio_input=some,
    image_input=some,
    output=tokens,
    reasoning=some,
    audio_output=some,
    image_output=some,
    searches=st.none() | st.integers(0, 50),
)


@given(usages, any_rates, st.none() | st.sampled_from(["priority", "flex", "default"]))
def test_the_lines_add_up_to_the_cost(usage: Usage, rates: Rates, service_tier: str | None) -> None:
    lines = bill_of(usage, rates, service_tier)
    assert sum(line.amount for line in lines) == cost_of(usage, rates, service_tier) * FEMTO
    assert sum(line.tokens or 0 for line in lines) == usage.total_tokens
    for line in lines:
        if line.rate is not None and line.tokens is not None:
            assert line.amount == line.tokens * line.rate
    *before, last = lines or [BillLine(what=ROUNDING, amount=0)]
    assert ROUNDING not in [line.what for line in before]
    if last.what == ROUNDING:
        assert abs(last.amount) <= FEMTO // 2


@given(usages, any_rates)
def test_it_is_the_same_by_what_a_row_keeps_of_the_rates(usage: Usage, rates: Rates) -> None:
    assert decode_rates(rates.text) == rates
    assert bill_of(usage, decode_rates(rates.text), "flex") == bill_of(usage, rates, "flex")


def test_every_bucket_has_its_line() -> None:
    usage = Usage(
        input_uncached=1,
        cache_read=2,
        cache_write_5m=3,
        cache_write_1h=4,
        audio_input=5,
        output=6,
        reasoning=7,
        audio_output=8,
        image_input=9,
        image_output=10,
        searches=3,
    )
    lines = bill_of(usage, FULL)
    assert (lines[-1].count, lines[-1].amount) == (3, 30_000_000 * FEMTO)
    assert [(line.what, line.tokens, line.rate) for line in lines] == [
        ("input", 1, 2 * USD),
        ("cache_read", 2, 1 * USD),
        ("cache_write", 3, 3 * USD),
        ("cache_write_1h", 4, 4 * USD),
        ("audio_input", 5, 20 * USD),
        ("image_input", 9, 6 * USD),
        ("output", 6, 10 * USD),
        ("reasoning", 7, 5 * USD),
        ("audio_output", 8, 40 * USD),
        ("image_output", 10, 60 * USD),
        ("per_request", None, None),
        ("per_search", None, None),
    ]


@pytest.mark.parametrize(("output", "rounded"), [(4, -400_000), (5, 500_000), (6, 400_000), (10, None)])
def test_rounding_is_the_last_line(output: int, rounded: int | None) -> None:
    last = bill_of(Usage(output=output), Rates(input=0, output=100_000))[-1]
    assert (last.what, last.amount) == ((ROUNDING, rounded) if rounded is not None else ("output", FEMTO))


def test_nothing_used_costs_nothing_and_free_usage_is_shown() -> None:
    assert bill_of(Usage(), FULL) == []
    (line,) = bill_of(Usage(input_uncached=9), Rates(input=0, output=0))
    assert (line.what, line.tokens, line.rate, line.amount) == ("input", 9, 0, 0)


def test_the_rates_in_force_are_those_of_the_tier_and_the_service() -> None:
    dear = Rates(input=3 * USD, output=12 * USD)
    rates = structs.replace(FULL, tiers=(Tier(10, dear),), services=(Service("flex", Rates(input=1, output=1)),))
    assert bill_of(Usage(input_uncached=11), rates)[0].rate == 3 * USD
    assert bill_of(Usage(input_uncached=11), rates, "flex")[0].rate == 1


def test_femto_dollars_are_exact() -> None:
    assert dollars_of_femto(1) == Decimal("0.000000000000001")
    assert dollars_of_femto(3 * 2_500_000_000) == Decimal("0.0000075")
    assert dollars_of_femto(-400_000) == Decimal("-0.0000000004")
    assert str(dollars_of_femto(10**40 + 1)) == "10000000000000000000000000.000000000000001"
