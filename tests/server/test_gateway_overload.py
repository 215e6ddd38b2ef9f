"""Overload: which requests are refused, with which bytes, and which are not. Case by case, on real sockets."""

import asyncio
import json
import resource
import socket
from functools import partial
from math import inf

import pytest

from streamweir.policy.overload import UNKNOWN_KEYS_PER_S
from streamweir.server.http.listener import _KEPT_PER_TURN
from streamweir.server.process.gateway import Gateway
from support.answers import openai_frames
from support.gateway import KEY, Gate, chat_request, gateway, gateway_to, until
from support.gateway_faults import assert_refused_by_us
from support.raw_client import RawClient
from support.script import End, Head, Send, Wait
from support.scripted_upstream import ScriptedUpstream

FRAMES = b"".join(openai_frames())
OTHER_KEY = "sk-other-Qx7vLmZ2pKd9RtYw4HbN"
TWO_KEYS = f'[[keys]]\nname = "test"\nkey = "{KEY}"\n[[keys]]\nname = "other"\nkey = "{OTHER_KEY}"\n'


def close(gateway: Gateway) -> None:
    """As if work waited for far too long: nothing more is opened."""
    gateway._overload._limit.limit = 0.0
    gateway._overload._limit_changed(True)


def open_again(gateway: Gateway) -> None:
    gateway._overload._limit.limit = inf
    gateway._overload._limit_changed(False)


def refusals(gate: Gate, reason: str) -> float:
    for line in gate.gateway.metrics_text().decode().splitlines():
        if line.startswith(f'streamweir_overload_refusals_total{{reason="{reason}"}}'):
            return float(line.rpartition(" ")[2])
    return 0.0


# The limit of requests being opened.


@pytest.mark.parametrize("dialect", ["openai", "opentoken", "aivene"])
async def test_a_refusal_costs_the_caller_neither_its_connection_nor_a_row(dialect: str) -> None:
    request = chat_request(path=f"/{dialect}/v1/chat/completions", model="up/m")
    async with gateway_to([Head(), Send(FRAMES), End()]) as (gate, up), await gate.connect() as client:
        close(gate.gateway)
        ids = set()
        for _ in range(3):
            await client.send(request)
            reply = await client.response()
            assert_refused_by_us(reply, "overloaded", dialect)
            assert reply.header("connection") is None
            assert 1 <= int(reply.header("retry-after") or 0) <= 5
            ids.add(reply.header("x-request-id"))
        assert len(ids) == 3
        assert (gate.records, len(up.requests), refusals(gate, "queueing")) == ([], 0, 3)
        open_again(gate.gateway)
        await client.send(chat_request(model="up/m", stream=True))
        assert (await client.response()).status == 200
        await gate.settled(1)


async def test_one_that_asks_as_it_connects_is_refused_as_it_is_accepted() -> None:
    async with gateway_to([Head(), Send(FRAMES), End()]) as (gate, _):
        close(gate.gateway)
        sock = socket.create_connection(gate.address)  # the loop stands still meanwhile
        sock.sendall(chat_request(model="up/m"))
        sock.setblocking(False)
        async with RawClient(sock) as client:
            reply = await client.response()
            assert_refused_by_us(reply, "overloaded")
            assert reply.header("connection") is None  # to accept another one would cost more than to keep it
            open_again(gate.gateway)
            await client.send(chat_request(model="up/m", stream=True))
            assert (await client.response()).status == 200
        await gate.settled(1)


