"""Opens the database that the configuration names: an SQLite file, or PostgreSQL by its URL.

An opened database always has the schema of this program. Every failure to open it is a `StoreError` of one line, which
names the database and the reason and never contains a password.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from sqlalchemy.exc import DBAPIError

from streamweir.store.db import schema
from streamweir.store.db.base import SLOW_S, OnSlow, Store, StoreError, StoreUnavailable, wait_for_disk
from streamweir.store.db.migrations import HEAD

OnUpgrade = Callable[[str], None]
_MIGRATION_S = 3600.0
"""Indexes of a log with many million rows are rebuilt. A migration that takes longer is rolled back."""
_OPEN_S = 10.0


class OtherSchema(StoreError):
    """It has the schema of another version of this program, and may not be changed now."""


async def open_store(
    url: str,
    data_dir: Path,
    *,
    migrate: bool = True,
    is_alone: bool = False,
    on_slow: OnSlow = lambda *_: None,
    on_upgrade: OnUpgrade | None = None,
    every_s: float = SLOW_S,
) -> Store:
    """With `migrate` false, a schema that is not this program's own is an error too. A slow disk is waited for, and
    `on_slow` is called every few seconds.

    An older schema is not updated while processes of an older program use it, unless `is_alone` says that there are
    none. With `on_upgrade`, it waits for their end; the function is called with what it waits for or does.
    """
    store = await _make_store(url, data_dir, on_slow, every_s)
    try:
        with store.without_time_limit(on_slow, every_s):
            is_old = await _is_old(store, migrate)
        while is_old:
            try:
                await _upgrade(store, is_alone, on_upgrade, every_s)
                is_old = False
            except schema.SchemaInUse as reason:
                if on_upgrade is None:
                    raise
                on_upgrade(f"waiting: {reason}")
                await asyncio.sleep(every_s)
    except BaseException:  # also when it is cancelled: nobody else has the store
        await store.close()
        raise
    return store


async def _is_old(store: Store, migrate: bool) -> bool:
    with _as_store_errors(store):
        found = await store.read(schema.found_revision, timeout_s=_OPEN_S)
    if not migrate and found is None:
        raise StoreError(f"the database {store.where} is empty: no streamweir has used it")
    if not migrate and found != HEAD:
        raise OtherSchema(
            f"the database {store.where} has the schema {found}, and this streamweir needs {HEAD}: "
            "`streamweir serve` updates it when it starts"
        )
    return found != HEAD


async def _upgrade(store: Store, is_alone: bool, on_upgrade: OnUpgrade | None, every_s: float) -> None:
    def on_slow(where: str, seconds: float) -> None:
        if on_upgrade is not None:
            on_upgrade(f"updating {where} to schema {HEAD}, for {seconds:.0f} s")

    with store.without_time_limit(lambda *_: None), _as_store_errors(store):
        work = partial(schema.upgrade, is_alone=is_alone)
        upgrading = asyncio.ensure_future(store.write(work, timeout_s=_MIGRATION_S))
        try:
            await wait_for_disk(upgrading, store.where, on_slow, every_s)
            before = upgrading.result()
            if before is not None and on_upgrade is not None:
                on_upgrade(f"updated {store.where} from schema {before} to {HEAD}")
        finally:
            upgrading.cancel()


@contextmanager
def _as_store_errors(store: Store) -> Iterator[None]:
    try:
        yield
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
