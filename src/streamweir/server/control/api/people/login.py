"""Logging in with a name and a password, and choosing the password with an invitation.

Attempts are bounded by name and address before the password is compared (`store.keys.logins`). A name that nobody has,
a person without a password and a wrong password get the same answer after the same work. The password is compared
outside of a transaction, because that takes long; the session is opened only if the hash is still the same then.
"""

from math import ceil
from typing import Annotated, Any

from msgspec import Meta, Struct
from sqlalchemy import Connection

from streamweir.core.errors import CallerError
from streamweir.policy.password import MAX_LENGTH, fault_of_password
from streamweir.policy.permission import Permission
from streamweir.server.control.api.authentication import actor_of_person, check_origin, cookie_of, count_wrong_secret
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.fields import PersonRole
from streamweir.server.control.api.login_counts import LoginOutcome
from streamweir.server.control.api.operation import Call, Nothing, Operation, Reply
from streamweir.server.control.api.people.own import own_person
from streamweir.server.control.api.people.session import SessionView, client_of, reply_with_session
from streamweir.server.control.api.view import shown
from streamweir.server.control.routing import Access
from streamweir.server.request.admission import peer_of
from streamweir.store.keys import people
from streamweir.store.keys.logins import begin_attempt, forget_attempts
from streamweir.store.keys.people import Credentials, Person
from streamweir.store.keys.sessions import LoginWay, SessionPerson, replace_session
from streamweir.store.keys.workspaces import MAX_NAME_LENGTH, find_workspace

MAX_BODY_BYTES = 4096
_NO_INVITATION = "The invitation is not valid: it was used, or has expired."
Password = Annotated[str, Meta(max_length=4 * MAX_LENGTH)]
InvitationToken = Annotated[str, Meta(max_length=512, description="The token of the invitation.")]


class PasswordLogin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=4 * MAX_NAME_LENGTH)]
    password: Password

    def __repr__(self) -> str:
        return "PasswordLogin('****')"


class Acceptance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    invitation: InvitationToken
    password: Password

    def __repr__(self) -> str:
        return "Acceptance('****')"


class InvitationLook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    invitation: InvitationToken

    def __repr__(self) -> str:
        return "InvitationLook('****')"


class InvitationView(Struct, frozen=True, kw_only=True):
    """Whom it is for. Who has the token could take it, and so learns nothing more."""

    name: str
    role: PersonRole
    workspace_name: str | None
    email: str | None
    """Whose account at the identity provider has it needs no password."""
    until_ms: int


class PasswordChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old: Password
    new: Password

    def __repr__(self) -> str:
        return "PasswordChange('****')"


async def log_in(call: Call[Nothing, PasswordLogin]) -> Reply:
    context, body = call.context, call.body
    _check_origin(call)
    address = peer_of(call.request, context.runtime())
    found = await _compared(context, body.name, body.password, address, call.at_ms)

    def work(conn: Connection) -> tuple[Person, str] | None:
        now = people.find_credentials(conn, body.name)
        if now is None or now.password != found.password:  # disabled, reset or changed at the same moment
            return None
        forget_attempts(conn, body.name, address)
        return open_session_of(conn, call, found.person, LoginWay.PASSWORD)

    return _reply(call, await context.write(work), LoginWay.PASSWORD)


async def show_invitation(call: Call[Nothing, InvitationLook]) -> InvitationView:
    context, token, at_ms = call.context, call.body.invitation, call.at_ms
    _check_origin(call)

    def work(conn: Connection) -> InvitationView | None:
        person = people.find_invited(conn, token, at_ms)
        if person is None:
            return None
        workspace = find_workspace(conn, person.workspace_id).name if person.workspace_id is not None else None
        until_ms = person.invited_until_ms or at_ms
        return shown(InvitationView, person, workspace_name=workspace, until_ms=until_ms)

    found = await context.read(work)
    if found is None:
        raise count_wrong_secret(context, call.request, LoginWay.INVITATION, _NO_INVITATION)
    return found


async def accept_invitation(call: Call[Nothing, Acceptance]) -> Reply:
    context, body, at_ms = call.context, call.body, call.at_ms
    _check_origin(call)
    person = await context.read(lambda conn: people.find_invited(conn, body.invitation, at_ms))
    if person is None:
        raise count_wrong_secret(context, call.request, LoginWay.INVITATION, _NO_INVITATION)
    _check_new(body.password, person.name, "password")
    hashed = await context.passwords.hash(body.password)

    def work(conn: Connection) -> tuple[Person, str] | None:
        accepted = people.accept_invitation(conn, body.invitation, hashed, at_ms)
        return None if accepted is None else open_session_of(conn, call, accepted, LoginWay.INVITATION)

    return _reply(call, await context.write(work), LoginWay.INVITATION)


