"""What goes wrong around a stream of the Responses API, translated and passed on: docs/spec/failures.md.

Callers that leave or read slowly, a budget that ends, a process that is stopped or killed, another attempt, and bodies
that are as large as they may be. What an upstream can do wrong is tested with the other dialects (`test_upstream_*`,
`test_failover`, `test_upstream_responses`), cuts in `test_responses_cuts`.
"""

import asyncio
import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from conftest import SOAKS
from streamweir.core.verdict import Verdict
from streamweir.frontends.carried import carry
from streamweir.pipeline.settlement import UsageSource
from streamweir.store.db.engine import open_store
from streamweir.store.ledger.check import check_sums
from support.accounting_gateway import MILLI, MODEL, keeping
from support.answers import (
    TEXTS,
    USAGE,
    anthropic_frames,
    error_body,
    gemini_frames,
    openai_frames,
    openai_stream,
    responses_frames,
    responses_stream,
)
from support.forked_processes import fork_server
from support.gateway import KEY, gateway_to, providers, until
from support.ledger_reader import open_ledger_reader
from support.raw_client import CutShort, RawClient
from support.responses import ask, documents_of, read_stream, responses_request, said_in, text_so_far
from support.script import End, Flood, Hang, Head, Seen, Send, Step, Wait, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import Program, Stream
from support.slow_reader import MOST_TAKEN, PIECE, standing_still
from support.stores import migrated_url

pytestmark = pytest.mark.diagonal

FRAMES = {
    "openai": openai_frames(),
    "responses": responses_frames(),
    "anthropic": anthropic_frames(),
    "gemini": gemini_frames(),
}
BEGUN = {"openai": 3, "responses": 6, "anthropic": 4, "gemini": 2}
"""How many frames bring the first two texts."""
STREAMS = {"openai": openai_stream(), "responses": responses_stream()}
each_kind = pytest.mark.parametrize("kind", FRAMES)
each_way = pytest.mark.parametrize("kind", STREAMS, ids=["translated", "passed"])


def provider_of(kind: str, *settings: str) -> dict[str, Any]:
    """The kind of a provider that speaks it, and TOML inside of the provider."""
    wire = ('wire = "responses"',) if kind == "responses" else ()
    return {"kind": "openai" if kind == "responses" else kind, "provider": "\n".join([*wire, *settings])}


def begun(kind: str) -> bytes:
    return b"".join(FRAMES[kind][: BEGUN[kind]])


def rest_of(kind: str) -> bytes:
    return b"".join(FRAMES[kind][BEGUN[kind] :])


def assert_failed(body: bytes, code: str, text: str) -> None:
    """By `error` and `response.failed`, after so much text."""
    *came, error, failed = documents_of(body)
    assert (error["type"], error["error"]["code"], failed["type"]) == ("error", code, "response.failed")
    assert failed["response"]["error"]["code"] == code
    assert failed["response"]["id"] == came[0]["response"]["id"]
    assert text_so_far(body) == text


# C3, C4: a caller that leaves.


@each_kind
@pytest.mark.parametrize("leave", [RawClient.close, RawClient.reset], ids=["fin", "rst"])
async def test_c3_a_caller_that_leaves_in_the_middle_pays_for_what_it_got(kind: str, leave: Any) -> None:
    script: list[Step] = [Head(), Send(begun(kind)), Hang()]
    own = provider_of(kind, "cancel_stops_billing = true")
    async with gateway_to(script, **own) as (gate, up), await gate.connect() as client:
        await client.send(responses_request(stream=True))
        await client.read_until(TEXTS[1].encode())
        leave(client)
        await up.aborted(1)
        (record,) = await gate.settled()
        assert (record.verdict, record.status, record.error) == (Verdict.CLIENT_GONE, 200, None)
        assert record.usage is not None
        assert record.usage.completion_tokens == (2 if kind == "gemini" else 3)
        assert record.usage_source is (UsageSource.PROVIDER if kind == "gemini" else UsageSource.ESTIMATE)


async def test_c4_a_caller_that_leaves_before_the_last_frame_pays_what_the_provider_reported() -> None:
    frames = FRAMES["openai"]
    script: list[Step] = [Head(), Send(b"".join(frames[:-1])), Hang()]
    silence = "[server.timeouts]\nsilence_s = 0.2"
    async with gateway_to(script, silence) as (gate, up), await gate.connect() as client:
        await client.send(responses_request(stream=True))
        await client.read_until(TEXTS[-1].encode())
        await until(lambda: up.body_sent == len(b"".join(frames[:-1])))
        await gate.has_read()
        client.close()
        await up.aborted(1)
        (record,) = await gate.settled()
        assert record.verdict is Verdict.CLIENT_GONE
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == USAGE
        assert record.usage_source is UsageSource.PROVIDER


