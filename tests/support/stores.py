"""Real databases for tests: the same test on SQLite and on PostgreSQL.

    @each_database
    async def test_keys_are_kept(database: str, tmp_path: Path) -> None:
        async with store_on(database, tmp_path) as store:
            await store.write(lambda conn: create_key(conn, ...))

Each test has a database of its own, a copy of one that was migrated once in this process. Of a store
that must be opened twice, or by another program, `migrated_url` gives the address; with `tmp_path` as
the data folder, it is that of the store above.
"""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from streamweir.store.db.base import Store
from streamweir.store.db.engine import open_store
from streamweir.store.db.postgres import PostgresStore
from streamweir.store.db.sqlite import SqliteStore
from support.deadlines import PROGRAM_TIMEOUT_S, replace_default
from support.postgres import shared_postgres
from support.postgres_dialect import shares_compiled_statements
from support.soak import in_turn

DATABASES = ("sqlite", "postgres")
each_database = pytest.mark.parametrize("database", DATABASES)
F = TypeVar("F", bound=Callable[..., object])


def one_database(test: F) -> F:
    """For tests of the gateway, whose statements have tests of their own on both databases: it runs on one of them, in
    turn with every commit, and in `make soak` on both."""
    marked: F = pytest.mark.parametrize("database", in_turn(test.__name__, DATABASES))(test)
    return marked


for each in (SqliteStore, PostgresStore):
    for method in (each.read, each.write, each.write_content):
        replace_default(method, timeout_s=PROGRAM_TIMEOUT_S)
shares_compiled_statements()
_FILE = "streamweir.db"
_SQLITE_URL = f"sqlite:///{_FILE}"
_kept: dict[tuple[str, str], bytes | str] = {}
"""By kind and contents: a file's bytes, or the name of a database to be copied."""
Fill = Callable[[str, Path], Awaitable[object]]
"""Gets the address and the data folder of an empty database."""


@asynccontextmanager
async def store_on(database: str, folder: Path) -> AsyncIterator[Store]:
    """Open, empty, at the newest schema; closed at the end of the block."""
    store = await open_store(await migrated_url(database, folder), folder)
    try:
        yield store
    finally:
        await store.close()


async def migrated_url(database: str, folder: Path) -> str:
    """Of a new database without rows. On SQLite it is in `folder`, where there must be none yet."""
    return await copy_url(database, folder, "nothing", _migrate)


async def copy_url(database: str, folder: Path, name: str, fill: Fill) -> str:
    """Of a new database with the contents of this name, which `fill` makes once in this process."""
    if (database, name) not in _kept:
        _kept[database, name] = await _filled(database, fill)
    found = _kept[database, name]
    if isinstance(found, str):
        return shared_postgres().make_database(template=found)
    path = folder / _FILE
    with path.open("xb") as file:
        file.write(found)
    path.chmod(0o600)
    return _SQLITE_URL


async def _migrate(url: str, folder: Path) -> None:
    await (await open_store(url, folder)).close()


async def _filled(database: str, fill: Fill) -> bytes | str:
    with tempfile.TemporaryDirectory() as folder:
        url = _SQLITE_URL if database == "sqlite" else shared_postgres().make_database()
        await fill(url, Path(folder))
        if database == "sqlite":
            return (Path(folder) / _FILE).read_bytes()
        return url.partition("?")[0].rpartition("/")[2]
