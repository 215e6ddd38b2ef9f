"""Payments in the database: asked for, reported, credited once, given up, and listed."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamweir.policy.billing.payment import CENT, Effect, PaymentReport
from streamweir.store.db.base import Store
from streamweir.store.db.errors import Conflict, Invalid, NotFound
from streamweir.store.keys import payments
from streamweir.store.keys.credit import show_balance
from streamweir.store.keys.payments import Applied, Payment, Result, apply_report
from support.key_store import NOW, new_key, new_workspace, refused
from support.stores import each_database, store_on

AMOUNT = 2500 * CENT


async def asked(store: Store, workspace_id: str = "default", at_ms: int = NOW) -> Payment:
    return await store.write(
        lambda conn: payments.create_payment(conn, workspace_id, AMOUNT, actor="test", at_ms=at_ms)
    )


async def reported(store: Store, payment: Payment, event_id: str, **more: Any) -> Applied:
    members: dict[str, Any] = {"effect": Effect.PAID, "session_id": "cs_1", "amount_cents": 2500, "currency": "usd"}
    report = PaymentReport(event_id=event_id, kind="k", reference=payment.id, **{**members, **more})
    return await store.write(lambda conn: apply_report(conn, report, NOW + 5))


async def granted(store: Store, workspace_id: str = "default") -> int:
    return (await store.read(lambda conn: show_balance(conn, workspace_id))).granted_nano


@each_database
async def test_a_payment_is_credited_once_whatever_is_reported_in_whatever_order(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await new_key(store)
        payment = await asked(store)
        await store.write(lambda conn: payments.set_session(conn, payment.id, "cs_1"))
        assert (await reported(store, payment, "e0", effect=Effect.NONE)).result is Result.IGNORED
        assert (await reported(store, payment, "e1", session_id="cs_2")).result is Result.REFUSED
        assert (await reported(store, payment, "e2", currency="eur")).result is Result.REFUSED
        assert (await reported(store, payment, "e3", amount_cents=2501)).result is Result.REFUSED
        assert (await reported(store, payment, "e4", effect=Effect.FAILED, session_id="cs_2")).result is Result.IGNORED
        assert (await reported(store, payment, "e5", effect=Effect.FAILED)).result is Result.EXPIRED
        assert await granted(store) == 0
        assert (await reported(store, payment, "e6")).result is Result.CREDITED, "it was paid after all"
        for event_id, expected, is_known in (
            ("e6", Result.CREDITED, True),
            ("e5", Result.EXPIRED, True),
            ("e3", Result.REFUSED, True),
            ("e7", Result.IGNORED, False),
        ):
            again = await reported(store, payment, event_id)
            assert (again.result, again.is_repeated) == (expected, is_known)
        assert (await reported(store, payment, "e8", effect=Effect.FAILED)).result is Result.IGNORED
        assert await granted(store) == AMOUNT
        found = await store.read(lambda conn: payments.find_payment(conn, payment.id))
        assert (found.status, found.session_id, found.paid_ms) == ("paid", "cs_1", NOW + 5)


@each_database
async def test_payments_are_listed_by_workspace_and_bounded(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payments, "MAX_OPEN", 3)
    async with store_on(database, tmp_path) as store:
        await new_key(store)
        team = (await new_workspace(store, "team")).id
        made = [await asked(store, at_ms=NOW + number // 2) for number in range(3)]
        other = await asked(store, team)
        newest_first = sorted(made, key=lambda payment: (payment.created_ms, payment.id), reverse=True)
        listed = partial(payments.list_payments, workspace_id="default", limit=2)
        assert await store.read(listed) == newest_first[:2]
        assert await store.read(partial(listed, after=newest_first[1].id)) == newest_first[2:]
        every = await store.read(partial(payments.list_payments, workspace_id=None))
        assert {each.id for each in every} == {each.id for each in (*made, other)}
        await refused(store, NotFound, lambda conn: payments.find_payment(conn, other.id, "default"))
        create = partial(payments.create_payment, actor="test", at_ms=NOW)
        await refused(store, Conflict, partial(create, workspace_id="default", amount_nano=AMOUNT))
        for amount in (0, -CENT, CENT + 1):
            await refused(store, Invalid, partial(create, workspace_id=team, amount_nano=amount))
        await store.write(lambda conn: payments.give_up(conn, made[0].id))
        await asked(store)
        assert (await reported(store, made[0], "late")).result is Result.CREDITED
        await store.write(lambda conn: payments.give_up(conn, made[0].id))
        found = await store.read(lambda conn: payments.find_payment(conn, made[0].id))
        assert found.status == "paid", "what is paid is not given up"
