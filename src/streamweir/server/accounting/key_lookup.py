"""One query of the database for a key that this process does not know yet.

A process learns of a key that was made elsewhere (on another node, by a command) with its next refresh, within a
second. Until then the key would be refused as invalid. So an unknown secret triggers one refresh. Its cost is bounded,
whatever callers without a key send:

- Only a secret of our own format, with its checksum, is looked up, and each one once (the last few thousand are
  remembered).
- All waiting callers share one refresh, and there are at most ten refreshes a second. It is the refresh of
  `server.accounting.maintenance`: it loads all changes, and does not query the secret.
- A bounded number of callers wait. Any other caller, or one whose refresh fails, gets a 503.
"""

import asyncio
from collections.abc import Awaitable, Callable

from streamweir.core.errors import GatewayFault
from streamweir.policy.access import digest_of
from streamweir.policy.secret import is_well_formed
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.telemetry.log import log_fault
from streamweir.store.db.base import StoreUnavailable

MIN_INTERVAL_S = 0.1
TIMEOUT_S = 2.0
"""For one refresh: as long as a request waits for accounting."""
MAX_WAITING = 256
MAX_UNKNOWN = 4096


class KeyLookup:
    def __init__(
        self,
        directory: KeyDirectory,
        refresh: Callable[[], Awaitable[None]],
        *,
        fault: Callable[[BaseException, str], None] = log_fault,
        min_interval_s: float = MIN_INTERVAL_S,
        timeout_s: float = TIMEOUT_S,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """`refresh` loads changes of the database into the directory. It raises `StoreUnavailable`. `fault` is
        called for a bug of it, with what was done."""
        self._directory = directory
        self._refresh = refresh
        self._fault = fault
        self._min_interval_s = min_interval_s
        self._timeout_s = timeout_s
        self._max_waiting = max_waiting
        self._waiting: dict[asyncio.Future[None], bytes] = {}
        self._refreshing = 0
        """How many callers wait for the refresh that is running."""
        self._unknown: dict[bytes, None] = {}
        """Looked up and not found, the oldest first."""
        self._task: asyncio.Task[None] | None = None
        self.refreshes = 0

    def may_find(self, secret: str) -> bool:
        """Whether a refresh could find it."""
        if not is_well_formed(secret):
            return False
        digest = digest_of(secret)
        return digest not in self._unknown and self._directory.find_digest(digest) is None

    async def find(self, secret: str) -> None:
        """Afterwards the directory has the key, if it exists. Raises `GatewayFault` if that cannot be determined."""
        if not self.may_find(secret):
            return
        if len(self._waiting) + self._refreshing >= self._max_waiting:
            raise _cannot_check()
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
        """Runs while callers wait. A caller that comes during a refresh waits for the next one: the running one may
        have read the database before the key was there."""
        try:
            while self._waiting:
                served, self._waiting = self._waiting, {}
                self._refreshing = len(served)
                is_known = await self._refresh_once()
                for found, digest in served.items():
                    if is_known and self._directory.find_digest(digest) is None:
                        self._remember(digest)
                    if found.done():  # the waiting caller has disconnected
                        continue
                    if is_known:
                        found.set_result(None)
                    else:
                        found.set_exception(_cannot_check())
                self._refreshing = 0
                await asyncio.sleep(self._min_interval_s)
        finally:
            self._task, self._refreshing = None, 0
            for found in self._waiting:
                found.cancel()

    async def _refresh_once(self) -> bool:
        """Whether the directory is up to date with the database."""
        self.refreshes += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._refresh()
        except (StoreUnavailable, TimeoutError):
            return False
        except Exception as reason:  # noqa: BLE001 (a bug: callers must not wait for ever)
            self._fault(reason, "key look-up")
            return False
        return True

    def _remember(self, digest: bytes) -> None:
        self._unknown[digest] = None
        if len(self._unknown) > MAX_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]


def _cannot_check() -> GatewayFault:
    return GatewayFault("ledger_unavailable", "The API key cannot be checked at the moment. Try again later.")
