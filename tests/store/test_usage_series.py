"""Series of usage: every grouping and step adds up to the same, and to what was written."""

import random
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, insert

from streamweir.core.errors import CallerError
from streamweir.policy.routing.latency import BUCKETS
from streamweir.store.db.tables import SUMS, TTFT, USAGE, usage_days, usage_hours, usage_minutes, usage_quarters
from streamweir.store.journal.entries import plain
from streamweir.store.requests.usage import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    QUARTER_MS,
    Grouping,
    Step,
    UsageFilter,
    UsageSum,
    read_usage,
    step_ms,
    sum_usage,
    was_used,
)
from support.request_rows import insert_rows, request_row
from support.soak import part_of
from support.stores import DATABASES, each_database, store_on
from support.untrusted_texts import FOREIGN

FIRST_MS = 20_000 * DAY_MS
TABLES: dict[Step, tuple[Table, int]] = {
    "minute": (usage_minutes, MINUTE_MS),
    "quarter": (usage_quarters, QUARTER_MS),
    "hour": (usage_hours, HOUR_MS),
    "two_hours": (usage_hours, HOUR_MS),
    "day": (usage_days, DAY_MS),
}
GROUPINGS: tuple[Grouping, ...] = ("total", "key", "model", "provider")
UNITS = 96


def usage_row(at: int, chance: random.Random, **more: Any) -> dict[str, Any]:
    return {
        "at": at,
        "workspace_id": chance.choice("ab"),
        "key_id": f"key_{chance.randrange(6)}",
        "model": f"m{chance.randrange(3)}",
        "provider": chance.choice(("openai", "anthropic")),
        **{name: chance.randrange(10**6) for name in (*SUMS, *TTFT)},
        **more,
    }


def rows_of(seed: int, count: int = 150) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    rows = [usage_row(chance.randrange(UNITS), chance) for _ in range(count)]
    return list({tuple(row.values())[:5]: row for row in rows}.values())


