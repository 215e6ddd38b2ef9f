"""Numbers that only go up, one row each. To advance one is to hold its row until the transaction ends.

So whoever comes second waits, and what was committed under a smaller number is seen under a larger
one: readers that ask for all beyond a number miss nothing.

What one process at a time may do. A lease ends by itself, so that whoever dies holding one blocks nobody for long.

The time is handed in. Clocks of different nodes differ: what is done under a lease must be safe to
do twice at once, and the lease is there to spare the work.
"""

from sqlalchemy import Connection, delete, or_, select, update

from streamweir.store.db.sql import upsert
from streamweir.store.db.tables import counters, leases

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


def take_lease(conn: Connection, name: str, holder: str, now_ms: int, for_ms: int) -> bool:
    """Takes or prolongs it. False: another holds it."""
    values = {"holder": holder, "until_ms": now_ms + for_ms}
    free = or_(leases.c.holder == holder, leases.c.until_ms <= now_ms)
    if conn.execute(update(leases).where(leases.c.name == name, free).values(**values)).rowcount == 1:
        return True
    return conn.execute(upsert(conn, leases).values(name=name, **values).on_conflict_do_nothing()).rowcount == 1


def release_lease(conn: Connection, name: str, holder: str) -> None:
    """Of another's nothing is changed."""
    conn.execute(delete(leases).where(leases.c.name == name, leases.c.holder == holder))
