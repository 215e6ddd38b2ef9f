"""Who may use the API, told by the head of a request: a secret in it, or the cookie of a session.

    Authorization: Bearer    the admin secret, or a key with the scope `admin`; it goes before any cookie
    the session's cookie     opened with either, and good for as long as that is; what changes something needs
                             its token too, and must come from a page of this server (docs/spec/security.md S15, S16)

A wrong secret and an unknown one are answered alike, and counted (`server.control.api.context`); the right
one passes however many were wrong, so that nobody can lock the operator out. Nothing here looks at a URL that the
caller put together; `Host` is held against `Origin` and used for nothing else.
"""

import hmac
from contextlib import suppress

from starlette.types import Scope

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.policy.access import Key, check, read_secret
from streamweir.policy.secret import ADMIN, csrf_of
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.control.api.actor import NOBODY, OPERATOR, Actor, forbidden
from streamweir.server.control.api.context import Context
from streamweir.server.control.routing import Access, Gate
from streamweir.server.http.message import Request
from streamweir.server.request.admission import peer_of
from streamweir.store.db.base import StoreUnavailable
from streamweir.store.keys.sessions import Session, find_session, is_admin_secret, touch_session

COOKIE = "streamweir"
SECURE_COOKIE = "__Host-streamweir"
"""A browser takes it by TLS alone, for this host alone."""
CSRF = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD"})

_BY_SESSION = Actor(name=OPERATOR.name, is_operator=True, by_session=True)


def api_gates(context: Context) -> dict[Access, Gate]:
    admin = _gate(context, is_use=True)

    async def operator(request: Request, scope: Scope) -> StreamweirError | None:
        error = await admin(request, scope)
        if error is None and not actor_of(scope).is_operator:
            return forbidden("Only the operator may do this: use the admin secret.")
        return error

    return {Access.ADMIN: admin, Access.VIEWER: _gate(context, is_use=False), Access.OPERATOR: operator}


def _gate(context: Context, *, is_use: bool) -> Gate:
    async def gate(request: Request, scope: Scope) -> StreamweirError | None:
        try:
            actor = await recognize(context, request, is_use=is_use)
        except StreamweirError as error:
            return error
        scope.setdefault("state", {})["actor"] = actor
        return None

    return gate


def actor_of(scope: Scope) -> Actor:
    """As a gate has found; nobody where there was none."""
    actor = scope.get("state", {}).get("actor", NOBODY)
    assert isinstance(actor, Actor)  # noqa: S101 (for the type checker)
    return actor


async def find_actor(context: Context, secret: str, request: Request) -> Actor:
    """Who logs in. Raises `StreamweirError` where nobody may with this, or too many secrets were wrong."""
    if secret.startswith(ADMIN):
        await check_admin(context, secret, request)
        return OPERATOR
    await context.load_key(secret)
    if context.accounting.directory.find(secret, context.clock_ms() / 1000) is None:
        raise _guessed(context, request)
    return _by_key(context, secret)


async def check_admin(context: Context, secret: str, request: Request) -> None:
    """Raises `CallerError` where it is not the admin secret."""
    if not await context.read(lambda conn: is_admin_secret(conn, secret)):
        raise _guessed(context, request)


def _guessed(context: Context, request: Request) -> CallerError:
    """What a wrong secret is answered with. Counts it."""
    peer, at_ms = peer_of(request, context.runtime()), context.clock_ms()
    return context.failed_logins.failed(peer, at_ms) or wrong_secret()


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
        raise forbidden("The request's Origin is not this server.")


async def recognize(context: Context, request: Request, *, is_use: bool = True, is_guess: bool = True) -> Actor:
    """Who asks. Raises `StreamweirError` where nobody may.

    `is_use`: a session lasts longer for it. `is_guess`: False of a secret that was right before, which is looked at
    however many wrong ones came from there, and is none of them.
    """
    secret = read_secret(request.headers)
    if secret is None:
        return await _by_session(context, request, is_use)
    if not secret.startswith(ADMIN):
        await context.load_key(secret)
        return _by_key(context, secret)
    if is_guess:
        await check_admin(context, secret, request)
    elif not await context.read(lambda conn: is_admin_secret(conn, secret)):
        raise wrong_secret()
    return OPERATOR


def _by_key(context: Context, secret: str) -> Actor:
    directory, now = context.accounting.directory, context.clock_ms() / 1000
    key = directory.find(secret, now)
    if key is None:
        raise wrong_secret()
    error = check(key, now) or directory.stale_reason(key)
    if error is not None:
        raise error
    if "admin" not in key.scopes:
        raise forbidden("This key has no scope 'admin'.")
    return _actor_of(directory, key)


async def _by_session(context: Context, request: Request, is_use: bool) -> Actor:
    token = cookie_of(request, context.is_secure)
    if token is None:
        raise CallerError("missing_api_key", "No secret was sent: use 'Authorization: Bearer SECRET'.")
    at_ms = context.clock_ms()
    session = await context.read(lambda conn: find_session(conn, token, at_ms))
    actor = _holder_of(context, session, at_ms) if session is not None else None
    if session is None or actor is None:
        raise CallerError("invalid_api_key", "The session has ended. Sign in again.")
    check_origin(request)
    sent = request.headers.get(CSRF, "").encode("latin-1")
    if request.method not in SAFE and not hmac.compare_digest(sent, csrf_of(token).encode()):
        raise forbidden(f"A change needs the session's token in the header '{CSRF}'.")
    if is_use and session.needs_touch(at_ms):
        with suppress(StoreUnavailable):  # it then ends a little earlier
            await context.store.write(lambda conn: touch_session(conn, session.digest, at_ms))
    return actor


def _holder_of(context: Context, session: Session, at_ms: int) -> Actor | None:
    """Who it was opened by. None: by a key that may no more, or with a secret that is no longer that key's."""
    if session.key_id is None:
        return _BY_SESSION
    directory, now = context.accounting.directory, at_ms / 1000
    key = directory.find_digest(session.key_digest or b"", now)
    if key is None or key.id != session.key_id or check(key, now) is not None or "admin" not in key.scopes:
        return None
    error = directory.stale_reason(key)
    if error is not None:
        raise error
    return _actor_of(directory, key, by_session=True)


def _actor_of(directory: KeyDirectory, key: Key, *, by_session: bool = False) -> Actor:
    workspace_id = directory.workspace_of(key).id
    return Actor(name=f"key:{key.id}", workspace_id=workspace_id, key_id=key.id, by_session=by_session)
