"""What the rest of the program sees of a database: three ways to run a function over a connection.

A function of the store is plain and synchronous and runs on either database; `Store` gives it a
connection inside one transaction and never lets it block the event loop. What it raises of its own
goes to the caller with the transaction rolled back, and so does what the database says against its
rows (`sqlalchemy.exc.DBAPIError`, or `OverflowError` for a number beyond 64 bits). That the database
is away, locked, full or too slow is `StoreUnavailable` and nothing else.
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
    """The database cannot be used at all: one clear line for the operator, without a secret."""


class StoreUnavailable(Exception):
    """The database is away, locked, full or too slow. The operation may be repeated later."""

    def __init__(self, reason: str, *, maybe_committed: bool = False) -> None:
        super().__init__(reason)
        self.maybe_committed = maybe_committed
        """It failed in the moment of the commit, so it may have been done for all that."""


Slow = Callable[[str, float], None]
"""Is told which database has not answered for how many seconds."""
SLOW_S = 5.0


async def wait_for_disk(waiter: "asyncio.Future[Any]", where: str, slow: Slow, every_s: float = SLOW_S) -> None:
    """Until it is done, however long that takes."""
    began = time.monotonic()
    while not (await asyncio.wait((waiter,), timeout=every_s))[0]:
        slow(where, time.monotonic() - began)


class Store(ABC):
    """An open database, used from one event loop.

    The function may be called more than once, each time in a transaction of its own of which at most
    one is committed: it keeps nothing outside of its connection. A caller who is cancelled leaves
    nothing behind: an operation that waits is dropped, one that runs comes to its end.
    """

    is_sqlite: bool
    where: str
    """What it is called in a message: a path, or a host and the database's name."""

    @abstractmethod
    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        """On one state of the database, whatever is written meanwhile. The function must not write."""

    @abstractmethod
    async def write(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        """One transaction, which is durable against power loss when this is back."""

    @abstractmethod
    async def write_content(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        """As `write`, on a connection of its own and without waiting for the disk: the last of these may be lost."""

    @contextmanager
    def unhurried(self, slow: Slow, every_s: float = SLOW_S) -> Iterator[None]:  # noqa: ARG002
        """For the start of the program: a slow disk is waited for, however long it takes, and `slow` is told again and
        again. A file that another process has locked is still given up in time, and so is a server."""
        yield

    @abstractmethod
    async def close(self) -> None:
        """What runs comes to its end or is rolled back, what waits is refused. May be called again."""
