"""People: who may use the console by name, with which role, and how they get their password.

A person is invited: a token is shown once, and whoever has it chooses the password, within `INVITED_MS`. A reset is
another invitation, and ends what the person had. Who logs in at the identity provider is in
`store.keys.federated_people`. Passwords come here as hashes only.

A name is never used again, because the audit log names people: who is removed keeps the row, without rights. There is
always an owner left. A change takes the counter of changes first, so that two changes see each other, and writes to the
audit log last. Within a workspace, a person of another one is not found.
"""

import re
from secrets import token_bytes
from typing import Any
from unicodedata import normalize

from msgspec import UNSET, Struct, UnsetType, structs
from sqlalchemy import Connection, RowMapping, func, insert, or_, select, tuple_, update

from streamweir.policy.access import digest_of
from streamweir.policy.permission import PERSON_ROLES, WORKSPACE_ROLES, Role
from streamweir.policy.secret import ID_BYTES, RANDOM_BYTES, make_id, make_invitation
from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.db.errors import Conflict, Invalid, NotFound, quoted
from streamweir.store.db.tables import keys, people
from streamweir.store.journal.entries import plain
from streamweir.store.keys import audit
from streamweir.store.keys.keys import revoke_key
from streamweir.store.keys.sessions import end_sessions_of
from streamweir.store.keys.workspaces import check_name, find_workspace

