"""Opens the database that the configuration names: an SQLite file, or PostgreSQL by its URL.

An opened database always has the schema of this program. Every failure to open it is a `StoreError` of one line, which
names the database and the reason and never contains a password.
"""

import asyncio
from pathlib import Path
from urllib.parse import unquote

from sqlalchemy.exc import DBAPIError

from streamweir.store.db import schema
from streamweir.store.db.base import SLOW_S, OnSlow, Store, StoreError, StoreUnavailable, wait_for_disk
from streamweir.store.db.migrations import HEAD

_MIGRATION_S = 3600.0
"""Indexes of a log with many million rows are rebuilt. A migration that takes longer is rolled back."""
_OPEN_S = 10.0


async def open_store(
    url: str, data_dir: Path, *, migrate: bool = True, on_slow: OnSlow = lambda *_: None, every_s: float = SLOW_S
) -> Store:
    """With `migrate` false, a schema that is not this program's own is an error too. A slow disk is waited for, and
    `on_slow` is called every few seconds."""
    store = await _make_store(url, data_dir, on_slow, every_s)
    try:
        with store.without_time_limit(on_slow, every_s):
            await _check_schema(store, migrate)
    except BaseException:
        await store.close()
        raise
    return store


async def _check_schema(store: Store, migrate: bool) -> None:
    try:
        found = await store.read(schema.found_revision, timeout_s=_OPEN_S)
        if found == HEAD:
            return
        if not migrate and found is None:
            raise StoreError(f"the database {store.where} is empty: no streamweir has used it")
        if not migrate:
            raise StoreError(
                f"the database {store.where} has the schema {found}, and this streamweir needs {HEAD}: "
                "`streamweir serve` updates it when it starts"
            )
        await store.write(schema.upgrade, timeout_s=_MIGRATION_S)
    except StoreUnavailable as fault:
        raise StoreError(f"cannot open the database {fault}") from fault
    except DBAPIError as fault:
        raise StoreError(f"cannot open the database {store.where}: {first_line(fault)}") from fault


def sqlite_path(url: str, data_dir: Path) -> Path | None:
    """The path of an SQLite database; None for PostgreSQL."""
    scheme, colon, rest = url.partition(":")
    if not colon or scheme.lower() != "sqlite":
        return None
    path = unquote(rest.removeprefix("///"))
    if not rest.startswith("///") or path in ("", ":memory:") or "?" in rest:
        raise StoreError("the database's URL must be sqlite:///FILE, or sqlite:////PATH for an absolute path")
    return data_dir / path


async def _make_store(url: str, data_dir: Path, on_slow: OnSlow, every_s: float) -> Store:
    path = sqlite_path(url, data_dir)
    if path is not None:
        from streamweir.store.db.sqlite import SqliteStore, make_file

        making = asyncio.get_running_loop().run_in_executor(None, make_file, path)
        await wait_for_disk(making, str(path), on_slow, every_s)
        making.result()
        return SqliteStore(path)
    if url.partition(":")[0].lower() not in ("postgresql", "postgres", "postgresql+asyncpg"):
        raise StoreError("the database's URL must begin with sqlite:/// or postgresql://")
    try:
        from streamweir.store.db.postgres import PostgresStore
    except ModuleNotFoundError as fault:
        if fault.name != "asyncpg":
            raise
        raise StoreError("PostgreSQL needs a driver: install streamweir[postgres]") from fault
    return PostgresStore(url)


def first_line(fault: DBAPIError) -> str:
    """The driver's message, without the statement."""
    cause = fault.orig.__cause__ or fault.orig if fault.orig is not None else fault
    return str(cause).partition("\n")[0]
