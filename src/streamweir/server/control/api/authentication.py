"""Authentication for the API, by the head of a request: a secret in it, or the cookie of a session.

    Authorization: Bearer    the admin secret, or a key with the scope `admin` or `metrics`; it goes before a cookie
    the session's cookie     opened with either, or by a person, and valid as long as that is; a change also needs the
                             session's token, and must come from a page of this server (docs/spec/security.md S15, S16)

A wrong secret and an unknown one get the same answer, and are counted (`server.control.api.context`). The right secret
is accepted after any number of wrong ones, so that no one can lock the operator out. No URL from the caller is used
here; `Host` is compared with `Origin` and has no other use.
"""

import hmac
from contextlib import suppress

from msgspec import structs
from sqlalchemy import Connection
from starlette.types import Scope

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.policy.access import Key, check, read_secret
from streamweir.policy.permission import REPEATED, Permission, Role
from streamweir.policy.secret import ADMIN, csrf_of
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.control.api.actor import ADMIN_SECRET, ANONYMOUS, Actor, forbidden
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.login_counts import LoginOutcome
from streamweir.server.control.routing import Access, Gate
from streamweir.server.http.message import Request
from streamweir.server.request.admission import peer_of
from streamweir.store.db.base import StoreUnavailable
from streamweir.store.keys.people import Person, find_active
from streamweir.store.keys.sessions import LoginWay, Session, find_session, is_admin_secret, touch_session

COOKIE = "streamweir"
SECURE_COOKIE = "__Host-streamweir"
"""Browsers accept it only over TLS, and only for this host."""
CSRF = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD"})

_BY_SESSION = structs.replace(ADMIN_SECRET, by_session=True)


def api_gates(context: Context) -> dict[Access | Permission, Gate]:
    """The one place where an identity is compared with the permission that a route declares."""
    return {permission: _gate(context, permission) for permission in Permission}


def _gate(context: Context, permission: Permission) -> Gate:
    async def gate(request: Request, scope: Scope) -> StreamweirError | None:
        try:
            actor = await recognize(context, request, is_use=permission not in REPEATED)
        except StreamweirError as error:
            return error
        if not actor.may(permission):
            return forbidden(f"This needs the permission '{permission}', which the role '{actor.role}' does not have.")
        scope.setdefault("state", {})["actor"] = actor
        return None

    return gate


def actor_of(scope: Scope) -> Actor:
    """As set by a gate; `ANONYMOUS` if there was none."""
    actor = scope.get("state", {}).get("actor", ANONYMOUS)
    assert isinstance(actor, Actor)  # noqa: S101 (for the type checker)
    return actor


async def find_actor(context: Context, secret: str, request: Request) -> Actor:
    """The identity for a login. Raises `StreamweirError` if the secret is not valid, or too many were wrong."""
    if secret.startswith(ADMIN):
        await check_admin(context, secret, request)
        return ADMIN_SECRET
    await context.load_key(secret)
    if context.accounting.directory.find(secret, context.clock_ms() / 1000) is None:
        raise count_wrong_secret(context, request, LoginWay.KEY)
    actor = _by_key(context, secret)
    if not actor.may(Permission.SESSION):
        raise forbidden("This key reads the metrics, and cannot log in.")
    return actor


async def check_admin(context: Context, secret: str, request: Request) -> None:
    """Raises `CallerError` if it is not the admin secret."""
    if not await context.read(lambda conn: is_admin_secret(conn, secret)):
        raise count_wrong_secret(context, request)


_WRONG = "The secret or the API key is not valid."


def count_wrong_secret(
    context: Context, request: Request, way: LoginWay = LoginWay.SECRET, message: str = _WRONG
) -> CallerError:
    """Counts a wrong secret, and returns the error for it."""
    peer, at_ms = peer_of(request, context.runtime()), context.clock_ms()
    too_many = context.failed_logins.failed(peer, at_ms)
    context.logins.count(way, LoginOutcome.LIMITED if too_many is not None else LoginOutcome.WRONG)
    return too_many or wrong_secret(message)


def wrong_secret(message: str = _WRONG) -> CallerError:
    return CallerError("invalid_api_key", message)


def cookie_of(request: Request, is_secure: bool) -> str | None:
    return cookie_named(request, SECURE_COOKIE if is_secure else COOKIE)


