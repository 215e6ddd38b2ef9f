"""The admin API on a real socket, in a thread with an event loop of its own, for clients that block.

    with served_api(tmp_path) as (base_url, api):
        requests.get(f"{base_url}/api/keys", ...)

Of `api` only what needs no event loop may be used from outside, and `call` for the rest.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.server.http.answers import api_failure_answer
from streamweir.server.http.asgi import Bridge
from streamweir.server.http.limits import HttpLimits
from streamweir.server.http.listener import HttpServer
from streamweir.server.http.message import Answer, Request, Response
from streamweir.server.process.supervisor import open_listeners
from support.api import TOML, Api, api_on
from support.deadlines import WAIT_TIMEOUT_S
from support.watchdog import watched_loop

T = TypeVar("T")


class ServedApi:
    def __init__(self, api: Api, base_url: str, loop: asyncio.AbstractEventLoop, faults: list[BaseException]) -> None:
        self.api = api
        self.base_url = base_url
        self.faults = faults
        """What was not foreseen."""
        self._loop = loop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_TIMEOUT_S)


class _Application:
    """See `server.http.message.Application`: everything goes over the bridge."""

    def __init__(self, api: Api, faults: list[BaseException]) -> None:
        self._faults = faults
        self.bridge = Bridge(api.app, self._fault)

    def begin(self, request: Request, response: Response, /) -> bool:
        self.bridge.serve(request, response)
        return True

    def serve(self, _request: Request, _response: Response, /) -> None:
        raise AssertionError("everything is taken by its head")

    def refuse(self, _: Request, error: StreamweirError, /) -> Answer:
        return api_failure_answer(error)

    def _fault(self, _: Request, reason: BaseException) -> Answer:
        if isinstance(reason, StreamweirError):
            return api_failure_answer(reason)
        self._faults.append(reason)
        return api_failure_answer(GatewayFault("internal_error", "a fault"))


@contextmanager
def served_api(folder: Path, toml: str = TOML) -> Iterator[ServedApi]:
    is_open = threading.Event()
    made: list[ServedApi] = []
    ends: list[Callable[[], object]] = []
    failed: list[BaseException] = []

    async def serve() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        faults: list[BaseException] = []
        async with api_on("sqlite", folder, toml) as api:
            application = _Application(api, faults)
            server = HttpServer(application, HttpLimits())
            (listener,) = open_listeners("127.0.0.1", 0)
            await server.listen(listener)
            host, port = server.addresses[0]
            made.append(ServedApi(api, f"http://{host}:{port}", loop, faults))
            ends.append(lambda: loop.call_soon_threadsafe(over.set))
            is_open.set()
            await over.wait()
            await application.bridge.close()
            await server.close()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=watched_loop) as runner:
                runner.run(serve())
        except BaseException as reason:  # noqa: BLE001 (for whoever waits)
            failed.append(reason)
        finally:
            is_open.set()

    thread = threading.Thread(target=run, name="api")
    thread.start()
    try:
        assert is_open.wait(WAIT_TIMEOUT_S)
        if failed:
            raise failed[0]
        yield made[0]
    finally:
        for end in ends:
            end()
        thread.join(WAIT_TIMEOUT_S)
    assert not thread.is_alive()
    assert not failed
