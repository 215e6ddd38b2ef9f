"""The usage of a batch of settlements, summed up as the usage tables have it.

Every settlement counts once in each of the four tables by time, in `target_hours` under its target, and in
`attribution_days` under its end user, its API, its session and each of its tags. A request counts at the time of its
reservation.
"""

from operator import add
from typing import Any

import msgspec

from streamweir.policy.end_user import digest_of_user
from streamweir.policy.routing.latency import bucket_of
from streamweir.store.db.request_log import Row
from streamweir.store.db.tables import SUMS, TARGET_SUMS, TTFT
from streamweir.store.journal.entries import Settle
from streamweir.store.ledger.rows import RowBatch, Rows

MINUTE_MS = 60_000
HOUR_MINUTES = 60
DAY_MINUTES = 24 * HOUR_MINUTES
_Sums = dict[tuple[Any, ...], list[int]]
"""By a unit of time and the further columns of a primary key."""
_NO_TTFT = [0] * len(TTFT)
_OF_TARGETS = [SUMS.index(name) for name in TARGET_SUMS]
_read_tags = msgspec.json.Decoder(list[str]).decode


class UsageCounts:
    """Sums of equal requests, which are most of a batch, are added up once for all tables."""

    def __init__(self) -> None:
        self._counted: dict[tuple[Any, ...], list[list[int]]] = {}
        self._first_tokens: dict[tuple[tuple[Any, ...], int], int] = {}

    def add(self, entry: Settle, row: Row, at_ms: int, workspace_id: str, key_id: str) -> None:
        """`row`: of the entry, with its price. The others are of its reservation."""
        target, end_user, api = row.target or "", row.end_user or "", row.dialect or ""
        # A request without usage is not in the sums of its target: providers do not count it, either.
        credential = entry.credential if target and (row.prompt_tokens is not None or row.cost) else None
        minute = (at_ms // MINUTE_MS, workspace_id, key_id, row.model or "", target)
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
            row.price - row.cost if row.price is not None and row.cost is not None else 0,
        ]
        group = (minute, credential, end_user, api, row.session, row.tags)
        known = self._counted.get(group)
        if known is None:
            self._counted[group] = [counted]
        else:
            known.append(counted)
        if row.stream and row.ttft_ms is not None:
            first = (minute, bucket_of(row.ttft_ms))
            self._first_tokens[first] = self._first_tokens.get(first, 0) + 1

    def put_into(self, rows: RowBatch) -> None:
        minutes: _Sums = {}
        attributed: _Sums = {}
        targets: _Sums = {}
        for (minute, credential, end_user, api, session, tags), counted in self._counted.items():
            sums = list(map(sum, zip(*counted, strict=True)))
            at, workspace_id, key_id, _, target = minute
            _add(minutes, _by_provider(minute), sums + _NO_TTFT)
            for kind, value in _attribution_of(end_user, api, session, tags):
                _add(attributed, (at // DAY_MINUTES, workspace_id, key_id, kind, value), sums)
            if credential is not None:
                provider, _, model = target.partition("/")
                _add(targets, (at // HOUR_MINUTES, provider, model, credential), [sums[index] for index in _OF_TARGETS])
        for (minute, bucket), count in self._first_tokens.items():
            minutes[_by_provider(minute)][len(SUMS) + bucket] += count
        quarters = _aggregate(minutes, 15)
        hours = _aggregate(quarters, 4)
        rows.minutes, rows.quarters = _rows(minutes), _rows(quarters)
        rows.hours, rows.days = _rows(hours), _rows(_aggregate(hours, 24))
        rows.targets = _rows(targets)
        rows.attributed = [
            (*group, digest_of_user(group[4]) if group[3] == "end_user" else None, *sums)
            for group, sums in attributed.items()
        ]


def _by_provider(minute: tuple[int, str, str, str, str]) -> tuple[Any, ...]:
    *group, target = minute
    return (*group, target.partition("/")[0])


def _attribution_of(end_user: str, api: str, session: str | None, tags: str | None) -> list[tuple[str, str]]:
    """The kinds and values that a request counts under."""
    found = [("end_user", end_user), ("api", api)]
    if session is not None:
        found.append(("session", session))
    if tags is not None:
        found += [("tag", tag) for tag in tags_in(tags)]
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
