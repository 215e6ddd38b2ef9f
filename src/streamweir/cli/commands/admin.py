"""`streamweir admin`: a new admin secret, and the audit log.

Exit status of `audit --verify`: 0 the log is unchanged, 3 it is not.
"""

import sys

import click

from streamweir.cli.argument import SEQ
from streamweir.cli.database import ACTOR, CHECK_TIMEOUT_S, StoreAccess, json_option, store_options
from streamweir.cli.view.table import NONE, moment, show_json, show_table
from streamweir.store.db.clock import now_ms

BROKEN = 3


@click.group("admin", short_help="The admin secret and the audit log.")
def command() -> None:
    """Manage the admin secret and read the audit log."""


@command.command("reset-secret")
@json_option
@store_options
def reset_secret(access: StoreAccess, as_json: bool) -> None:
    """Create a new admin secret and print it once. The old secret and all sessions become invalid."""
    from streamweir.store.keys.sessions import reset_admin_secret

    at_ms = now_ms()
    secret = access.write(lambda conn: reset_admin_secret(conn, actor=ACTOR, at_ms=at_ms))
    if as_json:
        show_json({"secret": secret})
        return
    click.echo("The admin secret (it is not stored and will not be shown again):\n", err=True)
    click.echo(secret)


@command.command("audit")
@click.option("--verify", "must_verify", is_flag=True, help="Only check that no row was changed or removed.")
@click.option("--workspace", metavar="W", help="Only rows of this workspace (name or id).")
@click.option("--before", type=SEQ, metavar="SEQ", help="Only rows before this one.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Number of rows.")
@json_option
@store_options
def audit(
    access: StoreAccess, must_verify: bool, workspace: str | None, before: int | None, limit: int, as_json: bool
) -> None:
    """Show who changed what, newest first."""
    from streamweir.store.keys.audit import list_rows
    from streamweir.store.keys.workspaces import find_workspace

    if must_verify:
        sys.exit(_verify(access, as_json))
    rows = access.read(
        lambda conn: list_rows(
            conn,
            workspace_id=find_workspace(conn, workspace).id if workspace is not None else None,
            before=before,
            limit=limit,
        )
    )
    if as_json:
        show_json(rows)
        return
    columns = ("seq", "at", "actor", "action", "object", "detail")
    table = [
        (
            str(row.seq),
            moment(row.at_ms),
            row.actor,
            row.action,
            row.object,
            ", ".join(f"{name}={_shown(value)}" for name, value in row.detail.items()),
        )
        for row in rows
    ]
    show_table(columns, table, right=("seq",), none="The audit log is empty.")


def _verify(access: StoreAccess, as_json: bool) -> int:
    from streamweir.store.keys.audit import verify

    broken = access.read(verify, timeout_s=CHECK_TIMEOUT_S)
    if as_json:
        show_json({"first_broken_seq": broken})
    elif broken is None:
        click.echo("The audit log is intact.")
    else:
        click.echo(
            f"The audit log was changed: row {broken} is the first one that does not match its checksum.", err=True
        )
    return 0 if broken is None else BROKEN


def _shown(value: object) -> str:
    if isinstance(value, dict) and value.keys() == {"from", "to"}:
        return f"{_shown(value['from'])} to {_shown(value['to'])}"
    if isinstance(value, list):
        return "+".join(map(str, value))
    return NONE if value is None else str(value)
