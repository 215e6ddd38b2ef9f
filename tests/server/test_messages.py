"""`POST /v1/messages` over a real socket: translated from every wire, and passed on if the upstream uses it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.accounting_gateway import keeping
from support.answers import (
    TEXTS,
    anthropic_error_body,
    anthropic_frames,
    anthropic_stream,
    anthropic_whole,
    error_body,
    gemini_stream,
    gemini_whole,
    openai_frames,
    openai_stream,
    openai_whole,
)
from support.gateway import KEY, chat_request, gateway_to
from support.messages import QUESTION, ask, documents_of, messages_request, read_stream
from support.script import End, Fin, Head, Send, Step, Wait, in_turn, stream, whole

STREAMS = {"openai": openai_stream(), "anthropic": anthropic_stream(), "gemini": gemini_stream()}
WHOLES = {"openai": openai_whole(), "anthropic": anthropic_whole(), "gemini": gemini_whole()}
SLOW = "[server.timeouts]\ncommit_s = 0.02\nkeepalive_s = 0.02\n"


@pytest.mark.parametrize("kind", STREAMS)
async def test_a_stream_of_every_wire(kind: str) -> None:
    async with gateway_to(stream(STREAMS[kind]), kind=kind) as (gate, _):
        reply = await ask(gate)
        assert (reply.status, reply.header("content-type")) == (200, "text/event-stream; charset=utf-8")
        assert reply.header("request-id") == reply.header("x-request-id") != None  # noqa: E711 (one comparison)
        message = read_stream(reply.body)
        assert message["content"] == [{"type": "text", "text": "".join(TEXTS)}]
        assert (message["role"], message["stop_reason"], message["stop_sequence"]) == ("assistant", "end_turn", None)
        assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (7, 5)
        assert message["id"].startswith("msg_")
        (record,) = await gate.settled()
        assert (record.dialect, record.verdict, record.stream) == ("messages", "completed", True)
        assert record.completion_id == message["id"]
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (7, 5)


@pytest.mark.parametrize("kind", WHOLES)
async def test_a_whole_answer_of_every_wire(kind: str) -> None:
    async with gateway_to(whole(WHOLES[kind]), kind=kind) as (gate, _):
        reply = await ask(gate, stream=False, path="/anthropic/v1/messages")
        message = json.loads(reply.body)
        assert (reply.status, reply.header("content-type")) == (200, "application/json")
        assert message["content"] == [{"type": "text", "text": "".join(TEXTS)}]
        assert (message["type"], message["stop_reason"], message["usage"]["output_tokens"]) == (
            "message",
            "end_turn",
            5,
        )
        (record,) = await gate.settled()
        assert (record.dialect, record.verdict, record.completion_id) == ("messages", "completed", message["id"])


async def test_a_large_answer_is_written_by_another_process_with_the_same_members() -> None:
    text = "many words " * 110_000
    async with gateway_to(whole(openai_whole(text))) as (gate, _):
        message = json.loads((await ask(gate, stream=False)).body)
        assert message["content"] == [{"type": "text", "text": text}]
        assert (message["type"], message["model"], message["stop_reason"]) == ("message", "up/m", "end_turn")
        (record,) = await gate.settled()
        assert record.completion_id == message["id"]


async def test_the_answer_names_the_model_that_was_asked_for_and_the_prompt_is_estimated_at_its_start() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        start = documents_of((await ask(gate)).body)[0]["message"]
        assert (start["model"], start["content"], start["stop_reason"]) == ("up/m", [], None)
        assert start["usage"]["input_tokens"] > 0
        await gate.settled()


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
async def test_the_key_comes_in_either_header(header: str) -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        value = f"Bearer {KEY}" if header == "authorization" else KEY
        assert (await ask(gate, key=None, headers=((header, value),))).status == 200
        assert (await ask(gate, key=None, headers=((header, f"{value}x"),))).status == 401
        await gate.settled(2)


@pytest.mark.parametrize("path", ["/v1/models?limit=1000", "/anthropic/v1/models"])
async def test_the_models_are_listed_as_the_apis_clients_expect(path: str) -> None:
    version = "" if path.startswith("/anthropic") else "anthropic-version: 2023-06-01\r\n"
    async with gateway_to([]) as (gate, _), await gate.connect() as client:
        await client.send(f"GET {path} HTTP/1.1\r\nhost: g\r\nx-api-key: {KEY}\r\n{version}\r\n".encode())
        document = json.loads((await client.response()).body)
        assert document.keys() == {"data", "has_more", "first_id", "last_id"}
        await gate.settled()


# Errors.


@pytest.mark.parametrize(
    ("status", "told", "expected"),
    [
        (400, "bad_request", (400, "invalid_request_error")),
        (429, "rate_limit_exceeded", (429, "rate_limit_error")),
        (503, "server_error", (529, "overloaded_error")),
        (500, "server_error", (502, "api_error")),
        (401, "invalid_api_key", (502, "api_error")),
        (402, "insufficient_quota", (503, "overloaded_error")),
    ],
)
async def test_an_error_of_the_upstream_has_the_apis_shape(status: int, told: str, expected: tuple[int, str]) -> None:
    async with gateway_to(whole(error_body("no", told), status)) as (gate, _):
        reply = await ask(gate)
        document = json.loads(reply.body)
        assert (reply.status, document["error"]["type"]) == expected
        assert document.keys() == {"type", "error", "request_id"}
        assert document["request_id"] == reply.header("request-id") == reply.header("x-request-id")
        await gate.settled()


@pytest.mark.parametrize("stream", [True, False])
async def test_an_upstream_that_speaks_the_api_is_quoted(stream: bool) -> None:
    body = anthropic_error_body("messages.1: Invalid signature in thinking block, at api.example.com", "my_new_error")
    async with gateway_to(whole(body, 422), kind="anthropic") as (gate, _):
        reply = await ask(gate, stream=stream)
        assert reply.status == 422
        message = "messages.1: Invalid signature in thinking block, at ***"
        assert json.loads(reply.body)["error"] == {"type": "my_new_error", "message": message}
        await gate.settled()


@pytest.mark.parametrize("status", [401, 402, 403])
async def test_errors_about_the_operators_account_are_not_passed_on(status: int) -> None:
    body = anthropic_error_body("the key of the operator", "authentication_error")
    async with gateway_to(whole(body, status), kind="anthropic") as (gate, _):
        reply = await ask(gate)
        assert reply.status >= 500
        assert b"operator" not in reply.body
        await gate.settled()


async def test_a_model_that_is_not_there_and_a_path_that_is_not_there() -> None:
    async with gateway_to([]) as (gate, _):
        reply = await ask(gate, model="nobody/none")
        assert (reply.status, json.loads(reply.body)["error"]) == (
            404,
            {"type": "not_found_error", "message": "model: nobody/none"},
        )
        reply = await ask(gate, path="/v1/messages/batches")
        assert (reply.status, json.loads(reply.body)["error"]["type"]) == (404, "not_found_error")
        await gate.settled(2)


async def test_a_body_may_have_four_times_the_configured_size() -> None:
    async with gateway_to(stream(openai_stream()), "[server.limits]\nbody_bytes = 100000\n") as (gate, _):
        assert (await ask(gate, system="x" * 300_000)).status == 200
        reply = await ask(gate, system="x" * 400_000)
        assert (reply.status, json.loads(reply.body)["error"]["type"]) == (413, "request_too_large")
        assert (await gate.ask(model="up/m", user="x" * 100_000)).status == 413
        await gate.settled(3)


async def test_limits_are_sent_under_the_apis_names(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        secret = await setup.new_key("ci", rpm=1)
        reply = await ask(setup.gate, key=secret, model="m")
        assert (reply.status, reply.header("anthropic-ratelimit-requests-limit")) == (200, "1")
        assert reply.header("anthropic-ratelimit-requests-remaining") == "0"
        assert str(reply.header("anthropic-ratelimit-requests-reset")).endswith("Z")
        assert reply.header("x-ratelimit-limit-requests") is None
        reply = await ask(setup.gate, key=secret, model="m")
        assert (reply.status, json.loads(reply.body)["error"]["type"]) == (429, "rate_limit_error")
        assert reply.header("retry-after") is not None
        await setup.gate.settled(2)


async def test_its_name_is_in_the_request_log(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        secret = await setup.new_key("ci", dialect="aivene")  # what a key says is for paths that dialects share
        reply = await ask(setup.gate, key=secret, model="m")
        row = await setup.row()
        assert (row.dialect, row.status, row.verdict) == ("messages", 200, "completed")
        assert read_stream(reply.body)["id"] == row.completion_id


# A stream that breaks off, and one that is silent.


@pytest.mark.parametrize("end", [End(), Fin()], ids=["ended", "cut"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_cut_stream_never_shows_its_end(kind: str, end: Step) -> None:
    frames = openai_frames(finish=None, done=False, usage=None) if kind == "openai" else anthropic_frames()
    for count in range(2 if kind == "openai" else 3, len(frames)):  # the first text is there, the end is not
        async with gateway_to([Head(), Send(b"".join(frames[:count])), end], kind=kind) as (gate, _):
            message = read_stream((await ask(gate)).body)
            assert message["error"]["type"] == "api_error"
            assert message["stop_reason"] is None
            (record,) = await gate.settled()
            assert (record.verdict, record.dialect) == ("truncated", "messages")


async def test_an_error_inside_a_stream_is_the_last_frame_and_quoted() -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    begun = b"".join(anthropic_frames(TEXTS[:2], finish=None, stop=False)[:-1])
    async with gateway_to(stream(begun + error), kind="anthropic") as (gate, _):
        reply = await ask(gate)
        assert reply.body.startswith(begun)
        assert read_stream(reply.body)["error"] == {"type": "overloaded_error", "message": "Overloaded"}
        (record,) = await gate.settled()
        assert record.error == "upstream_overloaded"


async def test_a_stream_that_must_begin_without_an_event_begins_with_its_start_and_then_pings() -> None:
    more = asyncio.Event()
    script: list[Step] = [Head(), Wait(more), Send(openai_stream()), End()]
    async with gateway_to(script, SLOW) as (gate, _), await gate.connect() as client:
        await client.send(messages_request(stream=True))
        await client.head()
        assert (await client.chunk()).startswith(b"event: message_start\n")
        assert await client.chunk() == b'event: ping\ndata: {"type":"ping"}\n\n'
        more.set()
        rest = b""
        while chunk := await client.chunk():
            rest += chunk
        assert b"message_start" not in rest
        assert documents_of(rest)[-1] == {"type": "message_stop"}
        await gate.settled()


async def test_before_the_first_frame_of_a_passed_stream_only_comments_are_written() -> None:
    more = asyncio.Event()
    script: list[Step] = [Head(), Wait(more), Send(anthropic_stream()), End()]
    async with gateway_to(script, SLOW, kind="anthropic") as (gate, _), await gate.connect() as client:
        await client.send(messages_request(stream=True))
        await client.head()
        assert await client.chunk() == b": keep-alive\n"
        more.set()
        rest = b""
        while chunk := await client.chunk():
            rest += chunk
        assert rest.endswith(anthropic_stream())
        assert set(rest.removesuffix(anthropic_stream()).splitlines()) <= {b": keep-alive"}
        await gate.settled()


IDS = tuple((f"x-claude-code-{name}-id", f"{name}@0c6a7f0e-3d2b-4a51") for name in ("session", "agent", "parent-agent"))


async def test_the_ids_of_an_agent_are_logged_and_not_sent_on() -> None:
    async with gateway_to(stream(anthropic_stream()), kind="anthropic") as (gate, up):
        await ask(gate, headers=(*IDS, ("x-claude-code-other-id", "1")))
        (record,) = await gate.settled()
        assert record.client_ids == dict(IDS)
        assert not [name for name in up.requests[0].headers if name.lower().startswith("x-claude")]
        await ask(gate, headers=(("x-claude-code-agent-id", f"a{KEY}"),))
        assert (await gate.settled(2))[-1].client_ids == {"x-claude-code-agent-id": "a***"}


# Passed on.

UNKNOWN = b'event: something_new\ndata: {"type": "something_new", "who": "knows"}\n\n'


async def test_frames_pass_byte_for_byte_and_unknown_ones_too() -> None:
    frames = anthropic_frames()
    body = b"".join([frames[0], b": comment\n\n", *frames[1:4], UNKNOWN, *frames[4:-1], UNKNOWN, frames[-1]])
    async with gateway_to(stream(body), kind="anthropic") as (gate, _):
        assert (await ask(gate)).body == body
        (record,) = await gate.settled()
        assert (record.verdict, record.completion_id, record.usage_source) == (
            "completed",
            "msg_01Scripted",
            "provider",
        )


async def test_a_whole_answer_passes_byte_for_byte() -> None:
    body = b'{"type": "message",  "new": 1,' + anthropic_whole()[1:]
    async with gateway_to(whole(body), kind="anthropic") as (gate, _):
        assert (await ask(gate, stream=False)).body == body
        (record,) = await gate.settled()
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (7, 5)


async def test_the_request_is_passed_on_in_order_with_another_model() -> None:
    sent: dict[str, Any] = {
        "metadata": {"user_id": "u"},
        "messages": [
            {"content": [{"cache_control": {"type": "ephemeral"}, "text": "Hi", "type": "text"}], "role": "user"}
        ],
        "unheard_of": {"b": 1, "a": [2.5, None]},
        "max_tokens": 100,
        "model": "up/claude",
        "speed": "fast",
        "stream": True,
        "system": [{"type": "text", "text": "x-anthropic-billing-header: 1"}],
    }
    headers = (("anthropic-version", "2026-10-21"), ("anthropic-beta", "a-1,b-2"), ("anthropic-workspace-id", "w"))
    async with gateway_to(stream(anthropic_stream()), kind="anthropic") as (gate, up):
        async with await gate.connect() as client:
            body = json.dumps(sent).encode()
            await client.send(chat_request(path="/v1/messages?beta=true", headers=headers, body=body))
            assert (await client.response()).status == 200
        (request,) = up.requests
        expected = {name: value for name, value in sent.items() if name != "speed"} | {"model": "claude"}
        assert request.body == json.dumps(expected, separators=(",", ":")).encode()
        assert request.headers["anthropic-version"] == "2026-10-21"
        assert request.headers["anthropic-beta"] == "a-1,b-2"
        assert "anthropic-workspace-id" not in request.headers
        (record,) = await gate.settled()
        assert record.dropped == ("speed",)


async def test_usage_is_metered_in_the_buckets_of_the_cache() -> None:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15},
        "output_tokens": 1,
    }
    frames = anthropic_frames()
    start = json.loads(frames[0].split(b"data: ")[1])
    start["message"]["usage"] = usage
    frames[0] = b"event: message_start\ndata: %b\n\n" % json.dumps(start).encode()
    async with gateway_to(stream(b"".join(frames)), kind="anthropic") as (gate, _):
        await ask(gate, system="a long prompt " * 100)
        (record,) = await gate.settled()
        told = record.usage
        assert told is not None
        assert (told.input_uncached, told.cache_read, told.cache_write_5m, told.cache_write_1h) == (3, 100, 5, 15)
        assert told.completion_tokens == len(TEXTS)


def test_the_question_of_these_tests_is_the_least_that_there_is() -> None:
    assert set(QUESTION) == {"model", "max_tokens", "messages"}


SIGNED = [
    {"role": "user", "content": "Hi"},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "Yo"}],
    },
    {"role": "user", "content": "So?"},
]
REFUSED = anthropic_error_body("messages.1.content.0: Invalid `signature` in `thinking` block", "invalid_request_error")


async def test_signatures_that_are_refused_are_left_out_once() -> None:
    script = in_turn(whole(REFUSED, 400), stream(anthropic_stream()))
    async with gateway_to(script, kind="anthropic") as (gate, up):
        assert (await ask(gate, messages=SIGNED)).body == anthropic_stream()
        assert [len(request.json["messages"][1]["content"]) for request in up.requests] == [2, 1]
        (record,) = await gate.settled()
        assert (record.dropped, len(record.attempts)) == (("messages[1].content[0]",), 2)


async def test_a_second_refusal_is_passed_on() -> None:
    async with gateway_to(whole(REFUSED, 400), kind="anthropic") as (gate, up):
        assert (await ask(gate, messages=SIGNED)).status == 400
        assert len(up.requests) == 2
        await gate.settled()


# Counts of tokens.

COUNT = "/v1/messages/count_tokens"


@pytest.mark.parametrize("path", [COUNT, "/anthropic/v1/messages/count_tokens"])
async def test_tokens_are_counted_by_ourselves_where_the_provider_has_no_count(path: str) -> None:
    async with gateway_to([]) as (gate, up):
        short, long = [json.loads((await ask(gate, path=path, system="word " * n)).body) for n in (10, 1000)]
        assert 0 < short["input_tokens"] < long["input_tokens"]
        managed = json.loads((await ask(gate, path=path, max_tokens=None, context_management={"edits": []})).body)
        assert managed["context_management"] == {"original_input_tokens": managed["input_tokens"]}
        assert not up.requests
        assert not gate.records, "neither logged nor billed"


async def test_a_provider_of_the_same_api_counts_itself() -> None:
    async with gateway_to(whole(b'{"input_tokens": 4711}'), kind="anthropic") as (gate, up):
        reply = await ask(gate, path=COUNT, max_tokens=None, system="x" * 100_000)
        assert json.loads(reply.body) == {"input_tokens": 4711}
        assert reply.header("request-id") == reply.header("x-request-id")
        (request,) = up.requests
        assert request.path.endswith("/messages/count_tokens")
        assert request.json["model"] == "m"


@pytest.mark.parametrize(
    "script", [whole(anthropic_error_body("no"), 404), whole(b"{}"), whole(b"x"), [Fin()], whole(b"1" * 100_000)]
)
async def test_what_it_does_not_count_is_counted_here(script: list[Step]) -> None:
    async with gateway_to(script, kind="anthropic") as (gate, _):
        reply = await ask(gate, path=COUNT)
        assert (reply.status, json.loads(reply.body)["input_tokens"] > 0) == (200, True)


async def test_a_count_that_is_refused_has_the_apis_shape() -> None:
    async with gateway_to([]) as (gate, _):
        assert (await ask(gate, path=COUNT, key=None)).status == 401
        reply = await ask(gate, path=COUNT, model="nobody/none")
        assert (reply.status, json.loads(reply.body)["error"]["type"]) == (404, "not_found_error")
        reply = await ask(gate, path=COUNT, messages=[])
        assert (reply.status, json.loads(reply.body)["error"]["type"]) == (400, "invalid_request_error")


async def test_many_counts_at_once() -> None:
    async with gateway_to([]) as (gate, _):
        replies = await asyncio.gather(*(ask(gate, path=COUNT, system="word " * 2000) for _ in range(30)))
        assert {reply.status for reply in replies} == {200}
        assert len({reply.body for reply in replies}) == 1
