"""The interface of a database: three ways to run a function with a connection.

A store function is plain and synchronous and runs on both databases. `Store` calls it with a connection inside one
transaction and never blocks the event loop. If the function raises, the transaction is rolled back and the exception
goes to the caller. The same holds for errors about the rows (`sqlalchemy.exc.DBAPIError`, or `OverflowError` for a
number beyond 64 bits). A database that is unavailable, locked, full or too slow is always a `StoreUnavailable`.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class StoreError(Exception):
    """The database cannot be used at all. The message is one line for the operator, without secrets."""


class StoreUnavailable(Exception):
    """The database is unavailable, locked, full or too slow. The operation may be repeated later."""

    def __init__(self, reason: str, *, maybe_committed: bool = False) -> None:
        super().__init__(reason)
        self.maybe_committed = maybe_committed
        """It failed during the commit, so the transaction may have been committed."""


OnSlow = Callable[[str, float], None]
"""Called with the database's name and the seconds for which it has not answered."""
SLOW_S = 5.0


async def wait_for_disk(waiter: "asyncio.Future[Any]", where: str, on_slow: OnSlow, every_s: float = SLOW_S) -> None:
    """Waits without a time limit."""
    began = time.monotonic()
    while not (await asyncio.wait((waiter,), timeout=every_s))[0]:
        on_slow(where, time.monotonic() - began)


class Store(ABC):
    """An open database, used from one event loop.

    The function may be called more than once, each time in its own transaction, of which at most one is committed. So
    it must not keep state outside of its connection. If the caller is cancelled, a waiting operation is dropped, and a
    running one is completed.
    """

    is_sqlite: bool
    where: str
    """Its name in messages: a path, or a host and the database's name."""

    @abstractmethod
    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        """Reads one snapshot of the database. The function must not write."""

    @abstractmethod
    async def write(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        """One transaction. It survives a power failure when this returns."""

    @abstractmethod
    async def write_content(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        """As `write`, on a separate connection and without waiting for the disk: the last of these may be lost."""

    @contextmanager
    def without_time_limit(self, on_slow: OnSlow, every_s: float = SLOW_S) -> Iterator[None]:  # noqa: ARG002
        """For the start of the program: waits for a slow disk without a limit and calls `on_slow` repeatedly. The time
        limits for a locked file and for a server still apply."""
        yield

    @abstractmethod
    async def close(self) -> None:
        """Running operations are completed or rolled back, waiting ones are refused. May be called again."""
