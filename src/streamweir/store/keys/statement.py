"""Reads the statement of a workspace for a month.

Requests are deleted after some time, so it is read from what is kept: prices and tokens from `usage_days`, which are
written in the same transaction as the settlements of the ledger, by the time of the reservation; credits from the
ledger itself. A month is a few thousand rows, however many requests it has. `price_by_ledger` computes the sum from
the single settlements: it reads all of them, and is for checking.
"""

from sqlalchemy import BigInteger, Connection, and_, cast, func, select

from streamweir.policy.billing.statement import DAY_MS, Charges, Credit, Line, Statement, span_of_month
from streamweir.store.db.errors import Invalid
from streamweir.store.db.tables import keys, ledger, open_requests, usage_days
from streamweir.store.keys.workspaces import find_workspace
from streamweir.store.ledger.accounts import balance_of

_SUMS = Charges.__struct_fields__


def read_statement(conn: Connection, workspace: str, month: str, now_ms: int) -> Statement:
    """`workspace`: name or id. Raises `NotFound`, and `Invalid` if it is no month."""
    try:
        since_ms, until_ms = span_of_month(month)
    except ValueError as error:
        raise Invalid(str(error), "month") from None
    found = find_workspace(conn, workspace)
    credits = _credits(conn, found.id, until_ms)
    before = sum(credit.amount for credit in credits if credit.at_ms < since_ms)
    return Statement(
        workspace=found.name,
        workspace_id=found.id,
        month=month,
        is_prepaid=found.prepaid,
        lines=_lines(conn, found.id, since_ms, until_ms),
        credits=[credit for credit in credits if credit.at_ms >= since_ms],
        balance_before=before - _charged_before(conn, found.id, since_ms),
        open_requests=_count_open(conn, found.id, since_ms, until_ms),
        is_over=until_ms <= now_ms,
    )


def price_by_ledger(conn: Connection, workspace_id: str, since_ms: int, until_ms: int) -> int:
    """The prices of all settlements whose reservations are of the period."""
    hold = ledger.alias()
    is_hold = and_(hold.c.request_id == ledger.c.request_id, hold.c.kind == "hold")
    statement = (
        select(func.coalesce(cast(func.sum(ledger.c.price), BigInteger), 0))
        .select_from(ledger.join(hold, is_hold))
        .where(
            ledger.c.workspace_id == workspace_id,
            ledger.c.kind == "settle",
            hold.c.at_ms >= since_ms,
            hold.c.at_ms < until_ms,
        )
    )
    return int(conn.execute(statement).scalar_one())


def _lines(conn: Connection, workspace_id: str, since_ms: int, until_ms: int) -> list[Line]:
    """In the order of day, key and model. Providers are summed up: which one answered is the operator's affair."""
    columns = usage_days.c
    group = (columns.day, columns.key_id, columns.model)
    sums = [cast(func.sum(columns[name]), BigInteger) for name in _SUMS]
    statement = select(*group, *sums).where(
        columns.day >= since_ms // DAY_MS, columns.day < until_ms // DAY_MS, columns.workspace_id == workspace_id
    )
    names = {row.id: row.name for row in conn.execute(select(keys.c.id, keys.c.name))}
    lines = [
        Line(
            day=day,
            key_id=key_id,
            key=names.get(key_id, key_id),
            model=model,
            charges=Charges(**dict(zip(_SUMS, map(int, counts), strict=True))),
        )
        for day, key_id, model, *counts in conn.execute(statement.group_by(*group))
    ]
    return sorted(lines, key=lambda line: (line.day, line.key, line.key_id, line.model))


def _charged_before(conn: Connection, workspace_id: str, until_ms: int) -> int:
    """All that was ever charged less what came since: a statement is mostly of the last month, and years are before."""
    columns = usage_days.c
    statement = select(func.coalesce(cast(func.sum(columns.price), BigInteger), 0)).where(
        columns.day >= until_ms // DAY_MS, columns.workspace_id == workspace_id
    )
    return balance_of(conn, workspace_id).spent - int(conn.execute(statement).scalar_one())


def _credits(conn: Connection, workspace_id: str, until_ms: int) -> list[Credit]:
    """`request_id IS NULL` is in the index `ledger_once`: the settlements are not read."""
    columns = ledger.c
    statement = (
        select(columns.at_ms, columns.amount, columns.note)
        .where(
            columns.request_id.is_(None),
            columns.kind == "credit",
            columns.workspace_id == workspace_id,
            columns.at_ms < until_ms,
        )
        .order_by(columns.at_ms, columns.seq)
    )
    return [Credit(at_ms=at_ms, amount=amount, note=note or "") for at_ms, amount, note in conn.execute(statement)]


def _count_open(conn: Connection, workspace_id: str, since_ms: int, until_ms: int) -> int:
    columns = open_requests.c
    statement = select(func.count()).where(
        columns.workspace_id == workspace_id, columns.at_ms >= since_ms, columns.at_ms < until_ms
    )
    return int(conn.execute(statement).scalar_one())
