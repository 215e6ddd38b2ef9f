"""The keys of the operator's file, as rows, so that the ledger can refer to them. The file overrides the database.

Each has the id `file:{name}`. A row follows the file: it is marked as revoked if its entry was removed, and restored
with it. Nothing is written if nothing changed, so that every process of a node can store what it has read. A process
uses its own file, never these rows: two nodes may have different files.
"""

from collections.abc import Mapping, Sequence
from secrets import token_bytes
from typing import Any

from msgspec import structs
from sqlalchemy import Connection, RowMapping, bindparam, insert, or_, select, update

from streamweir.policy.access import Key
from streamweir.policy.limits.key_limits import limits_of
from streamweir.store.db.counter import CHANGES, advance
from streamweir.store.db.errors import Conflict, NotFound, quoted
from streamweir.store.db.tables import keys
from streamweir.store.journal.entries import plain
from streamweir.store.keys import audit
from streamweir.store.keys.keys import FILE, columns_of, read_key
from streamweir.store.keys.spec import SCOPES, KeySpec, differences, non_default_fields
from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace, find_workspace, open_default_workspace
from streamweir.store.ledger.accounts import delete_accounts, lock


def file_key_id(name: str) -> str:
    return f"file:{name}"


def put_file_keys(conn: Connection, file_keys: Sequence[Key], at_ms: int) -> list[Key]:
    """The same keys, with their ids and those of their workspaces in the database.

    `workspace_id` in the file is an id or a name; a workspace that does not exist is created, and so is the default
    one. Raises `Conflict` if a secret belongs to a key of the store.
    """
    open_default_workspace(conn, at_ms)
    if not _has_changed(conn, file_keys):
        return [_named(conn, key) for key in file_keys]
    version = advance(conn, CHANGES)
    for name in dict.fromkeys(key.workspace_id for key in file_keys):
        _open_workspace(conn, name, at_ms)
    file_keys_by_id = [_named(conn, key) for key in file_keys]
    _check_secrets_are_new(conn, file_keys_by_id)
    before = _rows(conn)
    _clear_moved_digests(conn, file_keys_by_id, before)
    _delete_outdated_accounts(conn, file_keys_by_id, before)
    for key in file_keys_by_id:
        _put(conn, key, before.get(key.id), version=version, at_ms=at_ms)
    _revoke_others(conn, file_keys_by_id, before, version=version, at_ms=at_ms)
    return file_keys_by_id


def _has_changed(conn: Connection, file_keys: Sequence[Key]) -> bool:
    """Whether the rows differ from the file."""
    rows = _rows(conn)
    in_force = {id for id, row in rows.items() if row["revoked_ms"] is None}
    if in_force != {file_key_id(key.name) for key in file_keys}:
        return True
    try:
        file_keys_by_id = [_named(conn, key) for key in file_keys]
    except NotFound:
        return True
    return any(_differs(_columns(key), rows[key.id]) for key in file_keys_by_id)


def _put(conn: Connection, key: Key, before: RowMapping | None, *, version: int, at_ms: int) -> None:
    columns, spec = _columns(key), _spec(key)
    if before is None:
        conn.execute(insert(keys).values(id=key.id, origin=FILE, created_ms=at_ms, version=version, **columns))
        detail: Mapping[str, Any] = {**non_default_fields(spec), "last4": key.last4}
        audit.append(conn, audit.SYSTEM, "key.create", key.id, detail, key.workspace_id, at_ms)
    elif _differs(columns, before) or before["revoked_ms"] is not None:
        values = {**columns, "revoked_ms": None, "version": version}
        conn.execute(update(keys).where(keys.c.id == key.id).values(**values))
        old = read_key(before)
        detail = {**differences(old.spec, spec), "last4": {"from": old.last4, "to": key.last4}}
        audit.append(conn, audit.SYSTEM, "key.change", key.id, detail, key.workspace_id, at_ms)


