"""The rules of a price group for requests that went wrong, and what they charge."""

import pytest

from streamweir.policy.pricing.charge_rule import Rule, charged


@pytest.mark.parametrize(
    ("rule", "cost", "price", "expected"),
    [
        ("nothing", 5, 8, 0),
        ("delivered", 5, 8, 3),
        ("used", 5, 8, 8),
        ("cost", 5, 8, 5),
        ("cost", None, 8, 8),
        ("cost", 5, None, 5),
        ("cost", 9, 8, 8),
        ("cost", 9, 0, 0),
    ],
)
def test_no_rule_charges_more_than_the_price_for_which_it_was_reserved(
    rule: Rule, cost: int | None, price: int | None, expected: int
) -> None:
    assert charged(rule, cost, price, 3) == expected
