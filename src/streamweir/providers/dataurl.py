"""Files that travel inside their own address: `data:image/png;base64,...`.

For the providers that take the bytes and their media type apart. Any other address is theirs to
judge: it is never opened here.
"""

from base64 import b64encode
from urllib.parse import unquote_to_bytes

_MISSPELT = {"image/jpg": "image/jpeg"}  # common, and refused


def read_data_url(url: str) -> tuple[str, str] | None:
    """The media type and the bytes as base64; None where this is no such address."""
    if url[:5].lower() != "data:":
        return None
    head, comma, data = url[5:].partition(",")
    if not comma:
        return None
    kind, *parameters = (part.strip().lower() for part in head.split(";"))
    kind = _MISSPELT.get(kind, kind) or "text/plain"
    return kind, data if "base64" in parameters else b64encode(unquote_to_bytes(data)).decode()
