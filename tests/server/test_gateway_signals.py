"""How the gateway ends, as a real process with real streams: docs/spec/failures.md G1, G2 and G3.

The order of the steps is held by `test_life`; here it is what callers see of it.
"""

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from conftest import SOAKS
from support.answers import TEXTS, openai_whole
from support.gateway import chat_request, frames_of, text_of, until
from support.gateway_faults import BUFFERING, DIALECTS, assert_ended_by_us, assert_refused_by_us
from support.outcome import path_of
from support.raw_client import CutShort
from support.script import End, Hang, Head, Seen, Send, Step, Wait
from support.serve_process import BEGUN, BEGUN_TEXT, REST, Program, Stream, begin, get, served_before

STREAMS = 500 if SOAKS else 200


async def begin_all(stack: AsyncExitStack, program: Program, paths: list[str]) -> list[Stream]:
    return [await begin(await stack.enter_async_context(await program.connect()), path=path) for path in paths]


async def test_g1_streams_run_to_their_end_and_no_new_request_is_admitted(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with served_before(script, tmp_path) as (program, _), AsyncExitStack() as stack:
        streams = await begin_all(stack, program, ["/v1/chat/completions"] * STREAMS)
        idle = await stack.enter_async_context(await program.connect())
        await idle.send(get("/ready"))
        assert (await idle.response()).status == 200
        program.signal(signal.SIGTERM)
        assert (await program.logged("stopping"))["open_streams"] == STREAMS

        assert await idle.is_closed(), "a connection that asks for nothing"
        ready = await program.answer(get("/ready"))
        assert (ready.status, ready.body) == (503, b'{"status":"draining"}')
        assert (await program.answer(get("/health"))).status == 200
        waits = set()
        for dialect in DIALECTS * 5:
            late = await program.answer(chat_request(path=path_of(dialect), model="up/m"))
            assert_refused_by_us(late, "server_shutting_down", dialect)
            assert late.header("connection") == "close"
            waits.add(late.header("retry-after"))
        assert len(waits) > 1, "G30: not all come back at the same moment"

        go_on.set()
        for stream in streams:
            reply = await stream.rest()
            assert text_of(reply.body) == "".join(TEXTS)
            assert frames_of(reply.body)[-1] == "[DONE]"
        assert await program.status() == 0
        ended = [each["verdict"] for each in program.requests() if each["status"] == 200]
        assert ended == ["completed"] * STREAMS
        assert len([each for each in program.requests() if each.get("error") == "server_shutting_down"]) == 5 * len(
            DIALECTS
        )


async def test_g1_streams_left_after_the_drain_get_an_error_in_their_dialect(tmp_path: Path) -> None:
    def script(request: Seen) -> list[Step]:
        return [Head(), Send(BEGUN), Hang()] if b"Say hello" in request.body else [Hang()]

    toml = "[server.timeouts]\ndrain_s = 0.05\n"
    async with served_before(script, tmp_path, toml) as (program, up), AsyncExitStack() as stack:
        streams = await begin_all(stack, program, [path_of(dialect) for dialect in DIALECTS])
        waiting = []
        silent = [{"role": "user", "content": "Say nothing."}]
        for dialect, is_streamed in [*((each, True) for each in DIALECTS), *((each, False) for each in BUFFERING)]:
            client = await stack.enter_async_context(await program.connect())
            await client.send(chat_request(path=path_of(dialect), model="up/m", stream=is_streamed, messages=silent))
            waiting.append((client, dialect))
        await up.seen(len(streams) + len(waiting))
        program.signal(signal.SIGTERM)
        for stream, dialect in zip(streams, DIALECTS, strict=True):
            assert_ended_by_us(await stream.rest(), "server_shutting_down", dialect, text=BEGUN_TEXT)
        for client, dialect in waiting:
            assert_refused_by_us(await client.response(), "server_shutting_down", dialect)
        await up.aborted(len(streams) + len(waiting))
        assert await program.status() == 0, "that is how a drain ends"
        told = [(each["status"], each["verdict"], each["error"]) for each in program.requests()]
        assert sorted(told) == [
            *[(200, "shutdown", "server_shutting_down")] * len(streams),
            *[(503, "shutdown", "server_shutting_down")] * len(waiting),
        ]


async def test_g2_a_second_signal_ends_everything_now(tmp_path: Path) -> None:
    script: list[Step] = [Head(), Send(BEGUN), Hang()]
    async with served_before(script, tmp_path) as (program, up), AsyncExitStack() as stack:
        dialects = DIALECTS * (STREAMS // 40)
        streams = await begin_all(stack, program, [path_of(dialect) for dialect in dialects])
        program.signal(signal.SIGINT)
        await program.logged("stopping")
        loop = asyncio.get_running_loop()
        began = loop.time()
        program.signal(signal.SIGTERM)
        for stream, dialect in zip(streams, dialects, strict=True):
            assert_ended_by_us(await stream.rest(), "server_shutting_down", dialect, text=BEGUN_TEXT)
        assert await program.status() == 1
        if SOAKS:  # a clock is involved
            assert loop.time() - began < 1.0
        await up.aborted(len(streams))
        assert [each["verdict"] for each in program.requests()] == ["shutdown"] * len(streams)


async def test_g3_a_killed_process_leaves_no_answer_that_could_be_taken_for_whole(tmp_path: Path) -> None:
    body = openai_whole()

    def script(request: Seen) -> list[Step]:
        if request.json.get("stream"):
            return [Head(), Send(BEGUN), Hang()]
        return [Head(200, "application/json", framing=len(body)), Send(body[:20]), Hang()]

    async with served_before(script, tmp_path) as (program, up), AsyncExitStack() as stack:
        (stream,) = await begin_all(stack, program, ["/v1/chat/completions"])
        assert stream.so_far.header("transfer-encoding") == "chunked"
        buffered = await stack.enter_async_context(await program.connect())
        await buffered.send(chat_request(model="up/m", stream=False))
        await until(lambda: up.body_sent == len(BEGUN) + 20)
        program.signal(signal.SIGKILL)
        with pytest.raises((CutShort, ConnectionError)):
            await stream.rest()
        with pytest.raises((CutShort, ConnectionError)) as cut:
            await buffered.response()
        assert not getattr(cut.value, "received", b"")
        await up.aborted(2)
        assert await program.status() == -signal.SIGKILL
