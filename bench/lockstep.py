"""The gateway in this process, between a mock provider and a caller that alternate: every run does the same.

The provider sends a piece of an answer when the caller has the one before, so that two of them are never joined. It
begins when the reservation is durable, as a slower provider would, so no answer is paused. Everything is on: a key with
limits and a budget, a database in SQLite, metrics, and a log without output. Configuration and routes are those of the
benchmark (`bench.system`).

All work of the two ends starts in this file, and none of the gateway's: so a profiler of this thread (`bench.count`)
can distinguish them.
"""

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

from bench.system import CHAT, HERE, KEY, LIMITS, QUIET_KEY, RESPONSES, UPSTREAM_KEY, Route, filled, resumable
from bench.wire import MARK, WHOLE, wires
from streamweir.config.load import load_config
from streamweir.config.model import Provider as ProviderConfig
from streamweir.server.process.bootstrap import open_accounting, prepare_accounting
from streamweir.server.process.gateway import Gateway
from streamweir.server.telemetry.log import close_log, configure_log, log_request
from streamweir.server.telemetry.record import RequestRecord
from streamweir.upstream.base import Upstream

TIMEOUT_S = 10.0
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(WHOLE)


class Provider:
    """The mock. `may_answer` is awaited before each answer."""

    def __init__(self, may_answer: Callable[[], Awaitable[object]]) -> None:
        self.texts = 1
        """So many has an answer."""
        self._may_answer = may_answer
        self._wires = wires()
        self._wire = self._wires[0]
        self._transport: asyncio.Transport | None = None
        self._sent = 0

    async def answer(self, transport: asyncio.Transport, head: str, body: bytes) -> None:
        await self._may_answer()
        path = head.split(" ", 2)[1]
        self._wire = next(wire for wire in self._wires if wire.path in path)
        if not self._wire.path and not json.loads(body).get("stream"):
            transport.write(WHOLE_HEAD + WHOLE)
        else:
            self._transport, self._sent = transport, 1
            transport.write(STREAM_HEAD % self._wire.media + _chunk(self._wire.start + self._wire.texts[0]))

    def go_on(self) -> None:
        """The next piece of the latest stream."""
        assert self._transport is not None
        if self._sent < self.texts:
            self._transport.write(_chunk(self._wire.texts[self._sent]))
        else:
            self._transport.write(_chunk(self._wire.end) + _chunk(b""))
        self._sent += 1


class ProviderConnection(asyncio.Protocol):
    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._buffer = b""
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, body = _split(self._buffer)
        if body is not None:
            self._buffer = b""
            answering = self._provider.answer(self._transport, head, body)
            self._answering = asyncio.get_running_loop().create_task(answering)


class Caller(asyncio.Protocol):
    """One connection, one request at a time. `on_text` is called for each text that has come."""

    def __init__(self, on_text: Callable[[], None]) -> None:
        self.texts = 0
        """Of the answer. Its end may repeat them."""
        self._expected = 0
        self._on_text = on_text
        self._received = b""
        self._over: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def ask(self, request: bytes, texts: int) -> asyncio.Future[None]:
        """Done when the answer is whole."""
        self._received, self.texts, self._expected = b"", 0, texts
        self._over = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._over

    def data_received(self, data: bytes) -> None:
        self._received += data
        for _ in range(min(data.count(MARK), self._expected - self.texts)):
            self.texts += 1
            self._on_text()
        head, body = _split(self._received)
        if body is None or self._over is None:
            return
        if not head.startswith("HTTP/1.1 200 "):
            self._over.set_exception(RuntimeError(f"refused: {self._received!r}"))
        elif b"transfer-encoding: chunked" not in self._received or body.endswith(b"0\r\n\r\n"):
            self._over.set_result(None)

    def close(self) -> None:
        self._transport.close()


