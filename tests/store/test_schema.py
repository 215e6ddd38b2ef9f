"""Migrations: they make what `tables.py` says, once, whoever comes at the same time, and never touch a newer schema."""

import asyncio
import sqlite3
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic.command import upgrade as run_upgrade
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Table, inspect, select, text

import streamweir.store.db.migrations
from streamweir.store.db.base import Store, StoreError
from streamweir.store.db.engine import open_store
from streamweir.store.db.migrations import HEAD, REVISIONS
from streamweir.store.db.schema import found_revision, migrate
from streamweir.store.db.sql import insert_columns
from streamweir.store.db.tables import (
    LATER_SUMS,
    TTFT,
    accounts,
    attribution_days,
    keys,
    ledger,
    metadata,
    requests,
    target_hours,
    usage_days,
    usage_hours,
    usage_minutes,
    usage_quarters,
)
from streamweir.store.keys.keys import list_keys
from support.postgres import postgres_url
from support.stores import each_database, store_on

OPEN = """
import asyncio, pathlib, sys
from streamweir.store.db.engine import open_store
async def main():
    sys.stdin.readline()
    await (await open_store(sys.argv[1], pathlib.Path(sys.argv[2]))).close()
asyncio.run(main())
print(" ".join(sorted(sys.modules)))
"""


def fresh_url(database: str) -> str:
    return "sqlite:///books.db" if database == "sqlite" else postgres_url()


def shape(conn: Connection) -> dict[str, Any]:
    """What the database says of every table, in words that compare."""
    found = inspect(conn)
    return {
        table: {
            # By name: one that a migration adds comes last in the database, whatever its place in the declaration.
            "columns": sorted(
                (column["name"], str(column["type"]), column["nullable"], str(column.get("autoincrement", False)))
                for column in found.get_columns(table)
            ),
            "primary key": found.get_pk_constraint(table)["constrained_columns"],
            "unique": sorted(
                (each["name"] or "", *each["column_names"]) for each in found.get_unique_constraints(table)
            ),
            "indexes": sorted(
                (each["name"] or "", bool(each["unique"]), *map(str, each["column_names"]))
                for each in found.get_indexes(table)
            ),
        }
        for table in found.get_table_names()
    }


def without_rowid(conn: Connection) -> set[str]:
    return set(conn.scalars(text("SELECT name FROM pragma_table_list WHERE wr")))


def make_by_migrations(conn: Connection) -> dict[str, Any]:
    for table in shape(conn):
        conn.execute(text(f'DROP TABLE "{table}"'))
    migrate(conn)
    assert found_revision(conn) == HEAD
    return shape(conn)


