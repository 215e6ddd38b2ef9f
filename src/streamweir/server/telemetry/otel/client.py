"""Sends one message to a collector: OTLP over HTTP, with the gateway's own client.

Everything is bounded: the time of an attempt, and the answer. What the collector says decides whether the same message
may be sent again; how often, and what is dropped, is decided in `server.telemetry.otel.queue`. Neither a message nor a
header is logged.
"""

import asyncio
import zlib
from urllib.parse import urlsplit

from msgspec import Struct

from streamweir.config.telemetry import Telemetry
from streamweir.core.errors import StreamweirError
from streamweir.providers.base import UpstreamRequest
from streamweir.providers.failure import retry_after_s
from streamweir.server.telemetry.otel.protobuf import Malformed, fields
from streamweir.upstream.base import Endpoint
from streamweir.upstream.fetch import read_whole
from streamweir.upstream.http1 import Http1Upstream

_RETRYABLE = frozenset({429, 502, 503, 504})
_LARGE = 16 * 1024
"""A message of this size is compressed in a thread."""
_PARTIAL_SUCCESS, _REJECTED = 1, 1
"""Fields of an answer, and of its partial success: the same for each signal."""
_GZIP = 16 + zlib.MAX_WBITS


class Outcome(Struct, frozen=True, kw_only=True):
    """Of one attempt."""

    error: str = ""
    """Empty: the collector has taken the message."""
    may_retry: bool = False
    retry_after_s: float | None = None
    rejected: int = 0
    """Spans or points that it did not take of a message that it took."""


class OtlpClient:
    def __init__(self, settings: Telemetry) -> None:
        assert settings.endpoint is not None  # noqa: S101 (else nothing is exported)
        self._settings = settings
        self._address = urlsplit(settings.endpoint)
        self._headers: tuple[tuple[str, str], ...] = (("content-type", "application/x-protobuf"),)
        if settings.compression == "gzip":
            self._headers += (("content-encoding", "gzip"),)
        self._upstream: Http1Upstream | None = None

    async def send(self, path: str, body: bytes) -> Outcome:
        """`path`: of the signal, such as `/v1/traces`."""
        try:
            upstream = self._upstream = self._upstream or self._open()
        except ValueError as reason:  # an error that is found only when the client is created, such as a wrong CA file
            return Outcome(error=str(reason))
        if self._settings.compression == "gzip":
            body = _gzip(body) if len(body) < _LARGE else await asyncio.to_thread(_gzip, body)
        request = UpstreamRequest(path=self._address.path.rstrip("/") + path, headers=self._headers, body=body)
        try:
            answer = await read_whole(upstream, request, timeout_s=self._settings.timeout_s)
        except StreamweirError as error:
            return Outcome(error=error.code, may_retry=True)
        if answer.is_success:
            return Outcome(rejected=_rejected(answer.body))
        return Outcome(
            error=f"answered {answer.status}",
            may_retry=answer.status in _RETRYABLE,
            retry_after_s=retry_after_s(answer.headers),
        )

    async def close(self) -> None:
        if self._upstream is not None:
            await self._upstream.close()

    def _open(self) -> Http1Upstream:
        settings, address = self._settings, self._address
        endpoint = Endpoint(
            base_url=f"{address.scheme}://{address.netloc}",
            headers=tuple(settings.headers.items()),
            proxy=settings.proxy,
            ca_file=settings.ca_file,
            max_connections=2,
            connect_s=settings.timeout_s,
        )
        return Http1Upstream(endpoint)


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=_GZIP)
    return packer.compress(body) + packer.flush()


def _rejected(body: bytes) -> int:
    """`partial_success` of an answer: what the collector did not take. An answer that cannot be read has none."""
    try:
        for number, partial in fields(body):
            if number == _PARTIAL_SUCCESS and isinstance(partial, bytes):
                for each, count in fields(partial):
                    if each == _REJECTED and isinstance(count, int):
                        return count
    except Malformed:
        return 0
    return 0
