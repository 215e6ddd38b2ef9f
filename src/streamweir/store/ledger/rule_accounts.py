"""The accounts of rules under [[limits]]: what they have spent and hold, from the rows, and which of them exist.

Like the account of a key's budget, one is created when it is first charged, with what was spent in its period before,
and gets the open requests that it would have been charged for. From then on every settlement in its period is added to
it, whether the process that made the reservation knew the rule or not: `limit_rules` lists what rules have accounts, so
that the ids of all possible accounts of a request can be formed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, String, bindparam, func, select, update

from streamweir.policy.end_user import ANONYMOUS, digest_of_user
from streamweir.policy.limits.limit_rule import RuleAccount, RuleScope, read_rule_account
from streamweir.store.db.sql import BatchStatement, LookupByIds, upsert
from streamweir.store.db.tables import attribution_days, limit_rules, open_requests, usage_days
from streamweir.store.ledger.period import HOUR_MS, span_of

_read_accounts = msgspec.json.Decoder(tuple[str, ...]).decode
_scopes = LookupByIds(
    lambda ids: select(limit_rules.c.workspace_id, limit_rules.c.name, limit_rules.c.per, limit_rules.c.key_id).where(
        limit_rules.c.workspace_id.in_(ids)
    )
)
_add_scopes = BatchStatement(
    lambda conn: upsert(conn, limit_rules).on_conflict_do_nothing(), ("workspace_id", "name", "per", "key_id")
)
_open_of_workspaces = LookupByIds(
    lambda ids: select(
        open_requests.c.request_id,
        open_requests.c.workspace_id,
        open_requests.c.key_id,
        open_requests.c.at_ms,
        open_requests.c.held,
        open_requests.c.end_user,
        open_requests.c.accounts,
    ).where(open_requests.c.workspace_id.in_(ids))
)
_assign = BatchStatement(
    lambda _: (
        update(open_requests)
        .where(open_requests.c.request_id == bindparam("request", type_=String))
        .values(accounts=bindparam("new_accounts", type_=String))
    ),
    ("new_accounts", "request"),
)


def accounts_in(text: str | None) -> tuple[str, ...]:
    """The accounts of an open request, as its row has them."""
    return _read_accounts(text) if text is not None else ()


def accounts_text(accounts: Sequence[str]) -> str | None:
    return msgspec.json.encode(accounts).decode() if accounts else None


def find_scopes(conn: Connection, workspace_ids: Iterable[str]) -> dict[str, list[RuleScope]]:
    """By workspace: the rules that have, or had, an account in it."""
    found: dict[str, list[RuleScope]] = defaultdict(list)
    for row in _scopes.run(conn, workspace_ids):
        found[row.workspace_id].append(RuleScope(*row))
    return found


def add_scopes(conn: Connection, account_ids: Iterable[str]) -> None:
    _add_scopes.run(conn, sorted({tuple(read_rule_account(id).scope) for id in account_ids}))


def sums_of_rules(
    conn: Connection, account_ids: Sequence[str]
) -> tuple[dict[str, tuple[int, int]], dict[str, list[str]]]:
    """For accounts without a row: what was spent in their periods, and what open requests hold; and the accounts that
    each of these requests must be assigned to."""
    accounts = {id: read_rule_account(id) for id in account_ids}
    opened: dict[str, list[Row[*tuple[Any, ...]]]] = defaultdict(list)
    for row in _open_of_workspaces.run(conn, sorted({each.scope.workspace_id for each in accounts.values()})):
        opened[row.workspace_id].append(row)
    sums: dict[str, tuple[int, int]] = {}
    assigned: dict[str, list[str]] = defaultdict(list)
    for id, account in accounts.items():
        held = 0
        for row in opened[account.scope.workspace_id]:
            if _is_charged(account, row):
                held += row.held
                assigned[row.request_id].append(id)
        sums[id] = (_spent(conn, account), held)
    return sums, assigned


def assign(conn: Connection, assigned: dict[str, list[str]]) -> None:
    """Adds these accounts to the open requests."""
    if not assigned:
        return
    statement = select(open_requests.c.request_id, open_requests.c.accounts)
    chosen = statement.where(open_requests.c.request_id.in_(sorted(assigned)))
    rows = [(id, dict.fromkeys((*accounts_in(text), *assigned[id]))) for id, text in conn.execute(chosen)]
    _assign.run(conn, sorted((accounts_text(list(accounts)), id) for id, accounts in rows))


def spent_by_digest(conn: Connection, scope: RuleScope, period: str) -> dict[str, int]:
    """What the accounts of a rule have spent in a period, by the digest in their ids."""
    statement = _of_scope(scope, period)
    if scope.per == "user":
        digest = attribution_days.c.digest
        return {each: int(price) for price, each in conn.execute(statement.add_columns(digest).group_by(digest))}
    return {ANONYMOUS: int(conn.execute(statement).scalar_one() or 0)}


def _of_scope(scope: RuleScope, period: str) -> Select[Any]:
    first, end = span_of(period)
    table = attribution_days if scope.per == "user" else usage_days
    columns = table.c
    within = [columns.workspace_id == scope.workspace_id, columns.day >= first // 24, columns.day < end // 24]
    if scope.key_id:
        within.append(columns.key_id == scope.key_id)
    if scope.per == "user":
        within.append(columns.kind == "end_user")
    return select(func.sum(columns.price)).select_from(table).where(*within)


def _spent(conn: Connection, account: RuleAccount) -> int:
    statement = _of_scope(account.scope, account.period)
    if account.scope.per == "user":
        statement = statement.where(attribution_days.c.digest == account.digest)
    return int(conn.execute(statement).scalar_one() or 0)


def _is_charged(account: RuleAccount, row: Row[*tuple[Any, ...]]) -> bool:
    first, end = span_of(account.period)
    return (
        first <= row.at_ms // HOUR_MS < end
        and account.scope.key_id in ("", row.key_id)
        and (account.scope.per != "user" or account.digest == digest_of_user(row.end_user))
    )


def possible_accounts(scopes: dict[str, list[RuleScope]], requests: Collection[tuple[str, str, str, int]]) -> set[str]:
    """The accounts that requests (workspace, key, digest of the end user, hour) are added to, if they exist."""
    return {
        id
        for workspace_id, key_id, digest, hour in requests
        for scope in scopes.get(workspace_id, ())
        if scope.key_id in ("", key_id)
        for id in scope.accounts_at(digest, hour * 3600)
    }
