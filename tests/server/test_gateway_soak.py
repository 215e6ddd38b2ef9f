"""What takes a crowd, memory or a clock: docs/spec/failures.md G18, G19, G28 and G30 against a real process.

`make soak` alone runs these. What they show is held step by step by `test_gateway_pressure`.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from support.gateway import KEY, chat_request, providers, until
from support.gateway_faults import assert_refused_by_us
from support.raw_client import RawClient, Reply
from support.script import Flood, Hang, Head, Seen, Send, Step, Wait, whole
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import Program, get, served

pytestmark = [pytest.mark.soak, pytest.mark.alone]

MEBIBYTE = 2**20
SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'
LONGEST_GAP_S = 0.25
"""How long the loop may be held up under bodies of 8 MiB (docs/spec/failures.md G19)."""


# G18: memory.


def holding(grow: asyncio.Event) -> Callable[[Seen], list[Step]]:
    """Answers that the gateway has to keep, for they are not streamed and do not end; later they grow."""

    def script(request: Seen) -> list[Step]:
        if request.json["model"] != "hold":
            return list(whole(json.dumps({"choices": []}).encode()))
        piece = b"x" * 65536
        begun: list[Step] = [Head(200, "application/json"), Send(b'{"a":"'), Flood(piece, 16 * 16)]
        return [*begun, Wait(grow), Flood(piece, 16 * 8), Hang()]

    return script


async def fill(program: Program, up: ScriptedUpstream, stack: AsyncExitStack) -> list[RawClient]:
    """One caller after another, until one is refused."""
    callers: list[RawClient] = []
    while len(callers) < 100:
        client = await stack.enter_async_context(await program.connect())
        await client.send(chat_request(model="up/hold"))
        answer = asyncio.ensure_future(client.response())
        came = asyncio.ensure_future(up.seen(len(callers) + 1))
        await asyncio.wait({answer, came}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            came.cancel()
            assert_refused_by_us(answer.result(), "overloaded")
            return callers
        answer.cancel()
        with suppress(asyncio.CancelledError):
            await answer
        callers.append(client)
        await until(lambda: up.body_sent == len(callers) * (16 * MEBIBYTE + 6))
        await asyncio.sleep(0.3)  # the gateway looks at its memory four times a second
    raise AssertionError("nobody was refused")


async def assert_survives(program: Program, up: ScriptedUpstream, grow: asyncio.Event) -> None:
    async with AsyncExitStack() as stack:
        callers = await fill(program, up, stack)
        assert len(callers) > 2
        for path in ("/health", "/ready", "/metrics"):
            assert (await program.answer(get(path, KEY))).status == 200
        grow.set()
        answers = [asyncio.ensure_future(client.response()) for client in callers]
        done, waiting = await asyncio.wait(answers, timeout=5)
        assert done, "the largest are cut"
        for answer in done:
            assert_refused_by_us(answer.result(), "overloaded")
        for answer in waiting:
            answer.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    async with asyncio.timeout(10):
        while (await program.answer(chat_request(model="up/m"))).status == 503:
            await asyncio.sleep(0.1)
    os.kill(program.pid, 0)  # it lives


async def test_g18_a_process_at_its_limit_sheds_cuts_and_recovers(tmp_path: Path) -> None:
    grow = asyncio.Event()
    async with ScriptedUpstream(holding(grow)) as up:
        toml = f"[server.limits]\nmemory_bytes = {256 * MEBIBYTE}\n{providers(up=up.base_url)}"
        async with served(tmp_path, toml) as program:
            await assert_survives(program, up, grow)


@asynccontextmanager
async def confined(limit: int) -> AsyncIterator[list[str]]:
    """The words before a command that make it run in the group that the environment names."""
    group = Path(os.environ["STREAMWEIR_CGROUP"])
    file = next(each for each in (group / "memory.max", group / "memory.limit_in_bytes") if each.exists())
    before = file.read_text()
    file.write_text(str(limit))
    try:
        yield ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh"]
    finally:
        file.write_text("max" if file.name == "memory.max" else before)


@pytest.mark.skipif("STREAMWEIR_CGROUP" not in os.environ, reason="STREAMWEIR_CGROUP names no control group to use")
async def test_g18_the_limit_of_the_control_group_is_found(tmp_path: Path) -> None:
    grow = asyncio.Event()
    async with (
        ScriptedUpstream(holding(grow)) as up,
        confined(256 * MEBIBYTE) as words,
        served(tmp_path, providers(up=up.base_url), before=words) as program,
    ):
        await assert_survives(program, up, grow)


# G19: a stream beside bodies that take long to read.


def large_bodies() -> dict[str, bytes]:
    most = 8 * MEBIBYTE - 200
    start = b'{"model":"sim/hello","messages":[{"role":"user","content":"Hi"}],"metadata":['
    part = {"type": "text", "text": "x" * 8}
    message = {"role": "user", "content": [part] * 100}
    return {
        "small objects": start + b'{"a":1},' * (most // 8) + b"{}]}",
        "nested objects": start + b'{"a":{}},' * (most // 9) + b"{}]}",
        "numbers": start + b"1," * (most // 2) + b"1]}",
        "text": json.dumps({"model": "sim/hello", "messages": [{"role": "user", "content": "x" * most}]}).encode(),
        "parts": json.dumps({"model": "sim/hello", "messages": [message] * 2000}).encode(),
    }


@pytest.mark.parametrize("kind", ["small objects", "nested objects", "numbers", "text", "parts"])
async def test_g19_a_stream_flows_on_beside_large_bodies(tmp_path: Path, kind: str) -> None:
    body, gaps, is_over = large_bodies()[kind], list[float](), asyncio.Event()
    async with served(tmp_path, SIM) as program, await program.connect() as client:
        await client.send(chat_request(model="sim/endless?pace_ms=5", stream=True))
        await client.head()

        async def read() -> None:
            loop = asyncio.get_running_loop()
            last = loop.time()
            while not is_over.is_set():
                assert await client.chunk()
                gaps.append(loop.time() - last)
                last = loop.time()

        reading = asyncio.ensure_future(read())
        for _ in range(5):
            assert (await program.answer(chat_request(body=body))).status in (200, 400)
        is_over.set()
        await reading
    assert len(gaps) > 20
    assert max(gaps) < LONGEST_GAP_S


# G28, G30: everybody at once.


async def ask(program: Program, request: bytes) -> Reply:
    async with await program.connect() as client:
        await client.send(request)
        return await client.response()


async def test_g30_a_crowd_that_comes_back_at_once_is_answered(tmp_path: Path) -> None:
    request = chat_request(model="sim/hello", stream=True)
    async with served(tmp_path, SIM) as program:
        replies = await asyncio.gather(*(ask(program, request) for _ in range(2000)))
        assert {reply.status for reply in replies} <= {200, 503}
        for reply in replies:
            if reply.status == 503:
                assert_refused_by_us(reply, "overloaded")
            else:
                assert reply.body.endswith(b"data: [DONE]\n\n")
        assert (await program.answer(get("/health"))).status == 200


async def test_g28_what_comes_faster_than_it_can_be_served_is_answered_or_refused(tmp_path: Path) -> None:
    """Three times as fast as one caller after the other can be served."""
    request = chat_request(model="sim/lorem?words=100", stream=True)
    async with served(tmp_path, SIM) as program:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(100):
            await ask(program, request)
        each_s = (loop.time() - began) / 100
        asked = []
        for _ in range(1000):
            asked.append(asyncio.ensure_future(ask(program, request)))
            await asyncio.sleep(each_s / 3)
        statuses = [reply.status for reply in await asyncio.gather(*asked)]
        assert set(statuses) <= {200, 503}
        assert (await ask(program, request)).status == 200, "it is over when it is over"
