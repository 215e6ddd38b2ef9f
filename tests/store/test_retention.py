"""Purging by age and erasing by key: what must go is gone from the very file, and what must stay stays."""

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Table, func, insert, select, text

from conftest import SOAKS
from streamweir.policy.billing.payment import CENT, CURRENCY, Effect, PaymentReport
from streamweir.policy.redact import Redactor
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.counter import release_lease, take_lease
from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import (
    SUMS,
    USAGE,
    audit,
    contents,
    idempotency,
    instances,
    leases,
    ledger,
    requests,
    sessions,
    usage_hours,
    usage_minutes,
    usage_quarters,
)
from streamweir.store.keys.payments import Payment, Result, apply_report, create_payment, list_payments
from streamweir.store.requests import retention
from streamweir.store.requests.content import PackedContent, pack, write_contents
from streamweir.store.requests.instances import now_of
from streamweir.store.requests.requests import RequestFilter, list_requests
from streamweir.store.requests.retention import LEASE, Erased, Purged, erase_key, purge, purge_regularly
from support.contents import dump, file_bytes, make_content
from support.key_store import new_workspace
from support.query_plan import explained
from support.request_rows import DAY_MS, NOW_MS, insert_key, insert_open, insert_rows, request_row
from support.stores import each_database, migrated_url, store_on

OLD_MS = NOW_MS - 31 * DAY_MS
YOUNG_MS = NOW_MS - 29 * DAY_MS
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
ROWS = 1_000_000 if SOAKS else 3_000


def now() -> int:
    return NOW_MS


async def count(store: Store, table: Table) -> int:
    return await store.read(lambda conn: conn.execute(select(func.count()).select_from(table)).scalar_one())


def packed(number: int, **more: Any) -> PackedContent:
    """Of words that do not compress, so that they are found in a file if they are there."""
    return pack(make_content(number, answer=f"words of {number} " + os.urandom(3000).hex(), **more), Redactor())


def usage_of(table: Table, at: int, model: str = "x") -> dict[str, Any]:
    unit = table.primary_key.columns.keys()[0]
    return dict.fromkeys(SUMS, 1) | dict.fromkeys(USAGE, "x") | {unit: at, "model": model}


