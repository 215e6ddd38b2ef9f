"""Reads the clouds' lists of models, in the background: at the start, after a reload, and then once an hour.

    provider's address, settings and key -> calls of `providers.model_listing` -> names -> `ModelLists`

No request waits for a list, and none fails with it: until it is read its models are not listed, and if it cannot be
read again the last one stays. Several providers are asked at a time, so that one that hangs does not delay the others;
each on connections of its own, which are closed afterwards. Calls, pages, answers and times are bounded, because a
server may send anything.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct, structs

from streamweir.background import BackgroundTasks
from streamweir.config.address import base_url_of
from streamweir.config.error import ConfigError, member
from streamweir.core.errors import StreamweirError, UpstreamError, hide_secrets
from streamweir.providers.base import UpstreamRequest
from streamweir.providers.model_listing import Listing, ListPage, names_in
from streamweir.server.request.lookup.model_lists import listing_for
from streamweir.server.request.runtime.config import ProviderRuntime, RuntimeConfig, open_http
from streamweir.server.request.runtime.target_settings import server_of
from streamweir.server.telemetry.log import logger
from streamweir.upstream.base import Upstream
from streamweir.upstream.fetch import read_whole
from streamweir.wire.jsonio import FAST_BYTES, InvalidJson

INTERVAL_S = 3600.0
RETRY_S = 60.0
"""After the first failure in a row. Each further pause is twice as long, up to the interval."""
PROVIDER_S = 60.0
"""For the whole list of one provider."""
CALL_S = 20.0
MAX_AT_ONCE = 8
"""Providers that are asked at the same time."""
MAX_PAGES = 20
"""Of one call, with all that follow it."""
MAX_COLLECTED = 5000
"""Names in the answers, repeated ones included: with more of them no further call is made."""
MAX_BYTES = 2 * 1024 * 1024
"""Of one answer."""
_LEFT_OUT = frozenset({400, 403, 404})
"""Statuses of a call that is left out: this account, or this region, does not have that list."""


def refresh_models(runtime: Callable[[], RuntimeConfig], background: BackgroundTasks) -> Callable[[], Awaitable[None]]:
    """Starts the task. Returns what ends it."""
    refresh = ModelRefresh(runtime)
    return background.start("model lists", refresh.run).stop


class _State(Struct):
    """Of one provider."""

    server: list[object]
    due_at: float
    failures: int = 0


class ModelRefresh:
    def __init__(self, runtime: Callable[[], RuntimeConfig], clock: Callable[[], float] = time.monotonic) -> None:
        self._runtime = runtime
        self._clock = clock
        self._states: dict[str, _State] = {}

    async def run(self) -> None:
        while True:
            runtime = self._runtime()
            wait_s = await self.refresh_due(runtime)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await runtime.reloaded.wait()

    async def refresh_due(self, runtime: RuntimeConfig) -> float | None:
        """Reads the lists that are due. Returns the time until the next is; None: there is none."""
        listed = [each for each in runtime.providers.values() if listing_for(each.config) is not None]
        names = {each.name for each in listed}
        runtime.model_lists.keep(names)
        self._states = {name: state for name, state in self._states.items() if name in names}
        free = asyncio.Semaphore(MAX_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for provider in listed:
                state, server = self._states.get(provider.name), server_of(provider.config)
                if state is None or state.server != server:
                    state = self._states[provider.name] = _State(server, 0.0)
                if self._clock() >= state.due_at:
                    tasks.create_task(self._refresh(runtime, provider, state, free))
        due = [state.due_at for state in self._states.values()]
        return max(min(due) - self._clock(), 0.0) if due else None

    async def _refresh(
        self, runtime: RuntimeConfig, provider: ProviderRuntime, state: _State, free: asyncio.Semaphore
    ) -> None:
        listing = listing_for(provider.config)
        assert listing is not None  # noqa: S101 (only such providers are asked)
        try:
            async with free:
                names = await read_names(provider, listing)
        except StreamweirError as error:
            hide_secrets(error, runtime.secrets[provider.name])
            state.failures += 1
            state.due_at = self._clock() + min(RETRY_S * 2.0 ** min(state.failures - 1, 16), INTERVAL_S)
            if state.failures == 1:
                logger.warning(
                    "models not listed: set list_models = false, or models, if this provider cannot list them",
                    provider=provider.name,
                    error=error.code,
                    message=error.message,
                )
            return
        if state.failures or not runtime.model_lists.names_of(provider.config):
            logger.info("models listed", provider=provider.name, models=len(names))
        state.failures, state.due_at = 0, self._clock() + INTERVAL_S
        runtime.model_lists.put(provider.config, names)


async def read_names(provider: ProviderRuntime, listing: Listing) -> tuple[str, ...]:
    """The models that the provider lists. Raises `StreamweirError`."""
    address = base_url_of(provider.config)
    assert address is not None  # noqa: S101 (see `listing_for`)
    place = structs.replace(provider.config, base_url=listing.origin(address), max_connections=1)
    try:
        upstream = open_http(place, provider.timeouts, member("providers", provider.name))
    except ConfigError as reason:
        raise UpstreamError("upstream_connect_failed", str(reason)) from None
    try:
        async with asyncio.timeout(PROVIDER_S):
            return await _read_all(upstream, provider, listing)
    except TimeoutError:
        raise UpstreamError("upstream_timeout", "The provider took too long to list its models.") from None
    finally:
        await upstream.close()


async def _read_all(upstream: Upstream, provider: ProviderRuntime, listing: Listing) -> tuple[str, ...]:
    pages: list[ListPage] = []
    refusal: StreamweirError | None = None
    for first in listing.paths:
        path: str | None = first
        for _ in range(MAX_PAGES):
            if path is None or sum(len(each.names) for each in pages) > MAX_COLLECTED:
                break
            page = await _read_page(upstream, provider, listing, path)
            if isinstance(page, StreamweirError):
                refusal = page
                break
            pages.append(page)
            path = page.next_path
    if not pages and refusal is not None:
        raise refusal
    return names_in(pages)


async def _read_page(
    upstream: Upstream, provider: ProviderRuntime, listing: Listing, path: str
) -> ListPage | StreamweirError:
    """Or why the call is left out. Raises `StreamweirError` for any other failure."""
    name, prefix = listing.key_header
    key = next(filter(None, provider.secrets.values()), "")
    headers = (*(((name, prefix + key),) if key else ()), ("accept", "application/json"))
    request = UpstreamRequest(method="GET", path=path, headers=headers, body=b"")
    answer = await read_whole(upstream, request, timeout_s=CALL_S, max_bytes=MAX_BYTES)
    if not answer.is_success:
        body = answer.body if len(answer.body) <= FAST_BYTES else b""  # it is read in one turn of the event loop
        error = provider.first.provider.read_error(answer.status, answer.headers, body)
        if answer.status == 404:  # to the reader of errors, a model is missing
            error = UpstreamError("upstream_bad_response", "The provider has no list of models at this address (404).")
        if answer.status in _LEFT_OUT:
            return error
        raise error
    try:
        return listing.read(path, answer.body)
    except InvalidJson:
        raise UpstreamError("upstream_bad_response", "The provider's list of models cannot be read.") from None
