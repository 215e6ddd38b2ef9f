"""What is true now, from sums that exist anyway: accounts, and usage by the minute.

Of accounts only those are read that have reached the first threshold, or about which something was reported. A budget
counts as used up if all of it is spent, or if requests are refused and little of it is left: the rest is less than
what a request needs. What is reserved is not counted: it comes and goes with every request.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, String, and_, case, func, literal, or_, select

from streamweir.policy.alert import (
    BUDGET,
    CREDIT_LOW,
    CREDIT_USED_UP,
    ERRORS_HIGH,
    ERRORS_NORMAL,
    Condition,
    Finding,
    budget_level,
    has_many_errors,
    moment_text,
)
from streamweir.policy.end_user import digest_of_user
from streamweir.policy.limits.budget import PERIODS, ends_at, period_of
from streamweir.policy.limits.limit_rule import LimitRule
from streamweir.store.alerts.amount import REFUSED_PERCENT, usd
from streamweir.store.alerts.rules import Refused, find_rules, refused_by_rules
from streamweir.store.db.sql import LookupByIds, json_member
from streamweir.store.db.tables import accounts, alert_conditions, keys, requests, usage_minutes, workspaces

MINUTE_MS = 60_000
ERRORS = "errors:"
_REFUSALS = ("budget_exceeded", "insufficient_quota")
_MAX_REFUSALS = 10_000
"""Callers choose the names of end users."""
_ALL = ""
"""In a subject: all workspaces together."""
_LOW, _USED_UP = 1, 2
_workspaces_by_id = LookupByIds(lambda ids: select(workspaces.c.id, workspaces.c.name).where(workspaces.c.id.in_(ids)))


class Thresholds(Struct, frozen=True, kw_only=True):
    """See `[alerts]` in docs/configuration.md."""

    budget_percent: tuple[int, ...] = (50, 80, 100)
    credit_low_nano: int = 5_000_000_000
    error_percent: float = 20.0
    error_requests: int = 20
    error_minutes: int = 5
    rules: tuple[LimitRule, ...] = ()
    """Under [[limits]]."""


class Refusals(Struct, frozen=True):
    """Who was refused for want of money lately."""

    keys: frozenset[str] = frozenset()
    workspaces: frozenset[str] = frozenset()
    """Of credit."""
    of_budgets: Refused = Refused()


def find_money(conn: Connection, thresholds: Thresholds, now_ms: int, since_ms: int) -> list[Finding]:
    """Budgets and credit of which something else is to be said than was reported. `since_ms`: refusals after this have
    not been looked at yet."""
    budgets = list(_budgets(conn, thresholds, now_ms)) if thresholds.budget_percent else []
    credits = list(_credits(conn, thresholds))
    refusals = _refusals(conn, since_ms) if budgets or credits or thresholds.rules else Refusals()
    found = find_rules(conn, thresholds.rules, thresholds.budget_percent, refusals.of_budgets, now_ms)
    for row in budgets:
        level = _budget_level(row, thresholds, refusals)
        if (level, row.budget_nano) != (row.level or 0, row.basis or row.budget_nano):
            found.append(_budget_finding(row, level, thresholds, now_ms))
    for row in credits:
        level = _credit_level(row, thresholds, refusals)
        if (level, row.granted) != (row.level or 0, row.basis or row.granted):
            found.append(_credit_finding(row, level, thresholds))
    return found


def find_errors(
    conn: Connection, thresholds: Thresholds, reported: Mapping[str, Condition], now_ms: int
) -> list[Finding]:
    """What has changed: by workspace, and of all together if there are several. `reported`: conditions whose subjects
    are of errors."""
    if not thresholds.error_percent:
        return []
    columns = usage_minutes.c
    statement = (
        select(columns.workspace_id, func.sum(columns.requests), func.sum(columns.errors))
        .where(columns.minute > now_ms // MINUTE_MS - thresholds.error_minutes)
        .group_by(columns.workspace_id)
    )
    counts = {id: (int(count), int(errors)) for id, count, errors in conn.execute(statement)}
    if len(counts) > 1 or f"{ERRORS}{_ALL}" in reported:
        counts[_ALL] = sum(count for count, _ in counts.values()), sum(errors for _, errors in counts.values())
    for subject in reported:
        counts.setdefault(subject.removeprefix(ERRORS), (0, 0))
    high = {id for id in counts if _is_high(id, *counts[id], thresholds, reported)}
    changed = [id for id in counts if (id in high) != (f"{ERRORS}{id}" in reported)]
    names = _names(conn, changed) if changed else {}
    return [_error_finding(id, names, *counts[id], thresholds, reported, now_ms) for id in changed]


def _budgets(conn: Connection, thresholds: Thresholds, now_ms: int) -> Iterator[Any]:
    account: ColumnElement[str] = literal("key:", String) + keys.c.id + ":" + _period(now_ms)
    statement = (
        select(
            accounts.c.id,
            accounts.c.spent,
            accounts.c.held,
            keys.c.id.label("key_id"),
            keys.c.name,
            keys.c.budget_nano,
            keys.c.budget_period,
            keys.c.workspace_id,
            workspaces.c.name.label("workspace"),
            alert_conditions.c.level,
            alert_conditions.c.basis,
        )
        .join(accounts, accounts.c.id == account)
        .join(workspaces, workspaces.c.id == keys.c.workspace_id)
        .outerjoin(alert_conditions, alert_conditions.c.subject == accounts.c.id)
        .where(
            keys.c.budget_nano > 0,
            keys.c.revoked_ms.is_(None),
            _may_have_news(thresholds.budget_percent),
        )
        .order_by(accounts.c.id)
    )
    return iter(conn.execute(statement))


def _may_have_news(percents: Sequence[int]) -> ColumnElement[bool]:
    """A rough filter, so that few of many budgets are read: `_budget_level` decides."""
    level, limit = func.coalesce(alert_conditions.c.level, 0), keys.c.budget_nano
    steps = [(level < each, min(each, REFUSED_PERCENT) - 1) for each in sorted(percents)]
    is_reached = accounts.c.spent >= limit / 100.0 * case(*steps, else_=REFUSED_PERCENT)
    return or_(alert_conditions.c.basis != limit, and_(level < max(percents), is_reached))


def _period(now_ms: int) -> ColumnElement[str]:
    kinds = {kind: period_of(kind, now_ms / 1000) for kind in PERIODS}
    return case(*((keys.c.budget_period == kind, name) for kind, name in kinds.items()), else_=kinds["total"])


def _credits(conn: Connection, thresholds: Thresholds) -> Iterator[Any]:
    left = accounts.c.granted - accounts.c.spent
    statement = (
        select(
            workspaces.c.id,
            workspaces.c.name,
            accounts.c.granted,
            accounts.c.spent,
            accounts.c.held,
            alert_conditions.c.level,
            alert_conditions.c.basis,
        )
        .join(accounts, accounts.c.id == literal("ws:", String) + workspaces.c.id)
        .outerjoin(alert_conditions, alert_conditions.c.subject == accounts.c.id)
        .where(
            workspaces.c.prepaid,
            accounts.c.granted > 0,
            or_(left <= thresholds.credit_low_nano, alert_conditions.c.subject.is_not(None)),
        )
        .order_by(workspaces.c.id)
    )
    return iter(conn.execute(statement))


def _refusals(conn: Connection, since_ms: int) -> Refusals:
    columns = requests.c
    budget = json_member(conn, columns.refusal, "budget").label("budget")
    statement = (
        select(columns.key_id, columns.workspace_id, columns.error, columns.end_user, budget)
        .where(columns.at_ms >= since_ms, columns.error.in_(_REFUSALS))
        .distinct()
        .limit(_MAX_REFUSALS)
    )
    found = conn.execute(statement).all()
    of_budgets = [row for row in found if row.error == "budget_exceeded"]
    return Refusals(
        frozenset(row.key_id for row in of_budgets if row.budget in (None, "key")),
        frozenset(row.workspace_id for row in found if row.error == "insufficient_quota"),
        refused_by_rules(
            (row.workspace_id, row.key_id, digest_of_user(row.end_user), row.budget)
            for row in of_budgets
            if row.budget != "key"
        ),
    )


def _budget_level(row: Any, thresholds: Thresholds, refusals: Refusals) -> int:
    if row.key_id in refusals.keys and row.spent * 100 >= row.budget_nano * REFUSED_PERCENT:
        return max(thresholds.budget_percent)
    return budget_level(row.spent, row.budget_nano, thresholds.budget_percent)


def _budget_finding(row: Any, level: int, thresholds: Thresholds, now_ms: int) -> Finding:
    limit, spent, period = row.budget_nano, row.spent, row.budget_period or "total"
    ends_s = ends_at(period, now_ms / 1000)
    until_ms = int(ends_s * 1000) if ends_s is not None else None
    return Finding(
        subject=row.id,
        level=level,
        kinds=tuple((each, BUDGET) for each in sorted(thresholds.budget_percent)),
        basis=limit,
        workspace_id=row.workspace_id,
        data={
            "workspace": {"id": row.workspace_id, "name": row.workspace},
            "key": {"id": row.key_id, "name": row.name},
            "period": period,
            "limit_usd": usd(limit),
            "spent_usd": usd(spent),
            "reserved_usd": usd(row.held),
            "resets_at": moment_text(until_ms) if until_ms is not None else None,
        },
        until_ms=until_ms,
    )


def _credit_level(row: Any, thresholds: Thresholds, refusals: Refusals) -> int:
    left, low = row.granted - row.spent, thresholds.credit_low_nano
    if left <= 0 or (row.id in refusals.workspaces and left <= low):
        return _USED_UP
    return _LOW if low and left <= low else 0


def _credit_finding(row: Any, level: int, thresholds: Thresholds) -> Finding:
    left, low = row.granted - row.spent, thresholds.credit_low_nano
    return Finding(
        subject=f"ws:{row.id}",
        level=level,
        kinds=((_LOW, CREDIT_LOW), (_USED_UP, CREDIT_USED_UP)) if low else ((_USED_UP, CREDIT_USED_UP),),
        basis=row.granted,
        workspace_id=row.id,
        data={
            "workspace": {"id": row.id, "name": row.name},
            "left_usd": usd(left),
            "credited_usd": usd(row.granted),
            "spent_usd": usd(row.spent),
            "reserved_usd": usd(row.held),
        },
    )


def _is_high(id: str, count: int, errors: int, thresholds: Thresholds, reported: Mapping[str, Condition]) -> bool:
    is_reported = f"{ERRORS}{id}" in reported
    return has_many_errors(count, errors, thresholds.error_percent, thresholds.error_requests, is_reported=is_reported)


def _error_finding(
    id: str,
    names: Mapping[str, str],
    count: int,
    errors: int,
    thresholds: Thresholds,
    reported: Mapping[str, Condition],
    now_ms: int,
) -> Finding:
    subject = f"{ERRORS}{id}"
    before = reported.get(subject)
    return Finding(
        subject=subject,
        level=int(before is None),
        kinds=((1, ERRORS_HIGH),),
        basis=before.basis if before is not None else now_ms,
        end_kind=ERRORS_NORMAL,
        workspace_id=id or None,
        data={
            "workspace": {"id": id, "name": names.get(id, id)} if id else None,
            "minutes": thresholds.error_minutes,
            "requests": count,
            "errors": errors,
            "error_percent": round(100 * errors / count, 1) if count else 0.0,
        },
    )


def _names(conn: Connection, ids: Sequence[str]) -> dict[str, str]:
    return {row.id: row.name for row in _workspaces_by_id.run(conn, ids)}
