"""One look at the database for a key that this process does not know yet.

A key that was made elsewhere (on another node, by a command) reaches this process with its next look at what has
changed, within a second. Until then its caller would be told that it is not valid, for good. So a secret that is not
known is looked for once. What that may cost is bounded, whatever callers without a key send:

- Only a secret of our own form, with its checksum, is looked for, and each one once (the last few thousand are
  remembered).
- All who wait share one look, and there are at most ten looks a second. It is the look of
  `server.accounting.maintenance`: it asks for what has changed, not for the secret.
- A bounded number of callers wait. One beyond that, or whose look fails, is told to try again (503).
"""

import asyncio
from collections.abc import Awaitable, Callable

from streamweir.core.errors import GatewayFault
from streamweir.policy.access import digest_of
from streamweir.policy.secret import is_well_formed
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.telemetry.log import logger
from streamweir.store.db.base import StoreUnavailable

EVERY_S = 0.1
LONGEST_S = 2.0
"""For a look: as long as a request waits for accounting elsewhere."""
MOST_WAITING = 256
MOST_UNKNOWN = 4096


class KeyLookup:
    def __init__(
        self,
        directory: KeyDirectory,
        look: Callable[[], Awaitable[None]],
        *,
        every_s: float = EVERY_S,
        longest_s: float = LONGEST_S,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        """`look` takes up what has changed in the database, into the directory. It raises `StoreUnavailable`."""
        self._directory = directory
        self._look = look
        self._every_s = every_s
        self._longest_s = longest_s
        self._most_waiting = most_waiting
        self._waiting: dict[asyncio.Future[None], bytes] = {}
        self._under_way = 0
        """How many wait for the look that has begun."""
        self._unknown: dict[bytes, None] = {}
        """Looked up and not found, the oldest first."""
        self._task: asyncio.Task[None] | None = None
        self.looks = 0

    def may_find(self, secret: str) -> bool:
        """Whether a look could tell more of it than is known."""
        if not is_well_formed(secret):
            return False
        digest = digest_of(secret)
        return digest not in self._unknown and self._directory.find_digest(digest) is None

    async def find(self, secret: str) -> None:
        """Afterwards the directory has it, if anybody does. Raises `GatewayFault` where nobody can tell."""
        if not self.may_find(secret):
            return
        if len(self._waiting) + self._under_way >= self._most_waiting:
            raise _cannot_tell()
        loop = asyncio.get_running_loop()
        found: asyncio.Future[None] = loop.create_future()
        self._waiting[found] = digest_of(secret)
        if self._task is None:
            self._task = loop.create_task(self._run(), name="key look-up")
        try:
            await found
        finally:
            self._waiting.pop(found, None)

    async def close(self) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        """While anybody waits. A caller that comes while a look is under way waits for the next one: this one may have
        read the database before the key was there."""
        try:
            while self._waiting:
                served, self._waiting = self._waiting, {}
                self._under_way = len(served)
                is_known = await self._look_once()
                for found, digest in served.items():
                    if is_known and self._directory.find_digest(digest) is None:
                        self._remember(digest)
                    if found.done():  # who waited has gone
                        continue
                    if is_known:
                        found.set_result(None)
                    else:
                        found.set_exception(_cannot_tell())
                self._under_way = 0
                await asyncio.sleep(self._every_s)
        finally:
            self._task, self._under_way = None, 0
            for found in self._waiting:
                found.cancel()

    async def _look_once(self) -> bool:
        """Whether the directory knows now what the database does."""
        self.looks += 1
        try:
            async with asyncio.timeout(self._longest_s):
                await self._look()
        except (StoreUnavailable, TimeoutError):
            return False
        except Exception as reason:  # noqa: BLE001 (a bug of ours: who waits must not wait for ever)
            logger.error("key lookup failed", exc_info=reason)
            return False
        return True

    def _remember(self, digest: bytes) -> None:
        self._unknown[digest] = None
        if len(self._unknown) > MOST_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]


def _cannot_tell() -> GatewayFault:
    return GatewayFault("ledger_unavailable", "The API key cannot be checked at the moment. Try again later.")
