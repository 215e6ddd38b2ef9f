"""Usage over the API: in steps from a minute to a day; by key, model or provider; and in total.

All three are from one query, so they add up. Periods are bounded by `store.requests.usage`.
"""

from typing import Annotated

from msgspec import Meta, Struct
from sqlalchemy import Connection

from streamweir.server.control.api.fields import Moment, WorkspaceName
from streamweir.server.control.api.operation import Call, Nothing, Operation
from streamweir.server.control.api.view import UsageView, view_usage
from streamweir.server.control.routing import Access
from streamweir.store.requests.usage import (
    DAY_MS,
    HOUR_MS,
    MAX_GROUPS,
    Grouping,
    Step,
    UsageFilter,
    UsagePoint,
    read_usage,
)

_USUAL_MS: dict[Step, int] = {
    "minute": HOUR_MS,
    "quarter": DAY_MS,
    "hour": DAY_MS,
    "two_hours": 7 * DAY_MS,
    "day": 30 * DAY_MS,
}


class UsageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since_ms: Moment | None = None
    """None: an hour before `until_ms` by the minute, a day by the quarter or the hour, a week by two hours, 30 days by
    the day. Steps that begin within the period count."""
    until_ms: Moment | None = None
    """None: now."""
    step: Step = "hour"
    by: Grouping = "total"
    groups: Annotated[
        int, Meta(ge=1, le=MAX_GROUPS, description="Maximum number of groups; the rest are combined.")
    ] = 20
    workspace: WorkspaceName | None = None
    key: Annotated[str, Meta(description="A key, by its id.")] | None = None
    model: str | None = None
    provider: str | None = None


class GroupView(Struct, kw_only=True):
    group: str | None
    """A key's id, a model or a provider. None: all, or all others."""
    usage: UsageView


class PointView(GroupView, kw_only=True):
    at_ms: int
    """The start of the step, in UTC."""


class UsageSeries(Struct, kw_only=True):
    since_ms: int
    until_ms: int
    step: Step
    by: Grouping
    total: UsageView
    groups: list[GroupView]
    """Sorted by cost; if there are more, the others are combined as the last one."""
    series: list[PointView]
    """The oldest first. Steps without requests are left out."""


def view_point(point: UsagePoint) -> PointView:
    return PointView(at_ms=point.at_ms, group=point.group, usage=view_usage(point.sum))


async def show_usage(call: Call[UsageQuery, Nothing]) -> UsageSeries:
    query, actor = call.query, call.actor
    until_ms = query.until_ms if query.until_ms is not None else call.at_ms
    since_ms = query.since_ms if query.since_ms is not None else max(0, until_ms - _USUAL_MS[query.step])

    def work(conn: Connection) -> UsageSeries:
        wanted = UsageFilter(
            since_ms=since_ms,
            until_ms=until_ms,
            workspace_id=actor.workspace_filter(conn, query.workspace),
            key_id=query.key,
            model=query.model,
            provider=query.provider,
        )
        found = read_usage(conn, wanted, query.step, query.by, groups=query.groups)
        return UsageSeries(
            since_ms=since_ms,
            until_ms=until_ms,
            step=query.step,
            by=query.by,
            total=view_usage(found.total),
            groups=[GroupView(group=each.group, usage=view_usage(each.sum)) for each in found.groups],
            series=[view_point(each) for each in found.group_series],
        )

    await call.context.flush_accounting()
    return await call.context.read(work)


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/usage",
        access=Access.ADMIN,
        about="Show usage as a series and in total",
        handler=show_usage,
        query=UsageQuery,
        answer=UsageSeries,
    ),
)
