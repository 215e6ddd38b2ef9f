"""`streamweir invoice`: the statement of a workspace for a month.

Exit status: 0, or 3 if `--check` finds that the sums are not those of the ledger's rows; then nothing is printed.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamweir.cli.database import CHECK_TIMEOUT_S, StoreAccess, store_options
from streamweir.cli.view.table import dollars, show_json
from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from streamweir.policy.billing.statement import Statement

WRONG = 3


@click.command("invoice", short_help="Print what a workspace is charged for a month.")
@click.argument("workspace")
@click.option("--month", required=True, metavar="YYYY-MM", help="Month (UTC) in which the requests arrived.")
@click.option("--format", "form", type=click.Choice(["text", "csv", "html", "json"]), default="text", show_default=True)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write to this file.")
@click.option("--check", "is_checked", is_flag=True, help="Recompute the total from every row of the ledger first.")
@store_options
def command(access: StoreAccess, workspace: str, month: str, form: str, output: Path | None, is_checked: bool) -> None:
    """Print the statement of WORKSPACE (name or id) for a month: what its keys used and are charged, and its credit.
    Costs and margins are not on it.
    """
    from streamweir.cli.view.statement import as_csv, as_html, as_json, as_text

    statement, by_ledger = access.read(
        lambda conn: _read(conn, workspace, month, is_checked), timeout_s=CHECK_TIMEOUT_S
    )
    total = statement.total.price
    if by_ledger is not None and by_ledger != total:
        click.echo(
            f"The sums do not agree: {dollars(total)} by usage, {dollars(by_ledger)} by the rows of the ledger. "
            "`streamweir credits check` says more.",
            err=True,
        )
        sys.exit(WRONG)
    if form == "json" and output is None:
        show_json(as_json(statement))
        return
    if form == "json":
        raise click.UsageError("--output is for text, csv and html")
    text = {"text": as_text, "csv": as_csv, "html": as_html}[form](statement)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror}") from None


def _read(conn: "Connection", workspace: str, month: str, is_checked: bool) -> "tuple[Statement, int | None]":
    """With the total of the ledger's rows, if it is checked: of the same state of the database."""
    from streamweir.policy.billing.statement import span_of_month
    from streamweir.store.keys.statement import price_by_ledger, read_statement

    statement = read_statement(conn, workspace, month, now_ms())
    if not is_checked:
        return statement, None
    return statement, price_by_ledger(conn, statement.workspace_id, *span_of_month(month))
