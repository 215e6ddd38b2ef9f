"""How a connection is made: the name, TCP, the proxy and TLS, all within one deadline.

The addresses of a name are tried as RFC 8305 says, both families in turn and the next one after a
quarter of a second, so that an address that swallows packets does not use up the whole deadline.
TLS is always verified. Every way this can fail is put into our own terms in one place (`told`);
whatever fails or is cancelled leaves no socket behind.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, NamedTuple, cast

from streamweir.core.errors import GatewayFault, StreamweirError, UpstreamError
from streamweir.upstream.address import Address, Proxy
from streamweir.upstream.connection import Connection
from streamweir.upstream.pool import Pool
from streamweir.upstream.tunnel import open_tunnel

HEAD_START_S = 0.25
_MOST_ADDRESSES = 8
# Left to itself the kernel's buffer grows with the speed of the sender: 1.9 MB stood in it, unread, when a call was
# paused in a fast answer; with this at most 260 KB do (it is doubled), which is window enough for one far away.
_RECEIVE_BYTES = 128 * 1024
_KEEPALIVE_S = 60
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
_UNTRUSTED = "is not signed by a trusted authority"
_CERTIFICATE_FAULTS = {
    9: "is not valid yet",
    10: "has expired",
    18: _UNTRUSTED,
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    62: "is for another name",
    64: "is for another address",
}

Place = tuple[str, int]


class Line(NamedTuple):
    """TCP, and who will be told of what comes over it."""

    connection: Connection
    transport: asyncio.Transport


class Dialler:
    def __init__(
        self,
        pool: Pool[Connection],
        address: Address,
        *,
        connect_s: float,
        proxy: Proxy | None = None,
        ca_file: str | None = None,
    ) -> None:
        self._pool = pool
        self._address = address
        self._connect_s = connect_s
        self._proxy = proxy
        self._ca_file = ca_file
        self._context: asyncio.Future[ssl.SSLContext] | None = None
        self._lookup: asyncio.Task[list[Place]] | None = None
        self._lookers = 0

    async def dial(self) -> Connection:
        """Raises `UpstreamError`, or `GatewayFault` where this machine has run out of something."""
        is_securing = False
        try:
            async with asyncio.timeout(self._connect_s):
                context = await self._load_context() if self._address.is_tls else None
                connection, transport = await self._reach()
                try:
                    if context is not None:
                        if self._proxy is not None:
                            await open_tunnel(transport, self._proxy, self._address)
                        is_securing = True
                        await self._secure(connection, transport, context)
                except BaseException:
                    transport.abort()
                    raise
        except OSError as error:
            raise told(error, is_securing) from error
        if connection.early_error is not None:
            raise connection.early_error
        return connection

    async def _reach(self) -> Line:
        places = await self._look_up()
        return await (self._connect(places[0]) if len(places) == 1 else self._race(places))

    async def _look_up(self) -> list[Place]:
        # One look-up for all who need it at this moment: the resolver's few threads would make a crowd of cold
        # requests wait beyond their deadline. Nothing is remembered; whoever is last to leave ends it.
        if self._lookup is None:
            end = self._proxy or self._address
            loop = asyncio.get_running_loop()
            self._lookup = loop.create_task(_resolve(end.host, end.port))
        lookup = self._lookup
        self._lookers += 1
        try:
            return list(await asyncio.shield(lookup))
        finally:
            self._lookers -= 1
            if not self._lookers:
                lookup.cancel()
                self._lookup = None

    async def _race(self, places: list[Place]) -> Line:
        loop = asyncio.get_running_loop()
        attempts: list[asyncio.Task[Line]] = []
        pending: set[asyncio.Task[Line]] = set()
        first: asyncio.Task[Line] | None = None
        failure: BaseException = OSError("there is no address")
        try:
            while places or pending:
                if places:
                    attempts.append(loop.create_task(self._connect(places.pop(0))))
                    pending.add(attempts[-1])
                head_start_s = HEAD_START_S if places else None
                done, pending = await asyncio.wait(pending, timeout=head_start_s, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = task.exception()
                    if error is None:
                        first = task
                        return task.result()
                    failure = error
            raise failure
        finally:
            for task in attempts:
                if task is not first:
                    task.cancel()
                    task.add_done_callback(_abandon)

    async def _connect(self, place: Place) -> Line:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(lambda: Connection(self._pool), *place)
        try:
            _tune(transport.get_extra_info("socket"))
        except BaseException:
            transport.abort()
            raise
        return Line(connection, transport)

    async def _secure(self, connection: Connection, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        if transport.is_closing():
            raise ConnectionResetError
        loop = asyncio.get_running_loop()
        name = self._address.host.removesuffix(".")
        secured = await loop.start_tls(transport, connection, context, server_hostname=name)
        connection.secure(cast(asyncio.Transport, secured))

    async def _load_context(self) -> ssl.SSLContext:
        # Reading the authorities' certificates takes 20 ms: once, and not on the event loop.
        if self._context is None:
            loop = asyncio.get_running_loop()
            self._context = loop.run_in_executor(None, _make_context, self._ca_file)
        try:
            return await asyncio.shield(self._context)
        except OSError as error:
            self._context = None
            raise UpstreamError("upstream_tls_failed", "The CA certificates of the provider cannot be read.") from error


async def _resolve(host: str, port: int) -> list[Place]:
    loop = asyncio.get_running_loop()
    return in_turn(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def _make_context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)


def in_turn(found: Iterable[tuple[Any, ...]]) -> list[Place]:
    """The addresses in the resolver's order, but one of each family after the other."""
    families: dict[int, list[Place]] = {}
    for family, *_, sockaddr in found:
        host, port, *scope = sockaddr
        if len(scope) == 2 and scope[1]:
            host = f"{host}%{scope[1]}"
        families.setdefault(family, []).append((host, port))
    rounds = zip_longest(*families.values())
    return list(dict.fromkeys(place for turn in rounds for place in turn if place is not None))[:_MOST_ADDRESSES]


def _abandon(task: asyncio.Task[Line]) -> None:
    """An attempt that lost the race, perhaps by a hair."""
    if not task.cancelled() and task.exception() is None:
        task.result().transport.abort()


def told(error: OSError, is_securing: bool) -> StreamweirError:
    if isinstance(error, TimeoutError):
        return UpstreamError("upstream_timeout", "The provider could not be reached in time.")
    if isinstance(error, socket.gaierror):
        return UpstreamError("upstream_dns_failed", "The provider's name could not be looked up.")
    if isinstance(error, ssl.SSLCertVerificationError):
        fault = _CERTIFICATE_FAULTS.get(error.verify_code, "cannot be trusted")
        return UpstreamError("upstream_tls_failed", f"The provider's certificate {fault}.")
    if is_securing:
        return UpstreamError("upstream_tls_failed", "No secure connection to the provider could be made.")
    if error.errno in _EXHAUSTED:
        return GatewayFault("overloaded", "The gateway has no open file left for another connection.")
    return UpstreamError("upstream_connect_failed", "The provider could not be reached.")
