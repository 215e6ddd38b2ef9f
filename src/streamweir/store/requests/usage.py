"""Usage in steps from a minute to a day, from the sums that are kept longer than the requests.

A step consists of whole rows of its table, and a period has the steps that begin in it. Minutes and quarters of an hour
are kept for two days (`store.requests.retention`). Steps are in UTC. The sums of a step are the same for any grouping;
if there are more groups than requested, the smaller ones are combined as the group None. Steps without requests are
left out. Costs and prices are in nano-dollars. Requests without them are counted separately.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import BigInteger, Column, ColumnElement, Connection, Table, case, cast, exists, func, null, select

from streamweir.core.errors import CallerError
from streamweir.policy.routing.latency import BUCKETS
from streamweir.store.db.tables import SUMS, TTFT, requests, usage_days, usage_hours, usage_minutes, usage_quarters
from streamweir.store.journal.entries import plain
from streamweir.store.requests.ownership import of_person

Step = Literal["minute", "quarter", "hour", "two_hours", "day"]
Grouping = Literal["total", "key", "model", "provider"]

MINUTE_MS = 60_000
QUARTER_MS = 15 * MINUTE_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MAX_STEPS = 4000
"""In one series: nearly three days by the minute, five months by the hour, ten years by the day."""
MAX_GROUPS = 50
_COLUMNS: dict[Grouping, str] = {"key": "key_id", "model": "model", "provider": "provider"}
_Counts = Sequence[int]
"""The values of `SUMS`, then of `TTFT`."""


class _Plan(Struct, frozen=True):
    """The table that a step is read from, the length of its rows, and the number of them per step."""

    table: Table
    unit_ms: int
    units: int = 1

    @property
    def unit(self) -> ColumnElement[int]:
        return next(iter(self.table.primary_key.columns))


_PLANS: dict[Step, _Plan] = {
    "minute": _Plan(usage_minutes, MINUTE_MS),
    "quarter": _Plan(usage_quarters, QUARTER_MS),
    "hour": _Plan(usage_hours, HOUR_MS),
    "two_hours": _Plan(usage_hours, HOUR_MS, 2),
    "day": _Plan(usage_days, DAY_MS),
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
    price: int = 0
    uncosted: int = 0
    """Requests whose cost is not known."""
    margin: int = 0
    """Price without cost, of the requests that have both."""
    ttft: tuple[int, ...] = (0,) * BUCKETS
    """Streams by the time to their first token, in the buckets of `policy.routing.latency`."""


class UsageGroup(Struct, frozen=True, kw_only=True):
    group: str | None
    """A key's id, a model, a provider, or what callers say about requests. None: all, or all others."""
    sum: UsageSum


class UsagePoint(UsageGroup, frozen=True, kw_only=True):
    at_ms: int
    """The start of the step."""


class Usage(Struct, frozen=True, kw_only=True):
    total: UsageSum
    groups: list[UsageGroup]
    """Sorted by price, then by number of requests; the others, combined, come last."""
    series: list[UsagePoint]
    """All groups together, the oldest first."""
    group_series: list[UsagePoint]


class UsageFilter(Struct, frozen=True, kw_only=True):
    """A period; other absent values do not restrict."""

    since_ms: int
    until_ms: int
    workspace_id: str | None = None
    """None: every workspace."""
    key_id: str | None = None
    model: str | None = None
    provider: str | None = None
    person_id: str | None = None
    """Only what this person may see (`store.requests.ownership`): of a key that was given to it later, whole steps."""


def step_ms(step: Step) -> int:
    return _PLANS[step].unit_ms * _PLANS[step].units


def sum_usage(conn: Connection, wanted: UsageFilter, step: Step) -> UsageSum:
    """For the same period as `read_usage`."""
    plan = _PLANS[step]
    return _sum(conn.execute(select(*sums_of(plan.table.c)).where(*_conditions(plan, wanted))).one())


