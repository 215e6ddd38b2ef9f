"""An insert that may find its row there already, on either database: the one place that asks which it is."""

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def upsert(conn: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """To be followed by `on_conflict_do_nothing` or `on_conflict_do_update`, which both know alike."""
    return postgresql.insert(table) if conn.dialect.name == "postgresql" else sqlite.insert(table)
