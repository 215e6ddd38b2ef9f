"""The log as it is read: by an id, by filters, in pages that neither lose nor repeat a row."""

import random
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from conftest import SOAKS
from streamweir.core.errors import CallerError
from streamweir.store.db.request_log import Row
from streamweir.store.journal.entries import plain
from streamweir.store.requests import requests as log
from streamweir.store.requests.requests import RequestFilter, RequestRow, find_request, is_running, list_requests
from support.request_rows import NOW_MS, insert_open, insert_rows, request_row
from support.stores import each_database, store_on
from support.untrusted_texts import FOREIGN

PAGINGS = 200 if SOAKS else 8

VARIETY = (
    request_row(0),
    request_row(1, workspace_id="two", key_id="key_2", key_name="prod"),
    request_row(2, model="claude", target="anthropic/claude", stream=False, dialect="bitseek", cost=2 * 10**9),
    request_row(3, status=429, verdict="rejected", error="rate_limit_exceeded", target=None, model=None),
    request_row(4, status=502, verdict="upstream_error", error="upstream_timeout", target="openai-eu/gpt-4o"),
    request_row(
        5, workspace_id=None, key_id=None, key_name=None, status=401, verdict="rejected", error="missing_api_key"
    ),
    request_row(6, completion_id="chatcmpl-same", cost=5),
    request_row(7, completion_id="chatcmpl-same", verdict="orphaned"),
    request_row(8, completion_id="chatcmpl-same", workspace_id="two"),
)


FILTERS: tuple[tuple[RequestFilter, list[int]], ...] = (
    (RequestFilter(), [8, 7, 6, 5, 4, 3, 2, 1, 0]),
    (RequestFilter(workspace_id="two"), [8, 1]),
    (RequestFilter(workspace_id="nobody's"), []),
    (RequestFilter(key_id="key_2"), [1]),
    (RequestFilter(key_id="key_2", workspace_id="one"), []),
    (RequestFilter(model="claude"), [2]),
    (RequestFilter(target="openai"), [8, 7, 6, 5, 1, 0]),
    (RequestFilter(target="openai-eu/gpt-4o"), [4]),
    (RequestFilter(target="open"), []),
    (RequestFilter(target="OPENAI"), []),
    (RequestFilter(target="%"), []),
    (RequestFilter(provider="openai"), [8, 7, 6, 5, 1, 0]),
    (RequestFilter(provider="openai/gpt-4o"), []),
    (RequestFilter(provider="openai-eu", failed=True), [4]),
    (RequestFilter(provider="Openai"), []),
    (RequestFilter(provider=""), []),
    (RequestFilter(target="*GPT*"), [8, 7, 6, 5, 4, 1, 0]),
    (RequestFilter(target="openai-*"), [4]),
    (RequestFilter(target="*_*"), []),
    (RequestFilter(target="*%*"), []),
    (RequestFilter(target="*\\*"), []),
    (RequestFilter(provider="open*"), [8, 7, 6, 5, 4, 1, 0]),
    (RequestFilter(provider="*eu"), [4]),
    (RequestFilter(model="*LAUD*"), [2]),
    (RequestFilter(model="*"), [8, 7, 6, 5, 4, 2, 1, 0]),
    (RequestFilter(error="*_*"), [5, 4, 3]),
    (RequestFilter(error="upstream*", key_ids=("key_1",)), [4]),
    (RequestFilter(key_ids=("key_2", "key_3")), [1]),
    (RequestFilter(key_ids=()), []),
    (RequestFilter(session="*"), []),
    (RequestFilter(end_user="a*a"), []),
    (RequestFilter(dialect="bitseek"), [2]),
    (RequestFilter(dialect="bitseek", provider="openai"), []),
    (RequestFilter(min_cost=5), [6, 2]),
    (RequestFilter(min_cost=6), [2]),
    (RequestFilter(max_cost=5), [6]),
    (RequestFilter(min_cost=5, max_cost=2 * 10**9), [6, 2]),
    (RequestFilter(min_cost=10**40), []),
    (RequestFilter(verdict="orphaned"), [7]),
    (RequestFilter(status_class=4), [5, 3]),
    (RequestFilter(status_class=10**30), []),
    (RequestFilter(error="upstream_timeout"), [4]),
    (RequestFilter(failed=True), [5, 4, 3]),
    (RequestFilter(failed=False, workspace_id="two"), [8, 1]),
    (RequestFilter(stream=False), [2]),
    (RequestFilter(since_ms=NOW_MS + 7), [8, 7]),
    (RequestFilter(until_ms=NOW_MS + 2), [1, 0]),
    (RequestFilter(since_ms=-(10**30), until_ms=10**30), [8, 7, 6, 5, 4, 3, 2, 1, 0]),
    (RequestFilter(id="chatcmpl-same", workspace_id="one"), [7, 6]),
    (RequestFilter(id="chatcmpl-same", verdict="orphaned", until_ms=10**30), [7]),
    (RequestFilter(id=VARIETY[3].request_id), [3]),
    (RequestFilter(id=VARIETY[3].request_id, workspace_id="two"), []),
    (RequestFilter(id=VARIETY[3].request_id[:16]), [3]),
    (RequestFilter(id=VARIETY[3].request_id[:12]), [8, 7, 6, 5, 4, 3, 2, 1, 0]),
    (RequestFilter(id=VARIETY[3].request_id[:12].upper()), []),
    (RequestFilter(id=VARIETY[3].request_id[-8:]), [3]),
    (RequestFilter(id=VARIETY[3].request_id[-8:], workspace_id="two"), []),
    (RequestFilter(id=VARIETY[3].request_id[-8:], verdict="completed"), []),
    (RequestFilter(id=VARIETY[3].request_id[-5:]), []),
    (RequestFilter(id="0" * 7 + "f"), []),
    (RequestFilter(id="req_"), []),
    (RequestFilter(id="req_%_%_%_%_%_%"), []),
)


