"""Limits of targets and providers: what has no room is not asked, the next one is, and nobody waits.

What a request holds is free again however its attempt ends, and counts as it should: a refused one as a request without
tokens, one that could not be sent not at all. docs/spec/failures.md U42.
"""

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.policy.routing.health import MAX_FAILURES, Candidate, TargetId
from streamweir.server.accounting.target_limiter import AttemptHold
from streamweir.server.telemetry.record import RequestRecord
from support.answers import error_body, openai_frames, openai_stream, openai_whole
from support.gateway import Gate, chat_request, configured, gateway, providers
from support.outcome import ALIAS
from support.raw_client import Reply
from support.script import End, Fin, Hang, Head, Script, Seen, Send, Step, Wait, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream

pytestmark = pytest.mark.usefixtures("no_jitter")

ANSWER = stream(openai_stream(usage=(3, 5)))
FAILURE = whole(error_body("no"), 500)
MESSAGE = "Every available target of this model is at its configured limit. Try again later."


def alias(*targets: str, name: str = "either") -> str:
    """TOML: a model with targets such as `first/m rpm=2`."""
    tables = []
    for target in targets:
        path, *limits = target.split()
        provider, model = path.split("/")
        tables.append(", ".join([f'provider = "{provider}"', f'model = "{model}"', *limits]))
    return f'[[models]]\nid = "{name}"\ntargets = [{", ".join(f"{{ {table} }}" for table in tables)}]\n'


@asynccontextmanager
async def two(
    first: Script, second: Script, toml: str
) -> AsyncIterator[tuple[Gate, ScriptedUpstream, ScriptedUpstream]]:
    async with ScriptedUpstream(first) as one, ScriptedUpstream(second) as other:
        async with gateway(providers(first=one.base_url, second=other.base_url) + toml) as gate:
            yield gate, one, other
            await gate.vacated()
        await one.vacated()
        await other.vacated()


async def ask(gate: Gate, model: str = "either", **members: Any) -> Reply:
    return await gate.ask(model=model, stream=True, **members)


def assert_no_room(reply: Reply, wait_s: range = range(50, 62)) -> None:
    assert reply.status == 429
    error = json.loads(reply.body)["error"]
    assert (error["code"], error["type"], error["message"]) == ("upstream_rate_limited", "rate_limit_error", MESSAGE)
    assert int(reply.header("retry-after") or -1) in wait_s
    assert reply.header("x-should-retry") is None, "429 is what clients wait for"


def tried(record: RequestRecord) -> list[str]:
    return [attempt.target for attempt in record.attempts]


def skips(gate: Gate) -> dict[str, str]:
    lines = gate.gateway.metrics_text().decode().splitlines()
    found = [line.split() for line in lines if line.startswith("streamweir_target_skips_total{")]
    return {name.removeprefix("streamweir_target_skips_total"): value for name, value in found}


@pytest.mark.parametrize("is_dead", [True, False], ids=["no server", "status 500"])
async def test_never_more_than_its_streams_run_on_the_survivor_of_a_dead_primary(is_dead: bool) -> None:
    go_on = asyncio.Event()
    running: list[int] = []

    def slow(_: Seen) -> list[Step]:
        running.append(survivor.open_answers)
        return [Head(), Wait(go_on), Send(openai_stream()), End()]

    with socket.create_server(("127.0.0.1", 0)) as unused:
        dead_url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    async with ScriptedUpstream(FAILURE) as broken, ScriptedUpstream(slow) as survivor:
        primary = dead_url if is_dead else broken.base_url
        toml = providers(first=primary, second=survivor.base_url) + alias("first/m", "second/n max_streams=3")
        async with gateway(toml) as gate:
            asked = [asyncio.create_task(ask(gate)) for _ in range(20)]
            pending = set(asked)
            while len(pending) > 3:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    assert_no_room(task.result(), range(1, 2))
            await survivor.seen(3)
            go_on.set()
            assert [(await task).status for task in pending] == [200] * 3
            await gate.vacated()
            assert (await ask(gate)).status == 200, "their places are free"
            assert [(await task).status for task in [asyncio.create_task(ask(gate)) for _ in range(9)]].count(200) >= 3
            assert max(running) == 3
        await survivor.vacated()


