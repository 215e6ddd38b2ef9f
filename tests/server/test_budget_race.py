"""Many streams at once with a huge `max_tokens`, on money for a few: those are served whole, and one at most is cut.

Nobody is refused while the money could pay for the smallest answer, and nothing is overspent, whether answers are
shorter or much longer than the slices in which they are reserved. A token costs a thousandth of a dollar. The provider
bills what it writes, and keeps the limit that it gets.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamweir.policy.limits.reserve import MIN_ANSWER_TOKENS
from streamweir.server.request import allowance
from support.accounting_gateway import MILLI, max_prompt
from support.answers import openai_frames
from support.deadlines import PROGRAM_TIMEOUT_S
from support.fleet import Fleet
from support.gateway import frames_of
from support.script import End, Head, Seen, Send, Step
from support.soak import SOAKS
from support.variants import fleet_of

HOLD_TOKENS = 64
PROMPT = 7
MEMBERS: dict[str, Any] = {"model": "m", "stream": True, "max_tokens": 64_000}
WORD = " information"
"""One token, by the tokenizer of the model and by every other."""
PER_FRAME = 16
CALLERS, PAYABLE = (200, 20) if SOAKS else (40, 4)
SMALLEST = max_prompt(**MEMBERS) + MIN_ANSWER_TOKENS
"""A request is refused only if less is left."""
WAIT = f"hold_tokens = {HOLD_TOKENS}\nbudget_wait_s = 600"


SETUPS = ["alone", "alone on postgres", "nodes"]


@pytest.fixture(autouse=True)
def _pauses_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer whose output must wait takes the rest after a second: on a busy machine, before others have ended."""
    monkeypatch.setattr(allowance, "_PAUSE_S", PROGRAM_TIMEOUT_S)


class Answers:
    """The upstream: an answer of one of these lengths, or as long as it may be."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.chance = Random(1)
        self.lengths = lengths
        self.billed = 0

    def script(self, seen: Seen) -> Sequence[Step]:
        wanted, limit = self.chance.choice(self.lengths), seen.json["max_completion_tokens"]
        tokens = min(wanted, limit)
        self.billed += PROMPT + tokens
        texts = [WORD * min(PER_FRAME, tokens - first) for first in range(0, tokens, PER_FRAME)]
        frames = openai_frames(texts, (PROMPT, tokens), "stop" if tokens == wanted else "length")
        return [Head(), *(Send(frame) for frame in frames), End()]


async def ask(nodes: Fleet, place: int, secret: str) -> str:
    reply = await nodes.gateways[place].ask(key=secret, **MEMBERS)
    if reply.status != 200:
        error = json.loads(reply.body)["error"]
        assert (reply.status, error["code"]) == (429, "budget_exceeded")
        assert error["budget"]["reserved_usd"] + error["budget"]["spent_usd"] <= error["budget"]["limit_usd"]
        return "refused"
    frames = frames_of(reply.body)
    if any("error" in frame for frame in frames[:-1]):
        return "cut"
    finish = next(choice["finish_reason"] for frame in frames for choice in frame["choices"] if choice["finish_reason"])
    return "whole" if finish == "stop" else "cut"


async def race(
    lengths: Sequence[int], budget: int, setup: str, folder: Path, *, is_sliced: bool = False
) -> Counter[str]:
    """How many were served whole, cut and refused. `is_sliced`: the model is known to show its answers."""
    upstream = Answers(lengths)
    async with fleet_of(setup, upstream.script, folder, store=WAIT) as nodes:
        secret = await nodes.new_key(budget_nano=budget * MILLI)
        for each in nodes.setups if is_sliced else ():
            for _ in range(32):
                each.storage.accounting.budgets.memory.note("another", "m", 1024, 1024 * len(WORD), reasons=False)
        began_at = time.monotonic()
        asking = [ask(nodes, number % len(nodes.gateways), secret) for number in range(CALLERS)]
        results = Counter(await asyncio.gather(*asking))
        took_s = time.monotonic() - began_at
        for gate in nodes.gateways:
            await gate.vacated()
        spent, held = await nodes.spent_and_held()
        print(f"{setup} {lengths} {dict(results)} spent {spent / MILLI:.0f} of {budget} in {took_s:.1f} s")  # noqa: T201
        assert held == 0
        assert spent <= budget * MILLI
        assert not results["refused"] or budget * MILLI - spent < SMALLEST * MILLI
    return results


@pytest.mark.diagonal
@pytest.mark.parametrize("length", [40, 1000], ids=["short", "long"])
@pytest.mark.parametrize("is_sliced", [False, True], ids=["reserved whole", "in slices"])
@pytest.mark.parametrize("setup", SETUPS)
async def test_those_that_can_be_paid_for_are_served_whole(
    setup: str, is_sliced: bool, length: int, tmp_path: Path
) -> None:
    budget = PAYABLE * (PROMPT + length) + SMALLEST - PROMPT - min(length, MIN_ANSWER_TOKENS)
    results = await race([length], budget, setup, tmp_path, is_sliced=is_sliced)
    assert results["whole"] == PAYABLE
    assert results["cut"] <= 1
    assert results["refused"] == CALLERS - PAYABLE - results["cut"]


@pytest.mark.parametrize("setup", SETUPS)
async def test_answers_of_any_length_spend_no_more_than_there_is(setup: str, tmp_path: Path) -> None:
    results = await race([50, 300, 2000], PAYABLE * 1000, setup, tmp_path)
    assert results["whole"] >= PAYABLE // 2
    assert results["refused"]
