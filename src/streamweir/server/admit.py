"""Who asks for what, told by the head of a request alone, before its body is read.

The order is the law: where it goes (404, 405), whether we take requests at all (503), who asks
(401, 403), in what form (415), how often (429). So a body is never read, and no `100 Continue`
sent, for a request that cannot succeed. Nothing here waits.
"""

import ipaddress
import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from streamweir.core.errors import CallerError, GatewayFault
from streamweir.dialects.base import Dialect
from streamweir.dialects.table import DIALECTS
from streamweir.policy.access import Key, check, read_secret
from streamweir.server.message import Headers, Request
from streamweir.server.setup import Setup

_CLIENT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Resource(StrEnum):
    CHAT = "chat"
    MODELS = "models"


_METHODS = {Resource.CHAT: ("POST",), Resource.MODELS: ("GET", "HEAD")}


class Refusal(Exception):
    """An error with the headers that go with it."""

    def __init__(self, error: CallerError | GatewayFault, headers: Headers = ()) -> None:
        super().__init__(error)
        self.error = error
        self.headers = headers


class Where(Struct, frozen=True):
    """A path of the data plane. `rest` is the model's id in `/v1/models/{id}`."""

    dialect: Dialect | None
    resource: Resource | None
    rest: str = ""


class Admission(Struct, frozen=True, kw_only=True):
    setup: Setup
    dialect: Dialect
    key: Key
    where: Where
    headers: Headers
    """For the answer: how much of the rate is left."""


def find(path: str) -> Where | None:
    """None: not of the data plane."""
    known = _PATHS.get(path)
    if known is not None:
        return known
    first, _, rest = path[1:].partition("/")
    dialect = DIALECTS.get(first)
    if dialect is not None:
        first, _, rest = rest.partition("/")
    if first != "v1":
        return None
    if rest.startswith("models/"):
        return Where(dialect, Resource.MODELS, rest.removeprefix("models/"))
    return Where(dialect, None)


def admit(
    request: Request, where: Where, setup: Setup, closed: GatewayFault | None, now_s: float, now: float
) -> Admission:
    """`closed`: why nobody is let in at the moment. `now_s` is the loop's clock, for the rate; `now` the world's."""
    if where.resource is None:
        raise Refusal(CallerError("unknown_url", f"Unknown request URL: {request.method} {request.path[:200]}."))
    allowed = _METHODS[where.resource]
    if request.method not in allowed:
        error = CallerError("method_not_allowed", f"Not allowed here: {request.method}. Use {' or '.join(allowed)}.")
        raise Refusal(error, (("allow", ", ".join(allowed)),))
    if closed is not None:
        raise Refusal(closed)
    key = authenticate(request.headers, setup, now)
    if where.resource not in key.scopes:
        raise Refusal(CallerError("insufficient_permissions", f"This key has no scope '{where.resource}'."))
    if where.resource is Resource.CHAT:
        _check_form(request.headers)
    return Admission(
        setup=setup,
        dialect=where.dialect or _own_dialect(key) or setup.dialect,
        key=key,
        where=where,
        headers=_check_rate(key, setup, now_s) if where.resource is Resource.CHAT else (),
    )


def authenticate(headers: Mapping[str, str], setup: Setup, now: float) -> Key:
    secret = read_secret(headers)
    if secret is None:
        raise Refusal(CallerError("missing_api_key", "No API key was sent: use 'Authorization: Bearer KEY'."))
    key = setup.keys.find(secret)
    if key is None:
        raise Refusal(CallerError("invalid_api_key", "The API key is not valid."))
    error = check(key, now)
    if error is not None:
        raise Refusal(error)
    return key


def dialect_of(request: Request, setup: Setup) -> Dialect:
    """For an answer to a request that was not admitted: by its path, else by its key if it has a good one."""
    where = find(request.path)
    if where is not None and where.dialect is not None:
        return where.dialect
    key = key_of(request, setup)
    return (_own_dialect(key) if key is not None else None) or setup.dialect


def key_of(request: Request, setup: Setup) -> Key | None:
    """Whose secret was sent, whether or not it may be used."""
    secret = read_secret(request.headers)
    return setup.keys.find(secret) if secret is not None else None


def peer_of(request: Request, setup: Setup) -> str:
    """Who asks: the other end of the connection or, where that is a trusted proxy, whom it names."""
    trusted = setup.config.server.trusted_proxies
    if not trusted or not _is_in(request.peer, trusted):
        return request.peer
    named = [part.strip() for part in request.headers.get("x-forwarded-for", "").split(",") if part.strip()]
    for address in reversed(named):
        if not _is_address(address):
            break
        if not _is_in(address, trusted):
            return address
    return request.peer


def is_local(request: Request) -> bool:
    """From this machine, and not on behalf of another."""
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    return _is_in(request.peer, ("127.0.0.0/8", "::1/128"))


def client_id_of(request: Request) -> str | None:
    sent = request.headers.get("x-request-id", "")
    return sent if _CLIENT_ID.fullmatch(sent) else None


def _check_form(headers: Mapping[str, str]) -> None:
    if headers.get("content-encoding", "identity").lower() != "identity":
        message = "The request body must not be compressed."
        raise Refusal(CallerError("unsupported_content_encoding", message))
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = "The request body must be JSON: send 'Content-Type: application/json'."
        raise Refusal(CallerError("unsupported_media_type", message))


def _check_rate(key: Key, setup: Setup, now_s: float) -> Headers:
    if key.rpm is None:
        return ()
    rate = setup.rates.admit(key.name, key.rpm, now_s)
    headers: Headers = (
        ("x-ratelimit-limit-requests", str(rate.limit)),
        ("x-ratelimit-remaining-requests", str(rate.remaining)),
        ("x-ratelimit-reset-requests", f"{rate.reset_s:.3f}s"),
    )
    if not rate.allowed:
        message = f"Rate limit reached: {key.rpm} requests per minute."
        raise Refusal(CallerError("rate_limit_exceeded", message, retry_after_s=rate.retry_after_s), headers)
    return headers


def _own_dialect(key: Key) -> Dialect | None:
    return DIALECTS[key.dialect] if key.dialect is not None else None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(address: str, networks: tuple[str, ...]) -> bool:
    if not _is_address(address):
        return False
    found = ipaddress.ip_address(address)
    return any(found in ipaddress.ip_network(network, strict=False) for network in networks)


_PATHS: dict[str, Where] = {
    f"{prefix}/v1{path}": Where(dialect, resource)
    for prefix, dialect in [("", None), *((f"/{name}", value) for name, value in DIALECTS.items())]
    for path, resource in (("/chat/completions", Resource.CHAT), ("/models", Resource.MODELS))
}
