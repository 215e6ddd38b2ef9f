"""The request log as a file: every row that a filter finds, the newest first, as CSV or as JSON lines.

It is read and written page by page, so that it needs the memory of one page, however long it is, and it stops when the
caller disconnects. If the database becomes unavailable meanwhile, the connection is cut: half a file must not look
complete. A cell that a spreadsheet would read as a formula begins with an apostrophe (docs/spec/security.md S12). The
export is recorded in the audit log before the first row is sent. Costs are in it for the operator alone.
"""

import asyncio
import csv
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from io import StringIO
from typing import Any, Literal

from msgspec import structs
from sqlalchemy import Connection

from streamweir.policy.permission import Permission
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.operation import Call, Nothing, Operation, Stream
from streamweir.server.control.api.requests.request import RequestMembers, filter_of
from streamweir.server.control.api.view import RequestView, members_shown, view_request
from streamweir.server.telemetry.sanitize import clean
from streamweir.store.db.request_log import MAX_NAME_LENGTH
from streamweir.store.keys import audit
from streamweir.store.requests.requests import MAX_ROWS, Page, RequestFilter, RequestRow, list_requests
from streamweir.wire import jsonio

MAX_EXPORTED_ROWS = 1_000_000
TYPE = "text/plain; charset=utf-8"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NEGATIVE = re.compile(r"-[0-9]+(\.[0-9]+)?")
"""A number, such as a margin, is no formula."""


class ExportQuery(RequestMembers, frozen=True, kw_only=True):
    format: Literal["csv", "jsonl"] = "csv"


async def export_requests(call: Call[ExportQuery, Nothing]) -> Stream:
    query, actor, at_ms = call.query, call.actor, call.at_ms
    rule = call.context.runtime().config.store.end_user

    def begin(conn: Connection) -> RequestFilter:
        wanted = filter_of(query, actor, rule, conn)
        audit.append(conn, actor.name, "requests.export", "requests", _audit_detail(query), wanted.workspace_id, at_ms)
        return wanted

    await call.context.flush_accounting()
    wanted = await call.context.write(begin)
    first = await _page(call.context, wanted, None)
    encode = partial(_csv if query.format == "csv" else _jsonl, actor.sees_cost)
    return Stream(
        pieces=pieces_of(call.context, wanted, first, encode),
        headers=(
            ("content-type", TYPE),
            ("content-disposition", f'attachment; filename="requests.{query.format}"'),
        ),
    )


async def pieces_of(
    context: Context,
    wanted: RequestFilter,
    page: Page,
    encode: Callable[[Sequence[RequestRow]], bytes],
    max_rows: int = MAX_EXPORTED_ROWS,
) -> AsyncGenerator[bytes, None]:
    """`page` is the first page. `encode` is called with the rows of each page, and before that once with none."""
    head = encode(())
    if head:
        yield head
    while True:
        rows = page.rows[:max_rows]
        max_rows -= len(rows)
        if rows:
            yield await asyncio.to_thread(encode, rows)
        if page.next is None or not max_rows:
            return
        page = await _page(context, wanted, page.next)


async def _page(context: Context, wanted: RequestFilter, cursor: str | None) -> Page:
    return await context.read(lambda conn: list_requests(conn, wanted, cursor=cursor, limit=MAX_ROWS))


def _audit_detail(query: ExportQuery) -> dict[str, Any]:
    """The query for the audit log. It could contain a secret that somebody searched for."""
    sent = {name: value for name, value in structs.asdict(query).items() if value is not None}
    return {
        name: value if isinstance(value, int) else clean(str(value), MAX_NAME_LENGTH) for name, value in sent.items()
    }


def _jsonl(sees_cost: bool, rows: Sequence[RequestRow]) -> bytes:
    return b"".join([jsonio.encode(view_request(row, sees_cost)) + b"\n" for row in rows])


def _csv(sees_cost: bool, rows: Sequence[RequestRow]) -> bytes:
    text = StringIO()
    writer = csv.writer(text)
    columns = members_shown(RequestView.__struct_fields__, sees_cost)
    if not rows:
        writer.writerow(columns)
    for row in rows:
        view = view_request(row, sees_cost)
        writer.writerow([_cell(getattr(view, name)) for name in columns])
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: object) -> str | int | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int):
        return value
    text = value if isinstance(value, str) else jsonio.encode(value).decode()
    return f"'{text}" if text.startswith(_FORMULA) and not _NEGATIVE.fullmatch(text) else text


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/requests/export",
        access=Permission.REQUESTS_EXPORT,
        about="Export finished requests as CSV or JSON lines, at most a million; recorded in the audit log",
        handler=export_requests,
        query=ExportQuery,
        answer=str,
        media=("text/plain",),
    ),
)
