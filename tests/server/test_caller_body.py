"""Bodies that are not what they should be: too large, not JSON, not a chat request (C11, C14 to C18, C29, C30).

Each is refused with its code, in the envelope, by the path of what is wrong; no upstream is reached,
the refusal leaves one record and costs nothing, and the connection serves the next request unless it
must close. Bodies that are odd and yet allowed reach the upstream as they were sent.
"""

import gzip
import json
import random
from copy import deepcopy
from typing import Any

import pytest

from conftest import SOAKS
from streamweir.core.verdict import Verdict
from support.answers import anthropic_whole, gemini_whole, openai_whole
from support.gateway import KEY, MESSAGES, Gate, chat_request, gateway, gateway_to, nothing_left, providers
from support.raw_client import RawClient, Reply
from support.script import Seen, Step, in_turn, whole
from support.scripted_upstream import ForbiddenServer, ScriptedUpstream
from support.system import resident_bytes

Refused = tuple[int, str, str | None]
"""Status, code, param."""


def refusal(reply: Reply) -> Refused:
    """What it says, held to the shape that every refusal has."""
    assert reply.header("content-type") == "application/json"
    assert reply.header("x-should-retry") == "false"
    assert (reply.header("x-request-id") or "").startswith("req_")
    document = json.loads(reply.body)
    assert list(document) == ["error"]
    error = document["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert error["message"]
    assert error["type"] == "invalid_request_error"
    return reply.status, error["code"], error["param"]


async def send(client: RawClient, request: bytes) -> Reply:
    await client.send(request)
    return await client.response()


async def assert_refused(gate: Gate, requests: list[tuple[bytes, Refused]]) -> None:
    """All on one connection, which each of them leaves usable."""
    async with await gate.connect() as client:
        for number, (request, expected) in enumerate(requests, start=1):
            assert refusal(await send(client, request)) == expected, request[:500]
            record = (await gate.settled(number))[-1]
            assert (record.verdict, record.status, record.error) == (Verdict.REJECTED, expected[0], expected[1])
            assert (record.attempts, record.usage, record.usage_source) == ([], None, None)
            assert record.key == "test"
        await client.send(b"GET /health HTTP/1.1\r\nhost: gateway\r\n\r\n")
        assert (await client.response()).status == 200


async def refuse_bodies(cases: list[tuple[bytes, Refused]]) -> None:
    async with ForbiddenServer() as canary, nothing_left(), gateway(providers(up=canary.base_url)) as gate:
        await assert_refused(gate, [(chat_request(body=body), expected) for body, expected in cases])


# C11: too large.


@pytest.mark.parametrize("size", [8 * 1024 * 1024 + 1, 2**40, 10**17])
async def test_a_body_that_is_declared_too_large_is_refused_unread(size: int) -> None:
    async with gateway_to(in_turn()) as (gate, up), await gate.connect() as client:
        await client.send(chat_request(body=b"").replace(b"content-length: 0", b"content-length: %d" % size))
        reply = await client.response()
        assert refusal(reply) == (413, "request_too_large", None)
        assert reply.header("connection") == "close"
        assert await client.is_closed()
        (record,) = await gate.settled()
        assert (record.verdict, record.error) == (Verdict.REJECTED, "request_too_large")
        assert up.accepted == 0


async def test_a_body_without_end_is_refused_at_the_limit() -> None:
    """Whoever goes on sending is closed on; what is kept of it is bounded."""
    head = chat_request(body=b"").replace(b"content-length: 0", b"transfer-encoding: chunked")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    before = resident_bytes()
    async with gateway_to(in_turn()) as (gate, up), await gate.connect() as client:
        await client.send(head)
        sent = 0
        try:
            while sent < 2**30:
                await client.send(chunk)
                sent += 65536
        except ConnectionError:
            pass
        assert sent < 64 * 1024 * 1024
        (record,) = await gate.settled()
        assert (record.verdict, record.status, record.error) == (Verdict.REJECTED, 413, "request_too_large")
        assert up.accepted == 0
    assert resident_bytes() - before < 40_000_000


async def test_the_limit_of_the_body_is_the_operators_and_what_fits_is_served() -> None:
    limit = "[server.limits]\nbody_bytes = 2048"
    async with gateway_to(whole(openai_whole()), limit) as (gate, _), await gate.connect() as client:
        storage = 2048 - len(json.dumps({"messages": MESSAGES, "model": "up/m", "user": ""}))
        assert (await send(client, chat_request(model="up/m", user="u" * storage))).status == 200
        reply = await send(client, chat_request(model="up/m", user="u" * (storage + 1)))
        assert refusal(reply) == (413, "request_too_large", None)
        await gate.settled(2)


# C14 to C17: not JSON, or not in the way that everybody reads the same.

MESSAGE = b'"messages":[{"role":"user","content":"Hi"}]'
NOT_JSON = [
    *(b"", b" ", b"{", b"}", b"nul", b"True", b"'{}'", b"{}{}", b'{"model":"up/m",}', b'{"model":up}', b"{'a':1}"),
    *(b'\xef\xbb\xbf{"model":"up/m"}', b'{"model":"\xff"}', b'{"a":"\xed\xa0\x80"}', b"\x00", b'{"a":"\n"}', b"// {}"),
    *(b"[]", b"null", b"12", b'"text"', b"true", b'[{"model":"up/m"}]'),
    *(b'{"a":%b}' % number for number in (b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"01", b"+1", b".5")),
    *(
        b'{"a":%b}' % (b"9" * 5000),
        b'{"a":"\\ud800"}',
        b'{"a":"\\uDFFF"}',
        b'{"\\ud83d":1}',
        b'{"a":["\\ud800\\u0041"]}',
    ),
]


async def test_what_is_not_one_json_object_is_refused() -> None:
    await refuse_bodies([(body, (400, "invalid_json", None)) for body in NOT_JSON])


@pytest.mark.parametrize("member", ["model", "user", "stop", "service_tier", "metadata", "messages", "tools"])
async def test_half_a_surrogate_pair_is_refused_in_every_field(member: str) -> None:
    half = "\ud800"
    values: dict[str, Any] = {"metadata": {"a": half}, "messages": [{"role": "user", "content": half}], "tools": [half]}
    await refuse_bodies([(chat(**{member: values.get(member, half)}), (400, "invalid_json", None))])


async def test_deep_nesting_is_refused_before_it_is_parsed() -> None:
    deep = (400, "json_too_deep", None)
    bombs = [
        *(b"[" * 200_000, b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 100_000, b'[{"a":' * 60_000),
        *(b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", b'{"s":"]]]]","a":' + b"[" * 64 + b"]" * 64 + b"}"),
        b"[" * 4_000_000,
    ]
    await refuse_bodies([(bomb, deep) for bomb in bombs])


