"""The quarantine: a line for each entry, private, bounded, and never half a line."""

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from streamweir.store.ledger import batch
from streamweir.store.ledger.batch import Quarantine
from support.entries import hold
from support.failing_disk import FailingDisk


def entries_in(path: Path) -> list[object]:
    return [json.loads(line)["entry"] for line in path.read_text().splitlines()]


def test_each_entry_is_a_line_with_its_reason(tmp_path: Path) -> None:
    aside = Quarantine(tmp_path / "new")
    aside.add(5, "DataError 22003", hold("r1", 2**63))
    aside.add(6, "unknown", b"\x00\xff")
    first, second = (json.loads(line) for line in aside.path.read_text().splitlines())
    assert (first["at_ms"], first["reason"], first["entry"]["type"]) == (5, "DataError 22003", "hold")
    assert (first["entry"]["request_id"], first["entry"]["amount"]) == ("r1", 2**63)
    assert second == {"at_ms": 6, "reason": "unknown", "entry": "AP8="}
    assert stat.S_IMODE(aside.path.stat().st_mode) == 0o600


def test_a_full_file_replaces_the_previous_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MAX_BYTES", 100)
    aside = Quarantine(tmp_path)
    for number in range(20):
        aside.add(number, "unknown", number)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quarantine.1.jsonl", "quarantine.jsonl"]
    kept = [*entries_in(tmp_path / "quarantine.1.jsonl"), *entries_in(aside.path)]
    assert kept == list(range(20))[-len(kept) :]
    for path in tmp_path.iterdir():
        assert path.stat().st_size <= 100
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_line_that_is_larger_than_the_bound_is_kept_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_BYTES", 10)
    aside = Quarantine(tmp_path)
    aside.add(1, "unknown", "large")
    assert entries_in(aside.path) == ["large"]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aside = Quarantine(tmp_path)
    aside.add(1, "unknown", "first")
    write = os.write
    disk = FailingDisk(monkeypatch)
    disk.code, failing = errno.ENOSPC, os.write

    def half(descriptor: int, data: bytes) -> int:
        disk.failures["write"] = 1
        monkeypatch.setattr(os, "write", failing)
        return write(descriptor, data[:5])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="space"):
        aside.add(2, "unknown", "second")
    aside.add(3, "unknown", "third")
    assert entries_in(aside.path) == ["first", "third"]
