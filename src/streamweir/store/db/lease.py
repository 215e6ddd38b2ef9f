"""What one process at a time may do. A lease ends by itself, so that whoever dies holding one blocks nobody for long.

The time is handed in. Clocks of different nodes differ: what is done under a lease must be safe to
do twice at once, and the lease is there to spare the work.
"""

from sqlalchemy import Connection, delete, or_, update

from streamweir.store.db.tables import leases
from streamweir.store.db.upsert import upsert


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
