"""Brings a database to the schema that this program knows, once, whoever else starts at the same time.

It works inside one transaction on a connection that it is given: on SQLite that transaction has the
write lock from its beginning, on PostgreSQL an advisory lock is taken first, so the second to come
finds everything done. A schema of a newer program is never touched. An empty database gets the tables
as they are described; Alembic, which takes a third of a second and 10 MB to import, leads an older one
there. A test holds the two ways against each other.
"""

from pathlib import Path

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, bindparam, func, insert, inspect, select

from streamweir.store.db.base import StoreError
from streamweir.store.db.migrations import HEAD, REVISIONS
from streamweir.store.db.tables import metadata

_version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Alembic's own, as Alembic makes it."""
_LOCK = 0x73747265616D7765
"""Of PostgreSQL's advisory locks, which belong to one database: `streamwe` in ASCII."""


def found_revision(conn: Connection) -> str | None:
    """None: the database is empty. A revision that this program does not know is a `StoreError`."""
    if not inspect(conn).has_table(_version.name):
        return None
    found: str | None = conn.execute(select(_version.c.version_num)).scalar()
    if found is not None and found not in REVISIONS:
        raise StoreError(
            f"the database has schema {found}, made by a newer streamweir; this one knows schemas up to {HEAD}"
        )
    return found


def upgrade(conn: Connection) -> None:
    """To `HEAD`, in the transaction that is open."""
    if conn.dialect.name == "postgresql":
        conn.execute(select(func.pg_advisory_xact_lock(bindparam("lock", _LOCK, BigInteger))))
    found = found_revision(conn)
    if found is None:
        metadata.create_all(conn, checkfirst=False)  # what is in the way is somebody else's
        _version.create(conn, checkfirst=True)
        conn.execute(insert(_version).values(version_num=HEAD))
    elif found != HEAD:
        migrate(conn)


def migrate(conn: Connection) -> None:
    """From whatever revision it has, one after the other."""
    from alembic.command import upgrade as run
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = conn
    run(config, "head")
