"""When the period of a rule's account ends, so that it can be deleted; and an index to delete old sums by kind."""

from datetime import UTC, date, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_PAGE = 1000


def upgrade() -> None:
    op.add_column("accounts", sa.Column("until_ms", sa.BigInteger))
    _fill()
    ends = sa.text("until_ms IS NOT NULL")
    op.create_index("accounts_until", "accounts", ["until_ms"], sqlite_where=ends, postgresql_where=ends)
    op.create_index("attribution_of_kind", "attribution_days", ["kind", "day"])


def _fill() -> None:
    conn, last = op.get_bind(), ""
    accounts = sa.table("accounts", sa.column("id", sa.String), sa.column("until_ms", sa.BigInteger))
    # Not `< "rule;"`: with the collation of many databases a colon comes after a semicolon, or does not count.
    page = sa.select(accounts.c.id).where(accounts.c.id > sa.bindparam("last"), accounts.c.id.startswith("rule:"))
    change = accounts.update().where(accounts.c.id == sa.bindparam("account"))
    while ids := list(conn.scalars(page.order_by(accounts.c.id).limit(_PAGE), {"last": last})):
        ends = [{"account": id, "until": _end_of(id.rpartition(":")[2])} for id in ids]
        if limited := [each for each in ends if each["until"] is not None]:
            conn.execute(change.values(until_ms=sa.bindparam("until")), limited)
        last = ids[-1]


def _end_of(period: str) -> int | None:
    """In Unix milliseconds. None: it never ends."""
    if period == "total":
        return None
    if "W" in period:
        end = date.fromisocalendar(int(period[:4]), int(period[6:]), 1) + timedelta(days=7)
    elif len(period) == len("2026-11"):
        end = (date(int(period[:4]), int(period[5:]), 1) + timedelta(days=32)).replace(day=1)
    else:
        end = date.fromisoformat(period) + timedelta(days=1)
    return int(datetime(end.year, end.month, end.day, tzinfo=UTC).timestamp()) * 1000
