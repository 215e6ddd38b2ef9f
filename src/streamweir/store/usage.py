"""What was used, by the hour or by the day, from the sums that outlive the requests.

Steps are those of UTC. The sums of a step are the same however they are grouped; where more groups
exist than are asked for, the smaller ones together are the group None. A step without a request is
left out. Costs are in nano-dollars and leave out what has no price, which is counted beside them.
"""

from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import BigInteger, ColumnElement, Connection, RowMapping, case, cast, func, select

from streamweir.core.errors import CallerError
from streamweir.store.record import plain
from streamweir.store.tables import usage_hours

Step = Literal["hour", "day"]
Grouping = Literal["total", "key", "model", "provider"]

HOUR_MS = 3_600_000
MOST_STEPS = 4000
"""In one series: five months by the hour, ten years by the day."""
MOST_GROUPS = 50
_HOURS: dict[Step, int] = {"hour": 1, "day": 24}
_columns = usage_hours.c
_GROUPS: dict[Grouping, ColumnElement[str | None]] = {
    "key": _columns.key_id,
    "model": _columns.model,
    "provider": _columns.provider,
}


class UsageSum(Struct, frozen=True, kw_only=True):
    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cost: int = 0
    unpriced: int = 0
    """Requests without a price."""


_NAMES = UsageSum.__struct_fields__


class UsagePoint(Struct, frozen=True, kw_only=True):
    at_ms: int
    """The beginning of the step."""
    group: str | None
    """A key's id, a model or a provider. None: all, or all the others."""
    sum: UsageSum


class UsageGroup(Struct, frozen=True, kw_only=True):
    group: str | None
    sum: UsageSum


class UsageFilter(Struct, frozen=True, kw_only=True):
    """A period, of which the hours count that begin in it. What else is not given does not count."""

    since_ms: int
    until_ms: int
    workspace_id: str | None = None
    """None: every workspace."""
    key_id: str | None = None
    model: str | None = None
    provider: str | None = None


def sum_usage(conn: Connection, wanted: UsageFilter) -> UsageSum:
    return _sum(conn.execute(select(*_sums()).where(*_conditions(wanted))).mappings().one())


def list_groups(conn: Connection, wanted: UsageFilter, by: Grouping, *, limit: int = 20) -> list[UsageGroup]:
    """The dearest first, then those with the most requests."""
    if by == "total":
        return [UsageGroup(group=None, sum=sum_usage(conn, wanted))]
    group = _GROUPS[by]
    order = (func.sum(_columns.cost).desc(), func.sum(_columns.requests).desc(), group)
    statement = select(group.label("group"), *_sums()).where(*_conditions(wanted)).group_by(group).order_by(*order)
    rows = conn.execute(statement.limit(max(1, min(limit, MOST_GROUPS)))).mappings()
    return [UsageGroup(group=row["group"], sum=_sum(row)) for row in rows]


def list_series(
    conn: Connection, wanted: UsageFilter, step: Step, by: Grouping = "total", *, groups: int = 20
) -> list[UsagePoint]:
    """The oldest first. Raises `CallerError` for a period of too many steps."""
    hours = _HOURS[step]
    if (wanted.until_ms - wanted.since_ms) // (hours * HOUR_MS) > MOST_STEPS:
        raise CallerError("invalid_value", f"A series has at most {MOST_STEPS} steps.", param="since_ms")
    steps = [(_columns.hour // hours).label("at")]
    if by != "total":
        largest = [found.group for found in list_groups(conn, wanted, by, limit=groups)]
        steps.append(case((_GROUPS[by].in_(largest), _GROUPS[by]), else_=None).label("group"))
    # An inner select, for a database does not see that two expressions with parameters are the same.
    hourly = select(*steps, *(_columns[name] for name in _NAMES)).where(*_conditions(wanted)).subquery()
    grouped = [hourly.c[step.name] for step in steps]
    rows = conn.execute(select(*grouped, *_sums(hourly.c)).group_by(*grouped)).mappings()
    points = [UsagePoint(at_ms=row["at"] * hours * HOUR_MS, group=row.get("group"), sum=_sum(row)) for row in rows]
    return sorted(points, key=lambda point: (point.at_ms, point.group is None, point.group or ""))


def _conditions(wanted: UsageFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [
        _columns.hour >= _hour(wanted.since_ms),
        _columns.hour < _hour(wanted.until_ms),
    ]
    equal = {
        _columns.workspace_id: wanted.workspace_id,
        _columns.key_id: wanted.key_id,
        _columns.model: wanted.model,
        _columns.provider: wanted.provider,
    }
    return found + [column == plain(value) for column, value in equal.items() if value is not None]


def _hour(at_ms: int) -> int:
    """The first hour that begins then or later."""
    return -(-max(0, min(at_ms, 2**62)) // HOUR_MS)


def _sums(columns: Any = _columns) -> list[ColumnElement[Any]]:
    return [func.coalesce(cast(func.sum(columns[name]), BigInteger), 0).label(name) for name in _NAMES]


def _sum(row: RowMapping) -> UsageSum:
    return UsageSum(**{name: row[name] for name in _NAMES})
