"""A journal on a disk that is full, fails or reports false results: required entries are written in the end."""

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamweir.store.journal.frames import read_frames
from streamweir.store.journal.handle import JournalUnavailable
from streamweir.store.journal.journal import Journal
from support.disk_full import survive_full_disk
from support.entries import hold, progress, settle
from support.failing_disk import FailingDisk
from support.journal_files import entries_of, segments_of

WAIT_TIMEOUT_S = 30.0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    return FailingDisk(monkeypatch)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:  # noqa: S603
        pytest.skip("a small disk cannot be mounted here: that needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607


class Watched:
    """A journal whose facts are kept."""

    def __init__(self, folder: Path) -> None:
        self.facts: list[tuple[str, Any]] = []
        self.journal = Journal(folder, "test", report=lambda name, details: self.facts.append((name, details)))
        self.journal.open()


async def test_a_full_disk(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(900_000))
    await survive_full_disk(small_disk, filler.unlink)


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "support.disk_full", str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(  # noqa: S603
        command, env=environ, capture_output=True, text=True, check=False, timeout=WAIT_TIMEOUT_S
    )
    assert (done.stdout, done.returncode) == ("survived", 0), done.stderr


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
async def test_of_a_group_only_what_must_be_written_is_tried_again(
    tmp_path: Path, disk: FailingDisk, code: int
) -> None:
    watched = Watched(tmp_path)
    disk.code, disk.failures["write"] = code, 1
    order: list[str] = []
    held, settled, row = (
        watched.journal.append(hold("r1")),
        watched.journal.append(settle("r2"), required=True),
        watched.journal.append(progress(("r3", "p/m", 7))),
    )
    done = asyncio.get_running_loop().create_future()
    held.when_durable(lambda: order.append("never"))
    settled.when_durable(lambda: done.set_result(None))
    for handle in (held, row):
        with pytest.raises(JournalUnavailable):
            await handle.written()
    await settled.written()
    await done
    assert order == []
    assert entries_of(tmp_path) == [settle("r2")]
    assert watched.facts == [
        ("journal_failing", {"what": "write", "error": errno.errorcode[code]}),
        ("journal_recovered", {"what": "write"}),
    ]
    assert (watched.journal.refused, watched.journal.failures) == (2, 1)
    assert await watched.journal.close()


async def test_while_the_disk_fails_holds_are_refused_at_once(tmp_path: Path, disk: FailingDisk) -> None:
    watched = Watched(tmp_path)
    disk.failures["write"] = 1
    settled = watched.journal.append(settle("r1"), required=True)
    with pytest.raises(JournalUnavailable):
        await watched.journal.append(hold("r2")).written()
    assert watched.journal.is_failing
    with pytest.raises(JournalUnavailable, match="cannot be written"):
        watched.journal.append(hold("r3"))
    await settled.written()
    await watched.journal.append(hold("r4")).written()
    assert entries_of(tmp_path) == [settle("r1"), hold("r4")]
    assert await watched.journal.close()


async def test_with_nothing_to_try_again_the_next_one_finds_out(tmp_path: Path, disk: FailingDisk) -> None:
    watched = Watched(tmp_path)
    disk.failures["write"] = 1
    with pytest.raises(JournalUnavailable):
        await watched.journal.append(hold("r1")).written()
    tries, is_written = 0, False
    while not is_written:
        tries += 1
        try:
            await watched.journal.append(hold(f"r2.{tries}")).written()
            is_written = True
        except JournalUnavailable:
            await asyncio.sleep(0.01)
    assert not watched.journal.is_failing
    assert entries_of(tmp_path) == [hold(f"r2.{tries}")]
    assert await watched.journal.close()


async def test_without_entries_to_retry_it_probes_the_disk(tmp_path: Path, disk: FailingDisk) -> None:
    """A node that is not ready gets no requests."""
    watched = Watched(tmp_path)
    states: asyncio.Queue[str | None] = asyncio.Queue()
    watched.journal.on_state = states.put_nowait
    disk.code, disk.failures["write"] = errno.ENOSPC, 4
    with pytest.raises(JournalUnavailable):
        await watched.journal.append(hold("r1")).written()
    assert await states.get() == "the journal cannot be written: No space left on device"
    assert await states.get() is None
    assert (watched.journal.failures, states.qsize()) == (4, 0), "the last three by itself"
    assert not watched.journal.is_failing
    await watched.journal.append(hold("r2")).written()
    assert [path.name for path in tmp_path.iterdir()] == [segments_of(tmp_path)[0].name], "nothing is left of it"
    assert entries_of(tmp_path) == [hold("r2")]
    assert await watched.journal.close()


async def test_a_sync_that_failed_is_known_to_work_again_though_the_database_has_all(
    tmp_path: Path, disk: FailingDisk
) -> None:
    watched = Watched(tmp_path)
    states: asyncio.Queue[str | None] = asyncio.Queue()
    watched.journal.on_state = states.put_nowait
    disk.failures["fdatasync"] = 1
    handle = watched.journal.append(hold("r1"))
    await handle.written()
    watched.journal.applied(handle.position)
    assert await states.get() == "the journal cannot be written: Input/output error"
    assert await states.get() is None
    assert [name for name, _ in watched.facts] == ["journal_failing", "journal_recovered"]
    assert await watched.journal.close()


async def test_what_the_database_has_meanwhile_needs_no_journal(tmp_path: Path, disk: FailingDisk) -> None:
    watched = Watched(tmp_path)
    disk.failures["write"] = 1000
    done = asyncio.get_running_loop().create_future()
    settled = watched.journal.append(settle("r1"), required=True)
    settled.when_durable(lambda: done.set_result(None))
    while not watched.journal.is_failing:
        await asyncio.sleep(0)
    watched.journal.applied(settled.position)
    await done
    await settled.written()
    assert await watched.journal.close()
    assert watched.facts == [("journal_failing", {"what": "write", "error": "EIO"})], "and nothing is lost"
    assert segments_of(tmp_path) == []


async def test_a_frame_that_cannot_be_truncated_ends_its_segment_and_no_other(
    tmp_path: Path, disk: FailingDisk
) -> None:
    watched = Watched(tmp_path)
    await watched.journal.append(hold("r1")).written()
    disk.failures |= {"write": 1, "ftruncate": 1}
    await watched.journal.append(settle("r1"), required=True).written()
    assert len(segments_of(tmp_path)) == 2
    assert entries_of(tmp_path) == [hold("r1"), settle("r1")]
    assert await watched.journal.close()


async def test_what_a_failed_sync_leaves_in_doubt_is_written_again_elsewhere(tmp_path: Path, disk: FailingDisk) -> None:
    watched = Watched(tmp_path)
    loop = asyncio.get_running_loop()
    disk.failures["fdatasync"] = 2
    durable = [loop.create_future() for _ in range(3)]
    handles = [watched.journal.append(hold(f"r{number}")) for number in range(3)]
    for handle, done in zip(handles, durable, strict=True):
        handle.when_durable(partial(done.set_result, None))
        await handle.written()
        assert not handle.is_durable
    await asyncio.gather(*durable)
    holds = [hold(f"r{number}") for number in range(3)]
    contents = [read_frames(path.read_bytes()).entries for path in segments_of(tmp_path)]
    assert contents == [holds, holds, holds], "each time into a segment of its own"
    assert watched.facts == [
        ("journal_failing", {"what": "sync", "error": "EIO"}),
        ("journal_recovered", {"what": "sync"}),
    ]
    assert not watched.journal.is_failing
    watched.journal.applied(handles[-1].position)
    assert await watched.journal.close()
    assert segments_of(tmp_path) == []


async def test_closed_while_the_disk_fails_it_reports_what_was_lost(tmp_path: Path, disk: FailingDisk) -> None:
    watched = Watched(tmp_path)
    disk.failures["write"] = 1000
    settled = watched.journal.append(settle("r1"), required=True)
    assert await watched.journal.close()
    assert watched.facts[-1] == ("journal_lost", {"entries": 1})
    with pytest.raises(JournalUnavailable):
        await settled.written()
    assert segments_of(tmp_path) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("call", ["write", "fdatasync"])
async def test_after_a_bug_no_caller_waits_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    watched = Watched(tmp_path)
    states: list[str | None] = []
    watched.journal.on_state = states.append

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(os, call, fail)
    handle = watched.journal.append(hold("r1"))
    if call == "write":
        with pytest.raises(JournalUnavailable):
            await handle.written()
    while ("journal_fault", {}) not in watched.facts:
        await asyncio.sleep(0)
    assert states == ["the journal has failed: restart this process"], "it is not ready any more"
    assert watched.journal.is_failing
    with pytest.raises(JournalUnavailable):
        watched.journal.append(settle("r1"), required=True)
    while any(thread.name.startswith("journal") for thread in threading.enumerate()):
        await asyncio.sleep(0)
    assert await watched.journal.close()
