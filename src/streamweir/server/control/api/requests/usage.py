"""Usage over the API: in steps from a minute to a day; by key, model or provider; and in total. By the day also by end
user, session, tag and API.

All are from one query, so they add up, except tags, of which a request can have several. Periods are bounded by
`store.requests.usage`.
"""

from typing import Annotated, Literal, cast

from msgspec import Meta, Struct, structs
from sqlalchemy import Connection

from streamweir.core.errors import CallerError
from streamweir.policy.end_user import recorded_user
from streamweir.policy.permission import Permission
from streamweir.server.control.api.fields import EndUser, Moment, WorkspaceName
from streamweir.server.control.api.operation import Call, Nothing, Operation
from streamweir.server.control.api.view import UsageView, view_usage
from streamweir.store.requests.attribution import (
    KINDS,
    AttributedGrouping,
    AttributionFilter,
    Kind,
    read_attributed,
)
from streamweir.store.requests.usage import (
    DAY_MS,
    HOUR_MS,
    MAX_GROUPS,
    Grouping,
    Step,
    Usage,
    UsageFilter,
    UsagePoint,
    read_usage,
)

UsageGrouping = Literal["total", "key", "model", "provider", "end_user", "session", "tag", "api"]
"""`Grouping`, and the kinds of `AttributedGrouping`."""
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
    by: UsageGrouping = "total"
    """By end user, session, tag or API: only with the step `day`, and without a model or a provider."""
    groups: Annotated[
        int, Meta(ge=1, le=MAX_GROUPS, description="Maximum number of groups; the rest are combined.")
    ] = 20
    workspace: WorkspaceName | None = None
    key: Annotated[str, Meta(description="A key, by its id.")] | None = None
    model: str | None = None
    provider: str | None = None
    end_user: EndUser | None = None
    """Of this and the next three one at most, with the step `day`."""
    session: str | None = None
    tag: str | None = None
    dialect: Annotated[str, Meta(description="The API that was spoken.")] | None = None


class GroupView(Struct, kw_only=True):
    group: str | None
    """A key's id, a model, a provider, an end user (empty: none was named), a session, a tag or an API. None: all, or
    all others."""
    usage: UsageView


class PointView(GroupView, kw_only=True):
    at_ms: int
    """The start of the step, in UTC."""


class UsageSeries(Struct, kw_only=True):
    since_ms: int
    until_ms: int
    step: Step
    by: UsageGrouping
    total: UsageView
    groups: list[GroupView]
    """Sorted by price; if there are more, the others are combined as the last one."""
    series: list[PointView]
    """The oldest first. Steps without requests are left out."""


def view_point(point: UsagePoint, sees_cost: bool) -> PointView:
    return PointView(at_ms=point.at_ms, group=point.group, usage=view_usage(point.sum, sees_cost))


def view_series(
    found: Usage, since_ms: int, until_ms: int, step: Step, by: UsageGrouping, sees_cost: bool
) -> UsageSeries:
    return UsageSeries(
        since_ms=since_ms,
        until_ms=until_ms,
        step=step,
        by=by,
        total=view_usage(found.total, sees_cost),
        groups=[GroupView(group=each.group, usage=view_usage(each.sum, sees_cost)) for each in found.groups],
        series=[view_point(each, sees_cost) for each in found.group_series],
    )


async def show_usage(call: Call[UsageQuery, Nothing]) -> UsageSeries:
    query, actor = call.query, call.actor
    until_ms = query.until_ms if query.until_ms is not None else call.at_ms
    since_ms = query.since_ms if query.since_ms is not None else max(0, until_ms - _USUAL_MS[query.step])

    attributed = _attribution_in(call)

    def work(conn: Connection) -> UsageSeries:
        workspace_id = actor.workspace_filter(conn, query.workspace)
        if attributed is not None:
            of_days = structs.replace(attributed, since_ms=since_ms, until_ms=until_ms, workspace_id=workspace_id)
            found = read_attributed(conn, of_days, cast("AttributedGrouping", query.by), groups=query.groups)
        else:
            wanted = UsageFilter(
                since_ms=since_ms,
                until_ms=until_ms,
                workspace_id=workspace_id,
                key_id=query.key,
                model=query.model,
                provider=query.provider,
            )
            found = read_usage(conn, wanted, query.step, cast("Grouping", query.by), groups=query.groups)
        return view_series(found, since_ms, until_ms, query.step, query.by, actor.sees_cost)

    await call.context.flush_accounting()
    return await call.context.read(work)


def _attribution_in(call: Call[UsageQuery, Nothing]) -> AttributionFilter | None:
    """What it asks for of what callers say about requests. None: nothing. Raises `CallerError`."""
    query = call.query
    rule = call.context.runtime().config.store.end_user
    values: dict[Kind, str | None] = {
        "end_user": recorded_user(query.end_user, rule),
        "session": query.session,
        "tag": query.tag,
        "api": query.dialect,
    }
    asked = [kind for kind, value in values.items() if value is not None]
    if not asked and query.by not in KINDS:
        return None
    if len(asked) > 1:
        raise CallerError("invalid_value", "Name one of end_user, session, tag and dialect.", param=asked[1])
    if query.step != "day":
        raise CallerError("invalid_value", "What callers say is summed up by the day: use step=day.", param="step")
    for name in ("model", "provider"):
        if getattr(query, name) is not None or query.by == name:
            message = f"What callers say is not summed up by {name}: leave it out."
            raise CallerError("invalid_value", message, param=name)
    kind = asked[0] if asked else None
    value = values[kind] if kind is not None else None
    return AttributionFilter(since_ms=0, until_ms=0, key_id=query.key, kind=kind, value=value)


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/usage",
        access=Permission.USAGE_READ,
        about="Show usage as a series and in total",
        handler=show_usage,
        query=UsageQuery,
        answer=UsageSeries,
    ),
)