def fill(conn: Connection) -> None:
    """Something old and something young of everything."""
    ages = {"old": OLD_MS, "young": YOUNG_MS}
    insert_key(conn)
    insert_rows(conn, [request_row(1, at_ms=OLD_MS), request_row(2, at_ms=YOUNG_MS, has_content=True)])
    for number, (name, at_ms) in enumerate(ages.items()):
        conn.execute(insert(ledger).values(at_ms=at_ms, kind="credit", workspace_id="one", amount=1))
        conn.execute(
            insert(audit).values(
                at_ms=at_ms, actor="cli", action="x", object="x", detail="{}", previous=b"", digest=b"", seq=number + 1
            )
        )
        conn.execute(
            insert(idempotency).values(
                key_id="key_1",
                digest=name.encode(),
                body_digest=b"",
                request_id="x",
                is_over=True,
                until_ms=NOW_MS if name == "old" else NOW_MS + 1,
            )
        )
        conn.execute(insert(sessions).values(digest=name.encode(), created_ms=OLD_MS, used_ms=at_ms))
    conn.execute(insert(usage_hours).values(**usage_of(usage_hours, 1)))
    two_days = (NOW_MS - 50 * HOUR_MS) // MINUTE_MS
    for table, first in ((usage_minutes, two_days), (usage_quarters, two_days // 15)):
        conn.execute(insert(table), [usage_of(table, first - 1), usage_of(table, first)])
    for name, seen_ms, stopped_ms in (
        ("stopped", OLD_MS, OLD_MS),
        ("silent", OLD_MS, None),
        ("alive", YOUNG_MS, None),
        ("just-stopped", YOUNG_MS, YOUNG_MS),
        ("uncleared", OLD_MS, OLD_MS),
    ):
        conn.execute(
            insert(instances).values(id=name, node="n", started_ms=OLD_MS, seen_ms=seen_ms, stopped_ms=stopped_ms)
        )
    insert_open(conn, "req_open", "uncleared")


@each_database
async def test_old_data_is_deleted_and_the_ledger_stays(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(fill)
        # The content of a request that stays may be the older one: then its row says that it is gone.
        kept = [packed(1, at_ms=OLD_MS), packed(3, at_ms=YOUNG_MS)]
        gone = packed(2, at_ms=OLD_MS, request_id=request_row(2, at_ms=YOUNG_MS).request_id)
        await store.write_content(partial(write_contents, packed=[*kept, gone]))
        assert await purge(store, "me", now, pause_s=0) == Purged(
            requests=1, contents=2, idempotency=1, sessions=1, instances=2, usage_minutes=1, usage_quarters=1
        )
        left = await store.read(partial(list_requests, wanted=RequestFilter()))
        assert [(row.at_ms, row.has_content) for row in left.rows] == [(YOUNG_MS, False)]
        counted = [
            (ledger, 2),
            (audit, 2),
            (usage_hours, 1),
            (usage_minutes, 1),
            (usage_quarters, 1),
            (contents, 1),
            (idempotency, 1),
            (sessions, 1),
            (leases, 0),
        ]
        for table, expected in counted:
            assert await count(store, table) == expected
        names = await store.read(lambda conn: set(conn.execute(select(instances.c.id)).scalars()))
        assert names == {"alive", "just-stopped", "uncleared"}
        assert await purge(store, "me", now, pause_s=0) == Purged()
        assert await purge(store, "me", now, days=28.5, pause_s=0) == Purged(
            requests=1, contents=1, sessions=1, instances=2
        )


@each_database
async def test_a_payment_that_nobody_pays_expires_and_gives_credit_if_it_is_paid_later(
    database: str, tmp_path: Path
) -> None:
    async with store_on(database, tmp_path) as store:
        team = await new_workspace(store, "team")
        make = partial(create_payment, workspace_id=team.id, amount_nano=CENT, actor="test")
        old, young, paid = [await store.write(partial(make, at_ms=at_ms)) for at_ms in (OLD_MS, YOUNG_MS, OLD_MS)]

        async def pay(payment: Payment) -> Result:
            report = PaymentReport(
                event_id=f"evt_{payment.id}",
                kind="x",
                effect=Effect.PAID,
                reference=payment.id,
                session_id=payment.id,
                amount_cents=1,
                currency=CURRENCY,
            )
            return (await store.write(partial(apply_report, report=report, at_ms=NOW_MS))).result

        assert await pay(paid) is Result.CREDITED
        assert await purge(store, "me", now, pause_s=0) == Purged(payments=1)
        listed = await store.read(partial(list_payments, workspace_id=team.id))
        assert {each.id: each.status for each in listed} == {old.id: "expired", young.id: "open", paid.id: "paid"}
        assert await purge(store, "me", now, pause_s=0) == Purged()
        assert await pay(old) is Result.CREDITED


@each_database
async def test_a_transaction_takes_no_more_than_it_may(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(insert_key)
        await store.write(partial(insert_rows, rows=[request_row(number, at_ms=OLD_MS) for number in range(1100)]))
        step = partial(retention._purge_requests, _now_ms=NOW_MS, before_ms=NOW_MS)
        assert [await store.write(step) for _ in range(4)] == [500, 500, 100, 0]
        # Of a minute nothing is left behind, so there may be more.
        minutes = [usage_of(usage_minutes, minute, f"m{model}") for minute in range(10) for model in range(120)]
        await store.write(lambda conn: conn.execute(insert(usage_minutes), minutes).rowcount)
        forget = retention._STEPS["usage_minutes"]
        assert [await store.write(lambda conn: forget(conn, NOW_MS, 0)) for _ in range(3)] == [600, 600, 0]
        rows = [packed(number) for number in range(10)]
        await store.write_content(partial(write_contents, packed=rows))
        size = len(rows[0].prompt) + len(rows[0].answer) + len(rows[0].upstream_frames) + len(rows[0].caller_frames)
        monkeypatch.setattr(retention, "MAX_CONTENT_BYTES", 4 * size + size // 2)
        forget = partial(retention._purge_contents, _now_ms=NOW_MS, before_ms=NOW_MS + 100)
        assert [await store.write_content(forget) for _ in range(4)] == [4, 4, 2, 0]
        await store.write_content(partial(write_contents, packed=rows[:2]))
        monkeypatch.setattr(retention, "MAX_CONTENT_BYTES", 1)
        assert [await store.write_content(forget) for _ in range(3)] == [1, 1, 0]


@each_database
async def test_one_holder_at_a_time_and_a_lease_ends_by_itself(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:

        async def take(holder: str, now_ms: int) -> bool:
            return await store.write(partial(take_lease, name=LEASE, holder=holder, now_ms=now_ms, for_ms=100))

        assert sum(await asyncio.gather(*(take(f"h{number}", -100) for number in range(12)))) == 1
        assert await take("a", 0)
        assert await take("a", 50)
        assert not await take("b", 149)
        assert await take("b", 150)
        assert not await take("a", 151)
        await store.write(partial(release_lease, name=LEASE, holder="a"))
        assert not await take("a", 152)
        await store.write(partial(release_lease, name=LEASE, holder="b"))
        assert await take("a", 153)
        # By the database's own clock, which is that of all nodes.
        far = await store.read(partial(now_of, now_ms=NOW_MS)) + 10**9
        assert await take("a", far)
        await store.write(partial(insert_rows, rows=[request_row(1, at_ms=OLD_MS)]))
        assert await purge(store, "b", now, pause_s=0) is None
        assert await count(store, requests) == 1
        assert await purge(store, "a", now, pause_s=0) == Purged(requests=1)


@each_database
async def test_rows_that_come_while_it_purges_all_stay(database: str, tmp_path: Path) -> None:
    total = min(ROWS, 100_000)

    async def write(first: int, last: int, at_ms: int) -> None:
        for start in range(first, last, 500):
            rows = [request_row(number, at_ms=at_ms) for number in range(start, min(start + 500, last))]
            await store.write(partial(insert_rows, rows=rows), timeout_s=60)

    async with store_on(database, tmp_path) as store:
        await write(0, total, OLD_MS)
        coming = asyncio.create_task(write(total, total + 1500, YOUNG_MS))
        done = await purge(store, "me", now, pause_s=0)
        await coming
        assert done is not None
        assert done.requests == total
        page = await store.read(partial(list_requests, wanted=RequestFilter(), limit=1000))
        assert (await count(store, requests), {row.at_ms for row in page.rows}) == (1500, {YOUNG_MS})


@pytest.mark.soak
@pytest.mark.alone  # a clock is involved
@each_database
async def test_no_batch_holds_its_lock_for_long(database: str, tmp_path: Path) -> None:
    took: list[float] = []

    def timed(conn: Connection) -> int:
        began = time.perf_counter()
        gone = retention._purge_requests(conn, NOW_MS, NOW_MS)
        took.append(time.perf_counter() - began)
        return gone

    async with store_on(database, tmp_path) as store:
        for start in range(0, ROWS if database == "sqlite" else ROWS // 5, 500):
            rows = [request_row(number, at_ms=OLD_MS + number % 1000) for number in range(start, start + 500)]
            await store.write_content(partial(insert_rows, rows=rows), timeout_s=60)
        while await store.write_content(timed):
            pass
    assert sorted(took)[len(took) * 99 // 100] < 0.1


async def test_an_unavailable_database_is_tried_again_the_next_time(tmp_path: Path) -> None:
    async with store_on("sqlite", tmp_path) as store:
        await store.write(partial(insert_rows, rows=[request_row(1, at_ms=OLD_MS)]))
        task = asyncio.create_task(purge_regularly(store, "me", now, every_s=0.001))
        while await count(store, requests):
            await asyncio.sleep(0.001)
    with pytest.raises(StoreUnavailable):
        await purge(store, "me", now)
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not task.done()
    task.cancel()
    await asyncio.wait((task,))


PERSONAL = ("10.1.2.3-the-peer", "agent-of-the-person", "id-of-the-person", '["param-of-the-person"]')


def personal_row(number: int, **more: Any) -> Any:
    peer, client, client_id, dropped = PERSONAL
    return request_row(number, peer=peer, client=client, client_id=client_id, dropped=dropped, has_content=True, **more)


def traces(text: str | bytes, kept: Sequence[PackedContent]) -> list[object]:
    """What of a person is still there: columns as they are, contents by a part of their compressed bytes."""
    if isinstance(text, str):
        return [each for each in (*PERSONAL, *(f"words of {number} " for number in range(len(kept)))) if each in text]
    parts = (each.answer[len(each.answer) // 2 :][:40] for each in kept)
    return [each for each in (*(part.encode() for part in PERSONAL), *parts) if each in text]


@each_database
async def test_an_erased_key_has_no_personal_data(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MAX_ROWS", 7)
    mine = [packed(number) for number in range(30)]
    other = packed(99, key_id="key_2")
    async with store_on(database, tmp_path) as store:
        await store.write(insert_key)
        await store.write(partial(insert_key, id="key_2"))
        await store.write(partial(insert_rows, rows=[personal_row(number) for number in range(30)]))
        stranger = request_row(99, key_id="key_2", client="somebody else", has_content=True)
        await store.write(partial(insert_rows, rows=[stranger]))
        await store.write_content(partial(write_contents, packed=[*mine, other]))
        assert len(traces(await store.read(dump), mine)) == 4 + 30
        if database == "sqlite":
            assert traces(file_bytes(tmp_path), mine)
        done = await erase_key(store, "key_1", NOW_MS + 1000, pause_s=0)
        assert done == Erased(requests=30, contents=30)
        # What was on its way meanwhile does not come back.
        assert await store.write_content(partial(write_contents, packed=mine)) == 0
        everything = await store.read(dump)
        assert traces(everything, mine) == []
        assert "somebody else" in everything
        assert "words of 99 " in everything
        rows = (await store.read(partial(list_requests, wanted=RequestFilter(), limit=1000))).rows
        assert [row.key_id for row in rows if row.has_content] == ["key_2"]
        assert len(rows) == 31
        assert await erase_key(store, "key_1", NOW_MS + 1000, pause_s=0) == Erased(requests=30, contents=0)
        assert await erase_key(store, "nobody's\0", NOW_MS, pause_s=0) == Erased()
    if database == "sqlite":
        assert traces(file_bytes(tmp_path), mine) == []


async def test_of_what_was_purged_nothing_is_left_in_the_file(tmp_path: Path) -> None:
    old = [packed(number, at_ms=OLD_MS) for number in range(30)]
    async with store_on("sqlite", tmp_path) as store:
        await store.write(insert_key)
        await store.write(partial(insert_rows, rows=[personal_row(number, at_ms=OLD_MS) for number in range(300)]))
        await store.write_content(partial(write_contents, packed=old))
        assert traces(file_bytes(tmp_path), old)
        assert await purge(store, "me", now, pause_s=0) == Purged(requests=300, contents=30)
        assert traces(await store.read(dump), old) == []
    assert traces(file_bytes(tmp_path), old) == []


async def test_a_close_leaves_no_log_file(tmp_path: Path) -> None:
    """Connections of several threads are closed: if two were at once, neither would remove it."""
    url = await migrated_url("sqlite", tmp_path)
    for _ in range(20):
        store = await open_store(url, tmp_path)
        await asyncio.gather(*(store.read(dump) for _ in range(4)), store.write_content(dump), store.write(dump))
        await store.close()
        assert sorted(path.name for path in tmp_path.iterdir() if path.name.endswith("-wal")) == []


@each_database
async def test_old_sums_are_found_without_reading_those_that_are_kept(database: str, tmp_path: Path) -> None:
    def work(conn: Connection) -> list[str]:
        if database == "postgres":
            for way in ("seqscan", "bitmapscan", "sort"):
                conn.execute(text(f"SET LOCAL enable_{way} = off"))
        steps = [
            lambda conn: retention._purge_attribution(conn, NOW_MS, OLD_MS, "session", None),
            lambda conn: retention._purge_accounts(conn, NOW_MS, OLD_MS),
        ]
        return [explained(conn, step)[0] for step in steps]

    async with store_on(database, tmp_path) as store:
        sums_plan, accounts_plan = await store.write(work)
        assert "attribution_of_kind" in sums_plan
        assert "accounts_until" in accounts_plan