def read_usage(conn: Connection, wanted: UsageFilter, step: Step, by: Grouping = "total", *, groups: int = 20) -> Usage:
    """Read once, and summed here. Raises `CallerError` for a period of too many steps."""
    if (wanted.until_ms - wanted.since_ms) // step_ms(step) > MAX_STEPS:
        raise CallerError("invalid_value", f"A series has at most {MAX_STEPS} steps.", param="since_ms")
    plan = _PLANS[step]
    inner = select(
        (plan.unit // plan.units).label("at"),
        _group(conn, plan, wanted, by, groups).label("group"),
        *(plan.table.c[name] for name in (*SUMS, *TTFT)),
    ).where(*_conditions(plan, wanted))
    # An inner select, because a database does not see that two expressions with parameters are equal.
    columns = inner.subquery().c
    rows = conn.execute(select(columns.at, columns.group, *sums_of(columns)).group_by(columns.at, columns.group))
    return usage_of([((at * step_ms(step), group), counts) for at, group, *counts in rows])


def top_usage(conn: Connection, wanted: UsageFilter, step: Step, by: Grouping, groups: int) -> list[UsageGroup]:
    """The groups with the largest sums, in the order of `read_usage`."""
    plan = _PLANS[step]
    column = plan.table.c[_COLUMNS[by]]
    columns = plan.table.c
    order = (func.sum(columns.price).desc(), func.sum(columns.requests).desc(), column)
    largest = select(column, *sums_of(columns)).where(*_conditions(plan, wanted)).group_by(column).order_by(*order)
    return [UsageGroup(group=group, sum=_sum(counts)) for group, *counts in conn.execute(largest.limit(groups))]


def has_usage(conn: Connection, wanted: UsageFilter, step: Step) -> bool:
    """Whether there was a request in the period."""
    plan = _PLANS[step]
    return bool(conn.execute(select(exists(select(plan.unit).where(*_conditions(plan, wanted))))).scalar())


def usage_of(found: Sequence[tuple[tuple[int, str | None], _Counts]]) -> Usage:
    """From the counts of each step (its time) and group."""
    by_group = {group: _sum(counts) for group, counts in _sum_by(found, lambda group_key: group_key[1])}
    return Usage(
        total=_sum(dict(_sum_by(found, lambda _: None)).get(None, (0,) * (len(SUMS) + len(TTFT)))),
        groups=[UsageGroup(group=group, sum=by_group[group]) for group in sorted(by_group, key=_by_price(by_group))],
        series=[UsagePoint(at_ms=at, group=None, sum=_sum(each)) for at, each in sorted(_sum_by(found, _moment))],
        group_series=[
            UsagePoint(at_ms=at, group=group, sum=_sum(counts))
            for (at, group), counts in sorted(found, key=lambda row: (row[0][0], row[0][1] is None, row[0][1] or ""))
        ],
    )


def was_used(conn: Connection, workspace_id: str | None, person_id: str | None = None) -> bool:
    """Whether there ever was a request, as far as is known. None: in any workspace, of anyone."""
    for table, at_ms in ((requests, requests.c.at_ms), (usage_days, usage_days.c.day * DAY_MS)):
        within = [] if workspace_id is None else [table.c.workspace_id == plain(workspace_id)]
        if person_id is not None:
            within.append(of_person(person_id, table.c.key_id, at_ms))
        if conn.execute(select(exists().where(*within).select_from(table))).scalar():
            return True
    return False


def _group(conn: Connection, plan: _Plan, wanted: UsageFilter, by: Grouping, max_groups: int) -> ColumnElement[Any]:
    """The group of a row: the largest groups, and NULL for all others."""
    if by == "total":
        return null()
    columns = plan.table.c
    column = columns[_COLUMNS[by]]
    largest = largest_groups(conn, column, _conditions(plan, wanted), max_groups)
    return column if largest is None else case((column.in_(largest), column), else_=None)


def largest_groups(
    conn: Connection, column: Column[str], where: Sequence[ColumnElement[bool]], max_groups: int
) -> list[str] | None:
    """The values of a column with the largest sums, if there are more than `max_groups`. None: there are not."""
    columns = column.table.c
    order = (func.sum(columns.price).desc(), func.sum(columns.requests).desc(), column)
    max_groups = max(1, min(max_groups, MAX_GROUPS))
    largest = select(column).where(*where).group_by(column).order_by(*order).limit(max_groups + 1)
    found = list(conn.scalars(largest))
    return None if len(found) <= max_groups else found[:max_groups]


def _conditions(plan: _Plan, wanted: UsageFilter) -> list[ColumnElement[bool]]:
    columns = plan.table.c
    found: list[ColumnElement[bool]] = [
        plan.unit >= _first(wanted.since_ms, plan),
        plan.unit < _first(wanted.until_ms, plan),
    ]
    equal = {
        columns.workspace_id: wanted.workspace_id,
        columns.key_id: wanted.key_id,
        columns.model: wanted.model,
        columns.provider: wanted.provider,
    }
    if wanted.person_id is not None:
        found.append(of_person(wanted.person_id, columns.key_id, plan.unit * plan.unit_ms))
    return found + [column == plain(value) for column, value in equal.items() if value is not None]


def _first(at_ms: int, plan: _Plan) -> int:
    """The first unit of the step that begins then, or of the next step."""
    return -(-max(0, min(at_ms, 2**62)) // (plan.unit_ms * plan.units)) * plan.units


def sums_of(columns: Any, names: Sequence[str] = (*SUMS, *TTFT)) -> list[ColumnElement[int]]:
    return [func.coalesce(cast(func.sum(columns[name]), BigInteger), 0).label(name) for name in names]


def _sum_by(
    found: Iterable[tuple[tuple[int, str | None], _Counts]], key: Callable[[tuple[int, str | None]], Any]
) -> Iterable[tuple[Any, _Counts]]:
    """Combines values with the same key."""
    sums: dict[Any, _Counts] = {}
    for group_key, counts in found:
        known = sums.get(key(group_key))
        sums[key(group_key)] = counts if known is None else tuple(map(add, known, counts))
    return sums.items()


def _moment(group_key: tuple[int, str | None]) -> int:
    return group_key[0]


def _by_price(sums: dict[str | None, UsageSum]) -> Callable[[str | None], tuple[bool, int, int, str]]:
    return lambda group: (group is None, -sums[group].price, -sums[group].requests, group or "")


def _sum(counts: Sequence[int]) -> UsageSum:
    """Without times to the first token if there are none."""
    sums: dict[str, Any] = dict(zip(SUMS, counts, strict=False))
    return UsageSum(**sums, ttft=tuple(counts[len(SUMS) :])) if len(counts) > len(SUMS) else UsageSum(**sums)