def numbers(rows: list[RequestRow]) -> list[int]:
    """Of the rows above, by which they were made."""
    return [int(row.request_id[-16:], 16) for row in rows]


@each_database
async def test_a_request_is_found_by_either_id_within_its_workspace(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(partial(insert_rows, rows=VARIETY))
        for row in VARIETY[:6]:
            assert row.completion_id is not None
            for id in (row.request_id, row.completion_id):
                found = await store.read(partial(find_request, id=id))
                assert found is not None
                assert found.request_id == row.request_id
                for workspace in ("one", "two", "three", ""):
                    within = await store.read(partial(find_request, id=id, workspace_id=workspace))
                    assert (within is not None) == (workspace == row.workspace_id)
        # Of a completion id that was used more than once, the newest.
        for owner, expected in ((None, 8), ("one", 7), ("two", 8)):
            found = await store.read(partial(find_request, id="chatcmpl-same", workspace_id=owner))
            assert found is not None
            assert numbers([found]) == [expected]
        # One that is not over has no row yet.
        await store.write(partial(insert_open, request_id="req_1"))
        for id, owner, is_open in (
            ("req_1", None, True),
            ("req_1", "one", True),
            ("req_1", "two", False),
            ("\0", None, False),
        ):
            assert await store.read(partial(is_running, request_id=id, workspace_id=owner)) == is_open


@each_database
async def test_what_was_written_is_read_whole(database: str, tmp_path: Path) -> None:
    row = request_row(
        1,
        attempts='[{"target":"openai/gpt-4o","error":"upstream_timeout"}]',
        usage='{"input_uncached":3,"output":4}',
        flags='["usage_anomaly"]',
        dropped='["logit_bias"]',
        cost=2**62,
        has_content=True,
    )
    async with store_on(database, tmp_path) as store:
        await store.write(lambda conn: insert_rows(conn, [row, request_row(2, attempts="spoilt", usage="[]")]))
        found = await store.read(lambda conn: find_request(conn, row.request_id))
        spoilt = await store.read(lambda conn: find_request(conn, request_row(2).request_id))
    assert found is not None
    assert found.attempts == [{"target": "openai/gpt-4o", "error": "upstream_timeout"}]
    assert found.usage == {"input_uncached": 3, "output": 4}
    assert (found.flags, found.dropped, found.cost, found.has_content) == (
        ["usage_anomaly"],
        ["logit_bias"],
        2**62,
        True,
    )
    assert spoilt is not None
    assert (spoilt.attempts, spoilt.usage, spoilt.flags) == ([], None, [])


@each_database
async def test_filters_go_together(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await store.write(partial(insert_rows, rows=VARIETY))
        for wanted, expected in FILTERS:
            page = await store.read(partial(list_requests, wanted=wanted))
            assert (wanted, numbers(page.rows), page.next) == (wanted, expected, None)


@each_database
async def test_foreign_text_is_looked_for_as_it_was_kept_and_nothing_else_is_found(
    database: str, tmp_path: Path
) -> None:
    rows = [
        request_row(number, model=plain(text), key_id=plain(text), completion_id=plain(text), client=plain(text))
        for number, text in enumerate(FOREIGN)
    ]
    async with store_on(database, tmp_path) as store:
        await store.write(lambda conn: insert_rows(conn, rows))
        for text in FOREIGN:
            same = [number for number, row in enumerate(rows) if row.model == plain(text)]
            for wanted in (
                RequestFilter(model=text),
                RequestFilter(key_id=text),
                RequestFilter(id=text),
                RequestFilter(model=text, key_id=text, id=text),
            ):
                page = await store.read(partial(list_requests, wanted=wanted))
                assert sorted(numbers(page.rows)) == same
                assert {row.client for row in page.rows} == {plain(text)}
            nothing = RequestFilter(workspace_id=text or "-", target=text, verdict=text, error=text)
            assert (await store.read(partial(list_requests, wanted=nothing))).rows == []
            found = await store.read(partial(find_request, id=text))
            assert found is not None
            assert await store.read(partial(find_request, id=text, workspace_id=text + "-")) is None


@each_database
async def test_a_cursor_that_no_page_gave_is_the_callers_error(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        for cursor in ("", "x", "%%%", "MQ", "MS4yLjM", "\ud800", "YS5i", "a" * 10_000, "MTIuMzQ=\n"):
            with pytest.raises(CallerError) as caught:
                await store.read(partial(list_requests, wanted=RequestFilter(), cursor=cursor))
            assert (caught.value.code, caught.value.param) == ("invalid_value", "cursor")
        # Of a forged one, numbers beyond the columns': it shows what a page shows.
        await store.write(partial(insert_rows, rows=VARIETY))
        huge = log.cursor_of(10**40, 10**40)
        page = await store.read(partial(list_requests, wanted=RequestFilter(workspace_id="two"), cursor=huge))
        assert numbers(page.rows) == [8, 1]


@each_database
async def test_paging_loses_none_and_repeats_none_while_rows_come(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        number = 0
        for seed in range(PAGINGS):
            chance = random.Random(seed)
            workspace = f"ws{seed}"

            def come(count: int, chance: random.Random = chance, workspace: str = workspace) -> list[Row]:
                nonlocal number
                rows = []
                for _ in range(count):
                    number += 1  # many share a moment, and they come in any order
                    at_ms = NOW_MS + chance.randrange(40)
                    rows.append(request_row(number, at_ms=at_ms, workspace_id=workspace))
                return rows

            first = come(chance.randrange(60))
            await store.write(partial(insert_rows, rows=first))
            wanted = RequestFilter(workspace_id=workspace, stream=chance.choice((None, True)))
            order: Literal["newest", "oldest"] = chance.choice(("newest", "oldest"))
            seen: list[RequestRow] = []
            cursor: str | None = None
            while True:
                limit = chance.randrange(1, 12)
                page = await store.read(partial(list_requests, wanted=wanted, cursor=cursor, limit=limit, order=order))
                assert len(page.rows) <= limit
                seen += page.rows
                cursor = page.next
                if cursor is None:
                    break
                later = come(chance.randrange(4))
                await store.write(partial(insert_rows, rows=later))
            places = [(row.at_ms, row.seq) for row in seen]
            assert places == sorted(set(places), reverse=order == "newest")
            assert {row.request_id for row in first} <= {row.request_id for row in seen}


@each_database
async def test_a_page_has_limited_rows_and_scans_and_the_next_one_continues(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "FIRST_SCANNED", 4)
    monkeypatch.setattr(log, "MAX_SCANNED", 10)
    rows = [request_row(number, verdict="orphaned" if number in (3, 4, 35) else "completed") for number in range(40)]
    async with store_on(database, tmp_path) as store:
        await store.write(lambda conn: insert_rows(conn, rows))

        async def found_in(order: Literal["newest", "oldest"]) -> list[int]:
            found, cursor = [], None
            while True:
                wanted = RequestFilter(verdict="orphaned")
                page = await store.read(partial(list_requests, wanted=wanted, cursor=cursor, limit=1, order=order))
                found += numbers(page.rows)
                cursor = page.next
                if cursor is None:
                    return found

        assert (await found_in("newest"), await found_in("oldest")) == ([35, 4, 3], [3, 4, 35])
        by_id = await store.read(lambda conn: list_requests(conn, RequestFilter(id=rows[3].request_id)))
        monkeypatch.setattr(log, "MAX_ROWS", 7)
        for limit, expected in ((-5, 1), (0, 1), (3, 3), (10**30, 7)):
            page = await store.read(partial(list_requests, wanted=RequestFilter(), limit=limit))
            assert len(page.rows) == expected
    assert numbers(by_id.rows) == [3]
