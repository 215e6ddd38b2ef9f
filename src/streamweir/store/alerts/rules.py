"""Budgets of rules under [[limits]]: which of their thresholds are reached.

The accounts of a rule per key or workspace are few, and their ids follow from the table of rules. A rule per end user
has as many as there are end users: they are looked at only if the rule says at which percentages (`alert_percent`),
and only those are read that have reached the next of them, or whose user was refused.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, or_, select

from streamweir.policy.alert import BUDGET, Finding, budget_level, moment_text
from streamweir.policy.end_user import ANONYMOUS
from streamweir.policy.limits.budget import ends_at, period_of
from streamweir.policy.limits.limit_rule import LimitRule, RuleScope, read_rule_account
from streamweir.store.alerts.amount import REFUSED_PERCENT, usd
from streamweir.store.db.sql import LookupByIds
from streamweir.store.db.tables import accounts, alert_conditions, attribution_days, keys, limit_rules, workspaces

MAX_USERS = 200
"""Of a rule, in one look: the next one finds the rest."""
_columns = (accounts.c.id, accounts.c.spent, accounts.c.held)
_accounts_by_id = LookupByIds(lambda ids: select(*_columns).where(accounts.c.id.in_(ids)))


class Refused(Struct, frozen=True):
    """For want of a budget, lately."""

    users: Mapping[tuple[str, str, str | None], Set[str]] = {}
    """Digests of end users by workspace, key (empty: all) and rule (None: it is not known which budget it was)."""

    def of(self, scope: RuleScope) -> Set[str]:
        """Whose requests did not fit the rule, as far as is known. Empty: nobody's."""
        named, others = ((scope.workspace_id, scope.key_id, rule) for rule in (scope.name, None))
        return self.users.get(named, frozenset()) | self.users.get(others, frozenset())


def refused_by_rules(found: Iterable[tuple[str, str, str, str | None]]) -> Refused:
    """`found`: workspace, key, digest of the end user, and rule."""
    users: defaultdict[tuple[str, str, str | None], set[str]] = defaultdict(set)
    for workspace_id, key_id, digest, rule in found:
        for key in ("", key_id):
            users[workspace_id, key, rule].add(digest)
    return Refused(dict(users))


class _Charged(Struct, frozen=True):
    """A rule in a workspace, or for a key."""

    rule: LimitRule
    percents: tuple[int, ...]
    row: Row[Any]

    @property
    def scope(self) -> RuleScope:
        return RuleScope(self.row.workspace_id, self.row.name, self.row.per, self.row.key_id)


def find_rules(
    conn: Connection, rules: Sequence[LimitRule], percents: tuple[int, ...], refused: Refused, now_ms: int
) -> list[Finding]:
    """`percents`: of rules that have none of their own."""
    own = [(rule, _percents(rule, percents)) for rule in rules if rule.budget_nano > 0]
    limited = [(rule, each) for rule, each in own if each]
    if not limited:
        return []
    charged = list(_charged(conn, limited))
    few = {_account(each, now_ms): each for each in charged if each.rule.per != "user"}
    found = [
        _finding(row, few[row.id], now_ms, is_refused=bool(refused.of(few[row.id].scope)))
        for row in _accounts_by_id.run(conn, list(few))
    ]
    for each in charged:
        if each.rule.per == "user":
            found += _find_users(conn, each, refused, now_ms)
    return found


def _percents(rule: LimitRule, percents: tuple[int, ...]) -> tuple[int, ...]:
    if rule.alert_percent is not None:
        return rule.alert_percent
    return () if rule.per == "user" else percents


def _charged(conn: Connection, rules: Sequence[tuple[LimitRule, tuple[int, ...]]]) -> Iterator[_Charged]:
    statement = (
        select(limit_rules, workspaces.c.name.label("workspace"), keys.c.name.label("key"))
        .join(workspaces, workspaces.c.id == limit_rules.c.workspace_id)
        .outerjoin(keys, keys.c.id == limit_rules.c.key_id)
    )
    for row in conn.execute(statement):
        for rule, percents in rules:
            is_here = rule.workspace in (None, row.workspace_id, row.workspace)
            is_of_key = rule.key in (None, row.key_id, row.key)
            if (rule.name, rule.per) == (row.name, row.per) and is_here and is_of_key:
                yield _Charged(rule, percents, row)


