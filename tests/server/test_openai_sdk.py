"""The official SDK for Python against a gateway on a real socket: whole, streamed, and by its `.stream()` helper.

The SDK is the judge: what it hands to its user, synchronously or not, is the same whichever way it
is read, and a stream that broke off is an error there, never an end. The errors that have a status
of their own are in `test_openai_sdk_error`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI, AuthenticationError, OpenAI
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from streamweir.core.errors import GatewayFault
from support.gateway import KEY, Gate, gateway

CONFIG = f"""
[server.timeouts]
idle_s = 0.2
silence_s = 0.1
total_s = 30

[[providers]]
name = "sim"
kind = "sim"

[[providers]]
name = "hasty"
kind = "sim"
timeouts = {{ total_s = 0.2 }}

[[keys]]
name = "tests"
key = "{KEY}"
"""
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
Asked = dict[str, Any]


@dataclass
class SdkResult:
    """What the SDK's user has in the end."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str | None = None
    usage: CompletionUsage | None = None
    error: APIError | None = None

    def add(self, chunk: ChatCompletionChunk) -> None:
        self.usage = chunk.usage or self.usage
        for choice in chunk.choices:
            self.text += choice.delta.content or ""
            self.reasoning += (choice.delta.model_extra or {}).get("reasoning_content") or ""
            self.finish = choice.finish_reason or self.finish
            for call in choice.delta.tool_calls or []:
                if call.function is None:
                    continue
                if call.function.name is not None:
                    assert call.index == len(self.calls)
                    self.calls.append((call.function.name, ""))
                name, arguments = self.calls[call.index]
                self.calls[call.index] = (name, arguments + (call.function.arguments or ""))


def told_by(completion: ChatCompletion) -> SdkResult:
    choice = completion.choices[0]
    calls = [call.function for call in choice.message.tool_calls or [] if call.type == "function"]
    return SdkResult(
        text=choice.message.content or "",
        reasoning=(choice.message.model_extra or {}).get("reasoning_content") or "",
        calls=[(call.name, call.arguments) for call in calls],
        finish=choice.finish_reason,
        usage=completion.usage,
    )


def question(model: str, **more: Any) -> Asked:
    return {"model": model, "messages": [{"role": "user", "content": "Say something."}], **more}


def with_usage(asked: Asked) -> Asked:
    return {**asked, "stream_options": {"include_usage": True}}


async def by_sync_stream(at: Gate, asked: Asked) -> SdkResult:
    def read() -> SdkResult:
        told = SdkResult()
        with OpenAI(base_url=at.base_url + "/v1", api_key=KEY) as client:
            try:
                for chunk in client.chat.completions.create(**asked, stream=True):
                    told.add(chunk)
            except APIError as error:
                told.error = error
        return told

    return await asyncio.to_thread(read)


async def by_async_stream(at: Gate, asked: Asked) -> SdkResult:
    told = SdkResult()
    async with AsyncOpenAI(base_url=at.base_url + "/v1", api_key=KEY) as client:
        try:
            async for chunk in await client.chat.completions.create(**asked, stream=True):
                told.add(chunk)
        except APIError as error:
            told.error = error
    return told


async def by_sync_helper(at: Gate, asked: Asked) -> SdkResult:
    def read() -> SdkResult:
        told = SdkResult()
        with OpenAI(base_url=at.base_url + "/v1", api_key=KEY) as client:
            try:
                with client.chat.completions.stream(**asked) as stream:
                    for event in stream:
                        if event.type == "chunk":
                            told.add(event.chunk)
                    return told_by(stream.get_final_completion())
            except APIError as error:
                told.error = error
        return told

    return await asyncio.to_thread(read)


