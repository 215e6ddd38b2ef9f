"""The lock on an SQLite file: for one server, or for the workers of one node, and gone with them."""

import asyncio
import stat
import sys
from pathlib import Path

import pytest

from streamweir.store.db.base import StoreError
from streamweir.store.db.lock import lock_database

URL = "sqlite:///books.db"
HOLD = """
import pathlib, sys
from streamweir.store.db.base import StoreError
from streamweir.store.db.lock import lock_database
sys.stdin.readline()
try: lock = lock_database("sqlite:///books.db", pathlib.Path(sys.argv[1]), node=sys.argv[2] or None)
except StoreError as fault: print(f"refused: {fault}", flush=True)
else: print("held", flush=True)
sys.stdin.read()
"""


async def hold(folder: Path, node: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(folder), node, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def answers(processes: list[asyncio.subprocess.Process]) -> list[str]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
    return [(await process.stdout.readline()).decode() for process in processes if process.stdout is not None]


async def test_a_second_server_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    first = await hold(tmp_path, "")
    assert await answers([first]) == ["held\n"]
    with pytest.raises(StoreError, match=rf"books\.db is in use by another server \(process {first.pid}\): ") as caught:
        lock_database(URL, tmp_path)
    assert "\n" not in str(caught.value)
    first.kill()
    await first.communicate()
    lock = lock_database(URL, tmp_path)
    assert lock is not None
    assert not lock.shared
    lock.release()
    lock.release()


async def test_the_workers_of_one_node_share_it_and_those_of_another_do_not(tmp_path: Path) -> None:
    ours = [await hold(tmp_path, "one") for _ in range(3)]
    assert await answers(ours) == ["held\n"] * 3
    for node in ("two", None):
        with pytest.raises(StoreError, match="node one"):
            lock_database(URL, tmp_path, node=node)
    ours[0].kill()
    await ours[0].communicate()
    lock = lock_database(URL, tmp_path, node="one")
    assert lock is not None
    assert lock.shared
    for process in ours[1:]:
        await process.communicate(b"")
    with pytest.raises(StoreError):
        lock_database(URL, tmp_path)
    lock.release()
    again = lock_database(URL, tmp_path, node="two")
    assert again is not None
    again.release()


async def test_of_nodes_that_start_at_once_one_has_it(tmp_path: Path) -> None:
    processes = [await hold(tmp_path, node) for node in ("one", "two", "one", "two")]
    said = await answers(processes)
    winners = {node for node, answer in zip(("one", "two", "one", "two"), said, strict=True) if answer == "held\n"}
    assert len(winners) == 1
    for process in processes:
        await process.communicate(b"")


def test_the_file_is_private_and_postgres_needs_none(tmp_path: Path) -> None:
    lock = lock_database(URL, tmp_path / "new")
    assert lock is not None
    assert stat.S_IMODE((tmp_path / "new" / "books.db.lock").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    lock.release()
    assert lock_database("postgresql://host/db", tmp_path) is None


def test_a_folder_that_cannot_be_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot lock the database"):
        lock_database("sqlite:///file/books.db", tmp_path)
