"""Accounts: the sums that decide about money, one row per workspace, one per period of a key's budget, and those of
rules under [[limits]] (`store.ledger.rule_accounts`).

An account changes in the same transaction as the ledger rows that it sums up, and under the lock of its workspace's
account. Every transaction that writes ledger rows or open requests takes those locks first, by descending id.
So what it reads afterwards stays true until it ends, and there are no deadlocks. (On SQLite a transaction has the
database for itself.)

A workspace's account is created with the first row of its ledger. A key's account is created when it is first charged,
from what the key has spent in that period. A request, with all of its money, belongs to the period of its reservation.
From then on everything that the key spends in that period is added to it (`store.ledger.posting`). Open requests of the
key without an account are assigned to it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from sqlalchemy import BigInteger, Connection, Row, String, bindparam, case, delete, func, insert, select, update

from streamweir.policy.limits.budget import MAX_NANO, workspace_account
from streamweir.policy.limits.limit_rule import is_rule_account
from streamweir.store.db.errors import Conflict, Invalid
from streamweir.store.db.sql import BatchStatement, LookupByIds, upsert
from streamweir.store.db.tables import accounts, ledger, open_requests, usage_hours
from streamweir.store.journal.entries import plain
from streamweir.store.ledger import rule_accounts
from streamweir.store.ledger.period import HOUR_MS as HOUR_MS
from streamweir.store.ledger.period import period_of_account as period_of_account
from streamweir.store.ledger.period import span_of as span_of

_NO_OWNERS: Mapping[str, str] = MappingProxyType({})


class Sums(Struct, frozen=True):
    granted: int = 0
    spent: int = 0
    held: int = 0

    @property
    def used(self) -> int:
        return self.spent + self.held

    @property
    def balance(self) -> int:
        """Negative if a workspace spends more than was credited."""
        return self.granted - self.spent - self.held


_columns = (accounts.c.id, accounts.c.granted, accounts.c.spent, accounts.c.held)
_select_accounts = LookupByIds(lambda ids: select(*_columns).where(accounts.c.id.in_(ids)))
_select_for_update = LookupByIds(
    lambda ids: (
        select(*_columns)
        .where(accounts.c.id.in_(ids))
        .order_by(accounts.c.id.desc())  # those of workspaces (`ws:`) before those of rules and keys
        .with_for_update()
    )
)
_insert_accounts = BatchStatement(
    lambda conn: upsert(conn, accounts).on_conflict_do_nothing(),
    ("id", "workspace_id", "key_id", "granted", "spent", "held", "until_ms"),
)
_update_sums = BatchStatement(
    lambda _: (
        update(accounts)
        .where(accounts.c.id == bindparam("account", type_=String))
        .values(
            spent=accounts.c.spent + bindparam("more_spent", type_=BigInteger),
            held=accounts.c.held + bindparam("more_held", type_=BigInteger),
        )
    ),
    ("more_spent", "more_held", "account"),
)
_open_of_keys = LookupByIds(
    lambda ids: select(
        open_requests.c.request_id,
        open_requests.c.key_id,
        open_requests.c.at_ms,
        open_requests.c.held,
        open_requests.c.account,
    ).where(open_requests.c.key_id.in_(ids))
)
_assign_account = BatchStatement(
    lambda _: (
        update(open_requests)
        .where(open_requests.c.request_id == bindparam("request", type_=String))
        .values(account=bindparam("new_account", type_=String))
    ),
    ("new_account", "request"),
)


def lock(
    conn: Connection,
    workspace_ids: Iterable[str],
    owners: Mapping[str, str] = _NO_OWNERS,
    others: Iterable[str] = (),
) -> dict[str, Sums]:
    """Locks the accounts of these workspaces, of keys' budgets and of rules until the transaction ends, and returns
    them by id.

    Missing accounts are created, except those of `others`. `owners`: the workspace of each account of a key or a rule,
    which must be locked as well.
    """
    workspaces = {workspace_account(id): id for id in workspace_ids}
    wanted = sorted({*workspaces, *owners, *others}, reverse=True)  # of workspaces first
    found = _by_id(_select_for_update.run(conn, wanted))
    missing = [id for id in wanted if id in workspaces and id not in found]
    if missing:
        _insert_accounts.run(conn, [_workspace_row(conn, id, workspaces[id]) for id in missing])
        found |= _by_id(_select_for_update.run(conn, missing))
    missing = [id for id in owners if id not in found]
    if missing:  # another transaction may have created them meanwhile
        found |= _by_id(_select_accounts.run(conn, missing))
        missing = sorted(id for id in missing if id not in found)
        sums, assignments = _key_sums(conn, [id for id in missing if not is_rule_account(id)])
        _assign_account.run(conn, sorted(assignments, key=lambda assignment: assignment[1]))
        rules = [id for id in missing if is_rule_account(id)]
        if rules:
            of_rules, assigned = _rule_sums(conn, rules)
            rule_accounts.add_scopes(conn, rules)
            rule_accounts.assign(conn, assigned)
            sums |= of_rules
        rows = [(id, owners[id], _key_of(id), 0, sums[id].spent, sums[id].held, _end_of(id)) for id in missing]
        _insert_accounts.run(conn, rows)
        found |= sums
    return found


def change(conn: Connection, changes: Mapping[str, Sequence[int]]) -> None:
    """Adds the spent and held amounts to each account."""
    _update_sums.run(conn, [(spent, held, id) for id, (spent, held) in sorted(changes.items()) if spent or held])


def sums_of_keys(conn: Connection, account_ids: Sequence[str]) -> dict[str, Sums]:
    """The sums of accounts of keys, with a few queries. Writes nothing: an account without a row is summed up."""
    found = _by_id(_select_accounts.run(conn, account_ids))
    return found | _key_sums(conn, [id for id in account_ids if id not in found])[0]


def used_of(conn: Connection, account_ids: Sequence[str]) -> dict[str, int]:
    """The used amount of each account. Writes nothing: an account without a row is summed up."""
    return {id: sums.used for id, sums in sums_of(conn, account_ids).items()}


def sums_of(conn: Connection, account_ids: Sequence[str]) -> dict[str, Sums]:
    """The sums of accounts of any kind. Writes nothing: an account without a row is summed up."""
    found = _by_id(_select_accounts.run(conn, account_ids))
    for id in account_ids:
        if id in found:
            continue
        if id.startswith("ws:"):
            found[id] = _workspace_sums(conn, id[3:])
        else:
            found[id] = (_rule_sums if is_rule_account(id) else _key_sums)(conn, [id])[0][id]
    return {id: found[id] for id in account_ids}


def latest_use(conn: Connection) -> int:
    """The latest time (Unix milliseconds) in whose hour a request was reserved or settled; 0: never."""
    settled = conn.execute(select(func.max(usage_hours.c.hour))).scalar_one()
    opened = conn.execute(select(func.max(open_requests.c.at_ms))).scalar_one()
    return max((settled or 0) * HOUR_MS, opened or 0)


def balance_of(conn: Connection, workspace_id: str) -> Sums:
    id = workspace_account(plain(workspace_id))
    return _by_id(_select_accounts.run(conn, [id])).get(id) or _workspace_sums(conn, plain(workspace_id))


def credit(conn: Connection, workspace_id: str, amount: int, note: str, at_ms: int) -> Sums:
    """Adds credit to a workspace. A negative amount takes credit back, at most the balance."""
    workspace_id = plain(workspace_id)
    id = workspace_account(workspace_id)
    sums = lock(conn, [workspace_id])[id]
    granted = sums.granted + amount
    if amount == 0:
        raise Invalid("the amount of a credit must not be 0", "amount")
    if granted > MAX_NANO:
        raise Invalid("the amount in dollars is too large", "amount")
    if amount < 0 and granted < sums.used:
        raise Conflict("a correction cannot take back more than the remaining credit", "amount")
    row = {"at_ms": at_ms, "kind": "credit", "workspace_id": workspace_id, "amount": amount, "note": plain(note)}
    conn.execute(insert(ledger).values(row))
    conn.execute(update(accounts).where(accounts.c.id == id).values(granted=granted))
    return Sums(granted, sums.spent, sums.held)


def delete_accounts(conn: Connection, key_id: str) -> None:
    """For a key whose budget gets another period, or is removed: an unused account would not be kept up to date.

    The next account is computed from all rows and gets the open requests. The lock of the key's workspace must be held.
    """
    conn.execute(delete(accounts).where(accounts.c.key_id == key_id))
    conn.execute(update(open_requests).where(open_requests.c.key_id == key_id).values(account=None))


def _by_id(rows: Sequence[Row[*tuple[Any, ...]]]) -> dict[str, Sums]:
    return {id: Sums(granted, spent, held) for id, granted, spent, held in rows}


def _key_of(account_id: str) -> str | None:
    """Of a key's budget. None: it is of a rule."""
    return None if is_rule_account(account_id) else account_id.removeprefix("key:").rpartition(":")[0]


