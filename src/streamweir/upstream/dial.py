"""Opens a connection: name resolution, TCP, proxy and TLS, within one deadline.

The addresses of a name are tried as in RFC 8305: the families alternate, and the next attempt starts after a quarter of
a second, so that an address that does not answer does not use up the deadline. TLS certificates are always verified.
`connect_error` maps every failure to an error of the gateway. A failed or cancelled attempt leaves no socket open.
Every step is timed (`CallTrace`): the trace is kept by the connection, or is in the error.
"""

import asyncio
import errno
import os
import socket
import ssl
import time
from collections.abc import Iterable
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any, NamedTuple, cast

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import ErrorReport, GatewayFault, StreamweirError, UpstreamError
from streamweir.upstream.address import Address, Proxy
from streamweir.upstream.connection import Connection
from streamweir.upstream.lookup import look_up
from streamweir.upstream.pool import Pool
from streamweir.upstream.tunnel import open_tunnel

ATTEMPT_DELAY_S = 0.25
_MAX_ADDRESSES = 8
# Without a limit the kernel's receive buffer grows with the speed of the sender: it held 1.9 MB when a call was paused
# in a fast answer. With this limit it holds at most 260 KB (the kernel doubles it), enough for a distant provider.
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

SocketAddress = tuple[str, int]


class ConnectedTransport(NamedTuple):
    """A TCP transport and the protocol that is connected to it."""

    connection: Connection
    transport: asyncio.Transport
    address: str


class _Steps:
    """Times the steps of one dial, one after the other."""

    def __init__(self, trace: CallTrace) -> None:
        self.trace = trace
        self.running = ""
        self._since = 0.0

    def begin(self, step: str) -> None:
        """`step`: the member of the trace for its duration."""
        self.end()
        self.running, self._since = step, time.monotonic()

    def end(self) -> CallTrace:
        if self.running:
            setattr(self.trace, self.running, time.monotonic() - self._since)
            self.running = ""
        return self.trace