async def test_what_is_as_deep_as_allowed_is_served() -> None:
    nested = "[" * 62 + '"]}"' + "]" * 62
    async with gateway_to(whole(openai_whole())) as (gate, up), await gate.connect() as client:
        body = f'{{{MESSAGE.decode()},"model":"up/m","note":"{"[" * 100}","extra":{{"a":{nested}}}}}'
        assert (await send(client, chat_request(body=body.encode()))).status == 200
        assert up.requests[0].json["extra"] == {"a": json.loads(nested)}
        await gate.settled()


async def test_a_duplicate_key_is_refused_with_its_path() -> None:
    def twice(param: str) -> Refused:
        return 400, "duplicate_key", param

    await refuse_bodies(
        [
            (b'{"model":"cheap","model":"dear"}', twice("model")),
            (b'{"model":"cheap","mod\\u0065l":"dear",%b}' % MESSAGE, twice("model")),
            (b'{"model":"a",%b,"stream":false,"stream":true}' % MESSAGE, twice("stream")),
            (b'{"model":"a","messages":[{"role":"user","content":"x","content":"y"}]}', twice("messages[0].content")),
            (b'{"model":"a",%b,"metadata":{"k":"1","k":"2"}}' % MESSAGE, twice("metadata.k")),
            (b'{"model":"a",%b,"unknown":[{},{"x":{"y":1,"y":1}}]}' % MESSAGE, twice("unknown[1].x.y")),
        ]
    )


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
async def test_a_nul_in_any_string_is_served_and_recorded(kind: str) -> None:
    answer = {"openai": openai_whole, "anthropic": anthropic_whole, "gemini": gemini_whole}[kind]()
    async with gateway_to(whole(answer), kind=kind) as (gate, up):
        nul = "a\x00b\u2028\u0085\x1b[31m"
        messages = [{"role": "user", "content": nul}]
        reply = await gate.ask(model="up/m", messages=messages, user=nul, metadata={"k": nul}, stop=[nul])
        assert reply.status == 200
        assert nul in json.dumps(up.requests[0].json, ensure_ascii=False).replace("\\u0000", "\0").replace(
            "\\u001b", "\x1b"
        )
        assert (await gate.ask(model=f"up/{nul}")).status == 404  # no name that a provider could have
        served, refused = await gate.settled(2)
        assert (served.verdict, refused.verdict) == (Verdict.COMPLETED, Verdict.REJECTED)
        assert refused.model == f"up/{nul}"


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize("digits", [19, 20, 30, 4000])
async def test_a_number_that_is_too_large_is_the_callers_fault(kind: str, digits: int) -> None:
    answer = {"openai": openai_whole, "anthropic": anthropic_whole, "gemini": gemini_whole}[kind]()
    large = 10**digits
    async with gateway_to(whole(answer), kind=kind) as (gate, _):
        asked: list[dict[str, Any]] = [
            {"seed": large},
            {"top_k": large},
            {"logit_bias": {"1": large}},
            {"unknown": [{"x": large}]},
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"minimum": large}}}]},
        ]
        for members in asked:
            reply = await gate.ask(model="up/m", **members)
            assert reply.status in (200, 400), (members, reply.body)
        assert {record.verdict for record in await gate.settled(len(asked))} <= {Verdict.COMPLETED, Verdict.REJECTED}