@each_database
async def test_migrations_make_the_tables_as_they_are_described(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        described = await store.read(shape)
        migrated = await store.write(make_by_migrations)
        if database == "sqlite":
            tables = (usage_minutes, usage_quarters, usage_hours, usage_days, attribution_days, target_hours)
            assert await store.read(without_rowid) == {table.name for table in tables}
    assert set(migrated) == {*metadata.tables, "alembic_version"}
    for table in described:
        assert migrated[table] == described[table], table


ENDS = {
    "rule:w:r:user:-::1970-01-01": 86_400_000,
    "rule:w:r:user:-:file:a:1970-02": 59 * 86_400_000,
    "rule:w:r:user:-::1970-W01": 4 * 86_400_000,
    "rule:w:r:user:-::total": None,
    "key:k:1970-01-01": None,
    "ws:w": None,
}
"""Accounts, and when those of rules end."""


def make_revision(conn: Connection, revision: str) -> None:
    """Empty tables as of then."""
    for table in shape(conn):
        conn.execute(text(f'DROP TABLE "{table}"'))
    config = Config()
    config.set_main_option("script_location", str(Path(streamweir.store.db.migrations.__file__).parent))
    config.attributes["connection"] = conn
    run_upgrade(config, revision)


def make_first_books(conn: Connection) -> None:
    """As the first revision has them, with usage in two hours of one day and in one of another."""
    make_revision(conn, "0001")
    names = [column.name for column in usage_hours.c if column.name not in (*TTFT, *LATER_SUMS)]
    names_of_key = ["id", "workspace_id", "name", "origin", "digest", "last4", "scopes", "log_content", "created_ms"]
    key = ("k", "w", "k", "store", b"", "last", "[]", False, 1, 1)  # as it was before there were further settings
    conn.execute(
        insert_columns(keys, [*names_of_key, "version"]), [dict(zip([*names_of_key, "version"], key, strict=True))]
    )
    rows = [("w", "k", "m", "p", 1, 2, 3, 4, 5, 6, 10**15, 8)] * 3
    values = [dict(zip(names, (hour, *row), strict=True)) for hour, row in zip((48, 71, 72), rows, strict=True)]
    conn.execute(insert_columns(usage_hours, names), values)
    request = {"request_id": "r", "at_ms": 1, "instance": "i", "status": 200, "verdict": "ok", "duration_ms": 1}
    request |= {"attempts": "[]", "stream": False, "has_content": False, "cost": 10**15, "target": None}
    request |= {"prompt_tokens": None, "completion_tokens": None, "usage": None}
    cached = {"target": "p/a/m", "at_ms": 3 * 86_400_000 - 1, "prompt_tokens": 9, "completion_tokens": 5}
    others: list[dict[str, Any]] = [
        {"request_id": "s", **cached, "usage": '{"input_uncached":2,"cache_read":7,"output":5}'},
        {"request_id": "t", **cached, "usage": '{"input_uncached":9,"output":5}', "cost": None},
        {"request_id": "u", **cached, "cost": None, "prompt_tokens": None},  # it failed: the provider did not count it
    ]
    conn.execute(insert_columns(requests, list(request)), [request, *(request | other for other in others)])
    account = {"workspace_id": "w", "granted": 0, "spent": 0, "held": 0}
    conn.execute(insert_columns(accounts, ["id", *account]), [{"id": id, **account} for id in ENDS])
    posted = {"at_ms": 1, "kind": "settle", "workspace_id": "w", "amount": 0, "cost": 10**15}
    conn.execute(insert_columns(ledger, list(posted)), [posted])


def prices_of(conn: Connection, table: Table) -> list[int | None]:
    return list(conn.scalars(select(table.c.price).order_by(table.c.seq)))


@each_database
async def test_usage_by_the_day_is_made_of_what_is_there_by_the_hour(database: str, tmp_path: Path) -> None:
    def look(conn: Connection) -> list[list[tuple[Any, ...]]]:
        return [[tuple(row) for row in conn.execute(select(table).order_by(table.c[0]))] for table in tables]

    tables = (usage_minutes, usage_quarters, usage_hours, usage_days)
    nothing = (0,) * len(TTFT)
    async with store_on(database, tmp_path) as store:
        await store.write(make_first_books)
        await store.write(migrate)
        assert await store.read(found_revision) == HEAD
        minutes, quarters, hours, days = await store.read(look)
        targets = await store.read(lambda conn: [tuple(row) for row in conn.execute(select(target_hours))])
        found = await store.read(lambda conn: conn.execute(select(accounts.c.id, accounts.c.until_ms)).all())
        (key,) = await store.read(list_keys)
        prices = [await store.read(partial(prices_of, table=table)) for table in (requests, ledger)]
    assert {row.id: row.until_ms for row in found} == ENDS
    assert (key.name, key.show_routing) == ("k", False)
    assert prices == [[10**15, 10**15, None, None], [10**15]], "the cost was the price"
    assert targets == [(71, "p", "a/m", "", 2, 18, 7, 10, 10**15, 1)]
    assert minutes == quarters == []
    assert [(row[0], row[13:]) for row in hours] == [(at, (10**15, 8, 0, *nothing)) for at in (48, 71, 72)]
    assert days == [
        (2, "w", "k", "m", "p", 2, 4, 6, 8, 10, 12, 2 * 10**15, 16, 2 * 10**15, 16, 0, *nothing),
        (3, "w", "k", "m", "p", 1, 2, 3, 4, 5, 6, 10**15, 8, 10**15, 8, 0, *nothing),
    ]


def make_sums_without_margin(conn: Connection) -> None:
    make_revision(conn, "0005")
    for table in MARGIN_TABLES:
        names = [column.name for column in table.c if column.name not in (*TTFT, "margin", "digest")]
        values = {name: "x" if name in PLACES else 1 for name in names} | {"price": 10, "cost": 13}
        conn.execute(insert_columns(table, names), [values])


def margins_of(conn: Connection) -> list[int]:
    return [conn.execute(select(table.c.margin)).scalar_one() for table in MARGIN_TABLES]


MARGIN_TABLES = (usage_minutes, usage_quarters, usage_hours, usage_days, attribution_days)
PLACES = ("workspace_id", "key_id", "model", "provider", "kind", "value")


@each_database
async def test_old_sums_keep_the_margin_that_was_shown_for_them(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(make_sums_without_margin)
        await store.write(migrate)
        assert await store.read(margins_of) == [-3] * len(MARGIN_TABLES)


def test_the_constants_name_every_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(streamweir.store.db.migrations.__file__).parent))
    found = ScriptDirectory.from_config(config).walk_revisions()
    assert [script.revision for script in found][::-1] == list(REVISIONS)


