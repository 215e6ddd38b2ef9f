"""Why a request does not fit its limits, as its caller is told: the limit, what is used of it, what would be needed.

The message has all of it as text, and `details` the same as further members of the error object, for APIs whose format
allows them. Amounts are dollars, times RFC 3339. No state is kept here.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil

from streamweir.core.errors import CallerError
from streamweir.policy.access import Key
from streamweir.policy.limits.budget import dollars_of
from streamweir.policy.limits.key_limits import BY_COUNT
from streamweir.policy.limits.limit_request import Decision
from streamweir.policy.pricing.prices import number_of
from streamweir.server.accounting.limiter import AccountState
from streamweir.store.ledger.accounts import period_of_account, span_of

BUDGET_REFUSALS = ("budget_exceeded", "insufficient_quota")
_MESSAGES = {
    "budget_exceeded": "The spend limit of this API key is reached.",
    "insufficient_quota": "The credit balance is used up.",
    "idempotency_in_progress": "A request with this Idempotency-Key is being answered.",
    "idempotency_key_reused": "This Idempotency-Key was used for another request.",
    "idempotency_completed": "The request with this Idempotency-Key is complete, and its answer is not kept any more.",
}
_RUNNING_RETRY_S = 1.0
"""The `Retry-After` if running requests hold what is missing: it is not known when they end."""


def refusal_of(code: str, decision: Decision, key: Key, needed_tokens: int | None = None) -> CallerError:
    """Every refusal except those for lack of money. `needed_tokens`: None if the size of the request is not known."""
    kind = BY_COUNT.get(decision.limited_by) if decision.limited_by is not None else None
    message = kind.refusal.format(getattr(key, kind.name)) if kind is not None else _MESSAGES[code]
    error = CallerError(code, message, retry_after_s=decision.retry_after_s or None)
    window = None
    if kind is not None:
        window = {"requests": decision.requests, "tokens": decision.tokens}.get(kind.counts)
    if kind is not None and window is not None:
        used, wait_s = window.limit - window.remaining, ceil(decision.retry_after_s)
        details: dict[str, object] = {f"limit_{kind.counts}": window.limit, f"used_{kind.counts}": used}
        error.message += f" Used in the last minute: {used}."
        if kind.counts == "tokens" and needed_tokens is not None:
            details["needed_tokens"] = needed_tokens
            error.message += f" This request needs at least {needed_tokens}."
        if wait_s:
            details["retry_after_s"] = wait_s
            error.message += f" Try again in {wait_s} s."
        error.details = {"rate_limit": details}
    return error


def budget_refusal(code: str, states: Sequence[AccountState], limited_by: str | None, needed: int) -> CallerError:
    """`states`: of all accounts that the request is charged to. `limited_by`: the account on which it does not fit, if
    that is known. `needed`: what the request needs at least, in nano-dollars."""
    named = [state for state in states if state.charge.account == limited_by] or [
        state for state in states if state.charge.code == code
    ]
    if not named:
        return CallerError(code, _MESSAGES[code])
    state = min(named, key=lambda each: each.free)
    limit, account = state.charge.limit, state.charge.account
    is_credit = account.startswith("ws:")
    parts = [
        f"{'credit' if is_credit else 'limit'} ${_text(limit)}",
        f"spent ${_text(state.spent)}",
        f"reserved by running requests ${_text(state.held)}",
        f"this request needs at least ${_text(needed)}",
    ]
    resets_at = None if is_credit else _resets_at(account)
    scope = _scope_of(account)
    is_held = state.spent + needed <= limit
    message = f"{_summary(state, scope)} {', '.join(parts).capitalize()}."
    if is_held:
        message += " Running requests hold what is missing: try again when they have ended."
    elif needed > limit and not is_credit:
        message += " That is more than the whole limit, so waiting does not help: send a shorter request."
    elif resets_at is not None:
        message += f" It resets at {resets_at}."
    error = CallerError(state.charge.code, message, retry_after_s=_RUNNING_RETRY_S if is_held else None)
    error.details = {
        "budget": {
            "scope": scope,
            "limit_usd": number_of(limit),
            "spent_usd": number_of(state.spent),
            "reserved_usd": number_of(state.held),
            "needed_usd": number_of(needed),
            "resets_at": resets_at,
        }
    }
    return error


def _summary(state: AccountState, scope: str) -> str:
    """A limit is only said to be reached if it is: this request may need more than is left, and a smaller one not."""
    is_used_up, is_rule = state.spent >= state.charge.limit, scope not in ("key", "workspace")
    if is_used_up and not is_rule:
        return _MESSAGES[state.charge.code]
    name = "credit balance" if scope == "workspace" else "spend limit of this API key"
    name = f'spend limit "{scope}"' if is_rule else name
    return f"The {name} is reached." if is_used_up else f"This request needs more than is left of the {name}."


def _scope_of(account: str) -> str:
    """`key`, `workspace` or the name of a rule."""
    kind, _, rest = account.partition(":")
    return {"key": "key", "ws": "workspace"}.get(kind) or rest.split(":")[1]


def _resets_at(account: str) -> str | None:
    period = period_of_account(account)
    if period == "total":
        return None
    return datetime.fromtimestamp(span_of(period)[1] * 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(nano: int) -> str:
    text = f"{dollars_of(nano):f}"
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.rstrip('0').ljust(2, '0')}"
