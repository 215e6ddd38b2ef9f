"""What processes leave behind: found by one, in order, read as far as it can be, and gone when it is applied."""

import fcntl
import os
from pathlib import Path

import pytest

from streamweir.store.journal.files import SegmentFile, orphaned_journals
from streamweir.store.journal.frames import encode_frame
from support.entries import hold, settle
from support.journal_files import is_locked


def leave(folder: Path, instance: str, number: int, *entry_ids: str) -> Path:
    """A segment whose owner is gone."""
    segment = SegmentFile.make(folder, instance, number)
    segment.write(b"".join(encode_frame(hold(entry_id)) for entry_id in entry_ids))
    segment.release()
    return segment.path


def test_without_a_folder_there_are_no_dead_processes(tmp_path: Path) -> None:
    assert orphaned_journals(tmp_path / "none") == []


def test_each_dead_process_is_one_journal_in_the_order_it_wrote(tmp_path: Path) -> None:
    leave(tmp_path, "b", 2, "b3")
    leave(tmp_path, "a", 1000000, "a4")
    leave(tmp_path, "a", 999999, "a3")
    leave(tmp_path, "a", 2, "a2")
    leave(tmp_path, "b", 1, "b1", "b2")
    found = orphaned_journals(tmp_path)
    assert [(dead.instance, list(dead.entries())) for dead in found] == [
        ("a", [hold("a2"), hold("a3"), hold("a4")]),
        ("b", [hold("b1"), hold("b2"), hold("b3")]),
    ]
    for dead in found:
        dead.remove()
    assert list(tmp_path.iterdir()) == []


def test_an_orphaned_journal_is_found_by_one_process_until_it_is_released(tmp_path: Path) -> None:
    path = leave(tmp_path, "a", 1, "a1")
    (first,) = orphaned_journals(tmp_path)
    assert is_locked(path)
    assert orphaned_journals(tmp_path) == []
    first.close()
    (second,) = orphaned_journals(tmp_path)
    assert list(second.entries()) == [hold("a1")]
    second.remove()


def test_an_instance_that_lives_in_one_of_its_files_is_left_alone(tmp_path: Path) -> None:
    leave(tmp_path, "a", 1, "a1")
    living = SegmentFile.make(tmp_path, "a", 2)
    assert orphaned_journals(tmp_path) == []
    assert not is_locked(tmp_path / "a.000001.journal"), "it lets go of what it had taken"
    living.remove()


def test_a_file_that_is_removed_while_it_is_locked_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = leave(tmp_path, "a", 1, "a1")
    flock = fcntl.flock

    def lock_too_late(descriptor: int, operation: int) -> None:
        path.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    assert orphaned_journals(tmp_path) == []


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    names = ["quarantine.jsonl", "a.000001.journal.broken", "a.1.journal", "a.000001.journal.new", ".000001.journal"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    assert orphaned_journals(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_an_old_temporary_file_is_removed(tmp_path: Path) -> None:
    temporary = tmp_path / "a.000001.journal.new"
    temporary.write_bytes(b"")
    os.utime(temporary, (0, 0))
    assert orphaned_journals(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_segment_ends_at_the_damage_and_the_next_is_read(tmp_path: Path) -> None:
    path = leave(tmp_path, "a", 1, "a1", "a2")
    with path.open("ab") as file:
        file.write(encode_frame(settle("a1"))[:-1])
    leave(tmp_path, "a", 2, "a3")
    (dead,) = orphaned_journals(tmp_path)
    assert list(dead.entries()) == [hold("a1"), hold("a2"), hold("a3")]
    assert [segment.read().dropped_bytes for segment in dead.segments] == [len(encode_frame(settle("a1"))) - 1, 0]
    dead.remove()


def test_of_what_is_set_aside_only_the_newest_are_kept(tmp_path: Path) -> None:
    for number in range(1, 13):
        leave(tmp_path, "a", number, f"a{number}")
        (dead,) = orphaned_journals(tmp_path)
        dead.segments[0].set_aside()
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == [f"a.{number:06}.journal.broken" for number in range(5, 13)]


def test_a_write_that_fails_halfway_leaves_nothing_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = SegmentFile.make(tmp_path, "a", 1)
    segment.write(b"first")
    write = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) < 6:
            raise OSError
        return write(descriptor, data[:3])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError):  # noqa: PT011
        segment.write(b"second")
    assert segment.path.read_bytes() == b"first"
    assert not segment.is_sealed
    segment.remove()
