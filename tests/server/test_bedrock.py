"""Amazon Bedrock over real sockets: requests whose signatures are checked, and answers in its frames."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamweir.wire.amazon import write_message
from streamweir.wire.amazon_messages import write_chunk
from support.accounting_gateway import error_of
from support.aws_server import AwsAccount
from support.embeddings import embed, vectors_of
from support.gateway import Gate, chat_request, frames_of, gateway, nothing_left, text_of
from support.messages import ask, documents_of, messages_request
from support.script import End, Fin, Head, Seen, Send, Step, whole
from support.scripted_upstream import ScriptedUpstream

CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
ARN = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-opus-4-6-v1"
METRICS = '"amazon-bedrock-invocationMetrics":{"inputTokenCount":9,"outputTokenCount":4}'
USAGE = '"usage":{"input_tokens":9,"cache_read_input_tokens":70,"cache_creation_input_tokens":30,"output_tokens":1}'
EVENTS = [
    '{"type":"message_start","message":{"id":"msg_bdrk_1","type":"message","role":"assistant",'
    f'"model":"claude-sonnet-4-5-20250929","content":[],"stop_reason":null,"stop_sequence":null,{USAGE}}}}}',
    '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Good "}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"day."}}',
    '{"type":"content_block_stop","index":0}',
    '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":4}}',
    f'{{"type":"message_stop",{METRICS}}}',
]
MESSAGE = {
    "id": "msg_bdrk_2",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [{"type": "text", "text": "Good day."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 4},
}
FRAMES = Head(headers=(("content-type", "application/vnd.amazon.eventstream"),))


def in_frames(events: Sequence[str]) -> list[Step]:
    return [FRAMES, *(Send(write_chunk(event.encode())) for event in events), End()]


def exception(name: str, message: str) -> bytes:
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return write_message(headers, json.dumps({"message": message}).encode())


def origin(up: ScriptedUpstream) -> str:
    return up.base_url.removesuffix("/v1")


def signed_provider(up: ScriptedUpstream, account: AwsAccount, kind: str = "bedrock", name: str = "up") -> str:
    keys = account.issue()
    return (
        f'[[providers]]\nname = "{name}"\nkind = "{kind}"\nbase_url = "{origin(up)}"\nregion = "{account.region}"\n'
        f'aws = {{ access_key_id = "{keys.access_key_id}", secret_access_key = "{keys.secret_access_key}", '
        f'session_token = "{keys.session_token}" }}\n'
    )


async def chat(gate: Gate, model: str, **members: Any) -> Any:
    async with await gate.connect() as client:
        await client.send(chat_request(model=model, **members))
        return await client.response()


@pytest.mark.parametrize("model", [CLAUDE, ARN], ids=["profile", "arn"])
async def test_events_of_claude_are_passed_on_unchanged(model: str) -> None:
    account = AwsAccount()
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(in_frames(EVENTS))) as up,
        gateway(signed_provider(up, account)) as gate,
    ):
        reply = await ask(gate, model=f"up/{model}", system="Be brief.")
        assert reply.body == b"".join(
            f"event: {json.loads(event)['type']}\ndata: {event}\n\n".encode() for event in EVENTS
        )
        (record,) = await gate.settled()
        assert (record.verdict, record.usage_source) == ("completed", "provider")
        assert record.usage is not None
        assert (record.usage.input_uncached, record.usage.cache_read, record.usage.cache_write) == (9, 70, 30)
        assert record.usage.completion_tokens == 4
    assert account.refusals == []
    (request,) = up.requests
    assert request.path.endswith("/invoke-with-response-stream")
    assert request.path.count("/") == 3, "the whole name is one part of the path"
    assert request.json["anthropic_version"] == "bedrock-2023-05-31"
    assert request.json["system"] == "Be brief."
    assert not {"model", "stream"} & request.json.keys()


@pytest.mark.parametrize("stream", [True, False])
async def test_claude_answers_chat_completions(stream: bool) -> None:
    account = AwsAccount()
    script = in_frames(EVENTS) if stream else whole(json.dumps(MESSAGE).encode())
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(script)) as up,
        gateway(signed_provider(up, account)) as gate,
    ):
        reply = await chat(gate, f"up/{CLAUDE}", stream=stream)
        if stream:
            assert text_of(reply.body) == "Good day."
        else:
            assert json.loads(reply.body)["choices"][0]["message"]["content"] == "Good day."
        (record,) = await gate.settled()
        assert (record.verdict, record.usage_source) == ("completed", "provider")
    assert account.refusals == []


@pytest.mark.parametrize("way", ["messages", "stream", "whole"])
async def test_a_guardrail_of_the_operator_is_signed_and_its_block_is_a_content_filter(way: str) -> None:
    """Callers of Messages get the events as they are: Amazon leaves the stop reason there."""
    account, action = AwsAccount(), '"amazon-bedrock-guardrailAction":"INTERVENED"'
    events = [*EVENTS[:-1], f'{{"type":"message_stop",{action},{METRICS}}}']
    message = {**MESSAGE, "amazon-bedrock-guardrailAction": "INTERVENED"}
    script = whole(json.dumps(message).encode()) if way == "whole" else in_frames(events)
    headers = 'headers = { X-Amzn-Bedrock-GuardrailIdentifier = "abc123", X-Amzn-Bedrock-GuardrailVersion = "1" }\n'
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(script)) as up,
        gateway(signed_provider(up, account) + headers) as gate,
    ):
        if way == "messages":
            reply = await ask(gate, model=f"up/{CLAUDE}")
            assert f"data: {events[-1]}\n\n".encode() in reply.body
            assert documents_of(reply.body)[-2]["delta"]["stop_reason"] == "end_turn"
        elif way == "stream":
            *_, last, _usage = frames_of((await chat(gate, f"up/{CLAUDE}", stream=True)).body)
            assert last["choices"][0]["finish_reason"] == "content_filter"
        else:
            reply = await chat(gate, f"up/{CLAUDE}", stream=False)
            assert json.loads(reply.body)["choices"][0]["finish_reason"] == "content_filter"
        await gate.settled()
    assert account.refusals == []
    (request,) = up.requests
    assert request.headers["x-amzn-bedrock-guardrailidentifier"] == "abc123"
    signed = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {"x-amzn-bedrock-guardrailidentifier", "x-amzn-bedrock-guardrailversion"} <= set(signed)


@pytest.mark.parametrize("is_passed", [True, False])
async def test_an_exception_in_the_stream_is_its_last_event(is_passed: bool) -> None:
    cut: list[Step] = [FRAMES, *(Send(write_chunk(event.encode())) for event in EVENTS[:3])]
    steps: list[Step] = [*cut, Send(exception("throttlingException", "Too many tokens, please wait.")), End()]
    async with (
        nothing_left(),
        ScriptedUpstream(steps) as up,
        gateway(key_provider(up)) as gate,
    ):
        if is_passed:
            reply = await ask(gate, model=f"up/{CLAUDE}")
            *_, last = documents_of(reply.body)
            assert (last["type"], last["error"]["type"]) == ("error", "rate_limit_error")
        else:
            reply = await chat(gate, f"up/{CLAUDE}", stream=True)
            assert text_of(reply.body) == "Good "
            *_, last = [frame for frame in frames_of(reply.body) if frame != "[DONE]"]
            assert "rate limit" in last["error"]["message"]
        (record,) = await gate.settled()
        assert record.error == "upstream_rate_limited"


def key_provider(up: ScriptedUpstream, name: str = "up", kind: str = "bedrock") -> str:
    return f'[[providers]]\nname = "{name}"\nkind = "{kind}"\nbase_url = "{origin(up)}"\napi_key = "bedrock-key"\n'


@pytest.mark.parametrize(
    "steps",
    [
        [FRAMES, Send(exception("modelStreamErrorException", "no")), End()],
        [FRAMES, Send(write_chunk(EVENTS[0].encode())[:-1] + b"\0"), End()],
        [FRAMES, Send(write_chunk(EVENTS[0].encode())[:-9]), Fin()],
        [FRAMES, Send(write_chunk(EVENTS[0].encode())[:-9]), End()],
        [FRAMES, *(Send(write_chunk(event.encode())) for event in EVENTS[:2]), End()],
        whole(
            b'{"message":"on-demand throughput isn\'t supported"}',
            404,
            [("x-amzn-errortype", "ResourceNotFoundException")],
        ),
        whole(b"<html>", 502),
    ],
    ids=["exception", "checksum", "cut", "ended", "no output", "refused", "proxy"],
)
async def test_what_fails_before_the_first_token_is_answered_by_another_target(steps: list[Step]) -> None:
    targets = ", ".join(f'{{ provider = "{name}", model = "{CLAUDE}" }}' for name in ("up", "other"))
    toml = f'[[models]]\nid = "claude"\ntargets = [{targets}]\n'
    async with (
        nothing_left(),
        ScriptedUpstream(steps) as up,
        ScriptedUpstream(in_frames(EVENTS)) as other,
        gateway(key_provider(up) + "retries = 0\n" + key_provider(other, "other") + toml) as gate,
    ):
        reply = await ask(gate, model="claude")
        assert documents_of(reply.body)[-1]["type"] == "message_stop"
        (record,) = await gate.settled()
        assert record.verdict == "completed"
    assert (len(up.requests), len(other.requests)) == (1, 1)
    assert up.requests[0].headers["authorization"] == "Bearer bedrock-key"


PATHS = [
    ("bedrock", "amazon.nova-pro-v1:0", "/model/amazon.nova-pro-v1%3A0/converse"),
    ("bedrock", "arn:aws:bedrock:us-east-1:1:application-inference-profile/x", "/converse"),
    ("bedrock", "openai.gpt-oss-120b-1:0", "/model/openai.gpt-oss-120b-1%3A0/converse"),
    ("bedrock", "us.openai.gpt-5.6-sol", "/openai/v1/responses"),
    ("bedrock", "google.gemma-4-31b", "/openai/v1/chat/completions"),
    ("bedrock", ARN, "/invoke"),
    ("bedrock-mantle", "openai.gpt-oss-120b", "/v1/chat/completions"),
    ("bedrock-mantle", "xai.grok-4.3", "/openai/v1/responses"),
    ("bedrock-mantle", "anthropic.claude-opus-4-8", "/anthropic/v1/messages"),
]


async def test_the_model_decides_about_the_wire() -> None:
    accounts = {kind: AwsAccount(service=kind) for kind in ("bedrock", "bedrock-mantle")}
    refusal = whole(b'{"message":"not here"}', 400, [("x-amzn-errortype", "ValidationException")])
    for kind, account in accounts.items():
        async with (
            nothing_left(),
            ScriptedUpstream(account.signed(refusal)) as up,
            gateway(signed_provider(up, account, kind)) as gate,
        ):
            rows = [(model, path) for each, model, path in PATHS if each == kind]
            for model, _ in rows:
                assert (await chat(gate, f"up/{model}")).status == 400
            assert [request.path.endswith(path) for request, (_, path) in zip(up.requests, rows, strict=True)] == [
                True
            ] * len(rows), [request.path for request in up.requests]
        assert account.refusals == [], "the signature holds for every path"


async def test_the_second_host_passes_messages_on() -> None:
    account = AwsAccount(service="bedrock-mantle")
    sse = [f"event: {json.loads(event)['type']}\ndata: {event}\n\n".encode() for event in EVENTS]
    steps: list[Step] = [Head(headers=(("content-type", "text/event-stream"),)), *map(Send, sse), End()]
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(steps)) as up,
        gateway(signed_provider(up, account, "bedrock-mantle")) as gate,
    ):
        reply = await ask(gate, model="up/anthropic.claude-opus-4-8")
        assert reply.body == b"".join(sse)
    assert account.refusals == []
    assert up.requests[0].json["model"] == "anthropic.claude-opus-4-8"


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (whole(b'{"inputTokens":4711}'), 4711),
        (whole(b'{"message":"The provided model doesn\'t support counting tokens."}', 400), None),
        (whole(b'{"inputTokens":-1}'), None),
        ([Fin()], None),
    ],
    ids=["counted", "refused", "odd", "gone"],
)
async def test_tokens_are_counted_by_bedrock_where_it_can(answer: list[Step], tokens: int | None) -> None:
    account = AwsAccount()
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(answer)) as up,
        gateway(signed_provider(up, account)) as gate,
        await gate.connect() as client,
    ):
        await client.send(messages_request(path="/v1/messages/count_tokens", model=f"up/{CLAUDE}"))
        reply = await client.response()
        counted = json.loads(reply.body)["input_tokens"]
        assert counted == tokens if tokens is not None else 0 < counted < 100
    assert account.refusals == []
    assert up.requests[0].path == "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens"


def titan(request: Seen) -> Sequence[Step]:
    vector = [float(request.json["inputText"]), 0.5]
    return whole(json.dumps({"embedding": vector, "inputTextTokenCount": 2}).encode())


def cohere(request: Seen) -> Sequence[Step]:
    texts = request.json["texts"]
    body = json.dumps({"embeddings": [[float(text), 0.5] for text in texts], "response_type": "embeddings_floats"})
    return whole(body.encode(), 200, [("X-Amzn-Bedrock-Input-Token-Count", str(2 * len(texts)))])


@pytest.mark.parametrize(
    ("script", "model", "calls"),
    [(titan, "amazon.titan-embed-text-v2:0", 5), (cohere, "cohere.embed-multilingual-v3", 1)],
)
async def test_embeddings(script: Callable[[Seen], Sequence[Step]], model: str, calls: int) -> None:
    account = AwsAccount()
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(script)) as up,
        gateway(signed_provider(up, account)) as gate,
    ):
        reply = await embed(gate, model=f"up/{model}", input=[str(i) for i in range(5)])
        assert vectors_of(reply) == [[float(i), 0.5] for i in range(5)]
        assert json.loads(reply.body)["usage"] == {"prompt_tokens": 10, "total_tokens": 10}
        (record,) = await gate.settled()
        assert (record.verdict, record.usage_source) == ("completed", "provider")
        await up.idle()
    assert (len(up.requests), account.refusals) == (calls, [])


async def test_a_refused_embedding_says_what_to_do() -> None:
    account = AwsAccount()
    refusal = [("x-amzn-errortype", "AccessDeniedException:http://internal.amazon.com/coral/")]
    body = b'{"message":"You don\'t have access to the model with the specified model ID."}'
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(whole(body, 403, refusal))) as up,
        gateway(signed_provider(up, account)) as gate,
    ):
        reply = await embed(gate, model="up/cohere.embed-v4:0")
        assert error_of(reply)["code"] == "upstream_auth_failed"


@pytest.mark.parametrize("stream", [True, False])
async def test_prompts_are_answered_by_way_of_messages(stream: bool) -> None:
    account = AwsAccount()
    script = in_frames(EVENTS) if stream else whole(json.dumps(MESSAGE).encode())
    body = {"model": f"up/{CLAUDE}", "prompt": ["a", "b"], "stream": stream, "max_tokens": 10}
    async with (
        nothing_left(),
        ScriptedUpstream(account.signed(script)) as up,
        gateway(signed_provider(up, account)) as gate,
        await gate.connect() as client,
    ):
        await client.send(chat_request(path="/v1/completions", body=json.dumps(body).encode()))
        reply = await client.response()
        found = frames_of(reply.body) if stream else [json.loads(reply.body)]
        texts = {0: "", 1: ""}
        for choice in (choice for document in found if document != "[DONE]" for choice in document["choices"]):
            texts[choice["index"]] += choice["text"]
        assert texts == {0: "Good day.", 1: "Good day."}
    assert (len(up.requests), account.refusals) == (2, [])


async def test_a_large_answer_is_read_by_another_process() -> None:
    text = "A long day. " * 60_000
    body = json.dumps({**MESSAGE, "content": [{"type": "text", "text": text}]}).encode()
    async with (
        nothing_left(),
        ScriptedUpstream(whole(body)) as up,
        gateway(key_provider(up)) as gate,
    ):
        reply = await chat(gate, f"up/{CLAUDE}", stream=False)
        assert json.loads(reply.body)["choices"][0]["message"]["content"] == text
