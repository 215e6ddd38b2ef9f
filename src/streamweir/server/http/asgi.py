"""The bridge to an ASGI application, for the routes that are not hot: one task per request.

It hands a `Request` over as an http scope and turns what the application sends into one `Response`.
The body is read when the application asks for it and not before: what is refused by its head costs no
more than that. The path is the one that was sent, nothing in it decoded. An answer that comes in one
piece is sent with its length, anything else as a stream that waits for a slow caller. A caller that has
gone is told by `http.disconnect`; an application that does not listen is cancelled after a grace. A fault
of the application is never swallowed: it goes to `on_fault`, whose answer is sent where none has been
started. A stream that ends with `Unfinished` is cut, and that is no fault. What the application does not
want to answer itself it may hand over, request and response as they are (`HANDOVER`). No lifespan, no
websockets.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.server.http.message import Answer, Headers, Request, Response

Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


HANDOVER = "streamweir.handover"
"""An extension of the scope: a function that takes a `ConnectionHandler`."""
Taker = Callable[[Request, Response], None]
BODY = "streamweir.body"
"""An extension of the scope: a `BodyReader`."""
BodyReader = Callable[[int | None], Awaitable[bytes]]
"""Reads a body of at most so many bytes; None: as many as any may have. Raises `StreamweirError`."""


class Unfinished(Exception):
    """The rest of a stream cannot be had: its caller must not take what it has for the whole. Or the rest of a request,
    whose caller has gone."""


class Bridge:
    def __init__(
        self,
        asgi_app: AsgiApp,
        on_fault: Callable[[Request, BaseException], Answer],
        *,
        on_answer: Callable[[Request, int], None] = lambda _request, _status: None,
        on_body: Callable[[Request, Message], None] = lambda _request, _scope: None,
        scheme: str = "http",
        server: tuple[str, int] | None = None,
        grace_s: float = 1.0,
    ) -> None:
        """`on_fault` is told of every fault, and asked for the answer to it; `on_answer` of the status of all others.

        `on_body` is told before a body is read, and may raise a `StreamweirError`. `grace_s`: for leaving by itself.
        """
        self._app = asgi_app
        self._on_fault = on_fault
        self._on_answer = on_answer
        self._on_body = on_body
        self._scheme = scheme
        self._server = server
        self._grace_s = grace_s
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, request: Request, response: Response) -> None:
        if request.headers.get("upgrade", "").lower() == "websocket":
            error = CallerError("invalid_value", "WebSockets are not supported.")
            response.send(self._on_fault(request, error))
            return
        exchange = _Exchange(request, response)
        scope = self._scope(request)
        scope["extensions"] = {HANDOVER: exchange.hand_over, BODY: exchange.read_body}
        exchange.on_body = partial(self._on_body, request, scope)
        task = asyncio.get_running_loop().create_task(_run(self._app, scope, exchange))
        self._tasks.add(task)
        task.add_done_callback(partial(self._finish, request, response, exchange))
        response.on_gone = partial(exchange.caller_gone, task, self._grace_s)
        response.on_drained = exchange.caller_reads_on

    async def close(self) -> None:
        """Cancels what is under way and waits for its end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _finish(self, request: Request, response: Response, exchange: "_Exchange", task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        exchange.end()
        fault = None if task.cancelled() else task.exception()
        if exchange.is_handed_over:
            if fault is not None:
                self._on_fault(request, fault)
            return
        if fault is None and not response.over and not task.cancelled():
            fault = RuntimeError("the application returned before its answer was whole")
        if (response.started or response.gone) and isinstance(fault, Unfinished):
            fault = None
        answer = None
        if fault is None and exchange.status:
            self._on_answer(request, exchange.status)
        try:
            answer = self._on_fault(request, fault) if fault is not None else None
        finally:
            if answer is not None and not response.started:
                response.send(answer)
            elif not response.over:
                response.cut()

    def _scope(self, request: Request) -> dict[str, Any]:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": self._scheme,
            "path": request.path,
            "raw_path": request.path.encode("ascii"),
            "query_string": request.query.encode("ascii"),
            "root_path": "",
            "headers": [(name.encode("ascii"), value.encode("latin-1")) for name, value in request.headers.items()],
            "client": (request.peer, 0) if request.peer else None,
            "server": self._server,
            "state": {"request_id": request.id},
        }


