"""Who may use the API, told by the head of a request: a secret in it, or the cookie of a session.

    Authorization: Bearer    the admin secret, or a key with the scope `admin`; it goes before any cookie
    the session's cookie     opened with the admin secret; what changes something needs its token too, and
                             must come from a page of this server (spec/security.md S15, S16)

A wrong secret and an unknown one are answered alike, and counted (`api.tries`). Nothing here looks at
a URL that the caller put together; `Host` is held against `Origin` and used for nothing else.
"""

import hmac
from contextlib import suppress

from starlette.types import Scope

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.policy.access import check, read_secret
from streamweir.policy.secret import ADMIN, csrf_of
from streamweir.server.admit import peer_of
from streamweir.server.api.actor import NOBODY, OPERATOR, Actor, forbidden
from streamweir.server.api.context import Context
from streamweir.server.control import Access, Gate
from streamweir.server.message import Request
from streamweir.store.engine import StoreUnavailable
from streamweir.store.session import find_session, is_admin_secret, touch_session

COOKIE = "streamweir"
SECURE_COOKIE = "__Host-streamweir"
"""A browser takes it by TLS alone, for this host alone."""
CSRF = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD"})

_BY_SESSION = Actor(name=OPERATOR.name, is_operator=True, by_session=True)


def api_gates(context: Context) -> dict[Access, Gate]:
    async def admin(request: Request, scope: Scope) -> StreamweirError | None:
        try:
            actor = await _actor(context, request)
        except StreamweirError as error:
            return error
        scope.setdefault("state", {})["actor"] = actor
        return None

    async def operator(request: Request, scope: Scope) -> StreamweirError | None:
        error = await admin(request, scope)
        if error is None and not actor_of(scope).is_operator:
            return forbidden("This is for the operator alone.")
        return error

    return {Access.ADMIN: admin, Access.OPERATOR: operator}


def actor_of(scope: Scope) -> Actor:
    """As a gate has found; nobody where there was none."""
    actor = scope.get("state", {}).get("actor", NOBODY)
    assert isinstance(actor, Actor)  # noqa: S101 (for the type checker)
    return actor


async def check_admin(context: Context, secret: str, request: Request) -> None:
    """Raises `CallerError` where it is not the admin secret, or too many were not."""
    peer, tries = peer_of(request, context.setup()), context.tries
    tries.check(peer, context.clock_ms())
    is_right = await context.read(lambda conn: is_admin_secret(conn, secret))
    tries.check(peer, context.clock_ms())  # others may have failed meanwhile: who asks at once gets no further
    if not is_right:
        tries.failed(peer, context.clock_ms())
        raise wrong_secret()


def wrong_secret() -> CallerError:
    return CallerError("invalid_api_key", "The secret or the API key is not valid.")


def cookie_of(request: Request, is_secure: bool) -> str | None:
    wanted = SECURE_COOKIE if is_secure else COOKIE
    for pair in request.headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted:
            return value
    return None


def session_cookie(token: str, is_secure: bool) -> str:
    """The browser forgets it where `token` is empty."""
    name, mark = (SECURE_COOKIE, "; Secure") if is_secure else (COOKIE, "")
    age = "" if token else "; Max-Age=0"
    return f"{name}={token}; Path=/; HttpOnly; SameSite=Strict{mark}{age}"


def check_origin(request: Request) -> None:
    """A browser says which page a request comes from; a page of another site has no business here."""
    origin = request.headers.get("origin")
    if origin is None and request.method in SAFE:
        return
    if origin is None or origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
        raise forbidden("This does not come from a page of this server.")


async def _actor(context: Context, request: Request) -> Actor:
    secret = read_secret(request.headers)
    if secret is None:
        return await _by_session(context, request)
    if secret.startswith(ADMIN):
        await check_admin(context, secret, request)
        return OPERATOR
    return _by_key(context, secret)


def _by_key(context: Context, secret: str) -> Actor:
    directory, now = context.books.directory, context.clock_ms() / 1000
    key = directory.find(secret, now)
    if key is None:
        raise wrong_secret()
    error = check(key, now) or directory.why_unsure(key)
    if error is not None:
        raise error
    if "admin" not in key.scopes:
        raise forbidden("This key has no scope 'admin'.")
    return Actor(name=f"key:{key.id}", workspace_id=directory.workspace_of(key).id, key_id=key.id)


async def _by_session(context: Context, request: Request) -> Actor:
    token = cookie_of(request, context.is_secure)
    if token is None:
        raise CallerError("missing_api_key", "No secret was sent: use 'Authorization: Bearer SECRET'.")
    at_ms = context.clock_ms()
    session = await context.read(lambda conn: find_session(conn, token, at_ms))
    if session is None:
        raise CallerError("invalid_api_key", "The session is over.")
    check_origin(request)
    sent = request.headers.get(CSRF, "").encode("latin-1")
    if request.method not in SAFE and not hmac.compare_digest(sent, csrf_of(token).encode()):
        raise forbidden(f"What changes something needs the session's token in '{CSRF}'.")
    if session.needs_touch(at_ms):
        with suppress(StoreUnavailable):  # it then ends a little earlier
            await context.store.write(lambda conn: touch_session(conn, session.digest, at_ms))
    return _BY_SESSION
