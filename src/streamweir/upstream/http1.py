"""An upstream on the network: HTTP/1.1 over TCP, with TLS and through a proxy if the endpoint is configured so.

`open` takes a slot of the pool, opens a connection if none is idle, and sends the request; the answer goes directly
from the connection to the receiver. There is one case in which a call gets a second connection: if an idle connection
turns out to have been closed before it was used, it is replaced by a new one, once, and the request is sent again
(docs/spec/failures.md U38). Requests and answers are not interpreted here.
"""

import asyncio
import time

from msgspec import structs

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.address import read_base_url, read_proxy
from streamweir.upstream.base import Endpoint, Receiver
from streamweir.upstream.connection import Connection
from streamweir.upstream.dial import Dialler
from streamweir.upstream.head import RequestHead
from streamweir.upstream.pool import Pool

LINGER_S = 1.0
"""How long to wait for the end of a body that is not needed any more."""


class Http1Upstream:
    def __init__(self, endpoint: Endpoint, *, linger_s: float = LINGER_S) -> None:
        """Raises `ValueError` for an endpoint that cannot be used."""
        address = read_base_url(endpoint.base_url)
        proxy = read_proxy(endpoint.proxy) if endpoint.proxy is not None else None
        self._head = RequestHead(address, endpoint.headers, None if address.is_tls else proxy)
        self._pool: Pool[Connection] = Pool(
            max_connections=endpoint.max_connections, wait_s=endpoint.wait_s, keep_s=endpoint.keep_s
        )
        self._dialler = Dialler(
            self._pool,
            address,
            connect_s=endpoint.connect_s,
            proxy=proxy,
            ca_file=endpoint.ca_file,
            unknown_host=endpoint.unknown_host,
        )
        self._linger_s = linger_s

    @property
    def in_use(self) -> int:
        """Connections with a call, and those that are being opened for one."""
        return self._pool.in_use

    @property
    def idle(self) -> int:
        return self._pool.idle

    def close_idle(self) -> None:
        """Closes the idle connections."""
        self._pool.drop_idle()

    @property
    def waiting(self) -> int:
        """Calls that wait for a connection."""
        return self._pool.waiting

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> "Http1Call":
        head = self._head.encode(request)
        connection = await self._pool.take()
        if connection is None:
            try:
                connection = await self._dialler.dial()
            except BaseException:  # also when it is cancelled: the place in the pool is free again
                self._pool.free()
                raise
        call = Http1Call(self._pool, self._dialler, self._linger_s, head, request.body)
        call.send(connection, receiver)
        return call

    async def close(self) -> None:
        self._pool.close()


class Http1Call:
    __slots__ = (
        "_body",
        "_connection",
        "_dialler",
        "_head",
        "_is_paused",
        "_is_reused",
        "_linger_s",
        "_pool",
        "_redial",
        "_resends",
        "_sent_at",
        "_trace",
    )

    is_refused = False

    def __init__(self, pool: Pool[Connection], dialler: Dialler, linger_s: float, head: bytes, body: bytes) -> None:
        self._pool = pool
        self._dialler = dialler
        self._linger_s = linger_s
        self._head = head
        self._body = body
        self._connection: Connection | None = None
        self._redial: asyncio.Task[None] | None = None
        self._is_paused = False
        self._resends = 0
        self._trace: CallTrace | None = None
        self._is_reused = False
        self._sent_at = 0.0

    @property
    def resends(self) -> int:
        return self._resends

    @property
    def trace(self) -> CallTrace | None:
        opened = self._trace
        if opened is None:
            return None
        if self._is_reused:
            return CallTrace(address=opened.address, via_proxy=opened.via_proxy, is_reused=True, sent_at=self._sent_at)
        return structs.replace(opened, sent_at=self._sent_at)

    def pause(self) -> None:
        self._is_paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        self._is_paused = False
        if self._connection is not None:
            self._connection.resume()

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.drop()
        elif self._redial is not None:
            self._redial.cancel()
            self._redial = None
            self._pool.free()

    def release(self) -> None:
        if self._connection is not None:
            self._connection.release(self._linger_s)
        else:
            self.abort()

    def hand_over(self, receiver: Receiver) -> None:
        """The rest of the answer goes to this receiver: from its body on, if called while the head is received."""
        if self._connection is not None:
            self._connection.hand_over(receiver)

    def send(self, connection: Connection, receiver: Receiver) -> None:
        """With a slot of the pool, which the connection owns from now on."""
        self._connection = connection
        self._trace, self._is_reused, self._sent_at = connection.trace, connection.is_reused, time.monotonic()
        connection.send(self, receiver, self._head, self._body)
        if self._is_paused:
            connection.pause()

    def response_started(self) -> None:
        self._head = self._body = b""

    def detached(self) -> None:
        self._connection = None

    def send_again(self, receiver: Receiver) -> None:
        self._resends = 1
        self._redial = asyncio.get_running_loop().create_task(self._resend(receiver))

    async def _resend(self, receiver: Receiver) -> None:
        try:
            connection = await self._dialler.dial()
        except StreamweirError as error:
            self._fail(receiver, error)
        except BaseException:
            # Cancelled by `abort`, which handles the rest, or by the end of the loop; or a bug.
            self._fail(receiver, GatewayFault("internal_error", "The gateway failed to reach the provider."))
            raise
        else:
            self._redial = None
            self.send(connection, receiver)

    def _fail(self, receiver: Receiver, error: StreamweirError) -> None:
        if self._redial is not None:
            self._redial = None
            self._pool.free()
            receiver.call_failed(error)
