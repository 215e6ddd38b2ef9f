"""Hashes passwords with argon2id, in threads, a few at a time.

A hash costs 64 MiB and a tenth of a second on purpose. So at most `MAX_PARALLEL` are computed at once, whoever asks,
and who comes when `MAX_WAITING` are waiting is refused. A caller that leaves frees its place only when its hash is
done. A login with a name that nobody has takes as long as any other.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from streamweir.core.errors import GatewayFault
from streamweir.server.http.pressure import retry_after_s

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MAX_PARALLEL = 2
MAX_WAITING = 16
T = TypeVar("T")


class Cost(Struct, frozen=True):
    """Of one hash."""

    rounds: int = 3
    memory_kib: int = 64 * 1024
    lanes: int = 1


class PasswordHashing:
    def __init__(
        self, cost: Cost | None = None, *, max_parallel: int = MAX_PARALLEL, max_waiting: int = MAX_WAITING
    ) -> None:
        self._cost = cost or Cost()
        self._free = asyncio.Semaphore(max_parallel)
        self._max_waiting = max_waiting
        self._waiting = 0
        self._hasher: PasswordHasher | None = None
        self._nobodys: str | None = None
        """A hash that is compared with if there is none."""

    async def hash(self, password: str) -> str:
        return await self._run(lambda: self._argon2().hash(password))

    async def matches(self, stored: str | None, password: str) -> bool:
        """`stored`: the hash, or None if there is none to compare with."""
        return await self._run(lambda: self._verify(stored, password))

    def is_outdated(self, stored: str) -> bool:
        """Made with other parameters than those of today."""
        return self._argon2().check_needs_rehash(stored)

    def _verify(self, stored: str | None, password: str) -> bool:
        from argon2.exceptions import InvalidHashError, VerificationError

        hasher = self._argon2()
        if self._nobodys is None:
            self._nobodys = hasher.hash("")
        try:
            hasher.verify(stored if stored is not None else self._nobodys, password)
        except (VerificationError, InvalidHashError):
            return False
        return stored is not None

    def _argon2(self) -> "PasswordHasher":
        if self._hasher is None:
            from argon2 import PasswordHasher  # here, because most processes never need it

            self._hasher = PasswordHasher(self._cost.rounds, self._cost.memory_kib, self._cost.lanes)
        return self._hasher

    async def _run(self, work: Callable[[], T]) -> T:
        if self._waiting >= self._max_waiting:
            message = "Too many people log in at the moment. Try again later."
            raise GatewayFault("overloaded", message, retry_after_s=retry_after_s())
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        done = asyncio.get_running_loop().run_in_executor(None, work)
        done.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(done)  # a thread cannot be cancelled: its place is taken until it is done
