"""The console's page: what is served below /console, and the headers of every answer there and below /api."""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse
from starlette.responses import Response as HttpResponse

from streamweir.console.assets import Assets
from streamweir.policy.secret import csrf_of
from streamweir.server.control.console import NO_DATABASE, NOT_BUILT, accepts_gzip, console_routes
from streamweir.server.control.readiness import Readiness
from streamweir.server.control.routing import Access, OpenRoute, control_app
from streamweir.server.http.security_headers import with_security_headers
from support.certificate import make_certificate
from support.gateway import KEY, Gate, gateway
from support.raw_client import RawClient, Reply

HTML = "<!doctype html><title>weir</title>"
SCRIPT = "console.log('weir');\n" * 100
SNAPSHOT = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
"""To the letter (docs/spec/security.md S13)."""
HSTS = {"strict-transport-security": "max-age=31536000"}
ERROR = {"content-type": "application/json", "x-should-retry": "false"}
BOOKS = '[store]\nurl = "sqlite:///streamweir.db"\n'
ADMIN = f'[[keys]]\nname = "one"\nkey = "{KEY}"\nscopes = ["chat", "models", "admin"]\n'


@pytest.fixture
def page(tmp_path: Path) -> Assets:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(HTML)
    (folder / "assets" / "index-C0ffee.js").write_text(SCRIPT)
    (folder / "assets" / "index-C0ffee.css").write_text("body{}")
    (folder / "icon.svg").write_text("<svg/>")
    (tmp_path / "secret.js").write_text("not of the page")
    return Assets(folder)


async def broken(_: HttpRequest) -> HttpResponse:
    raise LookupError("a secret of ours")


async def loose(_: HttpRequest) -> HttpResponse:
    return PlainTextResponse("loose", headers={"cache-control": "public", "X-Frame-Options": "ALLOWALL"})


async def no_metrics() -> bytes:
    return b""


def app_of(assets: Assets, *, has_database: bool = True, is_secure: bool = False) -> Starlette:
    return control_app(
        readiness=Readiness(),
        metrics=no_metrics,
        may_read_metrics=lambda _: None,
        routes=[
            *console_routes(assets, has_database=has_database),
            OpenRoute("/api/broken", broken, access=Access.ANYONE),
            OpenRoute("/api/loose", loose, access=Access.ANYONE),
        ],
        is_secure=is_secure,
    )


async def ask(app: Starlette, path: str, method: str = "GET", encoding: str = "identity") -> httpx2.Response:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway.test") as client:
        return await client.request(method, path, headers={"accept-encoding": encoding})


@pytest.mark.parametrize(
    "path", ["/console", "/console/", "/console/requests", "/console/requests/req_1", "/console/x.js"]
)
async def test_the_page_is_there_whatever_it_shows(page: Assets, path: str) -> None:
    for method in ("GET", "HEAD"):
        reply = await ask(app_of(page), path, method)
        assert reply.status_code == 200
        assert dict(reply.headers) == {
            "content-type": "text/html; charset=utf-8",
            "vary": "accept-encoding",
            "content-length": str(len(HTML)),
            **SNAPSHOT,
        }
    assert (await ask(app_of(page), path)).text == HTML


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("assets/index-C0ffee.js", "text/javascript; charset=utf-8"),
        ("assets/index-C0ffee.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("index.html", "text/html; charset=utf-8"),
    ],
)
async def test_the_files_of_the_build(page: Assets, tmp_path: Path, name: str, content_type: str) -> None:
    app, body = app_of(page), (tmp_path / "static" / name).read_bytes()
    plain = await ask(app, f"/console/{name}")
    said = {"content-type": content_type, "vary": "accept-encoding", **SNAPSHOT}
    assert dict(plain.headers) == {**said, "content-length": str(len(body))}
    assert plain.content == body
    packed = await ask(app, f"/console/{name}", encoding="br, gzip;q=0.5")
    length = packed.headers["content-length"]
    assert dict(packed.headers) == {**said, "content-encoding": "gzip", "content-length": length}
    assert packed.content == body
    assert int(length) == len(gzip.compress(body, 9))


