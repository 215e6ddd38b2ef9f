"""What the HTTP layer and the routes refuse: docs/spec/failures.md G32. Always an envelope, never a line of text.

How HTTP is read is held by `test_http_head`, `test_http_body` and `test_smuggling`; that a crowd is
refused likewise, by `test_gateway_pressure`.
"""

import json

import pytest

from support.gateway import KEY, gateway
from support.gateway_faults import DIALECTS
from support.outcome import path_of
from support.raw_client import Reply

SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'
SHORT = "[server.timeouts]\nheader_s = 0.05\nbody_s = 0.05\n"
HEAD = f"host: gateway\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n"
MEMBERS = {
    "openai": ["message", "type", "param", "code"],
    "opentoken": ["message", "type", "code"],
    "aivene": ["message", "type"],
    "bitseek": ["message", "type", "code"],
    "messages": ["type", "message"],
    "responses": ["message", "type", "param", "code"],
}


PREFIXES = {"messages": "/anthropic/v1", "responses": "/v1/responses"}


def error_in(reply: Reply, dialect: str = "openai") -> dict[str, str | None]:
    assert reply.header("content-type") == "application/json"
    assert reply.header("x-request-id")
    document = json.loads(reply.body)
    assert list(document) == (["type", "error", "request_id"] if dialect == "messages" else ["error"])
    assert list(document["error"]) == MEMBERS[dialect]
    assert document["error"]["message"]
    error: dict[str, str | None] = document["error"]
    return error


UNREADABLE = {
    "no request at all": (b"GARBAGE\r\n\r\n", 400, "invalid_value"),
    "another protocol": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "invalid_value"),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400, "invalid_value"),
    "two hosts": (b"GET /health HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400, "invalid_value"),
    "a header without a name": (b"GET /health HTTP/1.1\r\nhost: a\r\n: b\r\n\r\n", 400, "invalid_value"),
    "too long a header": (b"GET / HTTP/1.1\r\nhost: a\r\nx: %b\r\n\r\n" % (b"x" * 40_000), 431, "headers_too_large"),
    "too many headers": (b"GET / HTTP/1.1\r\nhost: a\r\n%b\r\n" % (b"x: y\r\n" * 200), 431, "headers_too_large"),
    "a head that does not end": (b"GET / HTTP/1.1\r\nhost: a\r\n", 408, "request_timeout"),
}


@pytest.mark.parametrize(("request_bytes", "status", "code"), UNREADABLE.values(), ids=UNREADABLE)
async def test_g32_what_cannot_be_read(request_bytes: bytes, status: int, code: str) -> None:
    async with gateway(SIM + SHORT) as gate, await gate.connect() as client:
        await client.send(request_bytes)
        reply = await client.response()
        assert reply.status == status
        assert error_in(reply)["code"] == code
        assert reply.header("connection") == "close"
        assert await client.is_closed()
        (record,) = await gate.settled()
        assert (record.status, record.verdict, record.error) == (status, "rejected", code)


REFUSED = {
    "too large a body": ("POST", "/v1/chat/completions", f"{HEAD}content-length: 40000000\r\n", b"", 413),
    "a chunk without a size": (
        "POST",
        "/v1/chat/completions",
        f"{HEAD}transfer-encoding: chunked\r\n",
        b"zz\r\n",
        400,
    ),
    "a body that does not end": ("POST", "/v1/chat/completions", f"{HEAD}content-length: 10\r\n", b"{", 408),
    "no such route": ("GET", "/v1/nothing", HEAD, b"", 404),
    "another method": ("DELETE", "/v1/chat/completions", HEAD, b"", 405),
    "another type": ("POST", "/v1/chat/completions", "host: a\r\nauthorization: Bearer {KEY}\r\n", b"", 415),
    "no key": ("POST", "/v1/chat/completions", "host: a\r\n", b"", 401),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("method", "path", "head", "body", "status"), REFUSED.values(), ids=REFUSED)
async def test_g32_what_is_refused_is_refused_in_the_dialect(
    method: str, path: str, head: str, body: bytes, status: int, dialect: str
) -> None:
    async with gateway(SIM + SHORT) as gate, await gate.connect() as client:
        head = head.replace("{KEY}", KEY)
        prefix = PREFIXES.get(dialect, f"/{dialect}/v1")
        url = path_of(dialect) if path == "/v1/chat/completions" else prefix + path.removeprefix("/v1")
        await client.send(f"{method} {url} HTTP/1.1\r\n{head}\r\n".encode() + body)
        reply = await client.response()
        assert reply.status == status
        error_in(reply, dialect)
        (record,) = await gate.settled()
        assert (record.status, record.verdict, record.dialect) == (status, "rejected", dialect)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("POST", "/health", 405)])
async def test_g32_beside_the_data_plane(method: str, path: str, status: int) -> None:
    async with gateway(SIM) as gate, await gate.connect() as client:
        await client.send(f"{method} {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        reply = await client.response()
        assert reply.status == status
        assert error_in(reply)["code"] == {404: "unknown_url", 405: "method_not_allowed"}[status]
