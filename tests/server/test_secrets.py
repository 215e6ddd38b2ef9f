"""No secret and no prompt leaves by a log line, an error or a metric (spec/security.md S6, S21).

Canaries stand wherever a secret can stand: keys of callers and of providers, passwords in addresses,
cookies, query strings, prompts, answers, and the words of providers that quote them back. Many requests
succeed and fail in many ways; then everything that came out is searched for every canary.
"""

import asyncio
import io
import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from streamweir.server import chat
from streamweir.server.log import close_log, configure_log
from support.answers import (
    anthropic_error_body,
    anthropic_stream,
    error_body,
    error_frame,
    gemini_error_body,
    gemini_stream,
    openai_frames,
    openai_stream,
    openai_whole,
)
from support.gateway import Gate, chat_request, gateway, nothing_left
from support.rawclient import RawClient, Reply
from support.script import End, Fin, Hang, Head, Rst, Seen, Send, Step, stream, whole
from support.scripted import ScriptedUpstream, closed_port

CANARIES = {
    "key of a caller": "sk-canary-Caller0123456789abcdef",
    "another form of it": "canaryOpaque4f9d1c7b2a8e6053d7f1",
    "key of a caller that is not good": "sk-canary-Unknown0123456789abcd",
    "key that has expired": "sk-canary-Expired0123456789abcd",
    "key of a provider": "sk-proj-canaryOpenai0123456789ab",
    "another provider's": "sk-ant-canary03-0123456789abcdef",
    "a third one's": "AIzaCanaryGemini0123456789abcdef",
    "header of the operator": "canaryHeader9c2f4e6a8b0d1357fedc",
    "password of a proxy": "canary-proxy-password",
    "password of the database": "canary-store-password",
    "prompt": "canary walrus under the ice",
    "instructions": "canary pelican over the sea",
    "result of a tool": "canary heron beside the weir",
    "answer": "canary otter in the reeds",
    "user": "canary-person@mail.example",
    "link to an image": "https://files.example/canary.png?sig=canary-signature",
    "cookie": "session=canaryCookie0123456789",
    "query string": "canaryQuery0123456789",
    "host of a provider": "canary-host.invalid",
}
ANSWERS_MAY_HOLD = ("answer",)
LOGS_MAY_HOLD = ("host of a provider",)
"""Operators need it; callers must not see it."""
C = CANARIES
QUOTED = f"Bad key {C['key of a provider']} at https://{C['host of a provider']}/v1 of {C['header of the operator']}: "

MESSAGES = [
    {"role": "system", "content": C["instructions"]},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": C["prompt"]},
            {"type": "image_url", "image_url": {"url": C["link to an image"]}},
        ],
    },
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": C["result of a tool"]},
]


def toml(upstream: str) -> str:
    kinds = [("openai", "key of a provider"), ("anthropic", "another provider's"), ("gemini", "a third one's")]
    providers = "".join(
        f'[[providers]]\nname = "{kind}"\nkind = "{kind}"\nbase_url = "{upstream}"\napi_key = "{C[key]}"\n'
        f'headers = {{ x-team = "{C["header of the operator"]}" }}\n'
        for kind, key in kinds
    )
    key = C["key of a provider"]
    return f"""
[server]
trusted_proxies = ["127.0.0.1"]
[server.timeouts]
idle_s = 0.1
silence_s = 0.1
[store]
url = "postgresql://someone:{C["password of the database"]}@db.example/books"
{providers}
[[providers]]
name = "proxied"
kind = "openai"
base_url = "http://{C["host of a provider"]}/v1"
proxy = "http://someone:{C["password of a proxy"]}@127.0.0.1:{closed_port()}"
api_key = "{key}"
[[providers]]
name = "lost"
kind = "openai"
base_url = "http://{C["host of a provider"]}/v1"
api_key = "{key}"
[[keys]]
name = "first"
key = "{C["key of a caller"]}"
[[keys]]
name = "second"
key = "{C["another form of it"]}"
rpm = 1
[[keys]]
name = "third"
key = "{C["key that has expired"]}"
expires = 2020-01-01T00:00:00Z
"""


