"""A statement as text, CSV, JSON or a page that prints well.

All amounts of a statement have the same number of decimals: as many as make every one of them exact. Names of keys,
models and notes are untrusted: they are escaped, and characters that are not shown are replaced. In CSV, a text that a
spreadsheet would take for a formula gets an apostrophe, as in the export of requests.
"""

import csv
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from io import StringIO
from typing import Any

from msgspec import structs

from streamweir.cli.view.table import aligned, for_terminal, number
from streamweir.policy.billing.statement import (
    Charges,
    Statement,
    decimals_of,
    money,
    rounded_to_cents,
    span_of_month,
    sum_by,
)
from streamweir.policy.limits.budget import dollars_of

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_COUNTS = ("requests", "input", "cached", "output")
_NUMBERS = (*_COUNTS, "usd")
_Table = tuple[str, Sequence[str], list[Sequence[str]]]
"""A heading, the names of the columns, and rows; the last row is the sum."""

_STYLE = """
@page { size: A4; margin: 18mm 16mm 20mm; @bottom-right { content: counter(page) " / " counter(pages); } }
* { box-sizing: border-box; }
body { margin: 2rem auto; max-width: 46rem; padding: 0 1rem; color: #111; background: #fff;
  font: 10.5pt/1.4 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
h1 { margin: 0 0 .2rem; font-size: 17pt; }
h2 { margin: 1.6rem 0 .3rem; font-size: 11.5pt; break-after: avoid; }
p { margin: .3rem 0; }
.about { color: #444; }
.due { margin: 1.2rem 0; padding: .6rem .8rem; border: 1px solid #111; display: flex; justify-content: space-between;
  font-size: 12pt; font-weight: 600; break-inside: avoid; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
th, td { padding: .22rem .5rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
th { border-bottom: 1.5px solid #111; font-weight: 600; }
td { border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
th.n, td.n { text-align: right; white-space: nowrap; overflow-wrap: normal; }
tr.sum td { border-top: 1.5px solid #111; border-bottom: 0; font-weight: 600; break-before: avoid; }
.notes { margin-top: 1.6rem; color: #444; font-size: 9.5pt; }
@media print { body { margin: 0; max-width: none; padding: 0; font-size: 9.5pt; } }
"""


def as_text(statement: Statement) -> str:
    lines = [f"Statement of {for_terminal(statement.workspace)}, {statement.month}", *_about(statement), ""]
    for heading, columns, rows in _tables(statement):
        lines += [heading, "", *aligned(columns, rows, _NUMBERS), ""]
    lines += [f"{name}: {amount}" for name, amount in _due(statement)]
    return "\n".join([*lines, *(("", *notes) if (notes := _notes(statement)) else ()), ""])


def as_csv(statement: Statement) -> str:
    """One row for each day, key and model. The amounts have all nine decimals."""
    text = StringIO()
    writer = csv.writer(text)
    tokens = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens", "unpriced")
    writer.writerow(("workspace", "month", "day", "key", "key_id", "model", *tokens, "price_usd"))
    for line in statement.lines:
        names = (statement.workspace, statement.month, line.date, line.key, line.key_id, line.model)
        counts = (getattr(line.charges, name) for name in tokens)
        writer.writerow((*map(_cell, names), *counts, f"{dollars_of(line.charges.price):f}"))
    return text.getvalue()


def as_json(statement: Statement) -> dict[str, Any]:
    """For `show_json`: amounts are in nano-dollars."""
    return {
        **{name: getattr(statement, name) for name in ("workspace", "workspace_id", "month", "is_over")},
        "open_requests": statement.open_requests,
        "total": statement.total,
        "balance_before": statement.balance_before,
        "credited": statement.credited,
        "balance": statement.balance,
        "lines": [
            {"day": line.date, "key": line.key, "key_id": line.key_id, "model": line.model}
            | structs.asdict(line.charges)
            for line in statement.lines
        ],
        "credits": statement.credits,
    }


