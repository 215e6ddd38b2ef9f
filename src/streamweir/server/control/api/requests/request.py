"""The request log over the API: pages of it, one request by either of its ids, and its stored content.

A request right after an answer finds its row: entries of this process are written to the database first. Reading or
deleting stored content is recorded in the audit log in the same transaction. What providers sent can say what they
charge: that is masked for everyone but the operator.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct
from sqlalchemy import Connection

from streamweir.core.errors import CallerError
from streamweir.core.verdict import Verdict
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.end_user import EndUserRule, recorded_user
from streamweir.policy.permission import Permission
from streamweir.policy.redact import Frame, Redactor
from streamweir.server.control.api.actor import Actor, forbidden
from streamweir.server.control.api.fields import PAGE, Cursor, Dollars, EndUser, Limit, Moment, WorkspaceName, nano
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page
from streamweir.server.control.api.requests.detail import RequestDetail, view_detail
from streamweir.server.control.api.view import LiveView, RequestView, view_live, view_request
from streamweir.store.db.errors import NotFound, quoted
from streamweir.store.keys import audit
from streamweir.store.requests import content, requests
from streamweir.store.requests.content import PackedContent, find_content
from streamweir.store.requests.live import OpenRequest, find_open
from streamweir.store.requests.pattern import is_pattern, keys_named
from streamweir.store.requests.requests import RequestFilter, RequestRow, find_request

_COSTS = Redactor(
    [
        r'"(?:[^"\\]{0,100}cost[^"\\]{0,100}|is_byok)"\s{0,100}:\s{0,100}'
        r'(?P<secret>-?[0-9][0-9.eE+-]{0,100}|"[^"\\]{0,100}"|true|false)'
    ]
)
"""Values of members with such names, at any depth, also in JSON inside of a text. The answer has them as they are."""


_VERDICTS = tuple(verdict.value for verdict in Verdict)


Order = Annotated[
    Literal["newest", "oldest"],
    Meta(description="What comes first. The `cursor` of a request leads to either side."),
]


class OwnRequestMembers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `store.requests.requests.RequestFilter`: what everyone may filter by."""

    key: Annotated[str, Meta(description="A key, by its id or name. `*` stands for any part of the name.")] | None = (
        None
    )
    model: Annotated[str, Meta(description="The model name as the caller sent it, or a pattern.")] | None = None
    target: Annotated[str, Meta(description="`{provider}/{model}`, a pattern, or a provider.")] | None = None
    provider: Annotated[str, Meta(description="A provider, or a pattern.")] | None = None
    dialect: Annotated[str, Meta(description="An API. An unknown one is refused with the list.")] | None = None
    verdict: Annotated[str, Meta(description="A verdict. An unknown one is refused with the list.")] | None = None
    status_class: Annotated[int, Meta(ge=0, le=9, description="The first digit of the status.")] | None = None
    error: Annotated[str, Meta(description="A code, or a pattern.")] | None = None
    failed: Annotated[bool, Meta(description="Whether it ended with an error.")] | None = None
    refused: (
        Annotated[bool, Meta(description="Whether it was refused before a model was asked: it is not in the usage.")]
        | None
    ) = None
    stream: bool | None = None
    min_price_usd: Dollars | None = None
    max_price_usd: Dollars | None = None
    since_ms: Moment | None = None
    until_ms: Moment | None = None
    end_user: EndUser | None = None
    session: Annotated[str, Meta(description="The session, as the caller named it, or a pattern.")] | None = None
    tag: Annotated[str, Meta(description="A tag of the caller: `name=value`, or a name without a value.")] | None = None
    id: Annotated[str, Meta(description="A request id, its beginning or its end, or the id in the chunks.")] | None = (
        None
    )


class RequestMembers(OwnRequestMembers, frozen=True, kw_only=True):
    workspace: WorkspaceName | None = None
    min_cost_usd: Annotated[Dollars, Meta(description="Only for the operator.")] | None = None
    max_cost_usd: Annotated[Dollars, Meta(description="Only for the operator.")] | None = None


