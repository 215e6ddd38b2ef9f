"""The requests that end from now on, in the order in which their rows appear, each of them once.

Rows are numbered when they are inserted, and no number is used again. SQLite shows them in that order. PostgreSQL shows
a row when its transaction is committed, so a smaller number may appear after a larger one. Numbers that are missing
below the largest one are therefore queried again for a limited time: an unused number stays missing. Time is an
argument, and the position of a reader is a value, because a read may be repeated.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec import Struct
from sqlalchemy import Connection, func, select

from streamweir.store.db.tables import requests
from streamweir.store.requests.requests import RequestFilter, RequestRow, conditions, read_rows

MISSING_TIMEOUT_MS = 15_000
"""How long a missing number is queried: longer than a transaction may take."""
MAX_NEW = 500
"""Rows in one read."""
_MAX_MISSING = 5000


class FollowPosition(Struct, frozen=True):
    """The position of a reader."""

    top: int
    """The largest number seen."""
    missing: Mapping[int, int]
    """Missing numbers below it, and since when."""

    def is_past(self, seq: int) -> bool:
        """The row of this number will not be returned as a new one."""
        return seq <= self.top and seq not in self.missing


class NewRequests(Struct, frozen=True):
    rows: list[RequestRow]
    mark: FollowPosition
    is_all: bool
    """False: there are more."""


def mark_now(conn: Connection, now_ms: int) -> FollowPosition:
    """The position behind every visible row."""
    top: int = conn.execute(select(func.max(requests.c.seq))).scalar_one() or 0
    first = max(0, top - MAX_NEW)
    return FollowPosition(top, _missing(first, _after(conn, first), now_ms))


def newer_than(conn: Connection, mark: FollowPosition, wanted: RequestFilter, now_ms: int) -> NewRequests:
    late = _present(conn, list(mark.missing))
    new = _after(conn, mark.top)
    still_missing = {
        seq: since_ms
        for seq, since_ms in mark.missing.items()
        if seq not in late and now_ms - since_ms <= MISSING_TIMEOUT_MS
    }
    missing = still_missing | _missing(mark.top, new, now_ms)
    if len(missing) > _MAX_MISSING:
        missing = dict(islice(missing.items(), len(missing) - _MAX_MISSING, None))
    next_mark = FollowPosition(new[-1] if new else mark.top, missing)
    return NewRequests(_fetch(conn, [*sorted(late), *new], wanted), next_mark, len(new) < MAX_NEW)


def _missing(after: int, numbers: Sequence[int], now_ms: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for seq in numbers:
        found |= dict.fromkeys(range(max(after + 1, seq - _MAX_MISSING), seq), now_ms)
        after = seq
    return found


def _after(conn: Connection, seq: int) -> list[int]:
    statement = select(requests.c.seq).where(requests.c.seq > seq).order_by(requests.c.seq).limit(MAX_NEW)
    return list(conn.execute(statement).scalars())


def _present(conn: Connection, numbers: Sequence[int]) -> set[int]:
    found: set[int] = set()
    for first in range(0, len(numbers), MAX_NEW):
        chosen = requests.c.seq.in_(numbers[first : first + MAX_NEW])
        found.update(conn.execute(select(requests.c.seq).where(chosen)).scalars())
    return found


def _fetch(conn: Connection, numbers: Sequence[int], wanted: RequestFilter) -> list[RequestRow]:
    found: list[RequestRow] = []
    for first in range(0, len(numbers), MAX_NEW):
        chosen = requests.c.seq.in_(numbers[first : first + MAX_NEW])
        found += read_rows(conn, select(requests).where(chosen, *conditions(wanted)).order_by(requests.c.seq))
    return found
