"""The running requests, over the API, and how to stop one.

The process that runs a request stops it: this one at once, another one within a second or two. A stop is written to
the audit log in the transaction that requests it, once however often it is requested. A viewer of the live feed
(`server.control.api.live_feed`) gets it for as long as access is allowed; viewing does not extend a session.
"""

from collections.abc import AsyncGenerator

from msgspec import Struct, structs
from sqlalchemy import Connection

from streamweir.core.errors import CallerError, GatewayFault
from streamweir.frontends.base import EVENT_STREAM
from streamweir.policy.permission import Permission
from streamweir.server.control.api.authentication import recognize
from streamweir.server.control.api.fields import PAGE, Limit, WorkspaceName
from streamweir.server.control.api.live_feed import LiveEvent, LiveScope
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, Stream
from streamweir.server.control.api.view import LiveView, view_live
from streamweir.store.db.errors import NotFound, quoted
from streamweir.store.keys import audit
from streamweir.store.requests.live import OpenRequest, cancel, find_open, open_of


class LiveQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName | None = None
    limit: Limit = PAGE


async def list_live(call: Call[LiveQuery, Nothing]) -> Page[LiveView]:
    query, actor, alive = call.query, call.actor, call.context.feed.alive()

    def work(conn: Connection) -> list[OpenRequest]:
        return open_of(conn, actor.workspace_filter(conn, query.workspace), query.limit, alive)

    await call.context.flush_accounting()
    return Page(data=[view_live(row, actor.sees_cost) for row in await call.context.read(work)])


async def watch_live(call: Call[Nothing, Nothing]) -> Stream:
    context, actor, request = call.context, call.actor, call.request
    closed = context.feed.why_closed()
    if closed is not None:
        raise closed

    async def has_access() -> bool:
        try:
            return await recognize(context, request, is_use=False, counts_failures=False) == actor
        except CallerError:
            return False
        except GatewayFault:  # access cannot be checked now, and there is nothing to show either
            return True

    is_read = request.method != "HEAD"
    scope = LiveScope(actor.allowed_workspace, actor.sees_cost)
    return Stream(
        pieces=context.feed.watch(scope, has_access) if is_read else _nothing(),
        headers=EVENT_STREAM,
    )


async def _nothing() -> AsyncGenerator[bytes, None]:
    for nothing in list[bytes]():
        yield nothing


async def cancel_request(call: Call[Nothing, Nothing]) -> LiveView:
    id, actor, at_ms = call.path["id"], call.actor, call.at_ms

    def work(conn: Connection) -> OpenRequest:
        row = find_open(conn, id, actor.allowed_workspace)
        if row is None or not cancel(conn, row.request_id, actor.allowed_workspace, at_ms):
            raise NotFound(f"no request {quoted(id)} is running")
        if row.cancel_ms is None:
            audit.append(conn, actor.name, "request.cancel", row.request_id, {}, row.workspace_id, at_ms)
        return structs.replace(row, cancel_ms=at_ms)

    await call.context.flush_accounting()
    return view_live(await call.context.change(work), actor.sees_cost)


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/live",
        access=Permission.LIVE_READ,
        about="List the running requests, newest first",
        handler=list_live,
        query=LiveQuery,
        answer=Page[LiveView],
    ),
    Operation(
        method="GET",
        path="/api/live/events",
        access=Permission.LIVE_FOLLOW,
        about="Stream the running requests as server-sent events, on every change",
        handler=watch_live,
        answer=LiveEvent,
        media=("text/event-stream",),
    ),
    Operation(
        method="POST",
        path="/api/live/{id}/cancel",
        access=Permission.LIVE_STOP,
        about="Stop a running request",
        handler=cancel_request,
        answer=LiveView,
    ),
)
