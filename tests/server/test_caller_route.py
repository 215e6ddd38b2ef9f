"""Where a request may go, and who may go there (C31; docs/spec/security.md S1, S5, S17, S24).

Every route is asked for by everyone: without a key, with one of each scope, with one that is not
good. What is not a route is answered in the envelope too. Neither the `Host`, nor a path that looks
like an address, nor what a caller says of its own address changes who it is.
"""

import json
import socket
from itertools import product

import pytest

from streamweir.core.verdict import Verdict
from streamweir.policy.refusal_quota import PER_ADDRESS
from streamweir.server.control.readiness import Readiness
from streamweir.server.control.routing import control_app
from support.answers import openai_whole
from support.gateway import KEY, Gate, chat_request, configured, gateway_to
from support.raw_client import RawClient, Reply
from support.script import in_turn, whole

KEYS = {
    "chat": "sk-chat-0123456789abcdef",
    "models": "sk-models-0123456789abcdef",
    "admin": "sk-admin-0123456789abcdef",
    "metrics": "sk-metrics-0123456789abcdef",
    "expired": "sk-expired-0123456789abcdef",
}
TOML = "".join(
    f'[[keys]]\nname = "{name}"\nkey = "{key}"\nscopes = ["{"admin" if name == "expired" else name}"]\n'
    + ("expires = 2020-01-01T00:00:00Z\n" if name == "expired" else "")
    for name, key in KEYS.items()
)
CALLERS = {"none": None, "unknown": "sk-unknown-0123456789abcdef", **KEYS}
DIALECTS = ("openai", "opentoken", "aivene", "bitseek")
PREFIXES = ("", *(f"/{dialect}" for dialect in DIALECTS))
FAR = "203.0.113.9"


def bearer(key: str | None) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {key}"),) if key is not None else ()


async def ask(
    client: RawClient, line: str, headers: tuple[tuple[str, str], ...] = (), *, host: str = "gateway", body: bytes = b""
) -> Reply:
    lines = [f"{line} HTTP/1.1", f"host: {host}", *(f"{name}: {value}" for name, value in headers)]
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    await client.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
    return await client.response(has_body=not line.startswith("HEAD"))


def code_of(reply: Reply) -> str:
    assert reply.header("content-type") == "application/json"
    code: str = json.loads(reply.body)["error"]["code"]
    return code


# S1: every route and everyone.


def chat_status(caller: str) -> int:
    return {"chat": 200, "models": 403, "admin": 403, "metrics": 403}.get(caller, 401)


def models_status(caller: str) -> int:
    return {"chat": 403, "models": 200, "admin": 403, "metrics": 403}.get(caller, 401)


def metrics_status(caller: str) -> int:
    """From afar: from this machine it is open to all."""
    return {"chat": 403, "models": 403, "admin": 200, "metrics": 200}.get(caller, 401)


async def test_every_route_of_the_data_plane_asks_for_its_scope() -> None:
    body = chat_request(model="up/m").partition(b"\r\n\r\n")[2]
    async with gateway_to(whole(openai_whole()), TOML) as (gate, _), await gate.connect() as client:
        known: list[bool] = []
        for prefix, (caller, key) in product(PREFIXES, CALLERS.items()):
            if prefix != "/bitseek":  # which cannot answer whole
                reply = await ask(client, f"POST {prefix}/v1/chat/completions", bearer(key), body=body)
                assert reply.status == chat_status(caller), (prefix, caller)
                known.append(key in KEYS.values())
                if reply.header("connection") == "close":
                    client.close()
                    client = await gate.connect()
            for path in ("/v1/models", "/v1/models/up/m"):
                for method in ("GET", "HEAD"):
                    reply = await ask(client, f"{method} {prefix}{path}", bearer(key))
                    assert reply.status == models_status(caller), (prefix, path, method, caller)
                    known.append(key in KEYS.values())
        client.close()
        assert known.count(False) > PER_ADDRESS, "of more only the number is kept"
        records = await gate.settled(known.count(True) + PER_ADDRESS)
        for each in records:
            assert each.verdict is (Verdict.COMPLETED if each.status == 200 else Verdict.REJECTED)


