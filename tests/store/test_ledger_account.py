"""Accounts: made when they are needed, from what was spent before."""

from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, select

from streamweir.policy.limits.budget import MAX_NANO, PERIODS, ends_at, period_of
from streamweir.store.db.base import Store
from streamweir.store.db.errors import Conflict, Invalid
from streamweir.store.db.tables import accounts, ledger, open_requests
from streamweir.store.journal.entries import Entry
from streamweir.store.ledger.accounts import balance_of, credit, delete_accounts, span_of, used_of
from streamweir.store.ledger.admissions import decide_holds
from streamweir.store.ledger.posting import apply
from support.entries import (
    DAY,
    NOW_MS,
    account_sums,
    assert_sound,
    books_on,
    hold,
    key_charge,
    ledger_rows,
    settle,
    sums,
)
from support.stores import each_database

MONTH = "key:k:2026-11"
HOUR_S = 3600
DAY_MS = 86_400_000


async def applied(store: Store, *entries: Entry) -> None:
    await store.write(partial(apply, entries=entries))


async def used(store: Store, *ids: str) -> list[int]:
    found = await store.read(partial(used_of, account_ids=ids))
    assert list(found) == list(ids)
    return list(found.values())


@pytest.mark.parametrize("kind", PERIODS)
def test_a_period_has_the_hours_that_are_named_by_it(kind: str) -> None:
    begin = 1_700_000_000 // HOUR_S * HOUR_S  # leap years, years of 53 weeks: six years, by the hour of every tenth day
    for now in range(begin, begin + 6 * 366 * 86_400, 10 * 86_400 + HOUR_S):
        first, end = span_of(period_of(kind, now))
        assert first <= now // HOUR_S < end
        if kind == "total":
            continue
        assert ends_at(kind, now) == end * HOUR_S
        assert period_of(kind, first * HOUR_S) == period_of(kind, now) == period_of(kind, end * HOUR_S - 0.001)
        assert period_of(kind, first * HOUR_S - 1) != period_of(kind, now) != period_of(kind, end * HOUR_S)


@pytest.mark.parametrize("name", ["", "2026", "2026-13", "2026-11-31", "2026-W54", "2026-WXX", "year"])
def test_an_invalid_period_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no such period"):
        span_of(name)


@each_database
async def test_a_budget_that_is_added_later_counts_what_was_spent_in_its_period(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        yesterday = NOW_MS - DAY_MS
        await applied(store, hold("a", at_ms=yesterday), settle("a", 1, at_ms=yesterday))
        await applied(store, hold("b", 1000, at_ms=yesterday), hold("c", 200), hold("d"), settle("d", 20))
        await applied(store, hold("e", 5, key_id="l"), hold("f", key_id="l"), settle("f", 3, key_id="l"))
        assert await used(store, DAY, MONTH, "key:k:total", "key:l:total", "key:none:total", "ws:one", "ws:none") == [
            220,
            1221,
            1221,
            8,
            0,
            1229,
            0,
        ]
        assert await store.read(account_sums) is None
        code = await store.write(partial(decide_holds, holds=[(hold("g", 30, account=DAY), [key_charge(250)])]))
        assert code == [None]
        account = await store.read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (20, 230)
        await store.read(assert_sound)
        # What was open without an account is settled on the one that took it over.
        await applied(store, settle("c", 150), settle("g", 10, account=DAY), settle("b", 900, at_ms=yesterday))
        account = await store.read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (180, 0)
        assert await used(store, DAY, MONTH) == [180, 1081]
        await store.read(assert_sound)


@each_database
@pytest.mark.parametrize("is_settled_with_it", [False, True])
async def test_an_account_is_made_by_a_batch_that_uses_it(
    database: str, tmp_path: Path, is_settled_with_it: bool
) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, hold("a"), settle("a", 7), hold("b", 50))
        ends: list[Entry] = [settle("b", 30), settle("c", 5)]
        if is_settled_with_it:
            await applied(store, hold("c", account=DAY), *ends)
        else:
            await applied(store, hold("c", account=DAY))
            await applied(store, *ends)
        account = await store.read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (42, 0)
        await store.read(assert_sound)


