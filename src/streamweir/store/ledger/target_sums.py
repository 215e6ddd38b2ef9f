"""Sums of settled requests by what a provider's bill is written by: hour, model of the provider, credential.

The other sums (`usage_days`) go by the model that callers ask for, and `requests` is deleted after some time. These are
written in the same transaction as the settlement, and kept: `streamweir reconcile` compares them with a provider's
export. A request belongs to the hour of its reservation and to the target that was tried last, as its cost does.
"""

from collections.abc import Collection

from sqlalchemy import Connection, Insert, select

from streamweir.policy.reconciliation import Usage
from streamweir.store.db.request_log import Row
from streamweir.store.db.sql import BatchStatement, upsert
from streamweir.store.db.tables import TARGET, TARGET_SUMS, target_hours
from streamweir.store.journal.entries import Settle, plain

HOUR_MS = 3_600_000


def _build(conn: Connection) -> Insert:
    statement = upsert(conn, target_hours)
    sums = {name: target_hours.c[name] + statement.excluded[name] for name in TARGET_SUMS}
    return statement.on_conflict_do_update(index_elements=("hour", *TARGET), set_=sums)


_hours = BatchStatement(_build, ("hour", *TARGET, *TARGET_SUMS))


class TargetSums:
    """Those of one batch."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str, str, str], list[int]] = {}

    def add(self, entry: Settle, row: Row, at_ms: int) -> None:
        """`at_ms`: of the reservation. A request without usage is not counted: providers do not, either."""
        if row.target is None or (row.prompt_tokens is None and not row.cost):
            return
        provider, _, model = row.target.partition("/")
        key = (at_ms // HOUR_MS, provider, model, entry.credential)
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
        _hours.run(conn, sorted((*key, *sums) for key, sums in self._sums.items()))


def list_providers(conn: Connection) -> list[str]:
    """All that were ever asked, as the operator names them."""
    return sorted(conn.scalars(select(target_hours.c.provider).distinct()))


def read_usage_of(conn: Connection, providers: Collection[str], since_ms: int, until_ms: int) -> list[Usage]:
    """Of the hours that begin in the period."""
    columns = target_hours.c
    statement = select(
        columns.hour,
        columns.model,
        columns.credential,
        columns.requests,
        columns.prompt_tokens,
        columns.cached_tokens,
        columns.completion_tokens,
        columns.cost,
        columns.uncosted,
    ).where(
        columns.hour >= -(-since_ms // HOUR_MS),
        columns.hour < -(-until_ms // HOUR_MS),
        columns.provider.in_([plain(name) for name in providers]),
    )
    return [
        Usage(
            at_ms=hour * HOUR_MS,
            model=model,
            credential=credential,
            requests=requests,
            input_tokens=prompt,
            cached_tokens=cached,
            output_tokens=completion,
            cost=cost,
            uncosted=uncosted,
        )
        for hour, model, credential, requests, prompt, cached, completion, cost, uncosted in conn.execute(statement)
    ]
