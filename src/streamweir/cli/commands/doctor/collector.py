"""Sends the OpenTelemetry collector a message without spans or points, as the export sends those of requests.

What it refuses is a warning: requests are served without it.
"""

import asyncio

from msgspec import structs

from streamweir.cli.commands.doctor.finding import Finding, ok, warn
from streamweir.config.model import Config
from streamweir.server.telemetry.otel.client import OtlpClient
from streamweir.server.telemetry.otel.queue import METRICS, TRACES

_SUBJECT = "collector"
_SAID = {
    "upstream_bad_response": "its answer cannot be read",
    "upstream_connect_failed": "no connection",
    "upstream_dns_failed": "its name could not be looked up",
    "upstream_timeout": "no answer in time",
    "upstream_tls_failed": "no connection by TLS",
}


async def check_collector(config: Config, timeout_s: float) -> list[Finding]:
    settings = config.telemetry
    if settings.endpoint is None:
        return []
    client = OtlpClient(structs.replace(settings, timeout_s=min(settings.timeout_s, timeout_s)))
    signals = [name for name, is_on in ((TRACES, settings.traces), (METRICS, settings.metrics)) if is_on]
    try:
        outcomes = await asyncio.gather(*(client.send(f"/v1/{name}", b"") for name in signals))
    finally:
        await client.close()
    failed = [(name, found.error) for name, found in zip(signals, outcomes, strict=True) if found.error]
    if failed:
        message = "; ".join(f"{name}: {_SAID.get(error, error)}" for name, error in failed)
        advice = (
            "requests are served without it: check telemetry.endpoint, its headers, and that it takes OTLP over HTTP"
        )
        return [warn(_SUBJECT, f"{settings.endpoint}: {message}", advice)]
    return [ok(_SUBJECT, f"{settings.endpoint} takes {' and '.join(signals) or 'nothing, for both signals are off'}")]
