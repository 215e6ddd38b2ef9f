"""A database that is locked, stopped, frozen or killed in mid-load: entries wait in the journal, and none is lost."""

import asyncio
import itertools
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.engine import open_store
from streamweir.store.journal.entries import Entry
from support.deadlines import WAIT_TIMEOUT_S
from support.entries import assert_sound, books_on, hold, key_charge, ledger_rows, settle
from support.flaky_store import FlakyStore
from support.postgres import PrivatePostgres
from support.writer_setup import WriterSetup, writer_setup_on

_LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """By another process."""
    command = [sys.executable, "-c", _LOCKER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as locker:  # noqa: S603
        assert locker.stdout is not None
        assert locker.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            locker.communicate()


class Load:
    """Requests that are held and settled, without end."""

    def __init__(self, setup: WriterSetup) -> None:
        self._desk = setup
        self._numbers = itertools.count()
        self.expected: set[tuple[str, str]] = set()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))
        assert self._task.cancelled()

    async def _run(self) -> None:
        while True:
            await self.one()
            await asyncio.sleep(0.001)

    async def one(self) -> None:
        request_id = f"r{next(self._numbers):06}"
        handle = self._desk.writer.put(hold(request_id))
        self._expect(hold(request_id))
        await handle.written()
        self._desk.writer.put(settle(request_id), required=True)
        self._expect(settle(request_id))

    def _expect(self, entry: Entry) -> None:
        request_id = entry.row.request_id if hasattr(entry, "row") else getattr(entry, "request_id", "")
        self.expected.add((request_id, "settle" if hasattr(entry, "row") else "hold"))


async def check_books(store: Store, expected: set[tuple[str, str]]) -> None:
    rows = [(request_id, kind) for request_id, kind, _, _ in await store.read(ledger_rows)]
    assert len(rows) == len(set(rows))
    assert set(rows) == expected
    await store.read(assert_sound)


async def test_an_outage_without_any_load_is_noticed_when_something_else_notices_it(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        flaky = FlakyStore(store)
        async with writer_setup_on(flaky, tmp_path / "journal") as setup:
            setup.writer.check_database()
            flaky.reached.clear()
            await flaky.reached.wait()
            assert setup.reported == [], "the database answers"
            flaky.lost_before = 2
            setup.writer.check_database()
            await setup.wait_for("database_back")
            assert setup.reported == ["database_away", "database_back"]


async def test_sqlite_locked_by_another_process(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        async with writer_setup_on(store, tmp_path / "journal", apply_s=0.1, decision_s=0.1) as setup:
            load = Load(setup)
            for _ in range(10):
                await load.one()
            with locked(tmp_path / "streamweir.db"):
                with pytest.raises(StoreUnavailable):
                    await setup.writer.decide(hold("never"), [key_charge(100)])
                await setup.wait_for("database_away")
                for _ in range(50):
                    await load.one()
                assert setup.writer.is_unavailable
                assert setup.writer.waiting >= 100
                assert not await setup.writer.flush(0.01)
            await load.stop()
            await setup.flush()
            await setup.wait_for("database_back")
        await check_books(store, load.expected)


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    with PrivatePostgres() as running:
        yield running


@pytest.mark.parametrize("outage", ["stop", "kill", "pause"])
async def test_an_outage_of_postgres_under_load(tmp_path: Path, server: PrivatePostgres, outage: str) -> None:
    store = await open_store(server.make_database(), tmp_path)
    try:
        async with writer_setup_on(store, tmp_path / "journal", apply_s=0.5, decision_s=0.5) as setup:
            load = Load(setup)
            for _ in range(10):
                await load.one()
            await asyncio.to_thread(getattr(server, outage))
            await setup.wait_for("database_away")
            for _ in range(50):
                await load.one()
            with pytest.raises(StoreUnavailable):
                await setup.writer.decide(hold("never"), [key_charge(100)])
            await asyncio.to_thread(server.resume if outage == "pause" else server.start)
            await setup.wait_for("database_back")
            await load.stop()
            await setup.flush()
        await check_books(store, load.expected)
    finally:
        await store.close()


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.soak)])
async def test_postgres_killed_at_any_moment_of_a_commit(tmp_path: Path, server: PrivatePostgres, kills: int) -> None:
    chance = random.Random(kills)
    store = await open_store(server.make_database(), tmp_path)
    try:
        async with writer_setup_on(store, tmp_path / "journal", apply_s=2.0) as setup:
            load = Load(setup)
            for _ in range(kills):
                wanted = setup.writer.batcher.batches + chance.randrange(1, 20)
                async with asyncio.timeout(WAIT_TIMEOUT_S):
                    while setup.writer.batcher.batches < wanted:
                        await asyncio.sleep(0)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await load.stop()
            await setup.flush()
        await check_books(store, load.expected)
    finally:
        await store.close()