class RequestQuery(RequestMembers, frozen=True, kw_only=True):
    cursor: Cursor | None = None
    limit: Limit = PAGE
    order: Order = "newest"


class FoundRequest(Struct, kw_only=True):
    state: Literal["over", "running"]
    request: RequestDetail | None
    """If it is finished."""
    live: LiveView | None
    """If it is running."""


class FrameView(Struct, kw_only=True):
    after_ms: int
    """Since the arrival of the request."""
    text: str


class ContentView(Struct, kw_only=True):
    request_id: str
    at_ms: int
    prompt: str
    """The request's body, JSON."""
    answer: str
    upstream_frames: list[FrameView]
    caller_frames: list[FrameView]
    is_cut: bool
    """It is incomplete: there was more than the limit for stored content."""


class Deleted(Struct, kw_only=True):
    deleted: bool


def filter_of(
    query: RequestMembers, actor: Actor, rule: EndUserRule, conn: Connection, person_id: str | None = None
) -> RequestFilter:
    """Within the workspaces that the actor may see. `rule`: how end users are recorded. `person_id`: only what is this
    person's. Raises `CallerError` for a filter that would tell the actor a cost."""
    if not actor.sees_cost and (query.min_cost_usd, query.max_cost_usd) != (None, None):
        raise forbidden("Only the operator may filter by cost: use 'min_price_usd' and 'max_price_usd'.")
    _check_word(query.verdict, "verdict", _VERDICTS)
    _check_word(query.dialect, "dialect", FRONTENDS.by_name)
    workspace_id = actor.workspace_filter(conn, query.workspace)
    key_id, key_ids = _keys_of(conn, query.key, workspace_id, person_id)
    return RequestFilter(
        workspace_id=workspace_id,
        key_id=key_id,
        key_ids=key_ids,
        person_id=person_id,
        model=query.model,
        target=query.target,
        provider=query.provider,
        dialect=query.dialect,
        verdict=query.verdict,
        status_class=query.status_class,
        error=query.error,
        failed=query.failed,
        refused=query.refused,
        stream=query.stream,
        min_price=_nano(query.min_price_usd, "min_price_usd"),
        max_price=_nano(query.max_price_usd, "max_price_usd"),
        min_cost=_nano(query.min_cost_usd, "min_cost_usd"),
        max_cost=_nano(query.max_cost_usd, "max_cost_usd"),
        since_ms=query.since_ms,
        until_ms=query.until_ms,
        end_user=_user_of(query.end_user, rule),
        session=query.session,
        tag=query.tag,
        id=query.id,
    )


def _user_of(wanted: str | None, rule: EndUserRule) -> str | None:
    """Where digests are recorded, a pattern is for the whole name: a digest has no parts of it."""
    return recorded_user(wanted.strip("*") if wanted and rule == "hash" else wanted, rule)


def _keys_of(
    conn: Connection, wanted: str | None, workspace_id: str | None, person_id: str | None
) -> tuple[str | None, tuple[str, ...] | None]:
    """The key with this id, else those with this name. An id that no key has may still be in the log."""
    if wanted is None:
        return None, None
    named = keys_named(conn, wanted, workspace_id, person_id)
    if wanted in named or (not named and not is_pattern(wanted)):
        return wanted, None
    return (named[0], None) if len(named) == 1 else (None, tuple(named))


def _check_word(value: str | None, param: str, known: Collection[str]) -> None:
    if value is not None and value not in known:
        message = f"There is no {param} {quoted(value)}: it is one of {', '.join(known)}."
        raise CallerError("invalid_value", message, param=param)


def _nano(dollars: Dollars | None, param: str) -> int | None:
    return nano(dollars, param) if dollars is not None else None