async def test_every_route_of_the_control_plane_declares_its_access() -> None:
    expected = {"/": 307, "/health": 200, "/ready": 200, "/metrics": None}
    assert {route.path for route in control_app_routes()} == set(expected)  # type: ignore[attr-defined]
    async with gateway_to(in_turn(), TOML) as (gate, _), await gate.connect() as client:
        for (path, status), (caller, key) in product(expected.items(), CALLERS.items()):
            reply = await ask(client, f"GET {path}", (*bearer(key), ("x-forwarded-for", FAR)))
            assert reply.status == (metrics_status(caller) if status is None else status), (path, caller)


def control_app_routes() -> list[object]:
    async def nothing() -> bytes:
        return b""

    return list(control_app(readiness=Readiness(), metrics=nothing, may_read_metrics=lambda _: None).router.routes)


# S24: who is near, and who says so.


async def test_metrics_are_for_an_admin_from_any_address() -> None:
    """A proxy on this machine that says nothing of its callers makes all of them local."""
    closed = f"[server]\nmetrics_local = false\n{TOML}"
    async with gateway_to(in_turn(), closed) as (gate, _), await gate.connect() as client:
        assert (await ask(client, "GET /metrics")).status == 401
        assert (await ask(client, "GET /metrics", bearer(KEYS["chat"]))).status == 403
        admin, metrics = [await ask(client, "GET /metrics", bearer(KEYS[name])) for name in ("admin", "metrics")]
        assert (admin.status, b"streamweir_cost_usd" in admin.body) == (200, False), "it is the admin of one workspace"
        assert (metrics.status, b"streamweir_cost_usd" in metrics.body) == (200, True), "that is the operator's"


def test_that_is_the_default() -> None:
    server = configured("").server
    assert (server.metrics_local, server.metrics_public) == (False, False)


async def test_metrics_may_be_opened_to_this_machine() -> None:
    async with (
        gateway_to(in_turn(), f"[server]\nmetrics_local = true\n{TOML}") as (gate, _),
        await gate.connect() as client,
    ):
        near = await ask(client, "GET /metrics")
        assert (near.status, b"streamweir_cost_usd" in near.body) == (200, True)
        for header in ("x-forwarded-for", "forwarded"):
            far = ((header, f"for={FAR}" if header == "forwarded" else FAR),)
            assert (await ask(client, "GET /metrics", far)).status == 401
            assert (await ask(client, "GET /metrics", (*far, *bearer(KEYS["chat"])))).status == 403
            reply = await ask(client, "GET /metrics", (*far, *bearer(KEYS["admin"])))
            assert reply.status == 200
            assert (b"streamweir_requests" in reply.body, b"streamweir_cost_usd" in reply.body) == (True, False)


async def test_a_proxy_on_this_machine_does_not_open_the_metrics_to_all() -> None:
    """Whoever claims to be near through a proxy is as far as the proxy."""
    trusts = f'[server]\nmetrics_local = true\ntrusted_proxies = ["127.0.0.1"]\n{TOML}'
    async with gateway_to(in_turn(), trusts) as (gate, _), await gate.connect() as client:
        for claimed in ("127.0.0.1", "::1", f"{FAR}, 127.0.0.1", ""):
            assert (await ask(client, "GET /metrics", (("x-forwarded-for", claimed),))).status == 401, claimed


async def test_metrics_may_be_opened_by_the_operator() -> None:
    opened = f"[server]\nmetrics_local = false\nmetrics_public = true\n{TOML}"
    async with gateway_to(in_turn(), opened) as (gate, _), await gate.connect() as client:
        reply = await ask(client, "GET /metrics", (("x-forwarded-for", FAR),))
        assert (reply.status, b"streamweir_cost_usd" in reply.body) == (200, False)