def _revoke_others(
    conn: Connection, file_keys_by_id: Sequence[Key], before: Mapping[str, RowMapping], *, version: int, at_ms: int
) -> None:
    for id in sorted(before.keys() - {key.id for key in file_keys_by_id}):
        row = before[id]
        if row["revoked_ms"] is None:
            conn.execute(update(keys).where(keys.c.id == id).values(revoked_ms=at_ms, version=version))
            detail = {"name": row["name"], "last4": row["last4"]}
            audit.append(conn, audit.SYSTEM, "key.revoke", id, detail, row["workspace_id"], at_ms)


def _clear_moved_digests(conn: Connection, file_keys_by_id: Sequence[Key], before: Mapping[str, RowMapping]) -> None:
    """A secret may move from one entry of the file to another: no row keeps the digest of another's secret."""
    own = {key.digest: key.id for key in file_keys_by_id}
    moved = [id for id, row in before.items() if own.get(row["digest"], id) != id]
    if moved:
        statement = update(keys).where(keys.c.id == bindparam("moved")).values(digest=bindparam("nobodys"))
        conn.execute(statement, [{"moved": id, "nobodys": token_bytes(32)} for id in moved])


def _delete_outdated_accounts(
    conn: Connection, file_keys_by_id: Sequence[Key], before: Mapping[str, RowMapping]
) -> None:
    """For budgets whose period or workspace changes: the accounts are created again when they are needed."""
    moved = []
    for key in file_keys_by_id:
        row = before.get(key.id)
        if row is not None and _differs(
            {"budget_period": _spec(key).budget_period, "workspace_id": key.workspace_id}, row
        ):
            moved.append((key.id, key.workspace_id, row["workspace_id"]))
    lock(conn, {id for _, *ids in moved for id in ids})
    for key_id, *_ in moved:
        delete_accounts(conn, key_id)


def _check_secrets_are_new(conn: Connection, file_keys_by_id: Sequence[Key]) -> None:
    for key in file_keys_by_id:
        same = or_(keys.c.digest == key.digest, keys.c.old_digest == key.digest)
        name = conn.execute(select(keys.c.name).where(keys.c.origin != FILE, same)).scalar_one_or_none()
        if name is not None:
            message = f"the key {quoted(key.name)} of the file has the secret of the key {quoted(name)}"
            raise Conflict(f"{message}, which was made here: it needs another")


def _open_workspace(conn: Connection, name: str, at_ms: int) -> None:
    try:
        find_workspace(conn, name)
    except NotFound:
        create_workspace(conn, WorkspaceSpec(name=name), actor=audit.SYSTEM, at_ms=at_ms)


def _named(conn: Connection, key: Key) -> Key:
    workspace = find_workspace(conn, key.workspace_id)
    return structs.replace(key, id=plain(file_key_id(key.name)), workspace_id=workspace.id)


def _spec(key: Key) -> KeySpec:
    return KeySpec(
        name=plain(key.name),
        scopes=tuple(scope for scope in SCOPES if scope in key.scopes),
        models=key.models,
        dialect=key.dialect,
        **limits_of(key),
        budget_nano=key.budget_nano,
        budget_period=key.budget_period if key.budget_nano is not None else None,
        log_content=key.log_content,
        show_routing=key.show_routing,
        show_cost=key.show_cost,
        resumable=key.resumable,
        price_group=key.price_group,
        expires_ms=round(key.expires_at * 1000) if key.expires_at is not None else None,
    )


def _columns(key: Key) -> dict[str, Any]:
    return {
        **columns_of(_spec(key)),
        "workspace_id": key.workspace_id,
        "digest": key.digest,
        "last4": plain(key.last4),
    }


def _differs(columns: Mapping[str, Any], row: RowMapping) -> bool:
    return any(row[name] != value for name, value in columns.items())


def _rows(conn: Connection) -> dict[str, RowMapping]:
    return {row["id"]: row for row in conn.execute(select(keys).where(keys.c.origin == FILE)).mappings()}
