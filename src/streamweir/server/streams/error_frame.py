"""The error at the end of a stream whose encoder is not here: that of another node, which has failed.

It has the format of the stream's API. The ids that the API repeats in its errors are those of the first event.
"""

import time
from typing import Any

from streamweir.core.errors import StreamweirError
from streamweir.core.events import StreamFailed
from streamweir.frontends.base import Frontend, Reply
from streamweir.server.http.ids import random_bytes
from streamweir.wire import jsonio

_ENTROPY_BYTES = 24


def error_frames(frontend: Frontend, error: StreamweirError, request_id: str, first: bytes, events: int) -> bytes:
    """`first`: the first event of the stream, or nothing. `events`: how many were sent."""
    head = _head(first)
    inner = head.get("response") or head.get("message")
    shown = inner if isinstance(inner, dict) else head
    id, model, created = shown.get("id"), shown.get("model"), shown.get("created") or shown.get("created_at")
    reply = Reply(
        id=id if isinstance(id, str) else frontend.make_id(random_bytes(_ENTROPY_BYTES)),
        now=lambda: int(time.time()),
        request_id=request_id,
        model=model if isinstance(model, str) else None,
        created=created if isinstance(created, int) else None,
        pinned=True,
        first_number=events,
    )
    return b"".join(frontend.encoder(reply).feed(StreamFailed(error)))


def _head(event: bytes) -> dict[str, Any]:
    for line in event.splitlines():
        if line.startswith(b"data:"):
            try:
                document = jsonio.decode(line[5:])
            except jsonio.InvalidJson:
                return {}
            return document if isinstance(document, dict) else {}
    return {}
