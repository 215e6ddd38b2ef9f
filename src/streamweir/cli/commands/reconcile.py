"""`streamweir reconcile`: what a provider says was used and costs, beside what the ledger has.

The file is read here, and understood by `policy.billing.exports`; `policy.billing.reconciliation` compares. Exit
status: 0 they agree, 1 the file or the database cannot be read, 3 they differ.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamweir.cli.database import CHECK_TIMEOUT_S, StoreAccess, json_option, store_options
from streamweir.cli.view.table import NONE, dollars, for_terminal, number, show_json, show_table
from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from streamweir.policy.billing.exports.base import Export
    from streamweir.policy.billing.reconciliation import Line, Reconciliation, Usage

DIFFERENT = 3
_COLUMNS = ("day", "model", "key", "what", "provider", "ledger", "difference", "%")
_NUMBERS = ("provider", "ledger", "difference", "%")
_WHAT = {"input_tokens": "input", "cached_tokens": "cached input", "output_tokens": "output"}
_NAMES = {"openai": ("openai",), "anthropic": ("anthropic",), "google": ("google", "gemini", "vertex")}
"""Of each provider's export: the names that a provider under [[providers]] usually has."""


class _Renaming(click.ParamType[tuple[str, str]]):
    name = "theirs=ours"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        theirs, equals, ours = value.rpartition("=")
        if not equals or not theirs:
            self.fail("expected THEIRS=OURS", param, ctx)
        return theirs, ours


@click.command("reconcile", short_help="Compare a provider's usage or cost export with the ledger.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--provider", "providers", multiple=True, metavar="NAME", help="Name in [[providers]]; repeatable.")
@click.option("--model", "models", type=_Renaming(), multiple=True, help="Model in the file = model of the target.")
@click.option("--key", "keys", type=_Renaming(), multiple=True, help="Key or project in the file = name in api_keys.")
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 100),
    default=1.0,
    show_default=True,
    metavar="PERCENT",
    help="Smaller differences count as none.",
)
@click.option("--all", "show_all", is_flag=True, help="Also show what agrees.")
@json_option
@store_options
def command(
    access: StoreAccess,
    file: Path,
    providers: Sequence[str],
    models: Sequence[tuple[str, str]],
    keys: Sequence[tuple[str, str]],
    tolerance: float,
    show_all: bool,
    as_json: bool,
) -> None:
    """Compare FILE, a usage or cost export of OpenAI, Anthropic or Google (CSV or JSON), with the ledger: by day, model
    and key. Differences are the provider's amounts less the ledger's.

    Exit status: 0 they agree, 3 they differ.
    """
    from streamweir.policy.billing.reconciliation import compare, period_of

    export = _read(file)
    since_ms, until_ms = period_of(export)
    usage, chosen = access.read(
        lambda conn: _usage(conn, export.provider, providers, since_ms, until_ms), timeout_s=CHECK_TIMEOUT_S
    )
    found = compare(export, usage, models=dict(models), keys=dict(keys), tolerance_percent=tolerance)
    notes = [*found.notes]
    if until_ms > now_ms():
        notes.append("The last day of the file is not over.")
    if as_json:
        period = {"since_ms": since_ms, "until_ms": until_ms, "zone": export.zone}
        head = {"provider": export.provider, "what": export.what, "ledger_providers": chosen, **period}
        lines = [line for line in found.lines if show_all or line.differs]
        show_json({**head, "differs": found.differs, "totals": found.totals, "lines": lines, "notes": notes})
    else:
        _show(export, chosen, found, notes, tolerance, show_all)
    sys.exit(DIFFERENT if found.differs else 0)


def _read(file: Path) -> "Export":
    from streamweir.policy.billing.exports.base import ExportError
    from streamweir.policy.billing.exports.read import MAX_BYTES, read_export

    try:
        with file.open("rb") as opened:
            return read_export(opened.read(MAX_BYTES + 1))
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
    except ExportError as error:
        raise click.ClickException(for_terminal(f"{file}: {error}")) from None


def _usage(
    conn: "Connection", kind: str, wanted: Sequence[str], since_ms: int, until_ms: int
) -> "tuple[list[Usage], list[str]]":
    """With the names of the providers that were chosen. Raises `Invalid` if the ledger has none of them."""
    from streamweir.store.db.errors import Invalid
    from streamweir.store.ledger.target_sums import list_providers, read_usage_of

    known = list_providers(conn)
    chosen = [name for name in (wanted or _NAMES[kind]) if name in known]
    missing = [name for name in wanted if name not in known]
    if missing or not chosen:
        has = f"it has {', '.join(known)}" if known else "it is empty"
        named = ", ".join(missing) or f"a provider with the name {' or '.join(_NAMES[kind])}"
        raise Invalid(f"the ledger does not have {named}: {has}. Name them with --provider", "provider")
    return read_usage_of(conn, chosen, since_ms, until_ms), chosen


def _show(
    export: "Export", chosen: Sequence[str], found: "Reconciliation", notes: Sequence[str], tolerance: float, all: bool
) -> None:
    from streamweir.policy.billing.exports.base import day_name
    from streamweir.policy.billing.reconciliation import period_of

    since_ms, until_ms = period_of(export)
    first, last = (day_name(at_ms, export.zone) for at_ms in (since_ms, until_ms - 1))
    zone = "UTC" if export.zone == "UTC" else "Pacific time"
    click.echo(
        f"{export.provider}, {export.what}, {first} to {last} ({zone}), beside {', '.join(chosen)} in the ledger"
    )
    click.echo()
    lines = [line for line in found.lines if all or line.differs]
    rows = [_row(line) for line in lines] + [_row(line, "total") for line in found.totals]
    show_table(_COLUMNS, rows, right=_NUMBERS, none="")
    click.echo()
    for note in notes:
        click.echo(for_terminal(note))
    count = sum(line.differs for line in found.lines)
    if found.differs:
        share = f"{number(count)} of {number(len(found.lines))} amounts differ by more than {tolerance:g} %."
        click.echo(share if count else f"No amount differs by more than {tolerance:g} %, but a total does.")
    else:
        click.echo(f"They agree: none of {number(len(found.lines))} amounts differs by more than {tolerance:g} %.")


def _row(line: "Line", day: str = "") -> tuple[str, ...]:
    shown = dollars if line.what == "cost" else number
    sign = "+" if line.difference > 0 else ""
    percent = f"{line.percent:+.2f}" if line.percent is not None and line.difference else NONE
    return (
        day or line.day,
        line.model or NONE,
        line.key or NONE,
        _WHAT.get(line.what, line.what),
        shown(line.provider),
        shown(line.ledger),
        f"{sign}{shown(line.difference)}" if line.difference else "0",
        percent,
    )
