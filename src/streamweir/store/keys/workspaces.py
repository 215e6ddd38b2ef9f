"""Workspaces: the owners of keys and of a ledger. There is always one, `default`; none is ever deleted.

A change takes the counter of changes first, so that changes are serialized and every process loads them in order, and
writes to the audit log last. Names are unique, and a name is never the id of another workspace, so that both identify
one.
"""

from secrets import token_bytes
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs
from sqlalchemy import Connection, RowMapping, insert, or_, select, update

from streamweir.policy.access import DEFAULT_WORKSPACE
from streamweir.policy.secret import ID_BYTES, make_id
from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.db.errors import Conflict, Invalid, NotFound, quoted
from streamweir.store.db.tables import workspaces
from streamweir.store.journal.entries import plain
from streamweir.store.keys import audit

MAX_NAME_LENGTH = 64


class Workspace(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    prepaid: bool
    """It can spend only its credit."""
    created_ms: int
    price_group: str | None = None
    """By what the requests of its keys are sold. None: the default."""


class WorkspaceSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    prepaid: bool = False
    price_group: str | None = None


class WorkspaceChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str | UnsetType = UNSET
    prepaid: bool | UnsetType = UNSET
    price_group: str | None | UnsetType = UNSET


def has_default_workspace(conn: Connection) -> bool:
    return bool(_rows(conn, DEFAULT_WORKSPACE))


def open_default_workspace(conn: Connection, at_ms: int) -> None:
    """Creates it if it does not exist."""
    if has_default_workspace(conn):
        return
    version = advance(conn, CHANGES)
    if not has_default_workspace(conn):
        spec = WorkspaceSpec(name=DEFAULT_WORKSPACE)
        _insert(conn, DEFAULT_WORKSPACE, spec, version=version, actor=audit.SYSTEM, at_ms=at_ms)


def create_workspace(conn: Connection, spec: WorkspaceSpec, *, actor: str, at_ms: int) -> Workspace:
    check_name(spec.name)
    _check_price_group(spec.price_group)
    version = advance(conn, CHANGES)
    _check_name_is_free(conn, spec.name)
    id = make_id("ws", token_bytes(ID_BYTES))
    return _insert(conn, id, spec, version=version, actor=actor, at_ms=at_ms)


def list_workspaces(conn: Connection, *, after: str | None = None, limit: int | None = None) -> list[Workspace]:
    """By name, starting after the workspace `after`."""
    statement = select(workspaces).order_by(workspaces.c.name).limit(limit)
    if after is not None:
        statement = statement.where(workspaces.c.name > find_workspace(conn, after).name)
    return [read_workspace(row) for row in conn.execute(statement).mappings()]


def find_workspace(conn: Connection, name_or_id: str) -> Workspace:
    """By its id, else by its name."""
    rows = _rows(conn, name_or_id)
    if not rows:
        raise NotFound(f"there is no workspace {quoted(name_or_id)}")
    return read_workspace(next((row for row in rows if row["id"] == name_or_id), rows[0]))


def change_workspace(
    conn: Connection, workspace_id: str, change: WorkspaceChange, *, actor: str, at_ms: int
) -> Workspace:
    if change.name is not UNSET:
        check_name(change.name)
    if change.price_group is not UNSET:
        _check_price_group(change.price_group)
    version = advance(conn, CHANGES)
    row = conn.execute(select(workspaces).where(workspaces.c.id == plain(workspace_id))).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no workspace {quoted(workspace_id)}")
    wanted = {name: value for name, value in structs.asdict(change).items() if value is not UNSET}
    changed = {name: value for name, value in wanted.items() if row[name] != value}
    if not changed:
        return read_workspace(row)
    if "name" in changed:
        _check_name_is_free(conn, changed["name"], except_id=workspace_id)
    conn.execute(update(workspaces).where(workspaces.c.id == row["id"]).values(**changed, version=version))
    detail = {name: {"from": row[name], "to": value} for name, value in changed.items()}
    audit.append(conn, actor, "workspace.change", row["id"], detail, row["id"], at_ms)
    return structs.replace(read_workspace(row), **changed)


def read_workspace(row: RowMapping) -> Workspace:
    return Workspace(**{name: row[name] for name in Workspace.__struct_fields__})


def check_name(name: str, param: str = "name") -> None:
    """For a workspace, a key or a price group: a name that can be typed, and looks the same wherever it is shown."""
    if not 1 <= len(name) <= MAX_NAME_LENGTH:
        raise Invalid(f"a name must have 1 to {MAX_NAME_LENGTH} characters, got {len(name)}", param)
    if not name.isprintable() or name != name.strip():
        raise Invalid("a name must be plain text without spaces at the start or end", param)


def _check_price_group(name: str | None) -> None:
    """Whether the file has it is not known here."""
    if name is not None:
        check_name(name, "price_group")


def _insert(conn: Connection, id: str, spec: WorkspaceSpec, *, version: int, actor: str, at_ms: int) -> Workspace:
    detail: dict[str, Any] = {"name": spec.name, "prepaid": spec.prepaid}
    if spec.price_group is not None:
        detail["price_group"] = spec.price_group
    values = {"id": id, "created_ms": at_ms, **detail}
    conn.execute(insert(workspaces).values(**values, version=version))
    audit.append(conn, actor, "workspace.create", id, detail, id, at_ms)
    return Workspace(**values)


def _check_name_is_free(conn: Connection, name: str, except_id: str | None = None) -> None:
    if any(row["id"] != except_id for row in _rows(conn, name)):
        raise Conflict(f"a workspace named {quoted(name)} already exists", "name")


def _rows(conn: Connection, name_or_id: str) -> list[RowMapping]:
    wanted = plain(name_or_id)
    statement = select(workspaces).where(or_(workspaces.c.id == wanted, workspaces.c.name == wanted))
    return list(conn.execute(statement).mappings())
