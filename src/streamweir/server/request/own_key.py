"""`GET /v1/key`: what a key may do, what it has used of its limits and budgets, what is left, and when that changes.

Everything is about the key that asks. Its money is the price of its requests, never what they cost the operator. The
credit of its workspace is shown if the workspace is prepaid: then it limits the key.
"""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.policy.access import Key
from streamweir.policy.budget import dollars_of, ends_at, key_account, period_of
from streamweir.policy.key_limits import KINDS
from streamweir.server.accounting.keys import Workspace
from streamweir.store.ledger.accounts import Sums, balance_of, sums_of_keys

RatesUsed = tuple[int, int, int]
"""The requests and tokens of the last minute, and the streams at the moment: in the order of `KINDS`."""


class OwnBudget(Struct, frozen=True, kw_only=True):
    scope: str
    """As a refusal names it: `key`, or `workspace` for its credit."""
    period: str
    limit: int
    """In nano-dollars."""
    sums: Sums
    resets_at: float | None
    """In Unix seconds. None: never."""

    @property
    def left(self) -> int:
        return max(0, self.limit - self.sums.used)


class OwnSums(Struct, frozen=True, kw_only=True):
    """What the ledger says about a key."""

    budgets: tuple[OwnBudget, ...]
    day: int
    """Spent since midnight (UTC), in nano-dollars."""
    month: int


def read_sums(conn: Connection, key: Key, workspace: Workspace, now_s: float) -> OwnSums:
    day, month, own = (key_account(key.id, period_of(kind, now_s)) for kind in ("day", "month", key.budget_period))
    found = sums_of_keys(conn, sorted({day, month, own}))
    budgets: tuple[OwnBudget, ...] = ()
    if key.budget_nano is not None:
        period, limit = key.budget_period, key.budget_nano
        resets_at = ends_at(period, now_s)
        budgets += (OwnBudget(scope="key", period=period, limit=limit, sums=found[own], resets_at=resets_at),)
    if workspace.prepaid:
        credit = balance_of(conn, workspace.id)
        budgets += (OwnBudget(scope="workspace", period="total", limit=credit.granted, sums=credit, resets_at=None),)
    return OwnSums(budgets=budgets, day=found[day].spent, month=found[month].spent)


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
        "limits": _limits(key, rates),
        "budgets": list(map(_budget, budgets)),
        "left_usd": usd(min(budget.left for budget in budgets)) if budgets else None,
        "spent": {"day_usd": usd(sums.day), "month_usd": usd(sums.month)} if sums is not None else None,
    }


def usd(nano: int) -> str:
    """Exactly, without trailing zeros after the decimal point."""
    return format(dollars_of(nano), "f").rstrip("0").rstrip(".")


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
    return {
        "scope": budget.scope,
        "period": budget.period,
        "limit_usd": usd(budget.limit),
        "spent_usd": usd(budget.sums.spent),
        "reserved_usd": usd(budget.sums.held),
        "left_usd": usd(budget.left),
        "resets_at": _moment(budget.resets_at),
    }


def _moment(at_s: float | None) -> str | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
