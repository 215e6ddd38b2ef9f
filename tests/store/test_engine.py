"""What holds of a store on either database: transactions, cancellation, time, closing."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, literal_column, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from streamweir.store.db.base import Store, StoreError, StoreUnavailable
from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import counters
from support.postgres import postgres_url
from support.stores import each_database, store_on

OPERATIONS = 20_000 if os.environ.get("STREAMWEIR_SOAK") == "1" else 200
SOON_S = 0.3
"""A time that an operation is given which takes far longer than that."""


def put(name: str, value: int = 1) -> Callable[[Connection], None]:
    def work(conn: Connection) -> None:
        conn.execute(counters.insert().values(name=name, value=value))

    return work


def add_one(conn: Connection) -> None:
    """Loses one where two of these read before either has written."""
    found = conn.execute(select(counters.c.value).where(counters.c.name == "sum").with_for_update()).scalar_one()
    conn.execute(counters.update().where(counters.c.name == "sum").values(value=found + 1))


def linger(conn: Connection) -> None:
    """Longer than anyone waits, within one statement."""
    if conn.dialect.name == "postgresql":
        conn.execute(select(func.pg_sleep(60)))
    else:
        conn.execute(text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"))


def put_and_linger(conn: Connection) -> None:
    put("late")(conn)
    linger(conn)


def names(conn: Connection) -> list[str]:
    return list(conn.execute(select(counters.c.name).order_by(counters.c.name)).scalars())


async def running(store: Store, work: Callable[[Connection], None]) -> "asyncio.Task[None]":
    """A write that has reached the database, told by the loop that it let through what came before."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell(conn: Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        work(conn)

    task = asyncio.create_task(store.write(tell))
    await begun.wait()
    return task


