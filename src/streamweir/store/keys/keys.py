"""Keys: create, show, change, rotate, revoke. They are never deleted, because the ledger refers to them.

A secret is created here, returned once, and stored as its digest and last four characters. A change takes the counter
of changes first (`store.db.counter`) and writes to the audit log last. Every function works within a workspace, or with
None within all: a key of another workspace is not found, as if it did not exist. Keys of the operator's file are shown,
and can be changed only in that file.
"""

from collections.abc import Mapping, Sequence
from secrets import token_bytes
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, structs
from sqlalchemy import ColumnElement, Connection, RowMapping, and_, insert, not_, or_, select, tuple_, update

from streamweir.policy.access import digest_of
from streamweir.policy.limits.budget import key_account, period_of
from streamweir.policy.limits.key_limits import KeyLimits, with_limits
from streamweir.policy.secret import ID_BYTES, RANDOM_BYTES, last4, make_id, make_key
from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.db.errors import Conflict, Invalid, NotFound, quoted
from streamweir.store.db.tables import keys, people
from streamweir.store.journal.entries import plain
from streamweir.store.keys import audit
from streamweir.store.keys.spec import KeyChange, KeySpec, changed, checked, differences, non_default_fields
from streamweir.store.keys.workspaces import find_workspace
from streamweir.store.ledger.accounts import Sums, delete_accounts, lock, sums_of_keys

STORE = "store"
FILE = "file"

MAX_GRACE_MS = 90 * 86_400_000
_MAX_NAMED = 5
"""The maximum number of keys that a message names."""
_strings = msgspec.json.Decoder(tuple[str, ...]).decode


KeyState = Literal["active", "revoked", "expired"]
"""`active`: neither of the others. A key that is both is revoked."""


class _KeyNames(Struct, frozen=True, kw_only=True):
    id: str
    workspace_id: str
    name: str
    origin: str
    last4: str
    scopes: tuple[str, ...]
    models: tuple[str, ...] | None
    dialect: str | None


if TYPE_CHECKING:

    class _NamesAndLimits(_KeyNames, KeyLimits, frozen=True): ...

else:
    _NamesAndLimits = with_limits(_KeyNames, is_shown=True)


class KeyRecord(_NamesAndLimits, frozen=True, kw_only=True):
    """The parts of a key that may be shown."""

    budget_nano: int | None
    budget_period: str | None
    log_content: bool
    show_routing: bool
    show_cost: bool
    resumable: bool
    price_group: str | None
    person_id: str | None
    """Whose key it is."""
    person_since_ms: int | None
    """If it was given to the person later: what was asked with it before is not shown to the person."""
    expires_ms: int | None
    created_ms: int
    revoked_ms: int | None
    old_until_ms: int | None
    """Until then the secret before the last rotation is valid too."""

    @property
    def spec(self) -> KeySpec:
        return KeySpec(**{name: getattr(self, name) for name in KeySpec.__struct_fields__})


class NewSecret(Struct, frozen=True):
    """A key with its secret, which is shown once."""

    key: KeyRecord
    secret: str

    def __repr__(self) -> str:
        return f"NewSecret(key={self.key!r}, secret='****')"


def create_key(
    conn: Connection, workspace_id: str, spec: KeySpec, *, is_own: bool = False, actor: str, at_ms: int
) -> NewSecret:
    """`is_own`: the person whose key it is makes it, and must not learn of others: only its own names are taken."""
    spec = checked(spec, at_ms)
    version = advance(conn, CHANGES)
    workspace = find_workspace(conn, workspace_id)
    _check_name_is_free(conn, workspace.id, spec.name, spec.person_id if is_own else None)
    _check_person(conn, workspace.id, spec.person_id)
    secret = make_key(token_bytes(RANDOM_BYTES))
    id = make_id("key", token_bytes(ID_BYTES))
    row: dict[str, Any] = {
        "id": id,
        "workspace_id": workspace.id,
        "origin": STORE,
        "digest": digest_of(secret),
        "last4": last4(secret),
        "created_ms": at_ms,
        "version": version,
        **columns_of(spec),
    }
    conn.execute(insert(keys).values(**row))
    audit.append(
        conn, actor, "key.create", id, {**non_default_fields(spec), "last4": row["last4"]}, workspace.id, at_ms
    )
    return NewSecret(_by_id(conn, id), secret)


