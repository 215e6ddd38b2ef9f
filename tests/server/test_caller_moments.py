"""Callers that leave at any moment, and nothing of any of them is left (C3).

A seeded plan says for each caller how far it gets (not even a head, some of its body, so many bytes
of its answer, all of it), how it leaves (FIN, RST, half-close), and what it asks for. Many are under
way at once. Whatever happens, each request that was made leaves one record, whose usage is the
upstream's own count wherever the upstream has told it, and in the end there is no socket, task,
timer, stream or place more than before. `make soak` does it ten thousand times.
"""

import asyncio
import json
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from conftest import SOAKS
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.server.telemetry.record import RequestRecord
from support.answers import (
    anthropic_frames,
    anthropic_whole,
    gemini_frames,
    gemini_whole,
    openai_frames,
    openai_whole,
)
from support.gateway import Gate, chat_request, gateway, nothing_left
from support.raw_client import RawClient
from support.script import End, Head, Line, Seen, Send, Step
from support.scripted_upstream import ScriptedUpstream

COUNT = 10_000 if SOAKS else 300
AT_ONCE = 25
MOST_TEXTS = 30

Stop = Literal["connected", "head", "body", "asked", "answer", "end"]
STOPS: tuple[Stop, ...] = ("connected", "head", "body", "asked", "asked", "answer", "answer", "answer", "end")
LEAVE = {"fin": RawClient.close, "rst": RawClient.reset, "half-close": RawClient.half_close}
KINDS = {"openai": True, "billing": False, "anthropic": True, "gemini": False}
"""The providers, and whether leaving them ends their bill."""


@dataclass(frozen=True)
class Plan:
    number: int
    stop: Stop
    how: str
    provider: str
    dialect: str
    is_streamed: bool
    texts: int
    offset: float
    """How far into the piece in which it stops, from 0 to 1."""
    seed: int

    @property
    def id(self) -> str:
        return f"caller-{self.number}"

    @property
    def usage(self) -> tuple[int, int]:
        return 100 + self.number, self.texts

    def request(self) -> bytes:
        return chat_request(
            path=f"/{self.dialect}/v1/chat/completions",
            headers=(("x-request-id", self.id),),
            model=f"{self.provider}/m",
            stream=self.is_streamed,
            messages=[{"role": "user", "content": f"{self.number}"}],
        )


def plan_of(number: int, seed: int) -> Plan:
    chance = random.Random(f"{seed}/{number}")
    return Plan(
        number=number,
        stop=chance.choice(STOPS),
        how=chance.choice(list(LEAVE)),
        provider=chance.choice(list(KINDS)),
        dialect=chance.choice(["openai", "openai", "opentoken", "aivene", "bitseek"]),
        is_streamed=chance.random() < 0.8,
        texts=chance.randint(1, MOST_TEXTS),
        offset=chance.random(),
        seed=chance.getrandbits(32),
    )


def number_in(request: Seen) -> int:
    """Whose request it is, whatever the provider's form."""
    document = request.json
    messages = document.get("messages") or document["contents"]
    content = messages[0].get("content") or messages[0]["parts"]
    return int(content if isinstance(content, str) else content[0]["text"])


@dataclass(frozen=True)
class IdleTurns:
    """Some turns of the loop in which nothing is sent."""

    turns: int

    async def __call__(self, _: Line) -> None:
        for _turn in range(self.turns):
            await asyncio.sleep(0)


def answer(plan: Plan, request: Seen) -> list[Step]:
    texts = [f" word{index:03}" for index in range(plan.texts)]
    if not (request.json.get("stream") or "stream" in request.path):
        written = {"anthropic": anthropic_whole, "gemini": gemini_whole}.get(plan.provider, openai_whole)
        body = written("".join(texts), plan.usage)
        return [IdleTurns(plan.seed % 7), Head(200, "application/json", framing=len(body)), Send(body, 50), End()]
    frames = {"anthropic": anthropic_frames, "gemini": gemini_frames}.get(plan.provider, openai_frames)(
        texts, plan.usage
    )
    chance = random.Random(plan.seed)
    steps: list[Step] = [IdleTurns(chance.randrange(5)), Head()]
    for frame in frames:
        steps += [Send(frame), IdleTurns(chance.choice((0, 0, 0, 1, 3)))]
    return [*steps, End()]


async def go(gate: Gate, plan: Plan) -> None:
    async with await gate.connect() as client:
        request = plan.request()
        head = request.index(b"\r\n\r\n") + 4
        sent = {
            "connected": 0,
            "head": int(plan.offset * head),
            "body": head + int(plan.offset * (len(request) - head)),
        }.get(plan.stop, len(request))
        await client.send(request[:sent])
        for _ in range(plan.seed % 4):
            await asyncio.sleep(0)
        if plan.stop == "answer":
            await read_some(client, 1 + int(plan.offset * 400 * plan.texts))
        elif plan.stop == "end":
            assert (await client.response()).status == 200
        LEAVE[plan.how](client)
        if plan.how == "half-close":
            with suppress(ConnectionError):
                await client.read_to_end()


async def read_some(client: RawClient, count: int) -> None:
    """So many bytes, or as many as there are."""
    head = await client.head()
    length = head.header("content-length")
    if length is not None:
        await client.read_exactly(min(count, int(length)))
    while length is None and count > 0 and (chunk := await client.chunk()):
        count -= len(chunk)


def check(plan: Plan, record: RequestRecord) -> None:
    assert record.verdict in (Verdict.CLIENT_GONE, Verdict.COMPLETED)
    assert record.verdict is Verdict.COMPLETED or plan.stop != "end"
    assert (record.usage is None) == (record.usage_source is None)
    has_spoken = record.ttft_s is not None or not record.stream
    is_exact = record.verdict is Verdict.COMPLETED or (not KINDS[plan.provider] and has_spoken)
    if record.usage is None:
        assert record.verdict is Verdict.CLIENT_GONE
    elif is_exact or (record.usage_source is UsageSource.PROVIDER and plan.provider == "openai"):
        assert record.usage_source is UsageSource.PROVIDER
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == plan.usage


async def test_callers_that_leave_at_any_moment_leave_nothing_behind() -> None:
    seed = random.randrange(1 << 30) if SOAKS else 1
    plans = [plan_of(number, seed) for number in range(COUNT)]

    def script(request: Seen) -> list[Step]:
        return answer(plans[number_in(request)], request)

    async with nothing_left(), ScriptedUpstream(script) as up:
        toml = "".join(
            f'[[providers]]\nname = "{name}"\nkind = "{"openai" if name == "billing" else name}"\n'
            f'base_url = "{up.base_url}"\ncancel_stops_billing = {json.dumps(stops)}\n'
            for name, stops in KINDS.items()
        )
        async with gateway(toml) as gate:
            queue = iter(plans)

            async def caller() -> None:
                for plan in queue:
                    await go(gate, plan)

            await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
            await gate.vacated()
            await up.idle()
            records: dict[str | None, list[RequestRecord]] = {}
            for record in gate.records:
                records.setdefault(record.client_id, []).append(record)
            for plan in plans:
                made = records.pop(plan.id, [])
                has_asked = plan.stop not in ("connected", "head")
                if plan.stop in ("body", "asked") and plan.how == "rst":  # a reset may overtake what was sent
                    assert len(made) <= 1, plan
                else:
                    assert len(made) == has_asked, plan
                for record in made:
                    try:
                        check(plan, record)
                    except AssertionError as wrong:
                        raise AssertionError(seed, plan, record) from wrong
            assert not records
            for request in up.requests:
                assert plans[number_in(request)].stop in ("asked", "answer", "end")