# C18, C29: not a chat request.


def chat(**members: Any) -> bytes:
    return json.dumps({"model": "up/m", "messages": MESSAGES, **members}).encode()


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"max_tokens": True}, "invalid_type", "max_tokens"),
    ({"max_tokens": "10"}, "invalid_type", "max_tokens"),
    ({"max_tokens": 1.5}, "invalid_type", "max_tokens"),
    ({"max_tokens": -1}, "invalid_value", "max_tokens"),
    ({"max_tokens": 10**9}, "invalid_value", "max_tokens"),
    ({"max_completion_tokens": 0}, "invalid_value", "max_completion_tokens"),
    ({"temperature": "hot"}, "invalid_type", "temperature"),
    ({"temperature": 2.1}, "invalid_value", "temperature"),
    ({"top_p": -0.1}, "invalid_value", "top_p"),
    ({"n": 0}, "invalid_value", "n"),
    ({"n": True}, "invalid_type", "n"),
    ({"n": 10**6}, "invalid_value", "n"),
    ({"stream": "true"}, "invalid_type", "stream"),
    ({"stream": 1}, "invalid_type", "stream"),
    ({"model": 7}, "invalid_type", "model"),
    ({"model": ""}, "invalid_value", "model"),
    ({"model": "m" * 257}, "invalid_value", "model"),
    ({"model": None}, "missing_required_parameter", "model"),
    ({"messages": None}, "invalid_type", "messages"),
    ({"messages": []}, "invalid_value", "messages"),
    ({"messages": "Hi"}, "invalid_type", "messages"),
    ({"messages": ["Hi"]}, "invalid_type", "messages[0]"),
    ({"messages": [{"content": "Hi"}]}, "missing_required_parameter", "messages[0].role"),
    ({"messages": [*MESSAGES, {"role": "user", "content": 1}]}, "invalid_type", "messages[1].content"),
    ({"messages": [{"role": "king", "content": "Hi"}]}, "invalid_value", "messages[0].role"),
    ({"messages": MESSAGES * 4097}, "invalid_value", "messages"),
    ({"stop": 5}, "invalid_type", "stop"),
    ({"stop": [1]}, "invalid_type", "stop[0]"),
    ({"user": {}}, "invalid_type", "user"),
    ({"seed": "1"}, "invalid_type", "seed"),
    ({"logit_bias": {"1": "x"}}, "invalid_type", "logit_bias.1"),
    ({"metadata": {"a": 1}}, "invalid_type", "metadata.a"),
    ({"tools": [{"type": "function"}]}, "missing_required_parameter", "tools[0].function"),
    ({"tools": [{"type": "function", "function": {"name": 1}}]}, "invalid_type", "tools[0].function.name"),
    ({"tool_choice": 1}, "invalid_type", "tool_choice"),
    ({"response_format": {"type": "xml"}}, "invalid_value", "response_format.type"),
    ({"stream_options": {"include_usage": True}}, "invalid_value", "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": "yes"}}, "invalid_type", "stream_options.include_usage"),
]


async def test_a_wrong_type_or_value_is_named_by_its_path() -> None:
    await refuse_bodies([(chat(**members), (400, code, param)) for members, code, param in WRONG])


