"""The gateway as a test uses it: the real one, in the test's own event loop, on a real socket.

    async with gateway(providers(up=upstream.base_url)) as gate:
        reply = await gate.ask(model="up/m", stream=True)
        assert gate.records[0].verdict == "completed"

Every request leaves exactly one `RequestRecord` in `records`. When the block is left, nothing may be
open any more: no stream, no connection, no upstream, no place for an abandoned one.
"""

import asyncio
import json
import os
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import structs

from streamweir.config.load import load_config
from streamweir.config.model import Config
from streamweir.config.model import Provider as ProviderConfig
from streamweir.config.source import ConfigSource
from streamweir.console.assets import Assets
from streamweir.server.accounting import token_count
from streamweir.server.accounting.intervals import Intervals
from streamweir.server.http import limits
from streamweir.server.http.pressure import memory_limit_bytes
from streamweir.server.process.bootstrap import open_accounting, prepare_accounting
from streamweir.server.process.gateway import Gateway
from streamweir.server.telemetry.log import log_request
from streamweir.server.telemetry.record import RequestRecord
from streamweir.upstream.authorized import connections_in
from streamweir.upstream.base import Upstream
from support.deadlines import DEADLINES, WAIT_TIMEOUT_S
from support.program_deadlines import LONG_INTERVALS, use_long_deadlines
from support.raw_client import RawClient, Reply
from support.script import Script
from support.scripted_upstream import ScriptedUpstream
from support.watchdog import WatchedLoop

KEY = "sk-Qx7vLmZ2pKd9RtYw4HbNc8Jf"
use_long_deadlines()
_load = token_count._load
MESSAGES = [{"role": "user", "content": "Say hello."}]


@cache
def _load_once(name: str, _: object) -> Callable[[str], int] | None:
    return _load(name)


def _load_for_all(name: str) -> Callable[[str], int] | None:
    """A vocabulary for all gateways of this process: to load it takes more than most tests. One for each library."""
    return _load_once(name, sys.modules.get("splintr", "not yet imported"))


token_count._load = _load_for_all
vars(limits)["memory_limit_bytes"] = cache(memory_limit_bytes)  # a dozen files are read


class Gate:
    def __init__(self, running: Gateway, address: tuple[str, int], records: list[RequestRecord]) -> None:
        self.gateway = running
        self.address = address
        self.records = records
        self.secret: str | None = None
        """The operator's, if there is a database."""
        self._has_record = asyncio.Event()

    @property
    def base_url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    def record_request(self, record: RequestRecord) -> None:
        log_request(record)  # goes nowhere, unless the test has configured the log
        self.records.append(record)
        self._has_record.set()

    async def settled(self, count: int = 1) -> list[RequestRecord]:
        """Waits until so many requests are over."""
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            while len(self.records) < count:
                self._has_record.clear()
                await self._has_record.wait()
        assert len(self.records) == count
        return self.records

    async def vacated(self) -> None:
        """Waits until every caller is gone, and asserts that nothing is held for any of them."""
        running = self.gateway
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await running.server.emptied()
            await running.drained()
        assert (running.open_streams, running.abandoned, running.accounting.targets.open_count) == (0, 0, 0)
        for _, upstream in running.runtime.upstreams():
            if (connections := connections_in(upstream)) is not None:
                assert (connections.in_use, connections.waiting) == (0, 0)

    async def has_read(self) -> None:
        """Until it has read what is in the kernel now: another request, which came later, is answered."""
        async with await self.connect() as client:
            await client.send(b"GET /health HTTP/1.1\r\nhost: gateway\r\n\r\n")
            await client.response()

    async def connect(self, *, receive_buffer: int | None = None) -> RawClient:
        return await RawClient.open(self.address, receive_buffer=receive_buffer)

    async def ask(self, *, path: str = "/v1/chat/completions", key: str | None = KEY, **members: Any) -> Reply:
        """One chat request on a connection of its own, and its whole answer."""
        async with await self.connect() as client:
            await client.send(chat_request(path=path, key=key, **members))
            return await client.response()


_IN_RESPONSES = {"messages": "input", "max_tokens": "max_output_tokens"}


def chat_request(
    *,
    path: str = "/v1/chat/completions",
    key: str | None = KEY,
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes | None = None,
    **members: Any,
) -> bytes:
    """The bytes of a request. `members` are those of its body, over a short conversation."""
    if body is None:
        needed = {"max_tokens": 4096} if path.endswith("/messages") else {}
        document = {"messages": MESSAGES, **needed, **members}
        if path.endswith("/responses"):  # items of a conversation need no type
            document = {_IN_RESPONSES.get(name, name): value for name, value in document.items()}
        body = json.dumps(document).encode()
    lines = [f"POST {path} HTTP/1.1", "host: gateway", "content-type: application/json", f"content-length: {len(body)}"]
    if key is not None:
        lines.append(f"authorization: Bearer {key}")
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def frames_of(body: bytes) -> list[Any]:
    """The documents of an event stream that keeps its promise; the sentinel as the string `[DONE]`."""
    blocks = body.split(b"\n\n")
    assert blocks[-1] == b"", "the stream ends within a frame"
    documents: list[Any] = []
    for block in blocks[:-1]:
        data = b"".join(line for line in block.split(b"\n") if not line.startswith(b":"))
        assert data.startswith(b"data: "), block
        documents.append("[DONE]" if data == b"data: [DONE]" else json.loads(data[6:]))
    return documents


