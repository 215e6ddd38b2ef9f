"""Processes killed while they write their journal: entries that were reported as written are found, and count once."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from streamweir.store.db import tables
from streamweir.store.journal.entries import Entry, Hold
from streamweir.store.journal.files import OrphanedJournal, orphaned_journals
from streamweir.store.ledger.batch import Batcher, Quarantine
from streamweir.store.ledger.recovery import replay
from support.entries import books_on
from support.tiny_journal import entry_of, instance_of

WAIT_TIMEOUT_S = 300.0
PROCESSES = 2


def kill_many(folder: Path, count: int) -> dict[str, int]:
    """By instance: how many entries it said were written."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    share = count // PROCESSES
    nurseries = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "support.tiny_journal", str(folder), str(1 + number * share), str(share)],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    said: dict[str, int] = {}
    for fork_server in nurseries:
        output, _ = fork_server.communicate(timeout=WAIT_TIMEOUT_S)
        assert fork_server.returncode == 0
        said |= {instance_of(int(seed)): int(acks) for seed, acks in (line.split() for line in output.splitlines())}
    assert len(said) == share * PROCESSES
    return said


def found_entries(dead: OrphanedJournal) -> list[Entry]:
    """A prefix of what its process wrote."""
    seed = int(dead.instance.removeprefix("i"))
    found = list(dead.entries())
    assert found == [entry_of(seed, number) for number in range(len(found))]
    return found


def posted_kinds(conn: Connection) -> Counter[tuple[str | None, str]]:
    rows = conn.execute(select(tables.ledger.c.request_id, tables.ledger.c.kind))
    return Counter((request_id, kind) for request_id, kind in rows)


async def replay_all(database: str, folder: Path, data_dir: Path, expected: list[Entry]) -> None:
    async with books_on(database, data_dir) as store:
        facts: list[str] = []
        batcher = Batcher(store, Quarantine(folder), lambda name, _: facts.append(name))
        first, *others = orphaned_journals(folder)
        # As by one who was killed between applying and removing.
        await batcher.apply(list(first.entries()), lambda _: None, check_existing=True)
        for dead in (first, *others):
            await replay(dead, batcher, lambda name, _: facts.append(name))
        assert set(facts) <= {"journal_replayed", "journal_torn"}
        posted = await store.read(posted_kinds)
    ids = Counter(
        (entry.request_id, "hold") if isinstance(entry, Hold) else (entry.row.request_id, "settle")
        for entry in expected
        if isinstance(entry, Hold) or hasattr(entry, "row")
    )
    assert posted == ids
    assert max(posted.values()) == 1
    assert orphaned_journals(folder) == []


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.soak)])
async def test_no_acknowledged_entry_is_lost_and_none_is_applied_twice(tmp_path: Path, count: int) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    said = await asyncio.to_thread(kill_many, folder, count)
    expected: list[Entry] = []
    for dead in orphaned_journals(folder):
        found = found_entries(dead)
        assert len(found) >= said[dead.instance]
        expected += found
        del said[dead.instance]
        dead.close()
    assert not any(said.values()), "acknowledged, and not even a file is there"
    shutil.copytree(folder, tmp_path / "copy")
    await replay_all("sqlite", folder, tmp_path, expected)
    await replay_all("postgres", tmp_path / "copy", tmp_path, expected)
