"""Tokens that are billed and never shown spend no more than a budget has, if the provider keeps the limit that it gets.

A model may show all of its answers for a while, and then think without showing it. A token costs a thousandth of a
dollar, so amounts read as tokens.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.accounting_gateway import MILLI, keeping, max_prompt
from support.answers import openai_frames, openai_stream, openai_whole
from support.fleet import fleet
from support.script import End, Head, Rst, Seen, Send, Step, stream, whole
from support.soak import SOAKS
from support.stores import one_database
from support.variants import VARIANTS, fleet_of

WORD = " information"
"""One token."""
CALLERS = 50 if SOAKS else 5
HIDDEN = 30_000
BUDGET = 10_000
MEMBERS: dict[str, Any] = {"model": "m", "stream": True, "max_tokens": 64_000}


class Hiding:
    """Shows everything in its first answers. Then it shows one word, and bills as much as it may."""

    def __init__(self, shown: int, *, keeps_limit: bool = True) -> None:
        self.shown = shown
        self.keeps_limit = keeps_limit

    def script(self, seen: Seen) -> Sequence[Step]:
        if seen.number < self.shown:
            return stream(openai_stream([WORD] * 50, (7, 50)))
        limit = seen.json.get("max_completion_tokens", HIDDEN)
        return stream(openai_stream(["42"], (7, min(HIDDEN, limit) if self.keeps_limit else HIDDEN)))


@pytest.mark.diagonal
@one_database
@pytest.mark.parametrize("limit", [{}, {"max_tokens": None}], ids=["with a limit", "without"])
async def test_a_model_that_hides_what_it_showed_before_overspends_nothing(
    limit: dict[str, Any], database: str, tmp_path: Path
) -> None:
    members = {name: value for name, value in (MEMBERS | limit).items() if value is not None}
    upstream = Hiding(3)
    store = "hold_tokens = 1024\nbudget_wait_s = 600"
    async with fleet(upstream.script, tmp_path, database=database, store=store) as nodes:
        (setup,) = nodes.setups
        secret = await nodes.new_key(budget_nano=BUDGET * MILLI)
        for number in range(upstream.shown):
            assert (await setup.gate.ask(key=secret, **members)).status == 200
            await setup.gate.settled(number + 1)
        replies = await asyncio.gather(*[setup.gate.ask(key=secret, **members) for _ in range(CALLERS)])
        assert [reply.status for reply in replies].count(200) >= 2, "they run at once, each with a part of the money"
        await setup.gate.vacated()
        spent, held = await nodes.spent_and_held()
        assert (spent <= BUDGET * MILLI, held) == (True, 0)
        assert not [row for row in await nodes.rows() if "over_reserved" in row.flags]


async def test_what_a_provider_bills_beyond_its_limit_is_marked(tmp_path: Path) -> None:
    """Nobody can prevent it: the bill is the first that is seen of it."""
    async with keeping(Hiding(0, keeps_limit=False).script, tmp_path) as setup:
        secret = await setup.new_key(budget_nano=BUDGET * MILLI)
        assert (await setup.gate.ask(key=secret, **MEMBERS)).status == 200
        row = await setup.row()
        assert (row.price, row.held) == ((7 + HIDDEN) * MILLI, BUDGET * MILLI)
        assert row.flags == ["max_tokens_lowered", "over_reserved"]
        assert (await setup.gate.ask(key=secret, **MEMBERS)).status == 429


async def test_a_limit_that_does_not_fit_is_lowered_to_what_answers_need_and_others_run_beside_it(
    tmp_path: Path,
) -> None:
    async with keeping(stream(openai_stream([WORD] * 50, (7, 50))), tmp_path, store="hold_tokens = 64") as setup:
        secret = await setup.new_key(budget_nano=BUDGET * MILLI)
        await setup.gate.ask(key=secret, **MEMBERS)
        await setup.row()
        await setup.gate.ask(key=secret, **MEMBERS)
        row = await setup.row(2)
        left = BUDGET - 57
        assert setup.up.requests[0].json["max_completion_tokens"] == BUDGET - max_prompt(**MEMBERS), "nothing is known"
        assert setup.up.requests[1].json["max_completion_tokens"] == left // 4
        assert (row.held, row.flags) == ((max_prompt(**MEMBERS) + left // 4) * MILLI, ["max_tokens_lowered"])
        await setup.gate.ask(key=secret, **MEMBERS | {"max_tokens": 9000})
        assert (await setup.row(3)).flags == [], "a limit that fits is not lowered"


LIMITS: list[dict[str, Any]] = [{}, *({"max_tokens": limit} for limit in (50, 2000, 64_000))]


class Moody:
    """Shows everything, hides nearly everything, sends its answer at once or in pieces, or breaks off."""

    def __init__(self) -> None:
        self.chance = Random(7)

    def script(self, seen: Seen) -> Sequence[Step]:
        chance, limit = self.chance, seen.json["max_completion_tokens"]
        tokens = min(limit, chance.choice((10, 60, 400, 3000, HIDDEN)))
        if not seen.json.get("stream"):
            return whole(openai_whole("42", usage=(7, tokens)))
        shown = tokens if chance.random() < 0.5 else 1
        texts = [WORD * min(100, shown - first) for first in range(0, shown, 100)]
        frames = openai_frames(texts, (7, tokens))
        if chance.random() < 0.2:
            return [Head(), *map(Send, frames[: len(frames) // 2]), Rst()]
        return [Head(), *map(Send, frames), End()] if chance.random() < 0.5 else stream(b"".join(frames))


@pytest.mark.soak
@pytest.mark.parametrize("variant", VARIANTS)
async def test_whatever_a_provider_does_within_its_limits_spends_no_more_than_there_is(
    variant: str, tmp_path: Path
) -> None:
    upstream = Moody()
    chance = upstream.chance
    async with fleet_of(variant, upstream.script, tmp_path, store="hold_tokens = 64\nbudget_wait_s = 1") as nodes:
        for number in range(20):
            budget = chance.randrange(500, 30_000)
            secret = await nodes.new_key(f"k{number}", budget_nano=budget * MILLI)
            asking = [
                chance.choice(nodes.gateways).ask(
                    key=secret, model="m", stream=chance.random() < 0.7, **chance.choice(LIMITS)
                )
                for _ in range(40)
            ]
            statuses = {reply.status for reply in await asyncio.gather(*asking)}
            assert statuses <= {200, 429, 502}
            for gate in nodes.gateways:
                await gate.vacated()
            rows = await nodes.rows(nodes.setups[0].key_id(secret))
            assert sum(row.price or 0 for row in rows) <= budget * MILLI
            assert not [row for row in rows if "over_reserved" in (row.flags or ())]
