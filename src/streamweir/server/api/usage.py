"""What was used, over the API: by the hour or the day; by key, model or provider; and in sum.

All three are of one state of the database, so they add up. Periods are bounded by `store.usage`.
"""

from typing import Annotated

from msgspec import Meta, Struct
from sqlalchemy import Connection

from streamweir.server.api.member import Moment, WorkspaceName
from streamweir.server.api.operation import Call, Nothing, Operation
from streamweir.server.api.view import UsageView, view_usage
from streamweir.server.control import Access
from streamweir.store.usage import (
    HOUR_MS,
    MOST_GROUPS,
    Grouping,
    Step,
    UsageFilter,
    list_groups,
    list_series,
    sum_usage,
)

_USUAL_MS: dict[Step, int] = {"hour": 24 * HOUR_MS, "day": 30 * 24 * HOUR_MS}


class UsageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since_ms: Moment | None = None
    """A day before `until_ms` by the hour, 30 days by the day."""
    until_ms: Moment | None = None
    """None: now."""
    step: Step = "hour"
    by: Grouping = "total"
    groups: Annotated[int, Meta(ge=1, le=MOST_GROUPS, description="The most, the smaller ones are one.")] = 20
    workspace: WorkspaceName | None = None
    key: Annotated[str, Meta(description="A key, by its id.")] | None = None
    model: str | None = None
    provider: str | None = None


class GroupView(Struct, kw_only=True):
    group: str | None
    """A key's id, a model or a provider. None: all, or all the others."""
    usage: UsageView


class PointView(GroupView, kw_only=True):
    at_ms: int
    """The beginning of the step, by UTC."""


class UsageSeries(Struct, kw_only=True):
    since_ms: int
    until_ms: int
    step: Step
    by: Grouping
    total: UsageView
    groups: list[GroupView]
    """The dearest first."""
    series: list[PointView]
    """The oldest first. A step without a request is left out."""


async def show_usage(call: Call[UsageQuery, Nothing]) -> UsageSeries:
    query, actor = call.query, call.actor
    until_ms = query.until_ms if query.until_ms is not None else call.at_ms
    since_ms = query.since_ms if query.since_ms is not None else max(0, until_ms - _USUAL_MS[query.step])

    def work(conn: Connection) -> UsageSeries:
        wanted = UsageFilter(
            since_ms=since_ms,
            until_ms=until_ms,
            workspace_id=actor.within(conn, query.workspace),
            key_id=query.key,
            model=query.model,
            provider=query.provider,
        )
        series = list_series(conn, wanted, query.step, query.by, groups=query.groups)
        groups = list_groups(conn, wanted, query.by, limit=query.groups)
        return UsageSeries(
            since_ms=since_ms,
            until_ms=until_ms,
            step=query.step,
            by=query.by,
            total=view_usage(sum_usage(conn, wanted)),
            groups=[GroupView(group=each.group, usage=view_usage(each.sum)) for each in groups],
            series=[PointView(at_ms=each.at_ms, group=each.group, usage=view_usage(each.sum)) for each in series],
        )

    await call.context.caught_up()
    return await call.context.read(work)


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/usage",
        access=Access.ADMIN,
        about="What was used, as a series and in sum",
        handler=show_usage,
        query=UsageQuery,
        answer=UsageSeries,
    ),
)