async def test_a_target_without_room_is_left_out_and_is_no_attempt() -> None:
    toml = alias("first/m rpm=2", "second/n")
    async with two(ANSWER, ANSWER, toml) as (gate, first, second):
        for _ in range(5):
            assert (await ask(gate)).status == 200
        assert [tried(record) for record in await gate.settled(5)] == [["first/m"]] * 2 + [["second/n"]] * 3
        assert (len(first.requests), len(second.requests)) == (2, 3)
        assert skips(gate) == {'{reason="rpm",target="first/m"}': "3.0"}


async def test_if_none_has_room_the_caller_learns_when_the_first_has() -> None:
    toml = alias("first/m rpm=1", "second/n max_streams=1")
    go_on = asyncio.Event()
    slow: list[Step] = [Head(), Wait(go_on), Send(openai_stream()), End()]
    async with two(ANSWER, slow, toml) as (gate, _, second):
        assert (await ask(gate)).status == 200
        async with await gate.connect() as client:
            await client.send(chat_request(model="either", stream=True))
            await second.seen(1)
            assert_no_room(await ask(gate), range(1, 2))
            assert_no_room(await ask(gate, "first/m"))
            go_on.set()
            assert (await client.response()).status == 200
        refused = (await gate.settled(4))[1]
        assert (refused.status, refused.error, refused.attempts) == (429, "upstream_rate_limited", [])
        assert refused.verdict == "rejected", "no upstream was called"


async def test_limits_hold_however_a_target_is_named_and_for_all_models_of_a_provider() -> None:
    async with ScriptedUpstream(ANSWER) as up:
        toml = providers(up=up.base_url) + "rpm = 4\n" + alias("up/m rpm=2", name="a") + alias("up/m", name="b")
        async with gateway(toml) as gate:
            assert [(await ask(gate, name)).status for name in ("a", "b")] == [200, 200]
            for name in ("a", "b", "up/m"):
                assert_no_room(await ask(gate, name))
            assert [(await ask(gate, name)).status for name in ("up/x", "up/y")] == [200, 200]
            assert_no_room(await ask(gate, "up/z"))
            assert len(up.requests) == 4


async def test_tokens_are_reserved_as_estimated_and_counted_as_used() -> None:
    """Three of the prompt and twenty at most of the answer, of which eight are used."""
    async with two(ANSWER, ANSWER, alias("first/m tpm=31", "second/n")) as (gate, *_):
        for _ in range(3):
            assert (await ask(gate, max_tokens=20)).status == 200
            await gate.vacated()
        assert (await ask(gate, max_tokens=12)).status == 200
        assert [tried(record) for record in await gate.settled(4)] == [
            ["first/m"],
            ["first/m"],
            ["second/n"],
            ["first/m"],
        ]


async def test_what_a_provider_refuses_is_a_request_without_tokens() -> None:
    first = in_turn(whole(error_body("no"), 401), ANSWER, ANSWER)
    async with two(first, ANSWER, alias("first/m rpm=2 tpm=24", "second/n")) as (gate, *_):
        for _ in range(3):
            assert (await ask(gate, max_tokens=20)).status == 200
            await gate.vacated()
        found = [tried(record) for record in await gate.settled(3)]
        assert found == [["first/m", "second/n"], ["first/m"], ["second/n"]]


async def test_what_could_not_be_sent_does_not_count() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        dead_url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    async with gateway(providers(up=dead_url) + "rpm = 1\n") as gate:
        reply = await ask(gate, "up/m")
        assert json.loads(reply.body)["error"]["code"] == "upstream_connect_failed"
        assert tried((await gate.settled(1))[0]) == ["up/m"] * 3


