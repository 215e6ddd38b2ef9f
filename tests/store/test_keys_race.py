"""Changes at the same moment: none gets another's version, and who polls meanwhile misses none of them.

Two stores on one database stand for two processes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, select

from streamweir.policy.access import Key, digest_of
from streamweir.store.db.base import Store
from streamweir.store.db.counter import CHANGES, advance, current
from streamweir.store.db.engine import open_store
from streamweir.store.db.errors import Conflict
from streamweir.store.db.tables import keys
from streamweir.store.keys import audit
from streamweir.store.keys.file_keys import put_file_keys
from streamweir.store.keys.keys import list_keys, revoke_key
from streamweir.store.keys.sessions import ensure_admin_secret, is_admin_secret
from streamweir.store.keys.workspaces import list_workspaces, open_default_workspace
from support.key_store import NOW, changes, new_key
from support.stores import each_database, migrated_url

COUNT = 20


@asynccontextmanager
async def two_stores(database: str, folder: Path) -> AsyncIterator[tuple[Store, Store]]:
    url = await migrated_url(database, folder)
    stores = await open_store(url, folder), await open_store(url, folder)
    try:
        yield stores
    finally:
        for store in stores:
            await store.close()


@each_database
async def test_a_counter_gives_each_number_once(database: str, tmp_path: Path) -> None:
    async with two_stores(database, tmp_path) as stores:
        work = partial(advance, name=CHANGES)
        given = await asyncio.gather(*(stores[number % 2].write(work) for number in range(COUNT)))
        assert sorted(given) == list(range(1, COUNT + 1))
        assert await stores[0].read(partial(current, name=CHANGES)) == COUNT


@each_database
async def test_a_poll_misses_nothing(database: str, tmp_path: Path) -> None:
    async with two_stores(database, tmp_path) as stores:
        known: dict[str, bool] = {}
        version = 0
        is_over = asyncio.Event()

        async def poll() -> None:
            nonlocal version
            found = await changes(stores[1], version)
            assert found.version >= version
            version = found.version
            known.update({state.key.id: state.key.revoked_at is None for state in found.keys})

        async def polling() -> None:
            while not is_over.is_set():
                await poll()

        async def change(number: int) -> None:
            store = stores[number % 2]
            new = await new_key(store, f"key-{number}")
            if number % 3 == 0:
                await store.write(partial(revoke_key, key_id=new.key.id, actor="admin", at_ms=NOW))

        poller = asyncio.create_task(polling())
        await asyncio.gather(*(change(number) for number in range(COUNT)))
        is_over.set()
        await poller
        await poll()
        kept = await stores[0].read(list_keys)
        assert known == {each.id: each.revoked_ms is None for each in kept}
        assert len(kept) == COUNT

        def versions(conn: Connection) -> list[int]:
            return list(conn.execute(select(keys.c.version)).scalars())

        found = await stores[0].read(versions)
        assert len(set(found)) == COUNT
        assert await stores[0].read(audit.verify) is None
        assert len(await stores[0].read(partial(audit.list_rows, limit=1000))) == 1 + COUNT + -(-COUNT // 3)


@each_database
async def test_one_of_many_gets_a_name(database: str, tmp_path: Path) -> None:
    async with two_stores(database, tmp_path) as stores:
        tries = [new_key(stores[number % 2], "same") for number in range(8)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(not isinstance(each, BaseException) for each in results) == 1
        assert sum(isinstance(each, Conflict) for each in results) == 7
        assert len(await stores[0].read(list_keys)) == 1


@each_database
async def test_processes_that_start_at_once(database: str, tmp_path: Path) -> None:
    file_keys = [Key(name="ci", digest=digest_of("ci")), Key(name="b", digest=digest_of("b"), workspace_id="team")]

    def start(conn: Connection) -> str | None:
        open_default_workspace(conn, NOW)
        put_file_keys(conn, file_keys, NOW)
        return ensure_admin_secret(conn, NOW)

    async with two_stores(database, tmp_path) as stores:
        reported = await asyncio.gather(*(stores[number % 2].write(start) for number in range(6)))
        (secret,) = [each for each in reported if each is not None]
        assert await stores[1].read(partial(is_admin_secret, secret=secret))
        assert [each.name for each in await stores[0].read(list_workspaces)] == ["default", "team"]
        assert [each.id for each in await stores[0].read(list_keys)] == ["file:b", "file:ci"]
        actions = sorted(row.action for row in await stores[0].read(audit.list_rows))
        assert actions == ["key.create"] * 2 + ["secret.create"] + ["workspace.create"] * 2
        assert await stores[0].read(audit.verify) is None


async def test_an_older_state_of_the_database_is_read_again(tmp_path: Path) -> None:
    async with two_stores("sqlite", tmp_path) as stores:
        new = await new_key(stores[0])
        found = await changes(stores[0], 1_000_000)
        assert [state.key.id for state in found.keys] == [new.key.id]
        assert found.version < 1_000_000
