"""A store in an SQLite file: whose file it is, how durable it is, and what happens when it cannot be written."""

import asyncio
import sqlite3
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from streamweir.store.db.base import StoreError, StoreUnavailable
from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import counters
from support.deadlines import PROGRAM_TIMEOUT_S
from support.stores import store_on

FULL, NORMAL = 2, 1


def put(name: str) -> Callable[[Connection], None]:
    return lambda conn: conn.execute(counters.insert().values(name=name, value=1)).close()


def names(conn: Connection) -> list[str]:
    return list(conn.execute(select(counters.c.name).order_by(counters.c.name)).scalars())


def pragma(name: str) -> Callable[[Connection], object]:
    return lambda conn: conn.exec_driver_sql(f"PRAGMA {name}").scalar_one()


@asynccontextmanager
async def held_by_another(path: Path) -> AsyncIterator[None]:
    """A process of its own that has the file to itself until the block is left."""
    program = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n"
        "db.execute('BEGIN EXCLUSIVE'); print(flush=True); sys.stdin.read(); db.execute('COMMIT')"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield
    finally:
        await process.communicate(b"")


async def test_the_file_and_its_folder_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    store = await open_store("sqlite:///books.db", folder)
    await store.write(put("a"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {"b": 0o700, "books.db": 0o600, "books.db-wal": 0o600, "books.db-shm": 0o600}
    await store.close()
    assert [path.name for path in folder.iterdir()] == ["books.db"]


async def test_a_path_may_be_absolute_and_have_any_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%25é.db"
    quoted = str(path).replace("%", "%25").replace("?", "%3F")
    store = await open_store(f"sqlite:///{quoted}", tmp_path / "elsewhere")
    await store.write(put("a"))
    assert path.exists()
    await store.close()


async def test_only_content_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        assert await store.write(pragma("journal_mode")) == "wal"
        assert await store.write(pragma("synchronous")) == FULL
        assert await store.write_content(pragma("synchronous")) == NORMAL


async def test_a_file_that_another_process_holds_is_unavailable_for_writing_alone(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        await store.write(put("a"))
        async with held_by_another(tmp_path / "streamweir.db"):
            for write in (store.write, store.write_content):
                with pytest.raises(StoreUnavailable, match="locked by another process") as caught:
                    await write(put("b"), timeout_s=0.5)
                assert not caught.value.maybe_committed
            with pytest.raises(StoreUnavailable):
                await store.write(put("b"), timeout_s=0.01)
            assert await store.read(names) == ["a"]


async def test_waiting_for_a_lock_does_not_block_the_event_loop(tmp_path: Path) -> None:
    """Only a turn of the loop ends the lock: a loop that is blocked by the wait would wait until its timeout."""
    async with store_on("sqlite", tmp_path) as store:
        async with held_by_another(tmp_path / "streamweir.db"):
            waiting = asyncio.create_task(store.write(put("a"), timeout_s=PROGRAM_TIMEOUT_S))
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting
        assert await store.read(names) == ["a"]


async def test_other_programs_may_write_at_the_same_time(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        other = sqlite3.connect(tmp_path / "streamweir.db", isolation_level=None, timeout=30)
        for number in range(20):
            await store.write(put(f"ours{number:02}"))
            other.execute("INSERT INTO counters VALUES (?, 1)", (f"theirs{number:02}",))
        other.close()
        assert len(await store.read(names)) == 40


async def test_a_full_disk_is_unavailable_until_there_is_space(tmp_path: Path) -> None:
    def fill(conn: Connection) -> None:
        conn.exec_driver_sql(f"PRAGMA max_page_count={pragma('page_count')(conn)}")
        for number in range(10_000):
            put(f"{number:0500}")(conn)

    async with store_on("sqlite", tmp_path) as store:
        with pytest.raises(StoreUnavailable, match="disk is full"):
            await store.write(fill)
        await store.write(pragma("max_page_count=1000000"))
        await store.write(put("a"))
        assert await store.read(names) == ["a"]


async def test_a_removed_file_is_not_created_again(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        await store.write(put("a"))
        assert await store.read(names) == ["a"]
        for path in [*tmp_path.iterdir()]:
            path.rename(path.with_name(f"moved-{path.name}"))
        for run in (store.write, store.write_content, store.read):
            with pytest.raises(StoreUnavailable, match="cannot be opened"):
                await run(names)
        assert not (tmp_path / "streamweir.db").exists()
        for path in [*tmp_path.iterdir()]:
            path.rename(path.with_name(path.name.removeprefix("moved-")))
        await store.write(put("b"))
        assert await store.read(names) == ["a", "b"]


async def test_a_damaged_file_is_unavailable_and_says_so(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        await store.write(lambda conn: [put(f"{number:0500}")(conn) for number in range(200)])
    path = tmp_path / "streamweir.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with pytest.raises(StoreError, match="damaged"):
        await open_store("sqlite:///streamweir.db", tmp_path)
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match=r"streamweir\.db: the file is no SQLite database$"):
        await open_store("sqlite:///streamweir.db", tmp_path)


async def test_what_is_no_file_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Is a directory"):
        await open_store(f"sqlite:///{tmp_path}", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot open the database .*file/books\.db: "):
        await open_store("sqlite:///file/books.db", tmp_path)


async def test_at_the_start_a_slow_disk_is_reported_and_waited_for(tmp_path: Path) -> None:
    """However long it takes; and what is asked for later has its time limit again."""
    may_end, reports = threading.Event(), asyncio.Queue[tuple[str, float]]()

    def linger(conn: Connection) -> int:
        may_end.wait()
        number: int = conn.exec_driver_sql("SELECT 7").scalar_one()
        return number

    def on_slow(where: str, seconds: float) -> None:
        reports.put_nowait((where, seconds))

    store = await open_store("sqlite:///books.db", tmp_path, on_slow=on_slow, every_s=0.01)
    try:
        with store.without_time_limit(on_slow, every_s=0.01):
            for run in (store.read, store.write, store.write_content):
                may_end.clear()
                while not reports.empty():  # the opening itself may have been slow
                    reports.get_nowait()
                answer = asyncio.ensure_future(run(linger, timeout_s=0.0))
                reported = [await reports.get() for _ in range(3)]
                assert {where for where, _ in reported} == {str(tmp_path / "books.db")}
                assert reported[0][1] < reported[2][1]
                may_end.set()
                assert await answer == 7
                while not reports.empty():
                    reports.get_nowait()
        may_end.clear()
        with pytest.raises(StoreUnavailable, match="not done within"):
            await store.read(linger, timeout_s=0.01)
    finally:
        may_end.set()
        await store.close()


async def test_at_the_start_a_file_that_is_locked_is_not_waited_for_without_end(tmp_path: Path) -> None:
    store = await open_store("sqlite:///books.db", tmp_path)
    other = sqlite3.connect(tmp_path / "books.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with (
            store.without_time_limit(lambda *_: None),
            pytest.raises(StoreUnavailable, match="locked by another process"),
        ):
            await store.write(lambda _: None, timeout_s=0.1)
    finally:
        other.close()
        await store.close()
