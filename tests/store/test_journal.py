"""The journal on a healthy disk: what is written, when it is reported, what is removed, and what stays."""

import asyncio
import os
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from streamweir.store.journal.entries import Entry
from streamweir.store.journal.files import orphaned_journals
from streamweir.store.journal.frames import encode_frame
from streamweir.store.journal.handle import JournalUnavailable
from streamweir.store.journal.journal import Journal
from support.entries import hold, progress, refused, settle
from support.journal_files import entries_of, is_locked, segments_of


@asynccontextmanager
async def a_journal(
    folder: Path, *, segment_bytes: int = 8 << 20, max_bytes: int = 64 << 20, instance: str = "test"
) -> AsyncIterator[Journal]:
    journal = Journal(folder, instance, segment_bytes=segment_bytes, max_bytes=max_bytes)
    journal.open()
    try:
        yield journal
    finally:
        assert await journal.close()


async def durable(journal: Journal, entry: Entry) -> int:
    done = asyncio.get_running_loop().create_future()
    handle = journal.append(entry)
    handle.when_durable(lambda: done.set_result(None))
    await done
    assert handle.is_durable
    return handle.position


def journal_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("journal")]


async def test_a_written_entry_is_in_the_file(tmp_path: Path) -> None:
    async with a_journal(tmp_path) as journal:
        await journal.append(hold("r1")).written()
        assert entries_of(tmp_path) == [hold("r1")]


async def test_the_order_of_the_file_is_that_of_the_calls(tmp_path: Path) -> None:
    async with a_journal(tmp_path) as journal:
        for turn in range(20):
            handles = [journal.append(hold(f"r{turn}.{number}"), required=number % 2 == 0) for number in range(turn)]
            await asyncio.sleep(0)
        await handles[-1].written()
        expected = [hold(f"r{turn}.{number}") for turn in range(20) for number in range(turn)]
        assert entries_of(tmp_path) == expected
        assert journal.entries == len(expected)
        assert journal.bytes == sum(path.stat().st_size for path in segments_of(tmp_path))


async def test_entries_of_one_turn_are_one_group(tmp_path: Path) -> None:
    async with a_journal(tmp_path) as journal:
        await asyncio.gather(*(journal.append(hold(f"r{number}")).written() for number in range(50)))
        assert (journal.entries, journal.groups) == (50, 1)


async def test_durable_callbacks_are_called_once_and_at_once_if_it_already_is(tmp_path: Path) -> None:
    async with a_journal(tmp_path) as journal:
        reported: list[str] = []
        first, second = journal.append(hold("r1")), journal.append(settle("r2"), required=True)
        done = asyncio.get_running_loop().create_future()
        first.when_durable(lambda: reported.append("first"))
        second.when_durable(lambda: reported.append("second"))
        second.when_durable(lambda: done.set_result(None))
        assert reported == []
        await done
        assert reported == ["first", "second"]
        first.when_durable(lambda: reported.append("late"))
        assert reported == ["first", "second", "late"]


