"""Run files: how commands on this machine find a running gateway.

    serve --> DATA/gateway-PID.json, and the same in the user's runtime folder      status, keys, top, ... read them

A run file says where a gateway is: its address, its configuration, its data. It contains no secret, and has mode 0600.
The process holds a lock on it for as long as it runs, which the system releases however it ends: a file without a lock
is left over from a process that was killed, and is ignored. The file is locked before it gets its name, so no reader
sees one that is not locked yet.

Who can plant a run file can lead a command to another database. So a file counts only if it, and its folder, belong to
the reading user or to root, and nobody else can write there. Root also reads those of a service in `/run/streamweir`,
because only root can have made that folder.
"""

import fcntl
import os
import stat
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

RUNTIME_DIR = "STREAMWEIR_RUNTIME_DIR"
"""The variable for the only runtime folder that is used, in place of the usual ones."""
_SYSTEM = Path("/run")
_NAME = "streamweir"
_MAX_BYTES = 65_536
_MAX_FILES = 1000
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class RunFile(Struct, frozen=True, kw_only=True):
    """What a gateway says about itself."""

    pid: int
    version: str
    started_ms: int
    node: str
    urls: tuple[str, ...]
    """Where it listens, without paths."""
    health_url: str | None
    """The address for probes alone, if it has one."""
    workers: int
    data_dir: str
    config_file: str | None
    env_file: str | None
    store: str
    """The database, without user and password."""


class Running(Struct, frozen=True, kw_only=True):
    """A gateway that runs, as its run file says."""

    file: RunFile
    owner: int
    """The user of the file."""

    @property
    def data_dir(self) -> Path:
        return Path(self.file.data_dir)

    @property
    def config_file(self) -> Path | None:
        return Path(self.file.config_file) if self.file.config_file is not None else None

    @property
    def env_file(self) -> Path | None:
        return Path(self.file.env_file) if self.file.env_file is not None else None


class HeldRunFiles:
    """The run files of this process, locked until `remove`."""

    def __init__(self) -> None:
        self._held: dict[Path, int] = {}

    def write(self, content: RunFile, folders: list[Path]) -> list[Path]:
        """Returns the folders that cannot be used. Files of dead processes are removed there."""
        failed = []
        for folder in folders:
            try:
                remove_stale(folder)
                path = folder / f"gateway-{content.pid}.json"
                self._held[path] = _write_locked(path, msgspec.json.encode(content))
            except OSError:
                failed.append(folder)
        return failed

    def remove(self) -> None:
        for path, file in self._held.items():
            with suppress(OSError):
                path.unlink(missing_ok=True)
            os.close(file)
        self._held.clear()


def open_runtime_folder(environ: Mapping[str, str], uid: int) -> Path | None:
    """The first runtime folder that this user can use; it is made if it is absent. None: there is none."""
    for folder in runtime_folders(environ, uid):
        with suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            if is_trusted(_status_of(folder), {0, uid}) and os.access(folder, os.W_OK | os.X_OK):
                return folder
    return None


def runtime_folders(environ: Mapping[str, str], uid: int) -> list[Path]:
    """Where run files of this user may be, in the order in which a gateway tries to write there."""
    only = environ.get(RUNTIME_DIR)
    if only:
        return [Path(only)]
    own = environ.get("XDG_RUNTIME_DIR")
    temporary = Path(environ.get("TMPDIR") or "/tmp")  # noqa: S108 (its owner is checked)
    return [*([Path(own) / _NAME] if own else []), _SYSTEM / _NAME, temporary / f"{_NAME}-{uid}"]


def find_running(folders: list[Path], uid: int) -> list[Running]:
    """The gateways with run files in these runtime folders, each once; the oldest first."""
    found: dict[tuple[int, str], Running] = {}
    for folder in folders:
        try:
            status = _status_of(folder)
        except OSError:
            continue
        owners = {0, uid}
        if uid == 0 and folder.parent == _SYSTEM:  # root has made it, for a service of that user
            owners.add(status.st_uid)
        if is_trusted(status, owners):
            for running in _read_all(folder, owners):
                found.setdefault((running.file.pid, running.file.data_dir), running)
    return sorted(found.values(), key=lambda each: (each.file.started_ms, each.file.pid))


def running_on(data_dir: Path, uid: int) -> list[Running]:
    """The gateways that use this data directory, which the user has named: its owner is trusted by root."""
    try:
        owner = data_dir.stat().st_uid
    except OSError:
        return []
    return _read_all(data_dir, {0, uid, owner} if uid == 0 else {0, uid})


def read_running(path: Path, owners: Set[int]) -> Running | None:
    """None: it is not a run file that counts, or its process has ended."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or not is_trusted(status, owners) or not _is_locked(file):
            return None
        content = msgspec.json.decode(os.read(file, _MAX_BYTES), type=RunFile)
    except (OSError, msgspec.DecodeError):
        return None
    finally:
        os.close(file)
    return Running(file=content, owner=status.st_uid)


def is_trusted(status: os.stat_result, owners: Set[int]) -> bool:
    """A file or folder, not a link, that belongs to one of these users, and that nobody else can change."""
    is_plain = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    return is_plain and status.st_uid in owners and not status.st_mode & _WRITABLE_BY_OTHERS


def remove_stale(folder: Path) -> None:
    """Removes what processes of this user have left that were killed."""
    for path in _paths(folder):
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if os.fstat(file).st_uid == os.geteuid() and not _is_locked(file):
                    path.unlink()
            finally:
                os.close(file)


def _status_of(folder: Path) -> os.stat_result:
    """systemd may make /run/streamweir as a link, which nobody else can."""
    return folder.stat() if folder.parent == _SYSTEM else folder.lstat()


def _read_all(folder: Path, owners: Set[int]) -> list[Running]:
    found = [read_running(path, owners) for path in _paths(folder)]
    return [each for each in found if each is not None]


def _paths(folder: Path) -> list[Path]:
    try:
        return sorted(path for path, _ in zip(folder.glob("gateway-*.json"), range(_MAX_FILES), strict=False))
    except OSError:
        return []


def _write_locked(path: Path, content: bytes) -> int:
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(file, content)
        draft.rename(path)
    except OSError:
        os.close(file)
        draft.unlink(missing_ok=True)
        raise
    return file


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
