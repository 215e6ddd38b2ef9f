"""Requests that are open: listed, stopped, and settled where their process is dead."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
from sqlalchemy import Connection

from streamweir.store.db.base import Store
from streamweir.store.journal.entries import Entry
from streamweir.store.ledger.posting import apply
from streamweir.store.ledger.recovery import settle_orphans
from streamweir.store.requests.instances import count_alive, dead_instances, now_of, retire, write_heartbeat
from streamweir.store.requests.live import LiveInstances, cancel, cancelled, count_open, open_of
from support.entries import (
    DAY,
    NOW_MS,
    account_sums,
    assert_sound,
    books_on,
    hold,
    logged,
    open_ids,
    orphan,
    progress,
    refused,
    settle,
    sums,
)
from support.stores import each_database

SILENT_MS = 20_000


async def applied(store: Store, *entries: Entry) -> list[str]:
    return (await store.write(partial(apply, entries=entries))).late


async def buried(store: Store, instances: Sequence[str], limit: int = 200) -> int:
    settling = partial(settle_orphans, instances=instances, now_ms=NOW_MS + 500, settle=orphan, limit=limit)
    count: int = await store.write(settling)
    await store.read(assert_sound)
    return count


@each_database
async def test_a_process_is_dead_without_a_heartbeat_or_after_a_normal_end(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        for name in ("silent", "retired", "alive", "back", "idle"):
            await store.write(partial(write_heartbeat, instance=name, node="n", now_ms=NOW_MS))
            if name != "idle":
                await applied(store, hold(name, instance=name, at_ms=NOW_MS))
        await applied(store, hold("unknown", instance="unknown", at_ms=NOW_MS))

        async def dead(now_ms: int, own: str | None = None) -> list[str]:
            return await store.read(partial(dead_instances, now_ms=now_ms, silent_ms=SILENT_MS, own=own))

        async def alive(now_ms: int) -> int:
            return await store.read(partial(count_alive, now_ms=now_ms, silent_ms=SILENT_MS))

        assert await dead(NOW_MS + SILENT_MS) == []
        assert await alive(NOW_MS + SILENT_MS) == 5
        for name in ("retired", "back"):
            await store.write(partial(retire, instance=name, now_ms=NOW_MS + 1))
        assert await dead(NOW_MS + 2) == ["back", "retired"]
        for name in ("back", "alive"):
            await store.write(partial(write_heartbeat, instance=name, node="n", now_ms=NOW_MS + 1000))
        late = NOW_MS + SILENT_MS + 1
        assert await dead(late) == ["retired", "silent", "unknown"]
        assert await dead(late, own="silent") == ["retired", "unknown"]
        assert await alive(late) == 2


@each_database
async def test_the_orphans_of_the_dead_are_settled_once(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        other = {"workspace_id": "two", "key_id": "l"}
        await applied(store, hold("a", instance="dead", account=DAY), hold("b", instance="dead", **other))
        await applied(store, hold("c", instance="alive"), progress(("a", "p/m", 5)))
        assert await buried(store, []) == 0
        assert await buried(store, ["dead"], limit=1) == 1
        assert await store.read(open_ids) == ["b", "c"]
        assert await buried(store, ["dead", "gone"]) == 1
        assert await buried(store, ["dead"]) == 0
        assert await store.read(logged) == {"a": ("orphaned", 12), "b": ("orphaned", 7)}
        assert await store.read(sums) == (0, 12, 100)
        account = await store.read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (12, 100)
        assert await applied(store, settle("a", 40), settle("c", 1), progress(("a", "p/m", 9))) == ["a"]
        assert await store.read(sums) == (0, 13, 0)
        await store.read(assert_sound)


@each_database
async def test_open_requests_are_listed_newest_first(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, hold("a"), hold("b", workspace_id="two", key_id="l"), hold("c", stream=False))
        await applied(store, progress(("a", "p/m", 5), times=[(NOW_MS + 9, NOW_MS + 15)]))

        async def listed(workspace_id: str | None, limit: int = 10) -> list[str]:
            found = await store.read(partial(open_of, workspace_id=workspace_id, limit=limit))
            return [request.request_id for request in found]

        assert await listed(None) == ["c", "b", "a"]
        assert await listed(None, limit=2) == ["c", "b"]
        assert await listed("one") == ["c", "a"]
        assert await listed("none") == []
        (last,) = (await store.read(partial(open_of, workspace_id="one", limit=5)))[1:]
        assert msgspec.to_builtins(last) == {
            "request_id": "a",
            "instance": "i",
            "at_ms": NOW_MS,
            "workspace_id": "one",
            "key_id": "k",
            "key_name": "ci",
            "dialect": "openai",
            "model": "m",
            "target": "p/m",
            "stream": True,
            "held": 100,
            "account": None,
            "prices": "{}",
            "prompt_tokens": 7,
            "output_tokens": 5,
            "progress_ms": NOW_MS + 20,
            "cancel_ms": None,
            "first_ms": NOW_MS + 9,
            "last_ms": NOW_MS + 15,
            "end_user": None,
            "session": None,
            "tags": None,
            "accounts": None,
            "node": None,
            "readers": None,
            "away_since_ms": None,
            "reader_gap_count": None,
        }


@each_database
async def test_what_a_silent_process_has_open_is_not_among_what_runs(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        now_ms = await store.read(lambda conn: now_of(conn, NOW_MS))
        for number, (name, seen_ms) in enumerate({"own": 9000, "silent": 9000, "alive": 1000, "retired": 0}.items()):
            await store.write(partial(write_heartbeat, instance=name, node=f"node {number}", now_ms=now_ms - seen_ms))
            await applied(store, hold(name, instance=name))
        await store.write(partial(retire, instance="retired", now_ms=now_ms))
        await applied(store, hold("unknown", instance="unknown"))
        alive = LiveInstances(own="own", now_ms=NOW_MS, silent_ms=6000)
        found = await store.read(partial(open_of, workspace_id="one", limit=9, alive=alive))
        assert {each.request_id: each.node for each in found} == {"own": "node 0", "alive": "node 2"}
        assert await store.read(partial(count_open, workspace_id=None, alive=alive)) == 2
        assert await store.read(partial(count_open, workspace_id=None)) == 5


@each_database
async def test_an_operator_stops_what_is_open_within_reach(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, hold("a", instance="i"), hold("b", instance="j"), hold("c", instance="i"))

        async def stopped(id: str, workspace_id: str | None, now_ms: int = NOW_MS) -> bool:
            return await store.write(partial(cancel, request_id=id, workspace_id=workspace_id, now_ms=now_ms))

        async def unwanted() -> list[list[str]]:
            return [await store.read(partial(cancelled, instance=name)) for name in ("i", "j", "k")]

        assert await unwanted() == [[], [], []]
        assert not await stopped("a", "two")
        assert not await stopped("x", None)
        assert not await stopped("a' OR '1'='1", None)
        assert not await stopped("\x00\ud800", "\x00")
        assert await stopped("a", "one")
        assert await stopped("b", None)
        assert await stopped("a", None, NOW_MS + 9)
        assert await unwanted() == [["a"], ["b"], []]
        (first,) = (await store.read(partial(open_of, workspace_id=None, limit=5)))[2:]
        assert first.cancel_ms == NOW_MS
        await applied(store, settle("a", 1))
        assert await unwanted() == [[], ["b"], []]
        assert not await stopped("a", None)


@each_database
async def test_an_orphan_may_have_a_row_of_the_log_already(database: str, tmp_path: Path) -> None:
    """Its process died between the refusal, which is on record, and the release of what the database had held."""
    async with books_on(database, tmp_path) as store:
        await applied(store, hold("r", instance="dead"), refused("r", status=499))
        assert await buried(store, ["dead"]) == 1
        assert await store.read(open_ids) == []
        assert (await store.read(logged))["r"][0] == "orphaned"


@each_database
async def test_the_databases_clock_is_one_for_all(database: str, tmp_path: Path) -> None:
    def moments(conn: Connection) -> tuple[int, int]:
        return now_of(conn, NOW_MS), now_of(conn, NOW_MS)

    async with books_on(database, tmp_path) as store:
        first, second = await store.read(moments)
        if store.is_sqlite:
            assert (first, second) == (NOW_MS, NOW_MS)
        else:
            assert 1_700_000_000_000 < first <= second
