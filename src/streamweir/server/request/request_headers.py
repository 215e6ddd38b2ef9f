"""What a caller sets for its request in headers of the gateway: the idempotency key and the timeout."""

import re
from collections.abc import Mapping
from hashlib import sha256

from streamweir.core.errors import CallerError
from streamweir.server.streams.frames import Idempotency

_MAX_KEY_LENGTH = 255
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def read_idempotency(headers: Mapping[str, str], api: str, body: bytes) -> Idempotency | None:
    """Of a request with an `Idempotency-Key`. `api` is part of what is asked. Raises `CallerError`."""
    sent = headers.get("idempotency-key")
    if sent is None:
        return None
    if not 0 < len(sent) <= _MAX_KEY_LENGTH:
        raise CallerError("invalid_value", f"An Idempotency-Key has 1 to {_MAX_KEY_LENGTH} characters.")
    asked = sha256(api.encode() + b"\n")
    asked.update(body)
    return Idempotency(sha256(sent.encode("latin-1", "replace")).digest(), asked.digest())


def read_timeout(headers: Mapping[str, str]) -> float | None:
    """The caller's own limit for the whole request, in seconds. None: it has set none."""
    sent = headers.get("x-request-timeout")
    if sent is None:
        return None
    seconds = float(sent) if _SECONDS.fullmatch(sent) else 0.0
    if seconds <= 0.0:
        raise CallerError(
            "invalid_value", "x-request-timeout must be a number of seconds above 0, such as 30 or 2.5, without a unit."
        )
    return seconds
