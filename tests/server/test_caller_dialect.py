"""The dialect of an answer: chosen by path, key or default, and the frames that its service's document shows.

The example streams of the four documents are read from the documents themselves, played by an upstream
of each protocol, and come out of the gateway byte for byte, but for the ids and times that the
document's service makes itself. Where the documents are is said in `SEEDS`.
"""

import json
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from streamweir.core.verdict import Verdict
from streamweir.stages.meter import UsageSource
from support.answers import (
    MODEL,
    USAGE,
    anthropic_stream,
    gemini_stream,
    openai_frames,
    openai_stream,
    openai_whole,
)
from support.gateway import KEY, Gate, frames_of, gateway_to
from support.rawclient import Reply
from support.script import Fin, Head, Send, in_turn, stream, whole
from support.seeds import SEEDS, WHY_NO_SEEDS

needs_seeds = pytest.mark.skipif(not SEEDS.is_dir(), reason=WHY_NO_SEEDS)
DIALECTS = ("openai", "opentoken", "aivene", "bitseek")
DONE = b"data: [DONE]\n\n"
ASKED: dict[str, Any] = {"stream_options": {"include_usage": True}}


def documents(name: str) -> list[dict[str, Any]]:
    """Every JSON object of a document, as it is shown: with its own lines, or behind `data: `."""
    text = (SEEDS / name).read_text()
    found = []
    for match in re.finditer(r"^(?:data: )?(?=\{)", text, re.MULTILINE):
        try:
            found.append(json.JSONDecoder().raw_decode(text, match.end())[0])
        except ValueError:  # a piece of a program
            continue
    return [each for each in found if isinstance(each, dict)]


def chunks(name: str) -> list[dict[str, Any]]:
    return [each for each in documents(name) if "object" in each]


