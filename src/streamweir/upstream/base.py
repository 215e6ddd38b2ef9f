"""The interface of an upstream: anything that answers like a provider.

An `Upstream` is a place that can be sent a request: a host on the network (`http1`), the embedded
model (`local`), a script inside this process (`sim`). `open` is a coroutine; from there on all is
callbacks on the event loop, so that a chunk goes from socket to socket in one step. The order of
calls is fixed: one head, any number of bodies, then exactly one of `body_ended` and
`call_failed`, or `call_failed` alone. After `abort` or `release` nothing is called any more.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from streamweir.core.errors import StreamweirError
from streamweir.providers.base import UpstreamRequest


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where an upstream is, and how much of it we may use. Seconds have `_s`."""

    base_url: str
    headers: tuple[tuple[str, str], ...] = ()
    """The operator's own, on every request."""
    proxy: str | None = None
    """`http://[user:password@]host:port`, asked to CONNECT for https and plainly for http."""
    ca_file: str | None = None
    most_connections: int = 1000
    connect_s: float = 5.0
    """Name, connection, proxy and TLS together."""
    wait_s: float = 1.0
    """For a free connection, where all are in use; then `overloaded`."""
    keep_s: float = 30.0
    """How long an unused connection is kept."""


class Receiver(Protocol):
    """Who is told of an answer. Never called from inside `Upstream.open` or a method of `Call`."""

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        """Names are lower-case. Interim (1xx) heads are not shown."""
        ...

    def body_received(self, data: bytes, /) -> None: ...

    def body_ended(self) -> None:
        """The body is whole by the rules of HTTP."""
        ...

    def call_failed(self, error: StreamweirError, /) -> None:
        """A reset, a body that ended before it was whole, a head that is not HTTP or too large."""
        ...


class Call(Protocol):
    """One request that is under way."""

    @property
    def resends(self) -> int:
        """1 where a kept connection turned out to be dead and the request was sent again on a new one."""
        ...

    def pause(self) -> None:
        """Read no more for now. Calling it twice is calling it once."""
        ...

    def resume(self) -> None: ...

    def abort(self) -> None:
        """Close the connection now. May be called at any time, and more than once."""
        ...

    def release(self) -> None:
        """The answer is complete for us: keep the connection if its body ends here and cleanly, else close it."""
        ...


class Upstream(Protocol):
    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> Call:
        """Sends the request. Raises `UpstreamError` or `GatewayFault` where that cannot be done; cancelling is safe."""
        ...

    async def close(self) -> None:
        """Closes what is idle now, and each connection in use as soon as its call is over.

        Requests that began before it may still `open`: nothing is kept for the next one.
        """
        ...