def as_html(statement: Statement) -> str:
    """One file without anything from elsewhere; nothing in it is executed."""
    title = f"Statement of {for_terminal(statement.workspace)}, {statement.month}"
    parts = [f"<h1>{escape(title)}</h1>", *(f'<p class="about">{escape(line)}</p>' for line in _about(statement))]
    parts += [
        f'<p class="due"><span>{escape(name)}</span><span>{escape(amount)}</span></p>'
        for name, amount in _due(statement)[-1:]
    ]
    for heading, columns, rows in _tables(statement):
        parts.append(f"<h2>{escape(heading)}</h2>{_html_table(columns, rows)}")
    notes = "".join(f"<p>{escape(note)}</p>" for note in _notes(statement))
    if notes:
        parts.append(f'<div class="notes">{notes}</div>')
    body = "\n".join(parts)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _about(statement: Statement) -> list[str]:
    since_ms, until_ms = span_of_month(statement.month)
    first, last = (_date(at_ms) for at_ms in (since_ms, until_ms - 1))
    return [f"Workspace {statement.workspace_id}, {first} to {last} (UTC), amounts in US dollars"]


def _tables(statement: Statement) -> list[_Table]:
    total, shown = statement.total, _money_of(statement)
    by_key = [
        (for_terminal(key), for_terminal(model) or "-", *_counts(charges, shown))
        for (key, _, model), charges in sum_by(statement.lines, "key", "key_id", "model")
    ]
    by_day = [(day, *_counts(charges, shown)) for (day,), charges in sum_by(statement.lines, "date")]
    tables: list[_Table] = [
        ("By key and model", ("key", "model", *_NUMBERS), [*by_key, ("Total", "", *_counts(total, shown))]),
        ("By day", ("day", *_NUMBERS), [*by_day, ("Total", *_counts(total, shown))]),
    ]
    if statement.has_account:
        credits = [
            (credit.date, for_terminal(credit.note) or "Credit", shown(credit.amount)) for credit in statement.credits
        ]
        before = ("", "Balance before", shown(statement.balance_before))
        charges = ("", f"Charges of {statement.month}", shown(-total.price))
        rows: list[Sequence[str]] = [before, *credits, charges, ("", "Balance", shown(statement.balance))]
        tables.append(("Credit", ("day", "what", "usd"), rows))
    return tables


def _counts(charges: Charges, shown: Callable[[int], str]) -> tuple[str, ...]:
    tokens = (charges.requests, charges.prompt_tokens, charges.cached_tokens, charges.completion_tokens)
    return (*map(number, tokens), shown(charges.price))


def _money_of(statement: Statement) -> Callable[[int], str]:
    amounts = [line.charges.price for line in statement.lines]
    if statement.has_account:
        amounts += [statement.balance_before, *(credit.amount for credit in statement.credits)]
    decimals = decimals_of(amounts)
    return lambda nano: money(nano, decimals)


def _due(statement: Statement) -> list[tuple[str, str]]:
    """The exact total, and the same in cents if that is another amount."""
    price = statement.total.price
    rounded = rounded_to_cents(price)
    exact = [("Total", f"${_money_of(statement)(price)}")]
    return exact if rounded == price else [*exact, ("Total, rounded", f"${money(rounded, 2)}")]


def _notes(statement: Statement) -> list[str]:
    total, notes = statement.total, []
    if statement.lines:
        notes.append("Input includes cached input. A request belongs to the month in which it arrived.")
    if total.unpriced:
        notes.append(f"Requests without a price, which are not charged: {number(total.unpriced)}.")
    if statement.open_requests:
        notes.append(
            f"Requests that are not finished, and not on this statement yet: {number(statement.open_requests)}."
        )
    if not statement.is_over:
        notes.append("The month is not over: this statement is not final.")
    return notes


def _html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    names = {"usd": "USD"}
    kinds = [' class="n"' if name in _NUMBERS else "" for name in columns]
    head = "".join(
        f"<th{kind}>{names.get(name, name.capitalize())}</th>" for name, kind in zip(columns, kinds, strict=True)
    )
    body = []
    for at, row in enumerate(rows):
        cells = "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        kind = ' class="sum"' if at == len(rows) - 1 else ""
        body.append(f"<tr{kind}>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _date(at_ms: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)).date().isoformat()