async def _run(app: AsgiApp, scope: dict[str, Any], exchange: "_Exchange") -> None:
    await app(scope, exchange.receive, exchange.send)


class _Exchange:
    """What one call of the application sees of its caller."""

    def __init__(self, request: Request, response: Response) -> None:
        self._request = request
        self._response = response
        self.on_body: Callable[[], None] = lambda: None
        self._is_read: asyncio.Future[None] | None = None
        """The body is in the request, or will not be."""
        self._body_error: StreamweirError | None = None
        self._body_is_given = False
        self._head: tuple[int, Headers] | None = None
        """Held back until the first piece of the body tells whether it is the only one."""
        self.is_handed_over = False
        self._change = asyncio.Event()
        """The caller reads on, or has gone, or has all it asked for."""
        self._kill_timer: asyncio.TimerHandle | None = None

    @property
    def status(self) -> int:
        """0 where it has not been said."""
        return self._head[0] if self._head is not None else 0

    async def receive(self) -> Message:
        if not self._body_is_given:
            self._body_is_given = True
            return {"type": "http.request", "body": await self.read_body(None), "more_body": False}
        while not self._response.over and not self.is_handed_over:
            await self._wait()
        return {"type": "http.disconnect"}

    async def read_body(self, most: int | None) -> bytes:
        response = self._response
        if self._is_read is None and not response.over:
            self.on_body()
            self._is_read = asyncio.get_running_loop().create_future()
            response.read_body(most, self._body_read)
        if self._is_read is not None and not response.over:
            await self._is_read
        if response.gone:
            raise Unfinished("its caller has gone")
        if self._body_error is not None:
            raise self._body_error
        return self._request.body

    def _body_read(self, error: StreamweirError | None = None) -> None:
        self._body_error = error
        if self._is_read is not None and not self._is_read.done():
            self._is_read.set_result(None)

    async def send(self, message: Message) -> None:
        response = self._response
        if response.over or self.is_handed_over:
            await asyncio.sleep(0)  # one that sends on and on must let others tell it that nobody listens
            return
        kind = message["type"]
        if kind == "http.response.start":
            if self._head is not None:
                raise RuntimeError("the application started its answer twice")
            self._head = message["status"], _headers(message.get("headers", ()))
            return
        if kind != "http.response.body" or self._head is None:
            raise RuntimeError(f"the application sent an unexpected {kind}")
        body, has_more = bytes(message.get("body", b"")), message.get("more_body", False)
        status, headers = self._head
        if not response.started and not has_more:
            response.send(Answer(status=status, headers=headers, body=body))
        elif not response.started:
            response.start(status, headers, body)
        elif has_more:
            response.write(body)
        else:
            response.end(body)
        while response.full:
            await self._wait()
        if response.over:
            self._change.set()

    def hand_over(self, take: Taker) -> None:
        """From now on `take` has it, whatever becomes of the application; where it raises, the answer is still ours."""
        if self._head is not None:
            raise RuntimeError("the application has answered already")
        self._response.on_gone = self._response.on_drained = None
        take(self._request, self._response)
        self.is_handed_over = True
        self._change.set()

    async def _wait(self) -> None:
        self._change.clear()
        await self._change.wait()

    def caller_reads_on(self) -> None:
        self._change.set()

    def caller_gone(self, task: "asyncio.Task[None]", grace_s: float) -> None:
        self._change.set()
        self._body_read()
        self._kill_timer = asyncio.get_running_loop().call_later(grace_s, task.cancel)

    def end(self) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()


def _headers(fields: Any) -> Headers:
    return tuple((bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in fields)
