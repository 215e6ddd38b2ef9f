"""`usage.cost`: what the caller pays, in the answers of every API, where key or request asks for it.

It is what is charged, to the nano-dollar. A stream has it once, with its usage. A provider's own cost is not shown, and
one dialect, whose document names every member of a usage, has none.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai import AsyncOpenAI

from streamweir.policy.limits.budget import NANO
from support.answers import (
    anthropic_stream,
    anthropic_whole,
    gemini_stream,
    gemini_whole,
    openai_stream,
    openai_whole,
    responses_stream,
    responses_whole,
)
from support.embeddings import openai_vectors
from support.gateway import KEY, Gate, gateway, providers
from support.raw_client import Reply
from support.script import Step, stream, whole
from support.scripted_upstream import ScriptedUpstream

PRICED = (
    '[[models]]\nid = "priced"\ntargets = [{ provider = "up", model = "m" }]\nprice = { input = 1.0, output = 2.0 }\n'
)
SHOWN = f'\n[[keys]]\nname = "test"\nkey = "{KEY}"\nshow_cost = true\n'
INCLUDE = (("x-streamweir-cost", "include"),)
PRICE = 7 * 1000 + 5 * 2000
PATHS = {
    "openai": "/v1/chat/completions",
    "opentoken": "/opentoken/v1/chat/completions",
    "aivene": "/aivene/v1/chat/completions",
    "bitseek": "/bitseek/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "completions": "/v1/completions",
}
CHAT = tuple(PATHS)[:4]
STREAMS: dict[str, Callable[[], bytes]] = {
    "openai": openai_stream,
    "anthropic": anthropic_stream,
    "gemini": gemini_stream,
    "openai-responses": responses_stream,
}
WHOLES: dict[str, Callable[[], bytes]] = {
    "openai": openai_whole,
    "anthropic": anthropic_whole,
    "gemini": gemini_whole,
    "openai-responses": responses_whole,
}


def upstream_of(kind: str) -> tuple[str, str]:
    """The kind of the provider, and further settings of it."""
    return ("openai", 'wire = "responses"\n') if kind == "openai-responses" else (kind, "")


async def ask(
    kind: str, api: str, *, is_streamed: bool, toml: str = "", body: bytes | None = None, **more: Any
) -> Reply:
    """The answer to a request for the priced model. It is booked at the price that it shows, if it shows one."""
    sent = body or (STREAMS if is_streamed else WHOLES)[kind]()
    script: list[Step] = stream(sent) if is_streamed else whole(sent)
    provider, settings = upstream_of(kind)
    async with ScriptedUpstream(script) as up:
        config = providers(provider, up=up.base_url) + settings + PRICED + toml
        async with gateway(config) as gate:
            reply = await asked(gate, api, is_streamed=is_streamed, **more)
            (record,) = await gate.settled()
            assert record.price == PRICE
            return reply


async def asked(gate: Gate, api: str, *, is_streamed: bool, **more: Any) -> Reply:
    if api == "completions":
        members = {"model": "priced", "prompt": "Hi", "stream": is_streamed, **more}
        headers = members.pop("headers", ())
        if is_streamed:
            members["stream_options"] = {"include_usage": True}
        return await gate.ask(path=PATHS[api], body=json.dumps(members).encode(), headers=headers)
    options = {"stream_options": {"include_usage": True}} if is_streamed and api in CHAT else {}
    return await gate.ask(path=PATHS[api], model="priced", stream=is_streamed, **{**options, **more})


def usages_of(reply: Reply) -> list[dict[str, Any]]:
    """Every usage in the answer, in its order."""
    assert reply.status == 200, reply.body
    data = [line[6:] for line in reply.body.split(b"\n") if line.startswith(b"data: {")] or [reply.body]
    found = []
    for document in map(json.loads, data):
        for holder in (document, document.get("message") or {}, document.get("response") or {}):
            if holder.get("usage") is not None:
                found.append(holder["usage"])
    return found


def costs_of(reply: Reply) -> list[Any]:
    return [usage.get("cost") for usage in usages_of(reply)]


ANSWERS = [
    pytest.param(api, is_streamed, id=f"{api}-{'streamed' if is_streamed else 'whole'}")
    for api in PATHS
    for is_streamed in (True, False)
    if api != "completions" and (is_streamed or api != "bitseek")  # which always streams
]


@pytest.mark.parametrize(("api", "is_streamed"), ANSWERS)
@pytest.mark.parametrize("kind", STREAMS)
async def test_the_last_usage_has_the_price(api: str, kind: str, is_streamed: bool) -> None:
    reply = await ask(kind, api, is_streamed=is_streamed, headers=INCLUDE)
    costs = costs_of(reply)
    assert costs[-1] == (None if api == "aivene" else PRICE / NANO)
    assert set(costs[:-1]) <= {None}, "and nothing before it"


async def test_an_answer_is_otherwise_the_same() -> None:
    for kind, api in (("openai", "openai"), ("anthropic", "messages"), ("openai-responses", "responses")):
        for is_streamed in (True, False):
            without = await ask(kind, api, is_streamed=is_streamed)
            shown = await ask(kind, api, is_streamed=is_streamed, headers=INCLUDE)
            member = b',"cost":0.000017'
            assert shown.body.count(member) == 1
            assert json_of(shown.body.replace(member, b"")) == json_of(without.body), api


def json_of(body: bytes) -> list[Any]:
    """The documents of a stream, or the one of a whole answer."""
    lines = [line[6:] if line.startswith(b"data: ") else line for line in body.split(b"\n")]
    return [json.loads(line) if line.startswith(b"{") else line for line in lines if line]


@pytest.mark.parametrize("toml", [SHOWN, ""], ids=["a key that shows it", "any other key"])
async def test_a_key_shows_it_without_being_asked(toml: str) -> None:
    for is_streamed in (True, False):
        (cost,) = costs_of(await ask("openai", "openai", is_streamed=is_streamed, toml=toml))
        assert cost == (PRICE / NANO if toml else None)


async def test_a_stream_without_usage_has_no_cost() -> None:
    """A caller that does not ask for usage may not expect a chunk without choices."""
    reply = await ask("openai", "openai", is_streamed=True, toml=SHOWN, stream_options=None)
    assert usages_of(reply) == []
    assert b"cost" not in reply.body


@pytest.mark.parametrize("toml", [SHOWN, ""], ids=["a key that shows it", "any other key"])
async def test_a_chat_can_ask_as_openrouter_has_it(toml: str) -> None:
    async with ScriptedUpstream(stream(openai_stream())) as up:
        async with gateway(providers(up=up.base_url) + PRICED + toml) as gate:
            reply = await gate.ask(model="priced", stream=True, usage={"include": True})
            assert costs_of(reply) == [PRICE / NANO], "which asks for the usage of a stream, too"
            reply = await gate.ask(model="priced", stream=True, usage={"include": False})
            assert b"cost" not in reply.body
            reply = await gate.ask(path=PATHS["aivene"], model="priced", stream=True, usage={"include": True})
            assert usages_of(reply) == [], "its document has another way to ask"
            await gate.settled(3)
        assert all("usage" not in each.json for each in up.requests), "most providers refuse the member"


async def test_text_completions_and_embeddings_have_it() -> None:
    for is_streamed in (True, False):
        reply = await ask("openai", "completions", is_streamed=is_streamed, headers=INCLUDE)
        assert costs_of(reply)[-1] == PRICE / NANO
    script = whole(openai_vectors([[0.5]], 7))
    async with ScriptedUpstream(script) as up, gateway(providers(up=up.base_url) + PRICED + SHOWN) as gate:
        reply = await gate.ask(path="/v1/embeddings", body=b'{"model": "priced", "input": "Hi"}')
        assert costs_of(reply) == [7 * 1000 / NANO]
        await gate.settled()


async def test_what_is_counted_has_its_price() -> None:
    """Where the provider reports nothing, the gateway counts, shows that, and charges for it."""
    for is_streamed in (True, False):
        sent = stream(openai_stream(usage=None)) if is_streamed else whole(openai_whole(usage=None))
        async with ScriptedUpstream(sent) as up, gateway(providers(up=up.base_url) + PRICED + SHOWN) as gate:
            reply = await asked(gate, "openai", is_streamed=is_streamed)
            (record,) = await gate.settled()
            assert record.price is not None
            assert costs_of(reply) == [record.price / NANO]


async def test_a_model_without_a_price_shows_none() -> None:
    async with ScriptedUpstream(whole(openai_whole())) as up, gateway(providers(up=up.base_url) + SHOWN) as gate:
        assert costs_of(await gate.ask(model="up/unpriced")) == [None]


@pytest.mark.parametrize("headers", [(), INCLUDE], ids=["not asked for", "asked for"])
@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", ["OpenRouter", "DeepInfra"])
@pytest.mark.parametrize(
    ("kind", "api"), [("openai", "openai"), ("anthropic", "messages"), ("openai-responses", "responses")]
)
async def test_a_provider_s_own_cost_is_never_shown(
    kind: str, api: str, provider: str, is_streamed: bool, headers: tuple[tuple[str, str], ...]
) -> None:
    """OpenRouter reports what it charges, DeepInfra an estimate: that is what the request costs the operator."""
    told = {
        "OpenRouter": b'"usage":{"cost":0.77,"is_byok":false,"cost_details":{"upstream_inference_cost":0.66},',
        "DeepInfra": b'"usage":{"estimated_cost":0.77,',
    }[provider]
    body = (STREAMS if is_streamed else WHOLES)[kind]().replace(b'"usage":{', told)
    assert told in body
    reply = await ask(kind, api, is_streamed=is_streamed, body=body, headers=headers)
    assert costs_of(reply)[-1] == (PRICE / NANO if headers else None)
    for trace in (b"0.77", b"0.66", b"is_byok"):
        assert trace not in reply.body


async def test_a_large_answer_that_would_be_passed_on_has_it() -> None:
    text = "many words " * 110_000
    body = anthropic_whole(text)
    reply = await ask("anthropic", "messages", is_streamed=False, body=body, headers=INCLUDE)
    assert costs_of(reply) == [PRICE / NANO]
    assert json.loads(reply.body)["content"] == [{"type": "text", "text": text}]


async def test_the_sdk_shows_it() -> None:
    async with ScriptedUpstream(stream(openai_stream())) as up, gateway(providers(up=up.base_url) + PRICED) as gate:
        async with AsyncOpenAI(base_url=f"{gate.base_url}/v1", api_key=KEY, max_retries=0) as client:
            chunks = [
                chunk
                async for chunk in await client.chat.completions.create(
                    model="priced",
                    messages=[{"role": "user", "content": "Hi"}],
                    stream=True,
                    extra_body={"usage": {"include": True}},
                )
            ]
        await gate.settled()
    usage = chunks[-1].usage
    assert usage is not None
    assert (usage.total_tokens, (usage.model_extra or {})["cost"]) == (12, PRICE / NANO)
