"""What the handlers of the API work with: the store, and the parts of the gateway that they may use.

Errors of the store become errors for callers here, in one place; an unavailable database is 503. A change of keys or
workspaces takes effect in this process at once, in all others within a second.

Wrong secrets are counted by the address that they came from (docs/spec/security.md S9). After five in a minute, further
wrong ones from there get an error until the first of them is a minute old. The right secret is never counted and never
delayed: secrets are random and too long to be guessed, and a caller that shares an address with the operator (a proxy,
an office) must not be able to lock the operator out. The counts are bounded; the time is an argument; secrets are never
stored here.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import Connection

from streamweir.config.source import ConfigSource
from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.control.api.live_feed import LiveFeed
from streamweir.server.control.api.login_counts import LoginCounts
from streamweir.server.control.identity import Identity
from streamweir.server.control.passwords import PasswordHashing
from streamweir.server.request.playground import Playground
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.db.errors import Conflict, Invalid, NotFound, OperationRefused

MAX_TRIES = 5
WINDOW_MS = 60_000
_MAX_PEERS = 10_000


class FailedLogins:
    def __init__(self) -> None:
        self._failed: OrderedDict[str, list[int]] = OrderedDict()

    def failed(self, peer: str, at_ms: int) -> CallerError | None:
        """Counts one. Returns an error if there were too many before; then it is not counted."""
        recent = [each for each in self._failed.get(peer, ()) if 0 <= at_ms - each < WINDOW_MS]
        if len(recent) >= MAX_TRIES:
            wait_s = (recent[0] + WINDOW_MS - at_ms) / 1000
            return CallerError(
                "rate_limit_exceeded",
                "Too many wrong secrets from this address. Try again later.",
                retry_after_s=wait_s,
            )
        self._failed[peer] = [*recent, at_ms]
        self._failed.move_to_end(peer)
        if len(self._failed) > _MAX_PEERS:
            self._failed.popitem(last=False)
        return None


T = TypeVar("T")

FLUSH_S = 1.0
"""Timeout for writing this process's journal to the database, so that a request right after a change sees it."""
READING_S = 5.0
CHECKING_S = 60.0
"""Timeout for operations that read a whole log."""

_CODES: dict[type[OperationRefused], str] = {Invalid: "invalid_value", NotFound: "not_found", Conflict: "conflict"}
_PARAMS = {
    "amount": "amount_usd",
    "amount_nano": "amount_usd",
    "budget_nano": "budget_usd",
    "grace_ms": "grace_s",
    "person_id": "person",
}
"""Members whose names in the API differ from those in the store."""


async def _no_refresh() -> None:
    """Without maintenance there are no changes to load."""


class Context(Struct, frozen=True, kw_only=True):
    store: Store
    accounting: Accounting
    runtime: Callable[[], RuntimeConfig]
    is_secure: bool
    """Callers connect with TLS."""
    playground: Playground
    feed: LiveFeed
    refresh: Callable[[], Awaitable[None]] = _no_refresh
    """Loads changes from the store now, instead of within a second: `Maintenance.load_changes`."""
    find_key: Callable[[str], Awaitable[None]] | None = None
    """Loads the key of a secret that is not known yet, if there is one: `KeyLookup.find`."""
    source: ConfigSource | None = None
    """Of the configuration. None: the gateway was started without a file."""
    started_ms: int = msgspec.field(default_factory=now_ms)
    clock_ms: Callable[[], int] = now_ms
    identity: Identity = msgspec.field(default_factory=Identity)
    passwords: PasswordHashing = msgspec.field(default_factory=PasswordHashing)
    tested: set[str] = msgspec.field(default_factory=set)
    """Providers that are being tested."""
    failed_logins: FailedLogins = msgspec.field(default_factory=FailedLogins)
    logins: LoginCounts = msgspec.field(default_factory=LoginCounts)

    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = READING_S) -> T:
        with store_errors_mapped():
            return await self.store.read(work, timeout_s=timeout_s)

    async def write(self, work: Callable[[Connection], T]) -> T:
        with store_errors_mapped():
            return await self.store.write(work)

    async def change(self, work: Callable[[Connection], T]) -> T:
        """As `write`, for data that every process keeps in memory."""
        changed = await self.write(work)
        with suppress(StoreUnavailable):  # the change is made; it is loaded when the database is available again
            await self.refresh()
        return changed

    async def load_key(self, secret: str) -> None:
        """Loads a key that was created elsewhere a moment ago. Raises `GatewayFault` if the database is unavailable."""
        if self.find_key is not None:
            await self.find_key(secret)

    async def flush_accounting(self) -> bool:
        """Writes this process's entries to the database. False: that takes too long, and what is read there is a
        little out of date."""
        return self.accounting.writer is None or await self.accounting.writer.flush(FLUSH_S)


@contextmanager
def store_errors_mapped() -> Iterator[None]:
    try:
        yield
    except (OperationRefused, StoreUnavailable) as reason:
        raise error_of(reason) from None


def error_of(reason: OperationRefused | StoreUnavailable) -> StreamweirError:
    if isinstance(reason, StoreUnavailable):
        return GatewayFault("ledger_unavailable", "The database does not answer at the moment. Try again later.")
    message = f"{reason.message[:1].upper()}{reason.message[1:]}."
    param = _PARAMS.get(reason.param, reason.param) if reason.param is not None else None
    return CallerError(_CODES[type(reason)], message, param=param)
