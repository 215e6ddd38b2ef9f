"""No secret and no prompt leaves by a log line, an error or a metric (docs/spec/security.md S6, S21).

Canaries stand wherever a secret can stand: keys of callers and of providers, passwords in addresses,
cookies, query strings, prompts, answers, and the words of providers that quote them back. Many requests
succeed and fail in many ways; then everything that came out is searched for every canary.
"""

import asyncio
import io
from collections.abc import Iterator
from typing import Literal

import pytest

from streamweir.server.request.attempt import attempt_builder
from streamweir.server.telemetry.log import close_log, configure_log
from support.canary import (
    ANSWERS_MAY_HOLD,
    KEYS_TOML,
    LOGS_MAY_HOLD,
    C,
    CanarySet,
    providers_toml,
    requests,
    script,
)
from support.gateway import Gate, chat_request, gateway, nothing_left
from support.raw_client import RawClient, Reply
from support.scripted_upstream import ScriptedUpstream

hits = CanarySet().hits


def toml(upstream: str) -> str:
    return providers_toml(upstream) + KEYS_TOML


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


async def test_no_canary_is_found_in_a_log_an_answer_or_a_metric(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = requests()
    async with nothing_left(), ScriptedUpstream(script) as up, gateway(toml(up.base_url)) as gate:
        replies = await asyncio.gather(*(send(gate, request) for request in sent))

        def broken(*_: object) -> None:
            raise RuntimeError(f"a bug that knows {C['key of a provider']} and {C['another form of it']}")

        monkeypatch.setattr(attempt_builder, "make_exchange", broken)
        replies.append(await send(gate, sent[0]))
        monkeypatch.undo()
        async with await gate.connect() as client:
            metrics = await read_metrics(client)
        await gate.gateway.drained()
        records = list(gate.records)
    close_log()
    lines = log.getvalue()

    statuses = {reply.status for reply in replies}
    assert statuses >= {200, 400, 401, 404, 405, 415, 429, 500, 502, 503}
    assert len(records) > 50
    assert lines.count("req_") >= len(records) - 2  # two were no requests
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
async def test_the_id_of_a_request_is_the_gateways_and_the_callers_is_only_recorded(sent: str, kept: bool) -> None:
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
        records = await gate.settled(2)
        assert {each.id for each in records} == ids
        assert len(ids) == 2
        assert all((each or "").startswith("req_") for each in ids)
        assert {each.client_id for each in records} == {sent if kept else None}
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
