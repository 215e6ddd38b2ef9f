"""The time between the order to stop and the first refusal: what callers and load balancers see of it.

The order of the steps is held by `test_life`, a rolling restart behind HAProxy by `tests/fleet`.
"""

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from streamweir.server.control.probes import probe_answer
from support.answers import TEXTS
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import chat_request, gateway_to, text_of
from support.script import End, Head, Send, Step, Wait
from support.serve_process import BEGUN, REST, begin, get, served_before, spread
from support.soak import part_of

ANSWER: list[Step] = [Head(), Send(BEGUN + REST), End()]
NEVER_S = 3600.0


async def test_it_is_not_ready_but_still_serves() -> None:
    async with gateway_to(ANSWER) as (gate, _), await gate.connect() as idle:
        await idle.send(get("/ready"))
        assert (await idle.response()).status == 200
        gate.gateway.begin_lame_duck()
        async with await gate.connect() as prober:
            await prober.send(get("/ready"))
            reply = await prober.response()
            assert (reply.status, reply.body) == (503, b'{"status":"draining"}')
            assert reply.header("connection") == "close"
        fresh = await gate.ask(model="up/m", stream=True)
        assert (fresh.status, fresh.header("connection")) == (200, "close")
        assert text_of(fresh.body) == "".join(TEXTS)
        await idle.send(chat_request(model="up/m", stream=True))  # a balancer uses the connections that it has
        reply = await idle.response()
        assert (reply.status, reply.header("connection")) == (200, "close")
        assert await idle.is_closed()


async def test_an_answer_with_keep_alive_keeps_its_connection() -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with gateway_to(script) as (gate, _), await gate.connect() as client:
        stream = await begin(client)
        gate.gateway.begin_lame_duck()
        go_on.set()
        assert (await stream.rest()).header("connection") is None
        await client.send(chat_request(model="up/m", stream=True))
        reply = await client.response()
        assert (reply.status, reply.header("connection")) == (200, "close")
        assert await client.is_closed()


async def test_it_lasts_while_a_caller_is_connected_or_was_lately() -> None:
    async with gateway_to(ANSWER) as (gate, _), asyncio.timeout(WAIT_TIMEOUT_S):
        await gate.gateway.unused(NEVER_S)  # nobody has ever come: a Ctrl-C or a test has nothing to wait for
        async with await gate.connect() as client:
            await client.send(get("/health"))
            await client.response()
            unused = asyncio.create_task(gate.gateway.unused(0.0))
            await gate.has_read()
            assert not unused.done(), "one is connected"
        await unused
        late = asyncio.create_task(gate.gateway.unused(NEVER_S))
        await gate.vacated()
        assert not late.done(), "the last one came a moment ago: a balancer may be between two checks"
        late.cancel()


async def test_it_lasts_while_there_are_probes_elsewhere() -> None:
    """A balancer that checks at `health_listen`, and has nobody to send here at the moment."""
    async with gateway_to(ANSWER) as (gate, _), asyncio.timeout(WAIT_TIMEOUT_S):
        probe_answer("/health", gate.gateway.readiness)
        await gate.gateway.unused(NEVER_S)
        probe_answer("/ready", gate.gateway.readiness)
        unused = asyncio.create_task(gate.gateway.unused(NEVER_S))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not unused.done()
        unused.cancel()


@pytest.mark.parametrize("workers", part_of([1, 2], 2))
async def test_sigterm_serves_on_and_the_second_signal_ends_it(tmp_path: Path, workers: int) -> None:
    toml = f"[server.timeouts]\nlame_duck_s = {NEVER_S}\n"
    arguments = ("--workers", str(workers)) if workers > 1 else ()
    async with served_before(ANSWER, tmp_path, toml, *arguments) as (program, _), AsyncExitStack() as stack:
        if workers > 1:
            await spread(stack, program, 1)  # both have a caller, so that neither ends at once
        else:
            idle = await stack.enter_async_context(await program.connect())
            await idle.send(get("/health"))
            await idle.response()
        program.signal(signal.SIGTERM)
        for number in range(workers):
            await program.logged("stopping", **({"worker": number} if workers > 1 else {}))
        assert (await program.answer(get("/ready"))).status == 503
        reply = await program.answer(chat_request(model="up/m", stream=True))
        assert (reply.status, reply.header("connection")) == (200, "close")
        assert text_of(reply.body) == "".join(TEXTS)
        program.signal(signal.SIGTERM)
        assert await program.status() == 1
        assert [each["verdict"] for each in program.requests() if each["path"].endswith("completions")] == ["completed"]


async def test_a_request_that_was_admitted_is_served_though_its_body_takes_longer_than_the_lame_duck(
    tmp_path: Path,
) -> None:
    request = chat_request(model="up/m", stream=True)
    async with served_before(ANSWER, tmp_path) as (program, _), await program.connect() as client:
        head, body = request.split(b"\r\n\r\n")
        await client.send(head + b"\r\nexpect: 100-continue\r\n\r\n")
        assert (await client.head()).status == 100
        program.signal(signal.SIGTERM)
        await program.logged("stopping")
        assert (await program.answer(chat_request(model="up/m"))).status == 503, "there is no lame duck here"
        await client.send(body)
        assert text_of((await client.response()).body) == "".join(TEXTS)
        assert await program.status() == 0


async def test_an_unauthenticated_caller_that_withholds_a_body_does_not_delay_the_exit(tmp_path: Path) -> None:
    toml = f"[server.timeouts]\nbody_s = {NEVER_S}\n"
    sign_in = b"POST /api/session HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 50\r\n"
    async with served_before(ANSWER, tmp_path, toml) as (program, _), await program.connect() as client:
        await client.send(sign_in + b"expect: 100-continue\r\n\r\n")
        assert (await client.head()).status == 100
        program.signal(signal.SIGTERM)
        assert await program.status() == 0


async def test_ctrl_c_does_not_wait_for_balancers(tmp_path: Path) -> None:
    toml = f"[server.timeouts]\nlame_duck_s = {NEVER_S}\n"
    async with served_before(ANSWER, tmp_path, toml, "--workers", "2") as (program, _), AsyncExitStack() as stack:
        await spread(stack, program, 1)
        program.signal(signal.SIGINT)
        assert await program.status() == 0
