"""A store in an SQLite file: write-ahead log, one writer at a time, and threads, so that the event loop never waits.

There are three groups of workers: `write`, whose commits wait for the disk (synchronous=FULL), `content`, whose commits
do not (NORMAL), and the readers. Every write begins with BEGIN IMMEDIATE, so that it waits for the lock at its start
and is never refused in the middle. Other programs may read and write the same file at any time. They wait for one
transaction at most.
"""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from streamweir.store.db.base import SLOW_S, OnSlow, Store, StoreError, StoreUnavailable, T, wait_for_disk
from streamweir.store.db.clock import time_limit
from streamweir.store.db.sqlite_workers import Connector, Operation, OperationAbandoned, SqliteWorkers, primary_code

_READERS = 2
_CLOSE_S = 5.0
_WAL_TIMEOUT_S = 30.0
_NO_TIME_LIMIT_S = 30 * 86_400.0
_COMMON = (
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_size=-8000",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA secure_delete=ON",  # what is erased is overwritten
)
_DURABLE = (*_COMMON, "PRAGMA journal_size_limit=67108864", "PRAGMA synchronous=FULL", "PRAGMA fullfsync=ON")
_REASONS = {
    sqlite3.SQLITE_BUSY: "it is locked by another process",
    sqlite3.SQLITE_LOCKED: "it is locked",
    sqlite3.SQLITE_PROTOCOL: "it is locked by another process",
    sqlite3.SQLITE_INTERRUPT: "it was too slow",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk failed",
    sqlite3.SQLITE_READONLY: "the file is read-only",
    sqlite3.SQLITE_PERM: "access to the file is denied",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
}


class SqliteStore(Store):
    """The file must exist (`make_file`). The first operation opens it."""

    is_sqlite = True

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        uri = _uri(path)
        write_lock = threading.Lock()
        self._write = SqliteWorkers("write", path, Connector(uri, "BEGIN IMMEDIATE", _DURABLE), write_lock)
        self._content = SqliteWorkers(
            "content", path, Connector(uri, "BEGIN IMMEDIATE", (*_COMMON, "PRAGMA synchronous=NORMAL")), write_lock
        )
        self._read = SqliteWorkers(
            "read", path, Connector(uri, "BEGIN", (*_COMMON, "PRAGMA query_only=ON")), None, _READERS
        )
        self._all_workers = (self._write, self._content, self._read)
        self._is_closed = False
        self._on_slow: tuple[OnSlow, float] | None = None
        """While there is no time limit: the callback for a slow disk, and its interval."""

    @contextmanager
    def without_time_limit(self, on_slow: OnSlow, every_s: float = SLOW_S) -> Iterator[None]:
        self._on_slow = (on_slow, every_s)
        try:
            yield
        finally:
            self._on_slow = None

    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        return await self._run(self._read, work, timeout_s)

    async def write(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        return await self._run(self._write, work, timeout_s)

    async def write_content(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        return await self._run(self._content, work, timeout_s)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        running = {asyncio.wrap_future(end) for workers in self._all_workers for end in workers.close()}
        for end in running:
            end.add_done_callback(_retrieve)
        _, running = await asyncio.wait(running, timeout=_CLOSE_S)
        if running:
            for workers in self._all_workers:
                workers.abandon()
            await asyncio.wait(running, timeout=_CLOSE_S)

    async def _run(self, workers: SqliteWorkers, work: Callable[[Connection], T], timeout_s: float) -> T:
        if self._is_closed:
            raise self._unavailable("it is closed")
        on_slow = self._on_slow
        limit_s = timeout_s if on_slow is None else _NO_TIME_LIMIT_S
        operation = Operation(work, time.monotonic() + limit_s, lock_timeout_s=timeout_s)
        future = workers.submit(operation)
        waiter = asyncio.wrap_future(future)
        waiter.add_done_callback(_retrieve)
        try:
            if on_slow is not None:
                await wait_for_disk(waiter, self.where, *on_slow)
            else:
                async with time_limit(timeout_s):
                    await asyncio.wait((waiter,))
        except TimeoutError:
            pass  # the state of the future is checked below
        except asyncio.CancelledError:
            future.cancel()
            raise
        if not future.done() and not future.cancel():
            operation.abandon()
            raise self._unavailable(f"not done within {timeout_s:g} s", operation)
        if future.cancelled():
            raise self._unavailable("not begun in time")
        try:
            return future.result()
        except OperationAbandoned:
            raise self._unavailable(f"not done within {timeout_s:g} s") from None
        except DBAPIError as fault:
            reason = why_unavailable(fault, is_read=workers is self._read)
            if not reason:
                raise
            raise self._unavailable(reason, operation) from fault

    def _unavailable(self, reason: str, operation: Operation[Any] | None = None) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.where}: {reason}", maybe_committed=operation is not None and operation.is_committing
        )


def make_file(path: Path) -> None:
    """Creates the directory and the file, private to this user. SQLite creates its other files with the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        mode = _enable_wal(path)
    except OSError as fault:
        raise StoreError(f"cannot open the database {path}: {fault.strerror}") from fault
    except sqlite3.Error as fault:
        reason = _REASONS.get(fault.sqlite_errorcode & 0xFF, str(fault))
        raise StoreError(f"cannot open the database {path}: {reason}") from fault
    if mode != "wal":
        raise StoreError(f"cannot open the database {path}: its file system cannot share memory, which SQLite needs")


def _enable_wal(path: Path) -> str:
    """Sets and returns the journal mode, which the file keeps. SQLite does not wait for locks here, so this retries."""
    until = time.monotonic() + _WAL_TIMEOUT_S
    connection = sqlite3.connect(_uri(path), uri=True, isolation_level=None)
    try:
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            except sqlite3.OperationalError as fault:
                if fault.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return str(mode)
    finally:
        connection.close()


def why_unavailable(fault: DBAPIError, *, is_read: bool = False) -> str:
    """Empty: the error concerns the statement or its values, not the database."""
    if is_read and getattr(fault.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY:
        return ""  # a bug: a read function has written
    return _REASONS.get(primary_code(fault), "")


def _uri(path: Path) -> str:
    """mode=rw: a removed file is not created again."""
    return f"{path.absolute().as_uri()}?mode=rw"


def _retrieve(waiter: "asyncio.Future[Any]") -> None:
    """Marks the exception of an abandoned operation as retrieved."""
    if not waiter.cancelled():
        waiter.exception()
