"""Sums of settled requests by what a provider's bill is written by: day, model of the provider, credential.

The other sums (`usage_days`) go by the model that callers ask for, and `requests` is deleted after some time. These are
written in the same transaction as the settlement, and kept: `streamweir reconcile` compares them with a provider's
export. A request belongs to the day of its reservation and to the target that was tried last, as its cost does.
"""

from sqlalchemy import Connection, Insert

from streamweir.store.db.request_log import Row
from streamweir.store.db.sql import BatchStatement, upsert
from streamweir.store.db.tables import TARGET, TARGET_SUMS, target_days
from streamweir.store.journal.entries import Settle

DAY_MS = 86_400_000


def _build(conn: Connection) -> Insert:
    statement = upsert(conn, target_days)
    sums = {name: target_days.c[name] + statement.excluded[name] for name in TARGET_SUMS}
    return statement.on_conflict_do_update(index_elements=("day", *TARGET), set_=sums)


_days = BatchStatement(_build, ("day", *TARGET, *TARGET_SUMS))


class TargetSums:
    """Those of one batch."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str, str, str], list[int]] = {}

    def add(self, entry: Settle, row: Row, at_ms: int) -> None:
        """`at_ms`: of the reservation. A request without usage is not counted: providers do not, either."""
        if row.target is None or (row.prompt_tokens is None and not row.cost):
            return
        provider, _, model = row.target.partition("/")
        key = (at_ms // DAY_MS, provider, model, entry.credential)
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = [0] * len(TARGET_SUMS)
        sums[0] += 1
        sums[1] += row.prompt_tokens or 0
        sums[2] += entry.cached_tokens
        sums[3] += row.completion_tokens or 0
        sums[4] += row.cost or 0
        sums[5] += row.cost is None

    def write(self, conn: Connection) -> None:
        _days.run(conn, sorted((*key, *sums) for key, sums in self._sums.items()))
