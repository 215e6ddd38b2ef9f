"""The output of commands: tables, single values, JSON.

On a terminal a table is drawn; in a pipe it is aligned plain text, one line per row. Every text is passed through
`for_terminal`, because names and notes are untrusted, and markup is never interpreted. Amounts are in dollars with
all non-zero decimals; JSON has the integers in nano-dollars. This module knows neither the database nor commands.
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from streamweir.policy.limits.budget import NANO

NONE = "-"
"""Shown for a missing value."""

_GAP = "  "
_MIN_DECIMALS = 2
_WHOLE = ("id", "object", "secret", "state", "at", "expires", "created")
"""Columns that are not wrapped, so that their values can be copied."""


def for_terminal(text: str, kept: str = "") -> str:
    """Replaces characters that a terminal would interpret or not show: control characters, direction marks, zero width.
    For untrusted text on a terminal; text for the log is sanitized by `server.telemetry.sanitize`.

    `kept`: characters that are not printable and are not replaced.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else "\ufffd" for each in text)


def dollars(nano: int | None, decimals: int = _MIN_DECIMALS) -> str:
    """The exact amount, with at least so many decimals."""
    if nano is None:
        return NONE
    whole, rest = divmod(abs(nano), NANO)
    return f"{'-' if nano < 0 else ''}${whole:,}.{f'{rest:09d}'.rstrip('0').ljust(decimals, '0')}"


def moment(at_ms: int | None) -> str:
    """In the local time zone."""
    if at_ms is None:
        return NONE
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def day(at_ms: int | None) -> str:
    return moment(at_ms).partition(" ")[0]


def number(value: int | None) -> str:
    return NONE if value is None else f"{value:,}"


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), none: str) -> None:
    """`right`: right-aligned columns. `none`: the text if there are no rows."""
    if not rows:
        click.echo(none, err=True)
        return
    cleaned = [[for_terminal(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _draw(columns, cleaned, right)
        return
    for line in aligned(columns, cleaned, right):
        click.echo(line)


def show_facts(facts: Sequence[tuple[str, str]], *, err: bool = False) -> None:
    """The details of one object: a name and a value per line."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        click.echo(f"{name:<{width}}{_GAP}{for_terminal(value)}".rstrip(), err=err)


def show_json(value: Any) -> None:
    """One JSON document, in ASCII."""
    click.echo(json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=True))


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> list[str]:
    """The lines of a table as plain text."""
    heads = [name.upper() for name in columns]
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    lines = []
    for row in (heads, *rows):
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _draw(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]) -> None:
    """Columns without any value are left out, because a terminal is narrow."""
    from rich.console import Console, JustifyMethod
    from rich.table import Table
    from rich.text import Text

    shown = [at for at in range(len(columns)) if any(row[at] != NONE for row in rows)]
    table = Table(box=None, header_style="bold", padding=(0, len(_GAP), 0, 0), pad_edge=False)
    for name in (columns[at] for at in shown):
        is_right = name in right
        is_whole = is_right or name in _WHOLE
        side: JustifyMethod = "right" if is_right else "left"
        table.add_column(name.upper(), justify=side, overflow="fold", no_wrap=is_whole, min_width=len(name))
    for row in rows:
        table.add_row(*(Text(row[at]) for at in shown))
    Console(highlight=False).print(table)


def duration(length_ms: int | None) -> str:
    if length_ms is None:
        return NONE
    return f"{length_ms}ms" if length_ms < 1000 else f"{length_ms / 1000:.{2 if length_ms < 100_000 else 0}f}s"
