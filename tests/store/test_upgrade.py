"""Databases that older versions wrote, with their journals: no row is lost, every sum is right, and they are served.

They are real ones: see tests/store/dumps/README.md.
"""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, Table, func, select

from streamweir.core.verdict import Verdict
from streamweir.store.db.base import StoreError
from streamweir.store.db.clock import now_ms
from streamweir.store.db.engine import open_store
from streamweir.store.db.migrations import HEAD
from streamweir.store.db.schema import found_revision, upgrade
from streamweir.store.db.tables import ledger, requests, workspaces
from streamweir.store.keys import audit
from streamweir.store.ledger.accounts import balance_of
from streamweir.store.ledger.check import check_sums
from streamweir.store.requests.content import find_content
from streamweir.store.requests.instances import now_of, retire, write_heartbeat
from support.accounting_gateway import AccountingSetup, error_of
from support.fleet import metric
from support.gateway import gateway, until
from support.old_databases import VERSIONS, Contents, opened_as_it_is, read_all, restore, secrets_of
from support.soak import one_of_each
from support.stores import DATABASES, each_database

pytestmark = pytest.mark.long_callback("a migration runs before the program serves anyone")
each_version = pytest.mark.parametrize(("version", "database"), one_of_each(VERSIONS, DATABASES))
NANO = 10**9
CONFIG = """
[store]
url = "{url}"
retention_days = 36500
[[providers]]
name = "sim"
kind = "sim"
[[models]]
id = "fast"
targets = [{{ provider = "sim", model = "hello" }}]
price = {{ input = 1, output = 4 }}
[[keys]]
name = "file"
key = "sk-of-the-file-0123456789abcdef"
scopes = ["chat", "models"]
"""


def rows_of(contents: Contents, table: str, columns: list[str]) -> list[str]:
    """The values of these columns, in an order of their own."""
    names, rows = contents[table]
    places = [names.index(name) for name in columns]
    return sorted(repr([row[place] for place in places]) for row in rows)


def count_other_prices(conn: Connection, table: Table) -> int | None:
    is_other = (table.c.cost.is_not(None), table.c.price.is_distinct_from(table.c.cost))
    return conn.scalar(select(func.count()).where(*is_other))


@each_version
async def test_the_migration_keeps_every_row_and_makes_sums_that_agree(
    version: str, database: str, tmp_path: Path
) -> None:
    async with opened_as_it_is(restore(version, database, tmp_path), tmp_path) as store:
        before = await store.read(read_all)
        assert len(before["requests"][1]) > 15
        assert len(before["open_requests"][1]) == 2
        await store.write(upgrade)
        after = await store.read(read_all)
        assert await store.read(found_revision) == HEAD
        for table, (columns, _) in before.items():
            if table != "alembic_version":
                assert rows_of(after, table, columns) == rows_of(before, table, columns), table
        assert (await store.read(check_sums)).faults == []
        assert await store.read(audit.verify) is None
        for kind in (requests, ledger):
            if "price" not in before[kind.name][0]:
                assert await store.read(partial(count_other_prices, table=kind)) == 0, "the cost was the price"


def settled_by_journal(conn: Connection) -> list[tuple[str, str, int]]:
    """Of the requests that the old process had not written: name of the key, outcome, and whether there is a price."""
    newest = select(requests).order_by(requests.c.at_ms.desc()).limit(5)
    return sorted((row.key_name, row.verdict, row.price is not None) for row in conn.execute(newest))


