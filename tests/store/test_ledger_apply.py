"""Entries become rows, once, in any order and in any batches."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, Table, delete, select
from sqlalchemy.exc import IntegrityError

from streamweir.store.db.base import Store
from streamweir.store.db.request_log import COLUMNS, Row
from streamweir.store.db.tables import (
    SUMS,
    accounts,
    idempotency,
    ledger,
    open_requests,
    requests,
    target_hours,
    usage_days,
    usage_hours,
    usage_minutes,
    usage_quarters,
)
from streamweir.store.journal.entries import Entry, Hold, Settle
from streamweir.store.ledger.accounts import balance_of
from streamweir.store.ledger.posting import ApplyResult, apply
from support.entries import (
    DAY,
    NOW_MS,
    account_sums,
    assert_sound,
    books_on,
    extend,
    hold,
    ledger_rows,
    logged,
    open_ids,
    progress,
    refused,
    row,
    settle,
    snapshot,
    sums,
)
from support.stores import each_database

USAGE_TABLES = (usage_minutes, usage_quarters, usage_hours, usage_days)
TABLES = (accounts, ledger, open_requests, requests, *USAGE_TABLES, target_hours, idempotency)
DAY_MS = 86_400_000
LIFE: list[Entry] = [
    hold("a", 100, account=DAY, idempotency=b"key", body_digest=b"body"),
    progress(("a", "p/m", 3)),
    extend("a", 1, 50),
    extend("a", 2, 25),
    settle("a", 120, account=DAY, held=175, prompt_tokens=5, completion_tokens=9),
]
SPENT = [("a", "hold", -100, None), ("a", "extend.1", -50, None), ("a", "extend.2", -25, None)]


async def applied(store: Store, *batches: Sequence[Entry], check_existing: bool = False) -> list[ApplyResult]:
    return [await store.write(partial(apply, entries=batch, check_existing=check_existing)) for batch in batches]


def cuts(entries: Sequence[Entry]) -> list[list[Sequence[Entry]]]:
    """All ways to cut them into batches."""
    ways = []
    for bits in range(1 << (len(entries) - 1)):
        places = [0, *(at + 1 for at in range(len(entries) - 1) if bits >> at & 1), len(entries)]
        ways.append([entries[start:end] for start, end in pairwise(places)])
    return ways


@each_database
async def test_a_request_leaves_the_same_rows_however_its_entries_are_batched(database: str, tmp_path: Path) -> None:
    ways = cuts(LIFE)

    def look(conn: Connection) -> list[tuple[Any, ...]]:
        assert_sound(conn)
        assert open_ids(conn) == []
        every = select(ledger.c.request_id, ledger.c.kind, ledger.c.amount, ledger.c.cost, ledger.c.at_ms)
        posted = conn.execute(every.order_by(ledger.c.seq)).all()
        terminal = conn.execute(select(requests)).mappings().all()
        return [
            (
                [line[1:] for line in posted if line.request_id == row["request_id"]],
                [value for name, value in row.items() if name not in ("seq", "request_id")],
            )
            for row in terminal
        ]

    async with books_on(database, tmp_path) as store:
        for number, batches in enumerate(ways):
            await applied(store, *([_renamed(entry, f"r{number}") for entry in batch] for batch in batches))
        first, *others = await store.read(look)
        assert len(others) == len(ways) - 1
        assert all(other == first for other in others)
        assert await store.read(sums) == (0, 120 * len(ways), 0)
        assert await store.read(account_sums) == await store.read(lambda conn: balance_of(conn, "one"))


def _renamed(entry: Entry, name: str) -> Entry:
    """For a life of its own, with an Idempotency-Key of its own."""
    document = msgspec.json.encode(entry).replace(b'"a"', b'"' + name.encode() + b'"')
    renamed: Entry = msgspec.json.decode(document, type=Entry)
    return msgspec.structs.replace(renamed, idempotency=name.encode()) if isinstance(renamed, Hold) else renamed


@each_database
async def test_the_lifecycle_step_by_step(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        expected = [
            ((0, 0, 100), ["a"], SPENT[:1]),
            ((0, 0, 100), ["a"], SPENT[:1]),
            ((0, 0, 150), ["a"], SPENT[:2]),
            ((0, 0, 175), ["a"], SPENT),
            ((0, 120, 0), [], [*SPENT, ("a", "settle", 55, 120)]),
        ]
        for entry, (balance, opened, posted) in zip(LIFE, expected, strict=True):
            await applied(store, [entry])

            def look(conn: Connection) -> tuple[object, ...]:
                assert_sound(conn)
                account = account_sums(conn)
                assert account is not None
                assert (account.granted, account.spent, account.held) == sums(conn)
                return sums(conn), open_ids(conn), ledger_rows(conn)

            assert await store.read(look) == (balance, opened, posted)
        assert await store.read(logged) == {"a": ("completed", 120)}


@each_database
async def test_what_is_applied_again_changes_nothing(database: str, tmp_path: Path) -> None:
    entries: list[Entry] = [*LIFE, hold("b"), extend("b"), progress(("b", "p/m", 2)), refused("c")]
    async with books_on(database, tmp_path) as store:
        await applied(store, entries)
        before = await store.read(lambda conn: snapshot(conn, TABLES))
        for known in (hold("b"), refused("c")):
            with pytest.raises(IntegrityError):
                await applied(store, [known])
        for again in (LIFE[-1], LIFE[2], extend("b"), progress(("b", "p/m", 2))):
            (found,) = await applied(store, [again])
            assert found.late == []
        for start in range(len(entries)):
            await applied(store, entries[start:], entries[: start + 1], check_existing=True)
        await applied(store, entries[::-1], check_existing=True)
        assert await store.read(lambda conn: snapshot(conn, TABLES)) == before
        await store.read(assert_sound)


@each_database
async def test_a_batch_holds_the_same_entry_twice(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        twice = [entry for entry in [*LIFE, refused("b")] for _ in range(2)]
        (found,) = await applied(store, twice)
        assert (found.repeated, found.settled, found.late, found.lost) == (5, 1, [], [])
        assert await store.read(sums) == (0, 120, 0)
        await store.read(assert_sound)


@each_database
@pytest.mark.parametrize("check_existing", [False, True])
async def test_the_first_settlement_counts(database: str, tmp_path: Path, check_existing: bool) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, [hold("a"), hold("b")], [settle("a", 10, verdict="orphaned", duration_ms=9)])
        (found,) = await applied(
            store, [settle("a", 40), settle("b", 40), settle("b", 41)], check_existing=check_existing
        )
        assert (found.late, found.settled) == (["a", "b"], 1)
        assert await store.read(logged) == {"a": ("orphaned", 10), "b": ("completed", 40)}
        assert await store.read(sums) == (0, 50, 0)
        await store.read(assert_sound)


@each_database
@pytest.mark.parametrize("check_existing", [False, True])
async def test_a_settlement_brings_the_hold_that_was_lost(database: str, tmp_path: Path, check_existing: bool) -> None:
    async with books_on(database, tmp_path) as store:
        (first, second) = await applied(
            store, [extend("a"), settle("a", 40, held=60, account=DAY)], [hold("b")], check_existing=check_existing
        )
        assert (first.lost, first.settled, second.lost) == (["a"], 1, [])
        assert await store.read(ledger_rows) == [
            ("a", "hold", -60, None),
            ("a", "settle", 20, 40),
            ("b", "hold", -100, None),
        ]
        assert await store.read(sums) == (0, 40, 100)
        account = await store.read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (40, 100), "what has no account is taken over by the one there is"
        with pytest.raises(IntegrityError):
            await applied(store, [hold("a")])
        (late,) = await applied(store, [hold("a"), extend("a")], check_existing=True)
        assert late.repeated == 2
        assert await store.read(open_ids) == ["b"]
        await store.read(assert_sound)


@each_database
async def test_a_hold_behind_its_settlement_in_one_batch(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, [settle("a", 40, held=100), extend("a"), hold("a"), progress(("a", "p/m", 1))])
        assert await store.read(open_ids) == []
        assert await store.read(sums) == (0, 40, 0)
        await store.read(assert_sound)


@each_database
async def test_a_settlement_releases_the_whole_hold(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        lies = {"held": 7, "workspace_id": None, "key_id": None}
        await applied(store, [hold("a", account=DAY)], [settle("a", 40, **lies)])
        await applied(store, [hold("b", account=DAY), settle("b", None, held=9)])
        assert await store.read(sums) == (0, 40, 0)
        assert await store.read(lambda conn: sums(conn, "")) == (0, 0, 0)
        held = await store.read(lambda conn: list(conn.scalars(select(requests.c.held))))
        assert held == [100, 100]
        account = await store.read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (40, 0)
        await store.read(assert_sound)


@each_database
async def test_a_settlement_without_a_workspace_is_kept(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, [settle("a", 40, workspace_id=None, key_id=None)])
        assert await store.read(lambda conn: sums(conn, "")) == (0, 40, 0)
        assert await store.read(logged) == {"a": ("completed", 40)}
        await store.read(assert_sound)


@each_database
async def test_a_hold_that_only_the_ledger_knows_is_released(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, [hold("a"), extend("a")])
        await store.write(empty_of(open_requests))
        await applied(store, [settle("a", 40, held=9)])
        assert await store.read(ledger_rows) == [
            ("a", "hold", -100, None),
            ("a", "extend.1", -50, None),
            ("a", "settle", 110, 40),
        ]
        await store.read(assert_sound)


def empty_of(table: Table) -> Callable[[Connection], None]:
    def work(conn: Connection) -> None:
        conn.execute(delete(table))

    return work


@each_database
async def test_a_settlement_replaces_the_row_of_a_refusal(database: str, tmp_path: Path) -> None:
    """A caller was told 503 while the database took its hold for all that."""
    async with books_on(database, tmp_path) as store:
        await applied(store, [refused("a"), hold("a"), refused("b"), hold("b"), settle("b", 1)])
        with pytest.raises(IntegrityError):
            await applied(store, [settle("a", 0)])
        await applied(store, [settle("a", 0), refused("b")], check_existing=True)
        assert await store.read(logged) == {"a": ("completed", 0), "b": ("completed", 1)}
        await store.read(assert_sound)


@each_database
async def test_refused_requests_are_logged_and_cost_nothing(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        await applied(store, [refused("a", workspace_id=None, key_id=None, model=None, target=None)])
        assert await store.read(logged) == {"a": ("rejected", None)}
        assert await store.read(lambda conn: snapshot(conn, [ledger, *USAGE_TABLES, accounts])) == [[]] * 6


@each_database
async def test_progress_is_kept_of_open_requests_and_never_goes_back(database: str, tmp_path: Path) -> None:
    columns = (open_requests.c.target, open_requests.c.output_tokens, open_requests.c.progress_ms)

    def look(conn: Connection) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in conn.execute(select(*columns).order_by(open_requests.c.request_id))]

    async with books_on(database, tmp_path) as store:
        await applied(store, [hold("a"), progress(("a", "", 0), at_ms=1), hold("b")])
        assert await store.read(look) == [(None, 0, 1), (None, 0, None)]
        await applied(store, [progress(("a", "p/m", 2), ("b", "q/m", 5), ("c", "p/m", 1), at_ms=3)])
        await applied(store, [progress(("a", "o/m", 1), ("b", "o/m", 1), at_ms=2)])
        assert await store.read(look) == [("p/m", 2, 3), ("q/m", 5, 3)]
        newer, older = progress(("a", "q/m", 9), at_ms=8), progress(("a", "p/m", 4), at_ms=7)
        await applied(store, [newer, older, settle("b"), progress(("b", "p/m", 4), at_ms=9)])
        assert await store.read(look) == [("q/m", 9, 8)]


@each_database
async def test_the_times_of_the_first_token_and_the_last_piece_are_stored(database: str, tmp_path: Path) -> None:
    columns = (open_requests.c.output_tokens, open_requests.c.first_ms, open_requests.c.last_ms)

    def look(conn: Connection) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in conn.execute(select(*columns).order_by(open_requests.c.request_id))]

    async with books_on(database, tmp_path) as store:
        asked = progress(("a", "p/m", 0), ("b", "p/m", 2), at_ms=1, times=[(None, None), (7, 8)])
        await applied(store, [hold("a"), hold("b"), asked])
        assert await store.read(look) == [(0, None, None), (2, 7, 8)]
        await applied(store, [progress(("b", "p/m", 2), ("a", "p/m", 3), at_ms=2, times=[(7, 20), (21, 22)])])
        assert await store.read(look) == [(3, 21, 22), (2, 7, 20)]
        await applied(store, [progress(("a", "p/m", 1), at_ms=1, times=[(1, 1)])])
        assert await store.read(look) == [(3, 21, 22), (2, 7, 20)], "an older word"
        await applied(store, [progress(("a", "p/m", 4), at_ms=3)], check_existing=True)
        assert await store.read(look) == [(4, None, None), (2, 7, 20)], "of a version that knows nothing of them"


@each_database
async def test_the_readers_of_resumable_streams_are_stored(database: str, tmp_path: Path) -> None:
    columns = (open_requests.c.readers, open_requests.c.reader_gap_count, open_requests.c.away_since_ms)

    def look(conn: Connection) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in conn.execute(select(*columns).order_by(open_requests.c.request_id))]

    async with books_on(database, tmp_path) as store:
        first = progress(("a", "p/m", 0), ("b", "p/m", 2), at_ms=1, readers=[None, (2, 0, None)])
        await applied(store, [hold("a"), hold("b"), first])
        assert await store.read(look) == [(None, None, None), (2, 0, None)]
        await applied(store, [progress(("b", "p/m", 2), ("a", "p/m", 3), at_ms=2, readers=[(0, 1, 17), None])])
        assert await store.read(look) == [(None, None, None), (0, 1, 17)]
        await applied(store, [progress(("b", "p/m", 4), at_ms=3)], check_existing=True)
        assert await store.read(look) == [(None, None, None)] * 2, "of a version that knows nothing of them"


@each_database
async def test_usage_is_summed_up_by_the_time_of_the_hold(database: str, tmp_path: Path) -> None:
    start = NOW_MS // DAY_MS * DAY_MS
    minute, quarter, hour, day = start // 60_000, start // 900_000, start // 3_600_000, start // DAY_MS
    tokens = {"prompt_tokens": 5, "completion_tokens": 7, "cached_tokens": 2, "reasoning_tokens": 3}
    late = start + 3_599_999
    async with books_on(database, tmp_path) as store:
        batch: list[Entry] = [hold("a", at_ms=start), settle("a", 10, at_ms=start, **tokens), hold("b", at_ms=late)]
        batch.append(settle("b", None, at_ms=late, **tokens))
        batch += [hold("e", at_ms=late - 60_000), settle("e", 0, at_ms=late)]
        await applied(store, batch, [hold("c", at_ms=late)], [settle("c", 0, at_ms=late + 1, error="upstream_error")])
        other = {"target": None, "model": None}
        await applied(store, [hold("d", at_ms=late + 1), settle("d", 1, at_ms=late + 1, **other)])
        of_b_and_c = ("one", "k", "m", "p", 2, 1, 5, 2, 7, 3, 0, 1, 0, 1)
        of_hour = ("one", "k", "m", "p", 4, 1, 10, 4, 14, 6, 10, 1, 10, 1)
        of_d = ("one", "k", "", "", 1, 0, 0, 0, 0, 0, 1, 0, 1, 0)
        found = await store.read(lambda conn: snapshot(conn, USAGE_TABLES))
        assert [[row[:15] for row in rows] for rows in found] == [
            [
                (minute, "one", "k", "m", "p", 1, 0, 5, 2, 7, 3, 10, 0, 10, 0),
                (minute + 58, "one", "k", "m", "p", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0),
                (minute + 59, *of_b_and_c),
                (minute + 60, *of_d),
            ],
            [
                (quarter, "one", "k", "m", "p", 1, 0, 5, 2, 7, 3, 10, 0, 10, 0),
                (quarter + 3, "one", "k", "m", "p", 3, 1, 5, 2, 7, 3, 0, 1, 0, 1),
                (quarter + 4, *of_d),
            ],
            [(hour, *of_hour), (hour + 1, *of_d)],
            [(day, *of_d), (day, *of_hour)],
        ]
        assert all(not any(row[15:]) for rows in found for row in rows), "nothing was streamed"
        await store.read(assert_sound)


@each_database
async def test_what_a_provider_bills_is_summed_up_by_its_model_and_credential(database: str, tmp_path: Path) -> None:
    start = NOW_MS // DAY_MS * DAY_MS
    hour, tokens = start // 3_600_000, {"prompt_tokens": 5, "completion_tokens": 7, "cached_tokens": 2}
    async with books_on(database, tmp_path) as store:
        for id, cost, more in (
            ("a", 10, {"target": "p/org/m", "model": "alias", "price": 99}),
            ("b", None, {"target": "p/org/m", "model": "other"}),
            ("c", 3, {"target": "p/org/m", "credential": "second"}),
            ("d", 4, {"target": "q/m", "prompt_tokens": None, "completion_tokens": None, "cached_tokens": 0}),
            ("e", None, {"target": "q/m", "prompt_tokens": None, "completion_tokens": None}),  # it failed
            ("f", 0, {"target": None}),  # it was sent to none
        ):
            await applied(store, [hold(id, at_ms=start)], [settle(id, cost, at_ms=start, **(tokens | more))])
        late = settle("g", 1, at_ms=start - 1, duration_ms=5, **tokens)
        await applied(store, [hold("g", at_ms=start - 1)], [late])
        assert (await store.read(lambda conn: snapshot(conn, [target_hours])))[0] == [
            (hour - 1, "p", "m", "", 1, 5, 2, 7, 1, 0),
            (hour, "p", "org/m", "", 2, 10, 4, 14, 10, 1),
            (hour, "p", "org/m", "second", 1, 5, 2, 7, 3, 0),
            (hour, "q", "m", "", 1, 0, 0, 0, 4, 0),
        ]


@each_database
async def test_streams_are_counted_by_the_time_to_their_first_token(database: str, tmp_path: Path) -> None:
    streams = [("a", True, 10), ("b", True, 11), ("c", False, 11), ("d", True, None), ("e", True, 60_001)]
    batch: list[Entry] = []
    for id, stream, ttft_ms in streams:
        batch += [hold(id), settle(id, 1, stream=stream, ttft_ms=ttft_ms)]
    async with books_on(database, tmp_path) as store:
        await applied(store, batch[:4], batch[4:])
        await applied(store, batch, check_existing=True)  # again, and nothing is counted twice
        for rows in await store.read(lambda conn: snapshot(conn, USAGE_TABLES)):
            (row,) = rows
            assert row[5] == 5
            assert {bucket: count for bucket, count in enumerate(row[5 + len(SUMS) :]) if count} == {0: 1, 1: 1, 23: 1}


@each_database
async def test_every_column_of_a_row_is_stored(database: str, tmp_path: Path) -> None:
    fields: dict[str, Any] = {}
    for number, column in enumerate(COLUMNS):
        values: dict[type, Any] = {str: column.name, bool: True, int: 1000 + number}
        fields[column.name] = values[column.type]

    def look(conn: Connection) -> dict[str, Any]:
        found = dict(conn.execute(select(requests)).mappings().one())
        del found["seq"]
        return found

    async with books_on(database, tmp_path) as store:
        await applied(store, [Settle(row=Row(**fields), has_price=True)])
        assert await store.read(look) == fields


@each_database
async def test_a_column_is_stored_if_no_other_request_of_its_batch_has_it(database: str, tmp_path: Path) -> None:
    optional = [column for column in COLUMNS if getattr(row("a"), column.name) is None]
    batches = [
        [refused(column.name, **{column.name: {str: "x", int: 7, bool: True}[column.type]})] for column in optional
    ]

    def look(conn: Connection) -> dict[str, list[str]]:
        rows = conn.execute(select(requests)).mappings()
        known = [column.name for column in optional]
        return {each["request_id"]: [name for name in known if each[name] in ("x", 7, True)] for each in rows}

    async with books_on(database, tmp_path) as store:
        await applied(store, *batches)
        assert await store.read(look) == {column.name: [column.name] for column in optional}


@each_database
async def test_the_price_is_charged_and_a_journal_without_one_has_the_cost_for_it(
    database: str, tmp_path: Path
) -> None:
    def look(conn: Connection) -> list[tuple[Any, ...]]:
        columns = ledger.c
        rows = conn.execute(
            select(columns.request_id, columns.amount, columns.cost, columns.price).order_by(columns.seq)
        )
        return [tuple(row) for row in rows if row.cost is not None]

    batch: list[Entry] = [hold("new", amount=100), settle("new", 40, price=60)]
    batch += [hold("old", amount=100), settle("old", 30, price=None, has_price=False)]
    async with books_on(database, tmp_path) as store:
        await applied(store, batch)
        assert await store.read(look) == [("new", 40, 40, 60), ("old", 70, 30, 30)]
        assert await store.read(sums) == (0, 90, 0)
        await store.read(assert_sound)


@each_database
async def test_many_requests_in_one_batch(database: str, tmp_path: Path) -> None:
    """More than one look-up takes."""
    ids = [f"r{number:05}" for number in range(600)]
    async with books_on(database, tmp_path) as store:
        await applied(store, [hold(id, key_id=f"k{id}", account=f"key:k{id}:total") for id in ids])
        (found,) = await applied(store, [settle(id, 1, key_id=f"k{id}", account=f"key:k{id}:total") for id in ids])
        assert found.settled == 600
        (found,) = await applied(store, [settle(id, 2) for id in ids[::-1]], check_existing=True)
        assert found.late == ids[::-1]
        assert await store.read(sums) == (0, 600, 0)
        await store.read(assert_sound)
