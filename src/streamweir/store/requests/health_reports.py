"""What the processes that are alive say about the health of their targets: one text each, the newest.

The store does not interpret the texts. A process of an older version has none, and that of a dead one is not read.
Times are those of the clock that all processes share (`instances.now_of`), so a reader can tell the age of a text,
whatever its own clock shows.
"""

from msgspec import Struct
from sqlalchemy import Connection, and_, or_, select

from streamweir.store.db.sql import upsert
from streamweir.store.db.tables import health_reports, instances
from streamweir.store.journal.entries import plain
from streamweir.store.requests.instances import now_of

MAX_PROCESSES = 100
"""The reports of more are not read: those of the newest processes are."""


class ReportRow(Struct, frozen=True, kw_only=True):
    """A process that is alive."""

    instance: str
    node: str
    started_ms: int
    seen_ms: int
    at_ms: int | None
    """When it wrote its report. None: it has written none."""
    age_ms: int
    """Of the report; never negative."""
    report: str | None


def write_report(conn: Connection, instance: str, report: str, now_ms: int) -> None:
    values = {"at_ms": now_of(conn, now_ms), "report": report}
    statement = upsert(conn, health_reports).values(instance=plain(instance), **values)
    conn.execute(statement.on_conflict_do_update(index_elements=["instance"], set_=values))


def read_reports(conn: Connection, own: str, now_ms: int, silent_ms: int) -> list[ReportRow]:
    """Of `own` process, and of those with a heartbeat not older than `silent_ms`; by node and start."""
    now = now_of(conn, now_ms)
    has_heartbeat = and_(instances.c.stopped_ms.is_(None), instances.c.seen_ms >= now - silent_ms)
    statement = (
        select(instances, health_reports.c.at_ms, health_reports.c.report)
        .outerjoin(health_reports, health_reports.c.instance == instances.c.id)
        .where(or_(instances.c.id == own, has_heartbeat))
        .order_by(instances.c.started_ms.desc(), instances.c.id)
        .limit(MAX_PROCESSES)
    )
    rows = [
        ReportRow(
            instance=row.id,
            node=row.node,
            started_ms=row.started_ms,
            seen_ms=row.seen_ms,
            at_ms=row.at_ms,
            age_ms=max(0, now - row.at_ms) if row.at_ms is not None else 0,
            report=row.report,
        )
        for row in conn.execute(statement)
    ]
    return sorted(rows, key=lambda row: (row.node, row.started_ms, row.instance))
