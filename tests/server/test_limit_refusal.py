"""Refusals for lack of money tell the truth: the limit, what is spent, held and needed, and when it resets."""

import pytest

from streamweir.policy.limits.limit_request import BudgetCharge
from streamweir.server.accounting.limit_refusal import budget_refusal
from streamweir.server.accounting.limiter import AccountState
from streamweir.server.http.answers import api_failure_answer

NANO = 10**9
KEY = BudgetCharge("key:k1:2026-11", 20 * NANO, "budget_exceeded")
CREDIT = BudgetCharge("ws:default", 5 * NANO, "insufficient_quota")
RULE = BudgetCharge("rule:default:per user:ab12:2026-11-18", NANO, "budget_exceeded")


@pytest.mark.parametrize(
    ("charge", "spent", "held", "scope", "resets_at", "message"),
    [
        (
            KEY,
            19_900_000_000,
            50_000_000,
            "key",
            "2026-12-01T00:00:00Z",
            "This request needs more than is left of the spend limit of this API key. Limit $20.00, spent $19.90, "
            "reserved by running requests $0.05, this request needs at least $0.25. It resets at 2026-12-01T00:00:00Z.",
        ),
        (
            CREDIT,
            5 * NANO,
            0,
            "workspace",
            None,
            "The credit balance is used up. Credit $5.00, spent $5.00, reserved by running requests $0.00, "
            "this request needs at least $0.25.",
        ),
        (
            RULE,
            NANO,
            0,
            "per user",
            "2026-11-19T00:00:00Z",
            'The spend limit "per user" is reached. Limit $1.00, spent $1.00, reserved by running requests $0.00, '
            "this request needs at least $0.25. It resets at 2026-11-19T00:00:00Z.",
        ),
    ],
    ids=["what is left of a key", "credit", "rule"],
)
def test_the_budget_that_is_used_up_is_named(
    charge: BudgetCharge, spent: int, held: int, scope: str, resets_at: str | None, message: str
) -> None:
    other = AccountState(BudgetCharge("key:k2:total", 100 * NANO, "budget_exceeded"), 0, 0)
    error = budget_refusal(charge.code, [other, AccountState(charge, spent, held)], charge.account, NANO // 4)
    assert (error.code, error.message, error.retry_after_s) == (charge.code, message, None)
    assert error.details == {
        "budget": {
            "scope": scope,
            "limit_usd": charge.limit // NANO,
            "spent_usd": spent / NANO,
            "reserved_usd": held / NANO,
            "needed_usd": 0.25,
            "resets_at": resets_at,
        }
    }
    assert ("x-should-retry", "false") in api_failure_answer(error).headers


@pytest.mark.parametrize(
    ("charge", "spent", "needed", "summary", "end"),
    [
        (KEY, 20, 1, "The spend limit of this API key is reached.", "It resets at 2026-12-01T00:00:00Z."),
        (
            KEY,
            0,
            21,
            "This request needs more than is left of the spend limit of this API key.",
            "send a shorter request.",
        ),
        (RULE, 0, 2, 'This request needs more than is left of the spend limit "per user".', "send a shorter request."),
        (CREDIT, 4, 2, "This request needs more than is left of the credit balance.", "needs at least $2.00."),
        (CREDIT, 4, 6, "This request needs more than is left of the credit balance.", "needs at least $6.00."),
    ],
)
def test_a_limit_is_said_to_be_reached_only_if_it_is(
    charge: BudgetCharge, spent: int, needed: int, summary: str, end: str
) -> None:
    error = budget_refusal(charge.code, [AccountState(charge, spent * NANO, 0)], charge.account, needed * NANO)
    assert error.message.startswith(f"{summary} ")
    assert error.message.endswith(end)


def test_what_running_requests_hold_may_be_given_back_soon() -> None:
    error = budget_refusal("budget_exceeded", [AccountState(KEY, NANO, 19 * NANO)], KEY.account, NANO)
    assert error.message.endswith("Running requests hold what is missing: try again when they have ended.")
    assert ("retry-after", "1") in api_failure_answer(error).headers


def test_if_nothing_is_known_of_the_account_the_code_is_said() -> None:
    error = budget_refusal("insufficient_quota", [], None, NANO)
    assert (error.code, error.message, error.details) == ("insufficient_quota", "The credit balance is used up.", None)
