"""Run files: whose are read, and that one without a living process is not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamweir.server.process import run_file
from streamweir.server.process.run_file import (
    HeldRunFiles,
    RunFile,
    find_running,
    open_runtime_folder,
    running_on,
    runtime_folders,
)

OWN = os.geteuid()
CONTENT = RunFile(
    pid=4711,
    version="0.1.0",
    started_ms=1,
    node="n",
    urls=("http://127.0.0.1:8080",),
    health_url=None,
    workers=1,
    data_dir="/data",
    config_file=None,
    env_file=None,
    store="sqlite /data/streamweir.db",
)


@pytest.fixture
def held() -> Iterator[HeldRunFiles]:
    files = HeldRunFiles()
    yield files
    files.remove()


def stranger_of(path: Path) -> int:
    """A user that neither owns the path nor is root, and to whom its owner is a stranger, too."""
    if OWN != 0:
        return OWN + 1
    os.chown(path, 54_321, -1)
    return 54_322


def test_a_gateway_is_found_for_as_long_as_it_runs(tmp_path: Path, held: HeldRunFiles) -> None:
    data, runtime = tmp_path / "data", tmp_path / "runtime"
    data.mkdir(mode=0o700)
    runtime.mkdir(mode=0o700)
    assert held.write(CONTENT, [data, runtime, tmp_path / "nowhere"]) == [tmp_path / "nowhere"]
    assert [each.file for each in find_running([runtime, data], OWN)] == [CONTENT], "once, though there are two files"
    assert [each.file for each in running_on(data, OWN)] == [CONTENT]
    assert [path.stat().st_mode & 0o777 for path in tmp_path.glob("*/*")] == [0o600, 0o600]
    held.remove()
    assert find_running([runtime], OWN) == []
    assert list(tmp_path.glob("*/*")) == []


def test_what_a_killed_process_has_left_is_ignored_and_removed_by_the_next(tmp_path: Path, held: HeldRunFiles) -> None:
    held.write(CONTENT, [tmp_path])
    (file,) = tmp_path.iterdir()
    left = tmp_path / "gateway-1.json"
    left.write_bytes(file.read_bytes())
    left.chmod(0o600)
    (tmp_path / "gateway-x.json").symlink_to(file)
    (tmp_path / "gateway-y.json").mkdir()
    os.mkfifo(tmp_path / "gateway-z.json", 0o600)
    assert [each.file.pid for each in find_running([tmp_path], OWN)] == [4711]
    HeldRunFiles().write(CONTENT, [])
    run_file.remove_stale(tmp_path)
    assert not left.exists()
    assert file.exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"pid": "x"}'])
def test_what_is_no_run_file_is_ignored(tmp_path: Path, held: HeldRunFiles, content: bytes) -> None:
    held.write(CONTENT, [tmp_path])
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    assert find_running([tmp_path], OWN) == []


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_run_file_that_another_user_can_write_leads_nobody(
    tmp_path: Path, held: HeldRunFiles, is_folder: bool
) -> None:
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    held.write(CONTENT, [folder])
    (file,) = folder.iterdir()
    place = folder if is_folder else file
    for mode in (0o722, 0o770):
        place.chmod(mode)
        assert find_running([folder], OWN) == []
    place.chmod(0o700)
    assert len(find_running([folder], OWN)) == 1
    assert find_running([folder], stranger_of(place)) == []
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert find_running([link], OWN) == []


def test_root_reads_the_run_file_of_a_service_where_root_alone_makes_folders(
    tmp_path: Path, held: HeldRunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "streamweir"
    folder.mkdir(mode=0o755)
    held.write(CONTENT, [folder])
    stranger_of(folder)
    stranger_of(next(folder.iterdir()))
    assert find_running([folder], 0) == []
    monkeypatch.setattr(run_file, "_SYSTEM", tmp_path)
    assert [each.owner for each in find_running([folder], 0)] == [folder.stat().st_uid]
    assert len(running_on(folder, 0)) == 1, "a data directory that root has named"


def test_a_runtime_folder_that_another_user_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "_SYSTEM", tmp_path / "no-run")
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "nowhere"), "TMPDIR": str(tmp_path)}
    found = open_runtime_folder(environ, OWN)
    assert found == tmp_path / f"streamweir-{OWN}"
    assert found.stat().st_mode & 0o777 == 0o700
    other = stranger_of(found)
    found.rename(tmp_path / f"streamweir-{other}")
    assert open_runtime_folder(environ, other) is None


def test_the_runtime_folders() -> None:
    assert runtime_folders({"STREAMWEIR_RUNTIME_DIR": "/a"}, 1000) == [Path("/a")]
    assert runtime_folders({"XDG_RUNTIME_DIR": "/run/user/1000"}, 1000) == [
        Path("/run/user/1000/streamweir"),
        Path("/run/streamweir"),
        Path("/tmp/streamweir-1000"),  # noqa: S108
    ]
