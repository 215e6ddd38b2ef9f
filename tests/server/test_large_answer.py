"""Whole answers that would block the event loop: read elsewhere, with the same bytes and the same record."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamweir.core.errors import UpstreamError
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import WholeExchange
from streamweir.pipeline.large_answer import is_large
from streamweir.pipeline.large_answer_wire import ANSWER_SOURCE, AnswerSource
from streamweir.pipeline.meter import Meter, Record
from streamweir.pipeline.plan import Mode
from streamweir.pipeline.plausibility import UsageBounds
from streamweir.providers.registry import provider_named
from streamweir.server.relay import large_answer
from streamweir.server.relay.large_answer import read_large
from streamweir.server.relay.large_answer_process import SIZE
from support.answers import openai_stream
from support.attempt import attempt
from support.gateway import chat_request, gateway_to, until
from support.script import End, Hang, Head, Send, Step, Wait, stream, whole

TEXT = "wört " * 300_000
ORIGIN_SENT = SIZE.pack(len(ANSWER_SOURCE.encode(AnswerSource("openai", 1)))) + ANSWER_SOURCE.encode(
    AnswerSource("openai", 1)
)
USAGE = {"prompt_tokens": 10, "completion_tokens": 100, "total_tokens": 110}


def openai(*, text: str = TEXT, tokens: int = 0, choices: int = 1, **more: Any) -> bytes:
    top = [{"token": f" t{i}", "logprob": -1.25 - i, "bytes": [32, 116, 48]} for i in range(20)]
    entries = [{"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": top} for _ in range(tokens)]
    message = {"role": "assistant", "content": text}
    shown: list[dict[str, Any]] = [
        {"index": index, "message": message, "finish_reason": "stop"} for index in range(choices)
    ]
    if tokens:
        shown[0]["logprobs"] = {"content": entries, "refusal": None}
    head = {"id": "chatcmpl-u000000000000001", "object": "chat.completion", "created": 5, "model": "gpt-4o"}
    return json.dumps({**head, "choices": shown, "usage": USAGE, **more}, ensure_ascii=False).encode()


def anthropic() -> bytes:
    calls = [{"type": "tool_use", "id": f"toolu_{i}", "name": "look", "input": {"at": i}} for i in range(2000)]
    content = [{"type": "text", "text": TEXT}, *calls]
    usage = {"input_tokens": 10, "output_tokens": 400_000}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "tool_use"}
    return json.dumps({**head, "content": content, "usage": usage}).encode()


def gemini() -> bytes:
    parts = [{"text": TEXT}, {"text": "why", "thought": True}, {"functionCall": {"name": "look", "args": {"at": 1}}}]
    candidate = {"content": {"parts": parts}, "finishReason": "STOP", "index": 0}
    return json.dumps({"candidates": [candidate], "responseId": "r", "modelVersion": "gemini"}).encode()


ANSWERS = {
    "text": ("openai", openai()),
    "half of a surrogate pair": ("openai", openai().replace(b"w", b"\\ud83d", 1)),
    "half of a surrogate pair in its id": ("openai", openai().replace(b"chatcmpl-u000000000000001", b"\\ud83d", 1)),
    "logprobs": ("openai", openai(text="x", tokens=700)),
    "no usage": ("openai", openai(usage=None)),
    "usage beyond belief": ("openai", openai(usage={**USAGE, "prompt_tokens": 10**9})),
    "too many choices": ("openai", openai(choices=2)),
    "an error": ("openai", openai(error={"message": "boom"})),
    "not JSON": ("openai", openai()[:-1]),
    "anthropic": ("anthropic", anthropic()),
    "gemini": ("gemini", gemini()),
}


def exchange_of(kind: str, dialect: str) -> tuple[WholeExchange, Meter]:
    meter = Meter(3, bounds=UsageBounds(1000))
    reply = Reply(id="chatcmpl-ours", now=lambda: 7, model="m", target_model="t", choices=1)
    return WholeExchange(provider_named(kind), FRONTENDS.by_name[dialect], reply, Mode.TRANSLATE, meter), meter


def fields_of(meter: Meter) -> dict[str, Any]:
    fields = {name: getattr(meter.record, name) for name in Record.__struct_fields__}
    return {
        **fields,
        "delivered": meter.record.delivered.getvalue(),
        "reasoning_text": meter.record.reasoning_text.getvalue(),
    }


@pytest.mark.diagonal
@pytest.mark.diagonal
@pytest.mark.parametrize("dialect", ["openai", "opentoken"])
@pytest.mark.parametrize(("kind", "body"), ANSWERS.values(), ids=ANSWERS)
async def test_it_comes_out_the_same(kind: str, body: bytes, dialect: str) -> None:
    at_once, its_meter = exchange_of(kind, dialect)
    at_once.feed(body)
    assert is_large(body)
    expected = at_once.finish()

    elsewhere, meter = exchange_of(kind, dialect)
    elsewhere.feed(body)
    sent = elsewhere.large_body()
    assert sent == body
    out = await read_large(elsewhere, sent)
    assert out == expected
    assert (elsewhere.ended, elsewhere.failure) == (True, at_once.failure)
    assert fields_of(meter) == fields_of(its_meter)
    assert meter.settle() == its_meter.settle()


async def test_where_no_process_can_be_started_a_thread_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, body = ANSWERS["text"]
    at_once, _ = exchange_of(kind, "openai")
    at_once.feed(body)
    monkeypatch.setattr(large_answer, "_COMMAND", ("/no/such/program",))
    elsewhere, _ = exchange_of(kind, "openai")
    elsewhere.feed(body)
    assert await read_large(elsewhere, body) == at_once.finish()


async def test_a_process_that_ends_is_an_answer_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_answer, "_COMMAND", ("/bin/false",))
    async with gateway_to(whole(openai())) as (gate, _):
        reply = await gate.ask(model="up/m")
        assert reply.status == 502
        (record,) = await gate.settled()
        assert record.error == "response_too_large"
        assert len(record.attempts) == 1


SAYS = "import os, sys, time; os.write(1, bytes.fromhex(sys.argv[1])); time.sleep(600)"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (SIZE.pack(2**40), UpstreamError),
        (SIZE.pack(2) + b"\x80\x04", ValueError),
        (SIZE.pack(25) + b'[{"type":"LogprobsDelta"}]', msgspec.ValidationError),
    ],
    ids=["too much", "no JSON", "no event that may come"],
)
async def test_output_of_the_process_is_bounded(
    monkeypatch: pytest.MonkeyPatch, said: bytes, reason: type[Exception]
) -> None:
    monkeypatch.setattr(large_answer, "_COMMAND", (sys.executable, "-c", SAYS, said.hex()))
    exchange, _ = exchange_of("openai", "openai")
    exchange.feed(openai())
    with pytest.raises(reason):
        await read_large(exchange, openai())


async def test_a_process_without_output_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_answer, "_COMMAND", ("/bin/sleep", "600"))
    monkeypatch.setattr(large_answer, "_TIMEOUT_S", 0.0)
    exchange, _ = exchange_of("openai", "openai")
    exchange.feed(openai())
    with pytest.raises(UpstreamError, match="too long"):
        await read_large(exchange, openai())


@pytest.mark.skipif(sys.platform != "linux", reason="there is no list of a process's files")
async def test_the_process_has_neither_secrets_nor_files_of_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        os.set_inheritable(listener.fileno(), True)
        process = await large_answer._start()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(ORIGIN_SENT + SIZE.pack(2) + b"{}")
    assert await process.stdout.readexactly(SIZE.size)  # it is at work
    try:
        at = Path(f"/proc/{process.pid}")
        assert b"OPENAI_API_KEY" not in (at / "environ").read_bytes()
        assert {file.name for file in (at / "fd").iterdir()} == {"0", "1", "2", "3"}  # the last: where it answers
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("sent", [b"", SIZE.pack(30), ORIGIN_SENT, ORIGIN_SENT + SIZE.pack(2) + b"{}"])
async def test_the_process_ends_with_its_pipes(sent: bytes) -> None:
    process = await large_answer._start()
    await process.communicate(sent)
    assert process.returncode == 1


@pytest.mark.parametrize("body", [openai(), openai(text="x", tokens=6000)], ids=["text", "logprobs"])
async def test_nothing_waits_for_it(body: bytes) -> None:
    """The tests' event loop fails a test in which one turn takes too long."""
    async with gateway_to(whole(body)) as (gate, _):
        reply = await gate.ask(model="up/m", logprobs=True)
        assert reply.status == 200
        sent, got = json.loads(body), json.loads(reply.body)
        assert got["choices"][0]["message"]["content"] == sent["choices"][0]["message"]["content"]
        assert got["choices"][0].get("logprobs") == sent["choices"][0].get("logprobs")
        (record,) = await gate.settled()
        assert record.usage is not None
        assert (record.verdict, record.usage.total_tokens) == ("completed", 110)


