"""Credit of workspaces: in the ledger, in the account, loaded by every process, and in the audit log."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from streamweir.store.db.base import Store
from streamweir.store.db.errors import Conflict, Invalid, NotFound, OperationRefused
from streamweir.store.db.tables import accounts
from streamweir.store.journal.entries import Extend, Hold, Settle
from streamweir.store.keys import audit
from streamweir.store.keys.credit import (
    MAX_CREDIT_NANO,
    MAX_NOTE_LENGTH,
    Balance,
    LedgerFilter,
    add_credit,
    list_balances,
    list_ledger,
    show_balance,
)
from streamweir.store.keys.keys import change_key
from streamweir.store.keys.spec import KeyChange
from streamweir.store.ledger.accounts import used_of
from streamweir.store.ledger.check import check_sums
from streamweir.store.ledger.posting import apply
from support.common_entries import hold, settle
from support.key_store import NOW, changes, new_key, new_workspace, refused
from support.stores import each_database, store_on
from support.untrusted_texts import FOREIGN

DOLLAR = 10**9


async def add(store: Store, amount: int, workspace: str = "default", note: str = "") -> Balance:
    return await store.write(
        partial(add_credit, workspace_id=workspace, amount_nano=amount, note=note, actor="admin", at_ms=NOW)
    )


async def spend(store: Store, *entries: Hold | Extend | Settle) -> None:
    await store.write(lambda conn: apply(conn, entries))


@each_database
async def test_credit_is_stored_shown_and_logged(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await new_key(store)
        team = await new_workspace(store, "team", prepaid=True)
        version = (await changes(store)).version
        balance = await add(store, 25 * DOLLAR, "team", "invoice 7")
        assert (balance.workspace, balance.granted_nano, balance.balance_nano) == (team, 25 * DOLLAR, 25 * DOLLAR)
        balance = await add(store, -DOLLAR, team.id)
        assert balance.granted_nano == 24 * DOLLAR
        (reported,) = (await changes(store, version)).workspaces
        assert (
            reported.id,
            reported.name,
            reported.prepaid,
            reported.granted,
        ) == (team.id, "team", True, 24 * DOLLAR)
        rows = await store.read(partial(list_ledger, workspace_id=team.id))
        assert [(row.kind, row.amount_nano, row.note, row.cost_nano) for row in rows] == [
            ("credit", -DOLLAR, "", None),
            ("credit", 25 * DOLLAR, "invoice 7", None),
        ]
        newest, first, *_ = await store.read(audit.list_rows)
        assert (first.action, first.object, first.workspace_id) == ("credit.add", team.id, team.id)
        assert first.detail == {"amount_nano": 25 * DOLLAR, "granted_nano": 25 * DOLLAR, "note": "invoice 7"}
        assert newest.detail["granted_nano"] == 24 * DOLLAR
        assert [each.workspace.name for each in await store.read(list_balances)] == ["default", "team"]
        assert (await store.read(check_sums)).faults == []


@each_database
async def test_what_is_spent_and_held_is_shown(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await new_key(store)
        await add(store, 10 * DOLLAR)
        await spend(store, hold("req_1", 3 * DOLLAR), hold("req_2", DOLLAR))
        await spend(store, settle("req_1", 2 * DOLLAR))
        balance = await store.read(partial(show_balance, workspace_id="default"))
        money = (balance.granted_nano, balance.spent_nano, balance.held_nano, balance.balance_nano)
        assert money == (10 * DOLLAR, 2 * DOLLAR, DOLLAR, 7 * DOLLAR)
        rows = await store.read(partial(list_ledger, workspace_id="default", kind="all"))
        assert sum(row.amount_nano + (row.released_nano or 0) for row in rows) == balance.balance_nano
        older = await store.read(partial(list_ledger, workspace_id="default", kind="all", before=rows[1].seq, limit=2))
        assert older == rows[2:4]
        taken = partial(add_credit, workspace_id="default", actor="admin", at_ms=NOW)
        await refused(store, Conflict, partial(taken, amount_nano=-8 * DOLLAR))
        await add(store, -7 * DOLLAR)
        assert (await store.read(check_sums)).faults == []


@each_database
async def test_the_ledger_is_shown_as_what_somebody_pays(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await new_key(store)
        await add(store, 10 * DOLLAR)
        await spend(store, hold("req_1", 3 * DOLLAR), Extend(request_id="req_1", at_ms=NOW, number=1, amount=DOLLAR))
        await spend(store, settle("req_1", 2 * DOLLAR, price=5 * DOLLAR), settle("req_2", DOLLAR, price=None))
        every = await store.read(partial(list_ledger, workspace_id="default", kind="all"))
        shown = {row.seq: (row.kind, row.amount_nano, row.released_nano, row.margin_nano) for row in every[::-1]}
        assert list(shown.values()) == [
            ("credit", 10 * DOLLAR, None, None),
            ("reservation", -3 * DOLLAR, None, None),
            ("extension", -DOLLAR, None, None),
            ("charge", -5 * DOLLAR, 4 * DOLLAR, 3 * DOLLAR),
            ("reservation", 0, None, None),
            ("charge", 0, 0, None),
        ]
        wanted: dict[LedgerFilter | None, set[str]] = {
            None: {"charge", "credit"},
            "charge": {"charge"},
            "credit": {"credit"},
            "reservation": {"reservation", "extension"},
        }
        for kind, kinds in wanted.items():
            rows = await store.read(partial(list_ledger, workspace_id="default", kind=kind))
            assert rows == [row for row in every if row.kind in kinds], kind


@pytest.mark.parametrize(
    ("kind", "workspace", "amount", "note"),
    [
        (Invalid, "default", 0, ""),
        (Invalid, "default", MAX_CREDIT_NANO + 1, ""),
        (Invalid, "default", -(2**70), ""),
        (Invalid, "default", 1, "x" * (MAX_NOTE_LENGTH + 1)),
        (NotFound, "nowhere", 1, ""),
        (NotFound, "' OR '1'='1\x00", 1, ""),
        (Conflict, "default", -1, ""),
    ],
)
async def test_what_cannot_be_credited(
    tmp_path: Path, kind: type[OperationRefused], workspace: str, amount: int, note: str
) -> None:
    async with store_on("sqlite", tmp_path) as store:
        await new_key(store)
        work = partial(add_credit, workspace_id=workspace, amount_nano=amount, note=note, actor="admin", at_ms=NOW)
        await refused(store, kind, work)


@each_database
async def test_credits_at_the_same_moment_are_all_there(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await new_key(store)
        count = 12
        await asyncio.gather(
            *(add(store, number * DOLLAR) for number in range(1, count + 1)),
            *(spend(store, hold(f"req_{number}", DOLLAR)) for number in range(count)),
        )
        balance = await store.read(partial(show_balance, workspace_id="default"))
        assert balance.granted_nano == count * (count + 1) // 2 * DOLLAR
        assert balance.held_nano == count * DOLLAR
        assert (await store.read(check_sums)).faults == []
        assert await store.read(audit.verify) is None


@each_database
async def test_a_note_may_be_any_text(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await new_key(store)
        notes = [text for text in FOREIGN if len(text) <= MAX_NOTE_LENGTH]
        for note in notes:
            await add(store, 1, note=note)
        rows = await store.read(partial(list_ledger, workspace_id="default", limit=100))
        assert len(rows) == len(notes)
        assert await store.read(audit.verify) is None


@each_database
async def test_a_budget_of_another_period_is_counted_again(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        key = (await new_key(store, budget_nano=DOLLAR, budget_period="month")).key
        day, month, total = (f"key:{key.id}:{period}" for period in ("2025-11-15", "2025-11", "total"))
        await spend(
            store, hold("req_1", 9, key_id=key.id, account=month), hold("req_2", 5, key_id=key.id, account=month)
        )
        await spend(store, settle("req_1", 7, account=month, key_id=key.id))
        for change in (KeyChange(budget_period="day"), KeyChange(budget_nano=None), KeyChange(budget_nano=5)):
            await store.write(partial(change_key, key_id=key.id, change=change, actor="admin", at_ms=NOW))
            kept = await store.read(lambda conn: list(conn.execute(select(accounts.c.id)).scalars()))
            assert kept == ["ws:default"], "made from the rows when it is needed"
            for account in (day, total):
                assert await store.read(partial(used_of, account_ids=[account])) == {account: 7 + 5}
        assert (await store.read(check_sums)).faults == []