async def change_password(call: Call[Nothing, PasswordChange]) -> Reply:
    """Every session of the person ends, and a new one begins here."""
    context, body, at_ms = call.context, call.body, call.at_ms
    person = await own_person(call)
    if not person.has_password:
        raise CallerError("conflict", "You log in at the identity provider, and have no password here.")
    address = peer_of(call.request, context.runtime())
    found = await _compared(context, person.name, body.old, address, at_ms)
    _check_new(body.new, person.name, "new")
    hashed = await context.passwords.hash(body.new)

    def work(conn: Connection) -> tuple[Person, str] | None:
        if not people.change_password(conn, person.id, found.password or "", hashed, at_ms):
            return None
        forget_attempts(conn, person.name, address)
        return open_session_of(conn, call, person, LoginWay.PASSWORD)

    return _reply(call, await context.write(work), LoginWay.PASSWORD)


def open_session_of(conn: Connection, call: Call[Any, Any], person: Person, way: LoginWay) -> tuple[Person, str]:
    """The person and the token of a new session; the one whose cookie was sent ends."""
    people.note_login(conn, person.id, call.at_ms)
    holder = SessionPerson(person_id=person.id, workspace_id=person.workspace_id)
    old, client = cookie_of(call.request, call.context.is_secure), client_of(call)
    token = replace_session(conn, old, actor=person.actor, at_ms=call.at_ms, holder=holder, client=client, way=way)
    return person, token


async def _compared(context: Context, name: str, password: str, address: str, at_ms: int) -> Credentials:
    """Who logs in with this name and this password. Raises `StreamweirError`."""
    wait_ms = await context.write(lambda conn: begin_attempt(conn, name, address, at_ms))
    if wait_ms:
        context.logins.count(LoginWay.PASSWORD, LoginOutcome.LIMITED)
        message = f"Too many attempts to log in. Try again in {ceil(wait_ms / 60_000)} minutes."
        raise CallerError("rate_limit_exceeded", message, retry_after_s=wait_ms / 1000)
    found = await context.read(lambda conn: people.find_credentials(conn, name))
    if not await context.passwords.matches(found.password if found is not None else None, password):
        context.logins.count(LoginWay.PASSWORD, LoginOutcome.WRONG)
        raise _wrong_password()
    assert found is not None  # noqa: S101 (else nothing matches)
    if found.password is not None and context.passwords.is_outdated(found.password):
        return await _rehashed(context, found, password)
    return found


async def _rehashed(context: Context, found: Credentials, password: str) -> Credentials:
    old, new = found.password or "", await context.passwords.hash(password)
    await context.write(lambda conn: people.replace_hash(conn, found.person.id, old, new))
    return Credentials(found.person, new)


def _check_origin(call: Call[Any, Any]) -> None:
    if "origin" in call.request.headers:
        check_origin(call.request)


def _check_new(password: str, name: str, param: str) -> None:
    fault = fault_of_password(password, name)
    if fault is not None:
        raise CallerError("invalid_value", fault, param=param)


def _wrong_password() -> CallerError:
    return CallerError("invalid_api_key", "The name or the password is not valid.")


def _reply(call: Call[Any, Any], opened: tuple[Person, str] | None, way: LoginWay) -> Reply:
    if opened is None:
        raise _wrong_password()
    person, token = opened
    return reply_with_session(call.context, actor_of_person(person), token, way)


OPERATIONS = (
    Operation(
        method="POST",
        path="/api/login",
        access=Access.ANYONE,
        about="Log in with name and password: sets a cookie",
        handler=log_in,
        body=PasswordLogin,
        answer=SessionView,
        max_body_bytes=MAX_BODY_BYTES,
    ),
    Operation(
        method="POST",
        path="/api/invitation",
        access=Access.ANYONE,
        about="Choose a password with an invitation, and log in: sets a cookie",
        handler=accept_invitation,
        body=Acceptance,
        answer=SessionView,
        max_body_bytes=MAX_BODY_BYTES,
    ),
    Operation(
        method="POST",
        path="/api/invitation/show",
        access=Access.ANYONE,
        about="Show whom an invitation is for, to whoever has its token",
        handler=show_invitation,
        body=InvitationLook,
        answer=InvitationView,
        max_body_bytes=MAX_BODY_BYTES,
    ),
    Operation(
        method="POST",
        path="/api/me/password",
        access=Permission.SELF,
        about="Change one's own password; every other session ends",
        handler=change_password,
        body=PasswordChange,
        answer=SessionView,
        max_body_bytes=MAX_BODY_BYTES,
    ),
)
