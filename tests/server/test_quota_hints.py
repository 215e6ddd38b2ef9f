"""What providers report of their own limits: a target whose quota cannot hold the request is asked last, and asked."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from support.answers import error_body, openai_stream
from support.gateway import Gate, gateway, providers
from support.outcome import ALIAS
from support.script import End, Head, Script, Seen, Send, Step
from support.scripted_upstream import ScriptedUpstream

EMPTY = {
    "openai, no requests": [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6m0s")],
    "openai, few tokens": [("x-ratelimit-remaining-tokens", "20"), ("x-ratelimit-reset-tokens", "60s")],
    "anthropic": [
        ("date", "Thu, 21 Aug 2025 12:40:59 GMT"),
        ("anthropic-ratelimit-requests-remaining", "900"),
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2025-08-21T12:41:59Z"),
    ],
}
ENOUGH = [("x-ratelimit-remaining-requests", "100"), ("x-ratelimit-remaining-tokens", "100000")]
NONSENSE = [("x-ratelimit-remaining-requests", "-1"), ("x-ratelimit-remaining-tokens", "many")]


def answer(headers: Sequence[tuple[str, str]] = (), status: int = 200) -> list[Step]:
    if status != 200:
        return [Head(status, "application/json", list(headers)), Send(error_body("no")), End()]
    return [Head(headers=list(headers)), Send(openai_stream()), End()]


@asynccontextmanager
async def two(first: Script, second: Script) -> AsyncIterator[tuple[Gate, ScriptedUpstream]]:
    """The gateway, and the second upstream."""
    async with ScriptedUpstream(first) as one, ScriptedUpstream(second) as other:
        async with gateway(providers(first=one.base_url, second=other.base_url) + ALIAS) as gate:
            yield gate, other
            await gate.vacated()
        await one.vacated()


async def targets_of(gate: Gate, count: int, model: str = "either") -> list[list[str]]:
    for _ in range(count):
        assert (await gate.ask(model=model, stream=True, max_tokens=30)).status == 200
    return [[attempt.target for attempt in record.attempts] for record in await gate.settled(count)]


@pytest.mark.parametrize("headers", EMPTY.values(), ids=EMPTY.keys())
async def test_a_target_without_quota_is_asked_after_the_other(headers: list[tuple[str, str]]) -> None:
    async with two(answer(headers), answer()) as (gate, _):
        assert await targets_of(gate, 3) == [["first/m"], ["second/n"], ["second/n"]]


@pytest.mark.parametrize("headers", [ENOUGH, NONSENSE, []], ids=["enough", "nonsense", "none"])
async def test_without_such_a_report_nothing_changes(headers: list[tuple[str, str]]) -> None:
    async with two(answer(headers), answer()) as (gate, _):
        assert await targets_of(gate, 3) == [["first/m"]] * 3


async def test_if_no_target_has_quota_the_first_is_asked_all_the_same() -> None:
    empty = EMPTY["openai, no requests"]
    async with two(answer(empty), answer(empty)) as (gate, _):
        assert await targets_of(gate, 4) == [["first/m"], ["second/n"], ["first/m"], ["first/m"]]
        assert (await gate.ask(model="second/n", stream=True)).status == 200


async def test_the_headers_of_a_refusal_are_read_too() -> None:
    """The report outlasts the short pause that a rate limit without Retry-After asks for."""
    empty = EMPTY["openai, no requests"]
    async with two(answer(empty, 400), answer()) as (gate, second):
        assert (await gate.ask(model="either", stream=True)).status == 400
        assert (await gate.ask(model="either", stream=True)).status == 200
        assert len(second.requests) == 1


async def test_what_was_sent_since_is_counted() -> None:
    left = answer([("x-ratelimit-remaining-requests", "2"), ("x-ratelimit-reset-requests", "60s")])
    steps = [left, answer(), answer()]
    async with two(lambda seen: steps[seen.number], answer()) as (gate, _):
        assert await targets_of(gate, 4) == [["first/m"], ["first/m"], ["first/m"], ["second/n"]]


async def test_a_fallback_is_a_choice_too() -> None:
    empty = EMPTY["openai, no requests"]
    async with ScriptedUpstream(answer(empty)) as one, ScriptedUpstream(answer()) as other:
        toml = """
        [[models]]
        id = "either"
        targets = [{ provider = "first", model = "m" }]
        fallbacks = ["next"]
        [[models]]
        id = "next"
        targets = [{ provider = "second", model = "n" }]
        """
        async with gateway(providers(first=one.base_url, second=other.base_url) + toml) as gate:
            assert await targets_of(gate, 2) == [["first/m"], ["second/n"]]


async def test_the_report_is_that_of_the_credential() -> None:
    empty = EMPTY["openai, no requests"]
    asked: list[str] = []

    def script(seen: Seen) -> list[Step]:
        asked.append(seen.headers["authorization"])
        return answer(empty if len(asked) == 1 else ())

    async with ScriptedUpstream(script) as up:
        toml = f"""
        [[providers]]
        name = "up"
        kind = "openai"
        base_url = "{up.base_url}"
        api_keys = ["sk-canary-4f9a0c7b", "sk-canary-83bd51e6"]
        """
        async with gateway(toml) as gate:
            await targets_of(gate, 12, "up/m")
            assert asked[0] not in asked[1:], "it would be chosen by chance otherwise"


async def test_without_a_choice_no_report_is_read() -> None:
    async with ScriptedUpstream(answer(ENOUGH)) as up, gateway(providers(up=up.base_url)) as gate:
        assert await targets_of(gate, 1, "up/m") == [["up/m"]]
        assert gate.gateway.runtime.reported_quotas is None
