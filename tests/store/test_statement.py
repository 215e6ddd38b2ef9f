"""The statement of a month: its sums are those of the ledger, exactly, whatever is deleted or settled late."""

import random
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, select, update

from streamweir.policy.billing.statement import (
    Charges,
    Line,
    Statement,
    add,
    decimals_of,
    money,
    rounded_to_cents,
    span_of_month,
    sum_by,
)
from streamweir.store.db.base import Store
from streamweir.store.db.errors import Invalid, NotFound
from streamweir.store.db.tables import ledger, requests
from streamweir.store.journal.entries import Entry
from streamweir.store.keys.credit import add_credit, show_balance
from streamweir.store.keys.keys import create_key
from streamweir.store.keys.spec import KeySpec
from streamweir.store.keys.statement import price_by_ledger, read_statement
from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace
from streamweir.store.ledger.posting import apply
from support.entries import assert_sound, books_on, hold, settle
from support.soak import SOAKS
from support.stores import each_database

OCTOBER, NOVEMBER, DECEMBER = (span_of_month(month)[0] for month in ("2026-10", "2026-11", "2026-12"))
MONTHS = ("2026-09", "2026-10", "2026-11", "2026-12")
NOW = DECEMBER + 1


async def read(store: Store, workspace: str, month: str, now_ms: int = NOW) -> Statement:
    return await store.read(lambda conn: read_statement(conn, workspace, month, now_ms))


def random_entries(seed: int, count: int, workspaces: list[str]) -> list[Entry]:
    """Some requests begin in one month and end in another; some have no price; prices differ from costs."""
    chance = random.Random(seed)
    entries: list[Entry] = []
    for number in range(count):
        at_ms = chance.choice((chance.randrange(OCTOBER, DECEMBER), NOVEMBER - 1, NOVEMBER, DECEMBER - 1))
        more = {"workspace_id": chance.choice(workspaces), "key_id": f"key_{chance.randrange(3)}", "at_ms": at_ms}
        price = chance.choice((None, 0, 1, chance.randrange(10**12)))
        ended = {"duration_ms": chance.choice((0, 5, 3 * 86_400_000)), "model": f"m{chance.randrange(3)}"}
        tokens = {"prompt_tokens": chance.randrange(99), "cached_tokens": 3, "completion_tokens": chance.randrange(9)}
        target = {"target": f"p{chance.randrange(2)}/x"}
        cost = chance.randrange(10**9)
        entries.append(hold(f"r{number}", chance.randrange(10**9), **more))
        entries.append(settle(f"r{number}", cost, price=price, **more, **ended, **tokens, **target))
    return entries


def sums_of_ledger(conn: Connection) -> dict[tuple[str, str], int]:
    """By workspace and month of the reservation, from the single rows."""
    began = {row.request_id: row.at_ms for row in conn.execute(select(ledger).where(ledger.c.kind == "hold"))}
    sums: dict[tuple[str, str], int] = {}
    for row in conn.execute(select(ledger).where(ledger.c.kind == "settle")):
        (month,) = (each for each in MONTHS if within(began[row.request_id], each))
        key = (row.workspace_id, month)
        sums[key] = sums.get(key, 0) + (row.price or 0)
    return sums


def within(at_ms: int, month: str) -> bool:
    since_ms, until_ms = span_of_month(month)
    return since_ms <= at_ms < until_ms


