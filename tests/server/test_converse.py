"""Bedrock's Converse over real sockets: answers in binary frames, for callers of chat completions and of Messages."""

import json
import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import pytest

from streamweir.core.usage import Usage
from support.amazon_body import answer, binary_body
from support.aws_server import AwsAccount
from support.fixture_bodies import ROOT
from support.gateway import Gate, chat_request, frames_of, gateway, nothing_left, text_of
from support.messages import ask, messages_request, read_stream
from support.responses import responses_request
from support.script import End, Fin, Head, Rst, Seen, Send, Step, whole
from support.scripted_upstream import ScriptedUpstream
from support.soak import part_of

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


@pytest.mark.parametrize(("model", "uncached"), [("us.openai.gpt-5.6", 2), (NOVA, 4995)])
async def test_the_model_decides_whether_its_prompt_is_reported_with_the_cached_part(model: str, uncached: int) -> None:
    counts = {"inputTokens": 4995, "cacheWriteInputTokens": 4993, "outputTokens": 19, "totalTokens": 10007}
    account = AwsAccount()
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed([FRAMES, Send(answer("Yes.", usage=counts)), End()])) as up,
        gateway(provider(up, account)) as gate,
    ):
        await chat(gate, f"up/{model}", stream=True)
        (record,) = await gate.settled()
        assert record.usage == Usage(input_uncached=uncached, cache_write_5m=4993, output=19)


def count_for(api: str, model: str) -> bytes:
    if api == "messages":
        tools = [{"name": "f", "input_schema": {"type": "object"}}]
        return messages_request(path="/v1/messages/count_tokens", model=model, tools=tools)
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    return responses_request(path="/v1/responses/input_tokens", model=model, tools=tools)


@pytest.mark.parametrize("api", ["messages", "responses"])
@pytest.mark.parametrize(("model", "is_asked"), [(CLAUDE, True), (NOVA, False)])
async def test_tokens_are_counted_by_bedrock_for_claude(model: str, is_asked: bool, api: str) -> None:
    account = AwsAccount()
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(whole(b'{"inputTokens":4711}'))) as up,
        gateway(provider(up, account)) as gate,
        await gate.connect() as client,
    ):
        await client.send(count_for(api, f"up/{model}"))
        counted = json.loads((await client.response()).body)["input_tokens"]
        assert counted == 4711 if is_asked else 0 < counted < 200
    assert account.refusals == []
    assert len(up.requests) == is_asked
    for request in up.requests:
        assert request.path == "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens"
        assert list(request.json) == ["input"]
        assert request.json["input"]["converse"].keys() == {"messages", "toolConfig"}


TEXTS = ("Gr\u00fc\u00dfe", " aus", " Bern")
ENDS: dict[str, Step] = {"end": End(), "fin": Fin(), "rst": Rst()}


def cut_body(request: Seen) -> Sequence[Step]:
    found = re.search(r"/cut-(\d+)-(\w+)/", request.path)
    assert found is not None
    return [FRAMES, Send(answer(*TEXTS)[: int(found[1])]), ENDS[found[2]]]


def frame_edges(body: bytes) -> list[int]:
    sizes: list[int] = []
    while sum(sizes) < len(body):
        sizes.append(int.from_bytes(body[sum(sizes) :][:4]))
    return list(accumulate(sizes, initial=0))


@pytest.mark.usefixtures("no_jitter")
async def test_a_stream_cut_at_an_edge_or_inside_a_frame_is_never_complete() -> None:
    """At few places: `pipeline/test_amazon_exchange.py` cuts at every byte."""
    body, account = answer(*TEXTS), AwsAccount()
    edges = frame_edges(body)
    stop = edges[-2]  # behind messageStop: with a clean end the answer is complete without its usage
    inside = [(edge + after) // 2 for edge, after in pairwise(edges)]
    cuts = part_of([(at, how) for at in edges[:-1] for how in ENDS], 2) + [(at, "fin") for at in inside]
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(cut_body)) as up,
        gateway(provider(up, account)) as gate,
        await gate.connect() as client,
    ):
        for number, (at, how) in enumerate(cuts, 1):
            await client.send(chat_request(model=f"up/cut-{at}-{how}", stream=True))
            reply = await client.response()
            record = (await gate.settled(number))[-1]
            if record.verdict == "completed":
                assert at >= stop, (at, how)
                assert (text_of(reply.body), record.usage_source) == ("".join(TEXTS), "estimate"), (at, how)
                continue
            assert (at, how) != (stop, "end")
            code = "upstream_stream_reset" if how == "rst" else "upstream_stream_truncated"
            code = "upstream_empty_response" if (at, how) == (0, "end") else code
            assert (record.verdict, record.error) == ("truncated", code), (at, how)
            has_text = at >= edges[2]
            assert (reply.status == 200) == has_text, (at, how)
            if has_text:
                assert len(record.attempts) == 1, "never again, once something was sent"
                assert '"finish_reason":"stop"' not in reply.body.decode()
                assert text_of(reply.body) == "".join(TEXTS[: sum(edge <= at for edge in edges[2:5])]), (at, how)
    assert account.refusals == []
