"""A real store whose answers get lost, or come late: what a network does to a database."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from streamweir.store.db.base import Store, StoreUnavailable

T = TypeVar("T")


class FlakyStore(Store):
    """Of the next writes, `lost_before` are not done and `lost_after` are, and both report an unavailable database.

    While `gate` is closed writes wait, after `reached` is set. What was written is counted in `writes`.
    """

    def __init__(self, store: Store) -> None:
        self.is_sqlite = store.is_sqlite
        self.lost_before = self.lost_after = self.writes = 0
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self._store = store

    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        return await self._store.read(work, timeout_s=timeout_s)

    async def write(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        self.reached.set()
        await self.gate.wait()
        if self.lost_before:
            self.lost_before -= 1
            raise StoreUnavailable("lost before it was done", maybe_committed=True)
        result = await self._store.write(work, timeout_s=timeout_s)
        self.writes += 1
        if self.lost_after:
            self.lost_after -= 1
            raise StoreUnavailable("lost after it was done", maybe_committed=True)
        return result

    async def write_content(self, work: Callable[[Connection], T], *, timeout_s: float = 5.0) -> T:
        return await self._store.write_content(work, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._store.close()
