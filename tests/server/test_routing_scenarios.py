"""What callers get while providers fail, with figures: many requests at once, over real sockets.

Every caller must be served as long as one candidate can answer. `pytest --junitxml FILE` writes the figures of each
scenario; `make soak` sends more requests. The parts of each rule have tests of their own.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from support.answers import error_body, openai_stream, openai_whole
from support.gateway import Gate, gateway, routed
from support.outcome import CANARY, assert_completed, assert_whole
from support.script import Hang, Script, Seen, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.soak import SOAKS

REQUESTS = 1000 if SOAKS else 60
AT_ONCE = 20
TEXT = "Served."
STREAMED, WHOLE = stream(openai_stream([TEXT])), whole(openai_whole(TEXT))


def answer(request: Seen) -> Sequence[Step]:
    return STREAMED if request.json.get("stream") else WHOLE


def refusal(status: int, *fields: tuple[str, str]) -> Sequence[Step]:
    return whole(error_body(CANARY), status, fields)


Report = Callable[[str, object], None]


async def serve_all(report: Report, gate: Gate, ups: dict[str, ScriptedUpstream], model: str = "any") -> None:
    """Half of the callers stream. Every one of them must get its answer."""
    for first in range(0, REQUESTS, AT_ONCE):
        asked = [gate.ask(model=model, stream=bool(number % 2)) for number in range(AT_ONCE)]
        for number, reply in enumerate(await asyncio.gather(*asked)):
            if number % 2:
                assert_completed(reply, text=TEXT)
            else:
                assert_whole(reply, text=TEXT)
        await gate.settled(first + AT_ONCE)
    report("served", f"{len(gate.records)} of {REQUESTS}")
    for made, count in sorted(Counter(len(record.attempts) for record in gate.records).items()):
        report(f"with {made} attempts", count)
    for name, up in ups.items():
        report(f"calls of {name}", len(up.requests))


def targets(*names: str) -> str:
    return ", ".join(f'{{ provider = "{name}", model = "m" }}' for name in names)


async def test_a_primary_that_limits_half_of_its_calls(record_property: Report) -> None:
    def limits_half(request: Seen) -> Sequence[Step]:
        return refusal(429, ("retry-after", "0")) if request.number % 2 else answer(request)

    toml = f'[[models]]\nid = "any"\ntargets = [{targets("first", "second")}]\n'
    async with routed(toml, first=limits_half, second=answer) as (gate, ups):
        await serve_all(record_property, gate, ups)
        assert ups["second"].requests


async def test_a_primary_that_hangs(record_property: Report) -> None:
    toml = (
        f'[[models]]\nid = "any"\ntargets = [{{ provider = "first", model = "m", first_event_s = 0.1 }},'
        f" {targets('second')}]\n"
    )
    async with routed(toml, first=[Hang()], second=answer) as (gate, ups):
        await serve_all(record_property, gate, ups)
        assert len(ups["second"].requests) == REQUESTS
        assert len(ups["first"].requests) < REQUESTS, "it is ejected"


@pytest.mark.parametrize("strategy", ["weighted", "fastest", "least_busy", "cheapest"])
async def test_a_group_of_three_with_one_dead(strategy: str, record_property: Report) -> None:
    toml = (
        f'[[models]]\nid = "any"\nstrategy = "{strategy}"\naffinity = false\ntargets = [{targets("a", "b", "dead")}]\n'
        '[[providers]]\nname = "dead"\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\napi_key = "sk-none"\n'
    )
    async with routed(toml, a=answer, b=answer) as (gate, ups):
        await serve_all(record_property, gate, ups)


@pytest.mark.parametrize("status", [401, 429])
async def test_a_pool_of_keys_with_one_that_is_refused(status: int, record_property: Report) -> None:
    def refuses_one(request: Seen) -> Sequence[Step]:
        is_refused = request.headers["authorization"].endswith("-revoked-secret")
        return refusal(status, ("retry-after", "60")) if is_refused else answer(request)

    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(ScriptedUpstream(refuses_one))
        gate = await stack.enter_async_context(
            gateway(
                f'[routing]\naffinity_s = 0\n[[providers]]\nname = "up"\nkind = "openai"\nbase_url = "{up.base_url}"\n'
                'api_keys = ["sk-first-good-secret", "sk-second-revoked-secret", "sk-third-good-secret"]\n'
            )
        )
        await serve_all(record_property, gate, {"up": up}, model="up/m")
        used = Counter(request.headers["authorization"].split("-")[1] for request in up.requests)
        for name, count in sorted(used.items()):
            record_property(f"calls with the {name} key", count)
        assert 1 <= used["second"] <= AT_ONCE, "only those that were sent before its first answer"
        assert used["first"] + used["third"] == REQUESTS


async def test_a_chain_of_three_fallbacks(record_property: Report) -> None:
    toml = "".join(
        f'[[models]]\nid = "{name}"\ntargets = [{targets(name)}]\nfallbacks = [{following}]\n'
        for name, following in (("any", '"second"'), ("second", '"third"'), ("third", ""))
    )
    scripts: dict[str, Script] = {"any": refusal(500), "second": refusal(503), "third": answer}
    async with routed(toml, **scripts) as (gate, ups):
        await serve_all(record_property, gate, ups)
        assert len(ups["third"].requests) == REQUESTS
