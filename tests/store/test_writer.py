"""Entries from the journal into the database: all of them, in order, once, and what cannot be written alone aside."""

import asyncio
import json
import os
import stat
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection

from streamweir.background import BackgroundTasks, Backoff, TaskEnd
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.journal.entries import Entry
from streamweir.store.journal.files import SegmentFile, orphaned_journals
from streamweir.store.journal.frames import encode_frame
from streamweir.store.journal.handle import JournalUnavailable
from streamweir.store.journal.journal import Journal
from streamweir.store.ledger.writer import Writer
from support.deadlines import WAIT_TIMEOUT_S
from support.entries import (
    assert_sound,
    books_on,
    extend,
    hold,
    ledger_rows,
    logged,
    open_ids,
    progress,
    refused,
    settle,
)
from support.failing_disk import FailingDisk
from support.flaky_store import FlakyStore
from support.journal_files import segments_of
from support.stores import each_database
from support.writer_setup import WriterSetup, release, writer_setup_on


async def kinds_of(store: Store) -> list[tuple[str | None, str]]:
    await store.read(assert_sound)
    return [(request_id, kind) for request_id, kind, _, _ in await store.read(ledger_rows)]


def leave(folder: Path, *entries: Entry, more: bytes = b"") -> None:
    """What a dead process left."""
    segment = SegmentFile.make(folder, "dead", len(segments_of(folder)) + 1)
    segment.write(b"".join(map(encode_frame, entries)) + more)
    segment.release()


@each_database
async def test_what_is_put_is_in_the_database_and_leaves_no_journal(database: str, tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    async with books_on(database, tmp_path) as store:
        async with writer_setup_on(store, folder) as setup:
            await setup.writer.put(hold("r1")).written()
            setup.writer.put(extend("r1"))
            setup.writer.put(progress(("r1", "p/m", 3)))
            setup.writer.put(refused("r2"))
            setup.writer.put(settle("r1"), required=True)
            setup.writer.put(hold("r3"))
            await setup.flush()
            assert setup.writer.waiting == 0
            assert setup.writer.lag_s == 0.0
            assert setup.writer.batcher.applied == 6
            assert await kinds_of(store) == [("r1", "hold"), ("r1", "extend.1"), ("r1", "settle"), ("r3", "hold")]
            assert await store.read(open_ids) == ["r3"]
            assert set(await store.read(logged)) == {"r1", "r2"}
        assert setup.facts == []
    assert list(folder.iterdir()) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("journal")]
    assert len(asyncio.all_tasks()) == 1


async def test_many_entries_are_few_transactions_in_order(tmp_path: Path) -> None:
    async with (
        books_on("sqlite", tmp_path) as store,
        writer_setup_on(store, tmp_path / "journal", pause_s=60.0) as setup,
    ):
        for number in range(1200):
            setup.writer.put(hold(f"r{number:04}"))
        await setup.flush()
        assert setup.writer.batcher.batches == 3
        assert await kinds_of(store) == [(f"r{number:04}", "hold") for number in range(1200)]


async def test_between_batches_it_pauses_unless_a_caller_waits(tmp_path: Path) -> None:
    async with (
        books_on("sqlite", tmp_path) as store,
        writer_setup_on(store, tmp_path / "journal", pause_s=60.0) as setup,
    ):
        await setup.writer.put(hold("r1")).written()
        await setup.writer.put(hold("r2")).written()
        assert setup.writer.waiting == 2
        assert setup.writer.lag_s > 0.0
        await setup.flush()
        assert setup.writer.batcher.batches == 1