def _account(charged: _Charged, now_ms: int, digest: str = ANONYMOUS) -> str:
    return charged.scope.account(digest, period_of(charged.rule.budget_period, now_ms / 1000))


def _find_users(conn: Connection, charged: _Charged, refused: Refused, now_ms: int) -> list[Finding]:
    workspace_id = charged.row.workspace_id
    stopped = {_account(charged, now_ms, digest) for digest in refused.of(charged.scope)}
    rows = {row.id: row for row in conn.execute(_users_with_news(charged, now_ms))}
    rows |= {row.id: row for row in _accounts_by_id.run(conn, sorted(stopped - rows.keys()))}
    if not rows:
        return []
    names = _names(conn, workspace_id, {read_rule_account(id).digest for id in rows})
    return [
        _finding(row, charged, now_ms, is_refused=id in stopped, end_user=(names.get(read_rule_account(id).digest),))
        for id, row in sorted(rows.items())
    ]


def _users_with_news(charged: _Charged, now_ms: int) -> Select[Any]:
    """Accounts that have reached the next percentage, or about which something was reported with another limit."""
    limit, percents = charged.rule.budget_nano, sorted(charged.percents)
    before, _, after = _account(charged, now_ms, "*").partition("*")
    level, basis = func.coalesce(alert_conditions.c.level, 0), alert_conditions.c.basis
    steps = [(level < each, -(-limit * each // 100)) for each in percents]
    is_reached = and_(level < percents[-1], accounts.c.spent >= case(*steps, else_=limit))
    return (
        select(*_columns)
        .outerjoin(alert_conditions, alert_conditions.c.subject == accounts.c.id)
        .where(*_of_period(charged, now_ms, before, after), or_(is_reached, basis != limit))
        .order_by(accounts.c.id)
        .limit(MAX_USERS)
    )


def _of_period(charged: _Charged, now_ms: int, before: str, after: str) -> Iterable[ColumnElement[bool]]:
    """By indexes of few accounts, and then by id."""
    ends_s = ends_at(charged.rule.budget_period, now_ms / 1000)
    yield accounts.c.until_ms.is_(None) if ends_s is None else accounts.c.until_ms == int(ends_s * 1000)
    yield accounts.c.workspace_id == charged.row.workspace_id
    yield accounts.c.id.startswith(before, autoescape=True)
    yield accounts.c.id.endswith(after, autoescape=True)


def _names(conn: Connection, workspace_id: str, digests: Iterable[str]) -> dict[str, str]:
    """End users by digest, as they are recorded."""
    columns = attribution_days.c
    within = (columns.workspace_id == workspace_id, columns.kind == "end_user", columns.digest.in_(sorted(digests)))
    statement = select(columns.digest, func.max(columns.value)).where(*within).group_by(columns.digest)
    return {digest: value for digest, value in conn.execute(statement) if value}


def _finding(
    account: Row[Any],
    charged: _Charged,
    now_ms: int,
    *,
    is_refused: bool,
    end_user: tuple[str | None] | None = None,
) -> Finding:
    """`end_user`: of a rule per end user. In it, None: the requests without one."""
    rule, row, percents = charged.rule, charged.row, charged.percents
    level = budget_level(account.spent, rule.budget_nano, percents)
    if is_refused and account.spent * 100 >= rule.budget_nano * REFUSED_PERCENT:
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
            **({"end_user": end_user[0]} if end_user is not None else {}),
            "rule": rule.name,
            "period": rule.budget_period,
            "limit_usd": usd(rule.budget_nano),
            "spent_usd": usd(account.spent),
            "reserved_usd": usd(account.held),
            "resets_at": moment_text(until_ms) if until_ms is not None else None,
        },
        until_ms=until_ms,
    )
