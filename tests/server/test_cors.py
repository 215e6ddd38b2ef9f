"""Answers for pages of other sites: which headers, on which answers, and that preflights need no key."""

import pytest

from streamweir.config.model import Cors
from streamweir.server.http.cors import allowed_names, cors_headers
from support.gateway import Gate, chat_request, gateway
from support.raw_client import Reply

APP, OTHER = "https://app.example.com", "https://other.example.com"
SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'
EXPOSED = ("access-control-expose-headers", "*")
VARY = ("vary", "origin")


@pytest.mark.parametrize(
    ("origins", "origin", "headers"),
    [
        ((APP,), APP, (("access-control-allow-origin", APP), EXPOSED, VARY)),
        ((APP,), OTHER, (VARY,)),
        ((APP,), APP.upper(), (VARY,)),
        ((APP,), "null", (VARY,)),
        ((APP,), None, (VARY,)),
        (("*",), OTHER, (("access-control-allow-origin", "*"), EXPOSED)),
        (("*",), None, (("access-control-allow-origin", "*"), EXPOSED)),
    ],
)
def test_an_answer_names_an_allowed_origin_and_no_other(
    origins: tuple[str, ...], origin: str | None, headers: tuple[tuple[str, str], ...]
) -> None:
    assert cors_headers(Cors(origins=origins), origin) == headers


def test_a_page_may_send_what_sdks_send_and_nothing_else() -> None:
    sent = "Authorization, content-type,x-stainless-lang , X-Streamweir-Tags, anthropic-version, x-api-key, traceparent"
    sent += ",X-Request-Timeout,Idempotency-Key,last-event-id"
    assert allowed_names(sent) == [name.strip().lower() for name in sent.split(",")]
    assert allowed_names("cookie, x-forwarded-for, host, x-stainless-, x-streamweir-a\r\nx: y, *, ") == []
    assert len(allowed_names("x-api-key," * 10_000)) == 64


def request(method: str, path: str, *headers: tuple[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: gateway", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode()


async def send(gate: Gate, data: bytes) -> Reply:
    async with await gate.connect() as client:
        await client.send(data)
        return await client.response()


def cors_of(reply: Reply) -> list[tuple[str, str]]:
    return sorted(each for each in reply.headers if each[0].startswith("access-control-") or each == VARY)


PREFLIGHT = (
    ("origin", APP),
    ("access-control-request-method", "POST"),
    ("access-control-request-headers", "authorization,content-type,cookie"),
)
READABLE = sorted([("access-control-allow-origin", APP), EXPOSED, VARY])


async def test_preflights_are_answered_without_a_key_and_every_answer_can_be_read() -> None:
    async with gateway(f'[server.cors]\norigins = ["{APP}"]\n{SIM}') as gate:
        for path in ("/v1/chat/completions", "/v1/messages", "/opentoken/v1/chat/completions", "/v1/models"):
            reply = await send(gate, request("OPTIONS", path, *PREFLIGHT))
            assert (reply.status, reply.body) == (204, b"")
            assert dict(cors_of(reply)) == {
                **dict(READABLE),
                "access-control-allow-methods": "GET, POST, DELETE",
                "access-control-allow-headers": "authorization, content-type",
                "access-control-max-age": "7200",
            }
        assert gate.records == [], "preflights are no requests"
        origin = (("origin", APP),)
        replies = {
            200: chat_request(model="sim/hello", headers=origin),
            401: chat_request(key=None, model="sim/hello", headers=origin),
            400: chat_request(body=b"{", headers=origin),
            404: request("GET", "/v1/nothing", *origin),
            405: request("OPTIONS", "/v1/chat/completions", *origin),
            502: chat_request(model="sim/garbage", headers=origin),
        }
        for status, data in replies.items():
            reply = await send(gate, data)
            assert (reply.status, cors_of(reply)) == (status, READABLE), status
        stream = await send(gate, chat_request(model="sim/hello", stream=True, headers=origin))
        assert (stream.status, cors_of(stream)) == (200, READABLE)
        foreign = await send(gate, chat_request(model="sim/hello", headers=(("origin", OTHER),)))
        assert (foreign.status, cors_of(foreign)) == (200, [VARY]), "the browser keeps it from the page"
        refused = await send(gate, request("OPTIONS", "/v1/models", ("origin", OTHER), *PREFLIGHT[1:]))
        assert (refused.status, cors_of(refused)) == (204, [VARY])
        assert not any(name == "access-control-allow-credentials" for name, _ in (*stream.headers, *refused.headers))


@pytest.mark.parametrize("setting", ["", '[server.cors]\norigins = ["*"]\n'])
async def test_the_console_and_its_api_are_for_no_other_site(setting: str) -> None:
    async with gateway(setting + SIM) as gate:
        for path in ("/api/keys", "/console", "/metrics", "/health", "/api/session"):
            for method in ("OPTIONS", "GET"):
                assert cors_of(await send(gate, request(method, path, *PREFLIGHT))) == [], path


async def test_without_the_setting_there_is_none() -> None:
    async with gateway(SIM) as gate:
        reply = await send(gate, request("OPTIONS", "/v1/chat/completions", *PREFLIGHT))
        assert (reply.status, cors_of(reply)) == (405, [])
        assert cors_of(await send(gate, chat_request(model="sim/hello", headers=(("origin", APP),)))) == []
