"""Formats a request of the log: one line of a list, or all its details.

Callers and upstreams determine much of a row: it is sanitized by `server.telemetry.sanitize`, which removes control
characters and masks what looks like a key. This module does not read rows.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from streamweir.cli.view.attempt import attempt_facts
from streamweir.cli.view.table import NONE, dollars, duration, for_terminal, number
from streamweir.core.text import cut
from streamweir.server.telemetry.sanitize import clean, clean_id

if TYPE_CHECKING:
    from streamweir.store.requests.content import Content
    from streamweir.store.requests.requests import RequestRow

COLUMNS = ("at", "status", "outcome", "model", "key", "ttft", "time", "in", "out", "price", "cost", "id")
_RIGHT = ("ttft", "time", "in", "out", "price", "cost")
WIDTHS = (14, 6, 14, 24, 12, 6, 6, 6, 6, 10, 10, 0)
"""Column widths if lines are written one at a time."""
HEAD = tuple(name.upper() for name in COLUMNS)
_MAX_NAME_LENGTH = 40
_MAX_TEXT_LENGTH = 10_000


def cells_of(row: "RequestRow") -> tuple[str, ...]:
    about = "" if row.usage_source in ("provider", None) else "~"
    return (
        brief(row.at_ms),
        str(row.status),
        row.error or row.verdict or NONE,
        clean(row.model, _MAX_NAME_LENGTH) if row.model is not None else NONE,
        clean(row.key_name, _MAX_NAME_LENGTH) if row.key_name is not None else NONE,
        duration(row.ttft_ms),
        duration(row.duration_ms),
        NONE if row.prompt_tokens is None else about + number(row.prompt_tokens),
        NONE if row.completion_tokens is None else about + number(row.completion_tokens),
        dollars(row.price),
        dollars(row.cost),
        clean_id(row.request_id),
    )


def widths_of(rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    return tuple(max(len(cell) for cell in column) for column in zip(*rows, strict=True))


def line_of(cells: Sequence[str], widths: Sequence[int] = WIDTHS) -> str:
    """Not wrapped to the width of the terminal, so that ids can be copied."""
    padded = (
        cell.rjust(width) if name in _RIGHT else cell.ljust(width)
        for name, cell, width in zip(COLUMNS, cells, widths, strict=True)
    )
    return for_terminal("  ".join(padded).rstrip())


def facts_of(row: "RequestRow") -> list[tuple[str, str]]:
    """Without values that are not known."""
    facts = [
        ("id", clean_id(row.request_id)),
        ("completion id", _id(row.completion_id)),
        ("at", second(row.at_ms)),
        ("status", str(row.status)),
        ("verdict", row.verdict or None),
        ("error", _text(row.error)),
        ("finish", _text(row.finish)),
        ("workspace", _id(row.workspace_id)),
        ("key", _named(row.key_name, row.key_id)),
        ("end user", _text(row.end_user)),
        ("session", _text(row.session)),
        ("tags", _texts(row.tags)),
        ("dialect", _text(row.dialect)),
        ("model", _text(row.model)),
        ("target", _text(row.target)),
        *(fact for each in row.attempts for fact in attempt_facts(each)),
        ("streamed", "yes" if row.stream else "no"),
        ("usage", _usage(row)),
        ("price", _price(row)),
        ("charged by rule", _text(row.charge_rule)),
        ("cost", dollars(row.cost) if row.cost is not None else None),
        ("margin", _margin(row)),
        ("held", dollars(row.held) if row.held is not None else None),
        ("flags", _texts(row.flags)),
        ("first token", duration(row.ttft_ms) if row.ttft_ms is not None else None),
        ("duration", duration(row.duration_ms)),
        ("chunks", _chunks(row)),
        ("bytes", _bytes(row)),
        ("caller", _text(row.peer)),
        ("client", _text(row.client)),
        ("client's id", _id(row.client_id)),
        ("end user", _id(row.end_user)),
        ("session", _id(row.session)),
        ("tags", ", ".join(clean_id(str(tag)) for tag in row.tags) or None),
        ("dropped", _texts(row.dropped)),
        ("node", _text(row.node)),
        ("process", _id(row.instance)),
        ("content", "kept: --content shows it" if row.has_content else "not kept"),
    ]
    return [(name, value) for name, value in facts if value is not None]


def content_lines(content: "Content") -> list[str]:
    """The stored content as lines; control characters are replaced."""
    lines = ["", "PROMPT", *_lines(content.prompt), "", "ANSWER", *_lines(content.answer)]
    for name, frames in (("FROM UPSTREAM", content.upstream_frames), ("TO CALLER", content.caller_frames)):
        lines += ["", name, *(f"{at_ms:>8} ms  {_line(text)}" for at_ms, text in frames)]
    return [*lines, "", "It was longer: the rest was not kept."] if content.is_cut else lines


def second(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def brief(at_ms: int) -> str:
    """Without the year, for lists."""
    return second(at_ms)[5:]


def _usage(row: "RequestRow") -> str | None:
    if row.prompt_tokens is None and row.completion_tokens is None:
        return None
    buckets = ", ".join(f"{clean(str(name))} {clean(str(count))}" for name, count in (row.usage or {}).items())
    counts = f"{number(row.prompt_tokens)} in, {number(row.completion_tokens)} out"
    return f"{counts} (by {row.usage_source or 'nobody'}{': ' + buckets if buckets else ''})"


def _price(row: "RequestRow") -> str:
    if row.price is None:
        return "unpriced" if row.prompt_tokens is not None else "nothing was booked"
    return dollars(row.price) + (f" (prices {clean(row.price_version)})" if row.price_version is not None else "")


def _margin(row: "RequestRow") -> str | None:
    return dollars(row.price - row.cost) if row.price is not None and row.cost is not None else None


def _chunks(row: "RequestRow") -> str | None:
    if row.chunks is None:
        return None
    gaps = ((name, duration(value)) for name, value in (("p50", row.gap_p50_ms), ("p99", row.gap_p99_ms)))
    between = ", ".join(f"{name} {value}" for name, value in (*gaps, ("max", duration(row.gap_max_ms))))
    return f"{number(row.chunks)} (between them: {between})"


def _bytes(row: "RequestRow") -> str | None:
    if row.bytes_in is None and row.bytes_out is None:
        return None
    return f"{number(row.bytes_in)} in, {number(row.bytes_out)} out"


def _named(name: str | None, id: str | None) -> str | None:
    if id is None:
        return _text(name)
    return clean_id(id) if name is None else f"{clean(name)} ({clean_id(id)})"


def _id(id: str | None) -> str | None:
    return clean_id(id) if id else None


def _text(text: str | None) -> str | None:
    return clean(text) if text is not None else None


def _texts(texts: Sequence[Any]) -> str | None:
    return ", ".join(clean(str(text)) for text in texts) or None


def _lines(text: str) -> list[str]:
    return ["  " + _line(line) for line in cut(text, _MAX_TEXT_LENGTH).split("\n")]


def _line(text: str) -> str:
    return for_terminal(text.rstrip("\r\n"))
