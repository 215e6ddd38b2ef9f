"""How the database finds the rows of a page: by the index that is meant, in its order, and by nothing else.

SQLite says it outright. PostgreSQL chooses by what it knows of the rows, so of it is asked only that
it can: with its other ways forbidden it takes the same index and does not sort.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from streamweir.store.db.tables import requests
from streamweir.store.requests import requests as log
from streamweir.store.requests.refused import count_refused, has_refused, sum_refused
from streamweir.store.requests.requests import RequestFilter, find_request, list_requests
from streamweir.store.requests.usage import UsageFilter
from support.query_plan import explained
from support.request_rows import NOW_MS, insert_rows, request_row
from support.stores import store_on

ID = request_row(3).request_id
OTHERS: dict[str, dict[str, Any]] = {
    "none": {},
    "model": {"model": "claude"},
    "provider": {"provider": "openai"},
    "target": {"target": "openai/gpt-4o"},
    "verdict": {"verdict": "truncated"},
    "dialect": {"dialect": "bitseek"},
    "status": {"status_class": 5},
    "error": {"error": "upstream_timeout"},
    "failed": {"failed": True},
    "stream": {"stream": False},
    "cost": {"min_cost": 1, "max_cost": 9},
    "tag": {"tag": "team=a"},
    "price": {"min_price": 1, "max_price": 9},
    "many": {"model": "m", "provider": "p", "verdict": "v", "dialect": "d", "failed": False, "min_cost": 3},
}
ORDERS: dict[str, tuple[dict[str, Any], str]] = {
    "all": ({}, "requests_by_time"),
    "a time": ({"since_ms": NOW_MS, "until_ms": NOW_MS + 9}, "requests_by_time"),
    "a workspace": ({"workspace_id": "one"}, "requests_of_workspace"),
    "a workspace in a time": ({"workspace_id": "one", "since_ms": NOW_MS}, "requests_of_workspace"),
    "a key": ({"key_id": "key_1"}, "requests_of_key"),
    "a key in a workspace": ({"key_id": "key_1", "workspace_id": "one"}, "requests_of_key"),
    "a key in a time": ({"key_id": "key_1", "until_ms": NOW_MS + 1900}, "requests_of_key"),
    "an end user of a key": ({"end_user": "ann", "key_id": "key_1", "workspace_id": "one"}, "requests_of_end_user"),
    "a session in a time": ({"session": "s", "end_user": "ann", "since_ms": NOW_MS}, "requests_of_session"),
}
FEW = ("requests_of_end_user", "requests_of_session")
"""Indexes of few rows, without the columns of filters."""


def plans_of(conn: Connection, wanted: RequestFilter, **more: Any) -> list[str]:
    """How each of the statements was done that a page took."""
    return explained(conn, partial(list_requests, wanted=wanted, **more))


@pytest.mark.diagonal
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("other", OTHERS)
async def test_sqlite_walks_along_one_index(order: str, other: str, tmp_path: Path) -> None:
    which, index = ORDERS[order]
    wanted = RequestFilter(**which, **OTHERS[other])
    async with store_on("sqlite", tmp_path) as store:
        here = log.cursor_of(NOW_MS + 5, 7)
        pages: list[dict[str, Any]] = [{}, {"cursor": here}, {"cursor": here, "order": "oldest"}]
        for more in pages:
            for plan in await store.read(partial(plans_of, wanted=wanted, **more)):
                assert index in plan
                assert "\n" not in plan, "one step, and nothing is sorted"


async def test_sqlite_finds_an_id_by_the_ids(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        for id in (ID, ID[:14], "chatcmpl-7"):
            (plan,) = await store.read(partial(plans_of, wanted=RequestFilter(id=id, workspace_id="one", model="m")))
            assert "SCAN" not in plan.replace("SCAN LIST", "")
            assert "requests_of_completion" in plan
            for step in await store.read(partial(explained, work=partial(find_request, id=id))):
                assert "requests_of_completion" in step or "sqlite_autoindex_requests_1" in step


@pytest.mark.parametrize("narrowed", [{}, {"workspace_id": "one"}, {"key_id": "key_1"}, {"model": "m"}], ids=str)
async def test_refused_requests_are_counted_from_an_index_of_theirs(narrowed: dict[str, str], tmp_path: Path) -> None:
    wanted = UsageFilter(since_ms=NOW_MS, until_ms=NOW_MS + 9, **narrowed)
    async with store_on("sqlite", tmp_path) as store:
        for work in (partial(count_refused, step_ms=3), sum_refused, has_refused):
            (plan,) = await store.read(partial(explained, work=partial(work, wanted=wanted)))
            assert "COVERING INDEX requests_refused" in plan


def test_the_indexes_of_pages_hold_every_filter() -> None:
    """What is not in the index must be looked up in the row, which costs five times as much."""
    filtered = {"model", "target", "verdict", "dialect", "status", "error", "stream", "cost", "price"}
    filtered |= {"workspace_id", "key_id"}
    indexes = {str(index.name): set(index.columns.keys()) for index in requests.indexes}
    for _, index in ORDERS.values():
        assert indexes[index] == filtered | {"at_ms", "seq"} or index in FEW


@pytest.mark.parametrize("order", ORDERS)
async def test_postgres_can_walk_along_the_same(order: str, tmp_path: Path) -> None:
    which, index = ORDERS[order]

    def work(conn: Connection, wanted: RequestFilter) -> list[str]:
        for way in ("seqscan", "bitmapscan", "sort"):
            conn.execute(text(f"SET LOCAL enable_{way} = off"))
        return plans_of(conn, wanted)

    async with store_on("postgres", tmp_path) as store:
        spaces = ("one", *map(str, range(20)))
        rows = [
            request_row(number, workspace_id=spaces[number % 21], key_id=f"key_{number % 63}") for number in range(2000)
        ]
        await store.write(partial(insert_rows, rows=rows))
        await store.write(lambda conn: conn.execute(text("ANALYZE requests")))
        for other in OTHERS.values():
            for plan in await store.read(partial(work, wanted=RequestFilter(**which, **other))):
                assert index in plan
                assert "Sort" not in plan
