"""The memory of request bodies: bounded in all, shared among keys, and given back whatever becomes of a request."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import CallerError, GatewayFault
from streamweir.server.http.body_memory import SMALL_BODY, BodyMemory
from streamweir.server.http.limits import body_memory_bytes
from streamweir.server.http.message import Request
from streamweir.server.http.pressure import Level
from support.answers import TEXTS, openai_stream
from support.gateway import Gate, chat_request, configured, gateway, gateway_to, text_of, until
from support.script import End, Head, Send, Step, Wait, stream
from support.serve_process import BEGUN, REST, begin

MEBIBYTE = 2**20
BODY = 200_000
KEYS = {"greedy": "sk-greedy-0123456789abcdef", "modest": "sk-modest-0123456789abcdef"}
KEYS_TOML = "".join(f'[[keys]]\nname = "{name}"\nkey = "{key}"\n' for name, key in KEYS.items())
TOML = f"[server.limits]\nbody_bytes = {2 * BODY}\nbody_memory_bytes = {MEBIBYTE}\n{KEYS_TOML}"
WHOLE = "".join(TEXTS)


def asking(length: int | None) -> Request:
    return Request(id="r", method="POST", path="/", headers={}, arrived_s=0.0, length=length)


def held(memory: BodyMemory, key_id: str, length: int) -> Request:
    request = asking(length)
    memory.hold(request, key_id)
    return request


def test_a_single_key_gets_half_and_others_still_fit() -> None:
    memory = BodyMemory(10 * MEBIBYTE)
    first = [held(memory, "a", MEBIBYTE) for _ in range(5)]
    with pytest.raises(CallerError, match="hold 5242880 bytes") as caught:
        held(memory, "a", MEBIBYTE)
    assert (caught.value.spec.status, caught.value.retry_after_s is not None) == (429, True)
    second = [held(memory, "b", MEBIBYTE) for _ in range(2)]
    with pytest.raises(CallerError):
        held(memory, "b", MEBIBYTE)
    held(memory, "c", MEBIBYTE)
    assert memory.held_bytes == 8 * MEBIBYTE
    for each in first + second:
        assert each.hold is not None
        each.hold.release()
        each.hold.release()
    assert (memory.held_bytes, memory.held_by("a"), memory.held_by("c")) == (MEBIBYTE, 0, MEBIBYTE)


def test_a_key_without_a_share_gets_the_rest_and_without_a_rest_it_is_an_overload() -> None:
    memory = BodyMemory(3 * MEBIBYTE)
    held(memory, "a", 2 * MEBIBYTE)
    held(memory, "b", MEBIBYTE)
    with pytest.raises(GatewayFault) as caught:
        held(memory, "c", SMALL_BODY + 1)
    assert (caught.value.code, caught.value.retry_after_s is not None) == ("overloaded", True)
    assert held(memory, "c", SMALL_BODY).hold is None


def test_a_chunked_body_counts_as_it_grows() -> None:
    memory, request = BodyMemory(MEBIBYTE), asking(None)
    memory.hold(request, "a")
    assert request.hold is not None
    assert [request.hold.grow(size) for size in (SMALL_BODY, 100_000, 500_000)] == [None] * 3
    assert memory.held_bytes == 500_000
    assert isinstance(request.hold.grow(600_000), CallerError)
    assert memory.held_bytes == 500_000
    request.hold.release()
    assert memory.held_bytes == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 2 * MEBIBYTE), st.booleans()), max_size=40))
def test_no_order_of_things_overfills_it_or_loses_count(steps: list[tuple[str, int, bool]]) -> None:
    memory, kept = BodyMemory(4 * MEBIBYTE), list[Request]()
    for key_id, length, leaves in steps:
        if leaves and kept:
            last = kept.pop()
            assert last.hold is not None
            last.hold.release()
            continue
        request = asking(length)
        try:
            memory.hold(request, key_id)
        except (CallerError, GatewayFault):
            assert request.hold is None
        if request.hold is not None:
            kept.append(request)
        assert 0 <= memory.held_bytes <= memory.total_bytes
        assert memory.held_bytes == sum(each.length or 0 for each in kept)


def test_a_body_larger_than_the_memory_is_too_large() -> None:
    memory = BodyMemory(1_000_000)
    with pytest.raises(CallerError) as caught:
        memory.hold(asking(1_000_001), "key")
    assert (caught.value.code, memory.held_bytes) == ("request_too_large", 0)


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("memory_bytes = 600000000", 200_000_000),
        ("memory_bytes = 67108864\nbody_bytes = 67108864", 134_217_728),
        ("body_memory_bytes = 20000000", 20_000_000),
        ("body_memory_bytes = 2000000", 8_388_608),
    ],
)
def test_how_much_there_is(toml: str, expected: int) -> None:
    assert body_memory_bytes(configured(f"[server.limits]\n{toml}\n"), 1) == expected


# On sockets: a key that withholds what it has announced.


def head(key: str, size: str) -> bytes:
    fields = ("host: a", f"authorization: Bearer {key}", "content-type: application/json", size, "expect: 100-continue")
    return "\r\n".join(["POST /v1/chat/completions HTTP/1.1", *fields, "", ""]).encode()


@asynccontextmanager
async def withheld(gate: Gate, key: str, count: int, size: int = BODY) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for _ in range(count):
            client = await stack.enter_async_context(await gate.connect())
            await client.send(head(key, f"content-length: {size}"))
            assert (await client.response()).status == 100
        yield


def large_request(key: str) -> bytes:
    return chat_request(model="up/m", stream=True, user="x" * BODY, key=key)


async def ask_with(gate: Gate, request: bytes) -> tuple[int, bytes]:
    async with await gate.connect() as client:
        await client.send(request)
        reply = await client.response()
        return reply.status, reply.body


async def test_one_key_that_withholds_its_bodies_takes_nothing_from_another() -> None:
    async with gateway_to(stream(openai_stream()), TOML) as (gate, _):
        async with withheld(gate, KEYS["greedy"], 2):
            async with await gate.connect() as client:
                await client.send(head(KEYS["greedy"], f"content-length: {BODY}"))
                reply = await client.response()
                assert (reply.status, json.loads(reply.body)["error"]["code"]) == (429, "concurrency_limit_exceeded")
                assert reply.header("retry-after") is not None
                assert reply.header("connection") == "close"
            async with await gate.connect() as client:
                await client.send(head(KEYS["greedy"], "transfer-encoding: chunked"))
                assert (await client.response()).status == 100
                await client.send(b"%x\r\n%b\r\n" % (BODY, bytes(BODY)))
                assert (await client.response()).status == 429
            status, body = await ask_with(gate, large_request(KEYS["modest"]))
            assert (status, text_of(body)) == (200, WHOLE)
        await until(lambda: gate.gateway.bodies.held_bytes == 0)
        status, _ = await ask_with(gate, large_request(KEYS["greedy"]))
        assert status == 200


async def test_a_body_counts_until_its_answer_is_over() -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with gateway_to(script, TOML) as (gate, _), await gate.connect() as client:
        running = await begin(client, key=KEYS["modest"], user="x" * BODY)
        assert gate.gateway.bodies.held_bytes > BODY
        assert f"streamweir_request_body_bytes {float(gate.gateway.bodies.held_bytes)}".encode() in (
            gate.gateway.metrics_text()
        )
        go_on.set()
        assert text_of((await running.rest()).body) == WHOLE
        await until(lambda: gate.gateway.bodies.held_bytes == 0)


async def test_no_stream_is_cut_for_what_bodies_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    used, go_on = [10], asyncio.Event()
    monkeypatch.setattr("streamweir.server.process.gateway.used_memory_bytes", lambda: used[0] * MEBIBYTE)
    limits = "[server.limits]\nmemory_bytes = 104857600\nbody_memory_bytes = 67108864\n"
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with gateway_to(script, limits + KEYS_TOML) as (gate, _), await gate.connect() as client:
        running = await begin(client, key=KEYS["modest"])
        async with withheld(gate, KEYS["greedy"], 2, 8 * MEBIBYTE):
            used[0] = 100
            await until(lambda: gate.gateway._pressure.level is Level.SHED)
            go_on.set()
            assert text_of((await running.rest()).body) == WHOLE
            used[0] = 10


async def test_the_console_counts_as_a_holder_too(tmp_path: Path) -> None:
    store = '[store]\nurl = "sqlite:///streamweir.db"\n'
    async with gateway(f"{TOML}\n{store}", data_dir=tmp_path) as gate, await gate.connect() as client:
        fields = (f"authorization: Bearer {gate.secret}", "content-type: application/json", f"content-length: {BODY}")
        lines = ["POST /api/playground/chat HTTP/1.1", "host: a", *fields, "expect: 100-continue", "", ""]
        await client.send("\r\n".join(lines).encode())
        assert (await client.response()).status == 100
        assert gate.gateway.bodies.held_by("admin") == BODY
        client.close()
        await until(lambda: gate.gateway.bodies.held_bytes == 0)
