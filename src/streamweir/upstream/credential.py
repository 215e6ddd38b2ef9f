"""A credential that expires and is fetched again: the token of a cloud, or temporary keys.

Requests ask `get`. While the value is valid they get it at once, whatever the token service does: from 80 % of its life
on the next request starts a refresh in the background and uses the old value, and a refresh that fails or hangs is
repeated after a pause that doubles. Without a valid value requests wait for one refresh that they share; it is bounded,
and if it fails, so do they, with an error that names the token service. Within the pause after a failure they fail at
once. Nothing happens while nobody asks: there are no timers.

The value is never logged and never part of an error. Nothing is logged here: `on_failure` is called for every refresh
that failed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from msgspec import Struct, structs

from streamweir.core.errors import ErrorReport, GatewayFault, StreamweirError, UpstreamError

T = TypeVar("T")

TIMEOUT_S = 10.0
"""For one refresh, with everything that it does."""
_REFRESH_SHARE = 0.8
_MARGIN_SHARE = 0.05
_MAX_MARGIN_S = 5.0
"""So long before its end a value is not used any more: the request must still arrive."""
_FIRST_PAUSE_S = 1.0
_MAX_PAUSE_S = 60.0
_MAX_PAUSE_WITHOUT_S = 5.0
"""While requests fail because the token service cannot be reached."""
_RENEWED_S = 5.0
"""A value that is newer was not yet used by a request that is refused now: the request may try it."""
_RENEWAL_PAUSE_S = 30.0
"""A refused value that is newer is not replaced: the provider would refuse the next one too."""
_REASONS = {
    "upstream_dns_failed": "its name could not be looked up",
    "upstream_tls_failed": "no trusted TLS connection",
    "upstream_timeout": "it did not answer in time",
    "upstream_bad_response": "its answer cannot be used",
    "upstream_connect_failed": "it could not be reached",
    "upstream_rate_limited": "it limits requests",
    "upstream_overloaded": "it is overloaded, or not ready yet",
}


class Lease(Struct, Generic[T], frozen=True, kw_only=True):
    """What a refresh brings."""

    value: T
    lives_s: float | None
    """From the refresh on. None: it does not expire."""

    def __repr__(self) -> str:
        return f"Lease({self.lives_s})"


class RefreshFailure(Struct, frozen=True, kw_only=True):
    """Of one refresh, for the log."""

    service: str
    error: StreamweirError
    is_valid: bool
    """There is still a valid value: requests do not notice."""
    pause_s: float
    """Until the next refresh, at the earliest."""


class RefreshedCredential(Generic[T]):
    def __init__(
        self,
        service: str,
        fetch: Callable[[], Awaitable[Lease[T]]],
        *,
        on_failure: Callable[[RefreshFailure], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`service` begins a sentence: "Google's token service". `fetch` raises `StreamweirError`: `refused_by` if the
        service refuses, what `upstream.fetch` raises if it cannot be reached."""
        self._service = service
        self._fetch = fetch
        self._on_failure = on_failure
        self._clock = clock
        self._timeout_s = timeout_s
        self._lease: Lease[T] | None = None
        self._fetched_at = 0.0
        self._refresh_at = 0.0
        self._valid_until = 0.0
        self._failure: StreamweirError | None = None
        """Of the last refresh. None: it succeeded, or there was none."""
        self._failures = 0
        self._paused_until = 0.0
        self._refresh: asyncio.Task[None] | None = None
        self._waiters = 0

    async def get(self) -> T:
        """Raises `StreamweirError`."""
        now, lease = self._clock(), self._lease
        if lease is not None and (lease.lives_s is None or now < self._valid_until):
            if lease.lives_s is not None and now >= self._refresh_at:
                self._start(now)
            return lease.value
        if not self._start(now):
            raise self._error()
        before = self._lease
        await self._refreshed()
        lease = self._lease
        if lease is None or lease is before:
            raise self._error()
        return lease.value

    async def refused(self) -> bool:
        """The provider has refused the value. True if there is another now. Other requests use the refused one until
        then: the refusal of one request may be about something else."""
        now, before = self._clock(), self._lease
        if before is None:
            return False
        age_s = now - self._fetched_at
        if self._refresh is None and age_s < _RENEWAL_PAUSE_S:
            return age_s < _RENEWED_S
        if not self._start(now):
            return False
        await self._refreshed()
        return self._lease is not None and self._lease.value != before.value

    async def close(self) -> None:
        """Ends a refresh that nobody waits for. Requests that began earlier may still ask."""
        refresh = self._refresh
        if refresh is not None and not self._waiters:
            refresh.cancel()
            await asyncio.wait({refresh})

    def _start(self, now: float) -> bool:
        """True: a refresh runs."""
        if self._refresh is None:
            if now < self._paused_until:
                return False
            self._refresh = asyncio.get_running_loop().create_task(self._run())
            self._refresh.add_done_callback(self._ended)
        return True

    async def _refreshed(self) -> None:
        """Waits for the running refresh, which ends within its timeout."""
        assert self._refresh is not None  # noqa: S101 (it was just started)
        self._waiters += 1
        try:
            # Of many requests one may be cancelled: the refresh goes on for the others.
            await asyncio.wait({self._refresh})
        finally:
            self._waiters -= 1

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                lease = await self._fetch()
        except TimeoutError:
            self._fail(UpstreamError("upstream_timeout", "The token service did not answer in time."))
        except StreamweirError as error:
            self._fail(error)
        else:
            if lease.lives_s is not None and lease.lives_s <= 0:
                self._fail(refused_by(f"{self._service} gave a credential that has expired. Check the clock."))
            else:
                self._take(lease)

    def _ended(self, refresh: asyncio.Task[None]) -> None:
        self._refresh = None
        if not refresh.cancelled() and (reason := refresh.exception()) is not None:  # a bug
            self._fail(UpstreamError("upstream_bad_response", "The credential could not be read."))
            context = {"message": "a credential could not be refreshed", "exception": reason, "task": refresh}
            asyncio.get_running_loop().call_exception_handler(context)

    def _take(self, lease: Lease[T]) -> None:
        now = self._clock()
        self._lease, self._fetched_at = lease, now
        self._failure, self._failures, self._paused_until = None, 0, 0.0
        if lease.lives_s is not None:
            lives_s = lease.lives_s
            self._refresh_at = now + _REFRESH_SHARE * lives_s
            self._valid_until = now + lives_s - min(_MARGIN_SHARE * lives_s, _MAX_MARGIN_S)

    def _fail(self, error: StreamweirError) -> None:
        now, lease = self._clock(), self._lease
        is_valid = lease is not None and (lease.lives_s is None or now < self._valid_until)
        is_refused = error.code == "upstream_auth_failed"
        pause_s = min(
            _FIRST_PAUSE_S * 2.0 ** min(self._failures, 16),
            _MAX_PAUSE_S if is_valid or is_refused else _MAX_PAUSE_WITHOUT_S,
        )
        self._failures += 1
        self._failure, self._paused_until = error, now + pause_s
        self._on_failure(RefreshFailure(service=self._service, error=error, is_valid=is_valid, pause_s=pause_s))

    def _error(self) -> StreamweirError:
        """A new one for each request: what is known of the attempt is added to it."""
        failure = self._failure
        if failure is None:  # the refresh was cancelled
            return UpstreamError("upstream_connect_failed", f"{self._service} gave no credential.")
        error: StreamweirError
        if isinstance(failure, GatewayFault):
            error = GatewayFault(failure.code, failure.message, retry_after_s=failure.retry_after_s)
        elif failure.code == "upstream_auth_failed":
            error = UpstreamError(failure.code, failure.message)
            error.is_of_account = failure.is_of_account
        else:
            is_late = failure.code == "upstream_timeout"
            reason = _REASONS.get(failure.code, "it failed")
            error = UpstreamError(
                "upstream_timeout" if is_late else "upstream_connect_failed",
                f"{self._service} gave no credential: {reason}.",
            )
        # For the record of the attempt: the caller may get the answer of another target.
        error.report = structs.replace(failure.report or ErrorReport(), advice=error.message)
        error.trace = failure.trace
        return error


def refused_by(message: str, detail: str = "") -> UpstreamError:
    """The token service does not accept what the operator has configured, or that cannot be used. `message` names the
    service, its reason and what to do; `detail` is for the operator's log alone. Neither contains a secret."""
    error = UpstreamError("upstream_auth_failed", message)
    error.is_of_account = True
    if detail:
        error.report = ErrorReport(text=detail)
    return error
