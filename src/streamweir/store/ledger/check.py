"""Whether the ledger is consistent: every stored sum, recomputed from the rows.

For each workspace: granted is the sum of its credits; spent is the sum of its settlements' prices, and of its usage by
the hour and by the day; held is the sum of its open requests; and granted - spent - held is the sum of all its ledger
rows. For the account of a key's budget in a period: held is the sum of its open requests, and spent is the sum of the
key's usage in the hours of that period; for the account of a rule, that of its end user, key or workspace. For each
request: nothing is charged without a reservation, a hold is open or settled, an open request holds what its ledger rows
say, and its row in the request log, while it is kept, has the settlement's price. It reads one state of the whole
database, and changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Select, Table, and_, case, func, select

from streamweir.policy.limits.limit_rule import RuleScope, read_rule_account
from streamweir.store.db.tables import accounts, ledger, open_requests, requests, usage_days, usage_hours
from streamweir.store.ledger import rule_accounts
from streamweir.store.ledger.period import period_of_account, span_of


class Fault(Struct, frozen=True, kw_only=True):
    """An inconsistency."""

    object: str
    """The id of a workspace, an account or a request."""
    what: str
    kept: int | None
    found: int | None
    """The value computed from the rows."""


class Report(Struct, frozen=True, kw_only=True):
    workspaces: int
    rows: int
    faults: list[Fault]
    """The first ones, if there are many."""


_MAX_FAULTS = 100
_is_of_rule = accounts.c.id.like("rule:%")


def check_sums(conn: Connection) -> Report:
    is_of_workspace = accounts.c.id.like("ws:%")
    kept = {row.workspace_id: row for row in conn.execute(select(accounts).where(is_of_workspace))}
    summed = {row.workspace_id: row for row in conn.execute(_ledger_sums())}
    held = {id: int(total) for id, total in conn.execute(_held_sums())}
    hours, days = (
        {id: int(total) for id, total in conn.execute(_usage_sums(table))} for table in (usage_hours, usage_days)
    )
    faults: list[Fault] = []
    for id in sorted(kept.keys() | summed.keys() | held.keys() | hours.keys() | days.keys()):
        used = (hours.get(id, 0), days.get(id, 0))
        faults += _of_workspace(id, kept.get(id), summed.get(id), held.get(id, 0), used)
    for found in (
        _budgets,
        _budgets_spent,
        _rules_held,
        _rules_spent,
        _lost_holds,
        _charges_without_hold,
        _open_holds,
        _prices,
        _prices_without_settlement,
    ):
        faults += found(conn)
    rows = sum(row.number for row in summed.values())
    return Report(workspaces=len(kept.keys() | summed.keys()), rows=rows, faults=faults[:_MAX_FAULTS])


def _of_workspace(id: str, kept: Any, summed: Any, held: int, used: tuple[int, int]) -> Iterator[Fault]:
    granted, spent, in_hold = (kept.granted, kept.spent, kept.held) if kept is not None else (0, 0, 0)
    credits, prices, total = (int(summed.credits), int(summed.prices), int(summed.total)) if summed else (0, 0, 0)
    for what, expected, found in (
        ("granted", granted, credits),
        ("spent", spent, prices),
        ("held", in_hold, held),
        ("balance", granted - spent - in_hold, total),
        ("usage", used[0], prices),
        ("usage by day", used[1], prices),
    ):
        if expected != found:
            yield Fault(object=id, what=what, kept=expected, found=found)


def _budgets(conn: Connection) -> Iterator[Fault]:
    total = func.coalesce(func.sum(open_requests.c.held), 0)
    statement = (
        select(accounts.c.id, accounts.c.held, total)
        .select_from(accounts.outerjoin(open_requests, open_requests.c.account == accounts.c.id))
        .where(accounts.c.key_id.is_not(None))
        .group_by(accounts.c.id, accounts.c.held)
        .having(accounts.c.held != total)
    )
    for id, held, found in conn.execute(statement.order_by(accounts.c.id).limit(_MAX_FAULTS)):
        yield Fault(object=id, what="held", kept=held, found=int(found))


def _budgets_spent(conn: Connection) -> Iterator[Fault]:
    """One query for each period with accounts, because usage is stored by the hour."""
    statement = select(accounts.c.id, accounts.c.key_id, accounts.c.spent).where(accounts.c.key_id.is_not(None))
    periods: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for id, key_id, spent in conn.execute(statement.order_by(accounts.c.id)):
        periods[period_of_account(id)].append((id, key_id, spent))
    hours = usage_hours.c
    for period, kept in sorted(periods.items()):
        first, end = span_of(period)
        prices = (
            select(hours.key_id, func.sum(hours.price))
            .where(hours.hour >= first, hours.hour < end, hours.key_id.in_(select(accounts.c.key_id)))
            .group_by(hours.key_id)
        )
        found = {key_id: int(price) for key_id, price in conn.execute(prices)}
        for id, key_id, spent in kept:
            if spent != found.get(key_id, 0):
                yield Fault(object=id, what="spent", kept=spent, found=found.get(key_id, 0))


def _rules_held(conn: Connection) -> Iterator[Fault]:
    expected: dict[str, int] = defaultdict(int)
    opened = select(open_requests.c.held, open_requests.c.accounts).where(open_requests.c.accounts.is_not(None))
    for held, of_rules in conn.execute(opened):
        for id in rule_accounts.accounts_in(of_rules):
            expected[id] += held
    statement = select(accounts.c.id, accounts.c.held).where(_is_of_rule).order_by(accounts.c.id)
    kept = {id: held for id, held in conn.execute(statement) if held or id in expected}
    for id in sorted(kept.keys() | expected.keys()):
        if kept.get(id) != expected.get(id, 0):
            yield Fault(object=id, what="held", kept=kept.get(id), found=expected.get(id, 0))


def _rules_spent(conn: Connection) -> Iterator[Fault]:
    """One query for each rule and period, for all of its end users."""
    statement = select(accounts.c.id, accounts.c.spent).where(_is_of_rule).order_by(accounts.c.id)
    periods: dict[tuple[RuleScope, str], list[tuple[str, str, int]]] = defaultdict(list)
    for id, spent in conn.execute(statement):
        account = read_rule_account(id)
        periods[account.scope, account.period].append((id, account.digest, spent))
    for (scope, period), kept in sorted(periods.items()):
        by_digest = rule_accounts.spent_by_digest(conn, scope, period)
        for id, digest, spent in kept:
            found = by_digest.get(digest, 0)
            if spent != found:
                yield Fault(object=id, what="spent", kept=spent, found=found)


def _lost_holds(conn: Connection) -> Iterator[Fault]:
    settled = ledger.alias()
    is_settlement = and_(settled.c.request_id == ledger.c.request_id, settled.c.kind == "settle")
    statement = (
        select(ledger.c.request_id, ledger.c.amount)
        .select_from(
            ledger.outerjoin(settled, is_settlement).outerjoin(
                open_requests, open_requests.c.request_id == ledger.c.request_id
            )
        )
        .where(ledger.c.kind == "hold", settled.c.seq.is_(None), open_requests.c.request_id.is_(None))
    )
    for id, amount in conn.execute(statement.order_by(ledger.c.seq).limit(_MAX_FAULTS)):
        yield Fault(object=id, what="reserved, but neither open nor settled", kept=-amount, found=None)


def _charges_without_hold(conn: Connection) -> Iterator[Fault]:
    hold = ledger.alias()
    is_hold = and_(hold.c.request_id == ledger.c.request_id, hold.c.kind == "hold")
    statement = (
        select(ledger.c.request_id, ledger.c.amount)
        .select_from(ledger.outerjoin(hold, is_hold))
        .where(ledger.c.request_id.is_not(None), ledger.c.kind != "hold", hold.c.seq.is_(None))
    )
    for id, amount in conn.execute(statement.order_by(ledger.c.seq).limit(_MAX_FAULTS)):
        yield Fault(object=id, what="settled without a reservation", kept=amount, found=None)


def _open_holds(conn: Connection) -> Iterator[Fault]:
    total = func.coalesce(func.sum(ledger.c.amount), 0)
    id = open_requests.c.request_id
    statement = (
        select(id, open_requests.c.held, -total)
        .select_from(open_requests.outerjoin(ledger, ledger.c.request_id == id))
        .group_by(id, open_requests.c.held)
        .having(open_requests.c.held != -total)
    )
    for request_id, held, found in conn.execute(statement.order_by(id).limit(_MAX_FAULTS)):
        yield Fault(object=request_id, what="reserved while it is open", kept=held, found=int(found))


def _prices(conn: Connection) -> Iterator[Fault]:
    statement = (
        select(ledger.c.request_id, ledger.c.price, requests.c.price)
        .join(requests, requests.c.request_id == ledger.c.request_id)
        .where(ledger.c.kind == "settle", ledger.c.price.is_distinct_from(requests.c.price))
    )
    for id, price, logged in conn.execute(statement.order_by(ledger.c.seq).limit(_MAX_FAULTS)):
        yield Fault(object=id, what="price", kept=logged, found=price)


def _prices_without_settlement(conn: Connection) -> Iterator[Fault]:
    is_settlement = and_(ledger.c.request_id == requests.c.request_id, ledger.c.kind == "settle")
    statement = (
        select(requests.c.request_id, requests.c.price)
        .select_from(requests.outerjoin(ledger, is_settlement))
        .where(requests.c.price != 0, ledger.c.seq.is_(None))
    )
    for id, price in conn.execute(statement.order_by(requests.c.seq).limit(_MAX_FAULTS)):
        yield Fault(object=id, what="price without a settlement", kept=price, found=None)


def _ledger_sums() -> Select[Any]:
    columns = ledger.c
    return select(
        columns.workspace_id,
        func.count().label("number"),
        func.sum(columns.amount).label("total"),
        func.sum(case((columns.kind == "credit", columns.amount), else_=0)).label("credits"),
        func.coalesce(func.sum(columns.price), 0).label("prices"),
    ).group_by(columns.workspace_id)


def _held_sums() -> Select[Any]:
    columns = open_requests.c
    return select(columns.workspace_id, func.sum(columns.held).label("held")).group_by(columns.workspace_id)


def _usage_sums(table: Table) -> Select[Any]:
    columns = table.c
    return select(columns.workspace_id, func.sum(columns.price)).group_by(columns.workspace_id)
