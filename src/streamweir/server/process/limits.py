"""The bounds of the configuration, as those who keep them want them."""

from streamweir.config.model import Config
from streamweir.server.http.listener import HttpLimits
from streamweir.server.http.pressure import Pressure, memory_limit_bytes

_BODIES_SHARE = 3
"""Of the memory, a third: what else is there must not be in want because of bodies."""
_BODIES_BYTES = 256 * 1024 * 1024
"""Where nobody says how much memory there is."""


def pressure_of(config: Config, workers: int) -> Pressure:
    return Pressure(_memory_bytes(config, workers), config.server.limits.lag_s)


def body_memory_bytes(config: Config, workers: int) -> int:
    """For all request bodies of one process. One body of the largest size always finds room, and leaves as much."""
    limits = config.server.limits
    if limits.body_memory_bytes is not None:
        return max(limits.body_memory_bytes, limits.body_bytes)
    memory_bytes = _memory_bytes(config, workers)
    total = _BODIES_BYTES if memory_bytes is None else memory_bytes // _BODIES_SHARE
    return max(total, 2 * limits.body_bytes)


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
        connections=limits.connections,
        header_s=timeouts.header_s,
        body_s=timeouts.body_s,
        keep_s=timeouts.keep_s,
        write_stall_s=timeouts.write_stall_s,
    )
