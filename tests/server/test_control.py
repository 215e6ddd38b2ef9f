"""The routes that are not hot: what they answer, and to whom."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Scope

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.policy.permission import Permission
from streamweir.server.control.readiness import Readiness
from streamweir.server.control.routing import Access, OpenRoute, control_app
from streamweir.server.http.message import Request


class Reply:
    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.status: int = messages[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        self.body = b"".join(message.get("body", b"") for message in messages[1:])

    @property
    def document(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: Starlette, path: str, method: str = "GET", key: str | None = None, peer: str = "192.0.2.7", **scope: Any
) -> Reply:
    """As the bridge would ask."""
    headers = [(b"host", b"gateway")]
    if key is not None:
        headers.append((b"authorization", f"Bearer {key}".encode()))
    basis = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": (peer, 1234),
        "server": ("127.0.0.1", 8080),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    await app({**basis, **scope}, receive, send)
    return Reply(sent)


def gate(request: Request) -> StreamweirError | None:
    """What the gateway hands in, with its policy made small."""
    if request.peer == "127.0.0.1":
        return None
    sent = request.headers.get("authorization")
    if sent is None:
        return CallerError("missing_api_key", "No API key was sent.")
    if sent != "Bearer admin":
        return CallerError("insufficient_permissions", "This key has no scope 'admin'.")
    return None


async def text() -> bytes:
    return b"streamweir_open_streams 1.0\n"


def app_of(
    readiness: Readiness | None = None,
    may_read: Callable[[Request], StreamweirError | None] = gate,
    *more: BaseRoute,
) -> Starlette:
    return control_app(readiness=readiness or Readiness(), metrics=text, may_read_metrics=may_read, routes=more)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_health(method: str) -> None:
    reply = await ask(app_of(state_of("draining")), "/health", method)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    if method == "GET":
        assert reply.body == b'{"status":"ok"}'


def state_of(status: str) -> Readiness:
    readiness = Readiness()
    readiness.is_draining = status == "draining"
    readiness.set("a part", "it does not work" if status == "failing" else None)
    assert readiness.status == status
    return readiness


@pytest.mark.parametrize(("state", "status"), [("ok", 200), ("failing", 503), ("draining", 503)])
async def test_ready(state: str, status: int) -> None:
    for method in ("GET", "HEAD"):
        reply = await ask(app_of(state_of(state)), "/ready", method)
        assert reply.status == status
    document = (await ask(app_of(state_of(state)), "/ready")).document
    assert document == {"status": state} | ({"reasons": ["it does not work"]} if state == "failing" else {})


async def test_metrics_are_text() -> None:
    reply = await ask(app_of(), "/metrics", peer="127.0.0.1")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert reply.body == b"streamweir_open_streams 1.0\n"


async def test_metrics_for_everyone_with_access_to_the_api() -> None:
    """The admin secret, and a session of the console, are the API's to know."""

    async def onlooker(request: Request, _scope: Scope) -> StreamweirError | None:
        return None if request.headers.get("cookie") == "session" else CallerError("missing_api_key", "No secret.")

    app = control_app(readiness=Readiness(), metrics=text, may_read_metrics=gate, gates={Permission.METRICS: onlooker})
    assert (await ask(app, "/metrics", headers=[(b"cookie", b"session")])).status == 200
    assert (await ask(app, "/metrics", key="admin")).status == 200
    assert (await ask(app, "/metrics", key="member")).status == 401
    assert (await ask(app, "/metrics")).status == 401


async def test_metrics_for_everyone_if_it_is_configured() -> None:
    assert (await ask(app_of(None, lambda _: None), "/metrics")).status == 200


@pytest.mark.parametrize("host", [b"gateway", b"evil.example", b"evil.example/x", b""])
async def test_the_root_redirects_to_the_console_for_any_host(host: bytes) -> None:
    for method in ("GET", "HEAD"):
        reply = await ask(app_of(), "/", method, headers=[(b"host", host)])
        assert (reply.status, reply.headers["location"], reply.body) == (307, "/console", b"")


EXPECTED = {
    "/": {"none": 307, "key": 307, "admin": 307},
    "/health": {"none": 200, "key": 200, "admin": 200},
    "/ready": {"none": 200, "key": 200, "admin": 200},
    "/metrics": {"none": 401, "key": 403, "admin": 200},
}


@pytest.mark.parametrize("who", ["none", "key", "admin"])
async def test_every_route_for_everyone_who_may_ask(who: str) -> None:
    """A route that is not in the table, or carries no access, fails here."""
    app = app_of()
    paths = [route.path for route in app.routes if isinstance(route, OpenRoute)]
    assert len(paths) == len(app.routes), "every route says for whom it is there"
    assert set(paths) == set(EXPECTED)
    for path in paths:
        reply = await ask(app, path, key=None if who == "none" else who)
        assert reply.status == EXPECTED[path][who], path


async def test_a_refusal_names_the_reason() -> None:
    nobody = await ask(app_of(), "/metrics")
    assert nobody.headers["www-authenticate"] == "Bearer"
    assert nobody.document["error"]["code"] == "missing_api_key"
    member = await ask(app_of(), "/metrics", key="member")
    assert member.document == {
        "error": {
            "message": "This key has no scope 'admin'.",
            "type": "permission_error",
            "param": None,
            "code": "insufficient_permissions",
        }
    }


async def plain(_: HttpRequest) -> HttpResponse:
    return PlainTextResponse("reached")


