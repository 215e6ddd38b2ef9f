"""The listener: sockets with bounded kernel buffers, the connections they bring, and how both are ended.

    end_with_answers()  every answer from now on ends its connection
    stop_admitting()    the same, and the idle ones end now
    close_listeners()   nobody else gets in
    await close(grace)  who is still there after that is cut off

Whoever comes when all places are taken is answered at once with `overloaded`, and so can tell an
overload from a fault. What a connection does is in `connection`; what is answered, in the `Application`.
"""

import asyncio
import resource
import socket
import sys
import time
from contextlib import suppress
from math import inf
from ssl import SSLContext

from streamweir.server.alarm import Clock
from streamweir.server.connection import Connection
from streamweir.server.limit import HttpLimits
from streamweir.server.message import Application

__all__ = ["HttpLimits", "HttpServer"]

_BACKLOG = 2048
_OWN_FILES = 64
"""Kept for everything that is not a caller."""
_GENTLE_REFUSALS = 32
"""How many that find no place are ended gently at the same time: each holds one of those files."""
_KEEPALIVE_S = 60
_KEEPALIVE_PROBE_S = 10
_KEEPALIVE_PROBES = 3
_NOT_SENT_LOW_WATER = 16 * 1024


class HttpServer:
    """See `server.connection.Owner`."""

    def __init__(self, app: Application, limits: HttpLimits) -> None:
        self.app = app
        self.limits = limits
        """Of the connections that are opened from now on."""
        self.clock = Clock()
        self.is_admitting = True
        self.keeps_alive = True
        """Whether a connection outlives its answer."""
        self._servers: list[asyncio.AbstractServer] = []
        self._addresses: list[tuple[str, int]] = []
        self._open: set[Connection] = set()
        self._surplus: set[Connection] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._opened_at = -inf
        """When the last connection was."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Of the open listeners."""
        return list(self._addresses)

    @property
    def connections(self) -> int:
        """How many are open, those that are being refused included."""
        return len(self._open)

    async def listen(self, sock: socket.socket, ssl_context: SSLContext | None = None) -> None:
        """Takes over a bound socket."""
        loop = asyncio.get_running_loop()
        limits = self.limits
        _bound_buffers(sock, limits)
        address = sock.getsockname()
        server = await loop.create_server(
            lambda: Connection(self, loop),
            sock=sock,
            backlog=_BACKLOG,
            ssl=ssl_context,
            ssl_handshake_timeout=limits.header_s if ssl_context is not None else None,
            ssl_shutdown_timeout=limits.linger_s if ssl_context is not None else None,
        )
        self._servers.append(server)
        if isinstance(address, tuple):
            self._addresses.append((address[0], address[1]))

    def end_with_answers(self) -> None:
        """A connection that is idle stays: its caller may be sending, and would take a close for a failure."""
        self.keeps_alive = False

    def stop_admitting(self) -> None:
        """The listeners stay, so that it can still be asked whether we are ready."""
        self.is_admitting = self.keeps_alive = False
        for connection in list(self._open):
            connection.retire()

    def close_listeners(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._addresses.clear()

    async def emptied(self) -> None:
        """Returns when no connection is left."""
        await self._all_closed.wait()

    async def unused(self, quiet_s: float) -> None:
        """Returns when no connection is open and none has been opened for so long."""
        while True:
            await self.emptied()
            rest_s = self._opened_at + quiet_s - time.monotonic()
            if rest_s <= 0:
                return
            await asyncio.sleep(rest_s)

    async def close(self, grace_s: float = 0.0) -> None:
        """Returns when every connection is gone: by itself within the grace, or cut off."""
        self.close_listeners()
        self.stop_admitting()
        if self._open and grace_s > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.emptied(), grace_s)
        for connection in list(self._open):
            connection.abort()
        await self.emptied()
        self.clock.stop()

    # What a connection tells.

    def opened(self, connection: Connection, /) -> bool:
        has_place = len(self._open) - len(self._surplus) < self._most_connections()
        self._open.add(connection)
        self._opened_at = time.monotonic()
        self._all_closed.clear()
        if not has_place:
            self._surplus.add(connection)
        return has_place

    def may_linger(self, connection: Connection, /) -> bool:
        return connection not in self._surplus or len(self._surplus) <= _GENTLE_REFUSALS

    def closed(self, connection: Connection, /) -> None:
        self._open.discard(connection)
        self._surplus.discard(connection)
        if not self._open:
            self._all_closed.set()

    def _most_connections(self) -> int:
        if self.limits.connections is not None:
            return self.limits.connections
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return sys.maxsize if files == resource.RLIM_INFINITY else max(files - _OWN_FILES, 1)


def _bound_buffers(sock: socket.socket, limits: HttpLimits) -> None:
    """On the listener, whose connections inherit all of it. Else the kernel takes megabytes for one slow reader."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.high_water)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_NODELAY": 1,
        "TCP_NOTSENT_LOWAT": _NOT_SENT_LOW_WATER,
        "TCP_KEEPIDLE": _KEEPALIVE_S,
        "TCP_KEEPINTVL": _KEEPALIVE_PROBE_S,
        "TCP_KEEPCNT": _KEEPALIVE_PROBES,
        "TCP_USER_TIMEOUT": max(int(limits.write_stall_s * 1000), 1),
    }
    for name, value in options.items():
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
