"""Threads that run operations on an SQLite file, for one kind of operation each: writes, content, reads.

An operation is one function in one transaction. It is given up by the event loop's thread while one
of these runs it: it is interrupted and rolled back then, unless its commit has begun. A connection is
kept for the next operation, but not where it failed in a way that says something about the file, nor
where the file is no longer the one that it was opened on: what is written to a removed file is lost.
Which failures those are, `sqlite.py` knows; nothing here has a word for the caller.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any, Generic

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from streamweir.store.db.base import T

_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_FULL)
_ABOUT_VALUES = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)


class OperationAbandoned(Exception):
    """Nobody waits for it any more, and it is undone."""


class Operation(Generic[T]):
    """A function, and until when somebody waits for it (`time.monotonic`). `locked_s`: how long for the file's lock."""

    def __init__(self, work: Callable[[Connection], T], deadline: float, locked_s: float = inf) -> None:
        self._work = work
        self._locked_s = locked_s
        self._deadline = deadline
        self._lock = threading.Lock()
        self._driver: sqlite3.Connection | None = None
        self._is_given_up = False
        self.is_committing = False
        """From the moment on in which it cannot be given up any more."""

    @property
    def left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def run(self, conn: Connection) -> T:
        driver: sqlite3.Connection = conn.connection.driver_connection  # type: ignore[assignment]
        # In whole tenths of a second, so that the texts are few and stay prepared; and down, so
        # that SQLite says that the file is locked before the caller says that it is late.
        driver.execute(f"PRAGMA busy_timeout={int(min(self.left_s, self._locked_s) * 10) * 100}")
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
        """Before every statement, for an interruption does nothing between two of them."""
        if self._is_given_up:
            raise OperationAbandoned

    def give_up(self) -> bool:
        """Whether nothing of it stays."""
        with self._lock:
            if self.is_committing:
                return False
            self._is_given_up = True
            if self._driver is not None:
                self._driver.interrupt()
            return True


class SqliteWorkers:
    """As many connections as threads are at work. `turn` is what lanes that write have in common, one at a time."""

    def __init__(self, name: str, path: Path, engine: Engine, turn: "threading.Lock | None", threads: int = 1) -> None:
        self._path = path
        self._engine = engine
        self._turn = turn
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"streamweir-db-{name}")
        self._idle: list[Connection] = []
        self._operations: dict[Future[Any], Operation[Any]] = {}
        self._is_closed = False

    def submit(self, operation: Operation[T]) -> Future[T]:
        """Cancelled, it never begins; once it has begun, it can be given up."""
        future = self._threads.submit(self._perform, operation)
        self._operations[future] = operation
        future.add_done_callback(self._operations.pop)
        return future

    def close(self) -> list[Future[Any]]:
        """What waits is dropped. Given back: what is done when everything is over and every connection closed."""
        running = [future for future in list(self._operations) if not future.cancel()]
        self._is_closed = True
        last = self._threads.submit(self._close_idle)
        self._threads.shutdown(wait=False)
        return [*running, last]

    def give_up(self) -> None:
        for operation in list(self._operations.values()):
            operation.give_up()

    def _perform(self, operation: Operation[T]) -> T:
        operation.check()
        with self._in_turn(operation):
            conn = self._take()
            is_sound = True
            try:
                return operation.run(conn)
            except DBAPIError as fault:
                is_sound = primary_code(fault) in (*_PASSING, *_ABOUT_VALUES)
                raise
            finally:
                if is_sound and not self._is_closed and not conn.in_transaction():
                    self._idle.append(conn)
                else:
                    conn.close()

    @contextmanager
    def _in_turn(self, operation: Operation[Any]) -> Iterator[None]:
        """SQLite waits for its lock in a series of sleeps; between two of our own threads there is a better way."""
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=operation.left_s):
            raise OperationAbandoned
        try:
            yield
        finally:
            self._turn.release()

    def _take(self) -> Connection:
        file = _identity(self._path)
        while self._idle:
            try:
                conn = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if conn.info["file"] == file:
                return conn
            conn.close()
        conn = self._engine.connect()
        conn.info["file"] = file
        return conn

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


def make_engine(uri: str, begin: str, pragmas: Sequence[str]) -> Engine:
    """Transactions begin with `begin` and nothing else does; its connections may move from thread to thread."""

    def connect() -> sqlite3.Connection:
        driver = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        try:
            for pragma in pragmas:
                driver.execute(pragma)
        except sqlite3.Error:
            driver.close()
            raise
        return driver

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)

    @event.listens_for(engine, "begin")
    def begin_transaction(conn: Connection) -> None:
        conn.exec_driver_sql(begin)

    @event.listens_for(engine, "before_cursor_execute")
    def check(conn: Connection, *_: object) -> None:
        operation: Operation[Any] | None = conn.info.get("operation")
        if operation is not None:
            operation.check()

    return engine


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file has that name; None: none has."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def primary_code(fault: DBAPIError) -> int:
    """Of SQLite's result codes, without what refines it; 0 where it gave none."""
    return getattr(fault.orig, "sqlite_errorcode", 0) & 0xFF
