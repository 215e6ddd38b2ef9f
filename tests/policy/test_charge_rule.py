"""Which case a request that went wrong is, what its rule charges, and how much of an answer was delivered."""

import pytest

from streamweir.core.delivered import DeliveredPart, delivered_usage
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.policy.pricing.charge import Charge, by_rule, charge_of
from streamweir.policy.pricing.charge_rule import Case, ChargeRules, Rule, case_of
from streamweir.policy.pricing.prices import Quote, Rates, decode_quote, encode_quote

M = 10**6
SOLD, COST = Rates(input=10 * M, output=10 * M), Rates(input=M, output=M)
ANSWERED = {Verdict.COMPLETED, Verdict.LENGTH, Verdict.FILTERED, Verdict.REJECTED}
BY_GATEWAY = {Verdict.DEADLINE, Verdict.STOPPED, Verdict.SHUTDOWN, Verdict.GATEWAY_FAULT, Verdict.ORPHANED}


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_its_case(verdict: Verdict) -> None:
    cases = case_of(verdict, False), case_of(verdict, True)
    if verdict in ANSWERED:
        assert cases == (None, None)
    elif verdict in BY_GATEWAY:
        assert cases == ("cut", "cut")
    elif verdict is Verdict.CLIENT_GONE:
        assert cases == ("caller_left", "caller_left")
    else:
        assert cases == ("failed_before", "truncated" if verdict is Verdict.TRUNCATED else "failed_after")


def test_without_a_verdict_nothing_is_known_to_have_gone_wrong() -> None:
    assert case_of(None, True) is None


USAGE = Usage(input_uncached=5, output=10, reasoning=6)
HALF = DeliveredPart(50, 100, 1, 3)


@pytest.mark.parametrize(
    ("rule", "expected"), [("nothing", 0), ("delivered", 10 * (5 + 5 + 2)), ("used", 10 * 21), ("cost", 21)]
)
def test_what_a_rule_charges(rule: Rule, expected: int) -> None:
    quote = Quote("v", {"a/m": COST}, {"a/m": SOLD}, rules=ChargeRules(cut=rule))
    charge = by_rule(charge_of(quote, "a/m", USAGE), quote, "cut", USAGE, None, HALF)
    assert charge == Charge(21, expected, SOLD, COST, f"cut:{rule}")
    assert by_rule(charge_of(quote, "a/m", USAGE), quote, "truncated", USAGE).rule == "truncated:used"
    assert decode_quote(encode_quote(quote)) == quote


def test_an_unknown_cost_or_price() -> None:
    """An unknown cost is replaced by the price. An unknown price stays unknown, unless nothing is charged."""
    rules = ChargeRules(cut="cost", truncated="nothing", caller_left="delivered")
    quote = Quote("v", {"a/m": None, "b/m": None}, {"a/m": SOLD, "b/m": None}, rules=rules)

    def price(target: str | None, case: Case) -> int | None:
        return by_rule(charge_of(quote, target, USAGE), quote, case, USAGE, None, HALF).price

    assert price("a/m", "cut") == 210
    assert (price("b/m", "cut"), price("b/m", "truncated"), price("b/m", "caller_left")) == (None, 0, None)
    assert price(None, "cut") == 0


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (HALF, (5, 2)),
        (DeliveredPart(1, 3, 0, 0), (3, 2)),
        (DeliveredPart(0, 0, 0, 0), (0, 0)),
        (DeliveredPart(7, 5, 0, 9), (10, 0)),
    ],
    ids=["each by its own text", "hidden reasoning by the text", "nothing was received", "never more than was used"],
)
def test_the_delivered_part_of_a_usage(part: DeliveredPart, expected: tuple[int, int]) -> None:
    found = delivered_usage(USAGE, part)
    assert (found.output, found.reasoning) == expected
    assert found.prompt_tokens == USAGE.prompt_tokens
