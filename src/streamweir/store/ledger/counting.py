"""The usage of a batch of settlements, summed up as the usage tables have it.

Every settlement counts once in each of the four tables by time, and in `attribution_days` under its end user, its API,
its session and each of its tags. A request counts at the time of its reservation.
"""

from operator import add
from typing import Any

import msgspec

from streamweir.policy.end_user import digest_of_user
from streamweir.policy.latency import bucket_of
from streamweir.store.db.request_log import Row
from streamweir.store.db.tables import SUMS, TTFT
from streamweir.store.journal.entries import Settle
from streamweir.store.ledger.rows import RowBatch, Rows

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
_Sums = dict[tuple[Any, ...], list[int]]
"""By a unit of time and the further columns of a primary key."""
_NO_TTFT = [0] * len(TTFT)
_read_tags = msgspec.json.Decoder(list[str]).decode


class UsageCounts:
    def __init__(self) -> None:
        self._minutes: _Sums = {}
        self._attributed: _Sums = {}

    def add(self, entry: Settle, row: Row, at_ms: int, workspace_id: str, key_id: str) -> None:
        """`row`: of the entry, with its price. The others are of its reservation."""
        counted = [
            1,
            row.error is not None,
            row.prompt_tokens or 0,
            entry.cached_tokens,
            row.completion_tokens or 0,
            entry.reasoning_tokens,
            row.cost or 0,
            row.price is None,
            row.price or 0,
            row.cost is None,
        ]
        day = at_ms // DAY_MS
        for kind, value in _attribution_of(row):
            _add(self._attributed, (day, workspace_id, key_id, kind, value), counted)
        provider = row.target.partition("/")[0] if row.target is not None else ""
        minute = (at_ms // MINUTE_MS, workspace_id, key_id, row.model or "", provider)
        _add(self._minutes, minute, counted + _NO_TTFT)
        if row.stream and row.ttft_ms is not None:
            self._minutes[minute][len(SUMS) + bucket_of(row.ttft_ms)] += 1

    def put_into(self, rows: RowBatch) -> None:
        quarters = _aggregate(self._minutes, 15)
        hours = _aggregate(quarters, 4)
        rows.minutes, rows.quarters = _rows(self._minutes), _rows(quarters)
        rows.hours, rows.days = _rows(hours), _rows(_aggregate(hours, 24))
        rows.attributed = [
            (*group, digest_of_user(group[4]) if group[3] == "end_user" else None, *sums)
            for group, sums in self._attributed.items()
        ]


def _attribution_of(row: Row) -> list[tuple[str, str]]:
    """The kinds and values that a request counts under."""
    found = [("end_user", row.end_user or ""), ("api", row.dialect or "")]
    if row.session is not None:
        found.append(("session", row.session))
    if row.tags is not None:
        found += [("tag", tag) for tag in tags_in(row.tags)]
    return found


def tags_in(text: str) -> list[str]:
    """The tags of a row, each once. Without those of a damaged row: it must still be settled."""
    try:
        return list(dict.fromkeys(_read_tags(text)))
    except msgspec.DecodeError:
        return []


def _add(counts: _Sums, group: tuple[Any, ...], counted: list[int]) -> None:
    before = counts.get(group)
    counts[group] = list(counted) if before is None else list(map(add, before, counted))


def _aggregate(counts: _Sums, times: int) -> _Sums:
    """Sums the counts up in units that are `times` as long."""
    found: _Sums = {}
    for (at, *which), sums in counts.items():
        _add(found, (at // times, *which), sums)
    return found


def _rows(counts: _Sums) -> Rows:
    return [(*group, *sums) for group, sums in counts.items()]
