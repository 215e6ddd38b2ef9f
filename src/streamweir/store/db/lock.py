"""One server per SQLite file: its budgets are decided in memory, and two memories would spend the money twice.

The lock is an flock on a file beside the database and goes with the process that holds it, however
that ends. A lone server holds it alone; the workers of one supervisor share it under the name of
their node, which the first of them writes into the file. It is no concern of those who only read and
write rows, such as the command line. PostgreSQL needs none.
"""

import fcntl
import os
import time
from pathlib import Path

from streamweir.store.db.base import StoreError
from streamweir.store.db.engine import sqlite_path

_PATIENCE_S = 2.0
"""For the moment in which the first worker of a node has the file to itself."""
_LONGEST = 512


class DatabaseLock:
    """Held until it is released, or the process ends."""

    def __init__(self, fd: int, *, shared: bool) -> None:
        self._fd = fd
        self.shared = shared

    def release(self) -> None:
        """May be called again. The file stays: were it removed, two processes could each lock one of that name."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def lock_database(url: str, data_dir: Path, *, node: str | None = None) -> DatabaseLock | None:
    """Shared with those who give the same `node`, else with nobody. None where no lock is needed.

    A database that another server holds is a `StoreError`.
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
        holder = _share(fd, node) if node is not None else _hold_alone(fd)
    except BaseException:
        os.close(fd)
        raise
    if holder is not None:
        os.close(fd)
        raise StoreError(
            f"the database {path} is in use by another server ({holder}): "
            "give each a database of its own, or let them share PostgreSQL"
        )
    return DatabaseLock(fd, shared=node is not None)


def _hold_alone(fd: int) -> str | None:
    """None, or who holds it."""
    if not _try(fd, fcntl.LOCK_EX):
        return _read(fd)[0]
    _write(fd, "")
    return None


def _share(fd: int, node: str) -> str | None:
    """The name in the file is only ever written by one who has it alone: it is that of all who share it."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        if _try(fd, fcntl.LOCK_EX):
            _write(fd, node)
        # From alone to shared is two steps, and another may come between them: the name tells.
        if _try(fd, fcntl.LOCK_SH):
            holder, name = _read(fd)
            return None if name == node else holder
        if time.monotonic() > until:
            return _read(fd)[0]
        time.sleep(0.01)


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(fd: int, node: str) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n{node}".encode(), 0)


def _read(fd: int) -> tuple[str, str]:
    """Who holds it, in words, and under which name."""
    pid, _, node = os.pread(fd, _LONGEST, 0).decode(errors="replace").partition("\n")
    return (f"node {node}" if node else f"process {pid}"), node
