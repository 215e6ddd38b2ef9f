"""Budgets of rules under [[limits]], per key or per workspace: which of their thresholds are reached.

Accounts of these rules are few, and their ids follow from the table of rules. Rules per end user are left out: there
are as many accounts as end users, and nobody would read what is said about each.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, select

from streamweir.policy.alert import BUDGET, Finding, budget_level, moment_text
from streamweir.policy.budget import ends_at, period_of
from streamweir.policy.end_user import ANONYMOUS
from streamweir.policy.limit_rule import LimitRule, RuleScope
from streamweir.store.alerts.amount import REFUSED_PERCENT, usd
from streamweir.store.db.sql import LookupByIds
from streamweir.store.db.tables import accounts, keys, limit_rules, workspaces

_accounts_by_id = LookupByIds(
    lambda ids: select(accounts.c.id, accounts.c.spent, accounts.c.held).where(accounts.c.id.in_(ids))
)


class _Charged(Struct, frozen=True):
    """A rule in a workspace, or for a key."""

    rule: LimitRule
    row: Row[Any]


def find_rules(
    conn: Connection, rules: Sequence[LimitRule], percents: Sequence[int], refused: frozenset[str], now_ms: int
) -> list[Finding]:
    """`refused`: workspaces in which requests were refused for want of money lately."""
    limited = [rule for rule in rules if rule.per != "user" and rule.budget_nano > 0]
    if not limited or not percents:
        return []
    charged = {_account(each, now_ms): each for each in _charged(conn, limited)}
    return [
        _finding(row, charged[row.id], percents, refused, now_ms) for row in _accounts_by_id.run(conn, list(charged))
    ]


def _charged(conn: Connection, rules: Sequence[LimitRule]) -> Iterator[_Charged]:
    statement = (
        select(limit_rules, workspaces.c.name.label("workspace"), keys.c.name.label("key"))
        .join(workspaces, workspaces.c.id == limit_rules.c.workspace_id)
        .outerjoin(keys, keys.c.id == limit_rules.c.key_id)
        .where(limit_rules.c.per != "user")
    )
    for row in conn.execute(statement):
        for rule in rules:
            is_here = rule.workspace in (None, row.workspace_id, row.workspace)
            is_of_key = rule.key in (None, row.key_id, row.key)
            if (rule.name, rule.per) == (row.name, row.per) and is_here and is_of_key:
                yield _Charged(rule, row)


def _account(charged: _Charged, now_ms: int) -> str:
    row = charged.row
    scope = RuleScope(row.workspace_id, row.name, row.per, row.key_id)
    return scope.account(ANONYMOUS, period_of(charged.rule.budget_period, now_ms / 1000))


def _finding(
    account: Row[Any], charged: _Charged, percents: Sequence[int], refused: frozenset[str], now_ms: int
) -> Finding:
    rule, row = charged.rule, charged.row
    level = budget_level(account.spent, rule.budget_nano, percents)
    if row.workspace_id in refused and account.spent * 100 >= rule.budget_nano * REFUSED_PERCENT:
        level = max(percents)
    ends_s = ends_at(rule.budget_period, now_ms / 1000)
    until_ms = int(ends_s * 1000) if ends_s is not None else None
    return Finding(
        subject=account.id,
        level=level,
        kinds=tuple((each, BUDGET) for each in sorted(percents)),
        basis=rule.budget_nano,
        workspace_id=row.workspace_id,
        data={
            "workspace": {"id": row.workspace_id, "name": row.workspace},
            "key": {"id": row.key_id, "name": row.key} if row.key_id else None,
            "rule": rule.name,
            "period": rule.budget_period,
            "limit_usd": usd(rule.budget_nano),
            "spent_usd": usd(account.spent),
            "reserved_usd": usd(account.held),
            "resets_at": moment_text(until_ms) if until_ms is not None else None,
        },
        until_ms=until_ms,
    )
