"""Callers that are slow: in reading, in sending, or for ever (C6, C8, C9, C12).

A reader that stops holds up its own upstream and nobody else: what the gateway keeps for it is
bounded, and after `write_stall_s` both sides are dropped. One that pauses and reads on loses nothing.
Senders that never come to an end are told so with 408, while everybody else is served.
"""

import asyncio
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from conftest import SOAKS
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.policy.refusal_quota import PER_ADDRESS
from support.answers import TEXTS, USAGE, openai_frames, openai_whole
from support.gateway import Gate, chat_request, gateway_to, text_of
from support.raw_client import CutShort, RawClient, Reply
from support.script import End, Flood, Hang, Head, Seen, Send, Step, stream, whole
from support.slow_reader import MOST_TAKEN, PIECE, standing_still
from support.system import resident_bytes

FRAME = openai_frames([PIECE])[1]
END = b"".join(openai_frames()[-3:])
MOST_WAITING = 64 * 1024 + 256 * 1024
"""Inside the gateway, for one caller: up to the mark at which its upstream is paused, and one read beyond it."""


def long_answer(size: int) -> list[Step]:
    return [Head(), Send(openai_frames()[0]), Flood(FRAME, size // len(PIECE)), Send(END), End()]


def waiting_bytes(gate: Gate) -> int:
    """What the gateway holds for its callers outside the kernel."""
    return sum(line._transport.get_write_buffer_size() for line in gate.gateway.server._open)


# C8: a reader that stops.


async def test_a_reader_that_stops_delays_only_its_own_upstream() -> None:
    """A hundred megabytes are on offer; the gateway takes what fits into bounded buffers."""

    def script(request: Seen) -> list[Step]:
        return long_answer(100_000_000) if request.json["model"] == "long" else stream(b"".join(openai_frames()))

    patience = "[server.timeouts]\nwrite_stall_s = 0.5"
    async with gateway_to(script, patience, send_buffer=65536) as (gate, up):
        before = resident_bytes()
        async with await gate.connect(receive_buffer=4096) as client:
            await client.send(chat_request(model="up/long", stream=True))
            await standing_still(gate, up)
            assert waiting_bytes(gate) <= MOST_WAITING
            for _ in range(20):
                assert text_of((await gate.ask(model="up/short", stream=True)).body) == "".join(TEXTS)
            assert waiting_bytes(gate) <= MOST_WAITING
            await up.aborted(1)
            assert up.requests[0].body_sent <= MOST_TAKEN
            (record,) = [each for each in await gate.settled(21) if each.model == "up/long"]
            with pytest.raises((CutShort, ConnectionError)):
                await client.response()
        assert resident_bytes() - before < 20_000_000
        assert (record.verdict, record.status) == (Verdict.CLIENT_GONE, 200)
        assert record.usage_source is UsageSource.ESTIMATE


async def test_a_reader_that_stops_in_a_whole_answer() -> None:
    body = openai_whole("x" * 4_000_000)
    patience = "[server.timeouts]\nwrite_stall_s = 0.2"
    async with gateway_to(whole(body), patience) as (gate, _), await gate.connect(receive_buffer=4096) as client:
        await client.send(chat_request(model="up/m"))
        (record,) = await gate.settled()
        assert record.verdict is Verdict.COMPLETED  # all of it was handed over; the rest is the connection's
        await gate.gateway.server.emptied()
        with pytest.raises((CutShort, ConnectionError)):
            await client.response()


async def test_many_readers_that_stop() -> None:
    count = 500 if SOAKS else 30
    patience = "[server.timeouts]\nwrite_stall_s = 60"
    async with gateway_to(long_answer(100_000_000), patience, send_buffer=65536) as (gate, up):
        clients = [await gate.connect(receive_buffer=4096) for _ in range(count)]
        for client in clients:
            await client.send(chat_request(model="up/m", stream=True))
        await up.seen(count)
        assert await standing_still(gate, up) <= count * MOST_TAKEN
        assert waiting_bytes(gate) <= count * MOST_WAITING
        assert (await gate.ask(model="none/m")).status == 404
        for client in clients:
            client.reset()
        records = await gate.settled(count + 1)
        assert [each.verdict for each in records].count(Verdict.CLIENT_GONE) == count
        assert len(up.aborts) == count


# C9: a reader that pauses.


@pytest.mark.parametrize("dialect", ["openai", "aivene"], ids=["passed", "translated"])
async def test_a_reader_that_pauses_and_reads_on_loses_nothing(dialect: str) -> None:
    count = 1000
    async with gateway_to(long_answer(count * len(PIECE)), send_buffer=65536) as (gate, up):
        async with await gate.connect(receive_buffer=4096) as client:
            await client.send(chat_request(path=f"/{dialect}/v1/chat/completions", model="up/m", stream=True))
            await standing_still(gate, up)
            assert (await client.head()).status == 200
            body = b""
            for _ in range(3):
                sent = up.body_sent
                await standing_still(gate, up)
                while up.body_sent == sent:
                    body += await client.chunk()
            while chunk := await client.chunk():
                body += chunk
        assert text_of(body) == PIECE * count
        (record,) = await gate.settled()
        assert (record.verdict, record.usage_source) == (Verdict.COMPLETED, UsageSource.PROVIDER)
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == USAGE
        assert up.aborts == []


# C12: senders that never come to an end.

SLOW_SENDERS = 2000 if SOAKS else 100
SENDER_PATIENCE_S = 5.0 if SOAKS else 0.5


@pytest.fixture
def enough_files() -> Iterator[None]:
    """Each connection is two of them here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * SLOW_SENDERS + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"needs {needed} open files, {hard} are allowed")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def drip(client: RawClient, begun: bytes) -> Reply:
    """A byte now and then, each of which could keep a timer alive, until there is an answer."""
    await client.send(begun)
    answered = asyncio.ensure_future(client.response())
    while not (await asyncio.wait([answered], timeout=SENDER_PATIENCE_S / 10))[0]:
        with suppress(ConnectionError):
            client.sock.send(b"x")
    return await answered


@pytest.mark.usefixtures("enough_files")
@pytest.mark.parametrize(
    ("begun", "timer"),
    [
        (b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nx-slow: ", "header_s"),
        (chat_request(body=b" " * 100_000).rstrip(b" "), "body_s"),
    ],
    ids=["header", "body"],
)
async def test_slow_senders_get_an_error_while_others_are_served(begun: bytes, timer: str) -> None:
    patience = f"[server.timeouts]\n{timer} = {SENDER_PATIENCE_S}"
    async with gateway_to(stream(b"".join(openai_frames())), patience) as (gate, up):
        clients = [await gate.connect() for _ in range(SLOW_SENDERS)]
        slow = [asyncio.ensure_future(drip(client, begun)) for client in clients]
        others = 20
        for _ in range(others):
            assert text_of((await gate.ask(model="up/m", stream=True)).body) == "".join(TEXTS)
        for reply in await asyncio.gather(*slow):
            assert (reply.status, reply.header("connection")) == (408, "close")
            assert json.loads(reply.body)["error"]["code"] == "request_timeout"
        for client in clients:
            assert await client.is_closed()
            client.close()
        recorded = min(SLOW_SENDERS, PER_ADDRESS) if timer == "header_s" else SLOW_SENDERS  # before a key is known
        records = await gate.settled(others + recorded)
        refused = [each for each in records if each.error == "request_timeout"]
        assert len(refused) == recorded
        assert {(each.verdict, each.status) for each in refused} == {(Verdict.REJECTED, 408)}
        assert len(up.requests) == others


async def test_a_connection_without_a_request_gets_an_error_and_is_closed() -> None:
    async with gateway_to(stream(b""), "[server.timeouts]\nheader_s = 0.1") as (gate, _):
        async with await gate.connect() as client:
            assert (await client.response()).status == 408
            assert await client.is_closed()
        assert [record.error for record in await gate.settled()] == ["request_timeout"]


# C6: a caller that vanishes without a word.

CALLER = """
import socket, sys
caller = socket.create_connection((sys.argv[1], int(sys.argv[2])))
caller.sendall(sys.stdin.buffer.read(int(sys.argv[3])))
while b"Hello" not in caller.recv(65536):
    pass
print("reads", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_network() -> Iterator[tuple[str, str, str]]:
    """A network of its own, its name, our address in it and the command that runs something there."""
    name = f"streamweir{os.getpid()}"
    ours, theirs = "10.213.77.1", "10.213.77.2"
    ip = shutil.which("ip")
    if ip is None:
        pytest.skip("needs the program ip")

    def run(*words: str) -> None:
        subprocess.run([str(ip), *words], check=True, capture_output=True)  # noqa: S603

    try:
        run("netns", "add", name)
    except subprocess.CalledProcessError as refused:
        pytest.skip(f"needs the right to make a network namespace: {refused.stderr.decode().strip()}")
    try:
        run("link", "add", f"sw{os.getpid()}", "type", "veth", "peer", "name", "caller", "netns", name)
        run("addr", "add", f"{ours}/30", "dev", f"sw{os.getpid()}")
        run("link", "set", f"sw{os.getpid()}", "up")
        run("-n", name, "addr", "add", f"{theirs}/30", "dev", "caller")
        run("-n", name, "link", "set", "caller", "up")
        yield name, ours, ip
    finally:
        run("netns", "del", name)


@pytest.mark.soak
async def test_a_caller_that_vanishes_is_noticed(other_network: tuple[str, str, str]) -> None:
    name, ours, ip = other_network
    script: list[Step] = [Head(), Send(b"".join(openai_frames()[:2])), Hang()]
    patience = "[server.timeouts]\nwrite_stall_s = 1\nkeepalive_s = 0.1"
    async with gateway_to(script, patience) as (gate, up):
        listener = socket.socket()
        listener.bind((ours, 0))
        port = str(listener.getsockname()[1])
        await gate.gateway.listen(listener)
        request = chat_request(model="up/m", stream=True)
        caller = await asyncio.create_subprocess_exec(
            *(ip, "netns", "exec", name, sys.executable, "-c", CALLER, ours, port, str(len(request))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert caller.stdin is not None
            assert caller.stdout is not None
            caller.stdin.write(request)
            assert await caller.stdout.readline() == b"reads\n"
            silence = [ip, "-n", name, "route", "add", "blackhole", f"{ours}/32"]
            assert await (await asyncio.create_subprocess_exec(*silence)).wait() == 0
            await up.aborted(1)
            (record,) = await gate.settled()
            assert (record.verdict, record.status) == (Verdict.CLIENT_GONE, 200)
        finally:
            caller.kill()
            await caller.communicate()
