"""What a target cannot serve at all: refused with the member's name, or served by another target that can."""

import json
from typing import Any

import pytest

from streamweir.config.model import Provider as ProviderConfig
from streamweir.upstream.base import Upstream
from streamweir.upstream.local import LocalAddress, LocalUpstream
from support.answers import anthropic_stream, openai_stream
from support.gateway import gateway, gateway_to, providers
from support.raw_client import Reply
from support.script import stream
from support.scripted_upstream import ScriptedUpstream

LOCAL = '[[providers]]\nname = "local"\nkind = "local"\n'
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
TARGETS = """
[[models]]
id = "any"
targets = [{ provider = "first", model = "m" }, { provider = "second", model = "m" }]
"""
FILE = {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}}


def never_asked(_: ProviderConfig) -> Upstream:
    """In the place of the embedded model."""
    return LocalUpstream(LocalAddress(base_url="http://127.0.0.1:9/v1", api_key=""))


def error_of(reply: Reply) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(reply.body)["error"]
    return error


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("kind", ["anthropic", "groq", "ollama", "deepseek"])
async def test_several_choices_of_a_provider_that_gives_one(kind: str, streamed: bool) -> None:
    async with gateway_to(stream(anthropic_stream()), kind=kind) as (gate, up):
        reply = await gate.ask(model="up/m", stream=streamed, n=2)
        error = error_of(reply)
        assert (reply.status, error["code"], error["param"]) == (400, "invalid_value", "n")
        assert "n is 2" in error["message"]
        assert up.requests == []
        (record,) = await gate.settled()
        assert record.attempts == []


async def test_one_choice_is_what_they_give() -> None:
    async with gateway_to(stream(anthropic_stream()), kind="anthropic") as (gate, _):
        assert (await gate.ask(model="up/m", stream=True, n=1)).status == 200


async def test_a_target_that_cannot_is_passed_over_where_another_can() -> None:
    second = openai_stream().replace(b'"index":0', b'"index":1')
    both = openai_stream(usage=None, done=False) + second
    async with (
        ScriptedUpstream(stream(anthropic_stream())) as one_choice,
        ScriptedUpstream(stream(both)) as several,
    ):
        toml = providers("anthropic", first=one_choice.base_url) + providers("openai", second=several.base_url)
        toml += TARGETS
        async with gateway(toml) as gate:
            reply = await gate.ask(model="any", stream=True, n=2)
            assert reply.status == 200
            assert b"error" not in reply.body
            assert (len(one_choice.requests), len(several.requests)) == (0, 1)
            assert (await gate.ask(model="any", stream=True)).status == 200
            assert len(one_choice.requests) == 1


@pytest.mark.parametrize("part", [IMAGE, AUDIO, FILE], ids=lambda part: part["type"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_the_embedded_model_takes_text_only(part: dict[str, object], streamed: bool) -> None:
    content = [{"type": "text", "text": "What is this?"}, part]
    async with gateway(LOCAL, open_local=never_asked) as gate:
        reply = await gate.ask(model="local/smollm2", stream=streamed, messages=[{"role": "user", "content": content}])
        error = error_of(reply)
        assert (reply.status, error["code"], error["param"]) == (400, "invalid_value", "messages[0].content[1]")
        assert "text only" in error["message"]
        (record,) = await gate.settled()
        assert record.attempts == []


async def test_an_image_goes_to_a_target_that_takes_it() -> None:
    async with ScriptedUpstream(stream(openai_stream())) as up:
        toml = LOCAL.replace("local", "first", 1) + providers("openai", second=up.base_url) + TARGETS
        async with gateway(toml, open_local=never_asked) as gate:
            reply = await gate.ask(model="any", stream=True, messages=[{"role": "user", "content": [IMAGE]}])
            assert reply.status == 200
            assert len(up.requests) == 1


async def test_several_choices_of_the_embedded_model() -> None:
    async with gateway(LOCAL, open_local=never_asked) as gate:
        reply = await gate.ask(model="local/smollm2", n=3)
        assert (reply.status, error_of(reply)["param"]) == (400, "n")