# C8, C9: a caller that reads slowly.


def long_answer(kind: str, pieces: int) -> list[Step]:
    """Its frames have one number: the end of one that is passed on repeats only one piece."""
    make = {"openai": openai_frames, "responses": responses_frames}[kind]
    frames, at = make([PIECE]), {"openai": 1, "responses": 4}[kind]
    start, end = b"".join(frames[:at]), b"".join(frames[at + 1 :])
    return [Head(), Send(start), Flood(frames[at], pieces), Send(end), End()]


@each_way
async def test_c8_a_reader_that_stops_is_dropped_and_so_is_its_upstream(kind: str) -> None:
    patience = "[server.timeouts]\nwrite_stall_s = 0.3"
    script = long_answer(kind, 100_000)
    async with gateway_to(script, patience, **provider_of(kind), send_buffer=65536) as (gate, up):
        async with await gate.connect(receive_buffer=4096) as client:
            await client.send(responses_request(stream=True, max_output_tokens=1_000_000))
            await up.aborted(1)
            assert up.body_sent <= MOST_TAKEN
            (record,) = await gate.settled()
            with pytest.raises((CutShort, ConnectionError)):
                await client.response()
        assert (record.verdict, record.status) == (Verdict.CLIENT_GONE, 200)
        assert record.usage_source is UsageSource.ESTIMATE


@each_way
async def test_c9_a_reader_that_pauses_loses_nothing(kind: str) -> None:
    count = 200
    async with gateway_to(long_answer(kind, count), **provider_of(kind), send_buffer=65536) as (gate, up):
        async with await gate.connect(receive_buffer=4096) as client:
            await client.send(responses_request(stream=True, max_output_tokens=1_000_000))
            await standing_still(gate, up)
            await client.head()
            body = await client.rest()
        if kind == "openai":
            assert said_in(read_stream(body)) == PIECE * count
        assert body.count(PIECE.encode()) == (5 * count if kind == "openai" else count + 4)
        assert b"event: response.completed\n" in body
        (record,) = await gate.settled()
        assert (record.verdict, up.aborts) == (Verdict.COMPLETED, [])


# C24: a budget that ends in mid-stream.

LONG = [f" word{number:05}" for number in range(500)]
USED = (7, 1000)


@each_way
@pytest.mark.parametrize("bills_on", [True, False], ids=["bills on", "stops billing"])
async def test_c24_an_answer_beyond_its_budget_is_cut(kind: str, bills_on: bool, tmp_path: Path) -> None:
    frames = (openai_frames if kind == "openai" else responses_frames)(LONG, usage=USED)
    last: list[Step] = [*(Send(frame) for frame in frames[-4:]), End()] if bills_on else [Hang()]
    script: list[Step] = [Head(), *(Send(frame) for frame in frames[:-4]), *last]
    own = provider_of(kind, f"cancel_stops_billing = {'false' if bills_on else 'true'}", "")
    async with keeping(script, tmp_path, MODEL, **own) as desk:
        request: dict[str, Any] = {"model": "m", "max_output_tokens": 16}
        prompt = len(responses_request(stream=True, **request).partition(b"\r\n\r\n")[2]) + 100
        secret = await desk.new_key(budget_nano=(prompt + 16) * MILLI)
        reply = await ask(desk.gate, key=secret, **request)
        assert reply.status == 200
        said = text_so_far(reply.body)
        assert_failed(reply.body, "insufficient_quota", said)
        assert "".join(LONG).startswith(said)
        assert 0 < len(said) < len("".join(LONG)) / 2
        row = await desk.row()
        assert (row.verdict, row.error, row.status, row.dialect) == ("stopped", "budget_exceeded", 200, "responses")
        entries = [entry for entry, _, _ in await desk.ledger(row.request_id)]
        assert (entries[0], entries[-1], entries.count("settle")) == ("hold", "settle", 1)
        if bills_on:
            assert (row.usage_source, row.prompt_tokens, row.completion_tokens) == ("provider", *USED)
        else:
            assert row.usage_source in ("tokenizer", "estimate")
            assert 0 < (row.completion_tokens or 0) <= len(said)
            await desk.up.aborted(1)


# G1, G3: a process that ends.