@pytest.mark.parametrize("name", ["index-C0ffee.js.map", "other.js", "", "index-c0ffee.js", "x/index-C0ffee.js"])
async def test_a_file_that_is_not_of_the_build(page: Assets, name: str) -> None:
    reply = await ask(app_of(page), f"/console/assets/{name}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "unknown_url")
    assert {**reply.headers, "content-length": ""} == {**ERROR, **SNAPSHOT, "content-length": ""}


async def test_a_file_of_an_older_build(page: Assets, tmp_path: Path) -> None:
    (tmp_path / "static" / "assets" / "index-C0ffee.css").unlink()
    assert (await ask(app_of(page), "/console/assets/index-C0ffee.css")).status_code == 404


@pytest.mark.parametrize(("has_database", "sentence"), [(True, NOT_BUILT), (False, NO_DATABASE)])
async def test_without_a_page_the_reason_is_shown(tmp_path: Path, has_database: bool, sentence: str) -> None:
    for path in ("/console", "/console/requests", "/console/assets/index-C0ffee.js"):
        reply = await ask(app_of(Assets(tmp_path), has_database=has_database), path)
        assert (reply.status_code, reply.text) == (404, sentence)
        assert dict(reply.headers) == {
            "content-type": "text/plain; charset=utf-8",
            "content-length": str(len(sentence)),
            **SNAPSHOT,
        }


def test_the_page_is_public_and_every_route_declares_it(page: Assets) -> None:
    found = {route.path: (route.access, route.methods) for route in console_routes(page, has_database=True)}
    assert found == {path: (Access.ANYONE, {"GET", "HEAD"}) for path in ("/console", "/console/{path:path}")}


async def test_without_a_database_there_is_no_page(page: Assets) -> None:
    assert (await ask(app_of(page, has_database=False), "/console")).text == NO_DATABASE


@pytest.mark.parametrize("is_secure", [False, True])
async def test_every_answer_has_the_headers_and_they_replace_its_own(page: Assets, is_secure: bool) -> None:
    app, seal = app_of(page, is_secure=is_secure), {**SNAPSHOT, **(HSTS if is_secure else {})}
    for method, path, status in (
        ("GET", "/console", 200),
        ("POST", "/console", 405),
        ("DELETE", "/console/assets/index-C0ffee.js", 405),
        ("GET", "/console/assets/x", 404),
        ("GET", "/api", 404),
        ("GET", "/api/", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/loose", 200),
        ("PUT", "/api/loose", 405),
        ("GET", "/api/broken", 500),
    ):
        reply = await ask(app, path, method)
        assert reply.status_code == status
        for name, value in seal.items():
            assert reply.headers.get_list(name) == [value], (path, name)
        assert ("strict-transport-security" in reply.headers) == is_secure
    for path in ("/", "/health", "/metrics", "/consoles", "/apis", "/nothing"):
        assert "content-security-policy" not in (await ask(app, path)).headers


def test_what_overrides_the_answers_own_value() -> None:
    said = (("Cache-Control", "public"), ("content-type", "x"), ("set-cookie", "a=1"), ("set-cookie", "b=2"))
    assert with_security_headers("/v1/models", said, is_secure=True) == said
    assert with_security_headers("/api/keys", said, is_secure=False) == (*said[1:], *SNAPSHOT.items())


@pytest.mark.parametrize(
    ("sent", "is_taken"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("br, gzip", True),
        ("deflate ,\tgzip ; q=0.1", True),
        ("gzip;q=1.0", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("br", False),
        ("identity", False),
        ("*", False),
        ("gzipped", False),
        (";q=", False),
    ],
)
def test_clients_that_accept_gzip(sent: str, is_taken: bool) -> None:
    assert accepts_gzip(sent) is is_taken


# On the gateway itself.


async def send(client: RawClient, line: str, *headers: str, body: bytes = b"") -> Reply:
    lines = [f"{line} HTTP/1.1", "host: gateway", *headers, *([f"content-length: {len(body)}"] if body else [])]
    await client.send("\r\n".join([*lines, "", ""]).encode() + body)
    return await client.response(has_body=not line.startswith("HEAD"))


@asynccontextmanager
async def console(tmp_path: Path, page: Assets, more: str = "") -> AsyncIterator[tuple[Gate, RawClient]]:
    async with gateway(more + BOOKS + ADMIN, data_dir=tmp_path, page=page) as gate, await gate.connect() as client:
        yield gate, client


async def test_the_way_to_the_page(tmp_path: Path, page: Assets) -> None:
    async with console(tmp_path, page) as (_, client):
        root = await send(client, "GET /", "host: evil.example")
        assert root.status == 400, "a second host"
    async with console(tmp_path, page) as (_, client):
        root = await send(client, "GET /?next=//evil.example")
        assert (root.status, root.header("location"), root.body) == (307, "/console", b"")
        for line in (
            "GET /console",
            "GET /console/keys?x=y",
            "GET /console/%2e%2e/secret.js",
            "GET /console/..%2fsecret.js",
        ):
            reply = await send(client, line, "accept-encoding: gzip")
            assert (reply.status, gzip.decompress(reply.body).decode()) == (200, HTML)
        for line in ("GET /console/assets/../../secret.js", "GET /console/assets/%2e%2e/index.html"):
            assert (await send(client, line)).status == 404
        head = await send(client, "HEAD /console/assets/index-C0ffee.js")
        assert (head.status, head.header("content-length"), head.body) == (200, str(len(SCRIPT)), b"")


async def test_the_headers_are_on_what_never_reaches_a_route(tmp_path: Path, page: Assets) -> None:
    limit = "[server.limits]\nbody_bytes = 1024\n"
    async with console(tmp_path, page, limit) as (gate, _):
        for line, headers, body, status in (
            ("GET /api/keys", (), b"", 401),
            ("GET /api/nothing", (), b"", 404),
            ("POST /api/session", ("content-type: application/json",), b"{", 400),
            ("POST /api/session", (), b"x" * 2000, 413),
            ("POST /console", (), b"x" * 2000, 413),
            ("POST /console", (), b"", 405),
            ("GET /console", ("upgrade: websocket",), b"", 400),
        ):
            async with await gate.connect() as client:
                reply = await send(client, line, *headers, body=body)
                assert reply.status == status, line
                for name, value in SNAPSHOT.items():
                    assert reply.header(name) == value, (line, name)
                assert reply.header("strict-transport-security") is None
        async with await gate.connect() as client:
            for line in ("GET /health", "GET /v1/models", "GET /v1/nothing"):
                assert (await send(client, line)).header("content-security-policy") is None
            for line in ("GET /%61pi/keys", "GET /api%2Fkeys", "GET /%63onsole"):  # not spelled as a route: none
                assert (await send(client, line)).status == 404


async def test_with_tls_there_is_strict_transport_security(tmp_path: Path, page: Assets) -> None:
    made = make_certificate(tmp_path)
    tls = f'[server.tls]\ncert_file = "{made.cert_file}"\nkey_file = "{made.key_file}"\n'
    async with console(tmp_path, page, tls) as (_, client):  # the socket of this test is a plain one all the same
        for line in ("GET /console", "GET /api/keys", "POST /console"):
            assert (await send(client, line)).header("strict-transport-security") == "max-age=31536000"
        assert (await send(client, "GET /health")).header("strict-transport-security") is None


async def test_without_a_database_the_gateway_reports_it() -> None:
    async with gateway("") as gate, await gate.connect() as client:
        reply = await send(client, "GET /console")
        assert (reply.status, reply.body.decode()) == (404, NO_DATABASE)
        assert (await send(client, "GET /")).status == 307


async def test_a_cookie_is_for_the_api_and_a_key_for_both(tmp_path: Path, page: Assets) -> None:
    """docs/spec/security.md S16, on the gateway itself."""
    async with console(tmp_path, page) as (_, client):
        origin, kind = "origin: http://gateway", "content-type: application/json"
        opened = await send(client, "POST /api/session", origin, kind, body=json.dumps({"secret": KEY}).encode())
        cookie = (opened.header("set-cookie") or "").partition(";")[0]
        token = cookie.partition("=")[2]
        by_page = (f"cookie: {cookie}", origin, f"x-csrf-token: {csrf_of(token)}")
        assert (await send(client, "GET /api/keys", *by_page)).status == 200
        for line in ("GET /v1/models", "GET /openai/v1/models", "GET /v1/models/sim/hello"):
            assert (await send(client, line, *by_page)).status == 401
            for header in ("authorization: Bearer ", "x-api-key: ", "api-key: "):
                assert (await send(client, line, header + token)).status == 401
        for line in ("GET /api/keys", "GET /v1/models"):
            assert (await send(client, line, f"authorization: Bearer {KEY}")).status == 200
        reply = await send(client, "POST /v1/chat/completions", *by_page, kind, body=b'{"messages":[]}')
        assert reply.status == 401
