"""The security headers of the console (docs/spec/security.md S13): on every answer below `/console` and `/api`,
errors included.

They replace headers of the same names. The policy allows a page to load files of this server only, and no inline script
or style. No page may frame it, no cache may store it, and no referrer is sent. Pure.
"""

from collections.abc import Callable

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.server.http.message import Answer, Headers, Response

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
SECURITY_HEADERS: Headers = (
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cache-control", "no-store"),
)
STRICT_TRANSPORT_SECURITY: Headers = (("strict-transport-security", "max-age=31536000"),)
"""If TLS ends in the gateway. Behind a proxy, the proxy must set it."""

_ROOTS = ("/console", "/api")
_BELOW = ("/console/", "/api/")


def needs_security_headers(path: str) -> bool:
    """By the path as it was sent: `/%61pi` is not `/api`, here and in the router."""
    return path in _ROOTS or path.startswith(_BELOW)


def with_security_headers(path: str, headers: Headers, *, is_secure: bool) -> Headers:
    return add_security_headers(headers, is_secure=is_secure) if needs_security_headers(path) else headers


def add_security_headers(headers: Headers, *, is_secure: bool) -> Headers:
    added = SECURITY_HEADERS + STRICT_TRANSPORT_SECURITY if is_secure else SECURITY_HEADERS
    names = {name for name, _ in added}
    return tuple(each for each in headers if each[0].lower() not in names) + added


class SecuredResponse:
    """See `server.http.message.Response`: adds the headers to an answer that no route of the console made."""

    __slots__ = ("_is_secure", "_response")

    def __init__(self, response: Response, *, is_secure: bool) -> None:
        self._response = response
        self._is_secure = is_secure

    @property
    def more_headers(self) -> Headers:
        return self._response.more_headers

    @more_headers.setter
    def more_headers(self, headers: Headers) -> None:
        self._response.more_headers = headers

    @property
    def on_gone(self) -> Callable[[], None] | None:
        return self._response.on_gone

    @on_gone.setter
    def on_gone(self, callback: Callable[[], None] | None) -> None:
        self._response.on_gone = callback

    @property
    def on_full(self) -> Callable[[], None] | None:
        return self._response.on_full

    @on_full.setter
    def on_full(self, callback: Callable[[], None] | None) -> None:
        self._response.on_full = callback

    @property
    def on_drained(self) -> Callable[[], None] | None:
        return self._response.on_drained

    @on_drained.setter
    def on_drained(self, callback: Callable[[], None] | None) -> None:
        self._response.on_drained = callback

    @property
    def started(self) -> bool:
        return self._response.started

    @property
    def over(self) -> bool:
        return self._response.over

    @property
    def gone(self) -> bool:
        return self._response.gone

    @property
    def full(self) -> bool:
        return self._response.full

    def send(self, answer: Answer, /) -> None:
        self._response.send(structs.replace(answer, headers=self._secured(answer.headers)))

    def start(self, status: int, headers: Headers, first: bytes = b"", /) -> None:
        self._response.start(status, self._secured(headers), first)

    def write(self, data: bytes, /) -> None:
        self._response.write(data)

    def end(self, last: bytes = b"", /) -> None:
        self._response.end(last)

    def cut(self) -> None:
        self._response.cut()

    def read_body(self, max_bytes: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        self._response.read_body(max_bytes, done)

    def arrived_body(self) -> bytes:
        return self._response.arrived_body()

    def _secured(self, headers: Headers) -> Headers:
        return add_security_headers(headers, is_secure=self._is_secure)