@each_database
async def test_its_sums_are_those_of_the_ledger(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        made = [
            (await store.write(partial(create_workspace, spec=WorkspaceSpec(name=name), actor="cli", at_ms=1))).id
            for name in ("one", "two")
        ]
        entries = random_entries(5, 3000 if SOAKS else 60, made)
        for start in range(0, len(entries), 50):
            await store.write(partial(apply, entries=entries[start : start + 50]))
        await store.read(assert_sound)
        expected = await store.read(sums_of_ledger)
        await store.write(lambda conn: conn.execute(delete(requests)))  # as after the retention
        assert len(expected) == 4
        for workspace in made:
            for month in MONTHS:
                statement = await read(store, workspace, month)
                total = statement.total
                assert total.price == expected.get((workspace, month), 0)
                since_ms, until_ms = span_of_month(month)
                by_ledger = partial(price_by_ledger, workspace_id=workspace, since_ms=since_ms, until_ms=until_ms)
                assert total.price == await store.read(by_ledger)
                for names in (("key", "model"), ("date",), ("model",)):
                    assert add(charges for _, charges in sum_by(statement.lines, *names)) == total
                assert all(within(line.day * 86_400_000, month) for line in statement.lines)
            spent = (await store.read(partial(show_balance, workspace_id=workspace))).spent_nano
            last = await read(store, workspace, "2026-12")
            assert (last.balance_before, last.balance) == (-spent, -spent)
        of_both = [(await read(store, name, "2026-11")).total.requests for name in ("one", "two")]
        of_october = [(await read(store, name, "2026-10")).total.requests for name in ("one", "two")]
        assert sum(of_both) + sum(of_october) == len(entries) // 2, "every request is on one statement"


@each_database
async def test_a_request_belongs_to_the_month_of_its_reservation(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await store.write(lambda conn: create_workspace(conn, WorkspaceSpec(name="team"), actor="cli", at_ms=1))
        id = (await read(store, "team", "2026-10")).workspace_id
        late = {"at_ms": NOVEMBER - 1, "workspace_id": id}
        await store.write(lambda conn: apply(conn, [hold("a", 100, **late)]))
        running = await read(store, "team", "2026-10")
        assert (running.total.price, running.open_requests, running.is_over) == (0, 1, True)
        assert (await read(store, "team", "2026-11")).open_requests == 0
        await store.write(lambda conn: apply(conn, [settle("a", 30, price=40, duration_ms=60_000, **late)]))
        october, november = [await read(store, "team", month) for month in ("2026-10", "2026-11")]
        assert (october.total.price, october.open_requests) == (40, 0)
        assert (november.total.price, november.balance_before) == (0, -40)
        assert not (await read(store, "team", "2026-10", NOVEMBER - 1)).is_over


@each_database
async def test_credits_of_the_month_and_the_balance(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:

        def furnish(conn: Connection) -> str:
            id = create_workspace(conn, WorkspaceSpec(name="team", prepaid=True), actor="cli", at_ms=1).id
            other = create_workspace(conn, WorkspaceSpec(name="other"), actor="cli", at_ms=1).id
            add_credit(conn, other, 7, actor="cli", at_ms=OCTOBER)
            for amount, at_ms in ((1000, OCTOBER - 1), (50, OCTOBER), (-20, NOVEMBER - 1), (5, NOVEMBER)):
                add_credit(conn, id, amount, note=f"of {amount}", actor="cli", at_ms=at_ms)
            spec = KeySpec(name="ci")
            key = create_key(conn, id, spec, actor="cli", at_ms=1).key.id
            for number, at_ms in enumerate((OCTOBER - 1, OCTOBER, NOVEMBER)):
                more = {"workspace_id": id, "key_id": key, "at_ms": at_ms}
                apply(conn, [hold(f"r{number}", 9, **more), settle(f"r{number}", 1, price=100, **more)])
            return id

        id = await store.write(furnish)
        statement = await read(store, "team", "2026-10")
        assert (statement.workspace, statement.workspace_id) == ("team", id)
        assert [(each.date, each.amount, each.note) for each in statement.credits] == [
            ("2026-10-01", 50, "of 50"),
            ("2026-10-31", -20, "of -20"),
        ]
        assert (statement.balance_before, statement.credited, statement.balance) == (900, 30, 830)
        assert [(line.date, line.key, line.charges.price) for line in statement.lines] == [("2026-10-01", "ci", 100)]
        balance = await store.read(lambda conn: show_balance(conn, id))
        assert (await read(store, "team", "2026-11")).balance == balance.balance_nano == 735
        assert (await read(store, "other", "2026-10")).has_account


@each_database
async def test_the_check_reads_the_rows_of_the_ledger(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await store.write(lambda conn: apply(conn, [hold("a", 9), settle("a", 5)]))
        span = span_of_month("2026-11")
        assert await store.read(lambda conn: price_by_ledger(conn, "one", *span)) == 5
        await store.write(lambda conn: conn.execute(update(ledger).where(ledger.c.kind == "settle").values(price=6)))
        assert await store.read(lambda conn: price_by_ledger(conn, "one", *span)) == 6
        assert await store.read(lambda conn: price_by_ledger(conn, "two", *span)) == 0


async def test_what_is_refused(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        with pytest.raises(NotFound):
            await read(store, "nobody", "2026-10")
        await store.write(lambda conn: create_workspace(conn, WorkspaceSpec(name="team"), actor="cli", at_ms=1))
        for month in ("2026-13", "2026", "2026-1", "october", "2026-10-01", "0000-01", ""):
            with pytest.raises(Invalid, match="expected a month such as 2026-11"):
                await read(store, "team", month)


@pytest.mark.parametrize(
    ("amounts", "decimals"),
    [([], 2), ([0], 2), ([10**9], 2), ([125 * 10**7], 2), ([10**6], 3), ([5, 10**9], 9), ([-1200], 7)],
)
def test_as_many_decimals_as_all_amounts_need(amounts: list[int], decimals: int) -> None:
    assert decimals_of(amounts) == decimals


def test_money_is_exact_and_rounded_to_cents_once() -> None:
    assert [money(nano, 3) for nano in (1_234_500_000_000, -1_000_000, 0)] == ["1,234.500", "-0.001", "0.000"]
    assert money(2**63 - 1, 9) == "9,223,372,036.854775807"
    assert [rounded_to_cents(nano) for nano in (5_000_000, 4_999_999, -5_000_000)] == [10**7, 0, -(10**7)]
    line = Line(day=0, key_id="k", key="k", model="m", charges=Charges(requests=1, price=3))
    assert sum_by([line, line], "key") == [(("k",), Charges(requests=2, price=6))]
