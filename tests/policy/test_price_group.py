"""What a request is sold for: which price of a group counts, from when on, and what comes after the group."""

import pytest

from streamweir.policy.pricing.price_group import DatedPrice, PriceGroup, Sale, in_force, with_markup
from streamweir.policy.pricing.prices import Rates, Service, Tier

COST = Rates(input=100, output=1000)


def rates(amount: int) -> Rates:
    return Rates(input=amount, output=amount)


def fixed(amount: int, from_ms: int | None = None) -> DatedPrice:
    return DatedPrice(from_ms=from_ms, rates=rates(amount))


GROUP = PriceGroup(
    name="g",
    markup=20_000,
    prices={
        "gpt-*": (fixed(1),),
        "gpt-5*": (fixed(2), fixed(3, from_ms=1000)),
        "gpt-5-mini": (fixed(4, from_ms=2000),),
        "up/*": (DatedPrice(markup=50_000),),
    },
)


@pytest.mark.parametrize(
    ("model", "at_ms", "expected"),
    [
        ("gpt-4o", 0, rates(1)),
        ("gpt-5", 999, rates(2)),
        ("gpt-5", 1000, rates(3)),
        ("gpt-5-mini", 1999, rates(3)),
        ("gpt-5-mini", 2000, rates(4)),
        ("up/x", 0, Rates(input=150, output=1500)),
        ("claude", 0, Rates(input=120, output=1200)),
    ],
    ids=str,
)
def test_the_price_of_a_group(model: str, at_ms: int, expected: Rates) -> None:
    """A name before patterns, a longer pattern before others, and of each the latest price that has begun."""
    assert GROUP.price_of(model, COST, at_ms) == expected


def test_a_markup_on_an_unknown_cost_is_no_price() -> None:
    assert GROUP.price_of("up/x", None, 0) is None
    assert GROUP.price_of("claude", None, 0) is None
    assert GROUP.price_of("gpt-4o", None, 0) == rates(1)
    assert PriceGroup(name="bare").price_of("claude", COST, 0) is None


def test_of_several_dates_the_latest_that_has_begun_counts_in_any_order() -> None:
    prices = (fixed(2, 2000), fixed(1), fixed(0, 1000))
    assert [in_force(prices, at_ms) for at_ms in (0, 1500, 2000)] == [prices[1], prices[2], prices[0]]
    assert in_force(prices[:1], 0) is None


@pytest.mark.parametrize(
    ("sale", "cost", "expected"),
    [
        (Sale(model="m"), COST, (COST, "")),
        (Sale(model="m"), None, (None, "")),
        (Sale(model="m", own=(fixed(7),)), COST, (rates(7), "config")),
        (Sale(model="m", own=(fixed(7, from_ms=5),)), COST, (COST, "")),
        (Sale(model="m", own=(fixed(7),), group=PriceGroup(name="bare")), COST, (rates(7), "config")),
        (Sale(model="gpt-4", own=(fixed(7),), group=GROUP), COST, (rates(1), "group:g")),
        (Sale(model="m", own=(fixed(7),), group=GROUP), None, (rates(7), "config")),
        (Sale(model="m", group=GROUP), None, (None, "")),
    ],
)
def test_a_group_counts_before_the_models_own_price_and_that_before_the_cost(
    sale: Sale, cost: Rates | None, expected: tuple[Rates | None, str]
) -> None:
    assert sale.price_of(cost, 0) == expected


def test_a_markup_is_on_every_part_and_rounded_half_up() -> None:
    tier = Tier(10, Rates(input=3, output=5))
    whole = Rates(
        input=1,
        output=2,
        cache_read=10,
        per_request=5,
        per_search=7,
        tiers=(tier,),
        services=(Service("flex", Rates(input=9, output=11, tiers=(tier,))),),
    )
    dearer = Tier(10, Rates(input=5, output=8))
    assert with_markup(whole, 50_000) == Rates(
        input=2,
        output=3,
        cache_read=15,
        per_request=8,
        per_search=11,
        tiers=(dearer,),
        services=(Service("flex", Rates(input=14, output=17, tiers=(dearer,))),),
    )
    assert with_markup(whole, 0) is whole
    assert with_markup(COST, -100_000) == rates(0)
    assert with_markup(COST, 12_345) == Rates(input=112, output=1123)
