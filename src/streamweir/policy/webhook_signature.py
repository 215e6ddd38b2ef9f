"""Signatures of webhooks, by the Standard Webhooks specification: `v1,` and the HMAC-SHA256 of id, time and body.

The secret is `whsec_` and base64. While it is being replaced there are two, and a signature by each, so that a receiver
accepts the message with either. Pure: the time is an argument.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

PREFIX = "whsec_"
MIN_BYTES = 24
MAX_BYTES = 64


def read_secret(text: str) -> bytes:
    """Raises `ValueError`, whose message does not contain the text."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
    except binascii.Error:
        key = b""
    if not MIN_BYTES <= len(key) <= MAX_BYTES:
        raise ValueError(f"must be whsec_ and {MIN_BYTES} to {MAX_BYTES} bytes in base64")
    return key


def signed_headers(secrets: Sequence[str], id: str, at_s: int, body: bytes) -> tuple[tuple[str, str], ...]:
    message = b"%b.%d.%b" % (id.encode(), at_s, body)
    signatures = [
        "v1," + base64.b64encode(hmac.digest(read_secret(secret), message, hashlib.sha256)).decode()
        for secret in secrets
    ]
    return (
        ("webhook-id", id),
        ("webhook-timestamp", str(at_s)),
        ("webhook-signature", " ".join(signatures)),
    )
