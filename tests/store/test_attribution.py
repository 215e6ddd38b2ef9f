"""Usage by what callers say: it is summed up with the settlement, once, and found again by filters and groups."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select, text
from sqlalchemy.util import await_only

from streamweir.core.errors import CallerError
from streamweir.policy.end_user import ANONYMOUS, digest_of_user, hashed
from streamweir.server.accounting.maintenance import orphan
from streamweir.store.db.base import Store
from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import attribution_days
from streamweir.store.ledger.posting import apply
from streamweir.store.ledger.recovery import settle_orphans
from streamweir.store.requests import retention
from streamweir.store.requests.attribution import AttributedGrouping, AttributionFilter, read_attributed
from streamweir.store.requests.requests import RequestFilter, find_request, list_requests
from streamweir.store.requests.retention import TAG_DAYS, erase_attribution, erase_key, purge
from streamweir.store.requests.usage import DAY_MS, UsageFilter, sum_usage
from support.deadlines import PROGRAM_TIMEOUT_S
from support.entries import NOW_MS, assert_sound, books_on, hold, settle
from support.stores import each_database, migrated_url

SINCE_MS = NOW_MS // DAY_MS * DAY_MS
TODAY: dict[str, Any] = {"since_ms": SINCE_MS, "until_ms": SINCE_MS + DAY_MS}
ANN = {"end_user": "ann", "session": "s1", "tags": '["team=a","job=7"]', "dialect": "messages"}
BOB = {"end_user": "bob", "tags": '["team=a"]', "dialect": "openai"}


def requests_of(*said: dict[str, Any], **more: Any) -> list[Any]:
    """A request for each, with its number as cost."""
    entries: list[Any] = []
    for number, each in enumerate(said, 1):
        own = {**more, **each}
        entries += [hold(f"r{number}", 100, **own), settle(f"r{number}", number, prompt_tokens=10 * number, **own)]
    return entries


async def book(store: Store, entries: list[Any], *, check_existing: bool = False) -> None:
    await store.write(lambda conn: apply(conn, entries, check_existing=check_existing))


def prices(conn: Connection, by: AttributedGrouping, **wanted: Any) -> dict[str | None, int]:
    found = read_attributed(conn, AttributionFilter(**TODAY, **wanted), by)
    return {each.group: each.sum.price for each in found.groups}


@each_database
async def test_usage_is_summed_up_by_everything_that_callers_say(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        entries = requests_of(ANN, ANN, BOB, {"key_id": "other", "dialect": "openai"})
        for check_existing in (False, True):  # what was applied already counts once
            await book(store, entries, check_existing=check_existing)
        expected: dict[AttributedGrouping, dict[str | None, int]] = {
            "end_user": {"ann": 3, "bob": 3, "": 4},
            "api": {"messages": 3, "openai": 7},
            "session": {"s1": 3},
            "tag": {"team=a": 6, "job=7": 3},
            "key": {"k": 6, "other": 4},
            "total": {None: 10},
        }
        for by, groups in expected.items():
            assert await store.read(partial(prices, by=by)) == groups
        assert await store.read(lambda conn: prices(conn, "end_user", key_id="k")) == {"ann": 3, "bob": 3}
        assert await store.read(lambda conn: prices(conn, "key", kind="tag", value="team=a")) == {"k": 6}
        assert await store.read(lambda conn: prices(conn, "total", workspace_id="two")) == {}
        whole = await store.read(lambda conn: sum_usage(conn, UsageFilter(**TODAY), "day"))
        found = await store.read(lambda conn: read_attributed(conn, AttributionFilter(**TODAY), "end_user", groups=1))
        assert found.total == whole
        assert [(each.group, each.sum.requests) for each in found.groups] == [("", 1), (None, 3)]
        await store.read(assert_sound)


async def test_sums_of_one_kind_within_another_are_not_kept(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        with pytest.raises(CallerError, match="not kept"):
            await store.read(lambda conn: prices(conn, "tag", kind="end_user", value="ann"))
        long = AttributionFilter(since_ms=0, until_ms=5000 * DAY_MS)
        with pytest.raises(CallerError, match="at most"):
            await store.read(lambda conn: read_attributed(conn, long))


@each_database
async def test_requests_are_found_by_what_their_callers_said(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        quoted = {"tags": '["say=\\"a%_\\"","TEAM=A"]'}
        await book(store, requests_of(ANN, BOB, quoted, {"tags": "damaged"}))

        async def found(**wanted: Any) -> list[str]:
            page = await store.read(lambda conn: list_requests(conn, RequestFilter(**wanted)))
            return sorted(row.request_id for row in page.rows)

        assert await found(end_user="ann") == ["r1"]
        assert await found(end_user="ann", session="s1", key_id="k", workspace_id="one") == ["r1"]
        assert await found(end_user="ann", workspace_id="two") == []
        assert await found(session="s1", end_user="bob") == []
        assert await found(tag="team=a") == ["r1", "r2"]
        assert await found(tag="team") == []
        assert await found(tag='say="a%_"') == ["r3"]
        assert await found(tag="TEAM=A") == ["r3"]
        assert await found(dialect="messages", tag="job=7") == ["r1"]


@each_database
async def test_an_orphan_keeps_what_its_caller_said(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await book(store, [hold("r1", 100, **ANN)])
        await store.write(lambda conn: settle_orphans(conn, ["i"], NOW_MS, orphan))
        row = await store.read(lambda conn: find_request(conn, "r1"))
        assert row is not None
        assert (row.end_user, row.session, row.tags) == ("ann", "s1", ["team=a", "job=7"])
        assert set(await store.read(lambda conn: prices(conn, "end_user"))) == {"ann"}


@each_database
async def test_sums_of_sessions_and_tags_go_and_others_stay(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await book(store, requests_of(ANN))

        async def kinds_after(days: int) -> set[str]:
            await purge(store, "here", lambda: SINCE_MS + days * DAY_MS, days=30, pause_s=0)
            return set(await store.read(lambda conn: conn.scalars(select(attribution_days.c.kind)).all()))

        assert await kinds_after(30) == {"end_user", "api", "session", "tag"}
        assert await kinds_after(31) == {"end_user", "api", "tag"}
        assert await kinds_after(TAG_DAYS) == {"end_user", "api", "tag"}
        assert await kinds_after(TAG_DAYS + 1) == {"end_user", "api"}


@each_database
async def test_an_erased_key_leaves_sums_of_digests(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        erased = hashed("ann")
        await book(store, requests_of(ANN, {**ANN, "end_user": erased}, {}, {**ANN, "key_id": "other"}))
        await erase_key(store, "k", NOW_MS, pause_s=0)
        row = await store.read(lambda conn: find_request(conn, "r1"))
        assert row is not None
        assert (row.end_user, row.session, row.tags) == (None, None, [])
        assert await store.read(lambda conn: prices(conn, "end_user", key_id="k")) == {erased: 3, "": 3}
        assert await store.read(lambda conn: prices(conn, "tag")) == {"team=a": 4, "job=7": 4}
        digests = select(attribution_days.c.value, attribution_days.c.digest).where(
            attribution_days.c.kind == "end_user"
        )
        found = await store.read(lambda conn: conn.execute(digests).all())
        assert {row.value: row.digest for row in found} == {
            erased: digest_of_user("ann"),
            "ann": digest_of_user("ann"),
            "": ANONYMOUS,
        }


@each_database
async def test_many_sessions_of_a_day_are_deleted_in_small_transactions(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request may have another one: other writers wait for some rows, not for those of a day."""
    monkeypatch.setattr(retention, "MAX_ROWS", 3)
    async with books_on(database, tmp_path) as store:
        await book(store, requests_of(*({**ANN, "session": f"s{number}"} for number in range(7))))
        is_old = SINCE_MS + DAY_MS
        delete_some = retention._STEPS["usage_sessions"]
        counts = [await store.write(lambda conn: delete_some(conn, is_old, is_old)) for _ in range(4)]
        assert counts == [3, 3, 1, 0]


