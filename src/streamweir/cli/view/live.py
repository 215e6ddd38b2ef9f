"""Running requests as lines of a table, for `streamweir top`. Pure: the time is an argument."""

from collections.abc import Callable, Sequence

from streamweir.cli.view.table import NONE, duration, number
from streamweir.server.control.api.view import LiveView

COLUMNS = ("id", "age", "state", "model", "target", "key", "ttft", "in", "out", "tok/s", "price", "node")
RIGHT = ("age", "ttft", "in", "out", "tok/s", "price")
SHRINKING = {"model": 12, "target": 12, "key": 6}
"""Where there is little room these are cut, to so many characters at least."""
_LEFT_OUT = ("node", "target", "id", "in", "price", "ttft", "tok/s", "key")
"""Where there is less, these are left out, in this order."""
GAP = 1
"""Between two columns."""
_SILENT_MS = 10_000
"""A stream without a piece for so long is shown as silent."""
_MIN_RATE_MS = 500

_SORTS: dict[str, Callable[[LiveView], tuple[object, ...]]] = {
    "age": lambda row: (row.at_ms, row.request_id),
    "tokens": lambda row: (-row.output_tokens, row.request_id),
    "model": lambda row: (row.model, row.at_ms, row.request_id),
    "key": lambda row: (row.key_name, row.at_ms, row.request_id),
}
SORTS = tuple(_SORTS)
"""The oldest first, the largest answers first, or by name."""


def in_order(rows: Sequence[LiveView], sort: str) -> list[LiveView]:
    return sorted(rows, key=_SORTS[sort])


def cells(row: LiveView, now_ms: int) -> tuple[str, ...]:
    """In the order of `COLUMNS`."""
    return (
        row.request_id,
        _age(now_ms - row.at_ms),
        state(row, now_ms),
        row.model,
        row.target or NONE,
        row.key_name,
        duration(row.first_ms - row.at_ms) if row.first_ms is not None else NONE,
        number(row.prompt_tokens),
        number(row.output_tokens),
        _rate(row),
        f"${row.price_usd}" if row.price_usd is not None else NONE,
        row.node or NONE,
    )


def columns_that_fit(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Which of `COLUMNS` a table of these cells can show in so many characters, so that no number is cut."""
    needed = []
    for at, name in enumerate(COLUMNS):
        longest = max(len(name), *(len(row[at]) for row in rows)) if rows else len(name)
        needed.append(min(longest, SHRINKING.get(name, longest)))
    shown = list(range(len(COLUMNS)))
    for name in _LEFT_OUT:
        if sum(needed[at] + GAP for at in shown) - GAP <= width:
            break
        shown.remove(COLUMNS.index(name))
    return shown


def state(row: LiveView, now_ms: int) -> str:
    if row.is_being_stopped:
        return "stopping"
    if row.first_ms is None:
        return "waiting"
    if row.away_since_ms is not None:
        return f"away {_age(now_ms - row.away_since_ms)}"
    if row.last_ms is not None and now_ms - row.last_ms >= _SILENT_MS:
        return f"silent {_age(now_ms - row.last_ms)}"
    return "streaming"


def _rate(row: LiveView) -> str:
    """Tokens a second since the first one."""
    if row.first_ms is None or row.last_ms is None or row.last_ms - row.first_ms < _MIN_RATE_MS:
        return NONE
    return f"{row.output_tokens * 1000 / (row.last_ms - row.first_ms):.0f}"


def _age(length_ms: int) -> str:
    seconds = max(0, length_ms) // 1000
    if seconds < 60:
        return f"{seconds}s"
    return f"{seconds // 60}m{seconds % 60:02}s" if seconds < 3600 else f"{seconds // 3600}h{seconds % 3600 // 60:02}m"
