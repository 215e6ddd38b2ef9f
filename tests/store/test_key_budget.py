"""What was spent and is held of keys' budgets, for a page of keys at once."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event

from streamweir.policy.limits.budget import key_account, period_of
from streamweir.store.db.base import Store
from streamweir.store.journal.entries import Entry
from streamweir.store.keys.keys import KeyRecord, budget_sums
from streamweir.store.ledger.accounts import Sums
from streamweir.store.ledger.admissions import decide_holds
from streamweir.store.ledger.posting import apply
from support.common_entries import hold, settle
from support.entries import key_charge
from support.key_store import NOW, new_key
from support.stores import each_database, store_on

DAY_MS = 86_400_000
PERIODS = ("day", "week", "month", "total")


@contextmanager
def statements(conn: Connection) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_conn: Any, _cursor: Any, text: str, *_: Any) -> None:
        seen.append(text)

    event.listen(conn, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(conn, "before_cursor_execute", note)


@asynccontextmanager
async def budgets_on(database: str, folder: Path, count: int = 5) -> AsyncIterator[tuple[Store, list[KeyRecord]]]:
    async with store_on(database, folder) as store:
        made = [
            await new_key(store, f"key {number}", budget_nano=1000, budget_period=PERIODS[number % 4])
            for number in range(count)
        ]
        yield store, [each.key for each in made]


async def spend(store: Store, name: str, key: KeyRecord, cost: int | None, at_ms: int = NOW, held: int = 100) -> None:
    """Without an account, as of a key that had no budget then. `cost` None: it runs."""
    members: dict[str, Any] = {"key_id": key.id, "at_ms": at_ms}
    entries: list[Entry] = [hold(name, held, **members)]
    if cost is not None:
        entries.append(settle(name, cost, **members))
    await store.write(partial(apply, entries=entries))


@each_database
async def test_the_budgets_of_a_page_of_keys(database: str, tmp_path: Path) -> None:
    async with budgets_on(database, tmp_path) as (store, keys):
        day, week, month, total = keys[:4]
        bare = (await new_key(store, "bare")).key
        for key in (day, week, month, total, bare):
            await spend(store, f"old {key.name}", key, 7, NOW - 400 * DAY_MS)
            await spend(store, f"new {key.name}", key, 40)
            await spend(store, f"open {key.name}", key, None)
        account = key_account(day.id, period_of("day", NOW / 1000))
        held = hold("drawn", 30, key_id=day.id, account=account)
        assert await store.write(partial(decide_holds, holds=[(held, [key_charge(1000, account)])])) == [None]
        found = await store.read(partial(budget_sums, found=[*keys, bare], at_ms=NOW))
        assert found == {
            day.id: Sums(0, 40, 130),
            week.id: Sums(0, 40, 100),
            month.id: Sums(0, 40, 100),
            total.id: Sums(0, 47, 100),
            keys[4].id: Sums(),
        }
        later = await store.read(partial(budget_sums, found=keys[:4], at_ms=NOW + 40 * DAY_MS))
        assert [sums.spent for sums in later.values()].count(47) == 1
        assert later[day.id] == Sums()
        assert await store.read(partial(budget_sums, found=[bare], at_ms=NOW)) == {}


@each_database
async def test_as_many_questions_for_many_keys_as_for_few(database: str, tmp_path: Path) -> None:
    def count(conn: Connection, found: list[KeyRecord]) -> int:
        with statements(conn) as seen:
            budget_sums(conn, found, NOW)
        return len(seen)

    async with budgets_on(database, tmp_path, 60) as (store, keys):
        few = await store.read(partial(count, found=keys[:4]))
        many = await store.read(partial(count, found=keys))
        assert few == many == 2 + len(PERIODS)
