"""What the database decides about money, one decision after the other; at the same time: `test_ledger_race`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from streamweir.policy.limits.limit_request import BudgetCharge
from streamweir.store.db.base import Store
from streamweir.store.db.tables import idempotency
from streamweir.store.journal.entries import Entry, Hold
from streamweir.store.ledger.accounts import credit
from streamweir.store.ledger.admissions import decide_holds, extend_if_fits
from streamweir.store.ledger.posting import apply, lock_for
from support.entries import (
    DAY,
    NOW_MS,
    account_sums,
    assert_sound,
    books_on,
    credit_charge,
    extend,
    hold,
    key_charge,
    ledger_rows,
    open_ids,
    settle,
    sums,
)
from support.stores import each_database

BUDGET, QUOTA = "budget_exceeded", "insufficient_quota"
DAY_MS = 86_400_000


async def decided(store: Store, *holds: tuple[Hold, Sequence[BudgetCharge]]) -> list[str | None]:
    codes: list[str | None] = await store.write(partial(decide_holds, holds=holds))
    await store.read(assert_sound)
    return codes


async def applied(store: Store, *entries: Entry) -> None:
    await store.write(partial(apply, entries=entries))


def spending(id: str, amount: int = 100, limit: int = 250) -> tuple[Hold, Sequence[BudgetCharge]]:
    return hold(id, amount, account=DAY), [key_charge(limit)]


@each_database
async def test_a_budget_is_used_up_to_the_last_of_it(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        assert await decided(
            store, spending("a"), spending("b"), spending("c"), spending("d", 50), spending("e", 1)
        ) == [
            None,
            None,
            BUDGET,
            None,
            BUDGET,
        ]
        assert await store.read(open_ids) == ["a", "b", "d"]
        assert await decided(store, spending("f", 0), spending("g", 1)) == [None, BUDGET]
        await applied(store, settle("a", 40, account=DAY), settle("b", 200, account=DAY))
        account = await store.read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (240, 50)
        assert await decided(store, spending("h", 1), spending("i", 0)) == [BUDGET, BUDGET]
        assert await decided(store, spending("j", 10, limit=300)) == [None]


@each_database
async def test_credit_is_the_granted_amount_and_not_that_of_the_charge(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        boastful = [BudgetCharge("ws:one", 10**9, QUOTA)]
        assert await decided(store, (hold("a", 1), boastful)) == [QUOTA]
        await store.write(partial(credit, workspace_id="one", amount=250, note="", at_ms=NOW_MS))
        charges = [credit_charge()]
        codes = await decided(
            store, (hold("b"), charges), (hold("c"), charges), (hold("d"), boastful), (hold("e", 50), charges)
        )
        assert codes == [None, None, QUOTA, None]
        assert await store.read(sums) == (250, 0, 250)
        other = (hold("f", 1, workspace_id="two"), [credit_charge("two")])
        assert await decided(store, other) == [QUOTA]


@each_database
async def test_every_charge_must_fit_and_the_first_that_does_not_is_reported(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await store.write(partial(credit, workspace_id="one", amount=150, note="", at_ms=NOW_MS))
        codes = await decided(
            store,
            (hold("a", 200, account=DAY), [key_charge(100), credit_charge()]),
            (hold("b", 200, account=DAY), [credit_charge(), key_charge(100)]),
            (hold("c", 120, account=DAY), [credit_charge(), key_charge(100)]),
            (hold("d", 100, account=DAY), [credit_charge(), key_charge(100)]),
            (hold("e", 50), [credit_charge()]),
            (hold("f", 1), []),
        )
        assert codes == [BUDGET, QUOTA, BUDGET, None, None, None]
        assert await store.read(ledger_rows) == [
            (None, "credit", 150, None),
            ("d", "hold", -100, None),
            ("e", "hold", -50, None),
            ("f", "hold", -1, None),
        ]


@each_database
async def test_asked_again_it_says_the_same(database: str, tmp_path: Path) -> None:
    """Its commit was done, and the answer was lost."""
    async with books_on(database, tmp_path) as store:
        same = hold("a", 100, account=DAY, idempotency=b"key", body_digest=b"body"), [key_charge(100)]
        assert await decided(store, same) == [None]
        assert await decided(store, same, same, spending("b", 1, 100)) == [None, None, BUDGET]
        assert await store.read(ledger_rows) == [("a", "hold", -100, None)]


@each_database
async def test_more_is_held_where_it_fits(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        assert await decided(store, spending("a")) == [None]

        async def extended(id: str, number: int, amount: int) -> str | None:
            entry = extend(id, number, amount)
            code: str | None = await store.write(partial(extend_if_fits, entry=entry, charges=[key_charge(250)]))
            await store.read(assert_sound)
            return code

        assert await extended("a", 1, 151) == BUDGET
        assert await extended("a", 1, 100) is None
        assert await extended("a", 1, 100) is None
        assert await extended("a", 2, 51) == BUDGET
        assert await extended("a", 2, 50) is None
        assert await extended("b", 1, 1) == BUDGET
        assert await store.read(sums) == (0, 0, 250)
        await applied(store, settle("a", 10, account=DAY))
        assert await extended("a", 3, 1) == BUDGET
        assert await extended("a", 2, 50) == BUDGET
        assert await store.read(sums) == (0, 10, 0)


@each_database
async def test_more_is_held_of_what_was_granted(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await store.write(partial(credit, workspace_id="one", amount=150, note="", at_ms=NOW_MS))
        assert await decided(store, (hold("a"), [credit_charge()])) == [None]
        for amount, code in ((51, QUOTA), (50, None)):
            entry = extend("a", 1, amount)
            assert await store.write(partial(extend_if_fits, entry=entry, charges=[credit_charge()])) == code
        assert await store.read(sums) == (150, 0, 150)


def once(id: str, key: bytes = b"key", body: bytes = b"body", **more: Any) -> tuple[Hold, Sequence[BudgetCharge]]:
    return hold(id, idempotency=key, body_digest=body, **more), []


def promises(conn: Connection) -> list[tuple[str, bytes, str, bool]]:
    columns = idempotency.c
    rows = conn.execute(select(columns.key_id, columns.digest, columns.request_id, columns.is_over))
    return sorted((key_id, digest, request_id, is_over) for key_id, digest, request_id, is_over in rows)


IN_PROGRESS, REUSED, COMPLETED = "idempotency_in_progress", "idempotency_key_reused", "idempotency_completed"


@each_database
async def test_an_idempotency_key_stands_for_one_request(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        codes = await decided(store, once("a"), once("b"), once("c", body=b"other"), once("d", key=b"new"))
        assert codes == [None, IN_PROGRESS, REUSED, None]
        assert await decided(store, once("e"), once("f", body=b"other"), once("g", key_id="l")) == [
            IN_PROGRESS,
            REUSED,
            None,
        ]
        await applied(store, settle("a", 1), settle("d", 0, frees_idempotency=True))
        assert await decided(store, once("h"), once("i", body=b"other"), once("j", key=b"new")) == [
            COMPLETED,
            REUSED,
            None,
        ]
        assert await store.read(promises) == [
            ("k", b"key", "a", True),
            ("k", b"new", "j", False),
            ("l", b"key", "g", False),
        ]


@each_database
async def test_an_idempotency_key_is_forgotten_after_a_day(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        assert await decided(store, once("a")) == [None]
        assert await decided(store, once("b", at_ms=NOW_MS + DAY_MS - 1)) == [IN_PROGRESS]
        assert await decided(store, once("c", body=b"other", at_ms=NOW_MS + DAY_MS)) == [None]
        await applied(store, settle("a", 1))
        assert await store.read(promises) == [("k", b"key", "c", False)]


@each_database
async def test_a_hold_without_a_decision_keeps_its_idempotency_key_too(database: str, tmp_path: Path) -> None:
    """It went through the journal."""
    async with books_on(database, tmp_path) as store:
        await applied(store, once("a")[0])
        await applied(store, once("b")[0])
        assert await store.read(promises) == [("k", b"key", "a", False)]
        await applied(store, settle("b", 0, frees_idempotency=True))
        assert await store.read(promises) == [("k", b"key", "a", False)]
        await applied(store, once("c", key=b"new")[0], settle("c", 1))
        await applied(store, once("d", key=b"free")[0], settle("d", 1, frees_idempotency=True))
        await applied(store, settle("a", 1))
        assert await store.read(promises) == [("k", b"key", "a", True), ("k", b"new", "c", True)]


@each_database
@pytest.mark.parametrize("count", [0, 3])
async def test_a_conflict_comes_before_the_money(database: str, tmp_path: Path, count: int) -> None:
    async with books_on(database, tmp_path) as store:
        assert await decided(store, once("a")) == [None]
        charges = [key_charge(0)]
        assert (
            await decided(store, *[(once(f"b{number}")[0], charges) for number in range(count)])
            == [IN_PROGRESS] * count
        )


@each_database
async def test_locks_can_be_taken_before(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, hold("a", workspace_id="two"))

        def work(conn: Connection) -> list[str | None]:
            entries: list[Entry] = [
                hold("b", workspace_id="three"),
                settle("c", workspace_id="one"),
                extend("a"),
                extend("none"),
            ]
            lock_for(conn, entries)
            apply(conn, entries)
            return decide_holds(conn, [spending("d", limit=1000)])

        assert await store.write(work) == [None]
        await store.read(assert_sound)
