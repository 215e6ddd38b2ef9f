"""Either client against a real gateway on the simulator: every script of docs/simulator.md, in every dialect.

What the gateway could still answer with a status is a `RequestFailed`, what broke later a `StreamError` with all that
came before it, and what is whole is the same streamed and not. A break is never an end.
"""

import asyncio
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamweir.client import ClientError, Completion, RequestFailed, StreamError
from streamweir.frontends.chat.table import DIALECTS
from support.client_calls import KINDS, Caller, caller
from support.dialect_rules import BY_NAME
from support.gateway import KEY, gateway
from support.soak import one_of_each

SIMULATOR = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
CONFIG = f"""
[server.timeouts]
first_event_s = 4

[[providers]]
name = "sim"
kind = "sim"

[[providers]]
name = "short-total"
kind = "sim"
timeouts = {{ total_s = 2 }}

[[providers]]
name = "short-idle"
kind = "sim"
timeouts = {{ idle_s = 1 }}

[[keys]]
name = "tests"
key = "{KEY}"
"""


class Status(NamedTuple):
    """The gateway could still say it with a status."""

    status: int
    code: str


class Inside(NamedTuple):
    """It could not: the code of the error frame, in the dialects that have codes of their own."""

    code: str


WHOLE = None
FAULTS: dict[str, Status | Inside | None] = {
    "hello": WHOLE,
    "echo": WHOLE,
    "lorem?words=30": WHOLE,
    "tools": WHOLE,
    "tools?calls=3&text=Wait": WHOLE,
    "reasoning": WHOLE,
    "refusal": WHOLE,
    "json": WHOLE,
    "agent": WHOLE,
    "hello?finish=length": WHOLE,
    "hello?finish=content_filter": WHOLE,
    "hello?usage=own": WHOLE,
    "hello?usage=finish": WHOLE,
    "hello?usage=every": WHOLE,
    "hello?usage=twice": WHOLE,
    "hello?usage=none": WHOLE,
    "hello?usage=zero": WHOLE,
    "hello?usage=absurd": WHOLE,
    "slow-start?first_ms=30": WHOLE,
    "huge-frame?bytes=300000": WHOLE,
    "cut?how=no-done": WHOLE,
    "error": Status(502, "upstream_server_error"),
    "error?status=400": Status(400, "invalid_value"),
    "error?status=400&code=context_length_exceeded": Status(400, "context_length_exceeded"),
    "error?status=401": Status(502, "upstream_auth_failed"),
    "error?status=429&retry_after=7": Status(429, "upstream_rate_limited"),
    "error?status=503": Status(503, "upstream_overloaded"),
    "error?at=1": Status(502, "upstream_server_error"),
    "error?at=3": Inside("upstream_server_error"),
    "cut?at=1&how=fin": Status(502, "upstream_stream_truncated"),
    "cut?at=1&how=rst": Status(502, "upstream_stream_reset"),
    "cut?at=1&how=end": Status(502, "upstream_stream_truncated"),
    "cut?at=1&how=no-finish": Status(502, "upstream_stream_truncated"),
    "cut?at=5&how=fin": Inside("upstream_stream_truncated"),
    "cut?at=5&how=rst": Inside("upstream_stream_reset"),
    "cut?at=5&how=end": Inside("upstream_stream_truncated"),
    "cut?at=5&how=half-frame": Inside("upstream_stream_truncated"),
    "cut?at=5&how=no-finish": Inside("upstream_stream_truncated"),
    "stall?at=0": Status(504, "upstream_timeout"),
    "short-idle/stall?at=3": Inside("stream_idle_timeout"),
    "empty": Status(502, "upstream_empty_response"),
    "html": Status(502, "upstream_bad_response"),
    "redirect": Status(502, "upstream_redirect_blocked"),
    "garbage?at=1": Status(502, "upstream_invalid_frame"),
    "garbage?at=3": Inside("upstream_invalid_frame"),
    "huge-frame": Inside("upstream_frame_too_large"),
    "short-total/endless?pace_ms=1": Inside("stream_deadline_exceeded"),
}


ONLY_STREAMED = ("cut?how=no-done", "huge-frame?bytes=300000")
"""A fault in the midst of a stream: a whole answer has another midst."""


def test_the_whole_list_is_here() -> None:
    scripts, parameters = SIMULATOR.split("## Parameters")
    names = set(re.findall(r"^\| `([a-z-]+)` \|", scripts, re.MULTILINE))
    asked = {model.partition("/")[2] or model for model in FAULTS}
    assert names == {model.partition("?")[0] for model in asked}
    for parameter in ("how", "usage"):
        (row,) = re.findall(rf"^\| `{parameter}` \| ([^|]+) \|", parameters, re.MULTILINE)
        told = {value for model in asked for value in re.findall(rf"{parameter}=([a-z-]+)", model)}
        assert told == set(re.findall(r"`([a-z-]+)`", row))


