"""What a target costs: by the file or the list, with the discount of the account by which it is asked."""

import json

from streamweir.core.usage import Usage
from streamweir.policy.pricing.charge import charge_of
from streamweir.policy.pricing.price_group import DatedPrice, PriceGroup, Sale
from streamweir.policy.pricing.pricebook import PriceBook
from streamweir.policy.pricing.pricelist import decode_list
from streamweir.policy.pricing.prices import Quote, Rates, Service, Tier
from streamweir.policy.pricing.pricetable import PriceTable
from streamweir.policy.pricing.target_cost import TargetCosts

USD = 1_000_000_000
LIST = {
    "version": "2026-11-15",
    "source": "a test",
    "licence": "",
    "providers": {"openai": {"models": [{"id": "m", "prices": [{"input": 1, "output": 2, "per_search": 0.01}]}]}},
}
TABLE = PriceTable(decode_list(json.dumps(LIST).encode()))
LISTED = Rates(input=USD, output=2 * USD, per_search=10_000_000)
OWN = Rates(
    input=10 * USD,
    output=20 * USD,
    per_request=500,
    tiers=(Tier(9, Rates(input=30 * USD, output=40 * USD)),),
    services=(Service("flex", Rates(input=5 * USD, output=6 * USD)),),
)
SALE = Sale(model="m")
TARGET = ("up", "openai", "m")
TENTH = 10_000


def quoted(costs: TargetCosts, sale: Sale = SALE) -> Quote:
    return PriceBook(TABLE).quote([TARGET], sale, 0, costs)


def test_the_list_if_the_file_says_nothing() -> None:
    quote = quoted(TargetCosts())
    assert quote == Quote("2026-11-15", {"up/m": LISTED})


def test_the_cost_of_the_file_replaces_the_list() -> None:
    quote = quoted(TargetCosts(own={"up/m": OWN, "other/m": LISTED}))
    assert quote == Quote("2026-11-15+config", {"up/m": OWN})


def test_one_account_with_a_discount_is_the_cost_of_the_target() -> None:
    quote = quoted(TargetCosts(discounts={"up": {"": TENTH}}))
    assert quote.rates == {"up/m": Rates(input=900_000_000, output=1_800_000_000, per_search=9_000_000)}
    assert quote.version == "2026-11-15+config"
    assert quoted(TargetCosts(discounts={"other": {"": TENTH}})).version == "2026-11-15"


def test_equal_discounts_need_no_entries_of_their_own() -> None:
    quote = quoted(TargetCosts(discounts={"up": {"a": TENTH, "b": TENTH}}))
    assert list(quote.rates) == ["up/m"]


def test_the_account_that_was_used_decides_and_the_highest_cost_is_reserved() -> None:
    quote = quoted(TargetCosts(own={"up/m": OWN}, discounts={"up": {"a": 0, "b": 5 * TENTH, "c": 10 * TENTH}}))
    usage = Usage(input_uncached=9, output=1)
    charges = [charge_of(quote, "up/m", usage, None, name) for name in ("a", "b", "c", "", "gone")]
    assert [each.cost for each in charges] == [110_500, 55_250, 0, 110_500, 110_500]
    assert [each.price for each in charges] == [110_500, 55_250, 0, 110_500, 110_500], "it is sold at cost"
    assert quote.hold(9, 1) == 110_500
    long = Usage(input_uncached=10)
    assert [charge_of(quote, "up/m", long, None, name).cost for name in ("a", "b")] == [300_000, 150_000]
    assert [charge_of(quote, "up/m", long, "flex", name).cost for name in ("a", "b")] == [50_000, 25_000]


def costs_and_prices(quote: Quote, usage: Usage) -> list[tuple[int | None, int | None]]:
    """By the credentials `a` and `b`."""
    charges = [charge_of(quote, "up/m", usage, None, name) for name in "ab"]
    return [(each.cost, each.price) for each in charges]


def test_a_discount_is_the_sellers_unless_the_price_is_a_markup() -> None:
    costs = TargetCosts(discounts={"up": {"a": 0, "b": 5 * TENTH}})
    usage = Usage(input_uncached=1_000_000)
    own = quoted(costs, Sale(model="m", own=(DatedPrice(rates=OWN),)))
    assert costs_and_prices(own, usage) == [(USD, 30 * USD), (USD // 2, 30 * USD)]
    marked = quoted(costs, Sale(model="m", group=PriceGroup(name="g", markup=2 * TENTH)))
    assert costs_and_prices(marked, usage) == [(USD, USD * 12 // 10), (USD // 2, USD * 6 // 10)]


def test_without_a_cost_there_is_nothing_to_reduce() -> None:
    quote = PriceBook(TABLE).quote([("up", "openai", "new")], SALE, 0, TargetCosts(discounts={"up": {"a": TENTH}}))
    assert quote.rates == {"up/new": None}
