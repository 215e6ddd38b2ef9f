"""The listener: sockets with bounded kernel buffers, their connections, and how both are ended.

    end_with_answers()  every answer from now on ends its connection
    stop_admitting()    the same, and idle connections end now
    close_listeners()   no new connections
    await close(grace)  connections that are still open after that are cut

The number of open files is the limit: a connection needs one, and so does every request for its upstream
(`upstream_files`). Some are kept for the process itself, for the reserved paths (`reserved_paths`: health, metrics, the
console), and to answer `overloaded` when all others are in use, so that a caller can tell an overload from a fault.
The protocol of a connection is in `connection`; requests are answered by the `Application`.
"""

import asyncio
import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf
from ssl import SSLContext, SSLError

from streamweir.server.http.acceptor import BATCH, Acceptor, AcceptResult
from streamweir.server.http.body import ReadBudget
from streamweir.server.http.connection import Connection, EarlyRefusal
from streamweir.server.http.limits import HttpLimits
from streamweir.server.http.message import Application
from streamweir.server.http.timers import TimerQueue

__all__ = ["HttpLimits", "HttpServer"]

_BACKLOG = 2048
OWN_FILES = 64
"""Kept for everything that is not a caller: the journal, the database, the log, and `_MAX_SURPLUS`."""
_MAX_SURPLUS = 32
"""Connections beyond the limit that are still read and closed properly at the same time: each uses one of those files.
It may be a probe, or an operator."""
_MAX_CONNECTION_SHARE = 2 / 3
"""The share of the files for callers and upstreams that connections may use. Most connections are idle at any
moment."""
_FIRST_BYTES = 16 * 1024
_KEPT_PER_TURN = 48
"""How many connections per turn are kept open although they were refused when they were accepted: refusing a further
request on such a connection takes a third of the time of accepting a new one. Keeping one takes about 20 us more than
closing it, so further ones are closed."""
_KEEPALIVE_S = 60
_KEEPALIVE_PROBE_S = 10
_KEEPALIVE_PROBES = 3
_NOT_SENT_LOW_WATER = 16 * 1024


