"""Callers that come and go, providers that fail in every way, reloads in between: in the end nothing is held.

Neither room within a limit, nor a running attempt, nor a probe of a target or a key. How each request ends is left to
chance, and not looked at here; `test_routing_scenarios` does that.
"""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from conftest import SOAKS
from streamweir.policy.routing.router import Router
from support.answers import error_body, openai_stream, openai_whole
from support.gateway import Gate, chat_request, configured, gateway
from support.raw_client import CutShort
from support.script import Hang, Head, Rst, Seen, Send, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream

CALLERS, REQUESTS = (16, 25) if SOAKS else (8, 8)
RELOADS = 8
MODELS = ("any", "any", "second", "large", "p/made-up", "q/made-up")


def toml(first: str, second: str, keys: int) -> str:
    """The keys of `p` change with each reload."""
    listed = ", ".join(f'{{ name = "k{each}", key = "canary-{each}-key", max_streams = 3 }}' for each in range(keys))
    return f"""
[routing]
max_attempts = 4
[server.timeouts]
first_event_s = 0.2
idle_s = 0.5
total_s = 1.0
abandoned_s = 0.5
[[providers]]
name = "p"
kind = "openai"
base_url = "{first}"
api_keys = [{listed}]
ejection_s = 0.1
max_failures = 2
[[providers]]
name = "q"
kind = "openai"
base_url = "{second}"
api_key = "canary-q"
max_streams = 4
ejection_s = 0.1
max_failures = 2
[[models]]
id = "any"
strategy = "least_busy"
targets = [
    {{ provider = "p", model = "m", max_streams = 5 }},
    {{ provider = "q", model = "m" }},
    {{ provider = "p", model = "n", stage = 2 }},
]
fallbacks = ["second"]
context_fallbacks = ["large"]
[[models]]
id = "second"
strategy = "fastest"
targets = [{{ provider = "q", model = "o", max_streams = 2 }}, {{ provider = "p", model = "o" }}]
[[models]]
id = "large"
targets = [{{ provider = "q", model = "large" }}]
context_fallbacks = ["second"]
"""


def answer(chance: Random, request: Seen) -> Sequence[Step]:
    served = stream(openai_stream()) if request.json.get("stream") else whole(openai_whole())
    failures: list[Sequence[Step]] = [
        whole(error_body("no"), 500),
        whole(error_body("slow", code="rate_limit_exceeded"), 429, [("retry-after", "0")]),
        whole(error_body("bad key", code="invalid_api_key"), 401),
        whole(error_body("no access"), 403),
        whole(error_body("too long", code="context_length_exceeded"), 400),
        whole(error_body("Unknown parameter: 'stream_options'."), 400),
        [Head(), Rst()],
        [Head(), Send(openai_stream()[:200]), Rst()],
        [Hang()],
        [Head(), Send(b": waiting\n\n"), Hang()],
    ]
    return served if chance.random() < 0.6 else chance.choice(failures)


async def call(gate: Gate, chance: Random) -> None:
    for _ in range(REQUESTS):
        async with await gate.connect() as client:
            named: dict[str, Any] = {"prompt_cache_key": str(chance.randrange(5))}
            await client.send(chat_request(model=chance.choice(MODELS), stream=chance.random() < 0.6, **named))
            if chance.random() < 0.4:
                for _ in range(chance.randrange(50)):  # it leaves at any moment
                    await asyncio.sleep(0)
                continue
            try:
                await client.response()
            except CutShort:
                continue


def held(router: Router) -> list[object]:
    found: list[object] = [each for each, health, _ in router.known() if health.running or health._probe is not None]
    return found + [
        (pool.provider, each.name)
        for pool in router.pools.values()
        for each, health in pool.known()
        if health._probe is not None
    ]


@pytest.mark.parametrize("seed", range(10 if SOAKS else 1))
async def test_in_the_end_nothing_is_held(seed: int) -> None:
    chance = Random(seed)

    def script(request: Seen) -> Sequence[Step]:
        return answer(chance, request)

    async with (
        ScriptedUpstream(script) as one,
        ScriptedUpstream(script) as other,
        gateway(toml(one.base_url, other.base_url, 3)) as gate,
    ):
        routers = [gate.gateway.runtime.router]
        calls = [asyncio.create_task(call(gate, chance)) for _ in range(CALLERS)]
        for number in range(RELOADS):
            await one.seen(number + 1)
            gate.gateway.reload(configured(toml(one.base_url, other.base_url, 2 + number % 3)))
            routers.append(gate.gateway.runtime.router)
        await asyncio.gather(*calls)
        await gate.vacated()
        assert [each for router in routers for each in held(router)] == []
        limits = gate.gateway.accounting.targets._local._keys
        assert {name: each.streams for name, each in limits.items() if each.streams} == {}
        assert "streamweir_faults_total{" not in gate.gateway.metrics_text().decode()
