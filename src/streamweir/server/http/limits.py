"""Limits of the HTTP layer: bytes, fields, seconds and connections of one caller, and the memory of all.

Values, and how they follow from the configuration.
"""

from collections.abc import Mapping

from msgspec import Struct

from streamweir.config.model import Config
from streamweir.frontends.table import FRONTENDS
from streamweir.server.http.pressure import Pressure, memory_limit_bytes


class HttpLimits(Struct, frozen=True, kw_only=True):
    header_bytes: int = 32 * 1024
    """The size of a request's head: its request line and its fields."""
    header_fields: int = 100
    body_bytes: int = 8 * 1024 * 1024
    body_factors: Mapping[str, int] = {}
    """By path: the factor by which a request body may exceed the limit."""
    header_s: float = 10.0
    """From the first byte of a head (for the first one: from the accept) to its end. Also for a TLS handshake."""
    body_s: float = 30.0
    """From the end of the head to the end of the body."""
    keep_s: float = 75.0
    """How long an idle connection is kept."""
    write_stall_s: float = 30.0
    """How long a caller may read nothing while bytes are buffered for it."""
    high_water: int = 64 * 1024
    """Bytes that may be buffered for a caller before the writer is paused. Also the send buffer of the kernel."""
    connections: int | None = None
    """None: the limit of open files, less what the process needs itself."""
    pipeline_bytes: int = 64 * 1024
    """Bytes of further requests that are kept while one is answered."""
    linger_s: float = 2.0
    """How long a connection that we end stays open for a caller that still sends: else it could lose the answer."""
    linger_bytes: int = 16 * 1024 * 1024
    """How much of what it sends is read and dropped meanwhile."""


_BODIES_SHARE = 3
"""Bodies may use one third of the memory. The rest is for everything else."""
_BODIES_BYTES = 256 * 1024 * 1024
"""If the amount of memory is not known."""


def pressure_of(config: Config, workers: int) -> Pressure:
    return Pressure(_memory_bytes(config, workers), config.server.limits.lag_s)


def body_memory_bytes(config: Config, workers: int) -> int:
    """For all request bodies of one process. It is enough for two bodies of the largest size."""
    limits = config.server.limits
    if limits.body_memory_bytes is not None:
        return max(limits.body_memory_bytes, limits.body_bytes)
    memory_bytes = _memory_bytes(config, workers)
    total = _BODIES_BYTES if memory_bytes is None else memory_bytes // _BODIES_SHARE
    return max(total, 2 * limits.body_bytes)


def _body_factors() -> dict[str, int]:
    every = FRONTENDS.by_name.values()
    return {path: each.body_factor for each in every for path in (*each.paths, *each.count_paths)}


def _memory_bytes(config: Config, workers: int) -> int | None:
    memory_bytes = config.server.limits.memory_bytes
    if memory_bytes is None and (found := memory_limit_bytes()) is not None:
        memory_bytes = found // workers
    return memory_bytes


def http_limits_of(config: Config) -> HttpLimits:
    limits, timeouts = config.server.limits, config.server.timeouts
    return HttpLimits(
        header_bytes=limits.header_bytes,
        header_fields=limits.header_fields,
        body_bytes=limits.body_bytes,
        body_factors=_body_factors(),
        connections=limits.connections,
        header_s=timeouts.header_s,
        body_s=timeouts.body_s,
        keep_s=timeouts.keep_s,
        write_stall_s=timeouts.write_stall_s,
    )