async def test_what_is_added_while_a_key_is_erased_is_not_lost(tmp_path: Path) -> None:
    """Another process settles a request of the key: its row is locked when the erasure comes to it."""
    url = await migrated_url("postgres", tmp_path)
    store, other = await open_store(url, tmp_path), await open_store(url, tmp_path)
    added, erases = asyncio.Event(), asyncio.Event()
    entries = requests_of({"end_user": "ann"}, {"end_user": "ann"})

    def settle_slowly(conn: Connection) -> None:
        apply(conn, entries[2:])
        added.set()
        await_only(erases.wait())

    try:
        await book(store, entries[:2])
        settling = asyncio.create_task(other.write(settle_slowly, timeout_s=PROGRAM_TIMEOUT_S))
        await added.wait()
        erasing = asyncio.create_task(
            store.write(partial(erase_attribution, key_id="k", day=SINCE_MS // DAY_MS), timeout_s=PROGRAM_TIMEOUT_S)
        )
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        while not await other.read(lambda conn: conn.scalar(waiting)):
            assert not erasing.done()
        erases.set()
        await asyncio.gather(settling, erasing)
        assert await store.read(lambda conn: prices(conn, "end_user")) == {hashed("ann"): 3}
    finally:
        erases.set()
        await store.close()
        await other.close()
