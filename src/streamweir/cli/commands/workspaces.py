"""`streamweir workspaces`: who owns keys and credit. There is always one, `default`."""

from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from streamweir.cli.argument import NO_LIMIT
from streamweir.cli.database import ACTOR, StoreAccess, json_option, store_options
from streamweir.cli.price_group import warn_of_unknown_group
from streamweir.cli.view.table import NONE, moment, show_facts, show_json, show_table
from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from streamweir.store.keys.workspaces import Workspace


@click.group("workspaces", short_help="Create, list and change workspaces.")
def command() -> None:
    """Create and change workspaces. Each has its own keys and ledger."""


@command.command("create")
@click.argument("name")
@click.option("--prepaid", is_flag=True, help="Limit spending to granted credit.")
@click.option("--price-group", metavar="G", help="Price group of the configuration.  [default: default]")
@json_option
@store_options
def create(access: StoreAccess, name: str, prepaid: bool, price_group: str | None, as_json: bool) -> None:
    """Create the workspace NAME."""
    from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace

    spec, at_ms = WorkspaceSpec(name=name, prepaid=prepaid, price_group=price_group), now_ms()
    warn_of_unknown_group(access, price_group)
    _show_result(access.write(lambda conn: create_workspace(conn, spec, actor=ACTOR, at_ms=at_ms)), as_json)


@command.command("list")
@json_option
@store_options
def list_(access: StoreAccess, as_json: bool) -> None:
    """List the workspaces by name."""
    from streamweir.store.keys.workspaces import list_workspaces

    found = access.read(list_workspaces)
    if as_json:
        show_json(found)
        return
    rows = [(each.name, each.id, _prepaid(each), each.price_group or NONE, moment(each.created_ms)) for each in found]
    show_table(("name", "id", "prepaid", "price group", "created"), rows, none="There are no workspaces.")


@command.command("change")
@click.argument("workspace")
@click.option("--name", metavar="NAME", help="New name.")
@click.option("--prepaid/--no-prepaid", default=None, help="Limit spending to granted credit, or not.")
@click.option("--price-group", metavar="G|none", help="Price group of the configuration.")
@json_option
@store_options
def change(
    access: StoreAccess,
    workspace: str,
    name: str | None,
    prepaid: bool | None,
    price_group: str | None,
    as_json: bool,
) -> None:
    """Change WORKSPACE (name or id). Options that are not given stay as they are."""
    from streamweir.store.keys.workspaces import WorkspaceChange, change_workspace, find_workspace

    if name is None and prepaid is None and price_group is None:
        raise click.UsageError("nothing to change: give --name, --prepaid, --no-prepaid or --price-group")
    group = None if price_group == NO_LIMIT else price_group
    warn_of_unknown_group(access, group)
    wanted = WorkspaceChange(
        name=name if name is not None else UNSET,
        prepaid=prepaid if prepaid is not None else UNSET,
        price_group=group if price_group is not None else UNSET,
    )
    at_ms = now_ms()

    def work(conn: "Connection") -> "Workspace":
        found = find_workspace(conn, workspace)
        return change_workspace(conn, found.id, wanted, actor=ACTOR, at_ms=at_ms)

    _show_result(access.write(work), as_json)


def _show_result(workspace: "Workspace", as_json: bool) -> None:
    if as_json:
        show_json(workspace)
        return
    facts = [("name", workspace.name), ("id", workspace.id), ("prepaid", _prepaid(workspace))]
    show_facts([*facts, ("price group", workspace.price_group or "default"), ("created", moment(workspace.created_ms))])


def _prepaid(workspace: "Workspace") -> str:
    return "yes" if workspace.prepaid else "no"
