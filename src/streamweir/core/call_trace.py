"""How a call reached its upstream: the address of its connection, and how long each step took.

Durations are in seconds. A step that was not needed or not reached has none: a kept connection was opened by an earlier
call. If a step failed, its duration is the time until then.
"""

from msgspec import Struct


class CallTrace(Struct, kw_only=True, gc=False):
    address: str = ""
    """`ip:port` of the connection: the proxy's, if there is one. Empty: no address is known."""
    via_proxy: bool = False
    is_reused: bool = False
    """The connection was kept from an earlier call."""
    dns_s: float | None = None
    connect_s: float | None = None
    """TCP, and the proxy's tunnel."""
    tls_s: float | None = None
    sent_at: float | None = None
    """When the request was sent, by `time.monotonic`."""
