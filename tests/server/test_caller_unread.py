"""No body is read before it is known who sends it, nor where nobody wants one: told by the head alone.

Callers here announce a body and send nothing of it. Whoever waits for it would not answer.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from streamweir.server.control.api.operation import Operation
from streamweir.server.control.api.table import OPERATIONS
from streamweir.server.control.routing import Access
from streamweir.server.http.asgi import Bridge
from streamweir.server.http.message import Answer, Request, Response
from support.api import Api, api_on
from support.gateway import KEY, gateway_to
from support.http_app import Serving, SmallApp, serving
from support.raw_client import RawClient, Reply
from support.script import in_turn

SIZES = ("content-length: 8388608", "transfer-encoding: chunked")
BEARER = f"authorization: Bearer {KEY}"
JSON = "content-type: application/json"
MAX_UNAUTHENTICATED_BYTES = 4096
HEADS = {
    "POST /no/such/page": 404,
    "POST /api/no/such/page": 404,
    "PUT /v1/no/such/page": 404,
    "POST /health": 405,
    "GET /health": 200,
    "GET /ready": 200,
    "POST /metrics": 405,
    "POST /console": 405,
    "GET /console/": 404,
    "GET /": 307,
    "GET /v1/models": 401,
    "POST /v1/models": 405,
    "POST /v1/chat/completions": 401,
}


def head(line: str, *fields: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "host: a", *fields, "", ""]).encode()


async def told_at_once(client: RawClient, line: str, *fields: str) -> Reply:
    await client.send(head(line, *fields))
    reply = await client.response()
    assert reply.header("connection") == "close"
    assert await client.is_closed()
    return reply


@pytest.mark.parametrize("size", SIZES)
async def test_an_unauthenticated_caller_is_answered_after_the_head(size: str) -> None:
    async with gateway_to(in_turn()) as (gate, _):
        for line, status in HEADS.items():
            async with await gate.connect() as client:
                assert (await told_at_once(client, line, size)).status == status, line


async def test_a_list_of_models_needs_no_body() -> None:
    async with gateway_to(in_turn()) as (gate, _), await gate.connect() as client:
        assert (await told_at_once(client, "GET /v1/models", BEARER, SIZES[0])).status == 200


async def test_a_chat_of_a_known_key_is_read() -> None:
    async with gateway_to(in_turn()) as (gate, _), await gate.connect() as client:
        await client.send(head("POST /v1/chat/completions", BEARER, JSON, "content-length: 2", "expect: 100-continue"))
        assert (await client.response()).status == 100
        await client.send(b"{}")
        assert (await client.response()).status == 400


# The API.


class Bridged(SmallApp):
    def __init__(self, bridge: Bridge) -> None:
        super().__init__()
        self.bridge = bridge

    def begin(self, request: Request, response: Response, /) -> bool:
        self.bridge.serve(request, response)
        return True


@asynccontextmanager
async def on_a_socket(api: Api) -> AsyncIterator[tuple[Serving, list[BaseException]]]:
    faults: list[BaseException] = []

    def fault(_: Request, reason: BaseException) -> Answer:
        faults.append(reason)
        return Answer(status=500)

    bridge = Bridge(api.app, fault)
    async with serving(Bridged(bridge)) as at:
        yield at, faults
        await bridge.close()


def line_of(operation: Operation) -> str:
    return f"{operation.method} {operation.path.replace('{', '').replace('}', '')}"


def test_unauthenticated_callers_may_send_little() -> None:
    open_to_all = [each for each in OPERATIONS if each.access is Access.ANYONE]
    assert [each.name for each in open_to_all] == [
        "open_session",
        "log_in",
        "accept_invitation",
        "show_invitation",
        "show_login",
        "begin_oidc",
    ]
    assert [each.max_body_bytes for each in open_to_all] == [MAX_UNAUTHENTICATED_BYTES] * len(open_to_all)


async def test_every_operation_is_authenticated_before_its_body_is_read(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api, on_a_socket(api) as (at, faults):
        chat = f"authorization: Bearer {api.one.chat.secret}"
        for operation in OPERATIONS:
            if operation.access is Access.ANYONE:
                continue
            for fields, status in (((), 401), (("authorization: Bearer sk-x",), 401), ((chat,), 403)):
                async with await RawClient.open(at.address) as client:
                    reply = await told_at_once(client, line_of(operation), *fields, SIZES[0])
                    assert reply.status == status, (operation.path, fields)
        assert faults == []


async def test_a_sign_in_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api, on_a_socket(api) as (at, faults):
        async with await RawClient.open(at.address) as client:
            announced = f"content-length: {MAX_UNAUTHENTICATED_BYTES + 1}"
            assert (await told_at_once(client, "POST /api/session", JSON, announced)).status == 413
        async with await RawClient.open(at.address) as client:
            await client.send(head("POST /api/session", JSON, SIZES[1]) + b"1001\r\n")
            reply = await client.response()
            assert (reply.status, json.loads(reply.body)["error"]["code"]) == (413, "request_too_large")
        assert faults == []


@pytest.mark.parametrize("size", SIZES)
async def test_an_authorized_body_is_read_and_answered(tmp_path: Path, size: str) -> None:
    body = json.dumps({"secret": "sk-x"}).encode()
    wire, fields = (
        (body, f"content-length: {len(body)}")
        if "length" in size
        else (b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body), size)
    )
    async with api_on("sqlite", tmp_path) as api, on_a_socket(api) as (at, faults):
        async with await RawClient.open(at.address) as client:
            for _ in range(2):
                await client.send(head("POST /api/session", JSON, fields, "expect: 100-continue"))
                assert (await client.response()).status == 100
                await client.send(wire)
                reply = await client.response()
                assert (reply.status, reply.header("connection")) == (401, None)
        assert faults == []


async def test_a_caller_that_leaves_within_its_body_leaves_nothing(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api, on_a_socket(api) as (at, faults):
        async with await RawClient.open(at.address) as client:
            await client.send(head("POST /api/session", JSON, "content-length: 10", "expect: 100-continue"))
            assert (await client.response()).status == 100
        await at.emptied()
        async with asyncio.timeout(30):
            await at.app.bridge.close()  # type: ignore[attr-defined]
        assert faults == []
