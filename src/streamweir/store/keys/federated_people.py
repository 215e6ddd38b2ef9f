"""People who log in at the identity provider: who an account there is here, and who may come in.

An account is known by issuer and subject, which never change. The first time it is recognized by its e-mail address, if
the provider has verified that, as the person who was invited with it; the person's role stays as it was given here.
Whoever nobody has invited has the role that the operator's rules give to the groups of the account, with each login
anew; without one it is refused, and its sessions end. An address or a name never leads to a person that has another
account of the same issuer.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, select, update

from streamweir.policy.permission import Role
from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.db.tables import people
from streamweir.store.keys import audit
from streamweir.store.keys.people import (
    Person,
    email_of,
    insert_person,
    login_of,
    read_person,
    revoke_keys_of,
    show_person,
    within,
    workspace_for,
)
from streamweir.store.keys.sessions import end_sessions_of
from streamweir.store.keys.workspaces import MAX_NAME_LENGTH


class NotAdmitted(StrEnum):
    """Why an account may not come in."""

    UNINVITED = "uninvited"
    NO_ROLE = "no_role"
    DISABLED = "disabled"
    OTHER_ACCOUNT = "other_account"
    NAME_TAKEN = "name_taken"


class Account(Struct, frozen=True, kw_only=True):
    """What the identity provider says."""

    issuer: str
    subject: str
    name: str
    email: str | None
    """If it is verified."""
    role: Role | None
    """By the rules for groups."""
    workspace: str | None

    @property
    def key(self) -> str:
        """An issuer is a URL, without spaces."""
        return f"{self.issuer} {self.subject}"


def admit(conn: Connection, account: Account, *, at_ms: int) -> Person | NotAdmitted:
    """The person of this account, with the role that it has now. Raises `NotFound` if the workspace of the rule does
    not exist."""
    advance(conn, CHANGES)
    row = conn.execute(within(None).where(people.c.subject == account.key)).mappings().one_or_none()
    email = email_of(account.email) if account.email is not None else None
    if row is None and email is not None:  # None would be the address of everyone who has none
        row = conn.execute(within(None).where(people.c.email == email)).mappings().one_or_none()
    if row is None:
        return _created(conn, account, at_ms)
    person = read_person(row)
    if person.disabled_ms is not None:
        return NotAdmitted.DISABLED
    if row["subject"] != account.key:
        if row["subject"] is not None and row["subject"].startswith(f"{account.issuer} "):
            return NotAdmitted.OTHER_ACCOUNT
        person = _linked(conn, person, account, at_ms)
    return _with_role(conn, person, account, at_ms) if person.has_provider_role else person


def _linked(conn: Connection, person: Person, account: Account, at_ms: int) -> Person:
    """The invitation is used up: the account takes the place of the password that could be chosen with it."""
    values: dict[str, Any] = {"subject": account.key, "invitation": None, "invited_until_ms": None}
    conn.execute(update(people).where(people.c.id == person.id).values(**values))
    detail = {"name": person.name, "email": person.email, "issuer": account.issuer}
    audit.append(conn, person.actor, "person.link", person.id, detail, person.workspace_id, at_ms)
    return show_person(conn, person.id)


def _with_role(conn: Connection, person: Person, account: Account, at_ms: int) -> Person | NotAdmitted:
    if account.role is None:
        ended = end_sessions_of(conn, person.id)
        if ended:
            detail = {"name": person.name, "sessions_ended": ended}
            audit.append(conn, audit.SYSTEM, "person.shut_out", person.id, detail, person.workspace_id, at_ms)
        return NotAdmitted.NO_ROLE
    workspace_id = workspace_for(conn, account.role, account.workspace)
    if (person.role, person.workspace_id) == (account.role, workspace_id):
        return person
    values = {"role": account.role, "workspace_id": workspace_id}
    conn.execute(update(people).where(people.c.id == person.id).values(**values))
    if workspace_id != person.workspace_id:
        revoke_keys_of(conn, person.id, actor=audit.SYSTEM, at_ms=at_ms)
    detail = {"name": person.name, "role": {"from": person.role, "to": account.role}}
    audit.append(conn, audit.SYSTEM, "person.change", person.id, detail, workspace_id, at_ms)
    return show_person(conn, person.id)


def _created(conn: Connection, account: Account, at_ms: int) -> Person | NotAdmitted:
    if account.role is None:
        return NotAdmitted.UNINVITED
    workspace_id = workspace_for(conn, account.role, account.workspace)
    name = next((each for each in _names_for(account) if not _is_taken(conn, each)), None)
    if name is None:
        return NotAdmitted.NAME_TAKEN
    more = {"subject": account.key, "has_provider_role": True}
    return insert_person(conn, name, account.role, workspace_id, more, actor=audit.SYSTEM, at_ms=at_ms)


def _names_for(account: Account) -> list[str]:
    """In the form of a person's name, the best first. An account chooses its name: it may be that of another."""
    texts = (account.name, account.email or "", f"{account.name[: MAX_NAME_LENGTH // 2]} {account.subject}")
    cleaned = ("".join(each if each.isprintable() else " " for each in text) for text in texts)
    shortened = (" ".join(text.split())[:MAX_NAME_LENGTH].strip() for text in cleaned)
    return [text for text in shortened if text]


def _is_taken(conn: Connection, name: str) -> bool:
    return conn.execute(select(people.c.id).where(people.c.login == login_of(name))).first() is not None