async def test_the_caller_may_leave_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_answer, "_COMMAND", ("/bin/sleep", "600"))
    async with gateway_to(whole(openai())) as (gate, _):
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m"))
            await until(lambda: any("_read_large" in str(task.get_coro()) for task in asyncio.all_tasks()))
        (record,) = await gate.settled()
        assert record.verdict == "client_gone"


@pytest.mark.parametrize("leaves", [False, True])
async def test_its_target_has_answered(leaves: bool) -> None:
    """Also where nobody gets it: it was read on for its usage."""
    body, go_on = openai(), asyncio.Event()
    script: list[Step] = [Head(200, "application/json", framing=len(body)), Send(body[:100]), Wait(go_on)]
    async with attempt([*script, Send(body[100:]), End()], stream=False) as (run, _):
        await run.until(lambda: run.relay.bytes_in > 0)
        if leaves:
            run.leave()
        go_on.set()
        await run.over()
        assert run.relay.first_token_at is not None
        assert (run.relay.failure, run.relay.is_delivered) == (None, not leaves)
        assert run.meter.record.completed


async def test_a_stream_instead_of_a_whole_answer_has_a_limited_length() -> None:
    piece = "wört " * 20_000
    async with gateway_to(stream(openai_stream([piece] * 40))) as (gate, _):
        assert (await gate.ask(model="up/m")).status == 200
    async with gateway_to(stream(openai_stream([piece] * 50))) as (gate, _):
        assert (await gate.ask(model="up/m")).status == 502
        (record,) = await gate.settled()
        assert record.error == "response_too_large"
        assert len(record.attempts) == 1


async def test_a_large_whole_answer_instead_of_a_stream_fails() -> None:
    script: list[Step] = [Head(), *[Send(openai()[at : at + 65_536]) for at in range(0, 2_000_000, 65_536)], Hang()]
    async with gateway_to(script) as (gate, up):
        reply = await gate.ask(model="up/m", stream=True)
        assert reply.status == 502
        (record,) = await gate.settled()
        assert record.error == "upstream_frame_too_large"
        await up.vacated()
