"""Too much of everything: docs/spec/failures.md G17, G18, G19, G27, G28 and G30.

Refusals are fast and have a random time to retry; running streams continue; the control routes are always answered; and
afterwards everything works again. What needs a cgroup, many callers or a clock is in `test_gateway_soak`.
"""

import asyncio
import json
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from streamweir.server.http.pressure import Level
from streamweir.upstream.http1 import Http1Upstream
from streamweir.wire.jsonio import decode_body
from support.answers import TEXTS, openai_frames, openai_stream
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import KEY, Gate, chat_request, gateway_to, text_of, until
from support.gateway_faults import DIALECTS, assert_ended_by_us, assert_refused_by_us
from support.outcome import path_of
from support.raw_client import RawClient, Reply
from support.script import End, Hang, Head, Seen, Send, Step, Wait, in_turn, stream
from support.serve_process import BEGUN, BEGUN_TEXT, REST, Stream, begin, get, served

WHOLE = "".join(TEXTS)
MEBIBYTE = 2**20
LIMITED = "[server.limits]\nmemory_bytes = 104857600\n"


class Memory:
    """What the system says that the process uses, of the hundred mebibytes that it may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.used = 10
        self.once: int | None = None
        monkeypatch.setattr("streamweir.server.process.gateway.used_memory_bytes", self._read)

    def _read(self) -> int:
        used = self.used if self.once is None else self.once
        self.once = None
        return used * MEBIBYTE


async def level(gate: Gate, wanted: Level) -> None:
    await until(lambda: gate.gateway._pressure.level is wanted)


async def answer(gate: Gate, request: bytes) -> Reply:
    async with await gate.connect() as client:
        await client.send(request)
        return await client.response()


async def test_g18_near_the_limit_new_requests_are_refused_and_streams_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, go_on = Memory(monkeypatch), asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with gateway_to(script, LIMITED) as (gate, up), await gate.connect() as client:
        running = await begin(client)
        memory.used = 86
        await level(gate, Level.SHED)
        waits = set()
        for dialect in DIALECTS * 5:
            reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
            assert_refused_by_us(reply, "overloaded", dialect)
            waits.add(reply.header("retry-after"))
        assert len(waits) > 1, "G30: not all come back at the same moment"
        assert_refused_by_us(await answer(gate, get("/v1/models", KEY)), "overloaded")
        for path in ("/health", "/ready", "/metrics"):
            assert (await answer(gate, get(path))).status == 200
        assert len(up.requests) == 1
        assert gate.records == [], "they are counted, without a line or a row for each"
        assert (
            b'streamweir_requests_rejected_total{code="overloaded"} %d.0' % (5 * len(DIALECTS) + 1)
            in gate.gateway.metrics_text()
        )
        assert (
            b'streamweir_overload_refusals_total{reason="memory_or_lag"} %d.0' % (5 * len(DIALECTS) + 1)
            in gate.gateway.metrics_text()
        )
        go_on.set()
        assert text_of((await running.rest()).body) == WHOLE

        memory.used = 10
        await level(gate, Level.CALM)
        assert text_of((await gate.ask(model="up/m", stream=True)).body) == WHOLE


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_g18_at_the_limit_the_largest_stream_is_cut(monkeypatch: pytest.MonkeyPatch, dialect: str) -> None:
    memory, go_on = Memory(monkeypatch), asyncio.Event()
    large = openai_frames(["x" * 100_000, *TEXTS[:2]], usage=None, finish=None, done=False)

    def script(request: Seen) -> list[Step]:
        if request.json["model"] == "large":
            return [Head(), *(Send(frame) for frame in large), Hang()]
        return [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]

    async with gateway_to(script, LIMITED) as (gate, up), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await gate.connect()) for _ in range(3)]
        path = path_of(dialect)
        first, last = await begin(clients[0]), await begin(clients[2])
        largest = await begin(clients[1], path=path, model="up/large")
        memory.once = 96
        reply = await largest.rest()
        assert_ended_by_us(reply, "overloaded", dialect, text="x" * 100_000 + BEGUN_TEXT)
        await up.aborted(1)
        go_on.set()
        for each in (first, last):
            assert text_of((await each.rest()).body) == WHOLE
        record = (await gate.settled(3))[0]
        assert (record.status, record.verdict, record.error) == (200, "rejected", "overloaded")


async def test_g28_a_loop_that_cannot_keep_up_sheds_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    Memory(monkeypatch)
    async with gateway_to(stream(openai_stream()), "[server.limits]\nlag_s = 0.5\n") as (gate, _):
        gate.gateway._sample(2.0)
        assert_refused_by_us(await gate.ask(model="up/m", stream=True), "overloaded")
        assert (await answer(gate, get("/health"))).status == 200
        await level(gate, Level.CALM)  # as soon as the timers come in time again
        assert text_of((await gate.ask(model="up/m", stream=True)).body) == WHOLE


# G19: a large body is read beside the loop.


def hold_parsing(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[str]]:
    """Whoever reads a body waits for the event; gives the names of the threads that did."""
    go_on, threads = threading.Event(), list[str]()

    def decode_held(body: bytes) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        if len(body) > MEBIBYTE:
            assert go_on.wait(10)
        return decode_body(body)

    monkeypatch.setattr("streamweir.server.request.body_parsing.decode_body", decode_held)
    return go_on, threads


def small_objects(size: int) -> bytes:
    """A body of so many bytes, all of it small objects."""
    start, end = b'{"model":"up/m","stream":true,"messages":[{"role":"user","content":"Hi"}],"metadata":', b"}"
    each = b'{"a":1},'
    fill = b"[" + each * ((size - len(start) - len(end) - 2) // len(each))
    return start + fill[:-1] + b"]" + end


async def test_g19_a_large_body_is_parsed_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, threads = hold_parsing(monkeypatch)
    async with gateway_to(stream(openai_stream())) as (gate, _), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await gate.connect()) for _ in range(2)]
        for client in clients:
            await client.send(chat_request(body=small_objects(2 * MEBIBYTE)))
        await until(lambda: len(threads) == 2)
        # Both readers are held, and streams still flow from end to end.
        for _ in range(3):
            assert text_of((await gate.ask(model="up/m", stream=True)).body) == WHOLE
        assert len(gate.records) == 3
        go_on.set()
        for client in clients:
            assert (await client.response()).status == 400, "metadata is an object of strings"
        assert all(name.startswith("parse") for name in threads[:2])
        assert set(threads[2:]) == {threading.main_thread().name}


async def test_g19_a_caller_that_leaves_while_its_body_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, threads = hold_parsing(monkeypatch)
    async with gateway_to([]) as (gate, up):
        async with await gate.connect() as client:
            await client.send(chat_request(body=small_objects(2 * MEBIBYTE)))
            await until(lambda: len(threads) == 1)
        (record,) = await gate.settled()
        assert (record.status, record.verdict) == (499, "client_gone")
        go_on.set()
        assert not up.requests


# G27: no connection to the provider is free.

FULL = "max_connections = 2\n"


async def occupy(stack: AsyncExitStack, gate: Gate) -> list[Stream]:
    return [await begin(await stack.enter_async_context(await gate.connect())) for _ in range(2)]


def pool(gate: Gate) -> Http1Upstream:
    upstream = gate.gateway.runtime.providers["up"].upstream
    assert isinstance(upstream, Http1Upstream)
    return upstream


async def test_g27_without_a_connection_a_request_waits_and_is_refused() -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with gateway_to(script, provider=FULL) as (gate, up), AsyncExitStack() as stack:
        running = await occupy(stack, gate)
        asked = [gate.ask(model="up/m", stream=is_streamed) for is_streamed in (True, False)]
        for refused in await asyncio.gather(*asked):
            assert_refused_by_us(refused, "overloaded")
        for record in await gate.settled(2):
            assert (record.verdict, record.error) == ("rejected", "overloaded")
            assert [each.error for each in record.attempts] == ["overloaded"]
        go_on.set()
        for each in running:
            assert text_of((await each.rest()).body) == WHOLE
        assert len(up.requests) == 2


async def test_g27_a_free_slot_goes_to_the_first_waiter_that_still_waits() -> None:
    events = [asyncio.Event() for _ in range(2)]
    held: list[list[Step]] = [[Head(), Send(BEGUN), Wait(event), Send(REST), End()] for event in events]
    script = in_turn(*held, stream(openai_stream()))
    async with gateway_to(script, provider=FULL) as (gate, up), AsyncExitStack() as stack:
        running = await occupy(stack, gate)
        waiting: list[RawClient] = []
        for count in (1, 2):
            waiting.append(await stack.enter_async_context(await gate.connect()))
            await waiting[-1].send(chat_request(model="up/m", stream=True))
            await until(lambda count=count: pool(gate).waiting == count)  # type: ignore[misc]
        waiting[0].reset()
        (record,) = await gate.settled()
        assert (record.verdict, record.status) == ("client_gone", 499)
        assert (pool(gate).in_use, pool(gate).waiting) == (2, 1)
        events[0].set()
        assert text_of((await running[0].rest()).body) == WHOLE
        assert text_of((await waiting[1].response()).body) == WHOLE
        assert up.requests[2].connection == up.requests[0].connection
        events[1].set()
        assert text_of((await running[1].rest()).body) == WHOLE


# G17: no file is left for another caller.


async def test_g17_callers_beyond_the_files_get_an_error_and_the_others_are_served(tmp_path: Path) -> None:
    files, crowd = 256, 400
    places = (files - 64) * 2 // 3  # the rest is for upstreams
    never = "".join(
        f"{name}_s = 600\n" for name in ("header", "body", "keep", "first_event", "idle", "total", "write_stall")
    )
    toml = f'[server.timeouts]\n{never}[[providers]]\nname = "sim"\nkind = "sim"\n'
    request = chat_request(model="sim/hello", stream=True)
    before = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh"]
    async with served(tmp_path, toml, before=before) as program, AsyncExitStack() as stack:
        placed = []
        for _ in range(places):  # one after the other: the connection that asked whether it serves is gone by then
            placed.append(await stack.enter_async_context(await program.connect()))
            await placed[-1].send(request)
            assert (await placed[-1].response()).status == 200
        others = [await stack.enter_async_context(await program.connect()) for _ in range(crowd - places)]
        refused = await asyncio.gather(*(client.response() for client in others))
        for reply in refused:
            assert_refused_by_us(reply, "overloaded")
            assert reply.header("connection") == "close"
        assert len({reply.header("retry-after") for reply in refused}) > 1
        for client in others:
            assert await client.is_closed()
        for client in placed:
            await client.send(request)
            assert json.loads((await client.response()).body.split(b"\n")[0].removeprefix(b"data: "))["choices"]
        for client in placed:
            client.close()
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while (await program.answer(request)).status != 200:  # their places are free when it has seen them go
                pass
        logged = [
            each for each in program.events if each["event"] not in ("request", "all background tasks are running")
        ]
        assert {each["event"] for each in logged} <= {"requests refused: overloaded"}, "no complaint of the loop"
        assert logged, "it is in the log"
        assert len(program.requests()) <= 2 * files, "a line for each refusal would be a flood"
