"""Series of usage: every grouping and step adds up to the same, and to what was written."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from streamweir.core.errors import CallerError
from streamweir.store.record import plain
from streamweir.store.tables import usage_hours
from streamweir.store.usage import HOUR_MS, Grouping, Step, UsageFilter, UsageSum, list_groups, list_series, sum_usage
from support.foreign import FOREIGN
from support.stores import each_database, store_on

FIRST = 24 * 20_000
ALWAYS = UsageFilter(since_ms=FIRST * HOUR_MS, until_ms=(FIRST + 24 * 4) * HOUR_MS)
STEPS: tuple[Step, ...] = ("hour", "day")
GROUPINGS: tuple[Grouping, ...] = ("total", "key", "model", "provider")
_NAMES = UsageSum.__struct_fields__


def hour_row(hour: int, chance: random.Random, **more: Any) -> dict[str, Any]:
    return {
        "hour": FIRST + hour,
        "workspace_id": chance.choice("ab"),
        "key_id": f"key_{chance.randrange(6)}",
        "model": f"m{chance.randrange(3)}",
        "provider": chance.choice(("openai", "anthropic")),
        **{name: chance.randrange(10**6) for name in _NAMES},
        **more,
    }


def rows_of(seed: int, count: int = 150) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    rows = [hour_row(chance.randrange(24 * 4), chance) for _ in range(count)]
    return list({tuple(row.values())[:5]: row for row in rows}.values())


def added(sums: list[UsageSum]) -> UsageSum:
    return UsageSum(**{name: sum(getattr(each, name) for each in sums) for name in _NAMES})


def expected_sum(rows: list[dict[str, Any]], **which: str) -> UsageSum:
    chosen = [row for row in rows if all(row[name] == value for name, value in which.items())]
    return UsageSum(**{name: sum(row[name] for row in chosen) for name in _NAMES})


@each_database
async def test_every_grouping_adds_up_to_what_was_written(database: str, tmp_path: Path) -> None:
    rows = rows_of(1)
    async with store_on(database, tmp_path) as store:
        await store.write(lambda conn: conn.execute(insert(usage_hours), rows).rowcount)
        for workspace in (None, "a", "b", "nobody's"):
            wanted = UsageFilter(since_ms=ALWAYS.since_ms, until_ms=ALWAYS.until_ms, workspace_id=workspace)
            total = await store.read(partial(sum_usage, wanted=wanted))
            assert total == expected_sum(rows, **({} if workspace is None else {"workspace_id": workspace}))
            for by in GROUPINGS:
                groups = await store.read(partial(list_groups, wanted=wanted, by=by))
                assert added([each.sum for each in groups]) == total
                for step in STEPS:
                    for most in (20, 2, 1):
                        points = await store.read(partial(list_series, wanted=wanted, step=step, by=by, groups=most))
                        assert added([each.sum for each in points]) == total
                        places = [(each.at_ms, each.group or "~") for each in points]
                        assert places == sorted(set(places))
                        assert len({each.group for each in points} - {None}) <= most
        for row in rows[:3]:
            which = {name: row[name] for name in ("key_id", "model", "provider")}
            narrow = UsageFilter(since_ms=ALWAYS.since_ms, until_ms=ALWAYS.until_ms, **which)
            assert await store.read(partial(sum_usage, wanted=narrow)) == expected_sum(rows, **which)


@each_database
async def test_steps_are_those_of_utc_and_a_period_is_of_whole_hours(database: str, tmp_path: Path) -> None:
    chance = random.Random(2)
    rows = [hour_row(hour, chance, requests=1, cost=10**15) for hour in (0, 23, 24, 47, 48)]
    async with store_on(database, tmp_path) as store:
        await store.write(lambda conn: conn.execute(insert(usage_hours), rows).rowcount)
        days = await store.read(partial(list_series, wanted=ALWAYS, step="day"))
        assert [(each.at_ms // HOUR_MS - FIRST, each.sum.requests, each.sum.cost) for each in days] == [
            (0, 2, 2 * 10**15),
            (24, 2, 2 * 10**15),
            (48, 1, 10**15),
        ]
        hours = await store.read(partial(list_series, wanted=ALWAYS, step="hour"))
        assert [each.at_ms // HOUR_MS - FIRST for each in hours] == [0, 23, 24, 47, 48]
        from_second = UsageFilter(since_ms=ALWAYS.since_ms + 1, until_ms=(FIRST + 47) * HOUR_MS + 1)
        assert (await store.read(partial(sum_usage, wanted=from_second))).requests == 3
        nothing = UsageFilter(since_ms=10**30, until_ms=-(10**30))
        assert await store.read(partial(sum_usage, wanted=nothing)) == UsageSum()
        assert await store.read(partial(list_series, wanted=nothing, step="day", by="model")) == []
        with pytest.raises(CallerError, match="steps"):
            await store.read(partial(list_series, wanted=UsageFilter(since_ms=0, until_ms=10**15), step="hour"))


@each_database
async def test_groups_are_the_dearest_first_and_foreign_names_are_kept(database: str, tmp_path: Path) -> None:
    chance = random.Random(3)
    names = list(dict.fromkeys(plain(text) for text in FOREIGN))
    rows = [hour_row(0, chance, model=name, cost=number) for number, name in enumerate(names)]
    async with store_on(database, tmp_path) as store:
        await store.write(lambda conn: conn.execute(insert(usage_hours), rows).rowcount)
        groups = await store.read(partial(list_groups, wanted=ALWAYS, by="model", limit=10**9))
        assert [each.group for each in groups] == names[::-1]
        points = await store.read(partial(list_series, wanted=ALWAYS, step="day", by="model", groups=3))
        assert {each.group for each in points} == {*names[-3:], None}
        for text in FOREIGN:
            wanted = UsageFilter(since_ms=ALWAYS.since_ms, until_ms=ALWAYS.until_ms, model=text)
            found = await store.read(partial(list_groups, wanted=wanted, by="model"))
            assert [each.group for each in found] == [plain(text)]
            of_nobody = UsageFilter(since_ms=ALWAYS.since_ms, until_ms=ALWAYS.until_ms, workspace_id=text + "-")
            assert await store.read(partial(sum_usage, wanted=of_nobody)) == UsageSum()
