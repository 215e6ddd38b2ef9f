"""A client that resumes, a real gateway, and a way between them that loses connections: one answer, one charge."""

import asyncio

import pytest

from streamweir.client import Resume, TextDelta
from streamweir.client.api import Api
from streamweir.core.verdict import Verdict
from support.answers import TEXTS, openai_frames, token_steps
from support.client_calls import AT_ONCE, KINDS, caller
from support.cutting_proxy import CuttingProxy
from support.gateway import KEY, gateway_to
from support.script import Head, Send, Step, Wait
from support.soak import one_of_each

CUTS = (700, 400, 0, 900)
AGAIN = Resume(base_s=0, cap_s=0)
ROWS: tuple[tuple[Api, str | None], ...] = (
    ("chat", "openai"),
    ("chat", "opentoken"),
    ("chat", "aivene"),
    ("messages", None),
    ("responses", None),
)


@pytest.mark.parametrize(("row", "kind"), one_of_each(ROWS, KINDS))
async def test_lost_connections_are_not_seen(row: tuple[Api, str | None], kind: str) -> None:
    api, dialect = row
    words = [f"word{number} " for number in range(60)]
    script = token_steps(openai_frames(words))
    async with gateway_to(script) as (gate, up), CuttingProxy(gate.address, CUTS) as proxy:
        async with caller(
            kind, f"{proxy.base_url}/v1", api_key=KEY, api=api, dialect=dialect, retries=AT_ONCE, resume=AGAIN
        ) as ask:
            answer = await ask.final(model="up/m", messages="Hi", max_tokens=100)
        assert (answer.text, answer.is_whole) == ("".join(words), True)
        assert proxy.done == len(CUTS)
        (record,) = await gate.settled()
        assert record.verdict is Verdict.COMPLETED
        assert len(up.requests) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_the_gateway_does_not_wait_for_a_client_that_has_left(kind: str) -> None:
    never = asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(openai_frames()[:3])), Wait(never)]
    async with gateway_to(script) as (gate, _), CuttingProxy(gate.address, (400,)) as proxy:
        async with caller(kind, f"{proxy.base_url}/v1", api_key=KEY, retries=AT_ONCE, resume=AGAIN) as ask:
            answer = await ask.leave(lambda event: isinstance(event, TextDelta), model="up/m", messages="Hi")
        assert answer.text.startswith(TEXTS[0])
        (record,) = await gate.settled()
        assert record.verdict is Verdict.CLIENT_GONE
        never.set()
