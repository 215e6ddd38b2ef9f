"""Requests that were refused before a model was asked, counted by steps: from the request log, by an index of theirs.

They have no part in usage (`store.requests.usage`), as they cost nothing, and are known for as long as the log is kept.
Those without a valid key have no workspace: only a count of all workspaces has them.
"""

from sqlalchemy import Connection, Select, exists, func, select

from streamweir.store.db.tables import IS_REFUSED, requests
from streamweir.store.journal.entries import plain
from streamweir.store.requests.ownership import of_person
from streamweir.store.requests.usage import UsageFilter


def count_refused(conn: Connection, wanted: UsageFilter, step_ms: int) -> dict[int, int]:
    """By the start of the step, the oldest first. Steps without any are left out."""
    step = (requests.c.at_ms // step_ms).label("step")
    # An inner select, because a database does not see that two expressions with parameters are equal.
    steps = _refused(select(step), wanted).subquery().c.step
    found = conn.execute(select(steps, func.count()).group_by(steps).order_by(steps))
    return {at * step_ms: number for at, number in found}


def sum_refused(conn: Connection, wanted: UsageFilter) -> int:
    return conn.scalar(_refused(select(func.count()), wanted)) or 0


def has_refused(conn: Connection, wanted: UsageFilter) -> bool:
    return bool(conn.execute(select(exists(_refused(select(requests.c.at_ms), wanted)))).scalar())


def _refused(query: Select[tuple[int]], wanted: UsageFilter) -> Select[tuple[int]]:
    """Nothing for a provider: none was asked."""
    columns = requests.c
    found = query.where(IS_REFUSED, columns.at_ms >= wanted.since_ms, columns.at_ms < wanted.until_ms)
    equal = {
        columns.workspace_id: wanted.workspace_id,
        columns.key_id: wanted.key_id,
        columns.model: wanted.model,
    }
    for column, value in equal.items():
        if value is not None:  # as an expression: the indexes of a workspace and of a key have all of its requests
            found = found.where(func.coalesce(column, "") == plain(value))
    if wanted.person_id is not None:
        found = found.where(of_person(wanted.person_id, columns.key_id, columns.at_ms))
    return found.where(columns.at_ms < 0) if wanted.provider is not None else found