def providers_of(**addresses: str) -> str:
    return "".join(providers(**{name: url}) + provider_of(name)["provider"] + "\n" for name, url in addresses.items())


async def open_stream(stack: AsyncExitStack, program: Program, kind: str) -> Stream:
    client = await stack.enter_async_context(await program.connect())
    await client.send(responses_request(model=f"{kind}/m", stream=True))
    opened = Stream(client, await client.head(), [])
    await opened.until(TEXTS[1].encode())
    return opened


async def test_g1_a_drain_waits_for_streams_and_tells_those_that_are_left(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    def script_for(kind: str) -> Any:
        def chosen(request: Seen) -> list[Step]:
            end: list[Step] = [Wait(go_on), Send(rest_of(kind)), End()] if request.number == 0 else [Hang()]
            return [Head(), Send(begun(kind)), *end]

        return chosen

    async with ScriptedUpstream(script_for("openai")) as one, ScriptedUpstream(script_for("responses")) as two:
        toml = providers_of(openai=one.base_url, responses=two.base_url)
        async with fork_server().served(tmp_path, toml) as program, AsyncExitStack() as stack:
            await program.started()
            whole_ones = [await open_stream(stack, program, kind) for kind in STREAMS]
            cut_ones = [await open_stream(stack, program, kind) for kind in STREAMS]
            program.signal(signal.SIGTERM)
            await program.logged("stopping")
            go_on.set()
            for each in whole_ones:
                response = read_stream((await each.rest()).body)
                assert (response["status"], said_in(response)) == ("completed", "".join(TEXTS))
            program.signal(signal.SIGTERM)
            for each in cut_ones:
                assert_failed((await each.rest()).body, "server_error", "".join(TEXTS[:2]))
            assert await program.status() == 1
            assert sorted(each["verdict"] for each in program.requests()) == [*["completed"] * 2, *["shutdown"] * 2]


@pytest.mark.soak
async def test_g3_a_killed_process_leaves_one_row_for_each_stream_and_sums_that_agree(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    url = await migrated_url("sqlite", data)

    def script_for(kind: str) -> list[Step]:
        return [Head(), Send(begun(kind)), Hang()]

    async with ScriptedUpstream(script_for("openai")) as one, ScriptedUpstream(script_for("responses")) as two:
        toml = f'[store]\nurl = "{url}"\n' + providers_of(openai=one.base_url, responses=two.base_url)
        async with fork_server().served(tmp_path, toml) as program, AsyncExitStack() as stack:
            await program.started()
            streams = [await open_stream(stack, program, kind) for kind in STREAMS]
            program.signal(signal.SIGKILL)
            for each in streams:
                with pytest.raises((CutShort, ConnectionError)):
                    await each.rest()
                assert b"response.completed" not in each.so_far.body
            assert await program.status() == -signal.SIGKILL
        ids = {each.so_far.header("x-request-id") for each in streams}
        async with fork_server().served(tmp_path, toml) as program, open_ledger_reader(url, data) as accounting:
            await program.started()
            seen = await accounting.until(lambda seen: not seen.open and len(seen.rows) == 2)
            assert seen.rows.keys() == ids
            assert {(row.verdict, row.dialect) for row in seen.rows.values()} == {("orphaned", "responses")}
            assert list(seen.kinds.values()) == [["hold", "settle"]] * 2
    store = await open_store(url, data)
    try:
        assert (await store.read(check_sums)).faults == []
    finally:
        await store.close()


# U10: another attempt, before anything was sent.


@pytest.mark.usefixtures("no_jitter")
@pytest.mark.parametrize("status", [500, 503, 529])
@each_way
async def test_u10_an_attempt_that_failed_is_followed_by_another(kind: str, status: int) -> None:
    script = in_turn(whole(error_body("later"), status), stream(STREAMS[kind]))
    async with gateway_to(script, **provider_of(kind)) as (gate, _):
        reply = await ask(gate)
        (record,) = await gate.settled()
        assert said_in(read_stream(reply.body)) == "".join(TEXTS)
        assert [each.error is None for each in record.attempts] == [False, True]


# G19: bodies as large as they may be. The tests' event loop fails a test in which one turn takes too long.


def question(*items: dict[str, Any]) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": "go"}, *items]}


def calls(count: int) -> dict[str, Any]:
    """All of one id, with their results far behind."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    return question(*[call] * count, *[{"type": "function_call_output", "call_id": "c", "output": "x"}] * count)


def thoughts(count: int) -> dict[str, Any]:
    """Envelopes of ours that somebody has made, and what cannot be one."""
    bomb = carry("m", [{"type": "reasoning.encrypted", "data": "A" * 200_000}])
    forged = ["sw1.", "sw1.!!", "sw1.eJyrrgUAAXUA-Q", "sw1.eJx7", "\u0000", "EqQB", bomb]
    made = [{"type": "reasoning", "summary": [], "encrypted_content": forged[i % len(forged)]} for i in range(count)]
    return question(*made, {"type": "message", "role": "assistant", "content": "so"}, {"role": "user", "content": "on"})


def tools(count: int) -> dict[str, Any]:
    """Names that are one when they are flat, and names that no other family takes."""
    inner = [{"type": "function", "name": f"t{i % 10}"} for i in range(count)]
    return {
        "tools": [
            *inner,
            {"type": "namespace", "name": "a", "tools": [{"type": "custom", "name": f"b__{i}"} for i in range(count)]},
            {
                "type": "namespace",
                "name": "a__b",
                "tools": [{"type": "function", "name": str(i)} for i in range(count)],
            },
            *({"type": "function", "name": f"ü.{i}"} for i in range(count)),
        ]
    }


BODIES: dict[str, dict[str, Any]] = {
    "calls": calls(3_000),
    "thoughts": thoughts(10_000),
    "tools": tools(8_000 if SOAKS else 2_000),
    "parts": {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}] * 60_000}]},
    "metadata": {"metadata": {str(i): "x" * 1000 for i in range(9_000)}},
    "a picture": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 31 * 1024 * 1024},
                ],
            }
        ]
    },
}


@pytest.mark.parametrize("name", BODIES if SOAKS else ["calls", "thoughts", "tools", "metadata"])
@each_way
async def test_g19_a_large_body_holds_up_nobody(kind: str, name: str) -> None:
    async with gateway_to(stream(STREAMS[kind]), **provider_of(kind)) as (gate, up):
        reply = await ask(gate, **BODIES[name])
        assert reply.status == 200
        assert len(reply.body) < 20_000, "what is large is not repeated"
        assert len(up.requests) == 1
        await gate.settled()


async def test_g19_a_large_body_that_is_only_counted_holds_up_nobody_either() -> None:
    async with gateway_to([]) as (gate, up):
        reply = await ask(gate, path="/v1/responses/input_tokens", stream=False, instructions="many words " * 1_000_000)
        assert reply.status == 200
        assert json.loads(reply.body)["input_tokens"] > 500_000
        assert not up.requests


async def test_c15_a_body_that_is_too_deep_is_refused() -> None:
    async with gateway_to([]) as (gate, up):
        deep: Any = {"type": "function", "name": "f"}
        for _ in range(40):
            deep = {"type": "namespace", "name": "n", "tools": [deep]}
        reply = await ask(gate, tools=[deep])
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, "json_too_deep")
        assert up.requests == []
        await gate.settled()


# Connections.

HEAD = f"host: g\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n"


async def test_an_upgrade_with_a_body_is_refused_and_its_body_is_no_request() -> None:
    async with gateway_to([]) as (gate, up), await gate.connect() as client:
        inner = f"POST /v1/responses HTTP/1.1\r\n{HEAD}content-length: 2\r\n\r\n{{}}".encode()
        upgrade = "connection: Upgrade\r\nupgrade: websocket\r\n"
        head = f"GET /v1/responses HTTP/1.1\r\n{HEAD}{upgrade}content-length: {len(inner)}\r\n\r\n"
        await client.send(head.encode() + inner)
        reply = await client.response()
        assert (reply.status, reply.header("connection")) == (426, "close")
        assert await client.is_closed()
        assert not up.requests
        assert len(await gate.settled()) == 1


async def test_a_caller_of_http_1_0_gets_the_stream_to_the_end_of_the_connection() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _), await gate.connect() as client:
        await client.send(responses_request(stream=True).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        reply = await client.response()
        assert (reply.header("transfer-encoding"), reply.header("connection")) == (None, "close")
        assert said_in(read_stream(reply.body)) == "".join(TEXTS)
        await gate.settled()


async def test_requests_in_one_piece_are_answered_in_turn() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, up), await gate.connect() as client:
        await client.send(responses_request(stream=True) + responses_request(stream=True, input="And again?"))
        replies = [await client.response() for _ in range(2)]
        assert [said_in(read_stream(reply.body)) for reply in replies] == ["".join(TEXTS)] * 2
        assert len({read_stream(reply.body)["id"] for reply in replies}) == 2
        assert [b"again" in seen.body for seen in up.requests] == [False, True]
        await gate.settled(2)