async def test_very_many_that_ask_as_they_connect_are_refused_and_not_all_kept() -> None:
    async with gateway_to([Head(), Send(FRAMES), End()]) as (gate, _):
        close(gate.gateway)
        socks = [socket.create_connection(gate.address) for _ in range(_KEPT_PER_TURN + 8)]
        for sock in socks:  # the loop stands still meanwhile
            sock.sendall(chat_request(model="up/m"))
            sock.setblocking(False)
        closed = 0
        for sock in socks:
            async with RawClient(sock) as client:
                reply = await client.response()
                assert_refused_by_us(reply, "overloaded")
                if reply.header("connection") == "close":
                    closed += 1
                    assert await client.is_closed()
        assert closed == 8
        open_again(gate.gateway)


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/ready", 200)])
async def test_a_probe_is_answered_as_it_is_accepted(path: str, status: int) -> None:
    async with gateway("") as gate:
        close(gate.gateway)
        sock = socket.create_connection(gate.address)  # the loop stands still meanwhile
        sock.sendall(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        sock.setblocking(False)
        async with RawClient(sock) as client:
            reply = await client.response()
            assert (reply.status, reply.header("connection")) == (status, "close")
            assert json.loads(reply.body)["status"] in ("ok", "ready")
            assert await client.is_closed()
        assert gate.gateway.server.connections == 0, "no connection was made of it"
        open_again(gate.gateway)


@pytest.mark.parametrize("secret", [b"authorization: Bearer sk-nobody\r\n", b""])
async def test_under_a_limit_only_some_requests_without_a_valid_key_get_that_error(secret: bytes) -> None:
    data = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n%bcontent-length: 2\r\n\r\n{}" % secret
    async with gateway("") as gate:
        overload = gate.gateway._overload
        assert overload.refusal_of(data, closes=False) is None, "there is no limit"
        close(gate.gateway)
        refused = [overload.refusal_of(data, closes=False) for _ in range(10 * UNKNOWN_KEYS_PER_S)]
        assert refused[0] is None
        assert refused[-1] is not None
        assert refused[-1].startswith(b"HTTP/1.1 503 ")
        assert refusals(gate, "unknown_key") > UNKNOWN_KEYS_PER_S
        assert refusals(gate, "queueing") == 0
        open_again(gate.gateway)


async def test_what_was_read_as_it_was_accepted_and_is_not_refused_is_served() -> None:
    async with gateway_to([Head(), Send(FRAMES), End()]) as (gate, _):
        gate.gateway._overload._limit_changed(True)
        sock = socket.create_connection(gate.address)
        sock.sendall(chat_request(model="up/m", stream=True) + chat_request(model="up/m", stream=True)[:-7])
        sock.setblocking(False)
        async with RawClient(sock) as client:
            assert (await client.response()).status == 200
            await client.send(chat_request(model="up/m", stream=True)[-7:])
            assert (await client.response()).status == 200
        await gate.settled(2)
        gate.gateway._overload._limit_changed(False)


_BODY = b'{"model":"m"}'
_HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer %b\r\ncontent-length: 13\r\n"
    % KEY.encode()
)


@pytest.mark.parametrize(
    "data",
    [
        _HEAD + b"\r\n" + _BODY[:-1],
        _HEAD + b"\r\n" + _BODY + b"P",
        _HEAD + b"transfer-encoding: chunked\r\n\r\n" + _BODY,
        _HEAD + b"content-length: 13\r\n\r\n" + _BODY,
        _HEAD + b"authorization: Bearer x\r\n\r\n" + _BODY,
        _HEAD + b"x-api-key: x\r\n\r\n" + _BODY,
        _HEAD + b"Expect: 100-continue\r\n\r\n" + _BODY,
        _HEAD + b"connection: close\r\n\r\n" + _BODY,
        _HEAD + b"x: a\nb: c\r\n\r\n" + _BODY,
        _HEAD + b"x: a\rtransfer-encoding: chunked\r\n\r\n" + _BODY,
        _HEAD + b"transfer-encoding : chunked\r\n\r\n" + _BODY,
        _HEAD + b"transfer-encoding\r\n : chunked\r\n\r\n" + _BODY,
        _HEAD + b" , 14\r\n\r\n" + _BODY,
        _HEAD + b"x: \0\r\n\r\n" + _BODY,
        _HEAD + b"host: b\r\n\r\n" + _BODY,
        _HEAD.replace(b"host: a\r\n", b"") + b"\r\n" + _BODY,
        _HEAD.replace(b"length: 13", b"length: +13") + b"\r\n" + _BODY,
        _HEAD.replace(b"length: 13", b"length : 13") + b"\r\n" + _BODY,
        _HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n" + _BODY,
        _HEAD.replace(b"POST", b"GET") + b"\r\n" + _BODY,
        _HEAD.replace(b"/v1/chat/completions", b"/v1/models") + b"\r\n" + _BODY,
        _HEAD.replace(b"/v1/chat/completions", b"/v1/chat%2fcompletions") + b"\r\n" + _BODY,
        _HEAD.replace(b"Bearer", b"Basic") + b"\r\n" + _BODY,
        b"",
        b"\r\n\r\n",
    ],
)
async def test_any_unusual_head_is_parsed_completely(data: bytes) -> None:
    async with gateway("") as gate:
        close(gate.gateway)
        assert gate.gateway._overload.refusal_of(data, closes=False) is None
        assert gate.gateway._overload.refusal_of(_HEAD + b"\r\n" + _BODY, closes=False) is not None
        open_again(gate.gateway)


