"""Sums by hour, model of the provider and credential: what a provider's bill is compared with."""

from functools import partial
from pathlib import Path
from typing import Any

from streamweir.policy.billing.reconciliation import Usage
from streamweir.store.ledger.posting import apply
from streamweir.store.ledger.target_sums import HOUR_MS, list_providers, read_usage_of
from support.entries import NOW_MS, books_on, hold, settle
from support.stores import each_database

NEXT_MS = NOW_MS + HOUR_MS


def usage(at_ms: int, model: str, credential: str, requests: int, cost: int, uncosted: int = 0, **more: int) -> Usage:
    tokens = {"input_tokens": 0, "cached_tokens": 0, "output_tokens": 0, **more}
    own: dict[str, Any] = {"requests": requests, "cost": cost, "uncosted": uncosted, **tokens}
    return Usage(at_ms=at_ms, model=model, credential=credential, **own)


@each_database
async def test_requests_are_summed_by_what_a_bill_is_written_by(database: str, tmp_path: Path) -> None:
    used = {"prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 3}
    entries: list[Any] = [
        *(hold("r1"), settle("r1", 5, target="up/gpt", credential="main", price=9, **used)),
        *(hold("r2"), settle("r2", 6, target="up/gpt", credential="main", price=9, **used)),
        *(hold("r3"), settle("r3", None, target="up/gpt", credential="spare", price=9, prompt_tokens=2)),
        *(hold("r4", at_ms=NEXT_MS - 1), settle("r4", 7, target="up/a/b", at_ms=NEXT_MS - 1, duration_ms=5000)),
        *(hold("r5", at_ms=NEXT_MS), settle("r5", 8, target="up/gpt", credential="main", at_ms=NEXT_MS)),
        *(hold("r6"), settle("r6", 1, target="other/gpt")),
        *(hold("r7"), settle("r7", 0, target=None)),
    ]
    async with books_on(database, tmp_path) as store:
        for check_existing in (False, True):  # what was applied already counts once
            await store.write(partial(apply, entries=entries, check_existing=check_existing))
        assert await store.read(list_providers) == ["other", "up"]
        found = await store.read(lambda conn: read_usage_of(conn, ["up"], NOW_MS, NEXT_MS))
        assert sorted(found, key=lambda each: (each.model, each.credential)) == [
            usage(NOW_MS, "a/b", "", 1, 7),
            usage(NOW_MS, "gpt", "main", 2, 11, input_tokens=20, cached_tokens=6, output_tokens=8),
            usage(NOW_MS, "gpt", "spare", 1, 0, uncosted=1, input_tokens=2),
        ]
        later = await store.read(lambda conn: read_usage_of(conn, ["up", "other"], NEXT_MS, NEXT_MS + HOUR_MS))
        assert later == [usage(NEXT_MS, "gpt", "main", 1, 8)]
