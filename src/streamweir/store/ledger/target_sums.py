"""Sums of settled requests by what a provider's bill is written by: hour, model of the provider, credential.

The other sums (`usage_days`) go by the model that callers ask for, and `requests` is deleted after some time. These are
written in the same transaction as the settlement, and kept: `streamweir reconcile` compares them with a provider's
export. A request belongs to the hour of its reservation and to the target that was tried last, as its cost does.
"""

from collections.abc import Collection

from sqlalchemy import Connection, Insert, select

from streamweir.policy.billing.reconciliation import Usage
from streamweir.store.db.sql import BatchStatement, upsert
from streamweir.store.db.tables import TARGET, TARGET_SUMS, target_hours
from streamweir.store.journal.entries import plain

HOUR_MS = 3_600_000


def _build(conn: Connection) -> Insert:
    statement = upsert(conn, target_hours)
    sums = {name: target_hours.c[name] + statement.excluded[name] for name in TARGET_SUMS}
    return statement.on_conflict_do_update(index_elements=("hour", *TARGET), set_=sums)


add_target_sums = BatchStatement(_build, ("hour", *TARGET, *TARGET_SUMS))
"""Adds to the sums of rows."""


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