async def test_a_turn_of_the_loop_that_is_too_long_makes_a_limit_and_short_ones_end_it() -> None:
    """Any turn takes longer than a nanosecond."""
    toml = "[server.limits]\nturn_s = 0.000000001\n"
    async with gateway_to([Head(), Send(FRAMES), End()], toml) as (gate, _):
        assert (await gate.ask(model="up/m", stream=True)).status == 200
        limit = gate.gateway._overload._limit
        await until(lambda: limit.limit < inf and gate.gateway.server.early_refusal is not None)
        gate.gateway._overload.use_target(60.0)
        await until(lambda: limit.limit == inf and gate.gateway.server.early_refusal is None)
        await gate.settled(1)


async def test_a_request_that_waits_for_its_provider_is_not_being_opened() -> None:
    go_on = asyncio.Event()
    async with gateway_to([Head(), Wait(go_on), Send(FRAMES), End()]) as (gate, up), await gate.connect() as client:
        await client.send(chat_request(model="up/m", stream=True))
        await until(lambda: len(up.requests) == 1)
        reading = gate.gateway._overload.reading
        assert (reading.opening, reading.in_flight) == (0, 1)
        go_on.set()
        await client.response()
        await gate.settled(1)
        assert gate.gateway._overload.reading.in_flight == 0


# Files, and the shares of keys.


async def test_a_stream_takes_two_files_and_without_files_callers_get_an_error_while_health_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64 + 12, 64 + 12))
    go_on = asyncio.Event()
    async with gateway_to([Head(), Wait(go_on), Send(FRAMES), End()]) as (gate, up):
        clients = [await gate.connect() for _ in range(8)]
        for client in clients:
            await client.send(chat_request(model="up/m", stream=True))
        refused = [clients.index(client) for client in clients if await has_answer(client, up, 4)]
        assert len(refused) == 4, "eight connections leave files for four upstreams"
        for number in refused:
            assert_refused_by_us(await clients[number].response(), "overloaded")
        for path in ("/health", "/ready", "/metrics"):
            async with await gate.connect() as probe:
                await probe.send(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
                assert (await probe.response()).status == 200
        go_on.set()
        for number, client in enumerate(clients):
            if number not in refused:
                assert (await client.response()).status == 200
            client.close()
        await gate.settled(4)
        assert refusals(gate, "files") == 4


async def has_answer(client: RawClient, up: ScriptedUpstream, count: int) -> bool:
    """When so many have reached the provider: whether this one is not among them."""
    await until(lambda: len(up.requests) == count)
    try:
        return bool(client.sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def test_one_key_cannot_have_all_requests_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64 + 40, 64 + 40))
    go_on = asyncio.Event()
    async with gateway_to([Head(), Wait(go_on), Send(FRAMES), End()], TWO_KEYS) as (gate, up):
        clients = [await gate.connect() for _ in range(17)]
        for number, client in enumerate(clients[:16]):
            await client.send(chat_request(model="up/m", stream=True))
            await until(partial(has_requests, up, number + 1))
        await clients[16].send(chat_request(model="up/m", stream=True))
        reply = await clients[16].response()
        assert_refused_by_us(reply, "overloaded")
        assert "This key" in json.loads(reply.body)["error"]["message"]
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m", stream=True, key=OTHER_KEY))
            await until(partial(has_requests, up, 17))
            go_on.set()
            assert (await client.response()).status == 200
        for client in clients[:16]:
            assert (await client.response()).status == 200
        for client in clients:
            client.close()
        await gate.settled(17)
        assert refusals(gate, "key_share") == 1


def has_requests(up: ScriptedUpstream, count: int) -> bool:
    return len(up.requests) == count
