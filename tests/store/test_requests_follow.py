"""Following the log: every new row is returned once, in whatever order transactions become visible."""

import random
from functools import partial
from pathlib import Path

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import create_async_engine

from conftest import SOAKS
from streamweir.store.db.base import Store
from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import requests
from streamweir.store.requests.follow import MAX_NEW, MISSING_TIMEOUT_MS, FollowPosition, mark_now, newer_than
from streamweir.store.requests.requests import RequestFilter
from support.request_rows import NOW_MS, insert_rows, request_row
from support.stores import each_database, migrated_url, store_on

ROUNDS = 2000 if SOAKS else 40


async def read_new(
    store: Store,
    mark: FollowPosition,
    now_ms: int = 0,
    wanted: RequestFilter = RequestFilter(),  # noqa: B008 (it is frozen)
) -> tuple[list[int], FollowPosition]:
    numbers: list[int] = []
    while True:
        news = await store.read(partial(newer_than, mark=mark, wanted=wanted, now_ms=now_ms))
        numbers += [int(row.request_id[-16:], 16) for row in news.rows]
        mark = news.mark
        if news.is_all:
            return numbers, mark


@each_database
async def test_rows_are_returned_once_in_order(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        mark = await store.read(partial(mark_now, now_ms=0))
        await store.write(partial(insert_rows, rows=[request_row(1), request_row(2)]))
        assert (await read_new(store, mark))[0] == [1, 2]
        mark = await store.read(partial(mark_now, now_ms=0))
        assert (mark.is_past(2), mark.is_past(3)) == (True, False)
        assert await read_new(store, mark) == ([], mark)
        # The later to end is the earlier to have come.
        await store.write(partial(insert_rows, rows=[request_row(9), request_row(4, workspace_id="two")]))
        await store.write(partial(insert_rows, rows=[request_row(3)]))
        reported, after = await read_new(store, mark)
        assert reported == [9, 4, 3]
        assert (await read_new(store, after))[0] == []
        assert (await read_new(store, mark, wanted=RequestFilter(workspace_id="two")))[0] == [4]
        # More than one reading tells.
        await store.write(partial(insert_rows, rows=[request_row(100 + each) for each in range(2 * MAX_NEW + 1)]))
        reported, after = await read_new(store, after)
        assert reported == [100 + each for each in range(2 * MAX_NEW + 1)]
        # Numbers are never used again, also when the newest rows are gone.
        await store.write(lambda conn: conn.execute(delete(requests)).rowcount)
        await store.write(partial(insert_rows, rows=[request_row(7)]))
        assert (await read_new(store, after))[0] == [7]


async def test_a_row_that_becomes_visible_after_later_ones_is_returned(tmp_path: Path) -> None:
    url = await migrated_url("postgres", tmp_path)
    store = await open_store(url, tmp_path)
    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    try:
        async with engine.connect() as before, engine.connect() as slow, engine.connect() as lost:
            await before.run_sync(insert_rows, [request_row(1)])
            await store.write(partial(insert_rows, rows=[request_row(2)]))
            mark = await store.read(partial(mark_now, now_ms=NOW_MS))  # one below it is still to come
            await slow.run_sync(insert_rows, [request_row(3)])
            await lost.run_sync(insert_rows, [request_row(4)])
            await store.write(partial(insert_rows, rows=[request_row(5)]))
            reported, mark = await read_new(store, mark, NOW_MS)
            assert reported == [5]
            await before.commit()
            await slow.commit()
            await lost.rollback()
            reported, mark = await read_new(store, mark, NOW_MS + MISSING_TIMEOUT_MS)
            assert reported == [1, 3]
            assert len(mark.missing) == 1
            reported, mark = await read_new(store, mark, NOW_MS + MISSING_TIMEOUT_MS + 1)
            assert (reported, mark.missing) == ([], {})
    finally:
        await engine.dispose()
        await store.close()


async def test_transactions_that_end_in_any_order_are_returned_completely_and_once(tmp_path: Path) -> None:
    url = await migrated_url("postgres", tmp_path)
    store = await open_store(url, tmp_path)
    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    chance = random.Random(7)
    written: list[int] = []
    reported: list[int] = []
    try:
        mark = await store.read(partial(mark_now, now_ms=0))
        open_ones = [(await engine.connect(), list[int]()) for _ in range(4)]
        for number in range(ROUNDS):
            conn, numbers = chance.choice(open_ones)
            await conn.run_sync(insert_rows, [request_row(number)])
            numbers.append(number)
            ending, ended = chance.choice(open_ones)
            if chance.random() < 0.4:
                is_kept = chance.random() < 0.8
                await (ending.commit() if is_kept else ending.rollback())
                written += ended if is_kept else []
                ended.clear()
            if chance.random() < 0.5:
                new, mark = await read_new(store, mark)
                reported += new
        for conn, numbers in open_ones:
            await conn.commit()
            written += numbers
            await conn.close()
        reported += (await read_new(store, mark))[0]
    finally:
        await engine.dispose()
        await store.close()
    assert len(reported) == len(set(reported))
    assert sorted(reported) == sorted(written)
