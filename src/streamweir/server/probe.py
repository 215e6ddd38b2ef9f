"""What `/health` and `/ready` answer, for whoever answers them: the gateway's loop, or a thread of its own.

Both are bytes that need nothing but one look at the readiness: no route, no task, no lock.
"""

import time

from streamweir.server.message import Answer, Headers
from streamweir.server.readiness import Readiness
from streamweir.wire import jsonio

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
    readiness.asked_at = time.monotonic()
    body = jsonio.encode(readiness.document())
    return Answer(status=200 if readiness.is_ready else 503, headers=_HEADERS, body=body)
