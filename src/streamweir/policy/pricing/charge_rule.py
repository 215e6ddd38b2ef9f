"""Who pays when a request goes wrong: one rule for each case, chosen in a price group.

A request that was answered is charged for what it used. For any other, its verdict and whether an answer had begun say
which case it is (`case_of`), and the rule of that case how much is charged (`charged`). The cost of a request does not
depend on it. The rules are part of the quote, so that an orphan is settled by those of its admission. Pure.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from streamweir.core.verdict import Verdict

Rule = Literal["nothing", "delivered", "used", "cost"]
"""`delivered`: the prompt, and the part of the answer that was sent to the caller. `used`: all that the provider
counts. `cost`: what the provider asks for, without a margin."""
Case = Literal["failed_before", "failed_after", "truncated", "cut", "caller_left"]


class ChargeRules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    failed_before: Rule = "used"
    """The upstream failed before the first token."""
    failed_after: Rule = "used"
    truncated: Rule = "used"
    """The answer began, and ended without a finish."""
    cut: Rule = "used"
    """The gateway ended it: budget, key revoked, stopped by an operator, time limit, shutdown, a fault of its own."""
    caller_left: Rule = "used"

    def of(self, case: Case) -> Rule:
        rule: Rule = getattr(self, case)
        return rule


DEFAULT_RULES = ChargeRules()


_CASES: Mapping[Verdict, tuple[Case, Case]] = {
    Verdict.TRUNCATED: ("failed_before", "truncated"),
    Verdict.IDLE_TIMEOUT: ("failed_before", "failed_after"),
    Verdict.FIRST_TOKEN_TIMEOUT: ("failed_before", "failed_after"),
    Verdict.UPSTREAM_ERROR: ("failed_before", "failed_after"),
    Verdict.CLIENT_GONE: ("caller_left", "caller_left"),
    Verdict.DEADLINE: ("cut", "cut"),
    Verdict.STOPPED: ("cut", "cut"),
    Verdict.SHUTDOWN: ("cut", "cut"),
    Verdict.GATEWAY_FAULT: ("cut", "cut"),
    Verdict.ORPHANED: ("cut", "cut"),
}
"""Before and after the first token. Others were answered, or refused before an upstream was called."""


def case_of(verdict: Verdict | None, has_begun: bool) -> Case | None:
    """None: nothing went wrong. `has_begun`: the caller was sent a part of the answer."""
    cases = _CASES.get(verdict) if verdict is not None else None
    return None if cases is None else cases[has_begun]


def charged(rule: Rule, cost: int | None, price: int | None, price_delivered: int | None) -> int | None:
    """What is charged. `price`: of all that was used; `price_delivered`: of what was delivered.

    Never more than the price, which is what was reserved: a model may be sold for less than its cost.
    """
    if rule == "nothing":
        return 0
    if rule == "delivered":
        return price_delivered
    if rule == "cost" and cost is not None:
        return cost if price is None else min(cost, price)
    return price
