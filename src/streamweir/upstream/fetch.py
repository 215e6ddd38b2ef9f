"""One small answer of a server as a whole: for token services, lists and counts, never for an answer of a model.

`read_whole` makes one call to an upstream and collects its answer; `fetch` does that for a URL, with its own
connection. Everything is bounded: the time of the whole by `timeout_s`, the answer by `max_bytes`. A redirect is an
answer like any other: it is returned, never followed. Neither the request nor the answer is logged or quoted in an
error: both may contain secrets.
"""

import asyncio
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from msgspec import Struct

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.base import Endpoint, Upstream
from streamweir.upstream.head import Fields
from streamweir.upstream.http1 import Http1Upstream

MAX_BYTES = 64 * 1024


class Fetched(Struct, frozen=True, kw_only=True):
    status: int
    headers: Mapping[str, str]
    """Names are lower-case."""
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def skew_s(self, local_s: float) -> float | None:
        """How far the server's clock was ahead of ours, which was at `local_s`. None: it does not say."""
        try:
            at = parsedate_to_datetime(self.headers["date"]).timestamp() + 0.5  # it is in whole seconds
        except (KeyError, ValueError, OverflowError):
            return None
        return at - local_s

    def __repr__(self) -> str:
        return f"Fetched({self.status})"


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Fields = (),
    body: bytes = b"",
    timeout_s: float,
    max_bytes: int = MAX_BYTES,
    proxy: str | None = None,
    ca_file: str | None = None,
) -> Fetched:
    """Raises `UpstreamError`, also for a URL that cannot be used, or `GatewayFault` if this machine has no resources
    left."""
    try:
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        origin = f"{parts.scheme}://{parts.netloc}"
        endpoint = Endpoint(base_url=origin, proxy=proxy, ca_file=ca_file, max_connections=1, connect_s=timeout_s)
        upstream = Http1Upstream(endpoint)
    except ValueError as reason:
        raise UpstreamError("upstream_connect_failed", f"An address cannot be used: {reason}.") from None
    request = UpstreamRequest(path=path, headers=headers, body=body, method=method)
    try:
        return await read_whole(upstream, request, timeout_s=timeout_s, max_bytes=max_bytes)
    finally:
        await upstream.close()


async def read_whole(
    upstream: Upstream, request: UpstreamRequest, *, timeout_s: float, max_bytes: int = MAX_BYTES
) -> Fetched:
    """Raises `StreamweirError`. Whatever happens, no call is left behind."""
    answer = _Answer(max_bytes)
    try:
        async with asyncio.timeout(timeout_s):
            call = await upstream.open(request, answer)
            try:
                await answer.whole
            except BaseException:  # also when it is cancelled, or too late
                call.abort()
                raise
    except TimeoutError:
        raise UpstreamError("upstream_timeout", "The server did not answer in time.") from None
    call.release()
    return Fetched(status=answer.status, headers=answer.headers, body=bytes(answer.body))


class _Answer:
    """See `upstream.base.Receiver`."""

    def __init__(self, max_bytes: int) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.body = bytearray()
        self.whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._max_bytes = max_bytes

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        self.status, self.headers = status, headers

    def body_received(self, data: bytes, /) -> None:
        if self.whole.done():  # nobody waits any more, and the call is aborted in this turn
            return
        if len(self.body) + len(data) <= self._max_bytes:
            self.body += data
        else:
            self.whole.set_exception(UpstreamError("upstream_bad_response", "The server's answer is too large."))

    def body_ended(self) -> None:
        if not self.whole.done():
            self.whole.set_result(None)

    def call_failed(self, error: StreamweirError, /) -> None:
        if not self.whole.done():
            self.whole.set_exception(error)
