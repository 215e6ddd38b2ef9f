"""Numbers that only go up, one row each. To advance one is to hold its row until the transaction ends.

So whoever comes second waits, and what was committed under a smaller number is seen under a larger
one: readers that ask for all beyond a number miss nothing.
"""

from sqlalchemy import Connection, select, update

from streamweir.store.db.tables import counters
from streamweir.store.db.upsert import upsert

CHANGES = "changes"
"""The newest version of workspaces, keys and credits."""
AUDIT = "audit"
"""How many rows the audit log has."""


def advance(conn: Connection, name: str) -> int:
    """The next number, from 1."""
    statement = (
        update(counters).where(counters.c.name == name).values(value=counters.c.value + 1).returning(counters.c.value)
    )
    value: int | None = conn.execute(statement).scalar_one_or_none()
    if value is None:
        conn.execute(upsert(conn, counters).values(name=name, value=0).on_conflict_do_nothing())
        value = conn.execute(statement).scalar_one()
    return value


def current(conn: Connection, name: str) -> int:
    """Without holding it. 0 before the first."""
    value: int | None = conn.execute(select(counters.c.value).where(counters.c.name == name)).scalar_one_or_none()
    return value or 0