def text_of(body: bytes) -> str:
    """The text of a streamed answer, choice 0."""
    return "".join(
        choice["delta"].get("content") or ""
        for document in frames_of(body)
        if document != "[DONE]"
        for choice in document.get("choices", ())
        if choice["index"] == 0
    )


def providers(kind: str = "openai", **base_urls: str) -> str:
    """TOML: one provider for each name."""
    return "".join(
        f'[[providers]]\nname = "{name}"\nkind = "{kind}"\nbase_url = "{url}"\napi_key = "sk-upstream-secret"\n'
        for name, url in base_urls.items()
    )


def completed(toml: str, *, key: bool = True) -> str:
    if "[store]" not in toml:
        toml = f'[store]\nurl = "none"\n{toml}'
    if key and "[[keys]]" not in toml:
        toml += f'\n[[keys]]\nname = "test"\nkey = "{KEY}"\n'
    return toml


def configured(toml: str, *, key: bool = True) -> Config:
    """As the program reads it from a file. `key`: with the test's own, where it has none."""
    toml = completed(toml, key=key)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "streamweir.toml"
        file.write_text(toml)
        config = load_config(file, os.environ)
    server = config.server
    for section, member, value in DEADLINES:
        if member not in toml:
            server = structs.replace(server, **{section: structs.replace(getattr(server, section), **{member: value})})
    return structs.replace(config, server=server)


@asynccontextmanager
async def gateway(
    toml: str,
    *,
    key: bool = True,
    open_local: Callable[[ProviderConfig], Upstream] | None = None,
    data_dir: Path | None = None,
    is_worker: bool = False,
    intervals: Intervals = LONG_INTERVALS,
    page: Assets | None = None,
    source: ConfigSource | None = None,
) -> AsyncIterator[Gate]:
    """`open_local` gives the upstream of the embedded model, where the test has one.

    With a `[store]` it keeps books, in `data_dir`; `is_worker`: others may share it, `intervals`: how long it waits for
    whom. `page`: the console's, where it matters. `source`: what the API tells of the file.
    """
    gate: Gate | None = None
    config = configured(toml, key=key)
    if "metrics_local" not in toml:  # most tests read them as the machine they run on
        config = structs.replace(config, server=structs.replace(config.server, metrics_local=True))
    storage, secret = None, None
    if not config.store.is_none:
        assert data_dir is not None, "books need a place"
        secret = await prepare_accounting(config, data_dir, workers=2 if is_worker else 1)
        storage = await open_accounting(config, data_dir, is_worker=is_worker, intervals=intervals)

    def record_request(record: RequestRecord) -> None:
        assert gate is not None
        gate.record_request(record)

    running = Gateway(config, open_local or _no_local, record_request, storage=storage, page=page, source=source)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    address: tuple[str, int] = listener.getsockname()
    gate = Gate(running, address, [])
    gate.secret = secret
    await running.open()
    await running.listen(listener)
    try:
        yield gate
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await running.drained()
        assert running.open_streams == 0
        assert running.abandoned == 0
        upstreams = [provider.upstream for provider in running.runtime.providers.values()]
        used = [each for each in map(connections_in, upstreams) if each is not None]
        await until(lambda: not any(upstream.in_use for upstream in used))  # the end of a body may still be coming
    finally:
        await running.close()
    assert running.bodies.held_bytes == 0


@asynccontextmanager
async def gateway_to(
    script: Script,
    toml: str = "",
    *,
    kind: str = "openai",
    provider: str = "",
    send_buffer: int | None = None,
    data_dir: Path | None = None,
) -> AsyncIterator[tuple[Gate, ScriptedUpstream]]:
    """A gateway whose provider `up` plays the script; `provider` is more TOML for it. In the end nothing is left."""
    async with (
        nothing_left(),
        ScriptedUpstream(script, send_buffer=send_buffer) as upstream,
        gateway(f"{providers(kind, up=upstream.base_url)}{provider}\n{toml}", data_dir=data_dir) as gate,
    ):
        yield gate, upstream
        await gate.vacated()
        await upstream.idle()


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Around all that a test opens: no file, no task and no timer of it outlives the block."""
    files, tasks, waiting = _open_files(), asyncio.all_tasks(), _timers()
    yield
    await until(lambda: not _open_files() - files and not asyncio.all_tasks() - tasks)
    assert _timers() <= waiting


@asynccontextmanager
async def routed(toml: str, **scripts: Script) -> AsyncIterator[tuple[Gate, dict[str, ScriptedUpstream]]]:
    """A gateway with `toml` and one provider for each script, by its name. At the end none of them may be in use."""
    async with AsyncExitStack() as stack:
        ups = {name: await stack.enter_async_context(ScriptedUpstream(script)) for name, script in scripts.items()}
        async with gateway(providers(**{name: up.base_url for name, up in ups.items()}) + toml) as gate:
            yield gate, ups
        for up in ups.values():
            await up.vacated()


async def until(holds: Callable[[], bool]) -> None:
    """For conditions without an event."""
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while not holds():
            await asyncio.sleep(0.001)


def _open_files() -> Counter[str]:
    """By what they are, for their numbers are used again."""
    found: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            found[os.readlink(f"/proc/self/fd/{name}")] += 1
    del found[os.devnull]  # the event loop keeps one in reserve, from its first listener on
    return found


def _timers() -> int:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, WatchedLoop)
    return loop.timers


def _no_local(_: ProviderConfig) -> Upstream:
    raise AssertionError("this test has no embedded model")