def placed(table: Table, unit_ms: int, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the table has them, from the first moment on."""
    unit = table.primary_key.columns.keys()[0]
    return [{unit: FIRST_MS // unit_ms + row["at"]} | {name: row[name] for name in row if name != "at"} for row in rows]


def fill(conn: Any, rows: list[dict[str, Any]]) -> None:
    for table, unit_ms in dict(TABLES.values()).items():
        conn.execute(insert(table), placed(table, unit_ms, rows))


def always(step: Step, **more: Any) -> UsageFilter:
    return UsageFilter(since_ms=FIRST_MS, until_ms=FIRST_MS + UNITS * TABLES[step][1], **more)


def added(sums: Iterable[UsageSum]) -> UsageSum:
    found = list(sums)
    ttft = tuple(sum(each.ttft[bucket] for each in found) for bucket in range(BUCKETS))
    return UsageSum(**{name: sum(getattr(each, name) for each in found) for name in SUMS}, ttft=ttft)


def expected_sum(rows: list[dict[str, Any]], **which: str) -> UsageSum:
    chosen = [row for row in rows if all(row[name] == value for name, value in which.items())]
    ttft = tuple(sum(row[name] for row in chosen) for name in TTFT)
    return UsageSum(**{name: sum(row[name] for row in chosen) for name in SUMS}, ttft=ttft)


@pytest.mark.parametrize("database", part_of(DATABASES, 2))
async def test_every_grouping_adds_up_to_what_was_written(database: str, tmp_path: Path) -> None:
    rows = rows_of(1)
    async with store_on(database, tmp_path) as store:
        await store.write(partial(fill, rows=rows))
        for step in TABLES:
            for workspace in (None, "a", "b", "nobody's"):
                wanted = always(step, workspace_id=workspace)
                total = await store.read(partial(sum_usage, wanted=wanted, step=step))
                assert total == expected_sum(rows, **({} if workspace is None else {"workspace_id": workspace}))
                for by in GROUPINGS:
                    for most in (20, 2, 1) if workspace is None else (2,):
                        found = await store.read(partial(read_usage, wanted=wanted, step=step, by=by, groups=most))
                        assert found.total == total
                        for part in (found.groups, found.series, found.group_series):
                            assert added(each.sum for each in part) == total
                        places = [(each.at_ms, each.group or "~") for each in found.group_series]
                        assert places == sorted(set(places))
                        moments = [each.at_ms for each in found.series]
                        assert moments == sorted({at_ms for at_ms, _ in places})
                        assert all(at_ms % step_ms(step) == 0 for at_ms in moments)
                        names = [each.group for each in found.groups]
                        assert set(names) == {each.group for each in found.group_series}
                        assert len(set(names) - {None}) <= most
                        assert None not in names[:-1], "the others come last"
                        prices = [each.sum.price for each in found.groups if each.group is not None]
                        assert prices == sorted(prices, reverse=True)
            for row in rows[:3]:
                which = {name: row[name] for name in USAGE[1:]}
                narrow = always(step, **which)
                assert await store.read(partial(sum_usage, wanted=narrow, step=step)) == expected_sum(rows, **which)


@each_database
async def test_steps_are_those_of_utc_and_a_period_is_of_whole_steps(database: str, tmp_path: Path) -> None:
    chance = random.Random(2)
    rows = [usage_row(at, chance, requests=1, cost=10**15) for at in (0, 1, 14, 15, 29, 30)]
    expected: dict[Step, list[tuple[int, int]]] = {
        "minute": [(0, 1), (1, 1), (14, 1), (15, 1), (29, 1), (30, 1)],
        "quarter": [(0, 1), (1, 1), (14, 1), (15, 1), (29, 1), (30, 1)],
        "hour": [(0, 1), (1, 1), (14, 1), (15, 1), (29, 1), (30, 1)],
        "two_hours": [(0, 2), (14, 2), (28, 1), (30, 1)],
        "day": [(0, 1), (1, 1), (14, 1), (15, 1), (29, 1), (30, 1)],
    }
    async with store_on(database, tmp_path) as store:
        await store.write(partial(fill, rows=rows))
        for step, points in expected.items():
            unit_ms = TABLES[step][1]
            found = await store.read(partial(read_usage, wanted=always(step), step=step))
            assert [((each.at_ms - FIRST_MS) // unit_ms, each.sum.requests) for each in found.series] == points
            assert [each.sum.cost for each in found.series] == [count * 10**15 for _, count in points]
            assert found.group_series == found.series
            inner = UsageFilter(since_ms=FIRST_MS + 1, until_ms=FIRST_MS + 15 * unit_ms + 1)
            begun = [count for at, count in points if 0 < at <= 15]
            assert (await store.read(partial(sum_usage, wanted=inner, step=step))).requests == sum(begun)
            within = await store.read(partial(read_usage, wanted=inner, step=step))
            assert [each.sum.requests for each in within.series] == begun
            nothing = UsageFilter(since_ms=10**30, until_ms=-(10**30))
            assert await store.read(partial(sum_usage, wanted=nothing, step=step)) == UsageSum()
            empty = await store.read(partial(read_usage, wanted=nothing, step=step, by="model"))
            assert (empty.total, empty.groups, empty.series, empty.group_series) == (UsageSum(), [], [], [])
            with pytest.raises(CallerError, match="steps"):
                await store.read(partial(read_usage, wanted=UsageFilter(since_ms=0, until_ms=10**15), step=step))


@each_database
async def test_whether_there_ever_was_a_request(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        assert not await store.read(partial(was_used, workspace_id=None))
        rows = placed(usage_days, DAY_MS, [usage_row(0, random.Random(4), workspace_id="purged")])
        await store.write(lambda conn: conn.execute(insert(usage_days), rows).rowcount)
        await store.write(lambda conn: insert_rows(conn, [request_row(1, workspace_id="refused")]))
        for workspace, expected in ((None, True), ("purged", True), ("refused", True), ("other", False)):
            assert await store.read(partial(was_used, workspace_id=workspace)) == expected


@each_database
async def test_groups_are_sorted_by_price_and_untrusted_names_are_kept(database: str, tmp_path: Path) -> None:
    chance = random.Random(3)
    names = list(dict.fromkeys(plain(text) for text in FOREIGN))
    rows = [usage_row(0, chance, model=name, price=number) for number, name in enumerate(names)]
    async with store_on(database, tmp_path) as store:
        await store.write(partial(fill, rows=rows))
        wanted = always("day")
        found = await store.read(partial(read_usage, wanted=wanted, step="day", by="model", groups=10**9))
        assert [each.group for each in found.groups] == names[::-1]
        found = await store.read(partial(read_usage, wanted=wanted, step="day", by="model", groups=3))
        assert [each.group for each in found.groups] == [*names[:-4:-1], None]
        assert {each.group for each in found.group_series} == {*names[-3:], None}
        for text in FOREIGN:
            found = await store.read(partial(read_usage, wanted=always("day", model=text), step="day", by="model"))
            assert [each.group for each in found.groups] == [plain(text)]
            of_nobody = always("day", workspace_id=text + "-")
            assert await store.read(partial(sum_usage, wanted=of_nobody, step="day")) == UsageSum()
