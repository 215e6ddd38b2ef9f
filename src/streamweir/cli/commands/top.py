"""`streamweir top`: the running requests in the terminal, until q is pressed.

They are read from the store of the gateway (`cli.find`), which its user may read; so no secret is needed, and requests
of all nodes that share the store are there. With `--url` they are read over the API of any gateway, with its admin
secret or a key. In a pipe, and with `--once`, they are printed once.
"""

import asyncio
import functools
import os
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec import Struct

from streamweir.cli.database import StoreAccess, json_option, place_options
from streamweir.cli.find import LocalGateway
from streamweir.cli.view.live import COLUMNS, GAP, RIGHT, SHRINKING, SORTS, cells, columns_that_fit, in_order
from streamweir.cli.view.table import for_terminal, show_json, show_table
from streamweir.server.control.api.view import LiveView, view_live
from streamweir.store.db.base import StoreUnavailable
from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from rich.table import Table
    from sqlalchemy import Connection

    from streamweir.store.db.base import Store

SECRET = "STREAMWEIR_ADMIN_SECRET"  # noqa: S105 (the name of the variable)
_MAX_ROWS = 200


class Snapshot(Struct, frozen=True):
    total: int
    rows: list[LiveView]
    """The newest of them."""


class Unavailable(Exception):
    """They cannot be read now; the text says why."""


Read = Callable[[], Awaitable[Snapshot]]


@click.command("top", short_help="Show the running requests.")
@click.option("--url", help="Read them over the API of this gateway, and not from its store.")
@click.option("--secret", envvar=SECRET, help=f"With --url: the admin secret, or a key.  [default: ${SECRET}]")
@click.option("--workspace", metavar="W", help="Only of this workspace (name or id).")
@click.option("--sort", type=click.Choice(SORTS), default="age", show_default=True, help="Order of the requests.")
@click.option("--interval", type=click.FloatRange(0.2, 3600), default=1.0, show_default=True, help="Seconds.")
@click.option("--once", is_flag=True, help="Print them once.")
@json_option
@place_options
def command(
    find: Callable[[], LocalGateway],
    url: str | None,
    secret: str | None,
    workspace: str | None,
    sort: str,
    interval: float,
    once: bool,
    as_json: bool,
) -> None:
    """Show the running requests, and refresh them until q is pressed."""
    show = functools.partial(_show_once, sort, as_json)
    if not once and not as_json and sys.stdout.isatty() and sys.stdin.isatty():
        show = functools.partial(_show_until_stopped, sort, interval)
    if url is not None:
        if not secret:
            raise click.ClickException(f"--url needs the admin secret or a key with the scope admin: set {SECRET}")
        asyncio.run(show(functools.partial(_read_url, url, secret, workspace)))
        return
    StoreAccess(find()).run(lambda store: show(functools.partial(_read_store, store, workspace)))


async def _read_store(store: "Store", workspace: str | None) -> Snapshot:
    from streamweir.server.accounting.intervals import DEFAULT_INTERVALS
    from streamweir.store.keys.workspaces import find_workspace
    from streamweir.store.requests.live import LiveInstances, count_open, open_of

    alive = LiveInstances(own="", now_ms=now_ms(), silent_ms=round(DEFAULT_INTERVALS.hidden_after_s * 1000))

    def work(conn: "Connection") -> Snapshot:
        within = find_workspace(conn, workspace).id if workspace is not None else None
        rows = open_of(conn, within, _MAX_ROWS, alive)
        return Snapshot(count_open(conn, within, alive), [view_live(row, sees_cost=False) for row in rows])

    try:
        return await store.read(work)
    except StoreUnavailable as reason:
        raise Unavailable(f"the database does not answer: {reason}") from None


async def _read_url(url: str, secret: str, workspace: str | None) -> Snapshot:
    from urllib.parse import urlencode

    import msgspec

    from streamweir.cli.probe import Unreachable, get

    query = urlencode({"limit": _MAX_ROWS, **({"workspace": workspace} if workspace is not None else {})})
    try:
        reply = await asyncio.to_thread(get, url, f"/api/live?{query}", secret=secret)
        if reply.status != 200:
            raise Unavailable(f"{url}: {reason_of(reply.document(), reply.status)}")
        rows = msgspec.json.decode(reply.body, type=_Page).data
    except Unreachable as reason:
        raise Unavailable(f"{url}: {reason}") from None
    except msgspec.DecodeError:
        raise Unavailable(f"{url}: the answer is not that of a Streamweir gateway") from None
    return Snapshot(len(rows), rows)


class _Page(Struct):
    data: list[LiveView]


def reason_of(document: Any, status: int) -> str:
    error = document.get("error") if isinstance(document, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return for_terminal(message) if isinstance(message, str) else f"status {status}"


async def _show_once(sort: str, as_json: bool, read: Read) -> None:
    try:
        found = await read()
    except Unavailable as reason:
        raise click.ClickException(str(reason)) from None
    rows, at_ms = in_order(found.rows, sort), now_ms()
    if as_json:
        show_json({"total": found.total, "data": rows})
        return
    show_table(COLUMNS, [cells(row, at_ms) for row in rows], right=RIGHT, none="No request is running.")


async def _show_until_stopped(sort: str, interval_s: float, read: Read) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    stopped = asyncio.Event()
    with _keys(stopped), Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
        while not stopped.is_set():
            try:
                live.update(screen(await read(), sort, live.console.width, now_ms()), refresh=True)
            except Unavailable as reason:
                message = for_terminal(f"{reason}; trying again every {interval_s:g} s, q quits")
                live.update(Text(message), refresh=True)  # a str would be read as markup
            try:
                async with asyncio.timeout(interval_s):
                    await stopped.wait()
            except TimeoutError:
                continue


def screen(found: Snapshot, sort: str, width: int, at_ms: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    rows = [[for_terminal(cell) for cell in cells(row, at_ms)] for row in in_order(found.rows, sort)]
    shown = columns_that_fit(rows, width)
    title = f"{found.total} running requests, by {sort}; q quits"
    table = Table(
        title=title,
        title_justify="left",
        box=None,
        header_style="bold",
        pad_edge=False,
        padding=(0, GAP, 0, 0),
        expand=True,
    )
    for name in (COLUMNS[at] for at in shown):
        # Rich takes what is missing from columns whose lines may be broken, before it cuts others.
        justify: Literal["left", "right"] = "right" if name in RIGHT else "left"
        table.add_column(name.upper(), justify=justify, no_wrap=name not in SHRINKING)
    for row in rows:
        table.add_row(*(Text(row[at], no_wrap=True, overflow="ellipsis") for at in shown))
    return table


@contextmanager
def _keys(stopped: asyncio.Event) -> Iterator[None]:
    """q stops it. The terminal is as it was afterwards."""
    loop, file = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(file)

    def read() -> None:
        if not (typed := os.read(file, 64)) or b"q" in typed.lower():
            stopped.set()

    tty.setcbreak(file)
    loop.add_reader(file, read)
    try:
        yield
    finally:
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)
