"""`GET /v1/key`: what a key may do, what it has used of its limits and budgets, what is left, and when that changes.

Everything is about the key that asks. Its money is the price of its requests, never what they cost the operator. The
credit of its workspace is shown if the workspace is prepaid: then it limits the key. So do rules of the operator's
file; of a rule per end user only the limit is shown, because it has a sum for each of them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.policy.access import Key
from streamweir.policy.limits.budget import dollars_of, ends_at, key_account, period_of, workspace_account
from streamweir.policy.limits.key_limits import KINDS
from streamweir.policy.limits.limit_rule import LimitRule
from streamweir.server.accounting.keys import Workspace
from streamweir.store.ledger.accounts import Sums, sums_of

RatesUsed = tuple[int, int, int]
"""The requests and tokens of the last minute, and the streams at the moment: in the order of `KINDS`."""


class OwnBudget(Struct, frozen=True, kw_only=True):
    scope: str
    """As a refusal names it: `key`, `workspace` for its credit, or the name of a rule."""
    per: str
    """Whose spending it limits: `key`, `workspace`, or each `user`."""
    period: str
    limit: int
    """In nano-dollars."""
    sums: Sums | None
    """None: it has one for each end user."""
    resets_at: float | None
    """In Unix seconds. None: never."""

    @property
    def left(self) -> int | None:
        return max(0, self.limit - self.sums.used) if self.sums is not None else None


class OwnSums(Struct, frozen=True, kw_only=True):
    """What the ledger says about a key."""

    budgets: tuple[OwnBudget, ...]
    day: int
    """Spent since midnight (UTC), in nano-dollars."""
    month: int


def read_sums(conn: Connection, key: Key, workspace: Workspace, rules: Iterable[LimitRule], now_s: float) -> OwnSums:
    """`rules`: all of the operator's file."""
    budgets: list[OwnBudget] = []
    if key.budget_nano is not None:
        period = key.budget_period
        sums = _sums(conn, key_account(key.id, period_of(period, now_s)))
        resets_at = ends_at(period, now_s)
        budgets.append(
            OwnBudget(scope="key", per="key", period=period, limit=key.budget_nano, sums=sums, resets_at=resets_at)
        )
    for rule in rules:
        if rule.applies_to(key, workspace.id, workspace.name):
            budgets.append(_of_rule(conn, rule, key, workspace, now_s))
    if workspace.prepaid:
        sums = _sums(conn, workspace_account(workspace.id))
        credit = OwnBudget(
            scope="workspace", per="workspace", period="total", limit=sums.granted, sums=sums, resets_at=None
        )
        budgets.append(credit)
    day, month = (_sums(conn, key_account(key.id, period_of(kind, now_s))).spent for kind in ("day", "month"))
    return OwnSums(budgets=tuple(budgets), day=day, month=month)


def _of_rule(conn: Connection, rule: LimitRule, key: Key, workspace: Workspace, now_s: float) -> OwnBudget:
    account = rule.account_of(key, workspace.id, None, now_s)
    return OwnBudget(
        scope=rule.name,
        per=rule.per,
        period=rule.budget_period,
        limit=rule.budget_nano,
        sums=_sums(conn, account) if rule.per != "user" else None,
        resets_at=ends_at(rule.budget_period, now_s),
    )


def _sums(conn: Connection, account: str) -> Sums:
    return sums_of(conn, [account])[account]


def key_document(key: Key, workspace: Workspace, sums: OwnSums | None, rates: RatesUsed | None) -> dict[str, Any]:
    """`sums`: None without a database. `rates`: None if they are not known at the moment."""
    budgets = sums.budgets if sums is not None else ()
    return {
        "object": "key",
        "id": key.id,
        "name": key.name,
        "workspace": workspace.name,
        "scopes": sorted(key.scopes),
        "models": list(key.models) if key.models is not None else None,
        "dialect": key.dialect,
        "expires_at": _moment(key.expires_at),
        "show_cost": key.show_cost,
        "resumable": key.resumable,
        "limits": _limits(key, rates),
        "budgets": list(map(_budget, budgets)),
        "left_usd": usd_or_none(min((each.left for each in budgets if each.left is not None), default=None)),
        "spent": {"day_usd": usd(sums.day), "month_usd": usd(sums.month)} if sums is not None else None,
    }


def usd(nano: int) -> str:
    """Exactly, without trailing zeros after the decimal point."""
    return format(dollars_of(nano), "f").rstrip("0").rstrip(".")


def usd_or_none(nano: int | None) -> str | None:
    return usd(nano) if nano is not None else None


def _limits(key: Key, rates: RatesUsed | None) -> dict[str, Any]:
    shown = {}
    for place, kind in enumerate(KINDS):
        limit: int | None = getattr(key, kind.name)
        if limit is not None:
            used = rates[place] if rates is not None else None
            left = max(0, limit - used) if used is not None else None
            shown[kind.name] = {"limit": limit, "used": used, "left": left}
    return shown


def _budget(budget: OwnBudget) -> dict[str, Any]:
    sums = budget.sums
    return {
        "scope": budget.scope,
        "per": budget.per,
        "period": budget.period,
        "limit_usd": usd(budget.limit),
        "spent_usd": usd(sums.spent) if sums is not None else None,
        "reserved_usd": usd(sums.held) if sums is not None else None,
        "left_usd": usd_or_none(budget.left),
        "resets_at": _moment(budget.resets_at),
    }


def _moment(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
