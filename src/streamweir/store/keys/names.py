"""The names of keys, workspaces and people, by their ids: lists show them instead of the ids."""

from collections.abc import Iterable

from sqlalchemy import Connection, select

from streamweir.store.db.tables import keys, people, workspaces
from streamweir.store.journal.entries import plain


def names_of(conn: Connection, ids: Iterable[str | None]) -> dict[str, str]:
    """Revoked keys and people who were removed have theirs too. Ids of other things are left out."""
    wanted = sorted({plain(each) for each in ids if each})
    if not wanted:
        return {}
    found: dict[str, str] = {}
    has_people = any(each.startswith("psn_") for each in wanted)
    for table in (keys, workspaces, *((people,) if has_people else ())):
        found |= {
            row.id: row.name for row in conn.execute(select(table.c.id, table.c.name).where(table.c.id.in_(wanted)))
        }
    return found
