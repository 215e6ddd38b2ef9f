"""The requests that run, over the API, and how to stop one.

Whichever process has it ends it: this one at once, another within a second or two. A stop is told to
the audit log in the transaction that asks for it, once however often it is asked for.
"""

from msgspec import Struct, structs
from sqlalchemy import Connection

from streamweir.server.api.member import PAGE, Limit, WorkspaceName
from streamweir.server.api.operation import Call, Nothing, Operation, Page
from streamweir.server.api.view import LiveView, view_live
from streamweir.server.control import Access
from streamweir.store import audit
from streamweir.store.live import OpenRequest, cancel, find_open, open_of
from streamweir.store.objection import NotFound, quoted


class LiveQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName | None = None
    limit: Limit = PAGE


async def list_live(call: Call[LiveQuery, Nothing]) -> Page[LiveView]:
    query, actor = call.query, call.actor

    def work(conn: Connection) -> list[OpenRequest]:
        return open_of(conn, actor.within(conn, query.workspace), query.limit)

    await call.context.caught_up()
    return Page(data=[view_live(row) for row in await call.context.read(work)])


async def cancel_request(call: Call[Nothing, Nothing]) -> LiveView:
    id, actor, at_ms = call.path["id"], call.actor, call.at_ms

    def work(conn: Connection) -> OpenRequest:
        row = find_open(conn, id, actor.reach)
        if row is None or not cancel(conn, row.request_id, actor.reach, at_ms):
            raise NotFound(f"no request {quoted(id)} is running")
        if row.cancel_ms is None:
            audit.append(conn, actor.name, "request.cancel", row.request_id, {}, row.workspace_id, at_ms)
        return structs.replace(row, cancel_ms=at_ms)

    await call.context.caught_up()
    return view_live(await call.context.change(work))


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/live",
        access=Access.ADMIN,
        about="The requests that run, the newest first",
        handler=list_live,
        query=LiveQuery,
        answer=Page[LiveView],
    ),
    Operation(
        method="POST",
        path="/api/live/{id}/cancel",
        access=Access.ADMIN,
        about="Stop a request that runs",
        handler=cancel_request,
        answer=LiveView,
    ),
)