def _end_of(account_id: str) -> int | None:
    """Of the account of a rule: the end of its period. None: it never ends, or the account is kept for good."""
    period = period_of_account(account_id)
    return span_of(period)[1] * HOUR_MS if is_rule_account(account_id) and period != "total" else None


def _rule_sums(conn: Connection, account_ids: Sequence[str]) -> tuple[dict[str, Sums], dict[str, list[str]]]:
    """As `rule_accounts.sums_of_rules`."""
    found, assigned = rule_accounts.sums_of_rules(conn, account_ids)
    return {id: Sums(0, spent, held) for id, (spent, held) in found.items()}, assigned


def _workspace_row(conn: Connection, id: str, workspace_id: str) -> tuple[Any, ...]:
    sums = _workspace_sums(conn, workspace_id)
    return (id, workspace_id, None, sums.granted, sums.spent, sums.held, None)


def _workspace_sums(conn: Connection, workspace_id: str) -> Sums:
    statement = select(
        func.sum(case((ledger.c.kind == "credit", ledger.c.amount), else_=0)),
        func.sum(ledger.c.price),
        func.sum(ledger.c.amount),
    ).where(ledger.c.workspace_id == workspace_id)
    granted, spent, left = (int(value or 0) for value in conn.execute(statement).one())
    return Sums(granted, spent, granted - spent - left)