INVITED_MS = 72 * 3_600_000
MAX_EMAIL_LENGTH = 254
_EMAIL = re.compile(r"[!-?A-~]+@[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_CHANGEABLE = ("role", "workspace_id", "email", "disabled_ms")


class Person(Struct, frozen=True, kw_only=True):
    """The parts that may be shown."""

    id: str
    name: str
    role: Role
    workspace_id: str | None
    has_password: bool
    email: str | None
    """By which the identity provider's account is recognized the first time."""
    is_federated: bool
    """Has logged in at the identity provider, and is known by its account there."""
    has_provider_role: bool
    """The identity provider says the role."""
    created_ms: int
    invited_until_ms: int | None
    """Until then the password can be chosen."""
    seen_ms: int | None
    """The last login."""
    disabled_ms: int | None

    @property
    def actor(self) -> str:
        """As the audit log names it."""
        return f"person:{self.name}"


class PersonSpec(Struct, frozen=True, kw_only=True):
    name: str
    role: Role
    workspace: str | None = None
    """By name or id."""
    email: str | None = None


class PersonChange(Struct, frozen=True, kw_only=True):
    role: Role | UnsetType = UNSET
    workspace: str | None | UnsetType = UNSET
    email: str | None | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class Invitation(Struct, frozen=True):
    """A person with the token that is shown once."""

    person: Person
    token: str

    def __repr__(self) -> str:
        return f"Invitation(person={self.person!r}, token='****')"


class Credentials(Struct, frozen=True):
    """What a login with a password is compared with."""

    person: Person
    password: str | None

    def __repr__(self) -> str:
        return f"Credentials(person={self.person!r}, password='****')"


def login_of(name: str) -> str:
    """The form in which names are compared: two that look the same are the same."""
    return plain(normalize("NFKC", name).casefold())


def create_person(conn: Connection, spec: PersonSpec, *, actor: str, at_ms: int) -> Invitation:
    check_name(spec.name)
    advance(conn, CHANGES)
    workspace_id = workspace_for(conn, spec.role, spec.workspace)
    token = make_invitation(token_bytes(RANDOM_BYTES))
    more = {
        "invitation": digest_of(token),
        "invited_until_ms": at_ms + INVITED_MS,
        "email": _free_email(conn, spec.email, None),
    }
    person = insert_person(conn, spec.name, spec.role, workspace_id, more, actor=actor, at_ms=at_ms)
    return Invitation(person, token)


def list_people(
    conn: Connection, workspace_id: str | None = None, *, after: str | None = None, limit: int | None = None
) -> list[Person]:
    """The oldest first, starting after the person `after`."""
    statement = within(workspace_id).order_by(people.c.created_ms, people.c.id).limit(limit)
    if after is not None:
        last = show_person(conn, after, workspace_id)
        statement = statement.where(tuple_(people.c.created_ms, people.c.id) > tuple_(last.created_ms, last.id))
    return [read_person(row) for row in conn.execute(statement).mappings()]


def show_person(conn: Connection, id: str, workspace_id: str | None = None) -> Person:
    """Only by its id."""
    return read_person(_row(conn, id, workspace_id))


def find_person(conn: Connection, name_or_id: str) -> Person:
    wanted = within(None).where(or_(people.c.id == plain(name_or_id), people.c.login == login_of(name_or_id)))
    row = conn.execute(wanted).mappings().first()
    if row is None:
        raise NotFound(f"there is no person {quoted(name_or_id)}")
    return read_person(row)


def find_active(conn: Connection, id: str) -> Person | None:
    """None: it may not log in."""
    row = conn.execute(within(None).where(people.c.id == id, people.c.disabled_ms.is_(None))).mappings().one_or_none()
    return None if row is None else read_person(row)


def find_credentials(conn: Connection, name: str) -> Credentials | None:
    """None: nobody of that name may log in with a password."""
    active = within(None).where(people.c.login == login_of(name), people.c.disabled_ms.is_(None))
    row = conn.execute(active).mappings().one_or_none()
    return None if row is None else Credentials(read_person(row), row["password"])


def change_person(
    conn: Connection, id: str, change: PersonChange, *, workspace_id: str | None = None, actor: str, at_ms: int
) -> Person:
    version = advance(conn, CHANGES)
    person = show_person(conn, id, workspace_id)
    role = person.role if change.role is UNSET else change.role
    wanted = person.workspace_id if change.workspace is UNSET else change.workspace
    if change.workspace is UNSET and role not in WORKSPACE_ROLES:
        wanted = None
    if person.has_provider_role and (change.role is not UNSET or change.workspace is not UNSET):
        raise Conflict(f"the identity provider says the role of {quoted(person.name)}: change it there", "role")
    is_disabled = person.disabled_ms is not None if change.disabled is UNSET else change.disabled
    new = structs.replace(
        person,
        role=role,
        workspace_id=workspace_for(conn, role, wanted),
        email=person.email if change.email is UNSET else _free_email(conn, change.email, id),
        disabled_ms=(person.disabled_ms or at_ms) if is_disabled else None,
    )
    if new == person:
        return person
    if person.role is Role.OWNER and (new.role is not Role.OWNER or is_disabled):
        _check_owner_remains(conn, person)
    values = {name: getattr(new, name) for name in _CHANGEABLE}
    conn.execute(update(people).where(people.c.id == id).values(**values))
    if new.workspace_id != person.workspace_id:
        revoke_keys_of(conn, id, actor=actor, at_ms=at_ms)
    elif new.disabled_ms != person.disabled_ms:  # every process loads its keys anew: they are suspended, or not
        conn.execute(update(keys).where(keys.c.person_id == id).values(version=version))
    if is_disabled:
        end_sessions_of(conn, id)
    detail = {
        name: {"from": getattr(person, name), "to": getattr(new, name)}
        for name in _CHANGEABLE
        if getattr(person, name) != getattr(new, name)
    }
    audit.append(conn, actor, "person.change", id, {"name": person.name, **detail}, new.workspace_id, at_ms)
    return new


def invite_again(conn: Connection, id: str, *, workspace_id: str | None = None, actor: str, at_ms: int) -> Invitation:
    """A reset: the password and the sessions end, and another password can be chosen. An account of the identity
    provider is forgotten: the next one with the person's address is taken."""
    advance(conn, CHANGES)
    person = show_person(conn, id, workspace_id)
    if person.has_provider_role:
        raise Conflict(f"{quoted(person.name)} logs in at the identity provider, and has no password here")
    token = make_invitation(token_bytes(RANDOM_BYTES))
    values: dict[str, Any] = {"invitation": digest_of(token), "invited_until_ms": at_ms + INVITED_MS}
    values |= {"password": None, "subject": None}
    conn.execute(update(people).where(people.c.id == id).values(**values))
    ended = end_sessions_of(conn, id)
    detail = {"name": person.name, "sessions_ended": ended}
    audit.append(conn, actor, "person.reset", id, detail, person.workspace_id, at_ms)
    return Invitation(show_person(conn, id), token)


def remove_person(
    conn: Connection,
    id: str,
    *,
    revoke_keys: bool = True,
    workspace_id: str | None = None,
    actor: str,
    at_ms: int,
) -> Person:
    """Permanently. `revoke_keys`: those that are its own; else they stay in its workspace, as nobody's."""
    version = advance(conn, CHANGES)
    person = show_person(conn, id, workspace_id)
    if person.role is Role.OWNER:
        _check_owner_remains(conn, person)
    detail = {"name": person.name, "role": person.role, "sessions_ended": end_sessions_of(conn, id)}
    nothing: dict[str, Any] = {"password": None, "invitation": None, "invited_until_ms": None}
    nothing |= {"subject": None, "email": None}
    conn.execute(update(people).where(people.c.id == id).values(removed_ms=at_ms, **nothing))
    if revoke_keys:
        revoke_keys_of(conn, id, actor=actor, at_ms=at_ms)
    else:
        _give_up_keys(conn, id, version)
    audit.append(conn, actor, "person.remove", id, detail, person.workspace_id, at_ms)
    return person


def end_sessions_of_person(conn: Connection, id: str, *, actor: str, at_ms: int) -> int:
    """Returns their number."""
    person = show_person(conn, id)
    ended = end_sessions_of(conn, id)
    detail = {"name": person.name, "sessions_ended": ended}
    audit.append(conn, actor, "person.end_sessions", id, detail, person.workspace_id, at_ms)
    return ended


def find_invited(conn: Connection, token: str, at_ms: int) -> Person | None:
    """Who may choose a password with this token."""
    row = conn.execute(within(None).where(people.c.invitation == digest_of(token))).mappings().one_or_none()
    if row is None or row["disabled_ms"] is not None or at_ms >= (row["invited_until_ms"] or 0):
        return None
    return read_person(row)


def accept_invitation(conn: Connection, token: str, password: str, at_ms: int) -> Person | None:
    """Stores the hash of the password that was chosen. None: the invitation is not valid, or was used."""
    advance(conn, CHANGES)
    person = find_invited(conn, token, at_ms)
    if person is None:
        return None
    values: dict[str, Any] = {"password": password, "invitation": None, "invited_until_ms": None}
    conn.execute(update(people).where(people.c.id == person.id).values(**values))
    audit.append(conn, person.actor, "person.accept", person.id, {"name": person.name}, person.workspace_id, at_ms)
    return show_person(conn, person.id)


def change_password(conn: Connection, id: str, old: str, new: str, at_ms: int) -> bool:
    """Both are hashes. False: the old one has changed since it was compared. Every session of the person ends."""
    statement = update(people).where(people.c.id == id, people.c.password == old, people.c.disabled_ms.is_(None))
    if conn.execute(statement.values(password=new)).rowcount == 0:
        return False
    person = show_person(conn, id)
    detail = {"name": person.name, "sessions_ended": end_sessions_of(conn, id)}
    audit.append(conn, person.actor, "person.password", id, detail, person.workspace_id, at_ms)
    return True


def replace_hash(conn: Connection, id: str, old: str, new: str) -> None:
    """The same password, hashed with other parameters."""
    conn.execute(update(people).where(people.c.id == id, people.c.password == old).values(password=new))


def note_login(conn: Connection, id: str, at_ms: int) -> None:
    conn.execute(update(people).where(people.c.id == id).values(seen_ms=at_ms))


def insert_person(
    conn: Connection,
    name: str,
    role: Role,
    workspace_id: str | None,
    more: dict[str, Any],
    *,
    actor: str,
    at_ms: int,
) -> Person:
    login = login_of(name)
    taken = conn.execute(select(people.c.removed_ms).where(people.c.login == login)).first()
    if taken is not None:
        reason = "already exists" if taken.removed_ms is None else "was removed, and the audit log has the name"
        raise Conflict(f"a person named {quoted(name)} {reason}: choose another name", "name")
    id = make_id("psn", token_bytes(ID_BYTES))
    row: dict[str, Any] = {"id": id, "name": plain(name), "login": login, "role": role, "workspace_id": workspace_id}
    conn.execute(insert(people).values(**row, **more, created_ms=at_ms))
    detail = {"name": name, "role": role, "is_federated": "subject" in more}
    detail |= {"email": more["email"]} if more.get("email") is not None else {}
    audit.append(conn, actor, "person.create", id, detail, workspace_id, at_ms)
    return show_person(conn, id)


def workspace_for(conn: Connection, role: Role, workspace: str | None) -> str | None:
    """The id of the workspace that goes with the role."""
    if role not in PERSON_ROLES:
        raise Invalid(f"a person's role is one of {', '.join(PERSON_ROLES)}", "role")
    if role not in WORKSPACE_ROLES:
        if workspace is not None:
            raise Invalid(f"the role '{role}' is for all workspaces: leave the workspace out", "workspace")
        return None
    if workspace is None:
        raise Invalid(f"the role '{role}' needs a workspace", "workspace")
    return find_workspace(conn, workspace).id


def email_of(text: str) -> str | None:
    """In the form that is compared. None: it is no address. ASCII only, where two that look the same are the same."""
    address = text.lower() if text.isascii() else ""
    return address if len(address) <= MAX_EMAIL_LENGTH and _EMAIL.fullmatch(address) else None


def _free_email(conn: Connection, text: str | None, id: str | None) -> str | None:
    """The address for the person with this id, if nobody else has it."""
    if text is None:
        return None
    address = email_of(text)
    if address is None:
        raise Invalid("an e-mail address is NAME@DOMAIN, in ASCII", "email")
    owner = conn.execute(select(people.c.id).where(people.c.email == address)).scalar_one_or_none()
    if owner not in (None, id):
        raise Conflict(f"a person with the e-mail address {quoted(address)} already exists", "email")
    return address


def _check_owner_remains(conn: Connection, person: Person) -> None:
    others = select(func.count()).where(
        people.c.role == Role.OWNER,
        people.c.id != person.id,
        people.c.disabled_ms.is_(None),
        people.c.removed_ms.is_(None),
        or_(people.c.password.is_not(None), people.c.subject.is_not(None)),
    )
    if person.disabled_ms is None and conn.execute(others).scalar_one() == 0:
        raise Conflict(f"{quoted(person.name)} is the last owner who can log in: make somebody else an owner first")


def revoke_keys_of(conn: Connection, id: str, *, actor: str, at_ms: int) -> None:
    """The person knows their secrets, and has nothing to do with their workspace any more."""
    own = conn.execute(select(keys.c.id).where(keys.c.person_id == id).order_by(keys.c.id)).scalars().all()
    for key_id in own:
        revoke_key(conn, key_id, actor=actor, at_ms=at_ms)
    _give_up_keys(conn, id, advance(conn, CHANGES))


def _give_up_keys(conn: Connection, id: str, version: int) -> None:
    """They stay in their workspace, as nobody's."""
    nobody = {"person_id": None, "person_since_ms": None, "version": version}
    conn.execute(update(keys).where(keys.c.person_id == id).values(**nobody))


def within(workspace_id: str | None) -> Any:
    statement = select(people).where(people.c.removed_ms.is_(None))
    return statement if workspace_id is None else statement.where(people.c.workspace_id == plain(workspace_id))


def _row(conn: Connection, id: str, workspace_id: str | None = None) -> RowMapping:
    statement = within(workspace_id).where(people.c.id == plain(id))
    row: RowMapping | None = conn.execute(statement).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no person {quoted(id)}")
    return row


def read_person(row: RowMapping) -> Person:
    return Person(
        id=row["id"],
        name=row["name"],
        role=Role(row["role"]),
        workspace_id=row["workspace_id"],
        has_password=row["password"] is not None,
        email=row["email"],
        is_federated=row["subject"] is not None,
        has_provider_role=row["has_provider_role"],
        created_ms=row["created_ms"],
        invited_until_ms=row["invited_until_ms"],
        seen_ms=row["seen_ms"],
        disabled_ms=row["disabled_ms"],
    )
