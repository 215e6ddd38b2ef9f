"""Temporary files in memory: made where there is room, and removed behind a session that was killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import memory_folder
from support.memory_folder import use_memory


@pytest.fixture(autouse=True)
def _much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_folder, "NEEDED_BYTES", 0)


def test_a_folder_of_this_process_is_named_in_the_environment(tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    folder = use_memory(environ, tmp_path)
    assert folder == tmp_path / f"sw-{os.getpid()}"
    assert folder.is_dir()
    assert environ == {"TMPDIR": str(folder)}


def test_a_choice_is_kept(tmp_path: Path) -> None:
    environ = {"TMPDIR": "/somewhere"}
    assert use_memory(environ, tmp_path) is None
    assert environ == {"TMPDIR": "/somewhere"}
    assert use_memory({}, tmp_path / "missing") is None


def test_little_memory_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_folder, "NEEDED_BYTES", 1 << 60)
    assert use_memory({}, tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_session_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left, running, foreign = (
        tmp_path / f"sw-{name}" for name in (ended.stdout.decode().strip(), os.getppid(), "other")
    )
    for folder in (left, running, foreign):
        (folder / "inside").mkdir(parents=True)
    assert use_memory({}, tmp_path) is not None
    assert [folder.exists() for folder in (left, running, foreign)] == [False, True, True]
