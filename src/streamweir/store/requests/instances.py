"""The running processes of the gateway, by their heartbeats.

A process is dead if its heartbeat is old, or if it has ended normally (`retire`, after everything was written). Dead
ones matter while they have open requests. All times are arguments; processes on several machines get them from the
database (`now_of`), so that they use the same clock.
"""

from collections.abc import Collection

from sqlalchemy import BigInteger, ColumnElement, Connection, and_, cast, func, or_, select, true, update

from streamweir.store.db.sql import upsert
from streamweir.store.db.tables import instances, open_requests
from streamweir.store.journal.entries import plain


def now_of(conn: Connection, now_ms: int) -> int:
    """The time by the database's clock; by this machine's, `now_ms`, if the database is on this machine."""
    if conn.dialect.name != "postgresql":
        return now_ms
    seconds = func.extract("epoch", func.clock_timestamp())
    moment: int = conn.execute(select(cast(func.floor(seconds * 1000), BigInteger))).scalar_one()
    return moment


def write_heartbeat(conn: Connection, instance: str, node: str, now_ms: int) -> None:
    """The heartbeat of a process. `node`: the name that the workers of one supervisor share."""
    values = {"id": plain(instance), "node": plain(node), "started_ms": now_ms, "seen_ms": now_ms, "stopped_ms": None}
    updated = {"seen_ms": now_ms, "stopped_ms": None}
    conn.execute(upsert(conn, instances).values(values).on_conflict_do_update(index_elements=["id"], set_=updated))


def retire(conn: Connection, instance: str, now_ms: int) -> None:
    """The process stops, and the database has all of its entries."""
    conn.execute(update(instances).where(instances.c.id == plain(instance)).values(stopped_ms=now_ms))


def count_alive(conn: Connection, now_ms: int, silent_ms: int) -> int:
    is_alive = (instances.c.stopped_ms.is_(None), instances.c.seen_ms >= now_ms - silent_ms)
    count: int = conn.execute(select(func.count()).select_from(instances).where(*is_alive)).scalar_one()
    return count


def names_of(conn: Connection, ids: Collection[str]) -> dict[str, str]:
    """The names of nodes, by the ids of their processes. Deleted ones are missing."""
    found = conn.execute(select(instances.c.id, instances.c.node).where(instances.c.id.in_(ids))) if ids else ()
    return {row.id: row.node for row in found}


def is_alive(since_ms: int, own: str) -> ColumnElement[bool]:
    """A condition on open requests joined with instances: the process had a heartbeat since then, or is `own`."""
    has_heartbeat = and_(instances.c.stopped_ms.is_(None), instances.c.seen_ms >= since_ms)
    return or_(open_requests.c.instance == own, has_heartbeat)


def dead_instances(conn: Connection, now_ms: int, silent_ms: int, *, own: str | None = None) -> list[str]:
    """Dead processes with open requests, never `own`. Without a heartbeat, the age of the first open request counts."""
    seen_ms = func.coalesce(instances.c.seen_ms, open_requests.c.at_ms)
    return _others(conn, or_(instances.c.stopped_ms.is_not(None), seen_ms < now_ms - silent_ms), own)


def other_instances(conn: Connection, own: str) -> list[str]:
    """As `dead_instances`, if no other process can be alive."""
    return _others(conn, true(), own)


def _others(conn: Connection, condition: ColumnElement[bool], own: str | None) -> list[str]:
    statement = (
        select(open_requests.c.instance)
        .outerjoin(instances, instances.c.id == open_requests.c.instance)
        .where(condition, open_requests.c.instance.is_distinct_from(own))
    )
    return list(conn.scalars(statement.distinct().order_by(open_requests.c.instance)))
