"""A person's own requests and usage over the API: those of its keys, since they have been its own.

What belongs to anybody else is not found, in a list, by an id, in a filter, and in a sum. What providers charge is not
shown, whoever asks here.
"""

from typing import Literal

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.policy.permission import Permission
from streamweir.server.control.api.fields import PAGE, Cursor, Limit, Moment
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page
from streamweir.server.control.api.people.own import person_id_of
from streamweir.server.control.api.requests.detail import view_detail
from streamweir.server.control.api.requests.request import (
    FoundRequest,
    Order,
    OwnRequestMembers,
    RequestMembers,
    filter_of,
    unknown_request,
)
from streamweir.server.control.api.requests.usage import UsageSeries, view_series
from streamweir.server.control.api.view import RequestView, view_live, view_request
from streamweir.store.requests import requests
from streamweir.store.requests.live import OpenRequest, find_open
from streamweir.store.requests.requests import RequestRow, find_request
from streamweir.store.requests.usage import DAY_MS, UsageFilter, read_usage

_USUAL_MS = 30 * DAY_MS


class OwnRequestQuery(OwnRequestMembers, frozen=True, kw_only=True):
    cursor: Cursor | None = None
    limit: Limit = PAGE
    order: Order = "newest"


class OwnUsageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since_ms: Moment | None = None
    """None: 30 days before `until_ms`. Steps that begin within the period count."""
    until_ms: Moment | None = None
    """None: now."""
    step: Literal["hour", "day"] = "day"
    by: Literal["total", "key", "model"] = "model"
    key: str | None = None
    """By its id."""
    model: str | None = None


async def list_own_requests(call: Call[OwnRequestQuery, Nothing]) -> Page[RequestView]:
    query, actor, rule = call.query, call.actor, call.context.runtime().config.store.end_user
    person_id = person_id_of(call)
    members = {name: getattr(query, name) for name in OwnRequestMembers.__struct_fields__}

    def work(conn: Connection) -> requests.Page:
        wanted = filter_of(RequestMembers(**members), actor, rule, conn, person_id)
        return requests.list_requests(conn, wanted, cursor=query.cursor, limit=query.limit, order=query.order)

    await call.context.flush_accounting()
    found = await call.context.read(work)
    return Page(data=[view_request(row, sees_cost=False) for row in found.rows], next=found.next)


async def show_own_request(call: Call[Nothing, Nothing]) -> FoundRequest:
    id, within, person_id = call.path["id"], call.actor.allowed_workspace, person_id_of(call)

    def work(conn: Connection) -> RequestRow | OpenRequest:
        found = find_request(conn, id, within, person_id=person_id)
        if found is not None:
            return found
        running = find_open(conn, id, within, person_id=person_id)
        if running is None:
            raise unknown_request(id)
        return running

    await call.context.flush_accounting()
    found = await call.context.read(work)
    if isinstance(found, OpenRequest):
        return FoundRequest(state="running", request=None, live=view_live(found, sees_cost=False))
    return FoundRequest(state="over", request=view_detail(found, sees_cost=False), live=None)


async def show_own_usage(call: Call[OwnUsageQuery, Nothing]) -> UsageSeries:
    query, person_id = call.query, person_id_of(call)
    until_ms = query.until_ms if query.until_ms is not None else call.at_ms
    since_ms = query.since_ms if query.since_ms is not None else max(0, until_ms - _USUAL_MS)
    wanted = UsageFilter(
        since_ms=since_ms,
        until_ms=until_ms,
        workspace_id=call.actor.allowed_workspace,
        key_id=query.key,
        model=query.model,
        person_id=person_id,
    )
    await call.context.flush_accounting()
    found = await call.context.read(lambda conn: read_usage(conn, wanted, query.step, query.by))
    return view_series(found, since_ms, until_ms, query.step, query.by, sees_cost=False)


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/me/usage",
        access=Permission.SELF,
        about="Show the usage of one's own keys as a series and in total",
        handler=show_own_usage,
        query=OwnUsageQuery,
        answer=UsageSeries,
    ),
    Operation(
        method="GET",
        path="/api/me/requests",
        access=Permission.SELF,
        about="List finished requests of one's own keys, newest first by default",
        handler=list_own_requests,
        query=OwnRequestQuery,
        answer=Page[RequestView],
    ),
    Operation(
        method="GET",
        path="/api/me/requests/{id}",
        access=Permission.SELF,
        about="Show one request of one's own keys, running or finished",
        handler=show_own_request,
        answer=FoundRequest,
    ),
)
