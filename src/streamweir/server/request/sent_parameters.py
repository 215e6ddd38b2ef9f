"""What a caller asked for, for the record: the model of a body that was refused.

Never what was said: no text of a prompt, and of a name only a bounded part, sanitized.
"""

import msgspec
from msgspec import Struct

from streamweir.server.telemetry.sanitize import clean
from streamweir.store.db.request_log import MAX_NAME_LENGTH

MAX_READ_BYTES = 1 << 20
"""Of a refused body. What is not asked for is skipped, at about a millisecond for so many."""


class _Sent(Struct):
    model: str | None = None


_decode = msgspec.json.Decoder(_Sent).decode


def model_in(body: bytes) -> str | None:
    """The model that a refused body names, as far as that can be read. Nobody has checked the name."""
    if not body or len(body) > MAX_READ_BYTES:
        return None
    try:
        model = _decode(body).model
    except (msgspec.DecodeError, RecursionError):  # neither JSON, nor an object, nor a name
        return None
    return clean(model, MAX_NAME_LENGTH) if model else None
