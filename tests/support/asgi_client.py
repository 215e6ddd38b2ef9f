"""The application of the control plane for a client that asks it without a socket, and so without the bridge.

What is handed over is answered here by whoever takes it, in one piece; a stream of events that would
not end is left after its first.
"""

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamweir.core.errors import StreamweirError
from streamweir.server.control.routing import request_of
from streamweir.server.http.asgi import BODY, DELEGATE, RequestDelegate
from streamweir.server.http.body import too_large
from streamweir.server.http.message import Answer, Headers


class Taken:
    """See `server.http.message.Response`."""

    def __init__(self) -> None:
        self.more_headers: Headers = ()
        self.on_gone: Callable[[], None] | None = None
        self.on_full: Callable[[], None] | None = None
        self.on_drained: Callable[[], None] | None = None
        self.started = self.over = self.gone = self.full = False
        self.answer: Answer | None = None

    def send(self, answer: Answer, /) -> None:
        assert not self.started
        self.started = self.over = True
        self.answer = answer

    def start(self, _status: int, _headers: Headers, _first: bytes = b"", /) -> None:
        raise AssertionError("no stream here")

    def write(self, _data: bytes, /) -> None:
        raise AssertionError("no stream here")

    def end(self, _last: bytes = b"", /) -> None:
        raise AssertionError("no stream here")

    def cut(self) -> None:
        raise AssertionError("an answer was cut")

    def read_body(self, _most: int | None, _done: Callable[[StreamweirError | None], None], /) -> None:
        raise AssertionError("its body is here")

    def arrived_body(self) -> bytes:
        raise AssertionError("its body is here")


def bridged(app: ASGIApp) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        taken, left, has_body = Taken(), asyncio.Event(), False
        kind = ""

        def delegate(handler: RequestDelegate) -> None:
            handler(request_of(scope), taken)

        async def receive_then_wait() -> Message:
            nonlocal has_body
            if has_body:
                await left.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            has_body = not message.get("more_body", False)
            return message

        async def send_until_left(message: Message) -> None:
            nonlocal kind
            if left.is_set():
                return
            if message["type"] == "http.response.start":
                kind = dict(message["headers"]).get(b"content-type", b"").decode()
            elif message.get("body") and kind.startswith("text/event-stream"):
                message = {**message, "more_body": False}
                left.set()
            await send(message)

        async def read_body(max_bytes: int | None) -> bytes:
            pieces = []
            while not has_body:
                pieces.append((await receive_then_wait()).get("body", b""))
            body = b"".join(pieces)
            if max_bytes is not None and len(body) > max_bytes:
                raise too_large(max_bytes)
            return body

        scope["extensions"] = {DELEGATE: delegate, BODY: read_body}
        await app(scope, receive_then_wait, send_until_left)
        if taken.answer is not None:
            headers = [(name.encode(), value.encode()) for name, value in taken.answer.headers]
            await send({"type": "http.response.start", "status": taken.answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": taken.answer.body})

    return serve
