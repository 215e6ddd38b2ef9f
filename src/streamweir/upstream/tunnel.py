"""Opens a tunnel through an HTTP proxy: sends CONNECT and reads the head of the answer.

The size of the head is limited, and only its status is used: 2xx opens the tunnel, anything else refuses it. Bytes
after the head are an error too, because a TLS server does not send before the client. The dialler sets the time limit.
"""

import asyncio
import re

from streamweir.core.errors import UpstreamError
from streamweir.upstream.address import Address, Proxy

_MAX_HEAD_BYTES = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?\r\n")


class Tunnel(asyncio.Protocol):
    def __init__(self) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = bytearray()

    def data_received(self, data: bytes) -> None:
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0 and len(self._head) <= _MAX_HEAD_BYTES:
            return
        status = _STATUS.match(self._head)
        if end < 0 or status is None or not status[1].startswith(b"2"):
            refusal = f" ({status[1].decode()})" if status is not None else ""
            self._refuse(f"The proxy refused the connection{refusal}.")
        elif end + 4 < len(self._head):
            self._refuse("The proxy sent unexpected data.")
        elif not self.opened.done():
            self.opened.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._refuse("The proxy closed the connection.")

    def _refuse(self, message: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(UpstreamError("upstream_connect_failed", message))


async def open_tunnel(transport: asyncio.Transport, proxy: Proxy, target: Address) -> None:
    """When it returns, the transport is connected to the target. The caller must set its protocol."""
    tunnel = Tunnel()
    transport.set_protocol(tunnel)
    fields = [f"CONNECT {target.full_authority} HTTP/1.1", f"host: {target.full_authority}"]
    if proxy.authorization is not None:
        fields.append(f"proxy-authorization: {proxy.authorization}")
    transport.write("".join(f"{field}\r\n" for field in [*fields, ""]).encode("ascii"))
    await tunnel.opened