async def by_async_helper(at: Gate, asked: Asked) -> SdkResult:
    told = SdkResult()
    async with AsyncOpenAI(base_url=at.base_url + "/v1", api_key=KEY) as client:
        try:
            async with client.chat.completions.stream(**asked) as stream:
                async for event in stream:
                    if event.type == "chunk":
                        told.add(event.chunk)
                return told_by(await stream.get_final_completion())
        except APIError as error:
            told.error = error
    return told


async def by_whole(at: Gate, asked: Asked) -> SdkResult:
    async with AsyncOpenAI(base_url=at.base_url + "/v1", api_key=KEY) as client:
        return told_by(await client.chat.completions.create(**asked))


Way = Callable[[Gate, Asked], Awaitable[SdkResult]]
WAYS = [by_sync_stream, by_async_stream, by_sync_helper, by_async_helper]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__.removeprefix("by_"))


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    async with gateway(CONFIG) as at:
        yield at


@every_way
async def test_the_text_is_that_of_the_whole_answer(gate: Gate, way: Way) -> None:
    whole = await by_whole(gate, question("sim/hello"))
    told = await way(gate, question("sim/hello"))
    assert whole.text.startswith("Hello")
    assert (told.text, told.finish) == (whole.text, "stop")


@every_way
async def test_parallel_tool_calls_have_whole_arguments(gate: Gate, way: Way) -> None:
    asked = question("sim/tools", tools=[TOOL])
    whole = await by_whole(gate, asked)
    told = await way(gate, asked)
    assert [name for name, _ in told.calls] == ["get_weather", "get_weather"]
    assert [sorted(json.loads(arguments)) for _, arguments in told.calls] == [["city"], ["city"]]
    assert told.calls[0] != told.calls[1]
    assert (told.calls, told.finish) == (whole.calls, "tool_calls")


@every_way
async def test_reasoning_stands_beside_the_text(gate: Gate, way: Way) -> None:
    whole = await by_whole(gate, question("sim/reasoning"))
    told = await way(gate, question("sim/reasoning"))
    assert told.reasoning
    assert (told.reasoning, told.text) == (whole.reasoning, whole.text)


@every_way
async def test_usage_comes_where_it_was_asked_for(gate: Gate, way: Way) -> None:
    asked = question("sim/reasoning")
    whole = await by_whole(gate, asked)
    assert whole.usage is not None
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 0
    assert (await way(gate, with_usage(asked))).usage == whole.usage
    assert (await way(gate, asked)).usage is None


BREAKS = {
    "sim/error?at=4": "upstream_server_error",
    "sim/error?at=4&status=529": "upstream_overloaded",
    "sim/error?at=4&status=429": "upstream_server_error",
    "sim/cut?at=4&how=fin": "upstream_stream_truncated",
    "sim/cut?at=4&how=end": "upstream_stream_truncated",
    "sim/cut?at=4&how=half-frame": "upstream_stream_truncated",
    "sim/cut?at=4&how=no-finish": "upstream_stream_truncated",
    "sim/cut?at=4&how=rst": "upstream_stream_reset",
    "sim/garbage?at=4": "upstream_invalid_frame",
    "sim/huge-frame?bytes=1100000": "upstream_frame_too_large",
    "sim/stall?at=4": "stream_idle_timeout",
    "hasty/endless?pace_ms=5": "stream_deadline_exceeded",
}


@pytest.mark.diagonal
@every_way
@pytest.mark.parametrize(("model", "code"), BREAKS.items())
async def test_a_stream_that_breaks_off_is_an_error(gate: Gate, way: Way, model: str, code: str) -> None:
    told = await way(gate, with_usage(question(model)))
    assert told.error is not None, f"it ended as if it were whole, after {told.text!r}"
    assert type(told.error) is APIError
    assert (told.error.type, told.error.code, told.error.param) == ("stream_error", code, None)
    assert told.error.message
    assert told.text or model.startswith("sim/huge-frame")
    assert (told.finish, told.usage) == (None, None)


