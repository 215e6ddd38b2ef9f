"""The routes that are not hot: health, readiness, metrics, and those of console and API. A Starlette application.

Every route declares who may use it, and that is checked before its endpoint is called. The default is no access: a
route without `access` answers 403. Decisions use the matched path, the headers and the peer, never a URL that is built
from the caller's input. Only an endpoint reads the body, so it is never read for an unknown route or for a caller
without access. The data of the answers is passed in; this module does not depend on the gateway.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from enum import StrEnum
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.responses import StreamingResponse
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.frontends.table import unknown_url
from streamweir.policy.permission import Permission
from streamweir.server.control.readiness import Readiness
from streamweir.server.http.answers import api_failure_answer
from streamweir.server.http.asgi import BODY, DELEGATE, BodyReader, RequestDelegate, Unfinished
from streamweir.server.http.message import Headers, Request
from streamweir.server.http.security_headers import needs_security_headers, with_security_headers
from streamweir.server.telemetry.log import logger
from streamweir.server.telemetry.money_metrics import without_money
from streamweir.wire import jsonio

Gate = Callable[[Request, Scope], Awaitable[StreamweirError | None]]
"""The reason for refusing access, or None. It stores the identity in the scope's state, for the endpoint."""

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_EVERYWHERE: Headers = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))


class Access(StrEnum):
    """For routes that need no permission of a role (`policy.permission`)."""

    ANYONE = "anyone"
    METRICS = "metrics"
    """`Permission.METRICS`; also this machine, or anyone, if the operator has configured that."""


class OpenRoute(Route):
    """A route with its access."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[[HttpRequest], Awaitable[HttpResponse]],
        *,
        access: Access | Permission,
        method: str = "GET",
    ) -> None:
        super().__init__(path, endpoint, methods=[method])
        self.access = access


def control_app(
    *,
    readiness: Readiness,
    metrics: Callable[[], Awaitable[bytes]],
    may_read_metrics: Callable[[Request], StreamweirError | None],
    sees_cost: Callable[[Request, Scope], bool] = lambda _request, _scope: False,
    routes: Sequence[BaseRoute] = (),
    gates: Mapping[Access | Permission, Gate] = {},
    is_secure: bool = False,
) -> Starlette:
    """`sees_cost`: whether money is in the metrics for this reader. `routes`: further ones, with their `gates`.
    `is_secure`: callers connect with TLS."""

    async def index(_: HttpRequest) -> HttpResponse:
        return _response(307, b"", (("location", "/console"),))  # without a host: the caller's `Host` is not trusted

    async def health(_: HttpRequest) -> HttpResponse:
        return json_response({"status": "ok"})

    async def ready(_: HttpRequest) -> HttpResponse:
        return json_response(readiness.document(), 200 if readiness.is_ready else 503)

    async def read_metrics(http: HttpRequest) -> HttpResponse:
        text = await metrics()
        shown = text if sees_cost(request_of(http.scope), http.scope) else without_money(text)
        return _response(200, shown, (("content-type", METRICS_TYPE),))

    every: list[BaseRoute] = [
        OpenRoute("/", index, access=Access.ANYONE),
        OpenRoute("/health", health, access=Access.ANYONE),
        OpenRoute("/ready", ready, access=Access.ANYONE),
        OpenRoute("/metrics", read_metrics, access=Access.METRICS),
        *routes,
    ]

    async def anyone(_request: Request, _scope: Scope) -> None:
        return None

    async def for_metrics(request: Request, scope: Scope) -> StreamweirError | None:
        error, viewer = may_read_metrics(request), gates.get(Permission.METRICS)
        if viewer is None:
            return error
        refused = await viewer(request, scope)  # always, because it finds out who asks
        return None if error is None else refused

    every_gate: dict[Access | Permission, Gate] = {Access.ANYONE: anyone, Access.METRICS: for_metrics, **gates}
    app = _SecuredApp(
        is_secure=is_secure,
        middleware=[Middleware(_Guard, routes=every, gates=every_gate)],
        exception_handlers={HTTPException: _refuse, StreamweirError: _fail, Exception: _fault},
    )
    # Without redirects to a path with or without a slash: they would be built from the caller's `Host`.
    app.router = Router(every, redirect_slashes=False)
    return app


class _SecuredApp(Starlette):
    """Outside of everything, including the answer to a fault: every answer of the console has its security headers."""

    def __init__(self, *, is_secure: bool, **more: Any) -> None:
        super().__init__(**more)
        self._is_secure = is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"])
                headers = with_security_headers(path, sent, is_secure=self._is_secure)
                message["headers"] = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            await send(message)

        await super().__call__(scope, receive, send_secured if needs_security_headers(path) else send)


class _Guard:
    """Checks the access of the matching route before the request reaches it."""

    def __init__(self, app: ASGIApp, routes: list[BaseRoute], gates: Mapping[Access | Permission, Gate]) -> None:
        self._app = app
        self._routes = routes
        self._gates = gates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._route_of(scope)
        error = await self._error_of(route, scope) if route is not None else None
        if error is not None:
            await _failure(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _route_of(self, scope: Scope) -> BaseRoute | None:
        """The same choice as the router's: the first for this path and method, else the first for this path."""
        partial = None
        for route in self._routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return route
            if match is Match.PARTIAL and partial is None:
                partial = route
        return partial

    async def _error_of(self, route: BaseRoute, scope: Scope) -> StreamweirError | None:
        access = getattr(route, "access", None)
        gate = self._gates.get(access) if isinstance(access, Access | Permission) else None
        if gate is None:
            return CallerError("insufficient_permissions", "This route is closed.")
        return await gate(request_of(scope), scope)