@each_database
@pytest.mark.parametrize("settled_by", [1, 2, 3])
async def test_an_account_knows_what_was_spent_while_the_budget_was_off(
    database: str, settled_by: int, tmp_path: Path
) -> None:
    """`settled_by`: in how many batches it gets there."""
    entries: list[Entry] = [hold("a"), settle("a", 5000), hold("b", 30), hold("c", 70, account=DAY), settle("c", 7)]
    size = -(-len(entries) // settled_by)
    async with books_on(database, tmp_path) as store:
        for start in range(0, len(entries), size):
            await applied(store, *entries[start : start + size])
        account = await store.read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (5007, 30)
        await store.read(assert_sound)
        await applied(store, settle("b", 20))
        account = await store.read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (5027, 0)
        await store.read(assert_sound)


@each_database
async def test_all_accounts_of_a_key_get_what_it_spends(database: str, tmp_path: Path) -> None:
    """The budget got another period, and a request of the old one was still on its way to the database."""
    async with books_on(database, tmp_path) as store:
        await applied(store, hold("a", account=MONTH))
        await applied(store, hold("b", account=DAY))
        await applied(store, settle("a", 3, account=MONTH), settle("b", 4, account=DAY), hold("c"), settle("c", 5))
        for name in (MONTH, DAY):
            account = await store.read(partial(account_sums, account=name))
            assert account is not None
            assert (account.spent, account.held) == (12, 0), name
        await store.read(assert_sound)


@each_database
async def test_an_account_of_another_period_is_made_again(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, hold("a", 100, account=MONTH), hold("b", 10, account=MONTH))
        await store.write(partial(delete_accounts, key_id="k"))
        await applied(store, hold("c", 50, account=DAY))
        day = await store.read(account_sums)
        assert day is not None
        assert (day.spent, day.held) == (0, 160)
        await applied(store, settle("c", 20, account=DAY), settle("b", 1, account=MONTH))
        day = await store.read(account_sums)
        assert day is not None
        assert (day.spent, day.held) == (21, 100)
        assert await store.read(partial(account_sums, account=MONTH)) is None
        await store.read(assert_sound)
        await store.write(partial(delete_accounts, key_id="k"))
        await applied(store, hold("d", 3, account=MONTH))
        month = await store.read(partial(account_sums, account=MONTH))
        assert month is not None
        assert (month.spent, month.held) == (21, 103)
        await applied(store, settle("a", 60))
        month = await store.read(partial(account_sums, account=MONTH))
        assert month is not None
        assert (month.spent, month.held) == (81, 3)
        await store.read(assert_sound)


@each_database
async def test_one_request_is_taken_over_by_one_account(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, hold("a", 100))
        await applied(store, hold("b", 1, account=MONTH), hold("c", 1, account=DAY))
        taken = await store.read(lambda conn: list(conn.scalars(select(open_requests.c.account))))
        assert sorted(taken) == sorted([MONTH, DAY, min(MONTH, DAY)])
        await store.read(assert_sound)


@each_database
async def test_the_account_of_a_workspace_is_found_again_in_its_ledger(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await store.write(partial(credit, workspace_id="one", amount=1000, note="", at_ms=NOW_MS))
        await applied(store, hold("a"), settle("a", 7), hold("b", 50), hold("c", workspace_id="two"))
        before = await store.read(partial(balance_of, workspace_id="one"))

        def lose(conn: Connection) -> None:
            conn.execute(delete(accounts).where(accounts.c.id == "ws:one"))

        await store.write(lose)
        assert await store.read(partial(balance_of, workspace_id="one")) == before
        assert await used(store, "ws:one") == [57]
        await applied(store, hold("d", 1))
        assert await store.read(sums) == (1000, 7, 51)
        await store.read(assert_sound)


@each_database
async def test_credit_is_given_and_taken_back_while_it_is_left(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:

        async def credited(amount: int, note: str = "") -> int:
            left = await store.write(partial(credit, workspace_id="one", amount=amount, note=note, at_ms=NOW_MS))
            assert left == await store.read(partial(balance_of, workspace_id="one"))
            await store.read(assert_sound)
            return left.balance

        assert await credited(100, "for the beginning \x00\ud800") == 100
        assert await credited(-30) == 70
        await applied(store, hold("a", 50))
        with pytest.raises(Conflict):
            await credited(-21)
        assert await credited(-20) == 0
        await applied(store, settle("a", 80))
        assert await store.read(sums) == (50, 80, 0)
        with pytest.raises(Conflict):
            await credited(-1)
        assert await credited(10) == -20
        for amount in (0, MAX_NANO, MAX_NANO + 1):
            with pytest.raises(Invalid):
                await credited(amount)
        assert await credited(MAX_NANO - 60) == MAX_NANO - 80
        assert await store.read(ledger_rows) == [
            (None, "credit", 100, None),
            (None, "credit", -30, None),
            ("a", "hold", -50, None),
            (None, "credit", -20, None),
            ("a", "settle", -30, 80),
            (None, "credit", 10, None),
            (None, "credit", MAX_NANO - 60, None),
        ]
        notes = await store.read(lambda conn: list(conn.scalars(select(ledger.c.note).order_by(ledger.c.seq))))
        assert notes[0] == "for the beginning \ufffd\ufffd"
