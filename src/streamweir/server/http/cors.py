"""Answers for pages of other sites (CORS), where the operator has allowed their origins: `[server.cors]`.

    preflight (OPTIONS)    answered here, without a key, before admission
    any other request      its answer gets the headers that let the page read it, errors included

Only paths of the data plane come here, never those of the console and its API. Cookies are never allowed: a page must
have a key, and whoever can open the page can read it. What a page may send is a list of names; it may read every header
of an answer. Pure.
"""

import re

from streamweir.config.model import Cors
from streamweir.server.http.message import Answer, Headers, Request, Response

ANY = "*"
_MAX_AGE_S = 7200
"""How long a browser remembers a preflight. Chromium allows no longer."""
_MAX_NAMES = 64
_NAMES = frozenset(
    {
        "accept",
        "anthropic-beta",
        "anthropic-dangerous-direct-browser-access",
        "anthropic-version",
        "api-key",
        "authorization",
        "baggage",
        "cache-control",
        "content-type",
        "http-referer",
        "idempotency-key",
        "last-event-id",
        "openai-beta",
        "openai-organization",
        "openai-project",
        "session_id",
        "traceparent",
        "tracestate",
        "user-agent",
        "x-api-key",
        "x-app",
        "x-claude-code-session-id",
        "x-request-id",
        "x-request-timeout",
        "x-title",
    }
)
_FAMILIES = re.compile(r"x-(?:streamweir|stainless)-[a-z0-9-]{1,64}")
_NOT_ALLOWED: Headers = (("vary", "origin"),)


def begin_cors(cors: Cors, request: Request, response: Response) -> bool:
    """Sets the headers of the answer. True: it was a preflight, which is answered."""
    response.more_headers = headers = cors_headers(cors, request.headers.get("origin"))
    if request.method != "OPTIONS" or "access-control-request-method" not in request.headers:
        return False
    allowed: Headers = ()
    if headers and headers is not _NOT_ALLOWED:
        names = ", ".join(allowed_names(request.headers.get("access-control-request-headers", "")))
        allowed = (
            ("access-control-allow-methods", "GET, POST, DELETE"),
            ("access-control-allow-headers", names),
            ("access-control-max-age", str(_MAX_AGE_S)),
        )
    response.send(Answer(status=204, headers=allowed))
    return True


def cors_headers(cors: Cors, origin: str | None) -> Headers:
    """Of an answer to a request from this origin. None: it does not come from a page of another site."""
    if ANY in cors.origins:
        return (("access-control-allow-origin", ANY), ("access-control-expose-headers", "*"))
    if origin is None or origin not in cors.origins:
        return _NOT_ALLOWED
    return (
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", "*"),
        *_NOT_ALLOWED,
    )


def allowed_names(asked: str) -> list[str]:
    """Those of the headers that a page asks for which it may send."""
    names = [name.strip().lower() for name in asked.split(",", _MAX_NAMES)[:_MAX_NAMES]]
    return [name for name in names if name in _NAMES or _FAMILIES.fullmatch(name)]