class HttpServer:
    """See `server.http.connection.ServerInterface`."""

    def __init__(
        self, app: Application, limits: HttpLimits, *, reserved_paths: tuple[str, ...] = (), batch: int = BATCH
    ) -> None:
        """`reserved_paths`: prefixes of paths that are served even if there are too many connections. `batch`: how many
        connections are accepted in a turn."""
        self.app = app
        self.reserved_paths = reserved_paths
        self.limits = limits
        """For connections that are opened from now on."""
        self.timers = TimerQueue()
        self.read_budget = ReadBudget()
        self.is_admitting = True
        self.keeps_alive = True
        """Whether a connection stays open after an answer."""
        self.upstream_files: Callable[[], int] = int
        """The number of files that requests use, or will use, besides their connections. Default: none."""
        self.early_refusal: EarlyRefusal | None = None
        """See `set_early_refusal`."""
        self.probe: Callable[[bytes], bytes | None] | None = None
        """A complete answer to the bytes of a probe; None: it is no probe. Used only while there is an
        `early_refusal`."""
        self._kept = 0
        """The number of refused connections that were kept in this turn."""
        self.on_files_exhausted: Callable[[OSError], None] | None = None
        self.refusal: Callable[[], bytes] | None = None
        """A complete answer for a connection without a file."""
        self._batch = batch
        self._acceptors: list[Acceptor] = []
        self._opening: dict[asyncio.Task[object], bool] = {}
        """Accepted sockets that are not connections yet (TLS takes a while), and whether each is beyond the limit."""
        self._addresses: list[tuple[str, int]] = []
        self._open: set[Connection] = set()
        self._surplus: set[Connection] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._opened_at = -inf
        """When the last connection was opened."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses of the open listeners."""
        return list(self._addresses)

    @property
    def connections(self) -> int:
        """The number of open connections, including those that are being refused."""
        return len(self._open)

    async def listen(self, sock: socket.socket, ssl_context: SSLContext | None = None) -> None:
        """The server owns the bound socket from now on."""
        _bound_buffers(sock, self.limits)
        address = sock.getsockname()
        sock.listen(_BACKLOG)
        handler = _SocketHandler(self, ssl_context)
        self._acceptors.append(Acceptor(sock, handler, batch=self._batch))
        if isinstance(address, tuple):
            self._addresses.append((address[0], address[1]))

    @property
    def queued(self) -> list[tuple[str, int, int]]:
        """For each listener: its address, the length of the kernel's queue, and its maximum."""
        found = zip(self._addresses, (acceptor.queue for acceptor in self._acceptors), strict=False)
        return [(f"{host}:{port}", *queue) for (host, port), queue in found if queue is not None]

    def set_early_refusal(self, early_refusal: EarlyRefusal | None) -> None:
        """Sets a function that sees the bytes of each request first and may refuse it. None: there is none."""
        self.early_refusal = early_refusal
        for acceptor in self._acceptors:
            acceptor.await_data(early_refusal is not None)

    def open_connection(self, sock: socket.socket, ssl_context: SSLContext | None) -> AcceptResult:
        """Makes a connection of an accepted socket."""
        is_surplus = not self.has_free_slot()
        if is_surplus and len(self._surplus) + sum(self._opening.values()) >= _MAX_SURPLUS:
            return AcceptResult.NO_FILE
        first_bytes, is_fresh = b"", True
        if self.early_refusal is not None and ssl_context is None:
            first_bytes = _read_at_once(sock)
            answer, closes = self._answer_early(first_bytes, is_surplus=is_surplus)
            if answer is not None:
                with suppress(OSError):
                    sock.send(answer)
                if closes:
                    sock.close()
                    return AcceptResult.ANSWERED
                first_bytes, is_fresh = b"", False
        loop, limits = asyncio.get_running_loop(), self.limits
        task: asyncio.Task[object] = loop.create_task(
            loop.connect_accepted_socket(
                partial(Connection, self, loop, is_surplus=is_surplus, first_bytes=first_bytes, is_fresh=is_fresh),
                sock,
                ssl=ssl_context,
                ssl_handshake_timeout=limits.header_s if ssl_context is not None else None,
                ssl_shutdown_timeout=limits.linger_s if ssl_context is not None else None,
            )
        )
        self._opening[task] = is_surplus
        task.add_done_callback(partial(self._open_done, sock))
        return AcceptResult.OPENED

    def _answer_early(self, first_bytes: bytes, *, is_surplus: bool) -> tuple[bytes | None, bool]:
        """The answer, and whether the connection is closed after it. A probe is answered before a connection is
        made."""
        if not first_bytes or self.early_refusal is None:
            return None, False
        if self.probe is not None and (answer := self.probe(first_bytes)) is not None:
            self._opened_at = time.monotonic()
            return answer, True
        closes = is_surplus or not self.keeps_alive or self._kept >= _KEPT_PER_TURN
        refusal = self.early_refusal(first_bytes, closes=closes)
        if refusal is not None and not closes:
            if not self._kept:
                asyncio.get_running_loop().call_soon(self._turn_ended)
            self._kept += 1
        return refusal, closes

    def _turn_ended(self) -> None:
        self._kept = 0

    def _open_done(self, sock: socket.socket, task: asyncio.Task[object]) -> None:
        self._opening.pop(task, None)
        if task.cancelled() or (reason := task.exception()) is not None:
            sock.close()
            if not task.cancelled() and not isinstance(reason, OSError | SSLError | TimeoutError):
                context = {"message": "connection setup failed", "exception": reason}
                asyncio.get_running_loop().call_exception_handler(context)

    def end_with_answers(self) -> None:
        """An idle connection stays open: its caller may be sending, and would see the close as a failure."""
        self.keeps_alive = False

    def stop_admitting(self) -> None:
        """The listeners stay open, so that `/ready` can still be requested."""
        self.is_admitting = self.keeps_alive = False
        for connection in list(self._open):
            connection.close_if_idle()

    def close_listeners(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        self._addresses.clear()

    @property
    def awaits_body(self) -> bool:
        """Whether the body of an admitted request is still being received."""
        return any(connection.awaits_body for connection in self._open)

    async def emptied(self) -> None:
        """Returns when no connection is left."""
        await self._all_closed.wait()

    async def unused(self, quiet_s: float, probed_at: Callable[[], float] = lambda: -inf) -> None:
        """Returns when no connection is open, and for `quiet_s` none was opened and there was no probe elsewhere."""
        while True:
            await self.emptied()
            wait_s = max(self._opened_at, probed_at()) + quiet_s - time.monotonic()
            if wait_s <= 0:
                return
            await asyncio.sleep(wait_s)

    async def close(self, grace_s: float = 0.0) -> None:
        """Returns when every connection is closed: by itself within the grace period, or cut."""
        self.close_listeners()
        self.stop_admitting()
        if self._open and grace_s > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.emptied(), grace_s)
        for task in list(self._opening):
            task.cancel()
        if self._opening:
            await asyncio.wait(self._opening)
        for connection in list(self._open):
            connection.abort()
        await self.emptied()
        self.timers.stop()

    # Called by connections.

    def opened(self, connection: Connection, /) -> None:
        self._open.add(connection)
        self._opened_at = time.monotonic()
        self._all_closed.clear()
        if connection.is_surplus:
            self._surplus.add(connection)

    def may_linger(self, connection: Connection, /) -> bool:
        return not connection.is_surplus or len(self._surplus) <= _MAX_SURPLUS

    def closed(self, connection: Connection, /) -> None:
        self._open.discard(connection)
        self._surplus.discard(connection)
        if not self._open:
            self._all_closed.set()

    # Files.

    def has_free_slot(self) -> bool:
        """Whether there is one more file for a connection."""
        opening = len(self._opening) - sum(self._opening.values())
        connections = len(self._open) - len(self._surplus) + opening
        max_connections = self.limits.connections
        if max_connections is not None and connections >= max_connections:
            return False
        # Connections must not take all files: their requests need some too.
        return connections < _MAX_CONNECTION_SHARE * self.max_files and self.has_files()

    def has_files(self) -> bool:
        """Whether there is one more file for the upstream of a request."""
        return len(self._open) + len(self._opening) + self.upstream_files() < self.max_files

    @property
    def max_files(self) -> int:
        """For connections of callers and of upstreams together."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return sys.maxsize if files == resource.RLIM_INFINITY else max(files - OWN_FILES, 1)


class _SocketHandler:
    """See `server.http.acceptor.ConnectionHandler`."""

    def __init__(self, server: HttpServer, ssl_context: SSLContext | None) -> None:
        self._server = server
        self._ssl_context = ssl_context

    def accepted(self, sock: socket.socket, /) -> AcceptResult:
        return self._server.open_connection(sock, self._ssl_context)

    def files_exhausted(self, reason: OSError, /) -> None:
        if self._server.on_files_exhausted is not None:
            self._server.on_files_exhausted(reason)

    def refusal(self) -> bytes:
        refusal = self._server.refusal
        return refusal() if refusal is not None and self._ssl_context is None else b""


def _read_at_once(sock: socket.socket) -> bytes:
    """The bytes that have arrived with the connection, if any."""
    try:
        return sock.recv(_FIRST_BYTES)
    except OSError:  # nothing yet; or it was closed, which the next read shows
        return b""


def _bound_buffers(sock: socket.socket, limits: HttpLimits) -> None:
    """Set on the listener; connections inherit it. Otherwise the kernel buffers megabytes for one slow reader."""
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
