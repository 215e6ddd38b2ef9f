"""One server per SQLite file: its budgets are decided in memory, and two memories would spend the money twice.

The lock is an flock on a file next to the database, which the system releases when the process ends. A single server
holds it exclusively. The workers of one supervisor share it under the name of their node, which the first of them
writes into the file. Programs that only read and write rows, such as the command line, do not need it. PostgreSQL
needs no lock.
"""

import fcntl
import os
import time
from pathlib import Path

from streamweir.store.db.base import StoreError
from streamweir.store.db.engine import sqlite_path

_SHARE_TIMEOUT_S = 2.0
"""The first worker of a node holds the file exclusively for a moment."""
_MAX_BYTES = 512


class DatabaseLock:
    """Held until `release`, or until the process ends."""

    def __init__(self, fd: int, *, shared: bool) -> None:
        self._fd = fd
        self.shared = shared

    def release(self) -> None:
        """May be called again. The file stays: without it, two processes could each lock a file of that name."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def lock_database(url: str, data_dir: Path, *, node: str | None = None) -> DatabaseLock | None:
    """Shared with processes of the same `node`, else exclusive. None: no lock is needed.

    Raises `StoreError` if another server holds the database.
    """
    path = sqlite_path(url, data_dir)
    if path is None:
        return None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        raise StoreError(f"cannot lock the database {path}: {fault.strerror}") from fault
    try:
        holder = _lock_shared(fd, node) if node is not None else _lock_exclusive(fd)
    except BaseException:  # the descriptor is nobody's yet
        os.close(fd)
        raise
    if holder is not None:
        os.close(fd)
        raise StoreError(
            f"the database {path} is in use by another server ({holder}): "
            "give each a database of its own, or let them share PostgreSQL"
        )
    return DatabaseLock(fd, shared=node is not None)


def _lock_exclusive(fd: int) -> str | None:
    """None, or the holder."""
    if not _try_lock(fd, fcntl.LOCK_EX):
        return _read_holder(fd)[0]
    _write_holder(fd, "")
    return None


def _lock_shared(fd: int, node: str) -> str | None:
    """Only an exclusive holder writes the name into the file, so it is the name of all that share the lock."""
    until = time.monotonic() + _SHARE_TIMEOUT_S
    while True:
        if _try_lock(fd, fcntl.LOCK_EX):
            _write_holder(fd, node)
        # Going from exclusive to shared is not atomic: the name shows whether another process came in between.
        if _try_lock(fd, fcntl.LOCK_SH):
            holder, name = _read_holder(fd)
            return None if name == node else holder
        if time.monotonic() > until:
            return _read_holder(fd)[0]
        time.sleep(0.01)


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(fd: int, node: str) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n{node}".encode(), 0)


def _read_holder(fd: int) -> tuple[str, str]:
    """The holder in words, and the name of its node."""
    pid, _, node = os.pread(fd, _MAX_BYTES, 0).decode(errors="replace").partition("\n")
    return (f"node {node}" if node else f"process {pid}"), node