ENDS: dict[str, list[Step]] = {
    "cut": [Head(), Send(b"".join(openai_frames()[:3])), Fin()],
    "error status": list(whole(error_body("no"), 400)),
    "no answer": [Head(), End()],
}


@pytest.mark.parametrize("end", ENDS)
async def test_room_is_free_again_for_any_end(end: str) -> None:
    async with two(lambda _: steps, ANSWER, alias("first/m max_streams=1", name="only")) as (gate, *_):
        steps = ENDS[end]
        await ask(gate, "only")
        await gate.vacated()
        steps = list(ANSWER)
        assert (await ask(gate, "only")).status == 200


@pytest.mark.parametrize("has_begun", [True, False])
async def test_room_is_free_again_when_the_caller_has_gone(has_begun: bool) -> None:
    begun = [Send(b"".join(openai_frames()[:3]))] if has_begun else []
    script = in_turn([Head(), *begun, Hang()], ANSWER)
    async with two(script, ANSWER, alias("first/m max_streams=1", name="only")) as (gate, first, _):
        async with await gate.connect() as client:
            await client.send(chat_request(model="only", stream=True))
            await first.seen(1)
            if has_begun:
                await client.head()
            client.reset()
        await gate.vacated()
        assert (await ask(gate, "only")).status == 200


async def test_a_target_is_the_last_one_if_the_others_have_no_room() -> None:
    """A short `first_event_s` is for a failover. A whole answer is asked for as a stream only where one is possible."""

    def answer(request: Seen) -> Sequence[Step]:
        return ANSWER if request.json.get("stream") else whole(openai_whole())

    go_on = asyncio.Event()
    slow: list[Step] = [Head(), Wait(go_on), Send(openai_stream()), End()]
    async with two(answer, slow, alias("first/m", "second/m max_streams=1")) as (gate, first, second):
        async with await gate.connect() as client:
            await client.send(chat_request(model="second/m", stream=True))
            await second.seen(1)
            assert (await gate.ask(model="either")).status == 200
            go_on.set()
            assert (await client.response()).status == 200
        await gate.settled(2)
        assert (await gate.ask(model="either")).status == 200
        assert [bool(each.json.get("stream")) for each in first.requests] == [False, True]


async def test_candidates_without_room_do_not_count_as_attempts() -> None:
    """More of them than attempts are allowed."""
    async with ScriptedUpstream(ANSWER) as up:
        limited = [f"up/m{number} rpm=1" for number in range(5)]
        toml = providers(up=up.base_url) + alias(*limited, "up/last")
        async with gateway(toml) as gate:
            for _ in range(6):
                assert (await ask(gate)).status == 200
            found = [tried(record) for record in await gate.settled(6)]
            assert found == [[f"up/m{number}"] for number in range(5)] + [["up/last"]]


async def test_the_same_target_is_tried_again_if_the_other_has_no_room() -> None:
    """Which takes no attempt away."""
    first = in_turn(FAILURE, FAILURE, ANSWER)
    async with two(first, ANSWER, alias("first/m", "second/n rpm=1")) as (gate, *_):
        assert (await ask(gate, "second/n")).status == 200
        assert (await ask(gate)).status == 200
        assert tried((await gate.settled(2))[1]) == ["first/m"] * 3


async def test_a_target_of_the_same_model_with_room_comes_before_the_fallbacks() -> None:
    """Although an attempt is kept for each of them: what has no room is no attempt."""
    toml = alias("first/a rpm=1", "first/b").replace("[[models]]", '[[models]]\nfallbacks = ["x", "y"]')
    others = alias("second/x", name="x") + alias("second/y", name="y")
    async with two(ANSWER, ANSWER, toml + others) as (gate, *_):
        assert [(await ask(gate)).status for _ in range(2)] == [200, 200]
        assert [tried(record) for record in await gate.settled(2)] == [["first/a"], ["first/b"]]


