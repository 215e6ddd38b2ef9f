"""A store in an SQLite file: the write-ahead log, one writer at a time, and threads, so the event loop never waits.

Three lanes: `write`, whose commits wait for the disk (synchronous=FULL), `content`, whose commits do
not (NORMAL), and the readers. Every write begins with BEGIN IMMEDIATE, so that it waits for the lock
where waiting is safe and is never refused in the middle. Other programs may read and write the same
file at any time, and are kept waiting no longer than a transaction lasts.
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

from streamweir.store.db.base import SLOW_S, Slow, Store, StoreError, StoreUnavailable, T, wait_for_disk
from streamweir.store.db.clock import time_limit
from streamweir.store.db.sqlite_workers import Operation, OperationAbandoned, SqliteWorkers, make_engine, primary_code

_READERS = 2
_CLOSE_S = 5.0
_MAKE_S = 30.0
_UNHURRIED_S = 30 * 86_400.0
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
    """On a file that is there (`make_file`); it is opened by the first operation."""

    is_sqlite = True

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        uri = _uri(path)
        turn = threading.Lock()
        self._write = SqliteWorkers("write", path, make_engine(uri, "BEGIN IMMEDIATE", _DURABLE), turn)
        self._content = SqliteWorkers(
            "content", path, make_engine(uri, "BEGIN IMMEDIATE", (*_COMMON, "PRAGMA synchronous=NORMAL")), turn
        )
        self._read = SqliteWorkers(
            "read", path, make_engine(uri, "BEGIN", (*_COMMON, "PRAGMA query_only=ON")), None, _READERS
        )
        self._lanes = (self._write, self._content, self._read)
        self._is_closed = False
        self._slow: tuple[Slow, float] | None = None
        """Where a slow disk is waited for: who is told, and how often."""

    @contextmanager
    def unhurried(self, slow: Slow, every_s: float = SLOW_S) -> Iterator[None]:
        self._slow = (slow, every_s)
        try:
            yield
        finally:
            self._slow = None

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
        running = {asyncio.wrap_future(end) for workers in self._lanes for end in workers.close()}
        for end in running:
            end.add_done_callback(_retrieve)
        _, running = await asyncio.wait(running, timeout=_CLOSE_S)
        if running:
            for workers in self._lanes:
                workers.give_up()
            await asyncio.wait(running, timeout=_CLOSE_S)

    async def _run(self, workers: SqliteWorkers, work: Callable[[Connection], T], timeout_s: float) -> T:
        if self._is_closed:
            raise self._unavailable("it is closed")
        slow = self._slow
        limit_s = timeout_s if slow is None else _UNHURRIED_S
        operation = Operation(work, time.monotonic() + limit_s, locked_s=timeout_s)
        future = workers.submit(operation)
        waiter = asyncio.wrap_future(future)
        waiter.add_done_callback(_retrieve)
        try:
            if slow is not None:
                await wait_for_disk(waiter, self.where, *slow)
            else:
                async with time_limit(timeout_s):
                    await asyncio.wait((waiter,))
        except TimeoutError:
            pass  # what it has come to by now is looked at below
        except asyncio.CancelledError:
            future.cancel()
            raise
        if not future.done() and not future.cancel():
            operation.give_up()
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
    """Makes what is missing, for nobody but this user: SQLite gives its other files the same rights."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        mode = _use_log(path)
    except OSError as fault:
        raise StoreError(f"cannot open the database {path}: {fault.strerror}") from fault
    except sqlite3.Error as fault:
        reason = _REASONS.get(fault.sqlite_errorcode & 0xFF, str(fault))
        raise StoreError(f"cannot open the database {path}: {reason}") from fault
    if mode != "wal":
        raise StoreError(f"cannot open the database {path}: its file system cannot share memory, which SQLite needs")


def _use_log(path: Path) -> str:
    """The journal's mode, which the file keeps. SQLite does not wait when it changes: so this does."""
    until = time.monotonic() + _MAKE_S
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
    """Empty: it is about the statement or its values, and not about the database."""
    if is_read and getattr(fault.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY:
        return ""  # a reader that wants to write: ours to mend
    return _REASONS.get(primary_code(fault), "")


def _uri(path: Path) -> str:
    """A file that has gone is not made again, empty."""
    return f"{path.absolute().as_uri()}?mode=rw"


def _retrieve(waiter: "asyncio.Future[Any]") -> None:
    """Of a failure nobody waits for any more, nothing is said."""
    if not waiter.cancelled():
        waiter.exception()