class Lockstep:
    def __init__(self, provider: Provider, address: tuple[str, int]) -> None:
        self.provider = provider
        self._address = address
        self._told: asyncio.Future[None] | None = None

    async def connect(self) -> Caller:
        """Whose answers go on whenever it has what was sent of them."""
        return await self._connect(self.provider.go_on)

    async def open(self, route: Route, count: int) -> list[Caller]:
        """So many streams that stay as they are after their first text, until their callers are closed."""
        callers = []
        for _ in range(count):
            has_text = asyncio.get_running_loop().create_future()
            caller = await self._connect(partial(has_text.set_result, None))
            caller.ask(request_of(route, is_stream=True), 1)
            async with asyncio.timeout(TIMEOUT_S):
                await has_text
            callers.append(caller)
        return callers

    async def _connect(self, on_text: Callable[[], None]) -> Caller:
        _, caller = await asyncio.get_running_loop().create_connection(lambda: Caller(on_text), *self._address)
        return caller

    async def ask(self, caller: Caller, route: Route, texts: int) -> None:
        """One request, from its first byte to its record. No texts: the answer comes whole."""
        self.provider.texts = texts
        self._told = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(TIMEOUT_S):
            await caller.ask(request_of(route, is_stream=texts > 0), texts)
            await self._told
        self._told = None
        if caller.texts != texts:
            raise RuntimeError(f"{caller.texts} of {texts} texts have come")

    def tell(self, record: RequestRecord) -> None:
        log_request(record)
        if self._told is not None:
            self._told.set_result(None)


@asynccontextmanager
async def lockstep(folder: Path, telemetry: str = "") -> AsyncIterator[Lockstep]:
    """`folder` is empty, and gets the configuration and the database. `telemetry`: more of the configuration."""
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    file = folder / "streamweir.toml"

    async def may_answer() -> None:
        assert storage.accounting.writer is not None
        assert await storage.accounting.writer.flush(TIMEOUT_S), "the books do not answer"

    provider = Provider(may_answer)
    mock = await loop.create_server(lambda: ProviderConnection(provider), "127.0.0.1", 0)
    file.write_text(_configuration(listener.getsockname()[1], mock.sockets[0].getsockname()[1], telemetry))
    config = load_config(file, {})
    await prepare_accounting(config, folder)
    storage = await open_accounting(config, folder)
    steps = Lockstep(provider, listener.getsockname())
    gateway = Gateway(config, _no_local, steps.tell, storage=storage)
    with open(os.devnull, "w") as nowhere:
        configure_log("json", nowhere)
        await gateway.open()
        await gateway.listen(listener)
        try:
            yield steps
        finally:
            await gateway.close()
            mock.close()
            await mock.wait_closed()
            close_log()


def request_of(route: Route, *, is_stream: bool) -> bytes:
    messages = [{"role": "user", "content": "What is a weir?"}]
    usage = {"stream_options": {"include_usage": True}} if route.path.endswith(CHAT) else {"max_tokens": 4096}
    if route.path.endswith(RESPONSES):
        usage = {}
    options = {"stream": True, **usage} if is_stream else {}
    conversation = "input" if route.path.endswith(RESPONSES) else "messages"
    body = json.dumps({"model": route.model, conversation: messages, **options}).encode()
    head = f"POST {route.path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {route.key}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def _configuration(port: int, upstream_port: int, telemetry: str) -> str:
    # How often turns are measured must not depend on the machine.
    server_limits = "[server.limits]\nturn_s = 3600"
    known = {"port": port, "key": KEY, "limits": LIMITS, "store": "sqlite:///streamweir.db", "ca_file": ""}
    upstream = {"scheme": "http", "upstream_port": upstream_port, "upstream_key": UPSTREAM_KEY}
    more = {"quiet_key": QUIET_KEY, "server_limits": server_limits, "telemetry": telemetry}
    more["resumable"] = resumable(LIMITS)
    return filled((HERE / "streamweir.toml").read_text(), {**known, **upstream, **more})


def _split(message: bytes) -> tuple[str, bytes | None]:
    """Head and body; None: the head is not there yet, or not all of a body that has a length."""
    head, end, body = message.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    is_there = bool(end) and (length is None or len(body) == int(length[1]))
    return head.decode("latin-1"), body if is_there else None


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _no_local(_: ProviderConfig) -> Upstream:
    raise AssertionError("there is no embedded model")