async def test_the_fallback_is_asked_if_no_target_has_room() -> None:
    toml = alias("first/a rpm=1").replace("[[models]]", '[[models]]\nfallbacks = ["x"]') + alias("second/x", name="x")
    async with two(ANSWER, ANSWER, toml) as (gate, *_):
        assert [(await ask(gate)).status for _ in range(2)] == [200, 200]
        assert [tried(record) for record in await gate.settled(2)] == [["first/a"], ["second/x"]]


async def test_a_probe_without_room_is_left_to_the_next_request() -> None:
    async with two(ANSWER, ANSWER, alias("first/m max_streams=1", name="only")) as (gate, *_):
        runtime, limiter = gate.gateway.runtime, gate.gateway.accounting.targets
        candidate, long_ago = Candidate(TargetId("first", "m")), time.monotonic() - 1000
        for _ in range(MAX_FAILURES):
            runtime.router.failed(candidate, long_ago, UpstreamError("upstream_server_error", "no"))
        assert runtime.target_limits is not None
        held = await limiter.reserve("other", runtime.target_limits.scopes_of(candidate.target), 1)
        assert isinstance(held, AttemptHold)
        assert_no_room(await ask(gate, "only"), range(1, 2))
        limiter.release(held)
        assert (await ask(gate, "only")).status == 200


async def test_after_a_failure_that_is_final_the_caller_learns_of_the_limit() -> None:
    first = whole(error_body("no"), 401)
    async with two(first, ANSWER, alias("first/m", "second/n rpm=1")) as (gate, *_):
        assert (await ask(gate, "second/n")).status == 200
        assert_no_room(await ask(gate))
        failed = (await gate.settled(2))[1]
        assert (tried(failed), failed.verdict) == (["first/m"], "upstream_error")


async def test_each_key_of_a_provider_has_its_limits_over_all_models() -> None:
    asked: list[str] = []

    def script(seen: Seen) -> Sequence[Step]:
        asked.append(seen.headers["authorization"])
        return ANSWER

    async with ScriptedUpstream(script) as up:
        toml = f"""
        [[providers]]
        name = "up"
        kind = "openai"
        base_url = "{up.base_url}"
        api_keys = [{{ name = "a", key = "sk-canary-a", rpm = 2 }}, {{ name = "b", key = "sk-canary-b", rpm = 3 }}]
        """
        async with gateway(toml) as gate:
            for number in range(5):
                assert (await ask(gate, f"up/m{number}")).status == 200
            assert_no_room(await ask(gate, "up/m"))
            assert Counter(asked) == {"Bearer sk-canary-a": 2, "Bearer sk-canary-b": 3}
            assert [len(record.attempts) for record in await gate.settled(6)] == [1] * 5 + [0]


async def test_a_reload_changes_the_limit_and_keeps_the_count() -> None:
    async with ScriptedUpstream(ANSWER) as up:
        at = providers(up=up.base_url)
        async with gateway(f"{at}rpm = 2\n") as gate:
            assert [(await ask(gate, "up/m")).status for _ in range(3)] == [200, 200, 429]
            gate.gateway.reload(configured(f"{at}rpm = 3\n"))
            assert [(await ask(gate, "up/m")).status for _ in range(2)] == [200, 429]
            gate.gateway.reload(configured(at))
            assert (await ask(gate, "up/m")).status == 200


async def test_whole_answers_count_too() -> None:
    async with two(whole(openai_whole()), whole(openai_whole()), alias("first/m rpm=1", "second/n")) as (gate, *_):
        assert [(await gate.ask(model="either")).status for _ in range(2)] == [200, 200]
        assert [tried(record) for record in await gate.settled(2)] == [["first/m"], ["second/n"]]


async def test_without_limits_nothing_is_counted() -> None:
    async with two(ANSWER, ANSWER, ALIAS) as (gate, *_):
        assert (await ask(gate)).status == 200
        assert gate.gateway.runtime.target_limits is None
        assert gate.gateway.accounting.targets._local._keys == {}
