"""`POST /v1/responses` over a real socket: streamed and whole from every wire, its errors, its silences, its paths."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.accounting_gateway import MILLI, MODEL, keeping
from support.answers import (
    TEXTS,
    anthropic_stream,
    anthropic_whole,
    error_body,
    gemini_stream,
    gemini_whole,
    openai_frames,
    openai_stream,
    openai_whole,
)
from support.gateway import KEY, gateway_to
from support.responses import ask, documents_of, read_stream, responses_request, said_in
from support.script import End, Fin, Head, Send, Step, Wait, stream, whole

STREAMS = {"openai": openai_stream(), "anthropic": anthropic_stream(), "gemini": gemini_stream()}
WHOLES = {"openai": openai_whole(), "anthropic": anthropic_whole(), "gemini": gemini_whole()}
SLOW = "[server.timeouts]\ncommit_s = 0.02\nkeepalive_s = 0.02\n"


@pytest.mark.parametrize("kind", STREAMS)
async def test_a_stream_of_every_wire(kind: str) -> None:
    async with gateway_to(stream(STREAMS[kind]), kind=kind) as (gate, _):
        reply = await ask(gate)
        assert (reply.status, reply.header("content-type")) == (200, "text/event-stream; charset=utf-8")
        assert reply.header("openai-model") is None
        assert not reply.body.endswith(b"data: [DONE]\n\n")
        response = read_stream(reply.body)
        assert (said_in(response), response["status"]) == ("".join(TEXTS), "completed")
        assert (response["model"], response["store"], response["tools"]) == ("up/m", False, [])
        assert response["usage"] == {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 12,
        }
        assert len(response["id"]) == len("resp_") + 48
        (record,) = await gate.settled()
        assert (record.dialect, record.verdict, record.stream) == ("responses", "completed", True)
        assert record.completion_id == response["id"]
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (7, 5)


@pytest.mark.parametrize("kind", WHOLES)
async def test_a_whole_answer_of_every_wire(kind: str) -> None:
    async with gateway_to(whole(WHOLES[kind]), kind=kind) as (gate, _):
        reply = await ask(gate, stream=False, instructions="Be brief.")
        response = json.loads(reply.body)
        assert (reply.status, reply.header("content-type")) == (200, "application/json")
        assert (said_in(response), response["status"], response["object"]) == (
            "".join(TEXTS),
            "completed",
            "response",
        )
        assert (response["instructions"], response["usage"]["total_tokens"]) == ("Be brief.", 12)
        (record,) = await gate.settled()
        assert (record.dialect, record.verdict, record.completion_id) == ("responses", "completed", response["id"])


async def test_a_large_answer_is_written_by_another_process_with_the_same_members() -> None:
    text = "many words " * 110_000
    tool = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}
    async with gateway_to(whole(openai_whole(text))) as (gate, _):
        response = json.loads((await ask(gate, stream=False, tools=[tool], metadata={"a": "b"})).body)
        assert said_in(response) == text
        assert (response["model"], response["tools"], response["metadata"]) == ("up/m", [tool], {"a": "b"})
        (record,) = await gate.settled()
        assert record.completion_id == response["id"]


# Errors before the answer.


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    ("status", "told", "expected"),
    [
        (400, "bad_request", (400, "invalid_value")),
        (429, "rate_limit_exceeded", (429, "upstream_rate_limited")),
        (503, "server_error", (503, "upstream_overloaded")),
        (500, "server_error", (502, "upstream_server_error")),
        (401, "invalid_api_key", (502, "upstream_auth_failed")),
    ],
)
async def test_an_error_of_the_upstream_has_a_status(
    status: int, told: str, expected: tuple[int, str], streams: bool
) -> None:
    async with gateway_to(whole(error_body("no", told), status)) as (gate, _):
        reply = await ask(gate, stream=streams)
        error = json.loads(reply.body)["error"]
        assert (reply.status, error["code"]) == expected
        assert error.keys() == {"message", "type", "param", "code"}
        await gate.settled()


async def test_a_context_that_is_too_long_is_reported_inside_a_stream() -> None:
    body = error_body("This model's maximum context length is 9 tokens.", code="context_length_exceeded")
    async with gateway_to(whole(body, 400)) as (gate, _):
        reply = await ask(gate, stream=True)
        assert (reply.status, reply.header("content-type")) == (200, "text/event-stream; charset=utf-8")
        documents = documents_of(reply.body)
        kinds = ["response.created", "response.in_progress", "error", "response.failed"]
        assert [document["type"] for document in documents] == kinds
        response = read_stream(reply.body)
        assert response["error"]["code"] == "context_length_exceeded"
        reply = await ask(gate, stream=False)
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, "context_length_exceeded")
        first, second = await gate.settled(2)
        assert (first.status, first.error, second.status) == (200, "context_length_exceeded", 400)
        assert first.verdict == second.verdict


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"previous_response_id": "resp_1"}, "previous_response_not_found", "previous_response_id"),
    ({"conversation": "conv_1"}, "invalid_value", "conversation"),
    ({"prompt": {"id": "pmpt_1"}}, "invalid_value", "prompt"),
    ({"background": True}, "invalid_value", "background"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "invalid_value", "input[0]"),
]


@pytest.mark.parametrize(("members", "code", "param"), REFUSED, ids=[param for *_, param in REFUSED])
async def test_what_would_have_to_be_stored_is_refused_by_its_name(
    members: dict[str, Any], code: str, param: str
) -> None:
    async with gateway_to([]) as (gate, up):
        reply = await ask(gate, **members)
        error = json.loads(reply.body)["error"]
        assert (reply.status, error["code"], error["param"]) == (400, code, param)
        assert not up.requests
        await gate.settled()


async def test_what_is_left_out_is_named() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        reply = await ask(gate, store=True, truncation="auto", tools=[{"type": "image_generation"}])
        assert reply.header("x-streamweir-dropped") == "tools[0], store, truncation"
        (record,) = await gate.settled()
        assert record.dropped == ("tools[0]", "store", "truncation")


async def test_what_is_left_out_of_an_image_is_named_as_the_caller_wrote_it() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "high"}
    async with gateway_to(stream(STREAMS["anthropic"]), kind="anthropic") as (gate, _):
        await ask(gate, input=[{"role": "user", "content": [image]}])
        (record,) = await gate.settled()
        assert record.dropped == ("input[].content[].detail",)


@pytest.mark.parametrize("kind", STREAMS)
async def test_a_search_alone_is_no_reason_to_refuse(kind: str) -> None:
    async with gateway_to(stream(STREAMS[kind]), kind=kind) as (gate, up):
        reply = await ask(gate, tools=[{"type": "web_search"}])
        assert read_stream(reply.body)["status"] == "completed"
        (record,) = await gate.settled()
        if kind == "gemini":
            assert b"googleSearch" in up.requests[0].body
        else:
            assert record.dropped == ("tools[0]",)


# Paths.


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("POST", "/v1/responses/compact"),
        ("GET", "/openai/v1/responses/resp_1"),
    ],
)
async def test_nothing_is_stored_so_nothing_is_there(method: str, path: str) -> None:
    async with gateway_to([]) as (gate, _), await gate.connect() as client:
        head = f"{method} {path} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {KEY}\r\ncontent-length: 0\r\n\r\n"
        await client.send(head.encode())
        reply = await client.response()
        error = json.loads(reply.body)["error"]
        assert (reply.status, error["code"], error["type"]) == (404, "not_found", "invalid_request_error")
        (record,) = await gate.settled()
        assert record.dialect == "responses"


@pytest.mark.parametrize("key", [KEY, None])
async def test_a_websocket_is_refused_at_once_and_the_connection_ends(key: str | None) -> None:
    async with gateway_to([]) as (gate, up), await gate.connect() as client:
        authorization = f"authorization: Bearer {key}\r\n" if key is not None else ""
        head = (
            f"GET /v1/responses HTTP/1.1\r\nhost: g\r\n{authorization}connection: Upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await client.send(head.encode())
        reply = await client.response()
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (426, "upgrade_required")
        assert (reply.header("connection"), reply.header("upgrade")) == ("close", "HTTP/1.1")
        assert await client.is_closed()
        assert not up.requests
        await gate.settled()


async def test_other_methods_are_refused_as_such() -> None:
    async with gateway_to([]) as (gate, _), await gate.connect() as client:
        await client.send(f"GET /v1/responses HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {KEY}\r\n\r\n".encode())
        reply = await client.response()
        assert (reply.status, reply.header("allow")) == (405, "POST")
        await gate.settled()


@pytest.mark.parametrize("base", ["/v1", "/openai/v1"])
async def test_tokens_of_an_input_are_counted(base: str) -> None:
    async with gateway_to([]) as (gate, up):
        reply = await ask(gate, path=f"{base}/responses/input_tokens", stream=True)
        counted = json.loads(reply.body)
        assert (reply.status, counted["object"]) == (200, "response.input_tokens")
        assert counted["input_tokens"] > 0
        assert not up.requests


async def test_a_body_may_have_four_times_the_configured_size() -> None:
    async with gateway_to(stream(openai_stream()), "[server.limits]\nbody_bytes = 100000\n") as (gate, _):
        assert (await ask(gate, instructions="x" * 300_000)).status == 200
        reply = await ask(gate, instructions="x" * 400_000)
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (413, "request_too_large")
        await gate.settled(2)


async def test_its_name_is_in_the_request_log(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        secret = await setup.new_key("ci", dialect="aivene", rpm=5)  # what a key says is for paths that dialects share
        reply = await ask(setup.gate, key=secret, model="m")
        assert reply.header("x-ratelimit-limit-requests") == "5"
        row = await setup.row()
        assert (row.dialect, row.status, row.verdict) == ("responses", 200, "completed")
        assert read_stream(reply.body)["id"] == row.completion_id


async def test_the_session_of_an_agent_is_logged_and_not_sent_on() -> None:
    ids = (("session-id", "s-1"), ("thread-id", "t-1"))
    async with gateway_to(stream(openai_stream())) as (gate, up):
        await ask(gate, headers=(*ids, ("x-codex-window-id", "w"), ("originator", "codex_exec")))
        (record,) = await gate.settled()
        assert record.client_ids == dict(ids)
        sent = {name.lower() for name in up.requests[0].headers}
        assert not sent & {"session-id", "thread-id", "x-codex-window-id", "originator"}


# A stream that breaks off, and one that is silent.


@pytest.mark.parametrize("end", [End(), Fin()], ids=["ended", "cut"])
async def test_a_cut_stream_never_shows_its_end(end: Step) -> None:
    frames = openai_frames(finish=None, done=False, usage=None)
    for count in range(2, len(frames)):  # the first text is there, the end is not
        async with gateway_to([Head(), Send(b"".join(frames[:count])), end]) as (gate, _):
            response = read_stream((await ask(gate)).body)
            assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
            assert response["output"] == [], "an item that was not done is not there"
            (record,) = await gate.settled()
            assert (record.verdict, record.dialect) == ("truncated", "responses")


async def test_a_silent_stream_begins_with_created_and_is_kept_alive_by_numbered_events() -> None:
    more = asyncio.Event()
    script: list[Step] = [Head(), Wait(more), Send(openai_stream()), End()]
    async with gateway_to(script, SLOW) as (gate, _), await gate.connect() as client:
        await client.send(responses_request(stream=True))
        await client.head()
        body = await client.chunk()
        assert [document["type"] for document in documents_of(body)] == ["response.created", "response.in_progress"]
        for _ in range(2):
            chunk = await client.chunk()
            assert chunk.startswith(b"event: keepalive\n")
            body += chunk
        more.set()
        while chunk := await client.chunk():
            body += chunk
        assert read_stream(body)["status"] == "completed"
        await gate.settled()


async def test_a_stream_beyond_its_budget_ends_with_an_error_and_no_number_is_missing(tmp_path: Path) -> None:
    words = [f" word{number:05}" for number in range(500)]
    script: list[Step] = [Head(), *(Send(frame) for frame in openai_frames(words, usage=(7, 1000))), End()]
    async with keeping(script, tmp_path, MODEL) as desk:
        request: dict[str, Any] = {"model": "m", "max_output_tokens": 10}
        prompt = len(responses_request(stream=True, **request).partition(b"\r\n\r\n")[2]) + 100
        secret = await desk.new_key(budget_nano=(prompt + 10) * MILLI)
        response = read_stream((await ask(desk.gate, key=secret, **request)).body)
        assert (response["status"], response["error"]["code"]) == ("failed", "insufficient_quota")
        row = await desk.row()
        assert (row.verdict, row.error, row.dialect) == ("stopped", "budget_exceeded", "responses")
