"""People over the API: who may log in by name, with which role, and their sessions.

The owners see and change everyone. The admin of a workspace sees its people, and invites, changes and removes its
members: only owners appoint others, so no admin can make another. Nobody changes its own account here, so that nobody
gives itself a role. A token of an invitation is in one answer only.
"""

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import Connection

from streamweir.policy.permission import Permission, Role
from streamweir.server.control.api.actor import Actor, forbidden
from streamweir.server.control.api.authentication import cookie_of
from streamweir.server.control.api.fields import PAGE, Cursor, Email, Limit, Name, PersonRole, WorkspaceName
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, page_of
from streamweir.server.control.api.view import shown
from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.keys import people, sessions
from streamweir.store.keys.people import Invitation, Person, PersonChange, PersonSpec
from streamweir.store.keys.sessions import Session


class PeopleQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE


class NewPerson(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    role: PersonRole
    workspace: WorkspaceName | None = None
    """Of the roles `admin` and `member`."""
    email: Email | None = None
    """An account of the identity provider that has it may log in as this person."""


class PersonPatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    role: PersonRole | UnsetType = UNSET
    workspace: WorkspaceName | None | UnsetType = UNSET
    email: Email | None | UnsetType = UNSET
    """An account of the identity provider that has it may log in as this person, if none does yet."""
    disabled: bool | UnsetType = UNSET
    """A disabled person cannot log in, and has no session. Its keys are refused until it is enabled."""


class RemovalQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    revoke_keys: bool = True
    """Revoke the keys that are the person's. Else they stay in the workspace, as nobody's."""


class PersonView(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    role: PersonRole
    workspace: str | None
    """Of the roles `admin` and `member`."""
    has_password: bool
    email: str | None
    is_federated: bool
    """Has logged in at the identity provider, and is known by its account there."""
    has_provider_role: bool
    """The identity provider says the role: it cannot be changed here."""
    created_ms: int
    invited_until_ms: int | None
    """Until then the person can choose a password."""
    seen_ms: int | None
    """The last login."""
    disabled_ms: int | None


class InvitedView(PersonView, frozen=True, kw_only=True):
    invitation: str
    """Shown only once. Whoever has it can choose the password: `/console/invitation#TOKEN`."""


class OpenSessionView(Struct, frozen=True, kw_only=True):
    id: str
    person: str | None
    key: str | None
    """The id of the key that opened it. Both null: the admin secret."""
    created_ms: int
    used_ms: int
    address: str | None
    """Where it was opened from."""
    browser: str | None
    """What the browser said about itself."""


class NamedSessionView(OpenSessionView, frozen=True, kw_only=True):
    name: str | None
    """Of the person or the key."""
    is_current: bool
    """It is the one that asks."""


class SessionsEnded(Struct, kw_only=True):
    sessions_ended: int


async def list_people(call: Call[PeopleQuery, Nothing]) -> Page[PersonView]:
    query, actor = call.query, call.actor

    def work(conn: Connection) -> list[Person]:
        within = actor.workspace_filter(conn, query.workspace)
        return people.list_people(conn, within, after=query.cursor, limit=query.limit + 1)

    return page_of(await call.context.read(work), query.limit, view_person, lambda last: last.id)


async def create_person(call: Call[Nothing, NewPerson]) -> InvitedView:
    actor, body, at_ms = call.actor, call.body, call.at_ms

    def work(conn: Connection) -> Invitation:
        workspace = _allowed_target(conn, actor, Role(body.role), body.workspace)
        spec = PersonSpec(name=body.name, role=Role(body.role), workspace=workspace, email=body.email)
        return people.create_person(conn, spec, actor=actor.name, at_ms=at_ms)

    return _view_invited(await call.context.write(work))


async def show_person(call: Call[Nothing, Nothing]) -> PersonView:
    id, within = call.path["id"], call.actor.allowed_workspace
    return view_person(await call.context.read(lambda conn: people.show_person(conn, id, within)))


async def change_person(call: Call[Nothing, PersonPatch]) -> PersonView:
    actor, body, at_ms = call.actor, call.body, call.at_ms

    def work(conn: Connection) -> Person:
        person = _changeable(conn, actor, call.path["id"])
        role = person.role if body.role is UNSET else Role(body.role)
        workspace = body.workspace
        if body.role is not UNSET or workspace is not UNSET:
            wanted = workspace if workspace is not UNSET else None
            _allowed_target(conn, actor, role, wanted)
        change = PersonChange(
            role=role if body.role is not UNSET else UNSET,
            workspace=workspace,
            email=body.email,
            disabled=body.disabled,
        )
        return people.change_person(conn, person.id, change, actor=actor.name, at_ms=at_ms)

    return view_person(await call.context.change(work))


async def invite_person(call: Call[Nothing, Nothing]) -> InvitedView:
    actor, at_ms = call.actor, call.at_ms

    def work(conn: Connection) -> Invitation:
        person = _changeable(conn, actor, call.path["id"])
        return people.invite_again(conn, person.id, actor=actor.name, at_ms=at_ms)

    return _view_invited(await call.context.write(work))


async def remove_person(call: Call[RemovalQuery, Nothing]) -> PersonView:
    actor, at_ms, revoke_keys = call.actor, call.at_ms, call.query.revoke_keys

    def work(conn: Connection) -> Person:
        person = _changeable(conn, actor, call.path["id"])
        return people.remove_person(conn, person.id, revoke_keys=revoke_keys, actor=actor.name, at_ms=at_ms)

    return view_person(await call.context.change(work))


async def list_person_sessions(call: Call[Nothing, Nothing]) -> Page[OpenSessionView]:
    id, within, at_ms = call.path["id"], call.actor.allowed_workspace, call.at_ms

    def work(conn: Connection) -> list[Session]:
        return sessions.list_sessions(conn, at_ms, person_id=people.show_person(conn, id, within).id)

    return Page(data=[view_session(each) for each in await call.context.read(work)])


async def end_person_sessions(call: Call[Nothing, Nothing]) -> SessionsEnded:
    actor, at_ms = call.actor, call.at_ms

    def work(conn: Connection) -> int:
        person = _changeable(conn, actor, call.path["id"])
        return people.end_sessions_of_person(conn, person.id, actor=actor.name, at_ms=at_ms)

    return SessionsEnded(sessions_ended=await call.context.write(work))


async def list_sessions(call: Call[Nothing, Nothing]) -> Page[NamedSessionView]:
    at_ms, token = call.at_ms, cookie_of(call.request, call.context.is_secure) if call.actor.by_session else None

    def work(conn: Connection) -> list[NamedSessionView]:
        found = sessions.list_sessions(conn, at_ms)
        current = sessions.find_session(conn, token, at_ms) if token is not None else None
        names = sessions.names_of_owners(conn, found)
        return [_view_named(each, names, is_current=each == current) for each in found]

    return Page(data=await call.context.read(work))


async def end_session(call: Call[Nothing, Nothing]) -> SessionsEnded:
    id, actor, at_ms = call.path["id"], call.actor.name, call.at_ms
    await call.context.write(lambda conn: sessions.end_session_of_id(conn, id, actor=actor, at_ms=at_ms))
    return SessionsEnded(sessions_ended=1)


def view_person(person: Person) -> PersonView:
    return shown(PersonView, person, workspace=person.workspace_id)


def view_session(session: Session) -> OpenSessionView:
    return shown(OpenSessionView, session, person=session.person_id, key=session.key_id)


def _view_named(session: Session, names: dict[str, str], *, is_current: bool) -> NamedSessionView:
    name = names.get(session.person_id or session.key_id or "")
    return shown(
        NamedSessionView,
        session,
        person=session.person_id,
        key=session.key_id,
        name=name,
        is_current=is_current,
    )


def _view_invited(made: Invitation) -> InvitedView:
    return shown(InvitedView, made.person, workspace=made.person.workspace_id, invitation=made.token)


def _allowed_target(conn: Connection, actor: Actor, role: Role, workspace: str | None) -> str | None:
    """The workspace for a person with that role, whom this actor may appoint. Raises `CallerError` or `NotFound`."""
    if not actor.may(Permission.PEOPLE_APPOINT) and role is not Role.MEMBER:
        raise forbidden("Only an owner can give another role than 'member'.")
    return workspace if actor.allowed_workspace is None else actor.workspace_filter(conn, workspace)


def _changeable(conn: Connection, actor: Actor, id: str) -> Person:
    """A person that this actor may change. It stays so until the end of the transaction: changes are serialized."""
    advance(conn, CHANGES)
    person = people.show_person(conn, id, actor.allowed_workspace)
    if person.id == actor.person_id:
        raise forbidden(
            "Nobody changes its own account here: another owner or admin can, and 'My account' has the rest."
        )
    if person.role is not Role.MEMBER and not actor.may(Permission.PEOPLE_APPOINT):
        raise forbidden("Only an owner can change people with another role than 'member'.")
    return person


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/people",
        access=Permission.PEOPLE_READ,
        about="List the people, oldest first",
        handler=list_people,
        query=PeopleQuery,
        answer=Page[PersonView],
    ),
    Operation(
        method="POST",
        path="/api/people",
        access=Permission.PEOPLE_CHANGE,
        about="Invite a person; the response shows the token of the invitation once",
        handler=create_person,
        body=NewPerson,
        answer=InvitedView,
        status=201,
    ),
    Operation(
        method="GET",
        path="/api/people/{id}",
        access=Permission.PEOPLE_READ,
        about="Show a person",
        handler=show_person,
        answer=PersonView,
    ),
    Operation(
        method="PATCH",
        path="/api/people/{id}",
        access=Permission.PEOPLE_CHANGE,
        about="Change a person's role or workspace, or disable it",
        handler=change_person,
        body=PersonPatch,
        answer=PersonView,
    ),
    Operation(
        method="POST",
        path="/api/people/{id}/invite",
        access=Permission.PEOPLE_CHANGE,
        about="Reset a person's password: it and the sessions end, and the response shows a new invitation once",
        handler=invite_person,
        answer=InvitedView,
    ),
    Operation(
        method="DELETE",
        path="/api/people/{id}",
        access=Permission.PEOPLE_CHANGE,
        about="Remove a person permanently; its sessions end",
        handler=remove_person,
        query=RemovalQuery,
        answer=PersonView,
    ),
    Operation(
        method="GET",
        path="/api/people/{id}/sessions",
        access=Permission.PEOPLE_READ,
        about="List the open sessions of a person, last used first",
        handler=list_person_sessions,
        answer=Page[OpenSessionView],
    ),
    Operation(
        method="DELETE",
        path="/api/people/{id}/sessions",
        access=Permission.PEOPLE_CHANGE,
        about="End the sessions of a person",
        handler=end_person_sessions,
        answer=SessionsEnded,
    ),
    Operation(
        method="GET",
        path="/api/sessions",
        access=Permission.PEOPLE_APPOINT,
        about="List the open sessions of everyone, last used first",
        handler=list_sessions,
        answer=Page[NamedSessionView],
    ),
    Operation(
        method="DELETE",
        path="/api/sessions/{id}",
        access=Permission.PEOPLE_APPOINT,
        about="End a session of anyone",
        handler=end_session,
        answer=SessionsEnded,
    ),
)