@each_version
async def test_the_gateway_applies_the_journal_and_serves(version: str, database: str, tmp_path: Path) -> None:
    url, secrets = restore(version, database, tmp_path), secrets_of(version, database)
    async with gateway(CONFIG.format(url=url), data_dir=tmp_path) as gate:
        setup = AccountingSetup(gate, None)  # type: ignore[arg-type]  # it has the simulator
        assert await setup.open_ids() == [], "what the killed process had open is settled"
        assert await setup.read(settled_by_journal) == [
            ("daily", Verdict.ORPHANED, True),
            ("file", Verdict.COMPLETED, True),
            ("file", Verdict.COMPLETED, True),
            ("file", Verdict.ORPHANED, True),
            ("prepaid", Verdict.ORPHANED, True),
        ]
        await setup.assert_sound()
        for name in ("file", "daily", "content", "prepaid"):
            reply = await gate.ask(key=secrets[name], model="fast", stream=name != "file", user="ann")
            assert reply.status == 200, (name, reply.body)
        refused = await gate.ask(key=secrets["revoked"], model="fast")
        assert (refused.status, error_of(refused)["code"]) == (401, "key_revoked")
        await gate.vacated()
        acme = await setup.read(lambda conn: conn.scalar(select(workspaces.c.id).where(workspaces.c.name == "acme")))
        assert acme is not None
        balance = await setup.read(lambda conn: balance_of(conn, acme))
        assert (balance.granted, balance.held) == (35 * NANO, 0)
        assert 0 < balance.spent < NANO
        kept = select(requests.c.request_id).where(requests.c.has_content).order_by(requests.c.seq)
        ids = await setup.read(lambda conn: list(conn.scalars(kept)))
        assert await setup.read(lambda conn: find_content(conn, ids[0], None)) is not None
        assert metric(gate, "journal_entries_waiting") == 0
        assert not (tmp_path / "journal" / "quarantine.jsonl").exists()
        await setup.assert_balanced()


@each_database
async def test_no_schema_is_changed_under_processes_of_an_older_version(database: str, tmp_path: Path) -> None:
    """The start waits for their end, and a command says whom to stop."""
    url = restore(VERSIONS[0], database, tmp_path)
    async with opened_as_it_is(url, tmp_path) as old:
        at_ms = await old.read(lambda conn: now_of(conn, now_ms()))
        await old.write(lambda conn: write_heartbeat(conn, "of-old", "node1", at_ms))
        with pytest.raises(StoreError, match=r"an older streamweir use \(node1\): stop them"):
            await open_store(url, tmp_path)
        said: list[str] = []
        starting = asyncio.create_task(open_store(url, tmp_path, on_upgrade=said.append, every_s=0.01))
        waits = "waiting: the database has schema 0001"
        await until(lambda: sum(each.startswith(waits) for each in said) > 1)
        assert await old.read(found_revision) == "0001"
        await old.write(lambda conn: retire(conn, "of-old", at_ms))
        store = await starting
        assert await store.read(found_revision) == HEAD
        await store.close()


@each_database
async def test_the_start_says_that_an_update_takes_its_time(database: str, tmp_path: Path) -> None:
    said: list[str] = []
    url = restore(VERSIONS[0], database, tmp_path)
    store = await open_store(url, tmp_path, on_upgrade=said.append, every_s=0.001)
    await store.close()
    *waiting, done = said
    assert all(each.startswith("updating ") and f" to schema {HEAD}, for " in each for each in waiting)
    assert done.startswith("updated ")
    assert done.endswith(f" from schema 0001 to {HEAD}")
    again: list[str] = []
    await (await open_store(url, tmp_path, on_upgrade=again.append)).close()
    assert again == []


async def test_one_that_was_killed_is_not_waited_for_for_long(tmp_path: Path) -> None:
    url = restore(VERSIONS[0], "sqlite", tmp_path)
    async with opened_as_it_is(url, tmp_path) as old:
        await old.write(lambda conn: write_heartbeat(conn, "killed", "node1", now_ms() - 31_000))
        await (await open_store(url, tmp_path)).close()
        await old.write(lambda conn: write_heartbeat(conn, "same schema", "node1", now_ms()))
        await (await open_store(url, tmp_path)).close()


async def test_the_only_server_of_a_file_does_not_wait(tmp_path: Path) -> None:
    url = restore(VERSIONS[0], "sqlite", tmp_path)
    async with opened_as_it_is(url, tmp_path) as old:
        await old.write(lambda conn: write_heartbeat(conn, "killed just now", "node1", now_ms()))
    await (await open_store(url, tmp_path, is_alone=True)).close()