def script(request: Seen) -> list[Step]:
    """What the model's name says. Errors quote what they should not."""
    model = (
        request.path.rpartition("models/")[2].partition(":")[0] if "models/" in request.path else request.json["model"]
    )
    quoted = QUOTED + model
    started = Send(b"".join(openai_frames([C["answer"]])[:2]))
    if model.isdecimal():
        bodies = {"anthropic": anthropic_error_body(quoted), "gemini": gemini_error_body(quoted, 400)}
        kind = "anthropic" if "messages" in request.path else "gemini" if "models/" in request.path else "openai"
        return whole(bodies.get(kind, error_body(quoted)), int(model))
    odd: dict[str, list[Step]] = {
        "redirect": whole(b"", 307, [("location", f"http://{C['host of a provider']}/")]),
        "html": [Head(200, "text/html"), Send(quoted.encode()), End()],
        "empty": [Head(), End()],
        "cut": [Head(), started, Fin()],
        "reset": [Head(), started, Rst()],
        "silent": [Head(), started, Hang()],
        "broken": [Head(), started, Send(b"data: {%b\n\n" % quoted.encode()), Hang()],
        "error": [Head(), started, Send(error_frame(error_body(quoted))), End()],
        "whole-error": whole(error_body(quoted)),
        "cookies": [Head(headers=[("set-cookie", C["cookie"]), ("x-key", C["key of a provider"])]), started, Fin()],
    }
    if model in odd:
        return odd[model]
    if "messages" in request.path:
        return stream(anthropic_stream([C["answer"]]))
    if "models/" in request.path:
        return stream(gemini_stream([C["answer"]]))
    return stream(openai_stream([C["answer"]])) if request.json.get("stream") else whole(openai_whole(C["answer"]))


HEADERS = (("cookie", C["cookie"]), ("x-forwarded-for", "198.51.100.7"), ("x-request-id", C["key of a caller"]))
STATUSES = (400, 401, 403, 404, 429, 500, 503)
TROUBLES = ("redirect", "html", "empty", "cut", "reset", "silent", "broken", "error", "whole-error", "cookies")


def requests() -> list[bytes]:
    path = f"/v1/chat/completions?key={C['query string']}"
    good: dict[str, Any] = {"messages": MESSAGES, "user": C["user"]}

    def ask(model: str, key: str = "key of a caller", **members: Any) -> bytes:
        return chat_request(path=path, key=C[key], headers=HEADERS, model=model, **{**good, **members})

    bodies = [
        b"{" + C["prompt"].encode(),
        json.dumps({**good, "model": "openai/m", "temperature": C["prompt"]}).encode(),
        json.dumps({**good, "model": "openai/m", "max_tokens": C["key of a caller"]}).encode(),
        json.dumps({**good, "model": "openai/m", "api_key": C["key of a provider"]}).encode(),
        json.dumps({**good, "model": "openai/m", "messages": [{"role": "king", "content": C["prompt"]}]}).encode(),
        json.dumps({**good, "model": "openai/m", "tool_choice": C["prompt"]}).encode(),
        json.dumps({**good, "model": "openai/m", "response_format": {"type": 1, "is": C["prompt"]}}).encode(),
    ]
    key = C["key of a caller"]
    bare = f"host: gateway\r\nauthorization: Bearer {key}\r\ncookie: {C['cookie']}\r\n\r\n"
    return [
        *(ask(f"{kind}/m", stream=True) for kind in ("openai", "anthropic", "gemini")),
        ask("openai/m"),
        *(ask(f"{kind}/{place}", stream=True) for kind in ("openai", "anthropic", "gemini") for place in STATUSES),
        *(ask(f"openai/{place}", stream=True) for place in TROUBLES),
        *(ask(f"openai/{place}") for place in ("400", "401", "500", "html", "redirect", "cut")),
        *(ask(f"{name}/m") for name in ("proxied", "lost", "nobody")),
        *(ask("openai/m", key=name) for name in ("key of a caller that is not good", "key that has expired")),
        *(ask("openai/m", key="another form of it") for _ in range(2)),
        *(chat_request(path=path, key=key, headers=HEADERS, body=body) for body in bodies),
        chat_request(path=path, key=None, headers=(*HEADERS, ("x-api-key", C["key of a caller that is not good"]))),
        chat_request(path=path, key=key, headers=(("content-encoding", C["prompt"]),), body=b"{}"),
        *(
            f"GET /{place}?token={C['query string']} HTTP/1.1\r\n{bare}".encode()
            for place in ("metrics", "v1/models", "health")
        ),
        *(
            f"DELETE /{place}?token={C['query string']} HTTP/1.1\r\n{bare}".encode()
            for place in ("v1/models", "nothing", "v1/x")
        ),
        f"GET /v1/models HTTP/1.1\r\nbroken {key}\r\n\r\n".encode(),
        f"GET /v1/models HTTP/1.1\r\nhost: {C['cookie']}\r\n\r\n".encode(),
    ]


