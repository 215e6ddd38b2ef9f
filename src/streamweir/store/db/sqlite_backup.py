"""A copy of an SQLite database that other processes are using: complete, consistent, and private to this user.

SQLite writes it itself (`VACUUM INTO`), from one read transaction: writers are not stopped, and the copy is one file.
It gets its name when it is complete and on the disk, so that a file of that name is never half a backup.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from streamweir.store.db.base import StoreError


def back_up(source: Path, target: Path) -> int:
    """Returns the bytes of the copy. Raises `StoreError`. Never replaces a file."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))  # `VACUUM` may fill it
        try:
            with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as conn:
                conn.execute("VACUUM INTO ?", (str(partial),))
            _sync(partial)
            os.link(partial, target)  # fails if there is one
        finally:
            partial.unlink()
        _sync(target.absolute().parent)
    except FileExistsError:
        raise StoreError(f"{target}: there is a file of this name: name another") from None
    except OSError as fault:
        raise StoreError(f"{target}: cannot be written: {fault.strerror}") from fault
    except sqlite3.Error as fault:
        raise StoreError(f"cannot back up {source} to {target}: {fault}") from fault
    return target.stat().st_size


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