async def test_metrics_are_closed_to_another_machine() -> None:
    address = own_address()
    if address is None:
        pytest.skip("this machine has no address but the loopback's")
    async with gateway_to(in_turn(), TOML) as (gate, _):
        listener = socket.socket()
        listener.bind((address, 0))
        place = listener.getsockname()
        await gate.gateway.listen(listener)
        async with await RawClient.open(place) as client:
            assert (await ask(client, "GET /metrics")).status == 401
            assert (await ask(client, "GET /metrics", bearer(KEYS["admin"]))).status == 200
            assert (await ask(client, "GET /health")).status == 200


def own_address() -> str | None:
    """Of the interface that packets to elsewhere would leave by; none are sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((FAR, 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
        return None if address.startswith("127.") else address


@pytest.mark.parametrize(
    ("trusted", "sent", "peer"),
    [
        ([], FAR, "127.0.0.1"),
        (["10.0.0.0/8"], FAR, "127.0.0.1"),
        (["127.0.0.1"], None, "127.0.0.1"),
        (["127.0.0.1"], FAR, FAR),
        (["127.0.0.0/8"], "2001:db8::7", "2001:db8::7"),
        (["127.0.0.1"], f"198.51.100.1, {FAR}", FAR),
        (["127.0.0.1", "203.0.113.0/24"], f"198.51.100.1, {FAR}", "198.51.100.1"),
        (["127.0.0.1"], f"{FAR}, not an address", "127.0.0.1"),
        (["127.0.0.1"], f"{FAR}, 127.0.0.1", FAR),
        (["127.0.0.1"], f"<script>, {FAR}", FAR),
        (["127.0.0.1"], "sk-something-secret-0123", "127.0.0.1"),
    ],
)
async def test_an_address_is_accepted_only_from_a_trusted_proxy(
    trusted: list[str], sent: str | None, peer: str
) -> None:
    toml = f"[server]\ntrusted_proxies = {json.dumps(trusted)}\n"
    async with gateway_to(in_turn(), toml) as (gate, _), await gate.connect() as client:
        headers = (("x-forwarded-for", sent),) if sent is not None else ()
        await client.send(chat_request(model="nobody/m", headers=headers))
        assert (await client.response()).status == 404
        (record,) = await gate.settled()
        assert record.peer == peer


# C31: what is not a route, and what is not done there.

UNKNOWN = [
    *("/v1", "/v1/", "/v1/chat", "/v1/chat/completions/", "/v1/chat/completions/x", "/v1/completion", "/v1//models"),
    *(
        "/v1/embedding",
        "/v1/models2",
        "/V1/models",
        "/v1/chat/completion%73",
        "/openai",
        "/openai/v1",
        "/openai/v2/models",
    ),
    *(
        "/nobody/v1/models",
        "/openai/openai/v1/models",
        "/v1/../v1/models",
        "/./health",
        "/health/",
        "/metrics/",
        "/docs",
        "/%68ealth",
        "/%76%31/models",
    ),
    *("/openapi.json", "/consoles", "/api/keys", "/.env", "/favicon.ico", "/%2e%2e/etc/passwd", "/@evil/v1/models"),
    *("//evil/v1/models", "/v1/models@evil", "/health@evil", "/\\evil", "/v1/chat/completions;x", "/v1/models%2f"),
]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_is_no_route_is_answered_in_the_envelope(method: str) -> None:
    async with gateway_to(in_turn()) as (gate, up), await gate.connect() as client:
        for path in UNKNOWN:
            reply = await ask(client, f"{method} {path}", bearer(KEY))
            assert (reply.status, code_of(reply)) == (404, "unknown_url"), path
            assert reply.header("x-should-retry") == "false"
            assert (await ask(client, f"{method} {path}?key={KEY}")).status == 404
        assert {record.error for record in gate.records} <= {"unknown_url", None}
        assert {(record.status, record.verdict) for record in gate.records} == {(404, Verdict.REJECTED)}
        strangers = [record for record in gate.records if record.key_id is None]
        assert len(strangers) == PER_ADDRESS, "of more only the number is kept"
        assert up.accepted == 0


@pytest.mark.parametrize(
    ("path", "methods", "allowed"),
    [
        ("/v1/chat/completions", ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"), "POST"),
        ("/bitseek/v1/chat/completions", ("GET", "OPTIONS"), "POST"),
        ("/v1/models", ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"), "GET, HEAD"),
        ("/v1/models/up/m", ("POST", "DELETE"), "GET, HEAD"),
        ("/health", ("POST", "DELETE", "OPTIONS"), "GET, HEAD"),
        ("/ready", ("POST",), "GET, HEAD"),
        ("/metrics", ("POST", "OPTIONS"), "GET, HEAD"),
        ("/", ("POST",), "GET, HEAD"),
    ],
)
async def test_a_method_that_a_route_does_not_have(path: str, methods: tuple[str, ...], allowed: str) -> None:
    async with gateway_to(in_turn()) as (gate, _), await gate.connect() as client:
        for method in methods:
            reply = await ask(client, f"{method} {path}", bearer(KEY))
            assert (reply.status, reply.header("allow")) == (405, allowed), method
            assert method == "HEAD" or code_of(reply) == "method_not_allowed"
        assert all(record.verdict is Verdict.REJECTED for record in gate.records)


# S5: the host, and paths that look like one.


NO_HOSTS = ("a/?x", "x#", "a b", "evil@gateway", "a/v1", "", "a,b", "[::1", "a:b", "a:123456", "é")


async def assert_not_http(gate: Gate, line: str, host: str) -> None:
    async with await gate.connect() as client:
        reply = await ask(client, line, (("x-forwarded-for", FAR),), host=host)
        assert (reply.status, code_of(reply), reply.header("connection")) == (400, "invalid_value", "close")
        assert await client.is_closed()


@pytest.mark.parametrize("line", ["GET /metrics", "POST /v1/chat/completions", "GET /v1/models", "GET /health"])
async def test_an_invalid_host_is_refused_for_any_request(line: str) -> None:
    async with gateway_to(in_turn(), TOML) as (gate, _):
        for host in NO_HOSTS:
            await assert_not_http(gate, line, host)
        assert {record.verdict for record in await gate.settled(len(NO_HOSTS))} == {Verdict.REJECTED}


async def test_a_target_that_is_no_path_is_refused() -> None:
    lines = ("GET @evil/metrics", "GET http://u@127.0.0.1/metrics", "GET metrics", "GET *", "CONNECT a:1")
    async with gateway_to(in_turn(), TOML) as (gate, _):
        for line in lines:
            await assert_not_http(gate, line, "gateway")
        await gate.settled(len(lines))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9999", "evil.example", "[::1]:80"])
async def test_no_host_opens_what_is_closed(host: str) -> None:
    async with gateway_to(in_turn(), TOML) as (gate, _), await gate.connect() as client:
        far = (("x-forwarded-for", FAR), ("x-forwarded-host", "localhost"), ("x-original-url", "/health"))
        assert (await ask(client, "GET /metrics", far, host=host)).status == 401
        assert (await ask(client, "GET /v1/models", far, host=host)).status == 401
        assert (await ask(client, f"GET http://{host}/metrics", far)).status == 401
        assert (await ask(client, f"GET https://{host}/health", far)).status == 200
        await gate.settled(3)


# S17: other sites.


async def test_no_other_site_has_access() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _), await gate.connect() as client:
        asked = [
            ("OPTIONS /v1/chat/completions", ()),
            ("OPTIONS /health", ()),
            ("GET /health", ()),
            ("GET /metrics", ()),
            ("GET /v1/models", bearer(KEY)),
            ("GET /v1/models", ()),
            ("GET /nothing", ()),
        ]
        origin = (("origin", "https://evil.example"), ("access-control-request-method", "POST"))
        replies = [await ask(client, line, (*origin, *headers)) for line, headers in asked]
        await client.send(chat_request(model="up/m", headers=origin))
        replies.append(await client.response())
        for reply in replies:
            assert not [name for name, _ in reply.headers if name.startswith("access-control")]
        assert replies[-1].status == 200
        assert gate.records