async def test_what_one_callback_raises_does_not_concern_the_others(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    raised: list[object] = []
    loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
    fault = ZeroDivisionError()

    def fail() -> None:
        raise fault

    async with a_journal(tmp_path) as journal:
        done = loop.create_future()
        handle = journal.append(hold("r1"))
        handle.when_durable(fail)
        handle.when_durable(lambda: done.set_result(None))
        await done
    assert raised == [fault]


async def test_rows_without_money_are_written_and_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_journal(tmp_path) as journal:
        await journal.append(progress(("r1", "p/m", 7))).written()  # the threads run
        synced: list[int] = []
        monkeypatch.setattr(os, "fdatasync", synced.append)
        await journal.append(refused("r2")).written()
        await journal.append(progress(("r1", "p/m", 7))).written()
        await durable(journal, hold("r3"))
        assert len(synced) == 1


async def test_files_are_private_and_locked(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "journal"
    async with a_journal(folder, instance="node-1_a") as journal:
        await journal.append(hold("r1")).written()
        (path,) = segments_of(folder)
        assert path.name == "node-1_a.000001.journal"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert is_locked(path)
        assert orphaned_journals(folder) == []
    assert not is_locked(path)


@pytest.mark.parametrize("instance", ["", "a.b", "a/b", "../x"])
def test_an_instance_that_is_no_file_name_is_refused(tmp_path: Path, instance: str) -> None:
    with pytest.raises(ValueError, match="instance"):
        Journal(tmp_path, instance).open()
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_another_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "test.000001.journal").write_bytes(b"of another")
    with pytest.raises(FileExistsError):
        Journal(tmp_path, "test").open()
    assert (tmp_path / "test.000001.journal").read_bytes() == b"of another"
    assert len(list(tmp_path.iterdir())) == 1


async def test_a_full_segment_is_followed_by_the_next_and_removed_when_it_is_applied(tmp_path: Path) -> None:
    size = len(encode_frame(hold("r00")))
    async with a_journal(tmp_path, segment_bytes=size * 3) as journal:
        positions = [await durable(journal, hold(f"r{number:02}")) for number in range(10)]
        assert [path.stat().st_size for path in segments_of(tmp_path)] == [size * 3, size * 3, size * 3, size]
        journal.applied(positions[4])  # in the midst of the second
        await durable(journal, hold("r10"))
        await durable(journal, hold("r11"))  # the thread sweeps after a sync, before the next
        assert [path.name[-14:-8] for path in segments_of(tmp_path)] == ["000002", "000003", "000004"]
        journal.applied(positions[8])
        await durable(journal, hold("r12"))
        await durable(journal, hold("r13"))
        assert entries_of(tmp_path) == [hold(f"r{number:02}") for number in range(9, 14)]


async def test_closed_with_all_applied_nothing_is_left(tmp_path: Path) -> None:
    size = len(encode_frame(hold("r0")))
    async with a_journal(tmp_path, segment_bytes=size * 3) as journal:
        positions = [await durable(journal, hold(f"r{number}")) for number in range(8)]
        journal.applied(positions[-1])
    assert list(tmp_path.iterdir()) == []
    assert journal_threads() == []


async def test_closed_with_something_unapplied_that_is_found_by_the_next(tmp_path: Path) -> None:
    async with a_journal(tmp_path) as journal:
        position = await durable(journal, hold("r1"))
        journal.append(settle("r1"), required=True)  # never waited for
        journal.applied(position)
    (dead,) = orphaned_journals(tmp_path)
    assert (dead.instance, list(dead.entries())) == ("test", [hold("r1"), settle("r1")])
    dead.remove()
    assert list(tmp_path.iterdir()) == []


async def test_closed_without_having_been_used_nothing_is_left(tmp_path: Path) -> None:
    async with a_journal(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    assert journal_threads() == []


async def test_after_the_end_nothing_is_taken(tmp_path: Path) -> None:
    async with a_journal(tmp_path) as journal:
        pass
    for required in (False, True):
        with pytest.raises(JournalUnavailable):
            journal.append(hold("r1"), required=required)
    assert journal.is_failing
    assert await journal.close()


async def test_beyond_its_bound_only_what_must_be_written_is_taken(tmp_path: Path) -> None:
    size = len(encode_frame(hold("r0")))
    async with a_journal(tmp_path, max_bytes=size * 4) as journal:
        handles = [journal.append(hold(f"r{number}")) for number in range(4)]
        with pytest.raises(JournalUnavailable, match="full"):
            journal.append(hold("r4"))
        done = asyncio.get_running_loop().create_future()
        required = journal.append(settle("r0"), required=True)
        required.when_durable(lambda: done.set_result(None))
        await done
        assert journal.refused == 1
        with pytest.raises(JournalUnavailable, match="full"):
            journal.append(hold("r5"))
        journal.applied(handles[2].position)
        await journal.append(hold("r6")).written()
        assert len(segments_of(tmp_path)) <= 2, "one segment may never hold all the room"


async def test_a_cancelled_waiter_does_not_affect_the_others(tmp_path: Path) -> None:
    async with a_journal(tmp_path) as journal:
        handle = journal.append(hold("r1"))
        first, second = (asyncio.ensure_future(handle.written()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()


async def test_a_waiter_with_a_timeout_gets_it_and_the_others_wait_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, write = threading.Event(), os.write

    def hang(descriptor: int, data: bytes) -> int:
        goes_on.wait()
        return write(descriptor, data)

    async with a_journal(tmp_path) as journal:
        monkeypatch.setattr(os, "write", hang)
        handle, other = journal.append(hold("r1")), journal.append(hold("r2"))
        patient = asyncio.ensure_future(handle.written())
        impatient = (handle.written(0.01), other.written(0.01))
        reported = await asyncio.gather(*impatient, return_exceptions=True)
        assert [type(each) for each in reported] == [TimeoutError, TimeoutError]
        with pytest.raises(TimeoutError):
            await other.written(0.01)  # asked anew
        assert not patient.done()
        goes_on.set()
        await patient
        await other.written(0.01)


async def test_a_hanging_disk_delays_neither_the_event_loop_nor_the_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts: list[tuple[str, dict[str, object]]] = []
    journal = Journal(tmp_path, "test", report=lambda name, details: facts.append((name, details)))
    journal.open()
    hangs, goes_on = threading.Event(), threading.Event()
    write = os.write

    def hang(descriptor: int, data: bytes) -> int:
        hangs.set()
        goes_on.wait()
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", hang)
    handle = journal.append(hold("r1"))
    while not hangs.is_set():
        await asyncio.sleep(0)
    assert not await journal.close(timeout_s=0.01)
    assert facts == [("journal_stuck", {"entries": 1})]
    goes_on.set()
    await handle.written()
    while journal_threads():
        await asyncio.sleep(0)
    assert entries_of(tmp_path) == [hold("r1")]


async def test_what_the_database_has_is_durable_however_long_the_sync_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    async with a_journal(tmp_path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", lambda _: goes_on.wait())
            handle = journal.append(hold("r1"))
            reported: list[str] = []
            handle.when_durable(lambda: reported.append("durable"))
            await handle.written()
            assert reported == []
            journal.applied(handle.position)
            assert reported == ["durable"]
            goes_on.set()
            await durable(journal, hold("r2"))
        assert reported == ["durable"]


async def test_entries_that_come_during_a_write_go_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_journal(tmp_path) as journal:
        hangs, goes_on = threading.Event(), threading.Event()
        sizes: list[int] = []
        write = os.write

        def hang(descriptor: int, data: bytes) -> int:
            sizes.append(len(data))
            hangs.set()
            goes_on.wait()
            return write(descriptor, data)

        monkeypatch.setattr(os, "write", hang)
        first = journal.append(hold("r1"))
        while not hangs.is_set():
            await asyncio.sleep(0)
        for number in range(2, 12):
            last = journal.append(hold(f"r{number}"))
            await asyncio.sleep(0)
        goes_on.set()
        await last.written()
        await first.written()
        assert len(sizes) == 2
        assert journal.groups == 11
