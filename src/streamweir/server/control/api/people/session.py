"""Sessions of the console: opened with the admin secret or with a key that has the scope `admin`, or by a person
(`server.control.api.people.login`).

A session ends when it is closed, after twelve idle hours or a week, and when who opened it has no access any more
(`server.control.api.authentication`).

The token of a session is in a cookie that no script can read. The CSRF token that a page must send with a change is
derived from it (`policy.secret.csrf_of`), so a page that is loaded again can request it. Every login creates a new
session and ends the one whose cookie was sent with it.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct
from sqlalchemy import Connection

from streamweir import __version__
from streamweir.policy.access import digest_of
from streamweir.policy.permission import PERMISSIONS, Permission, Role
from streamweir.policy.secret import csrf_of
from streamweir.server.control.api.actor import Actor
from streamweir.server.control.api.authentication import (
    check_origin,
    cookie_of,
    find_actor,
    session_cookie,
    wrong_secret,
)
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.login_counts import LoginOutcome
from streamweir.server.control.api.operation import Call, Nothing, Operation, Reply
from streamweir.server.control.routing import Access
from streamweir.server.request.admission import peer_of
from streamweir.store.keys.sessions import IDLE_MS, Client, LoginWay, SessionKey, end_session, log_in, replace_session

_MAX_BODY_BYTES = 4096


class Login(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secret: Annotated[str, Meta(max_length=512, description="The admin secret, or that of a key.")]

    def __repr__(self) -> str:
        return "Login('****')"


class SessionView(Struct, kw_only=True):
    actor: str
    role: Role
    permissions: list[Permission]
    person: str | None
    """The id of a person who has logged in."""
    is_operator: bool
    """It runs the gateway: as `owner` or as `operator`."""
    workspace: str | None
    """The workspace of a role that has one."""
    csrf: str | None
    """To be sent with changes, in `x-csrf-token`. None: the request used no session."""
    idle_s: int | None
    """How long an unused session stays valid."""
    version: str
    """The version of the gateway."""


class Ended(Struct, kw_only=True):
    ended: bool


async def open_session(call: Call[Nothing, Login]) -> Reply:
    context, request, secret, at_ms = call.context, call.request, call.body.secret, call.at_ms
    if "origin" in request.headers:
        check_origin(request)
    actor = await find_actor(context, secret, request)
    old = cookie_of(request, context.is_secure)

    client = client_of(call)

    def work(conn: Connection) -> str | None:
        if not actor.key_id:
            return log_in(conn, secret, old_token=old, actor=actor.name, at_ms=at_ms, client=client)
        holder = SessionKey(key_id=actor.key_id, key_digest=digest_of(secret), workspace_id=actor.workspace_id)
        way = LoginWay.KEY
        return replace_session(conn, old, actor=actor.name, at_ms=at_ms, holder=holder, client=client, way=way)

    token = await context.write(work)
    if token is None:  # the admin secret was reset at the same moment
        raise wrong_secret()
    return reply_with_session(context, actor, token, LoginWay.KEY if actor.key_id else LoginWay.SECRET)


def reply_with_session(context: Context, actor: Actor, token: str, way: LoginWay) -> Reply:
    """The answer to a login: the identity, and the cookie of its new session."""
    context.logins.count(way, LoginOutcome.OPENED)
    cookie = session_cookie(token, context.is_secure)
    return Reply(value=_view(actor, csrf_of(token)), headers=(("set-cookie", cookie),))


def client_of(call: Call[Any, Any]) -> Client:
    """Where a login comes from."""
    address = peer_of(call.request, call.context.runtime())
    return Client(address=address, browser=call.request.headers.get("user-agent"))


async def show_session(call: Call[Nothing, Nothing]) -> SessionView:
    token = cookie_of(call.request, call.context.is_secure) if call.actor.by_session else None
    return _view(call.actor, csrf_of(token) if token is not None else None)


async def close_session(call: Call[Nothing, Nothing]) -> Reply:
    context = call.context
    token = cookie_of(call.request, context.is_secure) if call.actor.by_session else None
    if token is None:
        return Reply(value=Ended(ended=False))
    await context.write(lambda conn: end_session(conn, token, actor=call.actor.name, at_ms=call.at_ms))
    return Reply(value=Ended(ended=True), headers=(("set-cookie", session_cookie("", context.is_secure)),))


def _view(actor: Actor, csrf: str | None) -> SessionView:
    return SessionView(
        actor=actor.name,
        role=actor.role,
        person=actor.person_id or None,
        permissions=sorted(PERMISSIONS[actor.role]),
        is_operator=actor.role in (Role.OWNER, Role.OPERATOR),
        workspace=actor.allowed_workspace,
        csrf=csrf,
        idle_s=IDLE_MS // 1000 if csrf is not None else None,
        version=__version__,
    )


OPERATIONS = (
    Operation(
        method="POST",
        path="/api/session",
        access=Access.ANYONE,
        about="Open a session with the admin secret or an admin key: sets a cookie",
        handler=open_session,
        body=Login,
        answer=SessionView,
        max_body_bytes=_MAX_BODY_BYTES,
    ),
    Operation(
        method="GET",
        path="/api/session",
        access=Permission.SESSION,
        about="Show the current identity and the session's token",
        handler=show_session,
        answer=SessionView,
    ),
    Operation(
        method="DELETE",
        path="/api/session",
        access=Permission.SESSION,
        about="End the session",
        handler=close_session,
        answer=Ended,
    ),
)
