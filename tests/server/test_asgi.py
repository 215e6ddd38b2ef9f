"""The bridge: what an ASGI application sees, what becomes of its answer, and who hears of its faults."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.responses import Response as StarletteResponse
from starlette.routing import Route

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.server.control.readiness import Readiness
from streamweir.server.control.routing import Access, OpenRoute, control_app, stream_response
from streamweir.server.http.asgi import BODY, DELEGATE, AsgiApp, Bridge
from streamweir.server.http.message import Answer, Request, Response
from support.deadlines import WAIT_TIMEOUT_S
from support.http_app import Serving, SmallApp, get, post, serving
from support.raw_client import CutShort, RawClient

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
START = {"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"b"), (b"content-length", b"3")]}


class Bridged(SmallApp):
    """Everything goes through the bridge."""

    def __init__(self, app: AsgiApp, **options: Any) -> None:
        super().__init__()
        self.faults: list[BaseException] = []
        self.bridge = Bridge(app, self.note, **options)

    def note(self, request: Request, reason: BaseException) -> Answer:
        self.faults.append(reason)
        self.told("fault")()
        if isinstance(reason, StreamweirError):
            return Answer(status=reason.spec.status, body=reason.code.encode())
        return Answer(status=500, body=request.id.encode())

    def begin(self, request: Request, response: Response, /) -> bool:
        self.begun.append(request)
        self.bridge.serve(request, response)
        return True


@asynccontextmanager
async def bridging(app: AsgiApp, **options: Any) -> AsyncIterator[tuple[Serving, Bridged]]:
    bridged = Bridged(app, **options)
    async with serving(bridged) as at:
        yield at, bridged
        await asyncio.wait_for(bridged.bridge.close(), WAIT_TIMEOUT_S)


async def test_the_scope_and_the_body() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend([dict(scope), await receive()])
        await send(START)
        await send({"type": "http.response.body", "body": b"abc"})
        seen.append(await receive())

    async with bridging(app, server=("127.0.0.1", 8080)) as (at, _), await RawClient.open(at.address) as client:
        await client.send(post("/a%20b/%C3%A9%2F?q=%20", b"hello", "X-Thing: caf\xe9"))
        reply = await client.response()
        assert (reply.status, reply.body, reply.header("x-a")) == (200, b"abc", "b")
        assert reply.header("content-length") == "3"
        await client.send(get("/"))
        await client.response()
    assert seen[0].pop("state") == {"request_id": reply.header("x-request-id")}
    assert list(seen[0].pop("extensions")) == [DELEGATE, BODY]
    assert seen[0] == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/a%20b/%C3%A9%2F",
        "raw_path": b"/a%20b/%C3%A9%2F",
        "query_string": b"q=%20",
        "root_path": "",
        "headers": [(b"host", b"a"), (b"content-length", b"5"), (b"x-thing", b"caf\xe9")],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 8080),
    }
    assert seen[1] == {"type": "http.request", "body": b"hello", "more_body": False}
    assert seen[2] == {"type": "http.disconnect"}


def starlette() -> Starlette:
    async def echo(request: StarletteRequest) -> StarletteResponse:
        return PlainTextResponse(await request.body())

    async def stream(request: StarletteRequest) -> StarletteResponse:
        async def pieces() -> AsyncIterator[bytes]:
            for piece in (b"one", b"", b"two"):
                yield piece

        return StreamingResponse(pieces(), headers={"x-path": request.url.path})

    return Starlette(routes=[Route("/echo", echo, methods=["GET", "POST"]), Route("/stream", stream)])


async def test_starlette() -> None:
    async with bridging(starlette()) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(post("/echo", b"hello") + get("/stream") + get("/nowhere") + post("/stream"))
        assert (await client.response()).body == b"hello"
        streamed = await client.response()
        assert streamed.chunks == (b"one", b"two")
        assert streamed.header("x-path") == "/stream"
        assert (await client.response()).status == 404
        assert (await client.response()).status == 405
        await client.send((get("/stream") + get("/echo")).replace(b"GET", b"HEAD"))
        assert (await client.response(has_body=False)).status == 200
        assert (await client.response(has_body=False)).header("content-length") == "0"
        assert bridged.faults == []


async def test_a_stream_waits_for_a_slow_caller() -> None:
    written = 0

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        nonlocal written
        await send(START)
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(10000), "more_body": True})
            written += 10000
        await send({"type": "http.response.body"})

    async with bridging(app) as (at, _), await RawClient.open(at.address, receive_buffer=8192) as client:
        await client.send(get("/"))
        await client.head()
        assert await client.chunk() == bytes(10000)
        assert written < 1_000_000
        count = 1
        while chunk := await client.chunk():
            assert chunk == bytes(10000)
            count += 1
        assert count == 1000


@pytest.mark.parametrize("path", ["/before", "/head", "/within", "/short", "/nothing", "/twice", "/odd"])
async def test_a_fault_is_reported_and_never_looks_like_an_answer(path: str) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        if path == "/odd":
            await send({"type": "http.response.body", "body": b"x"})
        if path in ("/before", "/nothing"):
            if path == "/before":
                raise ZeroDivisionError
            return
        await send(START)
        if path == "/twice":
            await send(START)
        if path in ("/within", "/short"):
            await send({"type": "http.response.body", "body": b"some", "more_body": True})
        if path in ("/within", "/head"):
            raise ZeroDivisionError

    async with bridging(app) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(get(path))
        if path in ("/within", "/short"):
            with pytest.raises(CutShort):
                await client.response()
        else:
            reply = await client.response()
            assert (reply.status, reply.body) == (500, at.app.begun[0].id.encode())
        assert [type(fault) for fault in bridged.faults] == [
            ZeroDivisionError if path in ("/before", "/head", "/within") else RuntimeError
        ]


async def test_an_application_notices_that_its_caller_has_gone() -> None:
    seen: list[str] = []
    left = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(START)
        await send({"type": "http.response.body", "body": b"some", "more_body": True})
        seen.append((await receive())["type"])
        await send({"type": "http.response.body", "body": b"into the void"})
        left.set()

    async with bridging(app, grace_s=1000) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(get("/"))
        await client.head()
        client.close()
        await asyncio.wait_for(left.wait(), WAIT_TIMEOUT_S)
        assert seen == ["http.disconnect"]
        assert bridged.faults == []


async def test_one_that_does_not_is_cancelled() -> None:
    ended: list[str] = []
    begun, over = asyncio.Event(), asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        finally:
            over.set()

    async with bridging(app, grace_s=0.01) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(get("/"))
        await asyncio.wait_for(begun.wait(), WAIT_TIMEOUT_S)
        client.close()
        await asyncio.wait_for(over.wait(), WAIT_TIMEOUT_S)
        assert ended == ["cancelled"]
        assert bridged.faults == []


async def test_a_waiting_sender_resumes_when_its_caller_disconnects() -> None:
    over = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        await send({"type": "http.response.body", "body": bytes(5_000_000), "more_body": True})
        over.set()

    async with bridging(app, grace_s=1000) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(get("/"))
        await client.head()
        client.close()
        await asyncio.wait_for(over.wait(), WAIT_TIMEOUT_S)
        await at.emptied()
        assert bridged.faults == []


async def test_closing_ends_what_is_under_way() -> None:
    begun = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with bridging(app) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(get("/"))
        await asyncio.wait_for(begun.wait(), WAIT_TIMEOUT_S)
        await bridged.bridge.close()
        assert await client.is_closed()
        assert bridged.faults == []


def streaming(pieces: Callable[[], AsyncGenerator[bytes, None]]) -> Starlette:
    """The control plane with one more route, which answers with them."""

    async def endpoint(_: StarletteRequest) -> StarletteResponse:
        return stream_response(pieces(), 201, (("content-type", "text/plain"),))

    return control_app(
        readiness=Readiness(),
        metrics=no_metrics,
        may_read_metrics=lambda _: None,
        routes=[OpenRoute("/pieces", endpoint, access=Access.ANYONE)],
    )


async def no_metrics() -> bytes:
    return b""


async def test_an_answer_in_pieces() -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"one"
        yield b"two"

    async with bridging(streaming(pieces)) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(get("/pieces"))
        reply = await client.response()
        assert (reply.status, reply.chunks) == (201, (b"one", b"two"))
        assert (reply.header("content-type"), reply.header("cache-control")) == ("text/plain", "no-store")
        assert bridged.faults == []


@pytest.mark.parametrize(
    ("reason", "faults"),
    [(GatewayFault("ledger_unavailable", "It is away."), []), (ZeroDivisionError(), [ZeroDivisionError])],
)
async def test_an_answer_whose_pieces_fail_is_cut_off(reason: Exception, faults: list[type]) -> None:
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"one"
        raise reason

    async with bridging(streaming(pieces)) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(get("/pieces"))
        with pytest.raises(CutShort):
            await client.response()
        assert [type(fault) for fault in bridged.faults] == faults


@pytest.mark.parametrize("is_full", [False, True])
async def test_the_generator_is_closed_when_the_caller_has_gone(is_full: bool) -> None:
    over = asyncio.Event()

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            while is_full:
                yield bytes(100_000)
            await asyncio.Event().wait()
        finally:
            over.set()

    async with bridging(streaming(pieces), grace_s=1000) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(get("/pieces"))
        await client.head()
        client.close()
        await asyncio.wait_for(over.wait(), WAIT_TIMEOUT_S)
        await at.emptied()
        assert bridged.faults == []


async def test_a_websocket_is_refused() -> None:
    async with bridging(starlette()) as (at, _), await RawClient.open(at.address) as client:
        await client.send(get("/echo", "connection: upgrade", "upgrade: WebSocket", "sec-websocket-version: 13"))
        assert (await client.response()).status == 400


async def test_a_delegated_request_is_answered_by_its_handler() -> None:
    taken: list[tuple[Request, Response]] = []
    seen: list[Any] = []
    over = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        scope["extensions"][DELEGATE](lambda *both: taken.append(both))
        await send(START)
        await send({"type": "http.response.body", "body": b"abc"})
        seen.append(await receive())
        over.set()

    async with bridging(app) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(post("/", b"hello"))
        await asyncio.wait_for(over.wait(), WAIT_TIMEOUT_S)
        ((request, response),) = taken
        assert (request.body, seen) == (b"hello", [{"type": "http.disconnect"}])
        assert (response.on_gone, response.on_drained, response.started) == (None, None, False)
        await bridged.bridge.close()
        response.start(202, (("x-a", "b"),), b"one")
        head = await client.head()
        assert (head.status, head.header("x-a"), await client.chunk()) == (202, "b", b"one")
        response.on_gone = bridged.told("gone")
        client.close()
        await bridged.until(lambda: bridged.events == ["gone"])
        assert bridged.faults == []


@pytest.mark.parametrize("when", ["while it is taken", "after that", "after an answer"])
async def test_a_fault_of_the_delegating_function_is_reported(when: str) -> None:
    def take(_: Request, response: Response) -> None:
        if when == "while it is taken":
            raise ValueError("it")
        response.send(Answer(status=200, body=b"taken"))

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if when == "after an answer":
            await send(START)
        scope["extensions"][DELEGATE](take)
        raise ValueError("it")

    async with bridging(app) as (at, bridged), await RawClient.open(at.address) as client:
        await client.send(get("/"))
        reply = await client.response()
        await bridged.until(lambda: bridged.events == ["fault"])
        is_taken = when == "after that"
        assert (reply.status, reply.body == b"taken") == ((200, True) if is_taken else (500, False))
        assert [type(fault) for fault in bridged.faults] == [RuntimeError if when == "after an answer" else ValueError]
