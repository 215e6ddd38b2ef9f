"""`streamweir logs`: shows the latest requests, one request in detail, or new requests as they end, from the store.

The newest request is the last line. JSON output has one object per line, in ASCII. Reading content is recorded in
the audit log, in the same transaction.
"""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from streamweir.cli.argument import parse_length, parse_moment
from streamweir.cli.database import ACTOR, TIMEOUT_S, StoreAccess, json_option, store_options
from streamweir.cli.view.request import HEAD, cells_of, content_lines, facts_of, line_of, widths_of
from streamweir.cli.view.table import show_facts
from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from streamweir.store.db.base import Store
    from streamweir.store.requests.content import Content
    from streamweir.store.requests.follow import FollowPosition
    from streamweir.store.requests.requests import RequestFilter, RequestRow

_POLL_S = 0.5
_NONE = "There are no requests in the log."


def _since(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """A duration before now, or a date."""
    if text is None:
        return None
    length, now = parse_length(text), now_ms()
    moment = now - length if length is not None else parse_moment(text, now)
    if moment is None:
        raise click.BadParameter("expected a length such as 30m, 1h or 7d, or a date such as 2027-01-31")
    return moment


@click.command("logs", short_help="Show the request log, or one request.")
@click.argument("id", required=False)
@click.option("--follow", "-f", is_flag=True, help="Continue with new requests as they end.")
@click.option(
    "--limit", "-n", type=click.IntRange(1, 100_000), default=20, show_default=True, help="Number of requests."
)
@click.option("--since", "since_ms", callback=_since, metavar="1h|DATE", help="Only requests since then.")
@click.option("--workspace", metavar="W", help="Only this workspace (name or id).")
@click.option("--key", metavar="K", help="Only this key (name or id).")
@click.option("--model", metavar="M", help="Only requests for this model.")
@click.option("--target", metavar="T", help="Only requests sent to this provider, or PROVIDER/MODEL.")
@click.option("--user", "end_user", metavar="U", help="Only this end user, as the caller names it.")
@click.option("--session", metavar="S", help="Only this session, as the caller names it.")
@click.option("--tag", metavar="NAME=VALUE", help="Only requests with this tag.")
@click.option("--verdict", metavar="V", help="Only this verdict: completed, client_gone, ...")
@click.option("--failed", is_flag=True, help="Only requests that failed.")
@click.option("--content", "with_content", is_flag=True, help="With ID: show the stored prompt and answer.")
@json_option
@store_options
def command(
    access: StoreAccess,
    id: str | None,
    follow: bool,
    limit: int,
    workspace: str | None,
    key: str | None,
    failed: bool,
    with_content: bool,
    as_json: bool,
    **more: Any,
) -> None:
    """Show the latest requests, newest last, or the details of request ID.

    ID is the request's id (x-request-id) or the id in the chunks of its answer.
    """
    if id is not None and follow:
        raise click.UsageError("--follow shows new requests and cannot be combined with an ID")
    if with_content and id is None:
        raise click.UsageError("--content shows one request and needs an ID")
    if id is not None:
        _show_one(access, id, workspace, with_content, as_json)
        return

    more["end_user"] = _recorded(access, more["end_user"])

    async def work(store: "Store") -> None:
        wanted = await store.read(lambda conn: _filter(conn, workspace, key, failed, more), timeout_s=TIMEOUT_S)
        await (_follow(store, wanted, limit, as_json) if follow else _show_latest(store, wanted, limit, as_json))

    try:
        access.run(work)
    except KeyboardInterrupt:
        if not follow:
            raise


def _recorded(access: StoreAccess, end_user: str | None) -> str | None:
    from streamweir.config.error import ConfigError
    from streamweir.policy.end_user import recorded_user

    try:
        return recorded_user(end_user, access.settings().end_user) if end_user is not None else None
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


def _filter(
    conn: "Connection", workspace: str | None, key: str | None, failed: bool, more: dict[str, Any]
) -> "RequestFilter":
    from streamweir.store.keys.keys import find_key
    from streamweir.store.requests.requests import RequestFilter

    workspace_id = _workspace_id(conn, workspace)
    key_id = find_key(conn, key, workspace_id).id if key is not None else None
    return RequestFilter(workspace_id=workspace_id, key_id=key_id, failed=failed or None, **more)


def _workspace_id(conn: "Connection", workspace: str | None) -> str | None:
    from streamweir.store.keys.workspaces import find_workspace

    return find_workspace(conn, workspace).id if workspace is not None else None


async def _show_latest(store: "Store", wanted: "RequestFilter", limit: int, as_json: bool) -> None:
    rows = await _latest(store, wanted, limit, lambda _: True)
    if as_json:
        for row in rows:
            _print_json(row)
        return
    if not rows:
        click.echo(_NONE, err=True)
        return
    lines = [HEAD, *(cells_of(row) for row in rows)]
    widths = widths_of(lines)
    for cells in lines:
        click.echo(line_of(cells, widths))


async def _latest(
    store: "Store", wanted: "RequestFilter", limit: int, is_shown: "Callable[[RequestRow], bool]"
) -> "list[RequestRow]":
    """The newest last."""
    from streamweir.store.requests.requests import list_requests

    rows: list[RequestRow] = []
    cursor: str | None = None
    while len(rows) < limit:
        query = partial(list_requests, wanted=wanted, cursor=cursor, limit=limit - len(rows))
        page = await store.read(query, timeout_s=TIMEOUT_S)
        rows += [row for row in page.rows if is_shown(row)]
        cursor = page.next
        if cursor is None:
            break
    return rows[::-1]


async def _follow(store: "Store", wanted: "RequestFilter", limit: int, as_json: bool) -> None:
    from streamweir.store.db.base import StoreUnavailable
    from streamweir.store.requests.follow import mark_now, newer_than

    show_row = _print_json if as_json else _print_line
    position: FollowPosition = await store.read(partial(mark_now, now_ms=now_ms()), timeout_s=TIMEOUT_S)
    if not as_json:
        click.echo(line_of(HEAD))
    for row in await _latest(store, wanted, limit, lambda row: position.is_past(row.seq)):
        show_row(row)
    is_unavailable = False
    while True:
        try:
            query = partial(newer_than, mark=position, wanted=wanted, now_ms=now_ms())
            batch = await store.read(query, timeout_s=TIMEOUT_S)
        except StoreUnavailable as reason:
            if not is_unavailable:
                click.echo(f"{reason}; trying again", err=True)
            is_unavailable = True
            await asyncio.sleep(_POLL_S)
            continue
        is_unavailable, position = False, batch.mark
        for row in batch.rows:
            show_row(row)
        if batch.is_all:
            await asyncio.sleep(_POLL_S)


def _show_one(access: StoreAccess, id: str, workspace: str | None, with_content: bool, as_json: bool) -> None:
    at_ms = now_ms()
    row, is_open = access.read(lambda conn: _find(conn, id, workspace))
    if row is None:
        raise click.ClickException("the request is still running" if is_open else "the request is not in the log")
    content = access.write(lambda conn: _read_content(conn, row, at_ms)) if with_content else None
    if as_json:
        _print_json(row, {"content": content} if with_content else {})
        return
    show_facts(facts_of(row))
    if with_content and content is None:
        click.echo(
            "No content is stored for this request. Content is stored only for keys with --log-content.", err=True
        )
    for line in content_lines(content) if content is not None else ():
        click.echo(line)


def _find(conn: "Connection", id: str, workspace: str | None) -> "tuple[RequestRow | None, bool]":
    from streamweir.store.requests.requests import find_request, is_running

    workspace_id = _workspace_id(conn, workspace)
    row = find_request(conn, id, workspace_id)
    return row, row is None and is_running(conn, id, workspace_id)


def _read_content(conn: "Connection", row: "RequestRow", at_ms: int) -> "Content | None":
    from streamweir.store.keys import audit
    from streamweir.store.requests.content import find_content

    packed = find_content(conn, row.request_id)
    if packed is None:
        return None
    audit.append(conn, ACTOR, "content.read", row.request_id, {}, row.workspace_id, at_ms)
    return packed.unpack()


def _print_line(row: "RequestRow") -> None:
    click.echo(line_of(cells_of(row)))


def _print_json(row: "RequestRow", more: dict[str, Any] | None = None) -> None:
    members = msgspec.to_builtins(row.members()) | msgspec.to_builtins(more or {})
    click.echo(json.dumps(members, ensure_ascii=True, separators=(",", ":")))
