"""How a database does what a function asks of it, in its own words."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, event


def explained(conn: Connection, work: Callable[[Connection], object]) -> list[str]:
    """The plan of each statement."""
    said: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "FROM instances" not in statement:  # names of nodes, by their primary key
            said.append((statement, parameters))

    event.listen(conn, "before_cursor_execute", note)
    try:
        work(conn)
    finally:
        event.remove(conn, "before_cursor_execute", note)
    how = "EXPLAIN QUERY PLAN " if conn.dialect.name == "sqlite" else "EXPLAIN "
    last = 3 if conn.dialect.name == "sqlite" else 0
    return [
        "\n".join(str(row[last]) for row in conn.exec_driver_sql(how + statement, parameters))
        for statement, parameters in said
    ]