def list_keys(
    conn: Connection,
    workspace_id: str | None = None,
    *,
    revoked: bool | None = None,
    state: KeyState | None = None,
    at_ms: int = 0,
    person_id: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[KeyRecord]:
    """The oldest first, starting after the key `after`. `revoked`, `person_id`: None for all. `state`: at the time
    `at_ms`."""
    statement = _within(workspace_id).order_by(keys.c.created_ms, keys.c.id).limit(limit)
    if person_id is not None:
        statement = statement.where(keys.c.person_id == plain(person_id))
    if revoked is not None:
        statement = statement.where(keys.c.revoked_ms.is_not(None) if revoked else keys.c.revoked_ms.is_(None))
    if state is not None:
        statement = statement.where(_in_state(state, at_ms))
    if after is not None:
        last = show_key(conn, after, workspace_id)
        if person_id not in (None, last.person_id):
            raise NotFound(f"there is no key {quoted(after)}")
        statement = statement.where(tuple_(keys.c.created_ms, keys.c.id) > tuple_(last.created_ms, last.id))
    return [read_key(row) for row in conn.execute(statement).mappings()]


def _in_state(state: KeyState, at_ms: int) -> ColumnElement[bool]:
    if state == "revoked":
        return keys.c.revoked_ms.is_not(None)
    is_over = and_(keys.c.expires_ms.is_not(None), keys.c.expires_ms <= at_ms)
    return and_(keys.c.revoked_ms.is_(None), is_over if state == "expired" else not_(is_over))


def show_key(conn: Connection, key_id: str, workspace_id: str | None = None) -> KeyRecord:
    """Only by its id."""
    row = conn.execute(_within(workspace_id).where(keys.c.id == plain(key_id))).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no key {quoted(key_id)}")
    return read_key(row)


def budget_sums(conn: Connection, found: Sequence[KeyRecord], at_ms: int) -> dict[str, Sums]:
    """The spent and held amounts of each key's budget in the current period, by the ids of keys that have one."""
    accounts = {
        key_account(key.id, period_of(key.budget_period or "total", at_ms / 1000)): key.id
        for key in found
        if key.budget_nano is not None
    }
    return {accounts[id]: sums for id, sums in sums_of_keys(conn, list(accounts)).items()}


def find_key(conn: Connection, name_or_id: str, workspace_id: str | None = None) -> KeyRecord:
    """By its id, else by a name that no other key has. A valid key has priority over revoked ones."""
    wanted = plain(name_or_id)
    statement = _within(workspace_id).where(or_(keys.c.id == wanted, keys.c.name == wanted))
    in_order = statement.order_by(keys.c.id != wanted, keys.c.revoked_ms.is_not(None), keys.c.id)
    found = [read_key(row) for row in conn.execute(in_order.limit(_MAX_NAMED)).mappings()]
    by_id = [key for key in found if key.id == wanted]
    in_force = [key for key in found if key.revoked_ms is None]
    candidates = by_id or in_force or found
    if not candidates:
        raise NotFound(f"there is no key {quoted(name_or_id)}")
    if len(candidates) > 1:
        ids = ", ".join(key.id for key in candidates)
        raise Conflict(f"several keys are named {quoted(name_or_id)}; use an id: {ids}", "name")
    return candidates[0]


def change_key(
    conn: Connection, key_id: str, change: KeyChange, *, workspace_id: str | None = None, actor: str, at_ms: int
) -> KeyRecord:
    version = advance(conn, CHANGES)
    key = _changeable(conn, key_id, workspace_id)
    spec = checked(changed(key.spec, change), at_ms, key.spec)
    if spec == key.spec:
        return key
    if spec.name != key.name:
        _check_name_is_free(conn, key.workspace_id, spec.name)
    values = columns_of(spec)
    if spec.person_id != key.person_id:
        _check_person(conn, key.workspace_id, spec.person_id)
        values["person_since_ms"] = at_ms if spec.person_id is not None else None
    conn.execute(update(keys).where(keys.c.id == key.id).values(**values, version=version))
    if spec.budget_period != key.budget_period:
        lock(conn, [key.workspace_id])
        delete_accounts(conn, key.id)
    audit.append(conn, actor, "key.change", key.id, differences(key.spec, spec), key.workspace_id, at_ms)
    return _by_id(conn, key.id)


def revoke_key(conn: Connection, key_id: str, *, workspace_id: str | None = None, actor: str, at_ms: int) -> KeyRecord:
    """Permanently. A key that is revoked already does not change."""
    version = advance(conn, CHANGES)
    key = _stored_key(conn, key_id, workspace_id)
    if key.revoked_ms is not None:
        return key
    conn.execute(update(keys).where(keys.c.id == key.id).values(revoked_ms=at_ms, version=version))
    detail = {"name": key.name, "last4": key.last4}
    audit.append(conn, actor, "key.revoke", key.id, detail, key.workspace_id, at_ms)
    return _by_id(conn, key.id)


def rotate_key(
    conn: Connection, key_id: str, *, grace_ms: int, workspace_id: str | None = None, actor: str, at_ms: int
) -> NewSecret:
    """A new secret. The previous one stays valid for `grace_ms`, and one before that becomes invalid."""
    if not 0 <= grace_ms <= MAX_GRACE_MS:
        raise Invalid("the grace time is between 0 and 90 days", "grace_ms")
    version = advance(conn, CHANGES)
    key = _changeable(conn, key_id, workspace_id)
    secret = make_key(token_bytes(RANDOM_BYTES))
    values: dict[str, Any] = {"digest": digest_of(secret), "last4": last4(secret), "version": version}
    values["old_digest"] = keys.c.digest if grace_ms else None
    values["old_until_ms"] = at_ms + grace_ms if grace_ms else None
    conn.execute(update(keys).where(keys.c.id == key.id).values(**values))
    detail = {"name": key.name, "last4": {"from": key.last4, "to": values["last4"]}, "grace_ms": grace_ms}
    audit.append(conn, actor, "key.rotate", key.id, detail, key.workspace_id, at_ms)
    return NewSecret(_by_id(conn, key.id), secret)


def read_key(row: Mapping[str, Any] | RowMapping) -> KeyRecord:
    members = {name: row[name] for name in KeyRecord.__struct_fields__}
    members["scopes"] = _strings(row["scopes"])
    members["models"] = _strings(row["models"]) if row["models"] is not None else None
    return KeyRecord(**members)


def columns_of(spec: KeySpec) -> dict[str, Any]:
    columns = structs.asdict(spec)
    columns["scopes"] = msgspec.json.encode(spec.scopes).decode()
    columns["models"] = msgspec.json.encode(spec.models).decode() if spec.models is not None else None
    return columns


def _within(workspace_id: str | None) -> Any:
    statement = select(keys)
    return statement if workspace_id is None else statement.where(keys.c.workspace_id == plain(workspace_id))


def _by_id(conn: Connection, id: str) -> KeyRecord:
    return read_key(conn.execute(select(keys).where(keys.c.id == id)).mappings().one())


def _stored_key(conn: Connection, key_id: str, workspace_id: str | None) -> KeyRecord:
    """Only by id: keys that are changed were shown before."""
    key = show_key(conn, key_id, workspace_id)
    if key.origin == FILE:
        raise Conflict(f"the key {quoted(key.name)} is defined in the configuration file: change it there")
    return key


def _changeable(conn: Connection, key_id: str, workspace_id: str | None) -> KeyRecord:
    key = _stored_key(conn, key_id, workspace_id)
    if key.revoked_ms is not None:
        raise Conflict(f"the key {quoted(key.name)} is revoked: create a new one")
    return key


def _check_name_is_free(conn: Connection, workspace_id: str, name: str, person_id: str | None = None) -> None:
    """`person_id`: among the keys of this person."""
    statement = select(keys.c.id).where(
        keys.c.workspace_id == workspace_id, keys.c.name == name, keys.c.revoked_ms.is_(None)
    )
    if person_id is not None:
        statement = statement.where(keys.c.person_id == person_id)
    if conn.execute(statement.limit(1)).first() is not None:
        whose = "in this workspace" if person_id is None else "among yours"
        raise Conflict(f"a key named {quoted(name)} already exists {whose}", "name")


def _check_person(conn: Connection, workspace_id: str, person_id: str | None) -> None:
    """Whose key it is: somebody of the key's workspace."""
    if person_id is None:
        return
    of_workspace = people.c.workspace_id == workspace_id
    found = select(people.c.id).where(people.c.id == plain(person_id), of_workspace, people.c.removed_ms.is_(None))
    if conn.execute(found).first() is None:
        raise Invalid(f"there is no person {quoted(person_id)} in the workspace of the key", "person_id")
