"""Two small rows of the database: counters that only increase, and leases.

Advancing a counter locks its row until the transaction ends. So the next one waits, and whatever was committed with a
smaller number is visible to every reader that sees a larger one: a reader of everything after a number misses nothing.

A lease is a right that one process at a time holds. It expires by itself, so that a process that dies with it blocks
others only for a short time. The time is an argument. Clocks of nodes differ: work under a lease must be safe if it is
done twice at once; the lease only avoids unnecessary work.
"""

from sqlalchemy import Connection, delete, or_, select, update

from streamweir.store.db.sql import upsert
from streamweir.store.db.tables import counters, leases

CHANGES = "changes"
"""The newest version of workspaces, keys and credits."""
AUDIT = "audit"
"""How many rows the audit log has."""
LOGINS = "logins"
"""Attempts to log in with a password, which are judged one after the other."""
ALERTS = "alerts"
"""The number of the newest alert."""


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
    """Without locking it. 0 before the first."""
    value: int | None = conn.execute(select(counters.c.value).where(counters.c.name == name)).scalar_one_or_none()
    return value or 0


def take_lease(conn: Connection, name: str, holder: str, now_ms: int, for_ms: int) -> bool:
    """Takes or extends it. False: another process holds it."""
    values = {"holder": holder, "until_ms": now_ms + for_ms}
    free = or_(leases.c.holder == holder, leases.c.until_ms <= now_ms)
    if conn.execute(update(leases).where(leases.c.name == name, free).values(**values)).rowcount == 1:
        return True
    return conn.execute(upsert(conn, leases).values(name=name, **values).on_conflict_do_nothing()).rowcount == 1


def has_lease(conn: Connection, name: str, holder: str, now_ms: int) -> bool | None:
    """Whether this process holds it. None: nobody does."""
    statement = select(leases.c.holder).where(leases.c.name == name, leases.c.until_ms > now_ms)
    found: str | None = conn.execute(statement).scalar_one_or_none()
    return None if found is None else found == holder


def release_lease(conn: Connection, name: str, holder: str) -> None:
    """No effect on the lease of another holder."""
    conn.execute(delete(leases).where(leases.c.name == name, leases.c.holder == holder))
