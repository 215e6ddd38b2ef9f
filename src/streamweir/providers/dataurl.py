"""Data URLs: files inside their own address, `data:image/png;base64,...`.

For the providers that need the bytes and their media type separately. Other addresses are passed on and never opened
here.
"""

from base64 import b64encode
from urllib.parse import unquote_to_bytes

_MISSPELT = {"image/jpg": "image/jpeg"}  # common, and refused


def read_data_url(url: str) -> tuple[str, str] | None:
    """The media type and the content as base64; None if this is not a data URL."""
    if url[:5].lower() != "data:":
        return None
    head, comma, data = url[5:].partition(",")
    if not comma:
        return None
    kind, *parameters = (part.strip().lower() for part in head.split(";"))
    kind = _MISSPELT.get(kind, kind) or "text/plain"
    return kind, data if "base64" in parameters else b64encode(unquote_to_bytes(data)).decode()