@each_database
async def test_what_is_written_is_read(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(put("a"))
        await store.write_content(put("b"))
        assert await store.read(names) == ["a", "b"]


@each_database
async def test_it_is_there_when_opened_again(database: str, tmp_path: Path) -> None:
    url = "sqlite:///again.db" if database == "sqlite" else postgres_url()
    for count in range(3):
        store = await open_store(url, tmp_path)
        assert len(await store.read(names)) == count
        await store.write(put(f"n{count}"))
        await store.close()


@each_database
async def test_what_the_function_raises_undoes_it(database: str, tmp_path: Path) -> None:
    def fail(conn: Connection) -> None:
        put("a")(conn)
        raise LookupError("mine")

    async with store_on(database, tmp_path) as store:
        for write in (store.write, store.write_content):
            with pytest.raises(LookupError, match="mine"):
                await write(fail)
        assert await store.read(names) == []


@each_database
async def test_a_databases_error_about_a_row_is_passed_on(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(put("a"))
        with pytest.raises(IntegrityError):
            await store.write(put("a"))
        with pytest.raises((OverflowError, DBAPIError)):
            await store.write(put("b", 2**70))
        with pytest.raises(DBAPIError):
            await store.read(lambda conn: conn.execute(text("SELECT * FROM no_such_table")).all())
        await store.write(put("b"))
        assert await store.read(names) == ["a", "b"]


@each_database
async def test_a_reader_cannot_write(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        with pytest.raises(DBAPIError):
            await store.read(put("a"))
        await store.write(put("b"))
        assert await store.read(names) == ["b"]


@each_database
async def test_no_change_is_lost_between_many_writers(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(put("sum", 0))
        writes = [(store.write_content if number % 4 == 0 else store.write)(add_one) for number in range(100)]
        await asyncio.gather(*writes, *(store.read(names) for _ in range(50)))
        assert await store.read(lambda conn: conn.execute(select(counters.c.value)).scalar_one()) == 100


@each_database
async def test_a_cancelled_caller_leaves_what_runs_to_its_end(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        for number in range(10):
            task = await running(store, put(f"n{number}"))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await store.write(put("z"))
        while len(found := await store.read(names)) < 11:
            await asyncio.sleep(0)
        assert found == [*(f"n{number}" for number in range(10)), "z"]


@each_database
async def test_a_cancelled_caller_takes_back_what_has_not_begun(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        busy = [asyncio.create_task(store.write(linger, timeout_s=SOON_S)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(store.write(put(f"n{number}"))) for number in range(20)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        ends = await asyncio.gather(*waiting, *busy, return_exceptions=True)
        assert [type(end) for end in ends] == [asyncio.CancelledError] * 20 + [StoreUnavailable] * 3
        await store.write(put("z"))
        assert await store.read(names) == ["z"]


@each_database
async def test_what_takes_too_long_is_undone(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        for run in (store.write, store.write_content):
            with pytest.raises(StoreUnavailable, match="not done within") as caught:
                await run(put_and_linger, timeout_s=SOON_S)
            assert not caught.value.maybe_committed
        with pytest.raises(StoreUnavailable):
            await store.read(linger, timeout_s=SOON_S)
        await store.write(put("a"))
        assert await store.read(names) == ["a"]


@each_database
async def test_what_waits_too_long_never_begins(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        busy = [asyncio.create_task(store.write(linger, timeout_s=2 * SOON_S)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="not begun"):
            await store.write(put("late"), timeout_s=SOON_S)
        await asyncio.gather(*busy, return_exceptions=True)
        assert await store.read(names) == []


@each_database
async def test_a_store_that_is_closed_takes_nothing_and_leaves_nothing(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        task = await running(store, put("a"))
        queued = asyncio.create_task(store.write_content(put("b")))
        await asyncio.sleep(0)
        await store.close()
        await task
        (end,) = await asyncio.gather(queued, return_exceptions=True)
        assert end is None or isinstance(end, StoreUnavailable)
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.read(names)
        await store.close()


@each_database
async def test_closing_does_not_wait_for_ever(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamweir.store.db.sqlite._CLOSE_S", SOON_S)
    monkeypatch.setattr("streamweir.store.db.postgres._CLOSE_S", SOON_S)
    async with store_on(database, tmp_path) as store:
        task = await running(store, put_and_linger)
        await store.close()
        with pytest.raises(StoreUnavailable):
            await task


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:ZEBRA@host/db",
        "ZEBRA",
        "",
        "sqlite://ZEBRA",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///a.db?mode=ZEBRA",
        "postgresql://user:ZE/BRA@host/db",
        "postgresql://user:ZE#BRA@host/db",
        "postgresql://user:ZE?BRA@host/db",
        "postgresql://user:PASS@host:ZEBRA/db",
        "postgresql://[ZEBRA/db",
    ],
)
async def test_a_url_that_names_no_database_is_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        await open_store(url, tmp_path)
    assert "\n" not in str(caught.value)
    assert not any(part in str(caught.value) for part in ("ZE", "BRA", "PASS"))
    assert list(tmp_path.iterdir()) == []


def test_parameters_are_not_shown_by_a_failure() -> None:
    """Nothing but this keeps a prompt out of a log that shows a traceback."""
    from streamweir.store.db.sqlite_workers import Connector

    with Connector("file::memory:", "BEGIN", ()).connect() as conn, pytest.raises(DBAPIError) as caught:
        conn.execute(select(literal_column("nothing")).where(text(":x = 1")), {"x": "canary"})
    assert "canary" not in str(caught.value)


@each_database
async def test_the_reported_state_of_a_write_is_true(database: str, tmp_path: Path) -> None:
    """Many at once, with callers who leave and times that are too short: done, undone or unsure, and which is told."""
    chance = random.Random(7)
    said: dict[str, str] = {}

    def work(name: str, statements: int) -> Callable[[Connection], None]:
        def write(conn: Connection) -> None:
            for number in range(statements):
                put(f"{name}.{number}")(conn)

        return write

    async def attempt(store: Store, number: int) -> None:
        name, statements = f"w{number}", chance.choice([1, 3, 30])
        run = chance.choice([store.write, store.write, store.write_content])
        try:
            await run(work(name, statements), timeout_s=chance.choice([0.001, 0.01, 0.05, 30.0]))
            said[name] = f"done {statements}"
        except StoreUnavailable as fault:
            said[name] = "unsure" if fault.maybe_committed else "undone"

    async with store_on(database, tmp_path) as store:
        for round_ in range(OPERATIONS // 20):
            tasks = [asyncio.create_task(attempt(store, 20 * round_ + number)) for number in range(20)]
            for task in chance.sample(tasks, 5):
                asyncio.get_running_loop().call_later(chance.random() * 0.03, task.cancel)
            await asyncio.gather(*tasks, return_exceptions=True)
        found = Counter(name.partition(".")[0] for name in await store.read(names, timeout_s=30))
    assert {word.partition(" ")[0] for word in said.values()} >= {"done", "undone"}
    for name, word in said.items():
        assert word == "unsure" or found[name] == int(word.removeprefix("done ").replace("undone", "0")), name
    assert {found[name] for name in found.keys() - said.keys()} <= {
        0,
        1,
        3,
        30,
    }  # of those who left: all of it or nothing
