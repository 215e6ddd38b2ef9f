"""The keys and workspaces that every process keeps in memory, and their changes.

`changes_since` returns everything that is newer than a version, and the version for the next call; version 0 returns
everything. Versions are committed in order (`store.db.counter`), so repeated calls miss nothing. An object may be
returned twice, with the same values. Keys of the configuration file are left out: a process has them from its file.
"""

from collections.abc import Mapping

from msgspec import Struct
from sqlalchemy import Connection, RowMapping, or_, select

from streamweir.policy.access import Key
from streamweir.policy.limits.budget import workspace_account
from streamweir.policy.limits.key_limits import NAMES, limits_of
from streamweir.store.db.counter import CHANGES, current
from streamweir.store.db.tables import accounts, keys, people, workspaces
from streamweir.store.keys.keys import STORE, read_key


class KeyState(Struct, frozen=True, kw_only=True):
    key: Key
    digests: Mapping[bytes, float | None]
    """The digests of its secrets, and until when each is valid (Unix seconds): that of a rotated secret expires."""


class WorkspaceState(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    prepaid: bool
    granted: int
    """The total of its credits, in nano-dollars."""
    price_group: str | None = None


class Changes(Struct, frozen=True, kw_only=True):
    version: int
    keys: tuple[KeyState, ...] = ()
    """Including revoked ones, with the time."""
    workspaces: tuple[WorkspaceState, ...] = ()


def changes_since(conn: Connection, version: int) -> Changes:
    now = current(conn, CHANGES)
    if now == version:
        return Changes(version=version)
    if now < version:  # another database, or an older state of it: all known values may be wrong
        version = 0
    joined = keys.outerjoin(people, people.c.id == keys.c.person_id)
    wanted = select(keys, people.c.disabled_ms).select_from(joined)
    changed = conn.execute(wanted.where(keys.c.version > version, keys.c.origin == STORE)).mappings()
    states = tuple(_state(row) for row in changed)
    found = conn.execute(
        select(workspaces, accounts.c.granted)
        .select_from(workspaces.outerjoin(accounts, accounts.c.id == workspace_account("") + workspaces.c.id))
        .where(workspaces.c.version > version)
    )
    known = tuple(
        WorkspaceState(
            id=row["id"],
            name=row["name"],
            prepaid=row["prepaid"],
            granted=row["granted"] or 0,
            price_group=row["price_group"],
        )
        for row in found.mappings()
    )
    return Changes(version=now, keys=states, workspaces=known)


def find_limited(conn: Connection) -> str | None:
    """The name of an object of the store that is valid and has a limit; None: there is none."""
    limits = (*(keys.c[name] for name in NAMES), keys.c.budget_nano)
    limited = select(keys.c.name).where(
        keys.c.origin == STORE, keys.c.revoked_ms.is_(None), or_(*(limit.is_not(None) for limit in limits))
    )
    name = conn.execute(limited.limit(1)).scalar_one_or_none()
    if name is not None:
        return f"the key {name!r}"
    name = conn.execute(select(workspaces.c.name).where(workspaces.c.prepaid).limit(1)).scalar_one_or_none()
    return None if name is None else f"the prepaid workspace {name!r}"


def _state(row: RowMapping) -> KeyState:
    record = read_key(row)
    key = Key(
        id=record.id,
        workspace_id=record.workspace_id,
        name=record.name,
        digest=row["digest"],
        last4=record.last4,
        scopes=frozenset(record.scopes),
        models=record.models,
        dialect=record.dialect,
        **limits_of(record),
        budget_nano=record.budget_nano,
        budget_period=record.budget_period or "total",
        log_content=record.log_content,
        show_routing=record.show_routing,
        show_cost=record.show_cost,
        resumable=record.resumable,
        price_group=record.price_group,
        expires_at=record.expires_ms / 1000 if record.expires_ms is not None else None,
        revoked_at=record.revoked_ms / 1000 if record.revoked_ms is not None else None,
        is_suspended=row["disabled_ms"] is not None,
    )
    digests: dict[bytes, float | None] = {key.digest: None}
    if row["old_digest"] is not None:
        digests[row["old_digest"]] = row["old_until_ms"] / 1000
    return KeyState(key=key, digests=digests)
