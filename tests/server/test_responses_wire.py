"""Which API of a provider a target is asked through: the operator's word, the model's name, the provider's refusal."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.target_memory import TargetMemory
from streamweir.server.request.runtime.wires import WireTable
from support.answers import TEXTS, error_body, openai_stream, openai_whole, responses_stream, responses_whole
from support.gateway import configured, frames_of, gateway_to, providers
from support.messages import ask as ask_messages
from support.messages import read_stream as read_messages
from support.responses_body import ResponsesAnswer
from support.script import Seen, Step, stream, whole

ONLY = "This model is only supported in v1/responses and not in v1/chat/completions."
REFUSED = whole(error_body(ONLY, "invalid_request_error", param="model"), 404)


def either(seen: Seen) -> Sequence[Step]:
    """A provider with both wires, whose model `both` alone is on both."""
    asked = seen.json
    if seen.path.endswith("/responses"):
        return stream(responses_stream()) if asked.get("stream") else whole(responses_whole())
    if asked["model"] != "both":
        return REFUSED
    return stream(openai_stream()) if asked.get("stream") else whole(openai_whole())


async def test_the_name_of_a_model_or_the_operator_says_which() -> None:
    models = '[[models]]\nid = "own"\ntargets = [{ provider = "up", model = "both", wire = "responses" }]\n'
    async with gateway_to(either, models) as (gate, up):
        for model in ("up/gpt-5.1-codex", "own"):
            assert (await gate.ask(model=model)).status == 200
        assert [seen.path.rpartition("/")[2] for seen in up.requests] == ["responses", "responses"]
    async with gateway_to(either, provider='wire = "responses"') as (gate, up):
        reply = await gate.ask(model="up/both", stream=True)
        documents = frames_of(reply.body)
        assert "".join(each["choices"][0]["delta"].get("content") or "" for each in documents[:-1]) == "".join(TEXTS)
        assert documents[-1] == "[DONE]"
        assert [seen.path.rpartition("/")[2] for seen in up.requests] == ["responses"]


async def test_a_refusal_that_names_the_other_api_is_followed_and_remembered() -> None:
    async with gateway_to(either) as (gate, up):
        assert (await gate.ask(model="up/secret-model")).status == 200
        assert (await gate.ask(model="up/secret-model", stream=True)).status == 200
        assert (await gate.ask(model="up/both")).status == 200
        assert [seen.path.rpartition("/")[2] for seen in up.requests] == [
            "completions",
            "responses",
            "responses",
            "completions",
        ]
        first = (await gate.settled(3))[0]
        assert [attempt.error for attempt in first.attempts] == ["upstream_model_not_found", None]


async def test_what_the_operator_chose_is_not_changed() -> None:
    async with gateway_to(either, provider='wire = "chat"') as (gate, up):
        reply = await gate.ask(model="up/gpt-5-codex")
        assert reply.status == 502
        assert [seen.path.rpartition("/")[2] for seen in up.requests] == ["completions"]


async def test_it_is_asked_once_more_and_not_again() -> None:
    async with gateway_to(REFUSED) as (gate, up):
        assert (await gate.ask(model="up/secret-model")).status == 502
        assert [seen.path.rpartition("/")[2] for seen in up.requests] == ["completions", "responses"]


async def test_a_provider_without_the_other_api_is_not_asked_for_it() -> None:
    async with gateway_to(REFUSED, kind="mistral") as (gate, up):
        assert (await gate.ask(model="up/codex")).status == 502
        assert len(up.requests) == 1


async def test_calls_reasoning_and_usage_come_through() -> None:
    tool = {"type": "function", "name": "f", "parameters": {}}
    answer = ResponsesAnswer(usage=(40, 60, 16, 32), tools=[tool]).reasoning(["Hm"], encrypted="ZW5j").call("f", "{}")
    async with gateway_to(stream(answer.stream()), provider='wire = "responses"') as (gate, _):
        asked = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
        reply = await gate.ask(model="up/m", stream=True, tools=[asked], stream_options={"include_usage": True})
        documents = [each for each in frames_of(reply.body) if isinstance(each, dict)]
        deltas = [each["choices"][0]["delta"] for each in documents if each["choices"]]
        details = [entry for delta in deltas for entry in delta.get("reasoning_details", [])]
        assert [entry["type"] for entry in details] == ["reasoning.summary", "reasoning.encrypted"]
        assert documents[-2]["choices"][0]["finish_reason"] == "tool_calls"
        usage = documents[-1]["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (40, 60)
        assert usage["prompt_tokens_details"]["cached_tokens"] == 16


async def test_azure_is_asked_at_its_own_address() -> None:
    async with gateway_to(whole(responses_whole()), kind="azure", provider='wire = "responses"') as (gate, up):
        assert (await gate.ask(model="up/deployment")).status == 200
        (seen,) = up.requests
        assert seen.path.endswith("/openai/v1/responses")
        assert seen.headers["api-key"] == "sk-upstream-secret"
        assert json.loads(seen.body)["model"] == "deployment"


def test_what_was_learned_is_bounded_and_outlives_a_reload() -> None:
    config = configured(providers(up="http://127.0.0.1:1"))
    table = WireTable(config, TargetMemory(max_targets=2))
    a, b, c = (TargetId("up", name) for name in "abc")
    for target in (a, b, a, c):
        assert table.has_choice(target)
        table.note_responses_only(target)
    after = WireTable(config, table.learned)
    assert [after.wire_of(target) for target in (a, b, c)] == ["responses", "chat", "responses"]


@pytest.mark.parametrize(
    "text",
    [
        ONLY,
        "This model is only available in v1/responses.",
        'model "gpt-5-codex" is not accessible via the /chat/completions endpoint (unsupported_api_for_model)',
        "The chatCompletion operation does not work with the specified model, codex. Please choose another.",
    ],
)
async def test_the_texts_of_providers(text: str) -> None:
    for status in (400, 404):
        async with gateway_to(whole(error_body(text), status)) as (gate, up):
            await gate.ask(model="up/m")
            assert len(up.requests) == 2


@pytest.mark.parametrize(
    ("status", "text"), [(500, ONLY), (400, "input is too long for v1/responses"), (404, "The model does not exist.")]
)
async def test_what_is_another_error(status: int, text: str) -> None:
    async with gateway_to(whole(error_body(text), status), "[server]\ntimeouts = { commit_s = 0 }\n") as (gate, up):
        await gate.ask(model="up/m")
        assert all(seen.path.endswith("/chat/completions") for seen in up.requests)


FIRST = (
    ResponsesAnswer(tools=[{"type": "function", "name": "f"}])
    .reasoning(["First", " a look"], encrypted="ZW5j")
    .call("f", "{}", call_id="call_1")
)
ITEMS = [
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "First a look"}], "encrypted_content": "ZW5j"},
    {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "1"},
]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_reasoning_goes_back_with_the_results_of_tools(streamed: bool) -> None:
    """As chat completions: the client returns the message that it was given."""
    answer = stream(FIRST.stream()) if streamed else whole(FIRST.whole())
    async with gateway_to(answer, provider='wire = "responses"') as (gate, up):
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        reply = await gate.ask(model="up/m", stream=streamed, tools=tools, reasoning_effort="low")
        if streamed:
            deltas = [each["choices"][0]["delta"] for each in frames_of(reply.body) if isinstance(each, dict)]
            details = [entry for delta in deltas for entry in delta.get("reasoning_details", [])]
        else:
            details = json.loads(reply.body)["choices"][0]["message"]["reasoning_details"]
        call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_details": details},
            {"role": "tool", "tool_call_id": "call_1", "content": "1"},
        ]
        await gate.ask(model="up/m", messages=messages, tools=tools)
        assert up.requests[1].json["input"][1:] == ITEMS
        assert (await gate.settled(2))[1].dropped == ()


@pytest.mark.parametrize("thinking", [{"type": "adaptive"}, {"type": "adaptive", "display": "omitted"}], ids=str)
async def test_reasoning_goes_back_through_another_api(thinking: dict[str, str]) -> None:
    """As Messages: what the client cannot read is in an envelope of ours, and its text is its own."""
    async with gateway_to(stream(FIRST.stream()), provider='wire = "responses"') as (gate, up):
        tools = [{"name": "f", "input_schema": {"type": "object"}}]
        asked: dict[str, Any] = {"thinking": thinking, "tools": tools}
        message = read_messages((await ask_messages(gate, **asked)).body)
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "1"}
        messages = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": message["content"]},
            {"role": "user", "content": [result]},
        ]
        await ask_messages(gate, messages=messages, **asked)
        reasoning, *rest = up.requests[1].json["input"][1:]
        assert reasoning["encrypted_content"] == "ZW5j"
        assert rest == ITEMS[1:]
        assert (await gate.settled(2))[1].dropped == ()


def refuses_reasoning(seen: Seen) -> Sequence[Step]:
    if any(item["type"] == "reasoning" for item in seen.json["input"]):
        message = "The encrypted content could not be verified."
        return whole(error_body(message, "invalid_request_error", "invalid_encrypted_content"), 400)
    return whole(responses_whole())


async def test_reasoning_that_the_account_cannot_read_is_left_out_once_and_named() -> None:
    entry = {"type": "reasoning.encrypted", "data": "ZW5j", "format": "openai-responses-v1", "index": 0}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", "reasoning_details": [entry]},
        {"role": "user", "content": "Again"},
    ]
    async with gateway_to(refuses_reasoning, provider='wire = "responses"') as (gate, up):
        assert (await gate.ask(model="up/m", messages=messages)).status == 200
        assert [len(seen.json["input"]) for seen in up.requests] == [4, 3]
        (record,) = await gate.settled()
        assert record.dropped == ("messages[1].reasoning_details[0]",)
    always = whole(error_body("x", "invalid_request_error", "invalid_encrypted_content"), 400)
    for sent, requests in ((messages, 2), (messages[:1], 1)):
        async with gateway_to(always, provider='wire = "responses"') as (gate, up):
            assert (await gate.ask(model="up/m", messages=sent)).status == 400
            assert len(up.requests) == requests
            await gate.settled()


async def test_a_large_whole_answer_is_read_by_another_process() -> None:
    text = "many words " * 110_000
    async with gateway_to(whole(responses_whole(text)), provider='wire = "responses"') as (gate, _):
        reply = await gate.ask(model="up/m")
        assert json.loads(reply.body)["choices"][0]["message"]["content"] == text
        (record,) = await gate.settled()
        assert (record.verdict, record.finish) == ("completed", "stop")
