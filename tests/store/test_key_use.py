"""How much keys were used, and when last: from the sums that stay, and from the requests as long as they are there."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, delete, insert

from streamweir.store.db.tables import SUMS, requests, usage_days, usage_hours
from streamweir.store.requests.key_use import DAYS, KeyUse, uses_of
from streamweir.store.requests.usage import DAY_MS, HOUR_MS
from support.request_rows import NOW_MS, insert_rows, request_row
from support.stores import each_database, store_on

TODAY = NOW_MS // DAY_MS
KEYS = {"key_1": "one", "key_2": "one", "key_3": "two"}


def usage(table: Table, unit: str, at: int, key_id: str, count: int, workspace: str = "one", model: str = "m") -> Any:
    sums = {**dict.fromkeys(SUMS, 0), "requests": count, "price": 10 * count}
    row = {unit: at, "workspace_id": workspace, "key_id": key_id, "model": model, "provider": "p", **sums}
    return insert(table).values(row)


@each_database
async def test_the_uses_of_keys(database: str, tmp_path: Path) -> None:
    statements = [
        usage(usage_days, "day", TODAY, "key_1", 1),
        usage(usage_days, "day", TODAY, "key_1", 2, model="n"),
        usage(usage_days, "day", TODAY - DAYS + 1, "key_1", 4),
        usage(usage_days, "day", TODAY - DAYS, "key_1", 8),  # too old
        usage(usage_days, "day", TODAY, "key_3", 16, workspace="two"),
        usage(usage_days, "day", TODAY, "key_9", 32),  # was not asked for
        usage(usage_hours, "hour", 24 * (TODAY - 90), "key_2", 1),
        usage(usage_hours, "hour", 24 * (TODAY - 91), "key_2", 1),
    ]
    async with store_on(database, tmp_path) as store:

        def fill(conn: Connection) -> None:
            for statement in statements:
                conn.execute(statement)
            insert_rows(conn, [request_row(1), request_row(2, at_ms=NOW_MS - 5)])

        await store.write(fill)
        found = await store.read(lambda conn: uses_of(conn, KEYS, NOW_MS))
        assert found == {
            "key_1": KeyUse(requests=7, price=70, used_ms=NOW_MS + 1),
            "key_2": KeyUse(used_ms=24 * (TODAY - 90) * HOUR_MS),
            "key_3": KeyUse(requests=16, price=160),
        }
        assert await store.read(lambda conn: uses_of(conn, {}, NOW_MS)) == {}
        await store.write(lambda conn: conn.execute(delete(requests)))
        kept = await store.read(lambda conn: uses_of(conn, {"key_1": "one"}, NOW_MS))
        assert kept["key_1"].used_ms is None, "no hour is known"
