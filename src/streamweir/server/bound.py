"""The bounds of the configuration, as those who keep them want them."""

from streamweir.config.model import Config
from streamweir.server.http import HttpLimits
from streamweir.server.pressure import Pressure, memory_limit_bytes


def pressure_of(config: Config, workers: int) -> Pressure:
    limits = config.server.limits
    memory_bytes = limits.memory_bytes
    if memory_bytes is None and (found := memory_limit_bytes()) is not None:
        memory_bytes = found // workers
    return Pressure(memory_bytes, limits.lag_s)


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
