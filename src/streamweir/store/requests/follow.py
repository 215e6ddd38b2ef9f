"""The requests that end from now on, in the order in which their rows come, each of them once.

Rows are numbered as they are inserted, and no number is used again. SQLite shows them in that order;
PostgreSQL shows a row when its transaction is committed, so a smaller number may come after a larger
one. What is missing below the largest number seen is therefore asked for again until its time is
over: a number that was taken and never used stays missing. Time is handed in, and where a reader
stands is a value, for a reading may be repeated.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec import Struct
from sqlalchemy import Connection, func, select

from streamweir.store.db.tables import requests
from streamweir.store.requests.requests import RequestFilter, RequestRow, conditions, read_rows

MISSING_TIMEOUT_MS = 15_000
"""For a missing number: longer than a transaction may take."""
MAX_NEW = 500
"""Rows in one reading."""
_MAX_MISSING = 5000


class FollowPosition(Struct, frozen=True):
    """Where a reader stands."""

    top: int
    """The largest number seen."""
    missing: Mapping[int, int]
    """Numbers below it that have not been seen, and since when."""

    def is_past(self, seq: int) -> bool:
        """Its row does not come as a new one any more."""
        return seq <= self.top and seq not in self.missing


class NewRequests(Struct, frozen=True):
    rows: list[RequestRow]
    mark: FollowPosition
    is_all: bool
    """False: more wait already."""


def mark_now(conn: Connection, now_ms: int) -> FollowPosition:
    """Behind every row that is seen now."""
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
