"""The data of the console's first page in one answer: the period, the one before it, groups and series.

A period consists of whole steps and ends with the current one, so that it begins and ends where the charts do. All
numbers are from one state of the database; those of the period are from one query, so groups and steps add up to the
total.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs
from sqlalchemy import Connection, select

from streamweir.policy.permission import Permission
from streamweir.server.control.api.fields import WorkspaceName
from streamweir.server.control.api.operation import Call, Nothing, Operation
from streamweir.server.control.api.people.own import person_id_of
from streamweir.server.control.api.requests.usage import GroupView, PointView, view_point
from streamweir.server.control.api.view import UsageView, view_usage
from streamweir.store.db.tables import keys
from streamweir.store.keys.spec import LAST_MS
from streamweir.store.requests.live import count_open
from streamweir.store.requests.refused import count_refused, has_refused, sum_refused
from streamweir.store.requests.usage import (
    DAY_MS,
    HOUR_MS,
    Step,
    UsageFilter,
    UsageGroup,
    UsagePoint,
    has_usage,
    read_usage,
    step_ms,
    sum_usage,
    top_usage,
    was_used,
)

Period = Literal["hour", "day", "week", "month"]
By = Literal["model", "key", "provider"]

MAX_GROUPS = 20
MAX_TOP = 10
_PERIODS: dict[Period, tuple[int, Step]] = {
    "hour": (HOUR_MS, "minute"),
    "day": (DAY_MS, "quarter"),
    "week": (7 * DAY_MS, "two_hours"),
    "month": (30 * DAY_MS, "day"),
}
"""The duration of each period and its steps: the charts have up to a hundred."""


class OwnOverviewQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    period: Period | None = None
    """None: the hour if all requests are of the last hour, else the shortest from a day on that has any."""
    by: By = "model"
    key: Annotated[str, Meta(description="A key, by its id.")] | None = None
    model: str | None = None
    provider: str | None = None


class OverviewQuery(OwnOverviewQuery, frozen=True, kw_only=True):
    workspace: WorkspaceName | None = None


class NamedGroup(GroupView, kw_only=True):
    name: str | None
    """The name of a key."""


class StepView(Struct, kw_only=True):
    at_ms: int
    """The start of the step, in UTC."""
    usage: UsageView


class RefusedStep(Struct, kw_only=True):
    at_ms: int
    """The start of the step, in UTC."""
    requests: int


class RefusedView(Struct, kw_only=True):
    total: int
    before: int
    """In the period of the same length before this one."""
    series: list[RefusedStep]
    """Steps without any are left out."""


class Overview(Struct, kw_only=True):
    period: Period
    since_ms: int
    until_ms: int
    """The end of the current step."""
    step_ms: int
    by: By
    total: UsageView
    before: UsageView
    """The usage of the period of the same length before this one."""
    groups: list[NamedGroup]
    """Sorted by price, then by number of requests; if there are more, the others are combined as the last one."""
    series: list[StepView]
    """All groups together. Steps without requests are left out."""
    group_series: list[PointView]
    top_keys: list[NamedGroup]
    """The keys with the highest price, whatever the groups are."""
    refused: RefusedView | None
    """Requests that were refused before a model was asked, as far back as the log is kept; they have no part in the
    usage. None for a single provider."""
    open_streams: int
    """The number of running requests, of the workspace or of all."""
    has_requests: bool
    """Whether there was ever a request."""


async def show_overview(call: Call[OverviewQuery, Nothing]) -> Overview:
    query, actor = call.query, call.actor

    def within(conn: Connection) -> UsageFilter:
        return _ever(query, workspace_id=actor.workspace_filter(conn, query.workspace))

    return await _overview(call, within, sees_cost=actor.sees_cost)


async def show_own_overview(call: Call[OwnOverviewQuery, Nothing]) -> Overview:
    """Of one's own keys, without costs."""
    wanted = _ever(call.query, workspace_id=call.actor.allowed_workspace, person_id=person_id_of(call))
    return await _overview(call, lambda _: wanted, sees_cost=False)


def _ever(query: OwnOverviewQuery, **owner: str | None) -> UsageFilter:
    """At any time."""
    return UsageFilter(
        since_ms=0, until_ms=LAST_MS, key_id=query.key, model=query.model, provider=query.provider, **owner
    )