async def open_in_processes(url: str, folder: Path, count: int) -> list[set[str]]:
    """All at once; the modules that each of them has loaded at the end."""
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            OPEN,
            url,
            str(folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for _ in range(count)
    ]
    ends = await asyncio.gather(*(process.communicate(b"\n") for process in processes))
    assert [error.decode() for _, error in ends] == [""] * count
    return [set(output.decode().split()) for output, _ in ends]


@each_database
async def test_many_that_start_at_once_migrate_once(database: str, tmp_path: Path) -> None:
    for modules in await open_in_processes(fresh_url(database), tmp_path, 3):
        assert "alembic" not in modules  # it takes 10 MB, and nothing had to be changed


@each_database
async def test_many_of_one_process_migrate_once(database: str, tmp_path: Path) -> None:
    url = fresh_url(database)
    stores = await asyncio.gather(*(open_store(url, tmp_path) for _ in range(5)))
    for store in stores:
        assert await store.read(revision) == HEAD
        await store.close()


def revision(conn: Connection) -> str:
    return str(conn.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


async def set_revision(store: Store, name: str) -> None:
    await store.write(lambda conn: conn.execute(text("UPDATE alembic_version SET version_num = :name"), {"name": name}))
    await store.close()


@each_database
@pytest.mark.parametrize("may_migrate", [True, False])
async def test_a_newer_schema_is_refused_and_not_touched(database: str, may_migrate: bool, tmp_path: Path) -> None:
    url = fresh_url(database)
    await set_revision(await open_store(url, tmp_path), "9999")
    with pytest.raises(StoreError) as caught:
        await open_store(url, tmp_path, migrate=may_migrate)
    message = str(caught.value)
    assert "9999" in message
    assert HEAD in message
    assert "\n" not in message


@each_database
async def test_without_leave_to_migrate_an_empty_database_is_refused(database: str, tmp_path: Path) -> None:
    url = fresh_url(database)
    with pytest.raises(StoreError, match="is empty: no streamweir has used it"):
        await open_store(url, tmp_path, migrate=False)
    await (await open_store(url, tmp_path)).close()
    await (await open_store(url, tmp_path, migrate=False)).close()


async def test_a_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A table of somebody else's is in the way, so the database is not ours."""
    other = sqlite3.connect(tmp_path / "books.db")
    other.execute("CREATE TABLE sessions (id)")
    other.close()
    with pytest.raises(StoreError, match="table sessions already exists"):
        await open_store("sqlite:///books.db", tmp_path)
    other = sqlite3.connect(tmp_path / "books.db")
    assert [name for (name,) in other.execute("SELECT name FROM sqlite_master WHERE type = 'table'")] == ["sessions"]
    other.close()
