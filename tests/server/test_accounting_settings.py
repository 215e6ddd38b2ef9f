"""Money with the settings of providers: limits that the operator sets stay within what was reserved, and a whole answer
that was streamed by the upstream is billed once, as it is reported.

A token of the model `m` costs a thousandth of a dollar.
"""

from pathlib import Path
from typing import Any

import pytest

from support.accounting_gateway import MILLI, answers, keeping, max_prompt
from support.answers import openai_frames, openai_stream, openai_whole
from support.script import Fin, Head, Send, Step, in_turn, stream, whole


@pytest.mark.parametrize(
    ("rule", "asked", "expected"),
    [
        ("defaults = { max_tokens = 100000 }", None, 500),
        ("override = { max_tokens = 100000 }", None, 500),
        ("override = { max_tokens = 100000 }", 30, 30),
        ("override = { max_tokens = 10 }", 30, 10),
        ("defaults = { max_tokens = 10 }", None, 10),
        ("defaults = { max_tokens = 10 }", 30, 30),
    ],
)
async def test_a_limit_of_the_operator_is_never_more_than_was_reserved(
    rule: str, asked: int | None, expected: int, tmp_path: Path
) -> None:
    """A key without a limit of its own gets as much as its budget pays for: 500 tokens here."""
    async with keeping(answers(False), tmp_path, provider=rule) as setup:
        members: dict[str, Any] = {} if asked is None else {"max_tokens": asked}
        budget = max_prompt(model="m", stream=False, **members) + 500
        secret = await setup.new_key(budget_nano=budget * MILLI)
        assert (await setup.gate.ask(key=secret, model="m", stream=False, **members)).status == 200
        sent = setup.up.requests[0].json
        limits = {sent[name] for name in ("max_tokens", "max_completion_tokens") if name in sent}
        assert limits == {expected}
        row = await setup.row()
        assert row.held is not None
        assert row.held >= expected * MILLI
        assert row.price == 12 * MILLI


async def test_a_folded_answer_is_billed_as_it_is_reported(tmp_path: Path) -> None:
    script = stream(openai_stream(usage=(7, 5)))
    async with keeping(script, tmp_path, provider="stream_whole = true") as setup:
        secret = await setup.new_key(budget_nano=1000 * MILLI)
        assert (await setup.gate.ask(key=secret, model="m", stream=False, max_tokens=20)).status == 200
        row = await setup.row()
        assert (row.usage_source, row.price, row.stream) == ("provider", 12 * MILLI, False)


async def test_an_attempt_that_was_cut_is_not_billed_beside_the_one_that_answers(tmp_path: Path) -> None:
    cut: list[Step] = [Head(), Send(b"".join(openai_frames()[:3])), Fin()]
    async with keeping(in_turn(cut, whole(openai_whole())), tmp_path, provider="stream_whole = true") as setup:
        secret = await setup.new_key(budget_nano=1000 * MILLI)
        assert (await setup.gate.ask(key=secret, model="m", stream=False, max_tokens=20)).status == 200
        row = await setup.row()
        assert (row.verdict, row.price) == ("completed", 12 * MILLI)
        assert len(setup.up.requests) == 2