async def _overview(call: Call[Any, Nothing], within: Callable[[Connection], UsageFilter], sees_cost: bool) -> Overview:
    query: OwnOverviewQuery = call.query
    alive = call.context.feed.alive()

    def work(conn: Connection) -> Overview:
        ever = within(conn)
        period = query.period or _period_with_requests(conn, ever, call.at_ms)
        length_ms, step = _PERIODS[period]
        until_ms = _end_of(step, call.at_ms)

        def ending(at_ms: int) -> UsageFilter:
            return structs.replace(ever, since_ms=at_ms - length_ms, until_ms=at_ms)

        now, earlier = ending(until_ms), ending(until_ms - length_ms)
        found = read_usage(conn, now, step, query.by, groups=MAX_GROUPS)
        top = top_usage(conn, now, step, "key", MAX_TOP)
        groups = [*found.groups, *top] if query.by == "key" else top
        names = _key_names(conn, groups)
        return Overview(
            period=period,
            since_ms=until_ms - length_ms,
            until_ms=until_ms,
            step_ms=step_ms(step),
            by=query.by,
            total=view_usage(found.total, sees_cost),
            before=view_usage(sum_usage(conn, earlier, step), sees_cost),
            groups=_named(found.groups, names if query.by == "key" else {}, sees_cost),
            series=[_view_step(point, sees_cost) for point in found.series],
            group_series=[view_point(point, sees_cost) for point in found.group_series],
            top_keys=_named(top, names, sees_cost),
            refused=None if query.provider is not None else _refused(conn, now, earlier, step),
            open_streams=count_open(conn, ever.workspace_id, alive, person_id=ever.person_id),
            has_requests=bool(found.total.requests) or was_used(conn, ever.workspace_id, ever.person_id),
        )

    await call.context.flush_accounting()
    return await call.context.read(work)


def _end_of(step: Step, at_ms: int) -> int:
    """The end of the current step."""
    return (at_ms // step_ms(step) + 1) * step_ms(step)


def _period_with_requests(conn: Connection, ever: UsageFilter, at_ms: int) -> Period:
    """So that the charts are not empty but for their right edge."""

    def has_any(since_ms: int, until_ms: int, step: Step) -> bool:
        wanted = UsageFilter(
            since_ms=since_ms, until_ms=until_ms, workspace_id=ever.workspace_id, person_id=ever.person_id
        )
        return has_usage(conn, wanted, step) or has_refused(conn, wanted)

    end_ms = _end_of("minute", at_ms)
    today_ms = at_ms // DAY_MS * DAY_MS
    # The minutes of two days are kept.
    is_older = has_any(end_ms - 2 * DAY_MS, end_ms - HOUR_MS, "minute") or has_any(
        today_ms - 30 * DAY_MS, today_ms - DAY_MS, "day"
    )
    if not is_older and has_any(end_ms - HOUR_MS, end_ms, "minute"):
        return "hour"
    periods: tuple[Period, ...] = ("day", "week", "month")
    for period in periods:
        length_ms, step = _PERIODS[period]
        if has_any(_end_of(step, at_ms) - length_ms, _end_of(step, at_ms), step):
            return period
    return "day"


def _refused(conn: Connection, now: UsageFilter, earlier: UsageFilter, step: Step) -> RefusedView:
    found = count_refused(conn, now, step_ms(step))
    series = [RefusedStep(at_ms=at, requests=number) for at, number in found.items()]
    return RefusedView(total=sum(found.values()), before=sum_refused(conn, earlier), series=series)


def _named(groups: list[UsageGroup], names: dict[str, str], sees_cost: bool) -> list[NamedGroup]:
    return [
        NamedGroup(group=each.group, name=names.get(each.group or ""), usage=view_usage(each.sum, sees_cost))
        for each in groups
    ]


def _key_names(conn: Connection, groups: list[UsageGroup]) -> dict[str, str]:
    wanted = select(keys.c.id, keys.c.name).where(keys.c.id.in_([each.group for each in groups if each.group]))
    return {row.id: row.name for row in conn.execute(wanted)}


def _view_step(point: UsagePoint, sees_cost: bool) -> StepView:
    return StepView(at_ms=point.at_ms, usage=view_usage(point.sum, sees_cost))


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/overview",
        access=Permission.USAGE_READ,
        about="Show recent usage, as on the console's overview page",
        handler=show_overview,
        query=OverviewQuery,
        answer=Overview,
    ),
    Operation(
        method="GET",
        path="/api/me/overview",
        access=Permission.SELF,
        about="Show recent usage of one's own keys, as on the console's overview page",
        handler=show_own_overview,
        query=OwnOverviewQuery,
        answer=Overview,
    ),
)