def request_of(scope: Scope) -> Request:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    client = scope.get("client")
    return Request(
        id=scope.get("state", {}).get("request_id", ""),
        method=scope["method"],
        path=scope["path"],
        headers=headers,
        peer=client[0] if client else "",
        arrived_s=0.0,
    )


async def body_of(http: HttpRequest, max_bytes: int | None) -> bytes:
    """The body, of at most so many bytes; None: the limit for all bodies. Raises `StreamweirError`."""
    read: BodyReader = http.scope["extensions"][BODY]
    return await read(max_bytes)


async def _refuse(request: HttpRequest, reason: Exception) -> HttpResponse:
    """The answer to a request that the router cannot serve."""
    method, path = request.method, request.scope["path"][:200]
    if isinstance(reason, HTTPException) and reason.status_code == 405:
        allowed = ", ".join(_methods_of(request))
        return _failure(CallerError("method_not_allowed", f"Not allowed here: {method}."), (("allow", allowed),))
    return _failure(unknown_url(method, path))


def _methods_of(request: HttpRequest) -> list[str]:
    """The methods of all routes for this path: the router has only those of the first."""
    found = {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }
    return sorted(found)


async def _fail(_: HttpRequest, reason: Exception) -> HttpResponse:
    assert isinstance(reason, StreamweirError)  # noqa: S101 (what it is registered for)
    return _failure(reason)


async def _fault(request: HttpRequest, _: Exception) -> HttpResponse:
    """Starlette raises the exception again after this answer, so that it is logged."""
    event_id = request.scope.get("state", {}).get("request_id")
    return _failure(GatewayFault("internal_error", "The gateway failed to answer.", event_id=event_id))


def json_response(document: object, status: int = 200, headers: Headers = ()) -> HttpResponse:
    return _response(status, jsonio.encode(document), (("content-type", "application/json"), *headers))


def plain_response(text: str, status: int = 200) -> HttpResponse:
    return _response(status, text.encode(), (("content-type", "text/plain; charset=utf-8"),))


def stream_response(pieces: AsyncGenerator[bytes, None], status: int = 200, headers: Headers = ()) -> HttpResponse:
    """For HEAD, the pieces are not read."""
    return _Streamed(pieces, status, headers)


class _Streamed(StreamingResponse):
    """An answer in pieces. Its generator is closed when the caller disconnects. If it ends with a known error, the
    connection is cut."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], status: int, headers: Headers) -> None:
        super().__init__(pieces, status, dict(headers + _EVERYWHERE))
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await self._pieces.aclose()  # no more pieces are needed
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self._pieces):
            try:
                await super().stream_response(send)
            except StreamweirError as error:
                logger.warning("response cut off", code=error.code, reason=error.message)
                raise Unfinished(error.code) from error


def delegated_response(handler: RequestDelegate) -> HttpResponse:
    return _DelegatedResponse(handler)


class _DelegatedResponse(HttpResponse):
    """Another function answers: see `server.http.asgi.DELEGATE`."""

    def __init__(self, handler: RequestDelegate) -> None:
        super().__init__()
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        scope["extensions"][DELEGATE](self._handler)


def _failure(error: StreamweirError, headers: Headers = ()) -> HttpResponse:
    answer = api_failure_answer(error, headers)
    return _response(answer.status, answer.body, answer.headers)


def _response(status: int, body: bytes, headers: Headers) -> HttpResponse:
    return HttpResponse(body, status, dict(headers + _EVERYWHERE))
