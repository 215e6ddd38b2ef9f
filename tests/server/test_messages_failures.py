"""What goes wrong around a stream of the Messages API, translated and passed on: docs/spec/failures.md.

Callers that leave or read slowly, a budget that ends, a process that is stopped or killed, another attempt, and bodies
that are as large as they may be. What an upstream can do wrong is tested with the other dialects (`test_upstream_*`,
`test_failover`), cuts in `test_messages_cuts`.
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
from streamweir.pipeline.settlement import UsageSource
from streamweir.store.db.engine import open_store
from streamweir.store.ledger.check import check_sums
from support.accounting_gateway import MILLI, MODEL, keeping
from support.answers import (
    TEXTS,
    USAGE,
    anthropic_error_body,
    anthropic_frames,
    anthropic_stream,
    error_body,
    gemini_frames,
    openai_frames,
    openai_stream,
)
from support.forked_processes import fork_server
from support.gateway import gateway_to, providers, until
from support.ledger_reader import open_ledger_reader
from support.messages import ask, messages_request, read_stream, said_in
from support.raw_client import CutShort, RawClient
from support.script import End, Flood, Hang, Head, Seen, Send, Step, Wait, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import Program, Stream
from support.slow_reader import MOST_TAKEN, PIECE, standing_still
from support.stores import migrated_url

pytestmark = pytest.mark.diagonal

FRAMES = {"openai": openai_frames(), "anthropic": anthropic_frames(), "gemini": gemini_frames()}
BEGUN = {"openai": 3, "anthropic": 4, "gemini": 2}
"""How many frames bring the first two texts."""
STREAMS = {"openai": openai_stream(), "anthropic": anthropic_stream()}
each_kind = pytest.mark.parametrize("kind", FRAMES)
each_way = pytest.mark.parametrize("kind", STREAMS, ids=["translated", "passed"])


def begun(kind: str) -> bytes:
    return b"".join(FRAMES[kind][: BEGUN[kind]])


def rest_of(kind: str) -> bytes:
    return b"".join(FRAMES[kind][BEGUN[kind] :])


# C3, C4: a caller that leaves.


@each_kind
@pytest.mark.parametrize("leave", [RawClient.close, RawClient.reset], ids=["fin", "rst"])
async def test_c3_a_caller_that_leaves_in_the_middle_pays_for_what_it_got(kind: str, leave: Any) -> None:
    script: list[Step] = [Head(), Send(begun(kind)), Hang()]
    billing = "cancel_stops_billing = true"
    async with gateway_to(script, kind=kind, provider=billing) as (gate, up), await gate.connect() as client:
        await client.send(messages_request(stream=True))
        await client.read_until(TEXTS[1].encode())
        leave(client)
        await up.aborted(1)
        (record,) = await gate.settled()
        assert (record.verdict, record.status, record.error) == (Verdict.CLIENT_GONE, 200, None)
        assert record.usage is not None
        assert record.usage.completion_tokens == (2 if kind == "gemini" else 3)
        assert record.usage_source is (UsageSource.PROVIDER if kind == "gemini" else UsageSource.ESTIMATE)


@each_way
async def test_c4_a_caller_that_leaves_before_the_last_frame_pays_what_the_provider_reported(kind: str) -> None:
    frames = FRAMES[kind]
    script: list[Step] = [Head(), Send(b"".join(frames[:-1])), Hang()]
    async with (
        gateway_to(script, "[server.timeouts]\nsilence_s = 0.2", kind=kind) as (gate, up),
        await gate.connect() as client,
    ):
        await client.send(messages_request(stream=True))
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
    make = {"openai": openai_frames, "anthropic": anthropic_frames}[kind]
    frames, at = make([PIECE]), {"openai": 1, "anthropic": 2}[kind]
    start, end = b"".join(frames[:at]), b"".join(frames[at + 1 :])
    return [Head(), Send(start), Flood(frames[at], pieces), Send(end), End()]


@each_way
async def test_c8_a_reader_that_stops_is_dropped_and_so_is_its_upstream(kind: str) -> None:
    patience = "[server.timeouts]\nwrite_stall_s = 0.3"
    script = long_answer(kind, 100_000)
    async with gateway_to(script, patience, kind=kind, send_buffer=65536) as (gate, up):
        async with await gate.connect(receive_buffer=4096) as client:
            await client.send(messages_request(stream=True, max_tokens=1_000_000))
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
    async with gateway_to(long_answer(kind, count), kind=kind, send_buffer=65536) as (gate, up):
        async with await gate.connect(receive_buffer=4096) as client:
            await client.send(messages_request(stream=True, max_tokens=1_000_000))
            await standing_still(gate, up)
            await client.head()
            body = await client.rest()
        assert said_in(read_stream(body)) == PIECE * count
        (record,) = await gate.settled()
        assert (record.verdict, up.aborts) == (Verdict.COMPLETED, [])


# C24: a budget that ends in mid-stream.

LONG = [f" word{number:05}" for number in range(500)]
USED = (7, 1000)


@each_way
@pytest.mark.parametrize("bills_on", [True, False], ids=["bills on", "stops billing"])
async def test_c24_an_answer_beyond_its_budget_is_cut(kind: str, bills_on: bool, tmp_path: Path) -> None:
    frames = (openai_frames if kind == "openai" else anthropic_frames)(LONG, usage=USED)
    last: list[Step] = [*(Send(frame) for frame in frames[-3:]), End()] if bills_on else [Hang()]
    script: list[Step] = [Head(), *(Send(frame) for frame in frames[:-3]), *last]
    model = MODEL if kind == "openai" else MODEL.replace("gpt-4o", "claude")
    billing = f"cancel_stops_billing = {'false' if bills_on else 'true'}\n"
    async with keeping(script, tmp_path, model, kind=kind, provider=billing) as setup:
        request: dict[str, Any] = {"model": "m", "max_tokens": 10}
        prompt = len(messages_request(stream=True, **request).partition(b"\r\n\r\n")[2]) + 100
        secret = await setup.new_key(budget_nano=(prompt + 10) * MILLI)
        reply = await ask(setup.gate, key=secret, **request)
        assert reply.status == 200
        message = read_stream(reply.body)
        assert (message["error"]["type"], message["stop_reason"]) == ("billing_error", None)
        assert "".join(LONG).startswith(said_in(message))
        assert 0 < len(said_in(message)) < len("".join(LONG)) / 2
        row = await setup.row()
        assert (row.verdict, row.error, row.status, row.dialect) == ("stopped", "budget_exceeded", 200, "messages")
        entries = [entry for entry, _, _ in await setup.ledger(row.request_id)]
        assert (entries[0], entries[-1], entries.count("settle")) == ("hold", "settle", 1)
        if bills_on:
            assert (row.usage_source, row.prompt_tokens, row.completion_tokens) == ("provider", *USED)
        else:
            assert row.usage_source in ("tokenizer", "estimate")
            assert 0 < (row.completion_tokens or 0) <= len(said_in(message))
            await setup.up.aborted(1)


# G1, G2, G3: a process that ends.


async def open_stream(stack: AsyncExitStack, program: Program, kind: str) -> Stream:
    client = await stack.enter_async_context(await program.connect())
    await client.send(messages_request(model=f"{kind}/m", stream=True))
    opened = Stream(client, await client.head(), [])
    await opened.until(TEXTS[1].encode())
    return opened


async def test_g1_a_drain_waits_for_streams_and_ends_the_rest_with_an_error(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    def script_for(kind: str) -> Any:
        def chosen(request: Seen) -> list[Step]:
            end: list[Step] = [Wait(go_on), Send(rest_of(kind)), End()] if request.number == 0 else [Hang()]
            return [Head(), Send(begun(kind)), *end]

        return chosen

    async with ScriptedUpstream(script_for("openai")) as one, ScriptedUpstream(script_for("anthropic")) as two:
        toml = providers(openai=one.base_url) + providers("anthropic", anthropic=two.base_url)
        async with fork_server().served(tmp_path, toml) as program, AsyncExitStack() as stack:
            await program.started()
            whole_ones = [await open_stream(stack, program, kind) for kind in STREAMS]
            cut_ones = [await open_stream(stack, program, kind) for kind in STREAMS]
            program.signal(signal.SIGTERM)
            await program.logged("stopping")
            go_on.set()
            for each in whole_ones:
                message = read_stream((await each.rest()).body)
                assert (message["stop_reason"], said_in(message)) == ("end_turn", "".join(TEXTS))
            program.signal(signal.SIGTERM)
            for each in cut_ones:
                message = read_stream((await each.rest()).body)
                assert (message["error"]["type"], message["stop_reason"]) == ("overloaded_error", None)
                assert said_in(message) == "".join(TEXTS[:2])
            assert await program.status() == 1
            assert sorted(each["verdict"] for each in program.requests()) == [*["completed"] * 2, *["shutdown"] * 2]


async def test_g3_a_killed_process_leaves_one_row_for_each_stream_and_sums_that_agree(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    url = await migrated_url("sqlite", data)

    def script_for(kind: str) -> list[Step]:
        return [Head(), Send(begun(kind)), Hang()]

    async with ScriptedUpstream(script_for("openai")) as one, ScriptedUpstream(script_for("anthropic")) as two:
        toml = f'[store]\nurl = "{url}"\n' + providers(openai=one.base_url)
        toml += providers("anthropic", anthropic=two.base_url)
        async with fork_server().served(tmp_path, toml) as program, AsyncExitStack() as stack:
            await program.started()
            streams = [await open_stream(stack, program, kind) for kind in STREAMS]
            program.signal(signal.SIGKILL)
            for each in streams:
                with pytest.raises((CutShort, ConnectionError)):
                    await each.rest()
                assert b"message_stop" not in each.so_far.body
            assert await program.status() == -signal.SIGKILL
        ids = {each.so_far.header("request-id") for each in streams}
        async with fork_server().served(tmp_path, toml) as program, open_ledger_reader(url, data) as accounting:
            await program.started()
            seen = await accounting.until(lambda seen: not seen.open and len(seen.rows) == 2)
            assert seen.rows.keys() == ids
            assert {(row.verdict, row.dialect) for row in seen.rows.values()} == {("orphaned", "messages")}
            assert list(seen.kinds.values()) == [["hold", "settle"]] * 2
    store = await open_store(url, data)
    try:
        assert (await store.read(check_sums)).faults == []
    finally:
        await store.close()


# U10: another attempt, before anything was sent.


@pytest.mark.usefixtures("no_jitter")
@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
@each_way
async def test_u10_an_attempt_that_failed_is_followed_by_another_unless_it_is_a_limit(kind: str, status: int) -> None:
    body = error_body("later") if kind == "openai" else anthropic_error_body("later", "overloaded_error")
    async with gateway_to(in_turn(whole(body, status), stream(STREAMS[kind])), kind=kind) as (gate, up):
        reply = await ask(gate)
        (record,) = await gate.settled()
        if status == 429:
            assert (reply.status, len(up.requests)) == (429, 1)
            return
        assert said_in(read_stream(reply.body)) == "".join(TEXTS)
        assert [each.error is None for each in record.attempts] == [False, True]


# G19: bodies as large as they may be. The tests' event loop fails a test in which one turn takes too long.


def blocks(count: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * count}]}


def results(count: int) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": f"c{i}", "name": "f", "input": {}} for i in range(count)]
    answers = [{"type": "tool_result", "tool_use_id": f"c{i}", "content": "x"} for i in range(count)]
    return {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": answers},
        ]
    }


def thoughts(count: int) -> dict[str, Any]:
    """Envelopes of ours that somebody has made, and what cannot be one."""
    forged = ["sw1.", "sw1.!!", "sw1.eJyrrgUAAXUA-Q", "sw1.eJx7", "\u0000", "EqQB"]
    made = [{"type": "thinking", "thinking": "t", "signature": forged[i % len(forged)]} for i in range(count)]
    return {"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": made}]}


BODIES: dict[str, dict[str, Any]] = {
    "blocks": blocks(60_000),
    "results": results(4_000),
    "thoughts": thoughts(20_000),
    "tools": {"tools": [{"name": f"t{i}", "input_schema": {"type": "object"}} for i in range(20_000)]},
    "a picture": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "A" * 31 * 1024 * 1024},
                    }
                ],
            }
        ]
    },
}


@pytest.mark.parametrize("name", BODIES if SOAKS else ["results", "thoughts", "a picture"])
@each_way
async def test_g19_a_large_body_delays_no_other_request(kind: str, name: str) -> None:
    async with gateway_to(stream(STREAMS[kind]), kind=kind) as (gate, up):
        reply = await ask(gate, **BODIES[name])
        assert reply.status == 200
        assert len(up.requests) == 1
        await gate.settled()


async def test_c15_a_body_that_is_too_deep_is_refused() -> None:
    async with gateway_to([]) as (gate, up):
        deep: Any = "x"
        for _ in range(100):
            deep = [{"type": "document", "source": {"type": "content", "content": deep}}]
        reply = await ask(gate, messages=[{"role": "user", "content": deep}])
        assert (reply.status, json.loads(reply.body)["error"]["type"]) == (400, "invalid_request_error")
        assert up.requests == []
        await gate.settled()
