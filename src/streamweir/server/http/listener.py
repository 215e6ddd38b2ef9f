"""The listener: sockets with bounded kernel buffers, the connections they bring, and how both are ended.

    end_with_answers()  every answer from now on ends its connection
    stop_admitting()    the same, and the idle ones end now
    close_listeners()   nobody else gets in
    await close(grace)  who is still there after that is cut off

The number of open files is the limit: a connection needs one, and so does every request for its upstream
(`upstream_files`). Some are kept for the process itself, for the reserved paths (`reserved_paths`: health, metrics, the
console), and to answer `overloaded` when all others are in use, so that a caller can tell an overload from a fault.
What a connection does is in `connection`; what is answered, in the `Application`.
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
"""Kept for everything that is not a caller: the journal, the database, the log, and `_SURPLUS`."""
_SURPLUS = 32
"""How many that find no place may say what they want, and are ended gently, at the same time: each holds one of those
files. It may be a probe, or an operator."""
_MAX_CONNECTION_SHARE = 2 / 3
"""Of the files that there are for callers and their upstreams. Most connections are idle at any moment."""
_FIRST_BYTES = 16 * 1024
_KEPT_A_TURN = 48
"""So many connections that are refused as they are accepted are kept, for who asks again on one is refused for a third
of what it takes to accept another. To keep one takes some 20 us more than to close it: those beyond are closed."""
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
        """Of the connections that are opened from now on."""
        self.timers = TimerQueue()
        self.read_budget = ReadBudget()
        self.is_admitting = True
        self.keeps_alive = True
        """Whether a connection outlives its answer."""
        self.upstream_files: Callable[[], int] = int
        """How many files callers' requests have beside their connections, or will have. Nobody has said: none."""
        self.early_refusal: EarlyRefusal | None = None
        """See `set_early_refusal`."""
        self.probe: Callable[[bytes], bytes | None] | None = None
        """A whole answer to the bytes of a probe; None: it is none. Asked only while there is an `early_refusal`."""
        self._kept = 0
        """In this turn, though refused."""
        self.on_files_exhausted: Callable[[OSError], None] | None = None
        self.refusal: Callable[[], bytes] | None = None
        """A whole answer, for a connection that there is no file for."""
        self._batch = batch
        self._acceptors: list[Acceptor] = []
        self._entering: dict[asyncio.Task[object], bool] = {}
        """Accepted, and perhaps not connections yet, for TLS takes a while; whether each is one too many."""
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
        _bound_buffers(sock, self.limits)
        address = sock.getsockname()
        sock.listen(_BACKLOG)
        taker = _SocketHandler(self, ssl_context)
        self._acceptors.append(Acceptor(sock, taker, batch=self._batch))
        if isinstance(address, tuple):
            self._addresses.append((address[0], address[1]))

    @property
    def queued(self) -> list[tuple[str, int, int]]:
        """For each listener its address, how many connections wait in the kernel, and how many may."""
        found = zip(self._addresses, (acceptor.queue for acceptor in self._acceptors), strict=False)
        return [(f"{host}:{port}", *queue) for (host, port), queue in found if queue is not None]

    def set_early_refusal(self, early_refusal: EarlyRefusal | None) -> None:
        """Lets it see the bytes of requests before anything else does; it may refuse them. None: every one is read."""
        self.early_refusal = early_refusal
        for acceptor in self._acceptors:
            acceptor.await_data(early_refusal is not None)

    def enter(self, sock: socket.socket, ssl_context: SSLContext | None) -> AcceptResult:
        """Makes a connection of an accepted socket."""
        is_surplus = not self.has_free_slot()
        if is_surplus and len(self._surplus) + sum(self._entering.values()) >= _SURPLUS:
            return AcceptResult.NOT
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
        self._entering[task] = is_surplus
        task.add_done_callback(partial(self._entered, sock))
        return AcceptResult.ENTERED

    def _answer_early(self, first_bytes: bytes, *, is_surplus: bool) -> tuple[bytes | None, bool]:
        """And whether the connection is closed then. A probe does not wait until one is made of its socket."""
        if not first_bytes or self.early_refusal is None:
            return None, False
        if self.probe is not None and (answer := self.probe(first_bytes)) is not None:
            self._opened_at = time.monotonic()
            return answer, True
        closes = is_surplus or not self.keeps_alive or self._kept >= _KEPT_A_TURN
        refusal = self.early_refusal(first_bytes, closes=closes)
        if refusal is not None and not closes:
            if not self._kept:
                asyncio.get_running_loop().call_soon(self._turn_ended)
            self._kept += 1
        return refusal, closes

    def _turn_ended(self) -> None:
        self._kept = 0

    def _entered(self, sock: socket.socket, task: asyncio.Task[object]) -> None:
        self._entering.pop(task, None)
        if task.cancelled() or (reason := task.exception()) is not None:
            sock.close()
            if not task.cancelled() and not isinstance(reason, OSError | SSLError | TimeoutError):
                context = {"message": "connection setup failed", "exception": reason}
                asyncio.get_running_loop().call_exception_handler(context)

    def end_with_answers(self) -> None:
        """A connection that is idle stays: its caller may be sending, and would take a close for a failure."""
        self.keeps_alive = False

    def stop_admitting(self) -> None:
        """The listeners stay, so that it can still be asked whether we are ready."""
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
        """Whether some request that was let in is still on its way here."""
        return any(connection.awaits_body for connection in self._open)

    async def emptied(self) -> None:
        """Returns when no connection is left."""
        await self._all_closed.wait()

    async def unused(self, quiet_s: float, probed_at: Callable[[], float] = lambda: -inf) -> None:
        """Returns when no connection is open, and for so long none has been opened and nobody has probed elsewhere."""
        while True:
            await self.emptied()
            rest_s = max(self._opened_at, probed_at()) + quiet_s - time.monotonic()
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
        for task in list(self._entering):
            task.cancel()
        if self._entering:
            await asyncio.wait(self._entering)
        for connection in list(self._open):
            connection.abort()
        await self.emptied()
        self.timers.stop()

    # What a connection tells.

    def opened(self, connection: Connection, /) -> None:
        self._open.add(connection)
        self._opened_at = time.monotonic()
        self._all_closed.clear()
        if connection.is_surplus:
            self._surplus.add(connection)

    def may_linger(self, connection: Connection, /) -> bool:
        return not connection.is_surplus or len(self._surplus) <= _SURPLUS

    def closed(self, connection: Connection, /) -> None:
        self._open.discard(connection)
        self._surplus.discard(connection)
        if not self._open:
            self._all_closed.set()

    # Files.

    def has_free_slot(self) -> bool:
        """Whether there is one more file for a connection."""
        entering = len(self._entering) - sum(self._entering.values())
        connections = len(self._open) - len(self._surplus) + entering
        most = self.limits.connections
        if most is not None and connections >= most:
            return False
        # Connections alone must not take all of it: there would be none for what they ask for.
        return connections < _MAX_CONNECTION_SHARE * self.max_files and self.has_files()

    def has_files(self) -> bool:
        """Whether there is one more for the upstream of a request."""
        return len(self._open) + len(self._entering) + self.upstream_files() < self.max_files

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
        return self._server.enter(sock, self._ssl_context)

    def files_exhausted(self, reason: OSError, /) -> None:
        if self._server.on_files_exhausted is not None:
            self._server.on_files_exhausted(reason)

    def refusal(self) -> bytes:
        say = self._server.refusal
        return say() if say is not None and self._ssl_context is None else b""


def _read_at_once(sock: socket.socket) -> bytes:
    """What has come with the connection, if anything has."""
    try:
        return sock.recv(_FIRST_BYTES)
    except OSError:  # nothing yet; or it has gone, which whoever reads next will see
        return b""


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