class Dialler:
    def __init__(
        self,
        pool: Pool[Connection],
        address: Address,
        *,
        connect_s: float,
        proxy: Proxy | None = None,
        ca_file: str | None = None,
        unknown_host: str = "",
    ) -> None:
        """`unknown_host`: what to do if the name cannot be looked up."""
        self._pool = pool
        self._address = address
        self._connect_s = connect_s
        self._proxy = proxy
        self._ca_file = ca_file
        self._unknown_host = unknown_host if proxy is None else ""  # else it is the proxy's name
        self._context: asyncio.Future[ssl.SSLContext] | None = None

    async def dial(self) -> Connection:
        """Raises `UpstreamError`, or `GatewayFault` if this machine has no resources left."""
        trace = CallTrace(via_proxy=self._proxy is not None)
        steps = _Steps(trace)
        try:
            async with asyncio.timeout(self._connect_s):
                context = await self._load_context() if self._address.is_tls else None
                connection, transport, trace.address = await self._connect_any(steps)
                try:
                    if context is not None:
                        if self._proxy is not None:
                            await open_tunnel(transport, self._proxy, self._address)
                        steps.begin("tls_s")
                        await self._start_tls(connection, transport, context)
                except BaseException:  # also when it is cancelled: no socket is left open
                    transport.abort()
                    raise
            steps.end()
            if connection.early_error is not None:
                raise connection.early_error
        except OSError as error:
            advice = self._unknown_host if isinstance(error, socket.gaierror) else ""
            failure = connect_error(error, steps.running == "tls_s", advice)
            failure.report = ErrorReport(text=_reason_of(error), advice=advice or None)
            failure.trace = steps.end()
            raise failure from error
        except StreamweirError as error:
            error.trace = steps.end()
            raise
        connection.trace = trace
        return connection

    async def _connect_any(self, steps: "_Steps") -> ConnectedTransport:
        steps.begin("dns_s")
        peer = self._proxy or self._address
        addresses = await _addresses_of(peer.host, peer.port)
        steps.begin("connect_s")
        if len(addresses) == 1:
            return await self._connect(addresses[0], steps.trace)
        return await self._race(addresses, steps.trace)

    async def _race(self, addresses: list[SocketAddress], trace: CallTrace) -> ConnectedTransport:
        loop = asyncio.get_running_loop()
        attempts: list[asyncio.Task[ConnectedTransport]] = []
        pending: set[asyncio.Task[ConnectedTransport]] = set()
        first: asyncio.Task[ConnectedTransport] | None = None
        failure: BaseException = OSError("there is no address")
        try:
            while addresses or pending:
                if addresses:
                    attempts.append(loop.create_task(self._connect(addresses.pop(0), trace)))
                    pending.add(attempts[-1])
                delay_s = ATTEMPT_DELAY_S if addresses else None
                done, pending = await asyncio.wait(pending, timeout=delay_s, return_when=asyncio.FIRST_COMPLETED)
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
                    task.add_done_callback(_abort_attempt)

    async def _connect(self, address: SocketAddress, trace: CallTrace) -> ConnectedTransport:
        text = trace.address = _address_text(address)  # the last that was tried, if none can be connected to
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(lambda: Connection(self._pool), *address)
        try:
            _set_socket_options(transport.get_extra_info("socket"))
        except BaseException:  # the transport is nobody's yet
            transport.abort()
            raise
        return ConnectedTransport(connection, transport, text)

    async def _start_tls(self, connection: Connection, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        if transport.is_closing():
            raise ConnectionResetError
        loop = asyncio.get_running_loop()
        name = self._address.host.removesuffix(".")
        tls_transport = await loop.start_tls(transport, connection, context, server_hostname=name)
        connection.secure(cast(asyncio.Transport, tls_transport))

    async def _load_context(self) -> ssl.SSLContext:
        # Loading the CA certificates takes 20 ms, so it is done once, in a thread.
        if self._context is None:
            loop = asyncio.get_running_loop()
            self._context = loop.run_in_executor(None, _make_context, self._ca_file)
        try:
            return await asyncio.shield(self._context)
        except OSError as error:
            self._context = None
            raise UpstreamError("upstream_tls_failed", "The CA certificates of the provider cannot be read.") from error


async def _addresses_of(host: str, port: int) -> list[SocketAddress]:
    return [(host, port)] if _is_address(host) else interleave_families(await look_up(host, port))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _make_context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _set_socket_options(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)


def interleave_families(found: Iterable[tuple[Any, ...]]) -> list[SocketAddress]:
    """The addresses in the resolver's order, with the families alternating."""
    families: dict[int, list[SocketAddress]] = {}
    for family, *_, sockaddr in found:
        host, port, *scope = sockaddr
        if len(scope) == 2 and scope[1]:
            host = f"{host}%{scope[1]}"
        families.setdefault(family, []).append((host, port))
    rounds = zip_longest(*families.values())
    return list(dict.fromkeys(address for turn in rounds for address in turn if address is not None))[:_MAX_ADDRESSES]


def _abort_attempt(task: asyncio.Task[ConnectedTransport]) -> None:
    """Closes the connection of an attempt that succeeded after another one."""
    if not task.cancelled() and task.exception() is None:
        task.result().transport.abort()


def _address_text(address: SocketAddress) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reason_of(error: OSError) -> str:
    """In the words of the operating system, the resolver or the TLS library. Empty for a deadline."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or "").replace("_", " ").lower()
    if isinstance(error, socket.gaierror):
        return error.strerror or ""
    return os.strerror(error.errno) if error.errno is not None else ""


def connect_error(error: OSError, is_in_tls: bool, advice: str = "") -> StreamweirError:
    if isinstance(error, TimeoutError):
        return UpstreamError("upstream_timeout", "The provider could not be reached in time.")
    if isinstance(error, socket.gaierror):
        message = "The provider's name could not be looked up."
        return UpstreamError("upstream_dns_failed", f"{message} {advice}" if advice else message)
    if isinstance(error, ssl.SSLCertVerificationError):
        fault = _CERTIFICATE_FAULTS.get(error.verify_code, "cannot be trusted")
        return UpstreamError("upstream_tls_failed", f"The provider's certificate {fault}.")
    if is_in_tls:
        return UpstreamError("upstream_tls_failed", "No secure connection to the provider could be made.")
    if error.errno in _EXHAUSTED:
        return GatewayFault("overloaded", "The gateway has no open file left for another connection.")
    return UpstreamError("upstream_connect_failed", "The provider could not be reached.")
