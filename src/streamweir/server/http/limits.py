"""How much one caller may take of the HTTP layer: bytes, fields, seconds, connections. Values alone."""

from msgspec import Struct


class HttpLimits(Struct, frozen=True, kw_only=True):
    header_bytes: int = 32 * 1024
    """The whole head of a request: its line and its fields."""
    header_fields: int = 100
    body_bytes: int = 8 * 1024 * 1024
    header_s: float = 10.0
    """From the first byte of a head (for the first one: from the accept) to its end. Also for a TLS handshake."""
    body_s: float = 30.0
    """From the end of the head to the end of the body."""
    keep_s: float = 75.0
    """How long a connection is kept that asks for nothing."""
    write_stall_s: float = 30.0
    """How long bytes may wait for a caller that takes none."""
    high_water: int = 64 * 1024
    """What may wait for a caller before whoever writes is told to stop. And what the kernel is asked to hold."""
    connections: int | None = None
    """None: as many as the process may have files open, less what it needs itself."""
    pipeline_bytes: int = 64 * 1024
    """What is kept of further requests while one is being answered."""
    linger_s: float = 2.0
    """How long a connection that we end stays open for a caller that is still sending, lest it miss the answer."""
    linger_bytes: int = 16 * 1024 * 1024
    """And how much of what it sends is thrown away."""
