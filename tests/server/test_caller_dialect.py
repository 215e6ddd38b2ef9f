"""The dialect of an answer: chosen by path, key or default, and written as docs/spec/examples show it.

The examples are played by an upstream of each protocol, and come out of the gateway byte for byte, but for the ids
and times that the gateway makes itself.
"""

import json
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from support.answers import (
    MODEL,
    USAGE,
    anthropic_stream,
    gemini_stream,
    openai_stream,
    openai_whole,
)
from support.gateway import KEY, Gate, frames_of, gateway_to
from support.raw_client import Reply
from support.script import in_turn, stream, whole

EXAMPLES = Path(__file__).parents[2] / "docs" / "spec" / "examples"
DIALECTS = ("openai", "opentoken", "aivene", "bitseek")
DONE = b"data: [DONE]\n\n"
ASKED: dict[str, Any] = {"stream_options": {"include_usage": True}}


def example(dialect: str, case: str) -> bytes:
    return (EXAMPLES / f"{dialect}-{case}.sse").read_bytes()


def frame(document: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


OWN_IDS = {
    "openai": rb"chatcmpl-[A-Za-z0-9]{29}",
    "opentoken": rb"chatcmpl-[A-Za-z0-9]{29}",
    "aivene": rb"ilbs_[a-z0-9]{24}",
    "bitseek": rb"stream:chat:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
}


def without_own(body: bytes, dialect: str) -> bytes:
    """Without the id and the time that the gateway makes itself. The id is one for all frames, and of its form."""
    (own,) = set(re.findall(rb'"id":"(%b)"' % OWN_IDS[dialect], body))
    return re.sub(rb'"created":\d{10}\b', b'"created":0', body.replace(own, b"ID"))


def upstream_of(case: str) -> bytes:
    """The example of `openai`, as OpenAI sends it when it is asked for usage; one that is cut has no end."""
    *usages, end = frames_of(example("openai", "text"))
    *chunks, last = frames_of(example("openai", case))
    if case == "error":
        return b"".join(map(frame, chunks[:-1]))
    assert last == end == "[DONE]"
    if case != "text":
        chunks = [*({**chunk, "usage": None} for chunk in chunks), usages[-1]]
    return b"".join(map(frame, chunks)) + DONE


def alias(name: str) -> str:
    return f'[[models]]\nid = "{name}"\ntargets = [{{ provider = "up", model = "m" }}]\n'


async def ask(gate: Gate, dialect: str, model: str, **members: Any) -> Reply:
    return await gate.ask(path=f"/{dialect}/v1/chat/completions", stream=True, model=model, **members)


# The frames of the examples.

NAME = "openai/gpt-4.1-mini"


@pytest.mark.parametrize("kind", ["openai", "together"])  # passed on, and written by us
@pytest.mark.parametrize("case", ["text", "tool-call", "error"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_is_the_example_of_its_dialect(dialect: str, case: str, kind: str) -> None:
    asked = ASKED if case == "text" else {}
    async with gateway_to(stream(upstream_of(case)), alias(NAME), kind=kind) as (gate, _):
        body = (await ask(gate, dialect, NAME, **asked)).body
        if dialect in ("openai", "opentoken"):  # the id and the time are the upstream's
            assert body == example(dialect, case)
        else:
            assert without_own(body, dialect) == without_own(example(dialect, case), dialect)
        await gate.settled()


def without_usage(dialect: str, body: bytes) -> bytes:
    """What a caller gets who did not ask for it."""
    frames = [each for each in frames_of(body) if each != "[DONE]"]
    if dialect != "bitseek":
        frames.pop()
    kept = [{name: value for name, value in each.items() if name != "usage"} for each in frames]
    return b"".join(map(frame, kept)) + (b"" if dialect == "bitseek" else DONE)


@pytest.mark.parametrize("dialect", ["openai", "aivene", "bitseek"])
async def test_without_asking_for_usage_the_same_frames_come_without_it(dialect: str) -> None:
    async with gateway_to(stream(upstream_of("text")), alias(NAME)) as (gate, _):
        body = (await ask(gate, dialect, NAME)).body
        expected = without_usage(dialect, example(dialect, "text"))
        assert without_own(body, dialect) == without_own(expected, dialect)
        await gate.settled()


def without_details(body: bytes) -> bytes:
    """Each provider reports others."""
    return re.sub(rb',"(?:prompt|completion)_tokens_details":\{[^}]*\}', b"", body)


@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
@pytest.mark.parametrize("dialect", ["opentoken", "aivene", "bitseek"])
async def test_the_frames_are_the_same_for_every_provider(dialect: str, kind: str) -> None:
    shown = example(dialect, "text")
    chunks = [each for each in frames_of(shown) if each != "[DONE]" and each["choices"]]
    texts = list(filter(None, (each["choices"][0]["delta"].get("content") for each in chunks)))
    upstream = {"anthropic": anthropic_stream, "gemini": gemini_stream}[kind](texts, (11, 7))
    async with gateway_to(stream(upstream), alias(NAME), kind=kind) as (gate, _):
        body = (await ask(gate, dialect, NAME, **ASKED)).body
        assert without_details(without_own(body, dialect)) == without_details(without_own(shown, dialect))
        await gate.settled()


# Which dialect it is.

KEYS = {name: f"sk-{name}-0123456789abcdef" for name in DIALECTS}
MARKS: dict[str, Callable[[bytes], bool]] = {
    "openai": lambda body: b'"role":"assistant","content":""' in body and b'"id":"chatcmpl-' in body,
    "opentoken": lambda body: b'"delta":{"role":"assistant"},' in body,
    "aivene": lambda body: b'"id":"ilbs_' in body,
    "bitseek": lambda body: b'"id":"stream:chat:' in body,
}


def is_in(dialect: str, body: bytes) -> bool:
    return [name for name, holds in MARKS.items() if holds(body)] == [dialect]


@pytest.mark.parametrize("default", DIALECTS)
async def test_the_path_goes_before_the_key_and_the_key_before_the_default(default: str) -> None:
    keys = f'[[keys]]\nname = "plain"\nkey = "{KEY}"\n' + "".join(
        f'[[keys]]\nname = "{name}"\nkey = "{key}"\ndialect = "{name}"\n' for name, key in KEYS.items()
    )
    async with gateway_to(stream(openai_stream()), f'[server]\ndialect = "{default}"\n{keys}') as (gate, _):
        for count, (path, own) in enumerate(product((None, *DIALECTS), (None, *DIALECTS)), start=1):
            prefix = f"/{path}" if path else ""
            key = KEYS[own] if own else KEY
            reply = await gate.ask(path=f"{prefix}/v1/chat/completions", key=key, model="up/m", stream=True)
            expected = path or own or default
            assert is_in(expected, reply.body), (path, own, reply.body[:200])
            assert (await gate.settled(count))[-1].dialect == expected


@pytest.mark.parametrize("path", [None, *DIALECTS])
async def test_a_refusal_is_in_the_dialect_too(path: str | None) -> None:
    key = f'[[keys]]\nname = "a"\nkey = "{KEYS["aivene"]}"\ndialect = "aivene"\n'
    members = {"openai": 4, "opentoken": 3, "bitseek": 3, "aivene": 2, None: 2}[path]
    async with gateway_to(in_turn(), key) as (gate, _):
        prefix = f"/{path}" if path else ""
        reply = await gate.ask(path=f"{prefix}/v1/chat/completions", key=KEYS["aivene"], model="nobody/m")
        assert len(json.loads(reply.body)["error"]) == members
        (record,) = await gate.settled()
        assert (record.dialect, record.verdict) == (path or "aivene", Verdict.REJECTED)


async def test_whole_answers_in_every_dialect_that_has_them() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _):
        for dialect in ("openai", "opentoken", "aivene"):
            reply = await gate.ask(path=f"/{dialect}/v1/chat/completions", model="up/m")
            document = json.loads(reply.body)
            assert (document["object"], document["usage"]["total_tokens"]) == ("chat.completion", sum(USAGE))
            assert document["model"] == (MODEL["openai"] if dialect == "openai" else "up/m")
        await gate.settled(3)


async def test_bitseek_streams_whether_asked_or_not() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        for asked in (None, False, True):
            reply = await gate.ask(path="/bitseek/v1/chat/completions", model="up/m", stream=asked)
            assert (reply.header("content-type") or "").startswith("text/event-stream")
            assert is_in("bitseek", reply.body)
            assert DONE not in reply.body
        assert all(record.stream for record in await gate.settled(3))


# C34: usage is asked for whether or not the caller wants it.


@pytest.mark.parametrize(
    "options", [{}, {"stream_options": None}, {"stream_options": {}}, {"stream_options": {"include_usage": False}}]
)
@pytest.mark.parametrize("kind", ["openai", "together"], ids=["passed", "translated"])
async def test_usage_that_the_caller_did_not_ask_for_is_asked_for_and_hidden(
    kind: str, options: dict[str, Any]
) -> None:
    async with gateway_to(stream(openai_stream()), kind=kind) as (gate, up):
        reply = await gate.ask(model="up/m", stream=True, **options)
        expected = openai_stream(usage=False)
        if kind != "openai":
            expected = translated(expected)
        assert reply.body == expected
        assert up.requests[0].json["stream_options"] == {"include_usage": True}
        (record,) = await gate.settled()
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == USAGE
        assert record.usage_source is UsageSource.PROVIDER


def translated(body: bytes) -> bytes:
    """In our own order of members, and without what a first frame need not say."""
    frames = []
    for document in frames_of(body)[:-1]:
        tier, fingerprint = document.pop("service_tier"), document.pop("system_fingerprint")
        choices = document.pop("choices")
        for choice in choices:
            choice["delta"].pop("refusal", None)
        frames.append({**document, "system_fingerprint": fingerprint, "service_tier": tier, "choices": choices})
    return b"".join(map(frame, frames)) + DONE


async def test_usage_that_the_caller_asked_for_is_passed_on() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        assert (await gate.ask(model="up/m", stream=True, **ASKED)).body == openai_stream()
        await gate.settled()


async def test_a_request_that_is_not_streamed_does_not_speak_of_streams() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, up):
        await gate.ask(model="up/m")
        assert "stream_options" not in up.requests[0].json
        await gate.settled()


# S21 in the frames: what a model says stays inside of one event.

INJECTED = [
    "\n\ndata: [DONE]\n\n",
    "\r",
    "\r\n\r\n: x",
    "\u2028\u2029\x85",
    '"}]}\n\n',
    "\x00\x1b[2J",
    "</script>",
    "data: {}",
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", ["openai", "together"], ids=["passed", "translated"])
async def test_the_text_of_a_model_stays_one_event(kind: str, dialect: str) -> None:
    async with gateway_to(stream(openai_stream(INJECTED)), kind=kind) as (gate, _):
        reply = await ask(gate, dialect, "up/m")
        got = [
            choice["delta"]["content"]
            for document in frames_of(reply.body)
            if document != "[DONE]"
            for choice in document["choices"]
            if choice["delta"].get("content")
        ]
        assert got == INJECTED
        for line in reply.body.split(b"\n"):
            assert not line or line.startswith(b"data: {") or line == b"data: [DONE]"
        assert b"\r" not in reply.body
        await gate.settled()


async def test_an_odd_model_name_breaks_no_frame() -> None:
    name = 'up/a"b\u2028{}'
    async with gateway_to(stream(openai_stream())) as (gate, _):
        reply = await ask(gate, "opentoken", name)
        if reply.status == 200:
            assert {each["model"] for each in frames_of(reply.body)[:-1]} == {name}
        await gate.settled()