class Unknown(Route):
    access = "nobody"


@pytest.mark.parametrize(
    "route",
    [Route("/new", plain), Unknown("/new", plain), Mount("/new", routes=[Route("/", plain)])],
    ids=["no access", "an access that is none", "a mount"],
)
async def test_a_route_without_access_is_forbidden(route: BaseRoute) -> None:
    app = app_of(None, lambda _: None, route)
    for path in ("/new", "/new/"):
        for method in ("GET", "HEAD", "POST"):
            reply = await ask(app, path, method, key="admin", peer="127.0.0.1")
            assert reply.status in (403, 404)
            assert b"reached" not in reply.body
    assert (await ask(app, "/new/" if isinstance(route, Mount) else "/new", key="admin")).status == 403


async def test_a_further_route_with_an_access_is_served() -> None:
    app = app_of(None, gate, OpenRoute("/new", plain, access=Access.METRICS))
    assert (await ask(app, "/new")).status == 401
    assert (await ask(app, "/new", key="admin")).body == b"reached"


@pytest.mark.parametrize("path", ["/nothing", "/health/", "/metrics/x", "//health", "/HEALTH"])
async def test_unknown_paths(path: str) -> None:
    reply = await ask(app_of(), path)
    assert reply.status == 404
    assert reply.document["error"] == {
        "message": f"Unknown request URL: GET {path}.",
        "type": "invalid_request_error",
        "param": None,
        "code": "unknown_url",
    }
    assert reply.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_wrong_methods(method: str) -> None:
    reply = await ask(app_of(), "/health", method)
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD"
    assert reply.document["error"]["code"] == "method_not_allowed"


async def test_a_path_of_several_routes_allows_the_methods_of_all() -> None:
    more = [OpenRoute("/new/{id}", plain, access=Access.ANYONE, method=method) for method in ("PATCH", "GET", "DELETE")]
    app = app_of(None, gate, *more)
    reply = await ask(app, "/new/1", "POST")
    assert (reply.status, reply.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")
    for method in ("PATCH", "GET", "DELETE"):
        assert (await ask(app, "/new/1", method)).body == b"reached"


async def test_each_method_of_a_path_has_its_own_access() -> None:
    more = [
        OpenRoute("/new", plain, access=Access.ANYONE),
        OpenRoute("/new", plain, access=Access.METRICS, method="POST"),
        OpenRoute("/new", plain, access=Permission.SETTINGS_READ, method="DELETE"),
    ]
    app = app_of(None, gate, *more)
    assert [(await ask(app, "/new", method)).status for method in ("GET", "POST", "DELETE")] == [200, 401, 403]
    assert (await ask(app, "/new", "POST", key="admin")).status == 200
    assert (await ask(app, "/new", "DELETE", key="admin")).status == 403, "there is no gate for that permission"


async def test_a_gate_gives_the_endpoint_the_identity() -> None:
    async def may(request: Request, scope: Scope) -> None:
        scope.setdefault("state", {})["actor"] = request.headers["authorization"]

    async def who(request: HttpRequest) -> HttpResponse:
        return PlainTextResponse(request.state.actor)

    route = OpenRoute("/new", who, access=Permission.KEYS_READ)
    app = control_app(
        readiness=Readiness(), metrics=text, may_read_metrics=gate, routes=[route], gates={Permission.KEYS_READ: may}
    )
    assert (await ask(app, "/new", key="somebody")).body == b"Bearer somebody"


async def test_a_wrong_method_does_not_open_a_closed_route() -> None:
    assert (await ask(app_of(), "/metrics", "POST")).status == 401
    assert (await ask(app_of(), "/metrics", "POST", key="admin")).status == 405


async def test_the_gate_sees_headers_and_peer_and_no_url() -> None:
    seen: list[Request] = []

    def look(request: Request) -> None:
        seen.append(request)

    headers = [(b"Host", b"a/?x"), (b"X-One", b"1"), (b"x-one", b"2")]
    await ask(app_of(None, look), "/metrics", headers=headers, client=("::1", 1))
    await ask(app_of(None, look), "/metrics", client=None)
    assert seen[0].headers == {"host": "a/?x", "x-one": "1, 2"}
    assert (seen[0].peer, seen[0].path) == ("::1", "/metrics")
    assert seen[1].peer == ""


async def test_every_answer_has_cache_and_security_headers() -> None:
    for path in ("/", "/health", "/ready", "/metrics", "/nothing"):
        reply = await ask(app_of(), path)
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "server" not in reply.headers


async def test_an_error_of_the_gateway_has_its_own_text() -> None:
    async def unavailable() -> bytes:
        raise GatewayFault("overloaded", "Too much at once.")

    app = control_app(readiness=Readiness(), metrics=unavailable, may_read_metrics=lambda _: None)
    reply = await ask(app, "/metrics")
    assert reply.status == 503
    assert reply.document["error"]["code"] == "overloaded"


async def test_a_fault_is_an_error_response_and_is_raised_for_the_log() -> None:
    async def broken() -> bytes:
        raise LookupError("a secret of ours")

    app = control_app(readiness=Readiness(), metrics=broken, may_read_metrics=lambda _: None)
    sent: list[Any] = []
    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": [], "query_string": b""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(LookupError):
        await app(scope, receive, send)
    reply = Reply(sent)
    assert reply.status == 500
    assert reply.document["error"]["code"] == "internal_error"
    assert b"secret" not in reply.body