async def outcome(ask: Caller, model: str) -> tuple[Completion | None, ClientError | None]:
    try:
        return await ask.final(model=model, messages="Say it."), None
    except ClientError as error:
        return getattr(error, "completion", None), error


def judge(dialect: str, expected: Status | Inside | None, answer: Completion | None, error: ClientError | None) -> str:
    """What is wrong, in a word; nothing where all is well."""
    if expected is WHOLE:
        return "" if error is None and answer is not None and answer.is_whole else f"not whole: {error!r}"
    if isinstance(expected, Status):
        if not isinstance(error, RequestFailed) or error.status != expected.status:
            return f"no status {expected.status}: {error!r}"
        if dialect not in ("opentoken", "aivene") and error.code != expected.code:
            return f"no {expected.code}: {error.code}"
        return "" if error.request_id else "no request id"
    if not isinstance(error, StreamError) or answer is None or not answer.text or answer.is_whole:
        return f"no error in a stream that had begun: {error!r}"
    words = BY_NAME[dialect].stream_error
    code = words.get("code", expected.code) if "code" in BY_NAME[dialect].error_members else None
    if answer.finish_reason is not None:
        return f"it finished: {answer.finish_reason}"
    return "" if (error.type, error.code) == (words["type"], code) else f"other words: {error.type} {error.code}"


@pytest.mark.parametrize(("dialect", "kind"), one_of_each(list(DIALECTS), KINDS))
async def test_every_script_ends_as_it_must(dialect: str, kind: str) -> None:
    async with (
        gateway(CONFIG) as gate,
        caller(kind, f"{gate.base_url}/{dialect}/v1", api_key=KEY, dialect=dialect, retries=0) as ask,
    ):
        models = [model if "/" in model else f"sim/{model}" for model in FAULTS]
        results = await asyncio.gather(*(outcome(ask, model) for model in models))
        wrong = {
            model: why
            for (model, expected), result in zip(FAULTS.items(), results, strict=True)
            if (why := judge(dialect, expected, *result))
        }
        assert wrong == {}
        await gate.settled(len(FAULTS))


@pytest.mark.parametrize(("dialect", "kind"), one_of_each(list(DIALECTS), KINDS))
async def test_streamed_and_whole_are_the_same(dialect: str, kind: str) -> None:
    async with (
        gateway(CONFIG) as gate,
        caller(kind, f"{gate.base_url}/{dialect}/v1", api_key=KEY, dialect=dialect, retries=0) as ask,
    ):
        for script in [name for name, expected in FAULTS.items() if expected is WHOLE and name not in ONLY_STREAMED]:
            streamed = await ask.final(model=f"sim/{script}", messages="Say it.")
            whole = await ask.create(model=f"sim/{script}", messages="Say it.")
            assert said(streamed) == said(whole), script
            assert streamed.usage is not None
            assert whole.usage is not None
            assert streamed.usage.total_tokens == whole.usage.total_tokens
            assert all(call.parsed() for call in whole.tool_calls)


def said(answer: Completion) -> list[Any]:
    return [
        (choice.text or "", choice.reasoning, choice.refusal, choice.finish_reason,
         [(call.name, call.arguments) for call in choice.tool_calls])
        for choice in answer.choices
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
async def test_several_choices(kind: str) -> None:
    async with gateway(CONFIG) as gate, caller(kind, gate.base_url, api_key=KEY) as ask:
        answer = await ask.final(model="sim/lorem?words=8", messages="Hi", n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.text for choice in answer.choices}) == 3


@pytest.mark.parametrize("kind", KINDS)
async def test_a_caller_that_leaves_ends_the_work(kind: str) -> None:
    async with gateway(CONFIG) as gate, caller(kind, gate.base_url, api_key=KEY) as ask:
        left = await ask.leave(lambda _: True, model="sim/endless?pace_ms=1", messages="Hi")
        (record,) = await gate.settled(1)
        assert not left.is_whole
        assert record.verdict != "completed"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dialect", list(DIALECTS))
async def test_what_is_refused_before_anything_is_asked(dialect: str, kind: str) -> None:
    async with gateway(CONFIG) as gate:
        root = f"{gate.base_url}/{dialect}/v1"
        async with caller(kind, root, api_key="sk-wrong-Qx7vLmZ2pKd9RtYw4", dialect=dialect) as ask:
            with pytest.raises(RequestFailed) as refused:
                await ask.final(model="sim/hello", messages="Hi")
            assert refused.value.status == 401
        async with caller(kind, root, api_key=KEY, dialect=dialect) as ask:
            with pytest.raises(RequestFailed) as unknown:
                await ask.create(model="nobody/nothing", messages="Hi")
            assert unknown.value.status == (400 if dialect == "opentoken" else 404)
