"""The answers of `/health` and `/ready`, for the gateway's event loop and for the health port's thread.

They only read the readiness: no route, no task, no lock.
"""

import re
import time

from streamweir.server.control.readiness import Readiness
from streamweir.server.http.message import Answer, Headers
from streamweir.server.http.response import http_date, status_line
from streamweir.wire import jsonio

_PLAIN = re.compile(rb"GET (/health|/ready) HTTP/1\.[01]\r\n")
PROBES = frozenset({"/health", "/ready"})
_HEADERS: Headers = (
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
)
_HEALTHY = Answer(status=200, headers=_HEADERS, body=jsonio.encode({"status": "ok"}))


def probe_answer(path: str, readiness: Readiness) -> Answer:
    """`path`: one of `PROBES`."""
    if path == "/health":
        return _HEALTHY
    readiness.probed_at = time.monotonic()
    body = jsonio.encode(readiness.document())
    return Answer(status=200 if readiness.is_ready else 503, headers=_HEADERS, body=body)


def plain_probe(data: bytes, readiness: Readiness) -> bytes | None:
    """The answer to a probe that consists of these bytes. None: it is no probe, or must be parsed completely."""
    line = _PLAIN.match(data)
    if line is None or data.find(b"\r\n\r\n") != len(data) - 4:
        return None
    return as_bytes(probe_answer(line[1].decode("ascii"), readiness))


def as_bytes(answer: Answer, *, has_body: bool = True) -> bytes:
    """With the end of the connection."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
    head = f"{status_line(answer.status)}{fields}content-length: {len(answer.body)}\r\nconnection: close\r\ndate: "
    return head.encode("latin-1") + http_date() + b"\r\n\r\n" + (answer.body if has_body else b"")
