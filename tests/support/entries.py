"""Entries as a test needs them, and the resulting state of the ledger.

Moments are milliseconds after `NOW_MS`, the first of a UTC month, week and day would be too tidy: it
is a Sunday at noon. Costs and holds are small whole numbers.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, select

from streamweir.policy.limits.limit_request import BudgetCharge
from streamweir.store.db.base import Store
from streamweir.store.db.engine import open_store
from streamweir.store.db.request_log import Row
from streamweir.store.db.tables import accounts, ledger, metadata, open_requests, requests
from streamweir.store.journal.entries import Extend, Hold, Progress, Refused, Settle
from streamweir.store.ledger.accounts import Sums, balance_of
from streamweir.store.ledger.check import check_sums
from streamweir.store.requests.live import OpenRequest
from support.stores import migrated_url, store_on

NOW_MS = 1_794_744_000_000
"""2026-11-15, 12:00 UTC."""
DAY = "key:k:2026-11-15"
_urls: dict[str, str] = {}


@asynccontextmanager
async def books_on(database: str, folder: Path) -> AsyncIterator[Store]:
    """As `store_on`, with one PostgreSQL database for all of them, emptied: to make one takes longer than a test."""
    if database == "sqlite":
        async with store_on(database, folder) as store:
            yield store
        return
    if database not in _urls:
        _urls[database] = await migrated_url(database, folder)
    store = await open_store(_urls[database], folder)
    try:
        await store.write(empty)
        yield store
    finally:
        await store.close()


def empty(conn: Connection) -> None:
    for table in metadata.sorted_tables:
        conn.execute(delete(table))


def hold(request_id: str, amount: int = 100, /, **more: Any) -> Hold:
    values: dict[str, Any] = {
        "request_id": request_id,
        "instance": "i",
        "at_ms": NOW_MS,
        "workspace_id": "one",
        "key_id": "k",
        "key_name": "ci",
        "dialect": "openai",
        "model": "m",
        "stream": True,
        "amount": amount,
        "prices": "{}",
        "prompt_tokens": 7,
        **more,
    }
    return Hold(**values)


def extend(request_id: str, number: int = 1, amount: int = 50) -> Extend:
    return Extend(request_id=request_id, at_ms=NOW_MS + 10, number=number, amount=amount)


def progress(
    *rows: tuple[str, str, int],
    at_ms: int = NOW_MS + 20,
    times: Sequence[tuple[int | None, int | None]] = (),
    readers: Sequence[tuple[int, int, int | None] | None] = (),
) -> Progress:
    return Progress(at_ms=at_ms, rows=list(rows), times=list(times), readers=list(readers))


def row(request_id: str, /, **more: Any) -> Row:
    values: dict[str, Any] = {
        "request_id": request_id,
        "at_ms": NOW_MS,
        "instance": "i",
        "status": 200,
        "verdict": "completed",
        "duration_ms": 30,
        "workspace_id": "one",
        "key_id": "k",
        "model": "m",
        "target": "p/m",
        **more,
    }
    return Row(**values)


def settle(request_id: str, cost: int | None = 40, /, **more: Any) -> Settle:
    """`more` is of the settlement (`account`, `frees_idempotency`, ...) or of its row."""
    own = {name: more.pop(name) for name in Settle.__struct_fields__ if name in more}
    return Settle(row=row(request_id, **{"cost": cost, "price": cost, **more}), **{"has_price": True, **own})


def refused(request_id: str, /, **more: Any) -> Refused:
    return Refused(row=row(request_id, **{"status": 429, "verdict": "rejected", **more}))


def orphan(request: OpenRequest, now_ms: int) -> Settle:
    """It costs its estimated prompt and what it has delivered, at 1 a token."""
    cost = request.prompt_tokens + request.output_tokens
    told = {"workspace_id": request.workspace_id, "key_id": request.key_id, "target": request.target}
    ended = {"at_ms": request.at_ms, "duration_ms": max(0, now_ms - request.at_ms), "verdict": "orphaned"}
    return settle(request.request_id, cost, account=request.account, **told, **ended)


def key_charge(limit: int, account: str = DAY) -> BudgetCharge:
    return BudgetCharge(account, limit, "budget_exceeded")


def credit_charge(workspace_id: str = "one") -> BudgetCharge:
    """Its own limit does not matter: the granted credit does."""
    return BudgetCharge(f"ws:{workspace_id}", 0, "insufficient_quota")


def sums(conn: Connection, workspace_id: str = "one") -> tuple[int, int, int]:
    found = balance_of(conn, workspace_id)
    return found.granted, found.spent, found.held


def account_sums(conn: Connection, account: str = DAY) -> Sums | None:
    row = conn.execute(select(accounts).where(accounts.c.id == account)).one_or_none()
    return Sums(row.granted, row.spent, row.held) if row is not None else None


def ledger_rows(conn: Connection) -> list[tuple[str | None, str, int, int | None]]:
    columns = ledger.c
    rows = conn.execute(select(columns.request_id, columns.kind, columns.amount, columns.cost).order_by(columns.seq))
    return [(id, kind, amount, cost) for id, kind, amount, cost in rows]


def open_ids(conn: Connection) -> list[str]:
    return sorted(conn.scalars(select(open_requests.c.request_id)))


def logged(conn: Connection) -> dict[str, tuple[str, int | None]]:
    """The verdict and the cost of each terminal row."""
    return {
        id: (verdict, cost)
        for id, verdict, cost in conn.execute(select(requests.c.request_id, requests.c.verdict, requests.c.cost))
    }


def snapshot(conn: Connection, tables: Sequence[Any]) -> list[list[tuple[Any, ...]]]:
    """All rows of these tables."""
    return [sorted((tuple(row) for row in conn.execute(select(table))), key=repr) for table in tables]


def assert_sound(conn: Connection) -> None:
    faults = check_sums(conn).faults
    assert faults == []
