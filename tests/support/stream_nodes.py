"""Two nodes with one Valkey, a stream that is paused in the middle, and callers of its resumable streams.

async with two_nodes(pause, tmp_path, valkey) as (nodes, here, there):
    async with await here.connect() as client:
        id, first = await begin(client)
    assert (await send(there, id)).status == 200
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from streamweir.server.streams.reader import Reader
from support.answers import TEXTS, openai_frames
from support.deadlines import WAIT_TIMEOUT_S
from support.fleet import Fleet, fleet
from support.gateway import KEY, Gate, chat_request
from support.raw_client import RawClient, Reply
from support.script import End, Head, Send, Step, Wait
from support.valkey import ValkeyServer

OTHER_KEY = "sk-Zx7vLmZ2pKd9RtYw4HbNc8Jf"
KEYS = f"""
[[models]]
id = "m"
targets = [{{ provider = "up", model = "gpt-4o" }}]
price = {{ input = 1000.0, output = 1000.0 }}
[[keys]]
name = "test"
key = "{KEY}"
[[keys]]
name = "other"
key = "{OTHER_KEY}"
"""
NO_GRACE = "\n[streams]\ngrace_s = 0\n"
ASKS = (("x-streamweir-resumable", "true"),)
FRAMES = openai_frames()
PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")


class Pause:
    """An upstream that sends three frames, then waits."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.script: list[Step] = [
            Head(),
            Send(b"".join(FRAMES[:3])),
            Wait(self.goes_on),
            Send(b"".join(FRAMES[3:])),
            End(),
        ]


@asynccontextmanager
async def two_nodes(
    pause: Pause, tmp_path: Path, valkey: ValkeyServer, more: str = ""
) -> AsyncIterator[tuple[Fleet, Gate, Gate]]:
    age(valkey)
    async with fleet(pause.script, tmp_path, count=2, valkey=valkey, toml=KEYS + more, named=True) as nodes:
        here, there = nodes.gateways
        yield nodes, here, there
        pause.goes_on.set()


def readers_of(gate: Gate, id: str) -> list[Reader]:
    """At all nodes, as the owner knows them."""
    stream = gate.gateway._streams.table.own(id)
    assert stream is not None
    return stream.readers


def read_request(id: str, query: str = "", *, method: str = "GET", key: str = KEY) -> bytes:
    lines = [f"{method} /v1/streams/{id}{query} HTTP/1.1", "host: gateway", f"authorization: Bearer {key}"]
    return "\r\n".join([*lines, "", ""]).encode()


async def send(gate: Gate, id: str, query: str = "", *, method: str = "GET", key: str = KEY) -> Reply:
    async with await gate.connect() as client:
        await client.send(read_request(id, query, method=method, key=key))
        return await client.response()


async def begin(client: RawClient, path: str = PATHS[0], until: bytes = TEXTS[1].encode()) -> tuple[str, bytes]:
    """Asks for a stream, and reads what comes before the pause. Its id, and that."""
    members: dict[str, Any] = {"prompt": "Hello"} if path == "/v1/completions" else {}
    await client.send(chat_request(path=path, model="m", stream=True, headers=ASKS, **members))
    head = await client.head()
    id = head.header("x-streamweir-stream")
    assert head.status == 200
    assert id is not None
    received = b""
    while until not in received:
        received += await client.chunk()
    return id, received


async def come_back(client: RawClient, id: str, after: int = 0, key: str = KEY) -> Reply:
    await client.send(read_request(id, f"?after={after}", key=key))
    return await client.head()


async def until_ended(gate: Gate, id: str) -> None:
    """Valkey has the end of a stream of another node."""
    shared = gate.gateway._streams.shared
    assert shared is not None
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while (stream := await shared.remote.find(id)) is None or stream.is_live:
            await asyncio.sleep(0.001)


async def read_to(client: RawClient, mark: bytes) -> bytes:
    received = b""
    while mark not in received:
        received += await client.chunk()
    return received


def age(valkey: ValkeyServer) -> None:
    """It has had its data for long: what is not there never was."""
    assert valkey.execute("SET", "{streamweir}:st:b", "1") == b"+OK\r\n"