def frame(document: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


OWN_IDS = {
    "openai": rb"chatcmpl-[A-Za-z0-9]{29}",
    "opentoken": rb"chatcmpl-[A-Za-z0-9]{29}",
    "aivene": rb"ilbs_[a-z0-9]{24}",
    "bitseek": rb"stream:chat:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
}


def with_own_id(body: bytes, dialect: str, shown: str) -> bytes:
    """The id that the gateway made replaced by the document's: it is of the service's form, and one for all frames."""
    (own,) = set(re.findall(OWN_IDS[dialect], body))
    return body.replace(own, shown.encode())


def without_time(body: bytes) -> bytes:
    return re.sub(rb'"created":\d{10}\b', b'"created":0', body)


def text_in(chunk: dict[str, Any]) -> str:
    return chunk["choices"][0]["delta"].get("content") or "" if chunk["choices"] else ""


def openai_upstream(texts: list[str], head: dict[str, Any], usage: tuple[int, int] | None, cached: int = 0) -> bytes:
    """An OpenAI stream with the document's own id, time and model."""
    frames = frames_of(openai_stream(texts, usage=usage, done=False))
    details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached else {}
    for document in frames:
        document.update({name: head[name] for name in ("id", "created", "model")})
        for label in ("service_tier", "system_fingerprint"):
            del document[label]
        if document.get("usage"):
            document["usage"].update(details)
    return b"".join(map(frame, frames)) + DONE


async def ask(gate: Gate, dialect: str, model: str | None, **members: Any) -> Reply:
    named = {} if model is None else {"model": model}
    return await gate.ask(path=f"/{dialect}/v1/chat/completions", stream=True, **named, **members)


def alias(name: str) -> str:
    return f'[[models]]\nid = "{name}"\ntargets = [{{ provider = "up", model = "m" }}]\n'


# The frames of the documents.


@needs_seeds
@pytest.mark.parametrize("name", ["opentoken-streaming-guide.txt", "opentoken-streaming-wire-format.txt"])
async def test_opentoken_frames(name: str) -> None:
    shown = chunks(name)
    texts = list(filter(None, map(text_in, shown)))
    usage = shown[-1]["usage"]
    upstream = openai_upstream(texts, shown[0], (usage["prompt_tokens"], usage["completion_tokens"]))
    async with gateway_to(stream(upstream), alias(shown[0]["model"])) as (gate, _):
        reply = await ask(gate, "opentoken", shown[0]["model"])
        assert reply.body == b"".join(map(frame, shown)) + DONE
        await gate.settled()


@needs_seeds
async def test_aivene_frames() -> None:
    shown = chunks("aivene-streaming-events.txt")
    texts = ["Hello", " there!"]
    usage = shown[-1]["usage"]
    counts = usage["prompt_tokens"], usage["completion_tokens"]
    head = {**shown[0], "id": "chatcmpl-other"}
    upstream = openai_upstream(texts, head, counts, usage["prompt_tokens_details"]["cached_tokens"])
    async with gateway_to(stream(upstream), alias("gpt-4o")) as (gate, _):
        for asked, count in ((ASKED, None), ({}, -1)):
            body = (await ask(gate, "aivene", "gpt-4o", **asked)).body
            body = with_own_id(body, "aivene", shown[0]["id"])
            assert body == b"".join(map(frame, shown[:count])) + DONE
        await gate.settled(2)


@needs_seeds
async def test_aivene_error_frame() -> None:
    """The service's words for what went wrong are its own; the form is the document's."""
    (shown,) = [each for each in documents("aivene-streaming-events.txt") if "error" in each]
    async with gateway_to([Head(), Send(b"".join(openai_frames()[:3])), Fin()]) as (gate, _):
        *_, error, end = frames_of((await ask(gate, "aivene", "up/m")).body)
        assert (list(error), list(error["error"])) == (list(shown), list(shown["error"]))
        assert error["error"]["type"] == shown["error"]["type"]
        assert end == "[DONE]"
        await gate.settled()


def tool_call_upstream(call: dict[str, Any], pieces: list[str]) -> bytes:
    """An OpenAI stream in which a call's arguments come in pieces."""
    opened = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
    deltas = [{"tool_calls": [opened]}, *({"tool_calls": [{"index": 0, "function": {"arguments": p}}]} for p in pieces)]
    start, *_ = frames_of(openai_stream(["x"], done=False, usage=None))
    frames = [start]
    for delta in deltas:
        frames.append({**start, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    frames.append({**start, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return b"".join(map(frame, frames)) + DONE


@needs_seeds
async def test_aivene_tool_call() -> None:
    shown = [each["choices"][0] for each in documents("aivene-streaming-events.txt") if list(each) == ["choices"]]
    opener, *pieces = [choice["delta"]["tool_calls"][0] for choice in shown]
    upstream = tool_call_upstream(opener, [piece["function"]["arguments"] for piece in pieces])
    async with gateway_to(stream(upstream)) as (gate, _):
        _, *got, finish, end = frames_of((await ask(gate, "aivene", "up/m")).body)
        assert [{name: each["choices"][0][name] for name in ("delta", "finish_reason")} for each in got] == shown
        assert (finish["choices"][0], end) == ({"index": 0, "delta": {}, "finish_reason": "tool_calls"}, "[DONE]")
        await gate.settled()


@needs_seeds
async def test_bitseek_frames() -> None:
    shown = chunks("bitseek-sse-response-format.txt")
    texts = [each for each in shown if each["id"] == "stream:chat:1"]
    calls = [each for each in shown if each["id"] == "stream:chat:2"]
    call = calls[0]["choices"][0]["delta"]["tool_calls"][0]
    arguments = call["function"]["arguments"]
    scripts = in_turn(
        stream(openai_stream([each["choices"][0]["delta"]["content"] for each in texts[:-1]])),
        stream(tool_call_upstream(call, [arguments[:9], arguments[9:]])),
    )
    async with gateway_to(scripts, '[server]\ndefault_model = "up/m"\n') as (gate, _):
        for expected in (texts, calls):
            body = (await ask(gate, "bitseek", None)).body
            body = without_time(with_own_id(body, "bitseek", expected[0]["id"]))
            assert body == b"".join(frame({**each, "created": 0}) for each in expected)
        await gate.settled(2)


@needs_seeds
async def test_openai_frames() -> None:
    """Those of the basic stream, and the usage chunk; as passed on, and as written by us for another's upstream."""
    shown = [each for each in chunks("openai-chat-streaming-structure.txt") if "system_fingerprint" not in each]
    role, text, usage = shown
    finish = {**text, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    null = {"usage": None}
    sent = [{**role, **null}, {**text, **null}, {**finish, **null}, usage]
    with_usage = b"".join(map(frame, sent)) + DONE
    without = b"".join(map(frame, [role, text, finish])) + DONE
    for kind in ("openai", "together"):
        async with gateway_to(stream(with_usage), kind=kind) as (gate, _):
            assert (await ask(gate, "openai", "up/m", **ASKED)).body == with_usage
            assert (await ask(gate, "openai", "up/m")).body == without
            await gate.settled(2)


SHOWN: dict[str, tuple[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]]] = {
    "opentoken": ("opentoken-streaming-guide.txt", lambda shown: shown),
    "aivene": ("aivene-streaming-events.txt", lambda shown: shown[:-1]),
    "bitseek": ("bitseek-sse-response-format.txt", lambda shown: shown[:3]),
}
"""For each service the document, and those of its chunks that are one answer in text."""


@needs_seeds
@pytest.mark.parametrize("kind", ["anthropic", "gemini"])
@pytest.mark.parametrize("dialect", SHOWN)
async def test_the_frames_are_the_same_whoever_answers(dialect: str, kind: str) -> None:
    name, chosen = SHOWN[dialect]
    shown = chosen(chunks(name))
    texts = list(filter(None, map(text_in, shown)))
    upstream = {"anthropic": anthropic_stream, "gemini": gemini_stream}[kind](texts, (12, 18))
    model = shown[0]["model"]
    toml = alias(model) if model else '[server]\ndefault_model = "up/m"\n'
    async with gateway_to(stream(upstream), toml, kind=kind) as (gate, _):
        body = without_time(with_own_id((await ask(gate, dialect, model or None)).body, dialect, shown[0]["id"]))
        end = b"" if dialect == "bitseek" else DONE
        assert body == b"".join(frame({**each, "created": 0}) for each in shown) + end
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
async def test_a_refusal_speaks_the_dialect_too(path: str | None) -> None:
    key = f'[[keys]]\nname = "a"\nkey = "{KEYS["aivene"]}"\ndialect = "aivene"\n'
    members = {"openai": 4, "opentoken": 3, "bitseek": 3, "aivene": 2, None: 2}[path]
    async with gateway_to(in_turn(), key) as (gate, _):
        prefix = f"/{path}" if path else ""
        reply = await gate.ask(path=f"{prefix}/v1/chat/completions", key=KEYS["aivene"], model="nobody/m")
        assert len(json.loads(reply.body)["error"]) == members
        (facts,) = await gate.settled()
        assert (facts.dialect, facts.verdict) == (path or "aivene", Verdict.REJECTED)


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
        assert all(facts.stream for facts in await gate.settled(3))


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
        (facts,) = await gate.settled()
        assert facts.usage is not None
        assert (facts.usage.prompt_tokens, facts.usage.completion_tokens) == USAGE
        assert facts.usage_source is UsageSource.PROVIDER


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
async def test_what_a_model_says_stays_one_event(kind: str, dialect: str) -> None:
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
