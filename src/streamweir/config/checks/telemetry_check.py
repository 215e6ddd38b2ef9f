"""Checks the settings for an OpenTelemetry collector. Pure. A reason never contains a URL or a secret."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from streamweir.config.address import fault_of_plain_url, fault_of_proxy
from streamweir.config.checks.header_check import check_headers
from streamweir.config.error import ConfigProblem, member
from streamweir.config.telemetry import Telemetry

_SIGNALS = ("/v1/traces", "/v1/metrics")
_OWN = ("service.name", "service.instance.id", "service.version")
"""Attributes of the resource that the gateway sets itself."""


def check_telemetry(telemetry: Telemetry) -> Iterator[ConfigProblem]:
    if telemetry.endpoint is None:
        return
    faults = {
        "endpoint": _fault_of_endpoint(telemetry.endpoint),
        "proxy": fault_of_proxy(telemetry.proxy) if telemetry.proxy is not None else None,
    }
    for name, fault in faults.items():
        if fault is not None:
            yield ConfigProblem(f"telemetry.{name}", fault)
    yield from check_headers(telemetry.headers, "telemetry.headers")
    for name in telemetry.resource:
        if name in _OWN:
            reason = "use telemetry.service_name" if name == "service.name" else "is set by the gateway itself"
            yield ConfigProblem(member("telemetry.resource", name), reason)
        elif not name or not name.isascii() or not name.isprintable():
            yield ConfigProblem(member("telemetry.resource", name), "must be a name of printable ASCII characters")


def _fault_of_endpoint(url: str) -> str | None:
    fault = fault_of_plain_url(url, ": use headers")
    if fault is not None:
        return fault
    ending = next((each for each in _SIGNALS if urlsplit(url).path.rstrip("/").endswith(each)), None)
    return f"must not end in {ending}, which the gateway adds" if ending else None
