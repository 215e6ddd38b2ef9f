"""The ledger of a gateway in another process, read from the same database.

    async with open_ledger_reader(url, folder) as books:
        await books.until(lambda seen: not seen.open)
        assert books.seen.rows[id].verdict == "orphaned"

A look reads one state of the database, and checks that all sums are those of their rows.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, select

from streamweir.store.db.base import Store
from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import instances, ledger, open_requests, requests
from streamweir.store.ledger.check import check_sums

WAIT_TIMEOUT_S = 60.0
"""For an orphan, by the promise; nothing here is expected to take it."""


class Seen(Struct):
    open: dict[str, Any]
    """Those that are under way, by their ids."""
    rows: dict[str, Any]
    """Those that are over."""
    kinds: dict[str, list[str]]
    """What the ledger has of each, in order."""
    signs: dict[str, int]
    """By instance, when it gave its last sign of life."""


class LedgerReader:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.seen = Seen({}, {}, {}, {})

    async def look(self) -> Seen:
        self.seen = await self.store.read(_read)
        return self.seen

    async def until(self, holds: Callable[[Seen], bool]) -> Seen:
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while not holds(await self.look()):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"it did not happen: {self.seen}") from None
        return self.seen


@asynccontextmanager
async def open_ledger_reader(url: str, data_dir: Path) -> AsyncIterator[LedgerReader]:
    store = await open_store(url, data_dir)
    try:
        yield LedgerReader(store)
    finally:
        await store.close()


def _read(conn: Connection) -> Seen:
    assert check_sums(conn).faults == []
    kinds: dict[str, list[str]] = defaultdict(list)
    for id, kind in conn.execute(select(ledger.c.request_id, ledger.c.kind).order_by(ledger.c.seq)):
        kinds[id].append(kind)
    return Seen(
        open={row.request_id: row for row in conn.execute(select(open_requests))},
        rows={row.request_id: row for row in conn.execute(select(requests))},
        kinds=kinds,
        signs={row.id: row.seen_ms for row in conn.execute(select(instances))},
    )
