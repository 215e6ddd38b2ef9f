"""What people see of themselves: their account and their sessions.

Everything here belongs to the person who asks; no id of another person can be named. The admin secret and keys are no
persons, and have no account.
"""

from typing import Any

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.core.errors import CallerError
from streamweir.policy.permission import Permission
from streamweir.server.control.api.authentication import cookie_of, session_cookie
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, Reply
from streamweir.server.control.api.people.person import (
    OpenSessionView,
    PersonView,
    SessionsEnded,
    view_person,
    view_session,
)
from streamweir.store.keys import people, sessions
from streamweir.store.keys.people import Person
from streamweir.store.keys.sessions import Session, find_session
from streamweir.store.keys.workspaces import find_workspace


class OwnView(Struct, kw_only=True):
    person: PersonView
    workspace_name: str | None


class OwnSessionView(OpenSessionView, frozen=True, kw_only=True):
    is_current: bool
    """It is the one that asks."""


async def own_person(call: Call[Any, Any]) -> Person:
    """Raises `CallerError` if nobody has logged in by name."""
    id = person_id_of(call)
    return await call.context.read(lambda conn: people.show_person(conn, id))


def person_id_of(call: Call[Any, Any]) -> str:
    if not call.actor.person_id:
        raise CallerError("not_found", "The admin secret has no account: log in by name.")
    return call.actor.person_id


async def show_own(call: Call[Nothing, Nothing]) -> OwnView:
    id = person_id_of(call)

    def work(conn: Connection) -> OwnView:
        person = people.show_person(conn, id)
        workspace_id = person.workspace_id
        name = find_workspace(conn, workspace_id).name if workspace_id is not None else None
        return OwnView(person=view_person(person), workspace_name=name)

    return await call.context.read(work)


async def list_own_sessions(call: Call[Nothing, Nothing]) -> Page[OwnSessionView]:
    id, at_ms, token = person_id_of(call), call.at_ms, cookie_of(call.request, call.context.is_secure)

    def work(conn: Connection) -> tuple[list[Session], Session | None]:
        current = find_session(conn, token, at_ms) if token is not None else None
        return sessions.list_sessions(conn, at_ms, person_id=id), current

    found, current = await call.context.read(work)
    return Page(data=[_view(each, is_current=each == current) for each in found])


async def end_own_session(call: Call[Nothing, Nothing]) -> SessionsEnded:
    id, person_id, actor, at_ms = call.path["id"], person_id_of(call), call.actor.name, call.at_ms
    await call.context.write(
        lambda conn: sessions.end_session_of_id(conn, id, person_id=person_id, actor=actor, at_ms=at_ms)
    )
    return SessionsEnded(sessions_ended=1)


async def end_own_sessions(call: Call[Nothing, Nothing]) -> Reply:
    """Also the one that asks."""
    id, actor, at_ms = person_id_of(call), call.actor.name, call.at_ms
    ended = await call.context.write(lambda conn: people.end_sessions_of_person(conn, id, actor=actor, at_ms=at_ms))
    cookie = session_cookie("", call.context.is_secure)
    return Reply(value=SessionsEnded(sessions_ended=ended), headers=(("set-cookie", cookie),))


def _view(session: Session, *, is_current: bool) -> OwnSessionView:
    shown = view_session(session)
    members = {name: getattr(shown, name) for name in OpenSessionView.__struct_fields__}
    return OwnSessionView(**members, is_current=is_current)


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/me",
        access=Permission.SELF,
        about="Show one's own account",
        handler=show_own,
        answer=OwnView,
    ),
    Operation(
        method="GET",
        path="/api/me/sessions",
        access=Permission.SELF,
        about="List one's own open sessions, last used first",
        handler=list_own_sessions,
        answer=Page[OwnSessionView],
    ),
    Operation(
        method="DELETE",
        path="/api/me/sessions",
        access=Permission.SELF,
        about="End all of one's own sessions, this one too",
        handler=end_own_sessions,
        answer=SessionsEnded,
    ),
    Operation(
        method="DELETE",
        path="/api/me/sessions/{id}",
        access=Permission.SELF,
        about="End one of one's own sessions",
        handler=end_own_session,
        answer=SessionsEnded,
    ),
)
