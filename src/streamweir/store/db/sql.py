"""Statements that run for many rows at once, with little overhead beyond the driver's.

A statement is written in SQLAlchemy Core, with bound parameters, and compiled once per dialect; the rows are tuples in
the order of its parameters and go directly to the driver. That avoids SQLAlchemy's work per row (10 us for a row of the
request log; SQLite itself takes 8), so values must have types that both drivers accept: str, int, bool, bytes,
None. This module does not depend on tables.

`upsert` is an insert whose row may exist already, and `json_member` reads a text in a JSON document. They are the only
places that check which database it is.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, cast

from sqlalchemy import (
    JSON,
    BindParameter,
    ClauseElement,
    ColumnElement,
    Connection,
    Insert,
    Row,
    Select,
    String,
    Table,
    bindparam,
    func,
    insert,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy import column as plain_column
from sqlalchemy import table as plain_table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.compiler import SQLCompiler

_MAX_IDS = 512
"""The maximum number of ids in one look-up."""


class BatchStatement:
    """`run` executes it for each of the rows. `names`: its parameters, in the order of their positions in the text."""

    def __init__(self, build: Callable[[Connection], ClauseElement], names: Sequence[str]) -> None:
        self._build = build
        self._names = list(names)
        self._texts: dict[str, str] = {}

    def run(self, conn: Connection, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            conn.exec_driver_sql(self._texts.get(conn.dialect.name) or self._compile(conn), rows)

    def _compile(self, conn: Connection) -> str:
        text, names = _compiled(self._build(conn), conn)
        if names != self._names:
            raise ValueError(f"the parameters are {names}, not {self._names}")
        self._texts[conn.dialect.name] = text
        return text


class LookupByIds:
    """A look-up by ids: `build` gets the parameters for the ids.

    Their number is rounded up to a power of two, by repeating the last id, so that there are few different texts.
    """

    def __init__(self, build: Callable[[Sequence[BindParameter[str]]], Select[*tuple[Any, ...]]]) -> None:
        self._build = build
        self._texts: dict[tuple[str, int], str] = {}

    def run(self, conn: Connection, ids: Iterable[str]) -> Sequence[Row[*tuple[Any, ...]]]:
        """The rows are in the statement's order for up to 512 ids; beyond that, in its order within each 512."""
        all_ids = list(ids)
        if len(all_ids) <= _MAX_IDS:
            return self._find(conn, all_ids) if all_ids else []
        found: list[Row[*tuple[Any, ...]]] = []
        for start in range(0, len(all_ids), _MAX_IDS):
            found += self._find(conn, all_ids[start : start + _MAX_IDS])
        return found

    def _find(self, conn: Connection, ids: list[str]) -> Sequence[Row[*tuple[Any, ...]]]:
        size = 1 << (len(ids) - 1).bit_length()
        text = self._texts.get((conn.dialect.name, size))
        if text is None:
            parameters = [bindparam(f"id{number}", type_=String()) for number in range(size)]
            text, _ = _compiled(self._build(parameters), conn)
            self._texts[conn.dialect.name, size] = text
        return conn.exec_driver_sql(text, (*ids, *ids[-1:] * (size - len(ids)))).all()


def json_member(conn: Connection, document: ColumnElement[Any], name: str) -> ColumnElement[Any]:
    """The text that a JSON object has under this name. NULL: it has none, or there is no object."""
    if conn.dialect.name == "sqlite":
        found: ColumnElement[Any] = func.json_extract(document, f"$.{name}")
        return found
    member: ColumnElement[Any] = sql_cast(document, JSON)[name].as_string()
    return member


def insert_columns(table: Table, names: Collection[str]) -> Insert:
    """An insert of these columns in this order, for any order in the table; other columns are NULL."""
    return insert(plain_table(table.name, *(plain_column(name, table.c[name].type) for name in names)))


def _compiled(statement: ClauseElement, conn: Connection) -> tuple[str, list[str]]:
    compiled = cast("SQLCompiler", statement.compile(dialect=conn.dialect))
    return compiled.string, list(compiled.positiontup or ())


def upsert(conn: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """To be followed by `on_conflict_do_nothing` or `on_conflict_do_update`, which both databases have."""
    return postgresql.insert(table) if conn.dialect.name == "postgresql" else sqlite.insert(table)
