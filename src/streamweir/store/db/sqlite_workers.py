"""Threads that run operations on an SQLite file, for one kind of operation each: writes, content, reads.

An operation is one function in one transaction. The event loop's thread can abandon it while it runs: then it is
interrupted and rolled back, unless its commit has begun. A connection is kept for the next operation. It is closed
instead after a failure that concerns the file, and if the file at the path is no longer the one that was opened,
because writes to a removed file are lost. `sqlite.py` turns failures into messages.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Generic, NamedTuple

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from streamweir.store.db.base import T

_TRANSIENT = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_FULL)
_ABOUT_VALUES = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)


class OperationAbandoned(Exception):
    """The operation was abandoned and rolled back."""


class Operation(Generic[T]):
    """A function with its deadline (`time.monotonic`). `lock_timeout_s`: the maximum wait for the file's lock."""

    def __init__(self, work: Callable[[Connection], T], deadline: float, lock_timeout_s: float = inf) -> None:
        self._work = work
        self._lock_timeout_s = lock_timeout_s
        self._deadline = deadline
        self._lock = threading.Lock()
        self._driver: sqlite3.Connection | None = None
        self._is_abandoned = False
        self.is_committing = False
        """From now on it cannot be abandoned."""

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def run(self, conn: Connection) -> T:
        driver: sqlite3.Connection = conn.connection.driver_connection  # type: ignore[assignment]
        # Rounded down to tenths of a second: few different statements, which stay prepared, and SQLite reports the
        # lock before the caller's time limit ends.
        driver.execute(f"PRAGMA busy_timeout={int(min(self.remaining_s, self._lock_timeout_s) * 10) * 100}")
        conn.info["operation"] = self
        with self._lock:
            self._driver = driver
        try:
            with conn.begin():
                result = self._work(conn)
                with self._lock:
                    self.check()
                    self.is_committing = True
            return result
        finally:
            with self._lock:
                self._driver = None

    def check(self) -> None:
        """Called before every statement, because an interrupt has no effect between two statements."""
        if self._is_abandoned:
            raise OperationAbandoned

    def abandon(self) -> bool:
        """True: it is rolled back. False: its commit has begun."""
        with self._lock:
            if self.is_committing:
                return False
            self._is_abandoned = True
            if self._driver is not None:
                self._driver.interrupt()
            return True


_CLOSING = threading.Lock()
"""The last connection to a file writes its log (WAL) back and removes it, and with it what was erased. Of two that are
closed at the same moment neither is the last."""


class SqliteWorkers:
    """One connection per running thread. Workers that write share a `write_lock`."""

    def __init__(
        self, name: str, path: Path, connector: "Connector", write_lock: "threading.Lock | None", threads: int = 1
    ) -> None:
        self._path = path
        self._connector = connector
        self._write_lock = write_lock
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"streamweir-db-{name}")
        self._idle: list[Connection] = []
        self._operations: dict[Future[Any], Operation[Any]] = {}
        self._is_closed = False

    def submit(self, operation: Operation[T]) -> Future[T]:
        """A cancelled future never starts. An operation that has started can be abandoned."""
        future = self._threads.submit(self._perform, operation)
        self._operations[future] = operation
        future.add_done_callback(self._operations.pop)
        return future

    def close(self) -> list[Future[Any]]:
        """Drops waiting operations. The futures are done when all operations have ended and connections are closed."""
        running = [future for future in list(self._operations) if not future.cancel()]
        self._is_closed = True
        last = self._threads.submit(self._close_idle)
        self._threads.shutdown(wait=False)
        return [*running, last]

    def abandon(self) -> None:
        for operation in list(self._operations.values()):
            operation.abandon()

    def _perform(self, operation: Operation[T]) -> T:
        operation.check()
        with self._holding_write_lock(operation):
            conn = self._take_connection()
            is_sound = True
            try:
                return operation.run(conn)
            except DBAPIError as fault:
                is_sound = primary_code(fault) in (*_TRANSIENT, *_ABOUT_VALUES)
                raise
            finally:
                if is_sound and not self._is_closed and not conn.in_transaction():
                    self._idle.append(conn)
                else:
                    _close(conn)

    @contextmanager
    def _holding_write_lock(self, operation: Operation[Any]) -> Iterator[None]:
        """SQLite polls for its lock with sleeps. Between our own threads a lock is faster."""
        if self._write_lock is None:
            yield
            return
        if not self._write_lock.acquire(timeout=operation.remaining_s):
            raise OperationAbandoned
        try:
            yield
        finally:
            self._write_lock.release()

    def _take_connection(self) -> Connection:
        file = _identity(self._path)
        while self._idle:
            try:
                conn = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if conn.info["file"] == file:
                return conn
            conn.close()
        conn = self._connector.connect()
        conn.info["file"] = file
        return conn

    def _close_idle(self) -> None:
        while self._idle:
            _close(self._idle.pop())


def _close(conn: Connection) -> None:
    with _CLOSING:
        conn.close()


class Connector(NamedTuple):
    """Opens connections of one kind. Each of their transactions begins with the statement `begin`."""

    uri: str
    begin: str
    pragmas: Sequence[str]

    def connect(self) -> Connection:
        """It may be used by different threads."""
        token = _connector.set(self)
        try:
            conn = _engine().connect()
        finally:
            _connector.reset(token)
        conn.info["begin"] = self.begin
        return conn

    def open(self) -> sqlite3.Connection:
        driver = sqlite3.connect(self.uri, uri=True, isolation_level=None, check_same_thread=False)
        try:
            for pragma in self.pragmas:
                driver.execute(pragma)
        except sqlite3.Error:
            driver.close()
            raise
        return driver


_connector: ContextVar[Connector] = ContextVar("connector")


@cache
def _engine() -> Engine:
    """One for all files and kinds of connections: it keeps compiled statements, which do not depend on them."""
    engine = create_engine(
        "sqlite://", creator=lambda: _connector.get().open(), poolclass=NullPool, hide_parameters=True
    )

    @event.listens_for(engine, "begin")
    def begin_transaction(conn: Connection) -> None:
        conn.exec_driver_sql(conn.info["begin"])

    @event.listens_for(engine, "before_cursor_execute")
    def check(conn: Connection, *_: object) -> None:
        operation: Operation[Any] | None = conn.info.get("operation")
        if operation is not None:
            operation.check()

    return engine


def _identity(path: Path) -> tuple[int, int] | None:
    """The device and inode of the file at the path; None: there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def primary_code(fault: DBAPIError) -> int:
    """SQLite's primary result code, without the extension; 0 if there is none."""
    return getattr(fault.orig, "sqlite_errorcode", 0) & 0xFF
