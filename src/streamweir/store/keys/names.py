"""The names of keys and workspaces, by their ids: lists show them instead of the ids."""

from collections.abc import Iterable

from sqlalchemy import Connection, select

from streamweir.store.db.tables import keys, workspaces
from streamweir.store.journal.entries import plain


def names_of(conn: Connection, ids: Iterable[str | None]) -> dict[str, str]:
    """Revoked keys have theirs too. Ids of other things are left out."""
    wanted = sorted({plain(each) for each in ids if each})
    if not wanted:
        return {}
    found: dict[str, str] = {}
    for table in (keys, workspaces):
        found |= {
            row.id: row.name for row in conn.execute(select(table.c.id, table.c.name).where(table.c.id.in_(wanted)))
        }
    return found
