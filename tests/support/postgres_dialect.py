"""One dialect of SQLAlchemy for all PostgreSQL stores of this process, and one cache of compiled statements.

A store of the program has its own, which is filled in the first minute. Of the stores of tests each would compile all
of its statements again, and ask the server for its version: a third of what a test on PostgreSQL takes.
"""

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine

from streamweir.store.db.postgres import PostgresStore

_first: list[Engine] = []
_initialized: list[Any] = []
_dialect: Any = asyncpg.dialect
_make_engine = PostgresStore._make_engine
_initialize = _dialect.initialize


def shares_compiled_statements() -> None:
    PostgresStore._make_engine = _make_sharing_engine  # type: ignore[method-assign,assignment]
    _dialect.initialize = _initialize_once


def _make_sharing_engine(store: PostgresStore, settings: dict[str, str], size: int) -> AsyncEngine:
    made = _make_engine(store, settings, size)
    engine = made.sync_engine
    if not _first:
        _first.append(engine)
    engine.dialect = engine.pool._dialect = _first[0].dialect
    engine._compiled_cache = _first[0]._compiled_cache
    return made


def _initialize_once(dialect: Any, connection: Any) -> None:
    """It is called for the dialect that an engine was made with. Stores that are opened at the same time all do it, for
    the first of them may not be done."""
    shared = _first[0].dialect if _first else dialect
    if shared not in _initialized:
        _initialize(shared, connection)
        _initialized.append(shared)
