"""The update of a large database: a million requests of 0.1.0, on both kinds of store. It prints how long it took."""

import time
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, MetaData, String, Table, cast, func, insert, literal, select

from streamweir.store.db.engine import open_store
from streamweir.store.db.migrations import HEAD
from streamweir.store.db.schema import found_revision
from streamweir.store.db.tables import ledger, requests, target_hours
from support.old_databases import opened_as_it_is, restore
from support.stores import each_database

pytestmark = [pytest.mark.soak, pytest.mark.long_callback("a migration runs before the program serves anyone")]
ROWS = 1_000_000
BATCH = 50_000
SECOND_MS = 1000


def copy_rows(conn: Connection, table: str, first: int) -> None:
    """As many rows as a batch has, each a copy of one that the old program has written, with an id of its own."""
    kind = Table(table, MetaData(), autoload_with=conn)
    model = select(kind).where(kind.c.cost.is_not(None)).order_by(kind.c.seq).limit(1).subquery()
    numbers = select(literal(first).label("number")).cte("numbers", recursive=True)
    numbers = numbers.union_all(select(numbers.c.number + 1).where(numbers.c.number < first + BATCH - 1))
    changed = {
        "request_id": literal("req_copy") + cast(numbers.c.number, String),
        "at_ms": model.c.at_ms - numbers.c.number * SECOND_MS,
    }
    names = [column.name for column in kind.c if column.name != "seq"]
    rows = select(*(changed.get(name, model.c[name]) for name in names)).select_from(
        numbers.join(model, literal(1) == 1)
    )
    conn.execute(insert(kind).from_select(names, rows))


def count_unpriced(conn: Connection, table: Table) -> tuple[int, int]:
    """The number of rows, and of those whose price is not their cost."""
    is_wrong = func.count().filter(table.c.cost.is_not(None), table.c.price.is_distinct_from(table.c.cost))
    rows, wrong = conn.execute(select(func.count(), is_wrong).select_from(table)).one()
    return rows, wrong


@each_database
async def test_a_million_requests(database: str, tmp_path: Path) -> None:
    url = restore("schema-0003", database, tmp_path)
    async with opened_as_it_is(url, tmp_path) as old:
        for table in ("requests", "ledger"):
            for first in range(0, ROWS, BATCH):
                await old.write(partial(copy_rows, table=table, first=first), timeout_s=600)
    said: list[str] = []
    began = time.perf_counter()
    store = await open_store(url, tmp_path, on_upgrade=said.append, every_s=1.0)
    took_s = time.perf_counter() - began
    try:
        assert await store.read(found_revision) == HEAD
        for kind in (requests, ledger):
            rows, wrong = await store.read(partial(count_unpriced, table=kind), timeout_s=600)
            assert rows > ROWS
            assert wrong == 0
        hours = select(func.sum(target_hours.c.requests))
        counted = await store.read(lambda conn: conn.scalar(hours))
        assert counted is not None
        assert counted > ROWS
        assert took_s < 3 or any("updating" in each for each in said), "the start says what it does"
    finally:
        await store.close()
    print(f"{database}: a million requests and their ledger are updated in {took_s:.1f} s")  # noqa: T201