@each_database
async def test_what_is_put_twice_counts_once(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store, writer_setup_on(store, tmp_path / "journal") as setup:
        for _ in range(2):
            setup.writer.put(hold("r1"))
            await setup.flush()
            setup.writer.put(settle("r1"), required=True)
            await setup.flush()
        assert await kinds_of(store) == [("r1", "hold"), ("r1", "settle")]
        assert setup.reported == []


@each_database
@pytest.mark.parametrize("place", ["lost_before", "lost_after"])
async def test_a_commit_whose_answer_is_lost_is_repeated_and_counts_once(
    database: str, tmp_path: Path, place: str
) -> None:
    async with books_on(database, tmp_path) as store:
        flaky = FlakyStore(store)
        setattr(flaky, place, 2)
        async with writer_setup_on(flaky, tmp_path / "journal") as setup:
            setup.writer.put(hold("r1"))
            setup.writer.put(settle("r1"), required=True)
            setup.writer.put(refused("r2"))
            await setup.flush()
            await setup.wait_for("database_back")
            assert setup.reported == ["database_away", "database_back"]
        assert await kinds_of(store) == [("r1", "hold"), ("r1", "settle")]


@each_database
@pytest.mark.parametrize("place", [0, 77])
async def test_an_invalid_entry_is_quarantined_alone(database: str, tmp_path: Path, place: int) -> None:
    folder = tmp_path / "journal"
    poison = hold("poison", 2**63)
    entries: list[Entry] = [hold(f"r{number:03}") for number in range(120)]
    entries[place] = poison
    async with books_on(database, tmp_path) as store, writer_setup_on(store, folder, pause_s=60.0) as setup:
        for entry in entries:
            setup.writer.put(entry)
        await setup.flush()
        assert setup.reported == ["entry_quarantined"]
        assert setup.facts[0][1]["request_id"] == "poison"
        assert setup.writer.batcher.quarantined == 1
        expected = [(f"r{number:03}", "hold") for number in range(120) if number != place]
        assert await kinds_of(store) == expected
    (file,) = folder.iterdir()
    assert file.name == "quarantine.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["entry"]["amount"] == 2**63


@each_database
async def test_text_that_a_database_does_not_take_is_made_plain_rather_than_lost(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store, writer_setup_on(store, tmp_path / "journal") as setup:
        setup.writer.put(hold("r1", model="nul\0"))
        setup.writer.put(hold("r2"))
        await setup.flush()
        assert await kinds_of(store) == [("r1", "hold"), ("r2", "hold")]
        assert setup.reported == []


async def test_a_refused_entry_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with books_on("sqlite", tmp_path) as store, writer_setup_on(store, tmp_path / "journal") as setup:
        setup.writer.put(hold("r1"))
        await setup.flush()
        FailingDisk(monkeypatch).failures["write"] = 1
        handle = setup.writer.put(hold("r2"))
        setup.writer.put(settle("r1"), required=True)
        setup.writer.put(refused("r3"))
        with pytest.raises(JournalUnavailable):
            await handle.written()
        await setup.flush()
        assert await kinds_of(store) == [("r1", "hold"), ("r1", "settle")]
        assert set(await store.read(logged)) == {"r1"}


async def test_beyond_its_bound_only_what_must_be_taken_is(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        async with writer_setup_on(store, tmp_path / "journal", pause_s=60.0, max_entries=3) as setup:
            for number in range(3):
                setup.writer.put(hold(f"r{number}"))
            with pytest.raises(JournalUnavailable):
                setup.writer.put(hold("r3"))
            setup.writer.put(settle("r0"), required=True)
            assert setup.writer.refused == 1
            await setup.flush()
            setup.writer.put(hold("r4"))
        assert len(await kinds_of(store)) == 5


async def test_closed_it_takes_nothing(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        async with writer_setup_on(store, tmp_path / "journal") as setup:
            pass
        with pytest.raises(JournalUnavailable):
            setup.writer.put(settle("r1"), required=True)
        with pytest.raises(StoreUnavailable):
            await setup.writer.decide(hold("r1"), [])
        assert await setup.writer.close(WAIT_TIMEOUT_S)


async def test_without_a_journal_what_is_in_the_database_is_durable(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        writer = Writer(store, None, settle_abandoned=release, pause_s=0.0)
        writer.start()
        handle = writer.put(hold("r1"))
        reported: list[bool] = []
        handle.when_durable(lambda: reported.append(handle.is_durable))
        await handle.written()
        assert reported == [True]
        assert await kinds_of(store) == [("r1", "hold")]
        assert await writer.close(WAIT_TIMEOUT_S)


async def test_not_flushed_in_time_it_ends_and_the_journal_keeps_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    async with books_on("sqlite", tmp_path) as store:
        flaky = FlakyStore(store)
        flaky.gate.clear()
        setup = WriterSetup(flaky, folder, pause_s=0.0)
        setup.writer.start()
        await setup.writer.put(hold("r1")).written()
        await flaky.reached.wait()
        assert not await setup.writer.close(0.01)
        assert setup.facts == [("database_behind", {"entries": 1})]
        assert await setup.journal.close()
        assert len(asyncio.all_tasks()) == 1
        assert await kinds_of(store) == []
        async with writer_setup_on(store, folder, instance="next") as heir:
            (dead,) = orphaned_journals(folder)
            assert await heir.writer.replay(dead) == 1
        assert await kinds_of(store) == [("r1", "hold")]
        assert list(folder.iterdir()) == []


@each_database
async def test_the_journals_of_dead_processes_are_applied_once_and_reported(database: str, tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    leave(folder, hold("r1"), settle("r1"), hold("r2"), more=b"torn")
    leave(folder, settle("r2"))
    async with books_on(database, tmp_path) as store, writer_setup_on(store, folder) as setup:
        setup.writer.put(hold("r1"))  # already applied by the one who died
        await setup.flush()
        for dead in orphaned_journals(folder):
            assert await setup.writer.replay(dead) == 4
        assert setup.facts == [
            ("journal_torn", {"instance": "dead", "entries": 3, "dropped_bytes": 4}),
            ("journal_replayed", {"instance": "dead", "entries": 4}),
        ]
        assert sorted(await kinds_of(store)) == [("r1", "hold"), ("r1", "settle"), ("r2", "hold"), ("r2", "settle")]
        assert orphaned_journals(folder) == []
        assert [path.name for path in folder.glob("*.broken")] == ["dead.000001.journal.broken"]


async def test_a_replay_without_a_database_ends_with_its_reason_and_leaves_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "journal"
    monkeypatch.setattr("streamweir.store.ledger.recovery.retry_s", lambda _: 0.0)
    async with books_on("sqlite", tmp_path) as store, writer_setup_on(store, folder) as setup:
        journal = Journal(folder, "dead")
        journal.open()
        await journal.append(hold("r1")).written()
        assert await journal.close()
        await store.write(lambda conn: conn.exec_driver_sql("ALTER TABLE ledger RENAME TO hidden"))
        (dead,) = orphaned_journals(folder)
        with pytest.raises(StoreUnavailable, match="the database refuses to work"):
            await setup.writer.replay(dead)
        assert setup.reported == ["replay_waits"] * 11
        await store.write(lambda conn: conn.exec_driver_sql("ALTER TABLE hidden RENAME TO ledger"))
        (again,) = orphaned_journals(folder)
        assert await setup.writer.replay(again) == 1


async def test_a_replay_that_is_broken_off_is_repeated_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    for number in range(3):
        leave(folder, hold(f"r{number}"), settle(f"r{number}"))
    async with books_on("sqlite", tmp_path) as store:
        flaky = FlakyStore(store)
        flaky.lost_after = 2
        async with writer_setup_on(flaky, folder, instance="first") as setup:
            (dead,) = orphaned_journals(folder)
            flaky.gate.clear()
            task = asyncio.create_task(setup.writer.replay(dead))
            await flaky.reached.wait()
            task.cancel()
            await asyncio.wait((task,))
            flaky.gate.set()
            (again,) = orphaned_journals(folder)
            assert await setup.writer.replay(again) == 6
        assert len(await kinds_of(store)) == 6
        assert list(folder.iterdir()) == []


async def test_what_is_not_understood_is_quarantined_and_the_rest_applied(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    strange = encode_frame(hold("r1")).replace(b"hold", b"hole")
    payload = strange[8:]
    head = len(payload).to_bytes(4, "little")
    leave(folder, hold("r2"), more=head + zlib.crc32(payload, len(payload)).to_bytes(4, "little") + payload)
    async with books_on("sqlite", tmp_path) as store, writer_setup_on(store, folder) as setup:
        (dead,) = orphaned_journals(folder)
        await setup.writer.replay(dead)
        assert setup.reported == ["entry_quarantined", "journal_replayed"]
        assert await kinds_of(store) == [("r2", "hold")]
        assert (folder / "quarantine.jsonl").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_after_a_fault_of_the_journal_what_must_be_taken_goes_to_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with books_on("sqlite", tmp_path) as store, writer_setup_on(store, tmp_path / "journal") as setup:
        setup.writer.put(hold("r1"))
        await setup.flush()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail)
            with pytest.raises(JournalUnavailable):
                await setup.writer.put(hold("r2")).written()
        with pytest.raises(JournalUnavailable):
            setup.writer.put(hold("r3"))
        handle = setup.writer.put(settle("r1"), required=True)
        await handle.written()
        assert handle.is_durable
        assert await kinds_of(store) == [("r1", "hold"), ("r1", "settle")]


async def test_a_database_that_refuses_to_work_is_unavailable_until_it_does(tmp_path: Path) -> None:
    def rename(old: str, new: str) -> Callable[[Connection], object]:
        return lambda conn: conn.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")

    async with books_on("sqlite", tmp_path) as store, writer_setup_on(store, tmp_path / "journal") as setup:
        await store.write(rename("ledger", "hidden"))
        setup.writer.put(hold("r1"))
        await setup.wait_for("database_away")
        await store.write(rename("hidden", "ledger"))
        await setup.flush()
        assert await kinds_of(store) == [("r1", "hold")]
        assert setup.writer.batcher.quarantined == 0


async def test_after_a_bug_the_writer_is_restarted_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: asyncio.Queue[TaskEnd] = asyncio.Queue()

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    async with books_on("sqlite", tmp_path) as store:
        setup = WriterSetup(store, tmp_path / "journal", pause_s=0.0)
        setup.writer.start(BackgroundTasks(ends.put_nowait, backoff=Backoff(first_s=0.0)))
        with monkeypatch.context() as broken:
            broken.setattr("streamweir.store.ledger.posting.apply", fail)
            setup.writer.put(hold("r1"))
            assert (await ends.get()).name == "writer"
        await setup.flush()
        assert await setup.writer.decide(hold("r2"), []) is None
        assert await setup.writer.close(WAIT_TIMEOUT_S)
        assert await kinds_of(store) == [("r1", "hold"), ("r2", "hold")]
        assert await setup.journal.close()


async def test_after_a_bug_the_journal_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    folder = tmp_path / "journal"
    async with books_on("sqlite", tmp_path) as store:
        setup = WriterSetup(store, folder, pause_s=0.0)
        ended = asyncio.Event()
        setup.writer.start(BackgroundTasks(lambda _: ended.set(), backoff=Backoff(first_s=3600.0, max_delay_s=3600.0)))
        monkeypatch.setattr("streamweir.store.ledger.posting.apply", fail)
        setup.writer.put(hold("r1"))
        await ended.wait()
        assert setup.writer.is_unavailable
        await setup.writer.put(settle("r1"), required=True).written()
        with pytest.raises(StoreUnavailable):
            await setup.writer.decide(hold("r2"), [])
        assert not await setup.writer.close(WAIT_TIMEOUT_S), "it does not wait for what cannot be"
        assert await setup.journal.close()
        (dead,) = orphaned_journals(folder)
        assert list(dead.entries()) == [hold("r1"), settle("r1")]
        dead.close()
