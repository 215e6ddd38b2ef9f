"""Checks `[server.cors]`: origins as browsers send them."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from streamweir.config.error import ConfigProblem, entry
from streamweir.config.model import Cors

_PORTS = {"http": 80, "https": 443}


def check_cors(cors: Cors) -> Iterator[ConfigProblem]:
    if not cors.origins:
        reason = 'is empty: name origins such as "https://app.example.com", or "*"'
        yield ConfigProblem("server.cors.origins", reason)
    if "*" in cors.origins and len(cors.origins) > 1:
        yield ConfigProblem("server.cors.origins", '"*" allows every origin: name no others beside it')
    for place, origin in enumerate(cors.origins):
        if origin != "*" and origin != _as_sent(origin):
            reason = (
                'must be an origin as browsers send it: scheme, host and port in small letters, without "/" at the end '
                'and without the usual port, such as "https://app.example.com" or "http://localhost:3000"'
            )
            yield ConfigProblem(entry("server.cors.origins", place), reason)


def _as_sent(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
        port, host = parts.port, parts.hostname
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not host or not origin.isascii() or any(each in origin for each in " *@\\"):
        return None
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + (f":{port}" if port not in (None, _PORTS[parts.scheme]) else "")
