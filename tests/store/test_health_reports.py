"""What processes say about the health of targets: the newest of each that is alive, by the clock that all share."""

from pathlib import Path

from sqlalchemy import Connection, update

from streamweir.store.db.tables import health_reports, instances
from streamweir.store.requests.health_reports import MAX_PROCESSES, ReportRow, read_reports, write_report
from streamweir.store.requests.instances import now_of, retire, write_heartbeat
from support.stores import each_database, store_on

SILENT_MS = 6000


@each_database
async def test_the_reports_of_processes_that_are_alive(database: str, tmp_path: Path) -> None:
    def fill(conn: Connection) -> int:
        now = now_of(conn, 1_000_000)
        for name in ("own", "other", "older version", "dead", "ended", "suspended"):
            write_heartbeat(conn, name, f"node of {name}", now)
            if name != "older version":
                write_report(conn, name, f"report of {name}", 1_000_000)
        retire(conn, "ended", now)
        late = instances.c.id.in_(["dead", "own", "suspended"])
        conn.execute(update(instances).where(late).values(seen_ms=now - SILENT_MS - 60_000))
        write_heartbeat(conn, "suspended", "node of suspended", now)  # it goes on
        write_report(conn, "other", "the newest", 1_000_000)
        return now

    async with store_on(database, tmp_path) as store:
        now = await store.write(fill)
        # The clock of the reader is an hour behind: on PostgreSQL that does not matter.
        wrong_ms = 1_000_000 if database == "sqlite" else 1_000_000 - 3_600_000
        rows = await store.read(lambda conn: read_reports(conn, "own", wrong_ms, SILENT_MS))
        assert {row.instance: row.report for row in rows} == {
            "older version": None,
            "other": "the newest",
            "own": "report of own",
            "suspended": "report of suspended",
        }, "its own always, however late its heartbeat"
        assert [row.node for row in rows] == sorted(row.node for row in rows)
        for row in rows:
            assert (row.at_ms is None) == (row.report is None)
            assert abs((row.at_ms or now) - now) < 60_000
            assert 0 <= row.age_ms < 60_000


@each_database
async def test_a_clock_that_was_set_back_makes_no_report_younger_than_new(database: str, tmp_path: Path) -> None:
    def fill(conn: Connection) -> None:
        write_heartbeat(conn, "own", "node", now_of(conn, 1_000_000))
        write_report(conn, "own", "written before", 1_000_000)
        ahead = health_reports.c.at_ms + 3_600_000
        conn.execute(update(health_reports).values(at_ms=ahead))

    async with store_on(database, tmp_path) as store:
        await store.write(fill)
        (row,) = await store.read(lambda conn: read_reports(conn, "own", 1_000_000, SILENT_MS))
        assert row.age_ms == 0


async def test_so_many_processes_are_read(tmp_path: Path) -> None:
    def fill(conn: Connection) -> None:
        for number in range(MAX_PROCESSES + 5):
            write_heartbeat(conn, f"{number}", "node", number)

    async with store_on("sqlite", tmp_path) as store:
        await store.write(fill)
        rows: list[ReportRow] = await store.read(lambda conn: read_reports(conn, "0", 5, SILENT_MS))
        assert [row.instance for row in rows] == [str(number) for number in range(5, MAX_PROCESSES + 5)]
