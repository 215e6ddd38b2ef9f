"""`streamweir credits`: credit and balance of workspaces, and whether the ledger is consistent.

Exit status of `check`: 0 it is, 3 it is not.
"""

import sys
from typing import TYPE_CHECKING

import click

from streamweir.cli.argument import DOLLARS, SEQ
from streamweir.cli.database import ACTOR, CHECK_TIMEOUT_S, StoreAccess, json_option, store_options
from streamweir.cli.view.table import NONE, dollars, moment, number, show_facts, show_json, show_table
from streamweir.policy.billing.statement import decimals_of
from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from streamweir.store.keys.credit import Balance, LedgerFilter, LedgerRow

WRONG = 3
_MONEY = ("granted", "spent", "held", "balance")
_ROW_MONEY = ("amount", "released", "cost", "margin")


@click.group("credits", short_help="Grant credit, show balances, check the ledger.")
def command() -> None:
    """Grant credit to workspaces and show balances. Prepaid workspaces can spend only their credit."""


@command.command("add", context_settings={"ignore_unknown_options": True})
@click.argument("workspace")
@click.argument("amount", type=DOLLARS, metavar="USD")
@click.option("--note", default="", metavar="TEXT", help="Note for the ledger row.")
@json_option
@store_options
def add(access: StoreAccess, workspace: str, amount: int, note: str, as_json: bool) -> None:
    """Grant WORKSPACE (name or id) a credit in US dollars. A negative amount corrects an earlier one."""
    from streamweir.store.keys.credit import add_credit

    at_ms = now_ms()
    balance = access.write(lambda conn: add_credit(conn, workspace, amount, note=note, actor=ACTOR, at_ms=at_ms))
    if as_json:
        show_json(balance)
        return
    show_facts(_facts(balance))
    if not balance.workspace.prepaid:
        click.echo(
            "It is not prepaid, so credit does not bound what it spends (workspaces change --prepaid).", err=True
        )


@command.command("show")
@click.argument("workspace", required=False)
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Number of ledger rows.")
@click.option(
    "--kind",
    type=click.Choice(["charge", "credit", "reservation", "all"]),
    help="Only these ledger rows; reservations with their extensions. [default: charges and credits]",
)
@click.option("--before", type=SEQ, metavar="SEQ", help="Only rows before this one.")
@json_option
@store_options
def show(
    access: StoreAccess,
    workspace: str | None,
    limit: int,
    kind: "LedgerFilter | None",
    before: int | None,
    as_json: bool,
) -> None:
    """Show the balance of every workspace, or of WORKSPACE with its latest charges and credits.

    A charge is the price of a request, negative. Amounts and releases of all rows (--kind all) add up to the balance.
    """
    from streamweir.store.keys.credit import list_balances, list_ledger, show_balance

    if workspace is None:
        _show_all(access.read(list_balances), as_json)
        return

    def work(conn: "Connection") -> "tuple[Balance, list[LedgerRow]]":
        balance = show_balance(conn, workspace)
        return balance, list_ledger(conn, balance.workspace.id, kind=kind, before=before, limit=limit)

    balance, rows = access.read(work)
    if as_json:
        show_json({"balance": balance, "ledger": rows})
        return
    show_facts(_facts(balance))
    click.echo()
    _show_ledger(rows, is_filtered=kind is not None or before is not None)


@command.command("check")
@json_option
@store_options
def check(access: StoreAccess, as_json: bool) -> None:
    """Recompute every total from the ledger rows and report the stored totals that differ."""
    from streamweir.store.ledger.check import check_sums

    report = access.read(check_sums, timeout_s=CHECK_TIMEOUT_S)
    if as_json:
        show_json(report)
    elif not report.faults:
        click.echo(
            f"The ledger is consistent ({number(report.rows)} ledger rows, {number(report.workspaces)} workspaces)."
        )
    else:
        rows = [(each.object, each.what, dollars(each.kept), dollars(each.found)) for each in report.faults]
        show_table(("object", "what", "kept", "by the rows"), rows, right=("kept", "by the rows"), none="")
        click.echo("The ledger is not consistent.", err=True)
    sys.exit(WRONG if report.faults else 0)


def _show_ledger(rows: "list[LedgerRow]", is_filtered: bool) -> None:
    money = [(row.amount_nano, row.released_nano, row.cost_nano, row.margin_nano) for row in rows]
    decimals = decimals_of(amount for each in money for amount in each if amount is not None)
    table = [
        (
            str(row.seq),
            moment(row.at_ms),
            row.kind,
            *(dollars(amount, decimals) for amount in amounts),
            row.key_id or NONE,
            row.request_id or NONE,
            row.note or NONE,
        )
        for row, amounts in zip(rows, money, strict=True)
    ]
    columns = ("seq", "at", "kind", *_ROW_MONEY, "key", "request", "note")
    none = "It has no such ledger rows." if is_filtered else "It has no charges and no credits."
    show_table(columns, table, right=("seq", *_ROW_MONEY), none=none)


def _show_all(balances: "list[Balance]", as_json: bool) -> None:
    if as_json:
        show_json(balances)
        return
    rows = [(each.workspace.name, each.workspace.id, _prepaid(each), *_sums(each)) for each in balances]
    show_table(("workspace", "id", "prepaid", *_MONEY), rows, right=_MONEY, none="There are no workspaces.")


def _facts(balance: "Balance") -> list[tuple[str, str]]:
    workspace = balance.workspace
    names = [("workspace", workspace.name), ("id", workspace.id), ("prepaid", _prepaid(balance))]
    return [*names, *zip(_MONEY, _sums(balance), strict=True)]


def _sums(balance: "Balance") -> list[str]:
    money = (balance.granted_nano, balance.spent_nano, balance.held_nano, balance.balance_nano)
    return [dollars(each) for each in money]


def _prepaid(balance: "Balance") -> str:
    return "yes" if balance.workspace.prepaid else "no"
