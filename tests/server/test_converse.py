"""Bedrock's Converse over real sockets: answers in binary frames, for callers of chat completions and of Messages."""

import json
from typing import Any

import pytest

from streamweir.core.usage import Usage
from support.amazon_body import binary_body
from support.aws_server import AwsAccount
from support.fixture_bodies import ROOT
from support.gateway import Gate, chat_request, frames_of, gateway, nothing_left
from support.messages import ask, read_stream
from support.script import End, Head, Seen, Send, Step, whole
from support.scripted_upstream import ScriptedUpstream

NOVA, CLAUDE = "eu.amazon.nova-pro-v1:0", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
FRAMES = Head(headers=(("content-type", "application/vnd.amazon.eventstream"),))


def fixture(case: str) -> list[Step]:
    """In pieces that do not end where frames end."""
    body = binary_body((ROOT / "bedrock" / case / "response.frames").read_bytes())
    return [FRAMES, *(Send(body[at : at + 100]) for at in range(0, len(body), 100)), End()]


def provider(up: ScriptedUpstream, account: AwsAccount) -> str:
    keys, origin = account.issue(), up.base_url.removesuffix("/v1")
    return (
        f'[[providers]]\nname = "up"\nkind = "bedrock"\nwire = "converse"\nbase_url = "{origin}"\n'
        f'region = "{account.region}"\naws = {{ access_key_id = "{keys.access_key_id}", '
        f'secret_access_key = "{keys.secret_access_key}", session_token = "{keys.session_token}" }}\n'
    )


async def chat(gate: Gate, model: str, **members: Any) -> Any:
    async with await gate.connect() as client:
        await client.send(chat_request(model=model, **members))
        return await client.response()


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_and_its_usage(stream: bool) -> None:
    account = AwsAccount()
    body = {
        "output": {"message": {"role": "assistant", "content": [{"text": "21"}]}},
        "stopReason": "end_turn",
        "usage": {
            "inputTokens": 2,
            "outputTokens": 5,
            "totalTokens": 1329,
            "cacheReadInputTokens": 1000,
            "cacheWriteInputTokens": 322,
            "cacheDetails": [{"ttl": "1h", "inputTokens": 300}, {"ttl": "5m", "inputTokens": 22}],
        },
    }
    script = fixture("cache_writes_by_time_to_live") if stream else whole(json.dumps(body).encode())
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(script)) as up,
        gateway(provider(up, account)) as gate,
    ):
        reply = await chat(gate, f"up/{NOVA}", stream=stream, seed=1)
        if stream:
            documents = frames_of(reply.body)
            assert [document["choices"][0]["finish_reason"] for document in documents[1:-1]] == [None, "stop"]
        else:
            assert json.loads(reply.body)["usage"]["prompt_tokens"] == 1324
        (record,) = await gate.settled()
        assert (record.verdict, record.usage_source, record.dropped) == ("completed", "provider", ("seed",))
        assert record.usage == Usage(input_uncached=2, cache_read=1000, cache_write_5m=22, cache_write_1h=300, output=5)
    assert account.refusals == []
    assert up.requests[0].path.endswith("/model/eu.amazon.nova-pro-v1%3A0/converse" + ("-stream" if stream else ""))


async def test_reasoning_of_claude_goes_through_the_messages_api_and_back() -> None:
    """With its signatures, at its places, between the calls of a turn."""
    account = AwsAccount()
    scripts = [fixture("tool_calls_between_reasoning"), fixture("text_and_usage")]

    def next_script(_: Seen) -> list[Step]:
        return scripts.pop(0)

    tools = [
        {"name": name, "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}} for name in "fg"
    ]
    question = {"role": "user", "content": "Go."}
    asked: dict[str, Any] = {"model": f"up/{CLAUDE}", "tools": tools, "max_tokens": 4000}
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(next_script)) as up,
        gateway(provider(up, account)) as gate,
    ):
        first = read_stream((await ask(gate, messages=[question], **asked)).body)
        kinds = [block["type"] for block in first["content"]]
        assert kinds == ["thinking", "text", "tool_use", "thinking", "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": block["name"]}
            for block in reversed(first["content"])
            if block["type"] == "tool_use"
        ]
        turn = {"role": "assistant", "content": first["content"]}
        await ask(gate, messages=[question, turn, {"role": "user", "content": results}], **asked)
    body = up.requests[1].json
    assert body["toolConfig"]["tools"][1] == {"cachePoint": {"type": "default"}}
    assert body["messages"][1]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "First f.", "signature": "EvYC"}}},
        {"text": "Let me see."},
        {"toolUse": {"toolUseId": "tooluse_7hzWoeZES8ykBy2ZYAyUeA", "name": "f", "input": {"city": "Paris"}}},
        {"reasoningContent": {"reasoningText": {"text": "Then g.", "signature": "EwYC"}}},
        {"toolUse": {"toolUseId": "functions.g:1", "name": "g", "input": {}}},
    ]
    assert [block["toolResult"]["toolUseId"] for block in body["messages"][2]["content"]] == [
        "tooluse_7hzWoeZES8ykBy2ZYAyUeA",
        "functions.g:1",
    ]
