"""The smallest application behind the HTTP layer, and a server for it on a port of its own.

Paths say what it does: `/echo` sends the body back, `/stream` does so in a stream, `/hold` leaves
the answer to the test, which finds it in `held`; `/deny` is refused by its head alone; `/later` is held
by its head, and its body is left unread. Everything that happened is kept, and `until` waits for it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.server.http.limits import HttpLimits
from streamweir.server.http.listener import HttpServer
from streamweir.server.http.message import Answer, Request, Response
from streamweir.server.process.supervisor import open_listeners
from support.deadlines import WAIT_TIMEOUT_S
from support.raw_client import RawClient


class SmallApp:
    def __init__(self) -> None:
        self.begun: list[Request] = []
        self.served: list[Request] = []
        self.refused: list[tuple[Request | None, StreamweirError]] = []
        self.held: list[Response] = []
        self.events: list[str] = []
        """What the held responses were told: `gone`, `full`, `drained`."""
        self._changed = asyncio.Event()

    async def until(self, holds: Callable[[], object]) -> None:
        """Waits until something is so. Fails with what was seen."""
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"begun {self.begun}, served {self.served}, events {self.events}") from None

    async def hold(self) -> Response:
        """The next held response."""
        await self.until(lambda: self.held)
        return self.held.pop(0)

    def told(self, event: str) -> Callable[[], None]:
        def tell() -> None:
            self.events.append(event)
            self._changed.set()

        return tell

    def forget(self) -> None:
        """All that was kept."""
        for kept in (self.begun, self.served, self.refused, self.held, self.events):
            kept.clear()

    # The application.

    def begin(self, request: Request, response: Response, /) -> bool | None:
        self.begun.append(request)
        response.on_gone, response.on_full, response.on_drained = (
            self.told(event) for event in ("gone", "full", "drained")
        )
        if request.path == "/deny":
            response.send(self.refuse(request, CallerError("invalid_api_key", "No.")))
        elif request.path == "/early":
            self.held.append(response)
            response.start(200, (), b"early")
        elif request.path == "/raise-early":
            raise ZeroDivisionError("begin")
        elif request.path == "/later":
            self.held.append(response)
        self._changed.set()
        return request.path == "/later"

    def serve(self, request: Request, response: Response, /) -> None:
        self.served.append(request)
        self._changed.set()
        path = request.path
        if path == "/hold":
            self.held.append(response)
        elif path == "/stream":
            response.start(200, (("content-type", "text/plain"),), b"first")
            response.write(request.body)
            response.end(b"last")
        elif path == "/raise":
            raise ZeroDivisionError("serve")
        elif path == "/large":
            response.send(Answer(status=200, body=bytes(int(request.query))))
        elif path == "/status":
            response.send(Answer(status=int(request.query), body=b"a body"))
        else:
            response.send(Answer(status=200, headers=(("content-type", "text/plain"),), body=request.body))

    def refuse(self, request: Request, error: StreamweirError, /) -> Answer:
        self.refused.append((request, error))
        self._changed.set()
        headers = (("retry-after", str(error.retry_after_s)),) if error.retry_after_s is not None else ()
        return Answer(status=error.spec.status, headers=headers, body=error.code.encode())


class Serving:
    """A running server: where it is, and what it has seen."""

    def __init__(self, app: SmallApp, server: HttpServer) -> None:
        self.app = app
        self.server = server

    @property
    def address(self) -> tuple[str, int]:
        return self.server.addresses[0]

    async def accepted(self) -> None:
        """Waits until all that were connected before are known to the server: it takes them in order."""
        async with await RawClient.open(self.address) as client:
            await client.send(get("/status?204"))
            assert (await client.response()).status == 204

    async def emptied(self) -> None:
        """Waits until no connection is left."""
        await asyncio.wait_for(self.server.emptied(), WAIT_TIMEOUT_S)


@asynccontextmanager
async def serving(
    app: SmallApp | None = None, *, tls: SSLContext | None = None, reserved_paths: tuple[str, ...] = (), **limits: Any
) -> AsyncIterator[Serving]:
    """`limits` are fields of `HttpLimits`."""
    app = app or SmallApp()
    server = HttpServer(app, HttpLimits(**limits), reserved_paths=reserved_paths)
    (listener,) = open_listeners("127.0.0.1", 0)
    await server.listen(listener, tls)
    try:
        yield Serving(app, server)
    finally:
        await asyncio.wait_for(server.close(), WAIT_TIMEOUT_S)
    assert server.connections == 0


def get(path: str = "/echo", *fields: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: a", *fields, "", ""]).encode("latin-1")


def post(path: str = "/echo", body: bytes = b"", *fields: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "host: a", f"content-length: {len(body)}", *fields, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


def chunked(path: str, *chunks: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
