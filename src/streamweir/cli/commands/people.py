"""`streamweir people`: who may use the console by name. Directly in the store.

Commands that make an invitation write only its token to standard output, for scripts; all other text goes to standard
error. A person is identified by its name or its id.
"""

from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from streamweir.cli.database import ACTOR, StoreAccess, json_option, store_options
from streamweir.cli.view.table import NONE, moment, show_facts, show_json, show_table
from streamweir.policy.permission import PERSON_ROLES, Role
from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from streamweir.store.keys.people import Invitation, Person
    from streamweir.store.keys.sessions import Session

_ROLE = click.Choice([role.value for role in PERSON_ROLES])
_workspace_option = click.option("--workspace", metavar="W", help="Workspace of an admin or a member (name or id).")

_email_option = click.option(
    "--email",
    metavar="E",
    help="Address of the account at the identity provider that may log in as the person. Empty: none.",
)


@click.group("people", short_help="Invite, list, change and remove people, and end their sessions.")
def command() -> None:
    """People who use the console by name, with a role. A change takes effect with their next request."""


@command.command("invite")
@click.argument("name")
@click.option("--role", type=_ROLE, required=True, help="What the person may do.")
@_workspace_option
@_email_option
@json_option
@store_options
def invite(access: StoreAccess, name: str, role: str, workspace: str | None, email: str | None, as_json: bool) -> None:
    """Invite the person NAME, and print the token once with which the password is chosen."""
    from streamweir.store.keys.people import PersonSpec, create_person

    spec, at_ms = PersonSpec(name=name, role=Role(role), workspace=workspace, email=email), now_ms()
    _show_invitation(access.write(lambda conn: create_person(conn, spec, actor=ACTOR, at_ms=at_ms)), as_json)


@command.command("reset")
@click.argument("person")
@json_option
@store_options
def reset(access: StoreAccess, person: str, as_json: bool) -> None:
    """Invite PERSON again: the password and all sessions end, and another password can be chosen."""
    from streamweir.store.keys.people import find_person, invite_again

    at_ms = now_ms()

    def work(conn: "Connection") -> "Invitation":
        return invite_again(conn, find_person(conn, person).id, actor=ACTOR, at_ms=at_ms)

    _show_invitation(access.write(work), as_json)


@command.command("list")
@json_option
@store_options
def list_(access: StoreAccess, as_json: bool) -> None:
    """List the people, oldest first."""
    from streamweir.store.keys.people import list_people
    from streamweir.store.keys.workspaces import list_workspaces

    def work(conn: "Connection") -> "tuple[list[Person], dict[str, str]]":
        return list_people(conn), {each.id: each.name for each in list_workspaces(conn)}

    found, names = access.read(work)
    if as_json:
        show_json(found)
        return
    rows = [
        (
            each.name,
            each.id,
            each.role,
            names.get(each.workspace_id or "", NONE),
            each.email or NONE,
            _state(each),
            moment(each.seen_ms),
            moment(each.created_ms),
        )
        for each in found
    ]
    columns = ("name", "id", "role", "workspace", "e-mail", "state", "last login", "created")
    show_table(columns, rows, none="There are no people. `streamweir people invite NAME --role R` invites one.")


@command.command("change")
@click.argument("person")
@click.option("--role", type=_ROLE, help="What the person may do.")
@_workspace_option
@_email_option
@click.option("--disable/--enable", "disabled", default=None, help="Keep the person from logging in, or not.")
@json_option
@store_options
def change(
    access: StoreAccess,
    person: str,
    role: str | None,
    workspace: str | None,
    email: str | None,
    disabled: bool | None,
    as_json: bool,
) -> None:
    """Change PERSON. Options that are not given stay as they are."""
    from streamweir.store.keys.people import PersonChange, change_person, find_person

    if (role, workspace, email, disabled) == (None, None, None, None):
        raise click.UsageError("nothing to change: give --role, --workspace, --email, --disable or --enable")
    wanted = PersonChange(
        role=Role(role) if role is not None else UNSET,
        workspace=workspace if workspace is not None else UNSET,
        email=(email or None) if email is not None else UNSET,
        disabled=disabled if disabled is not None else UNSET,
    )
    at_ms = now_ms()

    def work(conn: "Connection") -> "Person":
        return change_person(conn, find_person(conn, person).id, wanted, actor=ACTOR, at_ms=at_ms)

    _show(access.write(work), as_json)


@command.command("remove")
@click.argument("person")
@click.option("--keep-keys", is_flag=True, help="Keep the person's keys valid, as nobody's.")
@json_option
@store_options
def remove(access: StoreAccess, person: str, keep_keys: bool, as_json: bool) -> None:
    """Remove PERSON permanently: sessions end, keys are revoked, and the name cannot be used again."""
    from streamweir.store.keys.people import find_person, remove_person

    at_ms = now_ms()

    def work(conn: "Connection") -> "Person":
        found = find_person(conn, person)
        return remove_person(conn, found.id, revoke_keys=not keep_keys, actor=ACTOR, at_ms=at_ms)

    removed = access.write(work)
    show_json(removed) if as_json else show_facts([("removed", f"{removed.name} ({removed.id})")])


@command.command("sessions")
@click.argument("person")
@json_option
@store_options
def sessions(access: StoreAccess, person: str, as_json: bool) -> None:
    """List the open sessions of PERSON, last used first."""
    from streamweir.store.keys.people import find_person
    from streamweir.store.keys.sessions import list_sessions

    at_ms = now_ms()

    def work(conn: "Connection") -> "list[Session]":
        return list_sessions(conn, at_ms, person_id=find_person(conn, person).id)

    found = access.read(work)
    if as_json:
        shown = ("id", "created_ms", "used_ms", "address", "browser")
        show_json([{name: getattr(each, name) for name in shown} for each in found])
        return
    rows = [
        (each.id, moment(each.created_ms), moment(each.used_ms), each.address or NONE, each.browser or NONE)
        for each in found
    ]
    show_table(("id", "created", "used", "address", "browser"), rows, none="There are no open sessions.")


@command.command("end-sessions")
@click.argument("person")
@json_option
@store_options
def end_sessions(access: StoreAccess, person: str, as_json: bool) -> None:
    """End all sessions of PERSON."""
    from streamweir.store.keys.people import end_sessions_of_person, find_person

    at_ms = now_ms()

    def work(conn: "Connection") -> int:
        return end_sessions_of_person(conn, find_person(conn, person).id, actor=ACTOR, at_ms=at_ms)

    ended = access.write(work)
    show_json({"sessions_ended": ended}) if as_json else show_facts([("sessions ended", str(ended))])


def _show_invitation(made: "Invitation", as_json: bool) -> None:
    if as_json:
        show_json({"person": made.person, "invitation": made.token})
        return
    until = moment(made.person.invited_until_ms)
    click.echo(
        f"{made.person.name} ({made.person.id}) chooses a password until {until} at /console/invitation#TOKEN\n"
        "(the token is not stored and will not be shown again):\n",
        err=True,
    )
    click.echo(made.token)


def _show(person: "Person", as_json: bool) -> None:
    if as_json:
        show_json(person)
        return
    facts = [("name", person.name), ("id", person.id), ("role", str(person.role))]
    facts += [("workspace", person.workspace_id or NONE), ("e-mail", person.email or NONE)]
    show_facts([*facts, ("state", _state(person))])


def _state(person: "Person") -> str:
    if person.disabled_ms is not None:
        return "disabled"
    if person.is_federated:
        return "identity provider"
    return "active" if person.has_password else "invited"
