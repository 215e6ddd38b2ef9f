"""Accounts of rules: they hold and spend with the ledger, begin with what was spent before, and keep their limits."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, update

from streamweir.policy.access import Key
from streamweir.policy.end_user import ANONYMOUS, digest_of_user
from streamweir.policy.limits.limit_request import BudgetCharge
from streamweir.policy.limits.limit_rule import LimitRule, RuleScope, read_rule_account
from streamweir.server.accounting.maintenance import orphan
from streamweir.store.db.base import Store
from streamweir.store.db.tables import accounts
from streamweir.store.ledger.accounts import Sums, used_of
from streamweir.store.ledger.admissions import decide_holds, extend_if_fits
from streamweir.store.ledger.check import check_sums
from streamweir.store.ledger.period import HOUR_MS, span_of
from streamweir.store.ledger.posting import apply
from streamweir.store.ledger.recovery import settle_orphans
from streamweir.store.requests.retention import ENDED_MS, erase_key, purge
from support.entries import NOW_MS, account_sums, assert_sound, books_on, extend, hold, settle
from support.stores import each_database

DAY_MS = 86_400_000
KEY = Key(name="ci", digest=b"", id="k", workspace_id="one")


def rule(name: str, per: Any, period: str = "day", **more: Any) -> LimitRule:
    return LimitRule(name=name, per=per, budget_nano=100, budget_period=period, **more)


def account(of: LimitRule, end_user: str | None = None, at_ms: int = NOW_MS, key: Key = KEY) -> str:
    return of.account_of(key, "one", end_user, at_ms / 1000)


USERS = rule("users", "user")
ANN, BOB = account(USERS, "ann"), account(USERS, "bob")
OF_KEY, OF_ALL = account(rule("keys", "key", "month")), account(rule("all", "workspace", "total"))
EACH = (ANN, OF_KEY, OF_ALL)


async def book(store: Store, *entries: Any, check_existing: bool = False) -> None:
    await store.write(lambda conn: apply(conn, list(entries), check_existing=check_existing))


async def sums(store: Store, *ids: str) -> list[tuple[int, int] | None]:
    """Spent and held."""

    def look(conn: Connection) -> list[Sums | None]:
        return [account_sums(conn, id) for id in ids]

    return [None if found is None else (found.spent, found.held) for found in await store.read(look)]


def ends_ms(id: str) -> int:
    return span_of(read_rule_account(id).period)[1] * HOUR_MS


async def purged(store: Store, now_ms: int) -> int:
    """How many accounts."""
    done = await purge(store, "me", lambda: now_ms, days=36_500, pause_s=0)
    assert done is not None
    return done.accounts


def test_the_id_of_an_account_says_what_it_counts() -> None:
    digest = digest_of_user("ann")
    assert f"rule:one:users:user:{digest}::2026-11-15" == ANN
    assert account(rule("users", "user", key="ci"), "ann") == f"rule:one:users:user:{digest}:k:2026-11-15"
    assert OF_KEY == "rule:one:keys:key:-:k:2026-11"
    assert OF_ALL == "rule:one:all:workspace:-::total"
    assert account(USERS) == f"rule:one:users:user:{ANONYMOUS}::2026-11-15"
    file_key = Key(name="a:b", digest=b"", id="file:a:b", workspace_id="one")
    of_file = account(rule("keys", "key"), key=file_key)
    assert read_rule_account(of_file) == (RuleScope("one", "keys", "key", "file:a:b"), ANONYMOUS, "2026-11-15")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, True),
        ({"workspace": "one"}, True),
        ({"workspace": "First"}, True),
        ({"workspace": "two"}, False),
        ({"key": "ci"}, True),
        ({"key": "k"}, True),
        ({"key": "other"}, False),
        ({"workspace": "two", "key": "ci"}, False),
    ],
)
def test_a_rule_applies_to_the_workspace_and_the_key_that_it_names(more: dict[str, str], expected: bool) -> None:
    assert rule("r", "user", **more).applies_to(KEY, "one", "First") is expected


@each_database
async def test_every_account_holds_is_extended_and_pays(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        entries = [hold("r1", 60, end_user="ann", accounts=EACH), extend("r1", amount=5)]
        await book(store, *entries)
        assert await sums(store, *EACH) == [(0, 65)] * 3
        await store.read(assert_sound)
        await book(store, *entries, settle("r1", 40, end_user="ann"), check_existing=True)
        assert await sums(store, *EACH, BOB) == [(40, 0), (40, 0), (40, 0), None]
        await store.read(assert_sound)


@each_database
async def test_a_new_account_has_what_was_spent_before_and_gets_the_open_requests(
    database: str, tmp_path: Path
) -> None:
    """A rule that is added while requests run."""
    async with books_on(database, tmp_path) as store:
        yesterday: dict[str, Any] = {"at_ms": NOW_MS - DAY_MS}
        await book(
            store,
            *(hold("r0", 9, end_user="ann", **yesterday), settle("r0", 7, end_user="ann", **yesterday)),
            *(hold("r1", 10, end_user="ann"), settle("r1", 8, end_user="ann")),
            *(hold("r2", 10, end_user="bob"), settle("r2", 3, end_user="bob")),
            *(hold("r3", 10, end_user="ann", key_id="k2"), settle("r3", 2, end_user="ann", key_id="k2")),
            hold("r4", 20, end_user="ann"),
        )
        expected = {ANN: 8 + 2 + 20, BOB: 3, OF_KEY: 7 + 8 + 3 + 20, OF_ALL: 7 + 8 + 3 + 2 + 20}
        assert await store.read(lambda conn: used_of(conn, list(expected))) == expected
        await book(store, hold("r5", 1, end_user="ann", accounts=EACH))
        assert await sums(store, *EACH) == [(10, 21), (18, 21), (20, 21)]
        await store.read(assert_sound)
        await book(store, settle("r4", 15, end_user="ann"), settle("r5", 1, end_user="ann"))
        assert await sums(store, *EACH) == [(26, 0), (34, 0), (36, 0)]
        await store.read(assert_sound)


@each_database
async def test_what_is_spent_counts_even_if_its_process_did_not_know_the_rule(database: str, tmp_path: Path) -> None:
    """The rule was removed for a while, or another node has another file."""
    async with books_on(database, tmp_path) as store:
        await book(store, hold("r1", 10, end_user="ann", accounts=EACH), settle("r1", 5, end_user="ann"))
        await book(store, hold("r2", 10, end_user="ann"), settle("r2", 6, end_user="ann"))
        await book(store, settle("lost", 4, end_user="ann", held=9, accounts=EACH))
        assert await sums(store, *EACH) == [(15, 0)] * 3
        await store.read(assert_sound)


@each_database
async def test_a_request_whose_process_does_not_know_the_rule_is_held_on_its_accounts(
    database: str, tmp_path: Path
) -> None:
    """So that nobody else spends its money when the rule comes back while it runs."""
    async with books_on(database, tmp_path) as store:
        await book(store, hold("r1", 10, end_user="ann", accounts=EACH), settle("r1", 5, end_user="ann"))
        await book(store, hold("r2", 10, end_user="ann"))
        await book(store, hold("r3", 7, end_user="ann"), hold("r4", 1, end_user="bob", accounts=(BOB,)))
        assert await sums(store, *EACH, BOB) == [(5, 17), (5, 18), (5, 18), (0, 1)]
        await book(store, extend("r2", amount=3))
        await store.read(assert_sound)
        await book(store, settle("r2", 6, end_user="ann"), settle("r3", 1, end_user="ann"))
        assert await sums(store, *EACH, BOB) == [(12, 0), (12, 1), (12, 1), (0, 1)]
        await store.read(assert_sound)


@each_database
async def test_a_request_fits_all_of_its_accounts_or_none(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        charges = [BudgetCharge(id, 100, "budget_exceeded") for id in EACH]
        of_bob = [BudgetCharge(id, 100, "budget_exceeded") for id in (BOB, OF_KEY, OF_ALL)]
        holds: list[Any] = [
            (hold("r1", 60, end_user="ann", accounts=EACH), charges),
            (hold("r2", 60, end_user="ann", accounts=EACH), charges),
            (hold("r3", 40, end_user="bob", accounts=(BOB, OF_KEY, OF_ALL)), of_bob),
            (hold("r4", 1, end_user="bob", accounts=(BOB, OF_KEY, OF_ALL)), of_bob),
        ]
        refused = [None, "budget_exceeded", None, "budget_exceeded"]
        assert await store.write(lambda conn: decide_holds(conn, holds)) == refused
        assert await sums(store, ANN, BOB, OF_KEY, OF_ALL) == [(0, 60), (0, 40), (0, 100), (0, 100)]
        more = extend("r1", amount=1)
        assert await store.write(lambda conn: extend_if_fits(conn, more, charges)) == "budget_exceeded"
        await book(store, settle("r3", 10, end_user="bob"))
        assert await store.write(lambda conn: extend_if_fits(conn, more, charges)) is None
        await store.read(assert_sound)


@each_database
async def test_an_orphan_is_released_and_an_erased_user_stays_the_same_account(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await book(store, hold("r1", 60, end_user="ann", accounts=EACH))
        await store.write(lambda conn: settle_orphans(conn, ["i"], NOW_MS, orphan))
        assert await sums(store, *EACH) == [(0, 0)] * 3
        await book(store, hold("r2", 60, end_user="ann", accounts=EACH), settle("r2", 20, end_user="ann"))
        await erase_key(store, "k", NOW_MS, pause_s=0)
        await store.read(assert_sound)
        assert await sums(store, ANN) == [(20, 0)]


@each_database
async def test_accounts_of_past_periods_are_deleted_and_come_back_if_they_are_needed(
    database: str, tmp_path: Path
) -> None:
    running = account(USERS, "eve")
    async with books_on(database, tmp_path) as store:
        of_eve = hold("r3", 5, end_user="eve", accounts=(running,))
        await book(store, hold("r1", 60, end_user="ann", accounts=EACH), of_eve)
        await book(store, settle("r1", 40, end_user="ann"))
        just_ended = ends_ms(ANN) + ENDED_MS
        assert await purged(store, just_ended) == 0
        assert await purged(store, just_ended + 1) == 1, "not those that hold something, and not those that go on"
        assert await sums(store, *EACH, running) == [None, (40, 5), (40, 5), (0, 5)]
        await store.read(assert_sound)
        assert await store.read(lambda conn: used_of(conn, [ANN])) == {ANN: 40}
        # A journal that was found late.
        await book(store, hold("r2", 9, end_user="ann", accounts=EACH), settle("r2", 7, end_user="ann"))
        assert await sums(store, *EACH) == [(47, 0), (47, 5), (47, 5)]
        await book(store, settle("r3", 4, end_user="eve"))
        await store.read(assert_sound)
        assert await purged(store, ends_ms(OF_KEY) + ENDED_MS + 1) == 3
        assert await sums(store, *EACH, running) == [None, None, (51, 0), None], "what has no period ends never"


@each_database
async def test_a_wrong_sum_of_a_rule_is_found(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await book(store, hold("r1", 60, end_user="ann", accounts=EACH), settle("r1", 20, end_user="ann"))
        await book(store, hold("r2", 7, end_user="ann", accounts=EACH))

        def spoil(conn: Connection) -> None:
            conn.execute(update(accounts).where(accounts.c.id.in_((ANN, OF_ALL))).values(spent=19))
            conn.execute(update(accounts).where(accounts.c.id == OF_KEY).values(held=8))

        await store.write(spoil)
        faults = (await store.read(check_sums)).faults
        assert {(fault.object, fault.what, fault.kept, fault.found) for fault in faults} == {
            (ANN, "spent", 19, 20),
            (OF_ALL, "spent", 19, 20),
            (OF_KEY, "held", 8, 7),
        }