def _key_sums(conn: Connection, account_ids: Sequence[str]) -> tuple[dict[str, Sums], list[tuple[str, str]]]:
    """The sums, and the open requests without an account that now belong to one of these: (account, request)."""
    keys = {id: _key_of(id) or "" for id in account_ids}
    opened: dict[str, list[Row[*tuple[Any, ...]]]] = defaultdict(list)
    for row in _open_of_keys.run(conn, sorted(set(keys.values()))):
        opened[row.key_id].append(row)
    sums: dict[str, Sums] = {}
    assigned: dict[str, str] = {}
    spent = _spent(conn, keys)
    for id, key_id in keys.items():
        first, end = span_of(period_of_account(id))
        held = 0
        for row in opened[key_id]:
            is_unassigned = row.account is None and first <= row.at_ms // HOUR_MS < end
            if row.account == id or (is_unassigned and assigned.setdefault(row.request_id, id) == id):
                held += row.held
        sums[id] = Sums(0, spent.get(id, 0), held)
    return sums, [(account, request) for request, account in assigned.items()]


def _spent(conn: Connection, keys: Mapping[str, str]) -> dict[str, int]:
    """The spent amounts by account, with one query per period. `keys`: the key of each account."""
    periods: dict[str, dict[str, str]] = defaultdict(dict)
    for id, key_id in keys.items():
        periods[period_of_account(id)][key_id] = id
    spent: dict[str, int] = {}
    hours = usage_hours.c
    for period, accounts_of in periods.items():
        first, end = span_of(period)
        within = (hours.key_id.in_(list(accounts_of)), hours.hour >= first, hours.hour < end)
        statement = select(hours.key_id, func.sum(hours.price)).where(*within).group_by(hours.key_id)
        spent |= {accounts_of[key_id]: int(price) for key_id, price in conn.execute(statement)}
    return spent
