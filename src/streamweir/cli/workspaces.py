"""`streamweir workspaces`: who owns keys and credit. There is always one, `default`."""

from typing import TYPE_CHECKING

import click
from msgspec import UNSET

from streamweir.cli.database import ACTOR, StoreAccess, json_option, store_options
from streamweir.cli.table import moment, show_facts, show_json, show_table
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
@json_option
@store_options
def create(access: StoreAccess, name: str, prepaid: bool, as_json: bool) -> None:
    """Create the workspace NAME."""
    from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace

    spec, at_ms = WorkspaceSpec(name=name, prepaid=prepaid), now_ms()
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
    rows = [(each.name, each.id, _prepaid(each), moment(each.created_ms)) for each in found]
    show_table(("name", "id", "prepaid", "created"), rows, none="There are no workspaces.")


@command.command("change")
@click.argument("workspace")
@click.option("--name", metavar="NAME", help="New name.")
@click.option("--prepaid/--no-prepaid", default=None, help="Limit spending to granted credit, or not.")
@json_option
@store_options
def change(access: StoreAccess, workspace: str, name: str | None, prepaid: bool | None, as_json: bool) -> None:
    """Change WORKSPACE (name or id). Options that are not given stay as they are."""
    from streamweir.store.keys.workspaces import WorkspaceChange, change_workspace, find_workspace

    if name is None and prepaid is None:
        raise click.UsageError("nothing to change: give --name, --prepaid or --no-prepaid")
    wanted = WorkspaceChange(
        name=name if name is not None else UNSET, prepaid=prepaid if prepaid is not None else UNSET
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
    show_facts([*facts, ("created", moment(workspace.created_ms))])


def _prepaid(workspace: "Workspace") -> str:
    return "yes" if workspace.prepaid else "no"
