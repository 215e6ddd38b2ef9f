"""What tests of keys and workspaces begin with, and how they look at all that a store holds."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, select

from streamweir.store.db.base import Store
from streamweir.store.db.errors import OperationRefused
from streamweir.store.db.tables import metadata
from streamweir.store.keys.changes import Changes, changes_since
from streamweir.store.keys.keys import NewSecret, create_key
from streamweir.store.keys.spec import KeySpec
from streamweir.store.keys.workspaces import Workspace, WorkspaceSpec, create_workspace, open_default_workspace

NOW = 1_763_200_000_000
HOUR = 3_600_000


async def new_key(store: Store, name: str = "ci", workspace_id: str = "default", **more: Any) -> NewSecret:
    def work(conn: Connection) -> NewSecret:
        open_default_workspace(conn, NOW)
        return create_key(conn, workspace_id, KeySpec(name=name, **more), actor="admin", at_ms=NOW)

    return await store.write(work)


async def new_workspace(store: Store, name: str, prepaid: bool = False) -> Workspace:
    spec = WorkspaceSpec(name=name, prepaid=prepaid)
    return await store.write(lambda conn: create_workspace(conn, spec, actor="admin", at_ms=NOW))


async def changes(store: Store, version: int = 0) -> Changes:
    return await store.read(lambda conn: changes_since(conn, version))


async def refused(store: Store, kind: type[OperationRefused], work: Callable[[Connection], object]) -> OperationRefused:
    """Nothing of it is kept, and the message is one that can be shown."""
    before = await dump(store)
    objection = await objected(store, kind, work)
    assert await dump(store) == before
    return objection


async def objected(
    store: Store, kind: type[OperationRefused], work: Callable[[Connection], object]
) -> OperationRefused:
    with pytest.raises(kind) as caught:
        await store.write(work)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 400
    return caught.value


async def dump(store: Store) -> dict[str, list[tuple[object, ...]]]:
    def read(conn: Connection) -> dict[str, list[tuple[object, ...]]]:
        return {
            table.name: sorted((tuple(row) for row in conn.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
        }

    return await store.read(read)
