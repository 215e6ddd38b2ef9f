"""Patterns in filters of the request log: `*` stands for any text, also none; then upper and lower case are the same.

A value without `*` is compared as it is, so that an index can be used. What `LIKE` would take for a wildcard of its own
is escaped. The number of wildcards is bounded, because the time for one comparison grows with each.
"""

import re
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select

from streamweir.core.errors import CallerError
from streamweir.store.db.tables import keys
from streamweir.store.journal.entries import plain

MAX_WILDCARDS = 8
MAX_KEYS = 200
"""That one pattern may stand for."""


def is_pattern(value: str | None) -> bool:
    return value is not None and "*" in value


def matches(column: ColumnElement[Any], value: str) -> ColumnElement[bool]:
    """Raises `CallerError` for a pattern with too many wildcards."""
    if not is_pattern(value):
        return column == plain(value)
    pieces = re.split(r"\*+", plain(value).lower())
    if len(pieces) > MAX_WILDCARDS + 1:
        raise CallerError("invalid_value", f"A filter has at most {MAX_WILDCARDS} '*'.")
    escaped = "%".join(re.sub(r"([\\%_])", r"\\\1", piece) for piece in pieces)
    return func.lower(column).like(escaped, escape="\\")


def keys_named(conn: Connection, wanted: str, workspace_id: str | None, person_id: str | None = None) -> list[str]:
    """The ids of the keys with this id or name, the newest first. Raises `CallerError` for a pattern of too many.
    None: of all workspaces, of all people."""
    statement = select(keys.c.id).where(or_(keys.c.id == plain(wanted), matches(keys.c.name, wanted)))
    if workspace_id is not None:
        statement = statement.where(keys.c.workspace_id == plain(workspace_id))
    if person_id is not None:
        statement = statement.where(keys.c.person_id == plain(person_id))
    found = list(conn.scalars(statement.order_by(keys.c.created_ms.desc(), keys.c.id).limit(MAX_KEYS + 1)))
    if len(found) > MAX_KEYS:
        raise CallerError("invalid_value", f"More than {MAX_KEYS} keys have such a name.", param="key")
    return found
