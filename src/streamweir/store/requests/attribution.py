"""Usage by what callers say about their requests, in steps of a day: by end user, session, tag and API.

Each request counts once by its end user (the empty group: it has none) and by its API, so these add up to the total.
It counts under each of its tags, so tags do not. A filter by one of the four can be grouped by key; model and provider
are not known here (`store.requests.usage`). Sums of sessions are kept as long as the requests, of tags for
`store.requests.retention.TAG_DAYS`.
"""

from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Insert, case, null, select

from streamweir.core.errors import CallerError
from streamweir.store.db.sql import BatchStatement, upsert
from streamweir.store.db.tables import ATTRIBUTION, SUMS, attribution_days
from streamweir.store.journal.entries import plain
from streamweir.store.requests.usage import DAY_MS, MAX_STEPS, Usage, largest_groups, sums_of, usage_of

Kind = Literal["end_user", "session", "tag", "api"]
KINDS: tuple[Kind, ...] = ("end_user", "session", "tag", "api")
AttributedGrouping = Literal["total", "key", "end_user", "session", "tag", "api"]

ATTRIBUTED = ("day", *ATTRIBUTION, "digest", *SUMS)
_columns = attribution_days.c


def _add(conn: Connection) -> Insert:
    statement = upsert(conn, attribution_days)
    sums = {name: _columns[name] + statement.excluded[name] for name in SUMS}
    return statement.on_conflict_do_update(index_elements=("day", *ATTRIBUTION), set_=sums)


add_attributed = BatchStatement(_add, ATTRIBUTED)
"""Adds to the sums of rows."""


class AttributionFilter(Struct, frozen=True, kw_only=True):
    """A period; other absent values do not restrict."""

    since_ms: int
    until_ms: int
    workspace_id: str | None = None
    """None: every workspace."""
    key_id: str | None = None
    kind: Kind | None = None
    value: str | None = None
    """With `kind`: only requests with this value."""


def read_attributed(
    conn: Connection, wanted: AttributionFilter, by: AttributedGrouping = "total", *, groups: int = 20
) -> Usage:
    """As `store.requests.usage.read_usage`, by the day. Raises `CallerError` for a period of too many days, and for a
    group of one kind within a value of another: only the sums of each are kept."""
    if (wanted.until_ms - wanted.since_ms) // DAY_MS > MAX_STEPS:
        raise CallerError("invalid_value", f"A series has at most {MAX_STEPS} steps.", param="since_ms")
    by_kind = next((kind for kind in KINDS if kind == by), None)
    if by_kind is not None and wanted.kind not in (None, by_kind):
        message = f"Usage by {by} of one {wanted.kind} is not kept. Leave one of the two out."
        raise CallerError("invalid_value", message, param="by")
    where = _conditions(wanted, by_kind or wanted.kind or "api")
    inner = select(
        _columns.day.label("at"), _group(conn, where, by, groups).label("group"), *(_columns[name] for name in SUMS)
    )
    grouped = inner.where(*where).subquery().c
    rows = conn.execute(select(grouped.at, grouped.group, *sums_of(grouped, SUMS)).group_by(grouped.at, grouped.group))
    return usage_of([((at * DAY_MS, group), counts) for at, group, *counts in rows])


def _group(conn: Connection, where: list[ColumnElement[bool]], by: str, max_groups: int) -> ColumnElement[Any]:
    if by == "total":
        return null()
    column = _columns.key_id if by == "key" else _columns.value
    largest = largest_groups(conn, column, where, max_groups)
    return column if largest is None else case((column.in_(largest), column), else_=None)


def _conditions(wanted: AttributionFilter, kind: str) -> list[ColumnElement[bool]]:
    found = [
        _columns.day >= -(-max(0, min(wanted.since_ms, 2**62)) // DAY_MS),
        _columns.day < -(-max(0, min(wanted.until_ms, 2**62)) // DAY_MS),
        _columns.kind == kind,
    ]
    equal = {
        _columns.workspace_id: wanted.workspace_id,
        _columns.key_id: wanted.key_id,
        _columns.value: wanted.value if wanted.kind is not None else None,
    }
    return found + [column == plain(value) for column, value in equal.items() if value is not None]
