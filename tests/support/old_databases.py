"""Databases and journals that older versions wrote (`tests/store/dumps`), restored for a test."""

import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, MetaData, Table, inspect, select

from streamweir.store.db.base import Store
from streamweir.store.db.postgres import PostgresStore
from streamweir.store.db.sqlite import SqliteStore, make_file
from support.postgres import shared_postgres

DUMPS = Path(__file__).parents[1] / "store" / "dumps"
VERSIONS: Sequence[str] = sorted(each.name for each in DUMPS.iterdir() if each.is_dir())
Contents = dict[str, tuple[list[str], list[tuple[Any, ...]]]]
"""By table: the names of the columns, and the rows."""


def restore(version: str, database: str, folder: Path) -> str:
    """The URL of the database. The journal is in `folder`."""
    source = DUMPS / version / database
    shutil.copytree(source / "journal", folder / "journal", dirs_exist_ok=True)
    if database == "postgres":
        url = shared_postgres().make_database()
        shared_postgres().load(source / "database.sql", url.partition("?")[0].rpartition("/")[2])
        return url
    path = folder / "streamweir.db"
    path.touch(mode=0o600)
    conn = sqlite3.connect(path)
    conn.executescript((source / "database.sql").read_text())
    conn.close()
    return "sqlite:///streamweir.db"


def secrets_of(version: str, database: str) -> dict[str, str]:
    """The secrets of the keys in it, by name."""
    found: dict[str, str] = json.loads((DUMPS / version / database / "keys.json").read_text())
    return found


@asynccontextmanager
async def opened_as_it_is(url: str, folder: Path) -> AsyncIterator[Store]:
    """Whatever its schema is."""
    store: Store
    if url.startswith("sqlite"):
        make_file(folder / "streamweir.db")
        store = SqliteStore(folder / "streamweir.db")
    else:
        store = PostgresStore(url)
    try:
        yield store
    finally:
        await store.close()


def read_all(conn: Connection) -> Contents:
    found: Contents = {}
    for name in inspect(conn).get_table_names():
        table = Table(name, MetaData(), autoload_with=conn)
        columns = [column.name for column in table.columns]
        found[name] = columns, [tuple(row) for row in conn.execute(select(table))]
    return found
