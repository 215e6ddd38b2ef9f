"""The interface of an upstream: anything that answers like a provider.

An `Upstream` answers requests: a host on the network (`http1`), the embedded model (`local`), or a script inside this
process (`sim`). `open` is a coroutine; after that the receiver is called from the event loop, so that a chunk is
relayed from socket to socket without a task switch. The order of calls is fixed: one head, any number of bodies, then
exactly one of `body_ended` and `call_failed`, or `call_failed` alone. After `abort` or `release` nothing is called.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import StreamweirError
from streamweir.providers.base import UpstreamRequest


class Endpoint(Struct, frozen=True, kw_only=True):
    """The address and the limits of an upstream. Names of durations in seconds end with `_s`."""

    base_url: str
    headers: tuple[tuple[str, str], ...] = ()
    """Headers that the operator has configured for every request."""
    proxy: str | None = None
    """`http://[user:password@]host:port`; CONNECT is used for https, plain requests for http."""
    ca_file: str | None = None
    max_connections: int = 1000
    connect_s: float = 5.0
    """For name resolution, TCP, proxy and TLS together."""
    wait_s: float = 1.0
    """For a free connection, if all are in use; then the request fails with `overloaded`."""
    unknown_host: str = ""
    """What to do if its name cannot be looked up."""
    keep_s: float = 30.0
    """How long an unused connection is kept."""


class Receiver(Protocol):
    """Receives an answer. Never called from inside `Upstream.open` or a method of `Call`."""

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        """Names are lower-case. Not called for interim (1xx) heads."""
        ...

    def body_received(self, data: bytes, /) -> None: ...

    def body_ended(self) -> None:
        """The body is complete by the rules of HTTP."""
        ...

    def call_failed(self, error: StreamweirError, /) -> None:
        """A reset, an incomplete body, or a head that is not HTTP or too large."""
        ...


class Call(Protocol):
    """One running request."""

    @property
    def resends(self) -> int:
        """1 if a kept connection was already closed and the request was sent again on a new one."""
        ...

    @property
    def trace(self) -> CallTrace | None:
        """How it reached the upstream. None: without a connection."""
        ...

    @property
    def is_refused(self) -> bool:
        """The provider has refused it, its refusal is held back, and it was not sent again yet."""
        ...

    def pause(self) -> None:
        """Stop reading until `resume`. A second call has no effect."""
        ...

    def resume(self) -> None: ...

    def abort(self) -> None:
        """Close the connection now. May be called at any time, and repeatedly."""
        ...

    def release(self) -> None:
        """No more of the answer is needed: keep the connection if the body ends here, else close it."""
        ...


class Upstream(Protocol):
    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> Call:
        """Sends the request. Raises `UpstreamError` or `GatewayFault` if that fails; may be cancelled."""
        ...

    async def close(self) -> None:
        """Closes idle connections now, and each used one when its call is over.

        Requests that began earlier may still call `open`; their connections are not kept afterwards.
        """
        ...
