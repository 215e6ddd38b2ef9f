"""Upgrades a database to the schema of this program, once, even if several processes start at the same time.

It works inside one transaction. On SQLite the transaction has the write lock from its beginning, on PostgreSQL it takes
an advisory lock first, so a second process finds everything done. A schema of a newer program is never changed, and
one that processes of an older program use is not changed under them: they would write rows without the new columns. An
empty database gets the tables of `store.db.tables`. Alembic, which takes a third of a second
and 10 MB to import, migrates an older one. A test compares the results of the two.
"""

import time
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    MetaData,
    String,
    Table,
    bindparam,
    cast,
    func,
    insert,
    inspect,
    select,
)

from streamweir.store.db.base import StoreError
from streamweir.store.db.migrations import HEAD, REVISIONS
from streamweir.store.db.tables import metadata

_version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""Alembic's table, as Alembic creates it."""
_instances = Table(
    "instances",
    MetaData(),
    Column("node", String),
    Column("seen_ms", BigInteger),
    Column("stopped_ms", BigInteger),
)
"""As every revision has it."""
_SILENT_MS = 30_000
"""A process that has sent no heartbeat for this time is dead; one is due every two seconds."""
_LOCK = 0x73747265616D7765
"""Of PostgreSQL's advisory locks, which belong to one database: `streamwe` in ASCII."""


class SchemaInUse(StoreError):
    """Processes of an older program use the database."""


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


def upgrade(conn: Connection, *, is_alone: bool = True) -> str | None:
    """To `HEAD`, in the transaction that is open. Without `is_alone`, other processes may use the database: then
    `SchemaInUse` is raised. Returns the schema that was there, if it was another one."""
    if conn.dialect.name == "postgresql":
        conn.execute(select(func.pg_advisory_xact_lock(bindparam("lock", _LOCK, BigInteger))))
    found = found_revision(conn)
    if found is None:
        metadata.create_all(conn, checkfirst=False)  # an existing table belongs to another program
        _version.create(conn, checkfirst=True)
        conn.execute(insert(_version).values(version_num=HEAD))
    elif found != HEAD:
        nodes = [] if is_alone else _nodes_alive(conn)
        if nodes:
            raise SchemaInUse(
                f"the database has schema {found}, which processes of an older streamweir use ({', '.join(nodes)}): "
                f"stop them, then it is updated to {HEAD}"
            )
        migrate(conn)
        return found
    return None


def _nodes_alive(conn: Connection) -> list[str]:
    now_ms = time.time_ns() // 1_000_000
    if conn.dialect.name == "postgresql":  # by its clock, as the heartbeats
        seconds = func.extract("epoch", func.clock_timestamp())
        now_ms = conn.execute(select(cast(func.floor(seconds * 1000), BigInteger))).scalar_one()
    is_alive = (_instances.c.stopped_ms.is_(None), _instances.c.seen_ms > now_ms - _SILENT_MS)
    return sorted(set(conn.scalars(select(_instances.c.node).where(*is_alive).limit(20))))


def migrate(conn: Connection) -> None:
    """Runs the missing revisions, one after the other."""
    from alembic.command import upgrade as run
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = conn
    run(config, "head")