@every_way
async def test_a_stream_without_its_last_line_is_whole(gate: Gate, way: Way) -> None:
    told = await way(gate, question("sim/cut?how=no-done"))
    assert (told.error, told.finish) == (None, "stop")
    assert told.text


async def test_a_stream_that_overruns_its_limit_is_an_error(gate: Gate) -> None:
    told = await by_async_stream(gate, question("sim/endless?pace_ms=1&chunk=100", max_tokens=8))
    assert told.error is not None
    assert (told.error.type, told.error.code) == ("stream_error", "response_too_large")


async def test_a_stream_that_is_stopped_says_why(gate: Gate) -> None:
    async with AsyncOpenAI(base_url=gate.base_url + "/v1", api_key=KEY) as client:
        asked = question("sim/endless?pace_ms=5")
        stream = await client.chat.completions.create(**asked, stream=True)
        await anext(aiter(stream))
        gate.gateway.end_streams(GatewayFault("server_shutting_down", "The gateway is shutting down."))
        with pytest.raises(APIError) as caught:
            async for _ in stream:
                pass
    assert (caught.value.type, caught.value.code) == ("overloaded_error", "server_shutting_down")


async def test_leaving_a_stream_leaves_nothing_behind(gate: Gate) -> None:
    async with AsyncOpenAI(base_url=gate.base_url + "/v1", api_key=KEY) as client:
        asked = question("sim/endless?pace_ms=5")
        async with await client.chat.completions.create(**asked, stream=True) as stream:
            await anext(aiter(stream))
            assert gate.gateway.open_streams == 1
    gate.gateway.stop_admitting()
    await gate.gateway.drained()
    assert gate.gateway.open_streams == 0


async def test_a_wrong_key_is_an_authentication_error(gate: Gate) -> None:
    def ask() -> None:
        with OpenAI(base_url=gate.base_url + "/v1", api_key="sk-this-is-not-a-key") as client:
            client.chat.completions.create(**question("sim/hello"), stream=True)

    with pytest.raises(AuthenticationError) as sync:
        await asyncio.to_thread(ask)
    async with AsyncOpenAI(base_url=gate.base_url + "/v1", api_key="sk-this-is-not-a-key") as client:
        with pytest.raises(AuthenticationError) as whole:
            await client.chat.completions.create(**question("sim/hello"))
        with pytest.raises(AuthenticationError) as helped:
            async with client.chat.completions.stream(**question("sim/hello")):
                pass
    for caught in (sync, whole, helped):
        assert (caught.value.status_code, caught.value.code) == (401, "invalid_api_key")
        assert "not-a-key" not in str(caught.value)


async def test_the_headers_of_a_whole_answer(gate: Gate) -> None:
    async with AsyncOpenAI(base_url=gate.base_url + "/v1", api_key=KEY) as client:
        response = await client.chat.completions.with_raw_response.create(**question("sim/hello"))
        completion = response.parse()
    assert response.headers["content-type"] == "application/json"
    assert completion.choices[0].message.content
    assert response.request_id
    assert completion._request_id == response.request_id


async def test_the_headers_of_a_stream(gate: Gate) -> None:
    def ask() -> tuple[dict[str, str], str]:
        told = SdkResult()
        with OpenAI(base_url=gate.base_url + "/v1", api_key=KEY) as client:
            response = client.chat.completions.with_raw_response.create(**question("sim/hello"), stream=True)
            for chunk in response.parse():
                told.add(chunk)
        return dict(response.headers), told.text

    headers, text = await asyncio.to_thread(ask)
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"].startswith("no-cache")
    assert headers["x-request-id"]
    assert text


async def test_models_are_listed_and_shown(gate: Gate) -> None:
    async with AsyncOpenAI(base_url=gate.base_url + "/v1", api_key=KEY) as client:
        listed = [model.id async for model in client.models.list()]
        shown = await client.models.retrieve("sim/hello")
    assert "sim/hello" in listed
    assert (shown.id, shown.object) == ("sim/hello", "model")
