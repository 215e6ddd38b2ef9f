"""Sends the OpenTelemetry collector a message without spans or points, as the export sends those of requests.

What it refuses is a warning: requests are served without it.
"""

from msgspec import structs

from streamweir.cli.commands.doctor.finding import Finding, ok, warn
from streamweir.config.model import Config
from streamweir.server.telemetry.otel.client import OtlpClient
from streamweir.server.telemetry.otel.queue import METRICS, TRACES

_SUBJECT = "collector"


async def check_collector(config: Config, timeout_s: float) -> list[Finding]:
    settings = config.telemetry
    if settings.endpoint is None:
        return []
    client = OtlpClient(structs.replace(settings, timeout_s=min(settings.timeout_s, timeout_s)))
    signals = [name for name, is_on in ((TRACES, settings.traces), (METRICS, settings.metrics)) if is_on]
    try:
        found = {name: (await client.send(f"/v1/{name}", b"")).error for name in signals}
    finally:
        await client.close()
    refused = [f"{name}: {error}" for name, error in found.items() if error]
    if refused:
        advice = (
            "requests are served without it: check telemetry.endpoint, its headers, and that it takes OTLP over HTTP"
        )
        return [warn(_SUBJECT, f"{settings.endpoint}: {'; '.join(refused)}", advice)]
    return [ok(_SUBJECT, f"{settings.endpoint} takes {' and '.join(signals) or 'nothing, for both signals are off'}")]
