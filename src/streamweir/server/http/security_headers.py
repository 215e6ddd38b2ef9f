"""The headers that guard the console (docs/spec/security.md S13): on every answer below `/console` and `/api`,
errors included.

They stand over whatever an answer says of the same names. The policy lets a page load files of this
server alone and makes no exception for a line of script or style within it; nothing may frame it, keep
a copy of it or learn where its reader came from. Pure.
"""

from collections.abc import Callable

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.server.http.message import Answer, Headers, Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
SEAL: Headers = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cache-control", "no-store"),
)
ONLY_TLS: Headers = (("strict-transport-security", "max-age=31536000"),)
"""Where TLS ends here. Behind a proxy it is the proxy's to say."""

_ROOTS = ("/console", "/api")
_BELOW = ("/console/", "/api/")


def needs_security_headers(path: str) -> bool:
    """By a path as it was sent: `/%61pi` is not `/api`, to the router neither."""
    return path in _ROOTS or path.startswith(_BELOW)


def with_security_headers(path: str, headers: Headers, *, is_secure: bool) -> Headers:
    return add_security_headers(headers, is_secure=is_secure) if needs_security_headers(path) else headers


def add_security_headers(headers: Headers, *, is_secure: bool) -> Headers:
    seal = SEAL + ONLY_TLS if is_secure else SEAL
    names = {name for name, _ in seal}
    return tuple(each for each in headers if each[0].lower() not in names) + seal


class SecuredResponse:
    """See `server.http.message.Response`: the writer of an answer to the console that does not come from its routes."""

    __slots__ = ("_is_secure", "_response")

    def __init__(self, response: Response, *, is_secure: bool) -> None:
        self._response = response
        self._is_secure = is_secure

    @property
    def on_gone(self) -> Callable[[], None] | None:
        return self._response.on_gone

    @on_gone.setter
    def on_gone(self, tell: Callable[[], None] | None) -> None:
        self._response.on_gone = tell

    @property
    def on_full(self) -> Callable[[], None] | None:
        return self._response.on_full

    @on_full.setter
    def on_full(self, tell: Callable[[], None] | None) -> None:
        self._response.on_full = tell

    @property
    def on_drained(self) -> Callable[[], None] | None:
        return self._response.on_drained

    @on_drained.setter
    def on_drained(self, tell: Callable[[], None] | None) -> None:
        self._response.on_drained = tell

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
        self._response.send(structs.replace(answer, headers=self._sealed(answer.headers)))

    def start(self, status: int, headers: Headers, first: bytes = b"", /) -> None:
        self._response.start(status, self._sealed(headers), first)

    def write(self, data: bytes, /) -> None:
        self._response.write(data)

    def end(self, last: bytes = b"", /) -> None:
        self._response.end(last)

    def cut(self) -> None:
        self._response.cut()

    def read_body(self, most: int | None, done: Callable[[StreamweirError | None], None], /) -> None:
        self._response.read_body(most, done)

    def _sealed(self, headers: Headers) -> Headers:
        return add_security_headers(headers, is_secure=self._is_secure)