def cookie_named(request: Request, wanted: str) -> str | None:
    for pair in request.headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted:
            return value
    return None


def session_cookie(token: str, is_secure: bool) -> str:
    """An empty `token` deletes the cookie in the browser."""
    name, mark = (SECURE_COOKIE, "; Secure") if is_secure else (COOKIE, "")
    age = "" if token else "; Max-Age=0"
    return f"{name}={token}; Path=/; HttpOnly; SameSite=Strict{mark}{age}"


def check_origin(request: Request) -> None:
    """A browser sends the origin of the page; pages of other sites are refused."""
    origin = request.headers.get("origin")
    if origin is None and request.method in SAFE:
        return
    if origin is None or origin.partition("://")[2].lower() != request.headers.get("host", "").lower():
        raise forbidden("The request's Origin is not this server.")


async def recognize(context: Context, request: Request, *, is_use: bool = True, counts_failures: bool = True) -> Actor:
    """The identity of a request. Raises `StreamweirError` if it has no access.

    `is_use`: extends a session. `counts_failures`: False for a secret that was valid before: it is checked even after
    many wrong ones from this address, and is not counted.
    """
    secret = read_secret(request.headers)
    if secret is None:
        return await _by_session(context, request, is_use)
    if not secret.startswith(ADMIN):
        await context.load_key(secret)
        return _by_key(context, secret)
    if counts_failures:
        await check_admin(context, secret, request)
    elif not await context.read(lambda conn: is_admin_secret(conn, secret)):
        raise wrong_secret()
    return ADMIN_SECRET


def _by_key(context: Context, secret: str) -> Actor:
    directory, now = context.accounting.directory, context.clock_ms() / 1000
    key = directory.find(secret, now)
    if key is None:
        raise wrong_secret()
    error = check(key, now) or directory.stale_reason(key)
    if error is not None:
        raise error
    if "metrics" in key.scopes:
        return Actor(name=f"key:{key.id}", role=Role.METRICS, key_id=key.id)
    if "admin" not in key.scopes:
        raise forbidden("This key has no scope 'admin'.")
    return _actor_of(directory, key)


async def _by_session(context: Context, request: Request, is_use: bool) -> Actor:
    token = cookie_of(request, context.is_secure)
    if token is None:
        raise CallerError("missing_api_key", "No secret was sent: use 'Authorization: Bearer SECRET'.")
    at_ms = context.clock_ms()

    def work(conn: Connection) -> tuple[Session | None, Person | None]:
        session = find_session(conn, token, at_ms)
        person_id = session.person_id if session is not None else None
        return session, find_active(conn, person_id) if person_id is not None else None

    session, person = await context.read(work)
    actor = _actor_of_session(context, session, person, at_ms) if session is not None else None
    if session is None or actor is None:
        raise CallerError("invalid_api_key", "The session has ended. Sign in again.")
    check_origin(request)
    sent = request.headers.get(CSRF, "").encode("latin-1")
    if request.method not in SAFE and not hmac.compare_digest(sent, csrf_of(token).encode()):
        raise forbidden(f"A change needs the session's token in the header '{CSRF}'.")
    if is_use and session.needs_touch(at_ms):
        with suppress(StoreUnavailable):  # then it ends a little earlier
            await context.store.write(lambda conn: touch_session(conn, session.digest, at_ms))
    return actor


def _actor_of_session(context: Context, session: Session, person: Person | None, at_ms: int) -> Actor | None:
    """The identity that opened it, with the role that it has now. None: its key lost access, or has another secret
    now, or the person may not log in any more."""
    if session.person_id is not None:
        return actor_of_person(person, by_session=True) if person is not None else None
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


def actor_of_person(person: Person, *, by_session: bool = False) -> Actor:
    return Actor(
        name=person.actor,
        role=person.role,
        workspace_id=person.workspace_id or "",
        person_id=person.id,
        by_session=by_session,
    )


def _actor_of(directory: KeyDirectory, key: Key, *, by_session: bool = False) -> Actor:
    workspace_id = directory.workspace_of(key).id
    return Actor(name=f"key:{key.id}", role=Role.KEY, workspace_id=workspace_id, key_id=key.id, by_session=by_session)
