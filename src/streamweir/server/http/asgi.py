"""The bridge to an ASGI application, for the routes that are not hot: one task per request.

It converts a `Request` to an http scope, and the messages of the application to one `Response`.

- The body is read only when the application calls `receive`. A request that is refused by its head costs no more.
- The path is passed on as it was sent, without decoding.
- An answer in one piece is sent with its length. Any other answer is a stream that waits for a slow caller.
- When the caller disconnects, `receive` returns `http.disconnect`. If the application does not stop, its task is
  cancelled after a grace period.
- A fault of the application goes to `on_fault`. Its answer is sent if no answer was started.
- A stream that ends with `Unfinished` is cut. This is not a fault.
- The application can give the request and the response to another function (`DELEGATE`).

Lifespan and websockets are not supported.
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


DELEGATE = "streamweir.delegate"
"""An extension of the scope: a function that takes a `RequestDelegate`."""
RequestDelegate = Callable[[Request, Response], None]
BODY = "streamweir.body"
"""An extension of the scope: a `BodyReader`."""
BodyReader = Callable[[int | None], Awaitable[bytes]]
"""Reads a body of at most so many bytes; None: the limit of all bodies. Raises `StreamweirError`."""


class Unfinished(Exception):
    """A stream cannot be completed, and must not look complete to its caller. Or a body is incomplete, because its
    caller disconnected."""


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
        """`on_fault` is called for every fault and returns the answer; `on_answer` is called with every other status.

        `on_body` is called before a body is read, and may raise a `StreamweirError`. `grace_s`: the time between a
        disconnect and the cancellation of the task.
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
        cycle = _RequestCycle(request, response)
        scope = self._scope(request)
        scope["extensions"] = {DELEGATE: cycle.delegate, BODY: cycle.read_body}
        cycle.on_body = partial(self._on_body, request, scope)
        task = asyncio.get_running_loop().create_task(_run(self._app, scope, cycle))
        self._tasks.add(task)
        task.add_done_callback(partial(self._finish, request, response, cycle))
        response.on_gone = partial(cycle.caller_gone, task, self._grace_s)
        response.on_drained = cycle.caller_ready

    async def close(self) -> None:
        """Cancels all tasks and waits for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _finish(self, request: Request, response: Response, cycle: "_RequestCycle", task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        cycle.end()
        fault = None if task.cancelled() else task.exception()
        if cycle.is_delegated:
            if fault is not None:
                self._on_fault(request, fault)
            return
        if fault is None and not response.over and not task.cancelled():
            fault = RuntimeError("the application returned before its answer was whole")
        if (response.started or response.gone) and isinstance(fault, Unfinished):
            fault = None
        answer = None
        if fault is None and cycle.status:
            self._on_answer(request, cycle.status)
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


async def _run(app: AsgiApp, scope: dict[str, Any], cycle: "_RequestCycle") -> None:
    await app(scope, cycle.receive, cycle.send)


class _RequestCycle:
    """One request for the application: its `receive` and `send`."""

    def __init__(self, request: Request, response: Response) -> None:
        self._request = request
        self._response = response
        self.on_body: Callable[[], None] = lambda: None
        self._is_read: asyncio.Future[None] | None = None
        """Done when the body is in the request, or cannot be read."""
        self._body_error: StreamweirError | None = None
        self._body_is_given = False
        self._head: tuple[int, Headers] | None = None
        """Not sent before the first piece of the body: an answer in one piece has a length."""
        self.is_delegated = False
        self._change = asyncio.Event()
        """Set when the caller is ready again, has disconnected, or has the whole answer."""
        self._kill_timer: asyncio.TimerHandle | None = None

    @property
    def status(self) -> int:
        """0: there is no answer yet."""
        return self._head[0] if self._head is not None else 0

    async def receive(self) -> Message:
        if not self._body_is_given:
            self._body_is_given = True
            return {"type": "http.request", "body": await self.read_body(None), "more_body": False}
        while not self._response.over and not self.is_delegated:
            await self._wait()
        return {"type": "http.disconnect"}

    async def read_body(self, max_bytes: int | None) -> bytes:
        response = self._response
        if self._is_read is None and not response.over:
            self.on_body()
            self._is_read = asyncio.get_running_loop().create_future()
            response.read_body(max_bytes, self._body_read)
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
        if response.over or self.is_delegated:
            await asyncio.sleep(0)  # an application that sends in a loop must not block the event loop
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

    def delegate(self, handler: RequestDelegate) -> None:
        """From now on `handler` answers, even if the application fails. If it raises, the answer is still ours."""
        if self._head is not None:
            raise RuntimeError("the application has answered already")
        self._response.on_gone = self._response.on_drained = None
        handler(self._request, self._response)
        self.is_delegated = True
        self._change.set()

    async def _wait(self) -> None:
        self._change.clear()
        await self._change.wait()

    def caller_ready(self) -> None:
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