async def list_requests(call: Call[RequestQuery, Nothing]) -> Page[RequestView]:
    query, actor, rule = call.query, call.actor, call.context.runtime().config.store.end_user

    def work(conn: Connection) -> requests.Page:
        wanted = filter_of(query, actor, rule, conn)
        return requests.list_requests(conn, wanted, cursor=query.cursor, limit=query.limit, order=query.order)

    await call.context.flush_accounting()
    found = await call.context.read(work)
    return Page(data=[view_request(row, actor.sees_cost) for row in found.rows], next=found.next)


async def show_request(call: Call[Nothing, Nothing]) -> FoundRequest:
    id, workspace_id, sees_cost = call.path["id"], call.actor.allowed_workspace, call.actor.sees_cost

    def work(conn: Connection) -> RequestRow | OpenRequest:
        found = find_request(conn, id, workspace_id) or find_open(conn, id, workspace_id)
        if found is None:
            raise unknown_request(id)
        return found

    await call.context.flush_accounting()
    found = await call.context.read(work)
    if isinstance(found, OpenRequest):
        return FoundRequest(state="running", request=None, live=view_live(found, sees_cost))
    return FoundRequest(state="over", request=view_detail(found, sees_cost), live=None)


async def show_content(call: Call[Nothing, Nothing]) -> ContentView:
    actor, at_ms = call.actor, call.at_ms

    def work(conn: Connection) -> PackedContent:
        row = _find_request(conn, call)
        packed = find_content(conn, row.request_id, actor.allowed_workspace)
        if packed is None:
            raise NotFound("no content is stored for this request")
        audit.append(conn, actor.name, "content.read", row.request_id, {}, row.workspace_id, at_ms)
        return packed

    await call.context.flush_accounting()
    packed = await call.context.write(work)
    unpacked = await asyncio.to_thread(packed.unpack)
    received = unpacked.upstream_frames
    if not actor.sees_cost:
        received = await asyncio.to_thread(_COSTS.frames, received)
    return ContentView(
        request_id=unpacked.request_id,
        at_ms=unpacked.at_ms,
        prompt=unpacked.prompt,
        answer=unpacked.answer,
        upstream_frames=_frames(received),
        caller_frames=_frames(unpacked.caller_frames),
        is_cut=unpacked.is_cut,
    )


async def delete_content(call: Call[Nothing, Nothing]) -> Deleted:
    actor, at_ms = call.actor, call.at_ms

    def work(conn: Connection) -> None:
        row = _find_request(conn, call)
        if not content.delete_content(conn, row.request_id, actor.allowed_workspace):
            raise NotFound("no content is stored for this request")
        audit.append(conn, actor.name, "content.delete", row.request_id, {}, row.workspace_id, at_ms)

    await call.context.flush_accounting()
    await call.context.write(work)
    return Deleted(deleted=True)


def _frames(frames: Sequence[Frame]) -> list[FrameView]:
    return [FrameView(after_ms=after_ms, text=text) for after_ms, text in frames]


def _find_request(conn: Connection, call: Call[Nothing, Nothing]) -> RequestRow:
    id = call.path["id"]
    row = find_request(conn, id, call.actor.allowed_workspace)
    if row is None:
        raise unknown_request(id)
    return row


def unknown_request(id: str) -> NotFound:
    return NotFound(f"there is no request {quoted(id)}")


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/requests",
        access=Permission.REQUESTS_READ,
        about="List finished requests, newest first by default",
        handler=list_requests,
        query=RequestQuery,
        answer=Page[RequestView],
    ),
    Operation(
        method="GET",
        path="/api/requests/{id}",
        access=Permission.REQUESTS_READ,
        about="Show one request, by its id or the id in its chunks, running or finished",
        handler=show_request,
        answer=FoundRequest,
    ),
    Operation(
        method="GET",
        path="/api/requests/{id}/content",
        access=Permission.CONTENT_READ,
        about="Show the stored content of a request; recorded in the audit log",
        handler=show_content,
        answer=ContentView,
    ),
    Operation(
        method="DELETE",
        path="/api/requests/{id}/content",
        access=Permission.CONTENT_ERASE,
        about="Delete the stored content of a request",
        handler=delete_content,
        answer=Deleted,
    ),
)