@pytest.fixture(params=["json", "text"])
def log(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    written = io.StringIO()
    form: Literal["json", "text"] = request.param
    configure_log(form, written, level="debug")
    yield written
    close_log()


async def send(gate: Gate, request: bytes) -> Reply:
    async with await gate.connect() as client:
        await client.send(request)
        return await client.response()


async def read_metrics(client: RawClient) -> str:
    await client.send(b"GET /metrics HTTP/1.1\r\nhost: gateway\r\n\r\n")
    reply = await client.response()
    assert reply.status == 200
    return reply.body.decode()


def hits(text: str, *except_for: str) -> list[str]:
    return [name for name, canary in CANARIES.items() if canary in text and name not in except_for]


async def test_no_canary_is_found_in_a_log_an_answer_or_a_metric(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = requests()
    async with nothing_left(), ScriptedUpstream(script) as up, gateway(toml(up.base_url)) as gate:
        replies = await asyncio.gather(*(send(gate, request) for request in sent))

        def broken(*_: object) -> None:
            raise RuntimeError(f"a bug that knows {C['key of a provider']} and {C['another form of it']}")

        monkeypatch.setattr(chat, "plan", broken)
        replies.append(await send(gate, sent[0]))
        monkeypatch.undo()
        async with await gate.connect() as client:
            metrics = await read_metrics(client)
        await gate.gateway.drained()
        facts = list(gate.facts)
    close_log()
    lines = log.getvalue()

    statuses = {reply.status for reply in replies}
    assert statuses >= {200, 400, 401, 404, 405, 415, 429, 500, 502, 503}
    assert len(facts) > 50
    assert lines.count("req_") >= len(facts) - 2  # two were no requests
    assert "internal error" in lines
    assert hits(lines, *LOGS_MAY_HOLD) == []
    assert hits(metrics) == []
    for request, reply in zip([*sent, sent[0]], replies, strict=True):
        text = (reply.head + reply.body).decode()
        assert hits(text, *ANSWERS_MAY_HOLD) == [], request[:300]
        assert "Traceback" not in text
    assert sum(C["answer"] in reply.body.decode() for reply in replies) > 5, "the canaries do arrive where they belong"
    assert any(C["prompt"] in request.body.decode() for request in up.requests)
    printable = lines.replace("\n", "")
    assert printable.isprintable(), [letter for letter in printable if not letter.isprintable()]


# S21: ids and other words of callers.


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("abc-DEF_123", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("a b", False),
        ("a\tb", False),
        ("é", False),
        ("../../etc", False),
        ("<script>", False),
        ("a, b", False),
        ("", False),
    ],
)
async def test_the_id_of_a_request_is_ours_and_the_callers_is_only_noted(sent: str, kept: bool) -> None:
    async with nothing_left(), ScriptedUpstream(script) as up, gateway(toml(up.base_url)) as gate:
        key = C["key of a caller"]
        async with await gate.connect() as client:
            ids = set()
            for model in ("openai/m", "nobody/m"):
                headers = (("x-request-id", sent),)
                request = chat_request(key=key, headers=headers, model=model, stream=True).replace(
                    "é".encode(), b"\xe9"
                )
                await client.send(request)
                ids.add((await client.response()).header("x-request-id"))
        facts = await gate.settled(2)
        assert {each.id for each in facts} == ids
        assert len(ids) == 2
        assert all((each or "").startswith("req_") for each in ids)
        assert {each.client_id for each in facts} == {sent if kept else None}
        assert sent not in ids
        upstream_headers = dict(up.requests[0].headers)
        assert upstream_headers.get("x-request-id") != sent


async def test_what_callers_choose_is_harmless_in_the_log(log: io.StringIO) -> None:
    """Colours, line ends and other tricks in a model's name, a path or an id stay inside of their line."""
    odd = "\x1b[31m\r\nforged line\x00\u2028\u202e"
    async with nothing_left(), ScriptedUpstream(script) as up, gateway(toml(up.base_url)) as gate:
        key = C["key of a caller"]
        assert (await send(gate, chat_request(key=key, model=f"openai/{odd}"))).status == 404
        assert (await send(gate, chat_request(key=key, model=odd))).status == 404
        assert (await send(gate, f"GET /v1/%1b[31m{'x' * 500} HTTP/1.1\r\nhost: a\r\n\r\n".encode())).status == 404
        await gate.settled(3)
    close_log()
    lines = log.getvalue().splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)
    assert all(len(line) < 2000 for line in lines)