async def test_a_missing_member_is_named() -> None:
    await refuse_bodies(
        [
            (b"{}", (400, "missing_required_parameter", "messages")),
            (b"{%b}" % MESSAGE, (400, "missing_required_parameter", "model")),
            (b'{"model":"up/m"}', (400, "missing_required_parameter", "messages")),
        ]
    )


async def test_no_member_of_the_body_chooses_the_upstream() -> None:
    async with ForbiddenServer() as canary:
        values = {
            "api_base": canary.base_url,
            "base_url": canary.base_url,
            "api_key": "sk-of-somebody-else",
            "api_version": "1",
            "extra_headers": {"authorization": "x"},
            "extra_query": {"a": "b"},
            "extra_body": {"model": "dear"},
            "headers": {"host": "evil"},
            "proxy": canary.base_url,
        }
        await refuse_bodies(
            [(chat(**{name: value}), (400, "unknown_parameter", name)) for name, value in values.items()]
        )


# C30: in another form.


async def test_a_compressed_body_is_refused_unread() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    before = resident_bytes()
    async with gateway_to(in_turn()) as (gate, up):
        for number, coding in enumerate(["gzip", "GZIP", "deflate", "br", "zstd", "gzip, identity", "x"], start=1):
            async with await gate.connect() as client:
                await client.send(chat_request(headers=(("content-encoding", coding),), body=bomb)[:2000])
                assert refusal(await client.response()) == (415, "unsupported_content_encoding", None)
                assert await client.is_closed()
            record = (await gate.settled(number))[-1]
            assert (record.verdict, record.error) == (Verdict.REJECTED, "unsupported_content_encoding")
        assert up.accepted == 0
    assert resident_bytes() - before < 20_000_000


async def test_identity_is_no_compression() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _), await gate.connect() as client:
        assert (
            await send(client, chat_request(headers=(("content-encoding", "identity"),), model="up/m"))
        ).status == 200
        await gate.settled()


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonl", "a"])
async def test_a_body_of_another_type_is_refused(kind: str) -> None:
    request = chat_request(model="up/m").replace(b"application/json", kind.encode())
    async with gateway_to(in_turn()) as (gate, up), await gate.connect() as client:
        assert refusal(await send(client, request)) == (415, "unsupported_media_type", None)
        await gate.settled()
        assert up.accepted == 0


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/json;x=y"])
async def test_json_may_be_named_as_http_allows(kind: str) -> None:
    request = chat_request(model="up/m").replace(b"application/json", kind.encode())
    async with gateway_to(whole(openai_whole())) as (gate, _), await gate.connect() as client:
        assert (await send(client, request)).status == 200
        await gate.settled()


# Anything at all.

FULL: dict[str, Any] = {
    "model": "up/m",
    "messages": [
        {"role": "system", "content": "Be brief.", "name": "s"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "data:,"}}],
        },
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ],
    "max_tokens": 5,
    "temperature": 1,
    "stop": ["x"],
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}}
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "j", "schema": {"type": "object"}}},
    "reasoning": {"effort": "low", "max_tokens": 10},
    "metadata": {"a": "b"},
    "logit_bias": {"1": 2},
}
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1e300,
    10**25,
    "",
    "x",
    "\x00",
    "auto",
    [],
    [[]],
    {},
    {"type": "x"},
    [None],
    "data:;base64,%",
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every member of every object and list in it."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else range(len(value))
    return [place for key in keys for place in [(value, key), *places(value[key])]]


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini", "mistral"])
async def test_no_input_causes_a_gateway_fault(kind: str) -> None:
    def script(_: Seen) -> list[Step]:
        return whole({"anthropic": anthropic_whole, "gemini": gemini_whole}.get(kind, openai_whole)())

    chance = random.Random(None if SOAKS else 7)
    count = 5000 if SOAKS else 250
    async with nothing_left(), ScriptedUpstream(script) as up, gateway(providers(kind, up=up.base_url)) as gate:
        async with await gate.connect() as client:
            for _ in range(count):
                body = deepcopy(FULL)
                for _change in range(chance.choice((1, 1, 2, 3))):
                    found = places(body)
                    if not found:
                        break
                    holder, key = chance.choice(found)
                    holder[key] = deepcopy(chance.choice(VALUES))
                reply = await send(client, chat_request(body=json.dumps(body).encode()))
                assert reply.status in (200, 400, 404), (body, reply)
                assert reply.status == 200 or refusal(reply), body
        assert len(await gate.settled(count)) == count
        assert KEY.encode() not in b"".join(request.body for request in up.requests)
