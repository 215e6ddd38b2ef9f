"""Requests that are made to be expensive, and requests in a row (C10, C13, C15; docs/spec/security.md S20).

A head is bounded in bytes and in fields, a body in bytes and in depth, and a large body is read beside
the event loop; so whoever sends such things is refused, and everybody else is served in the meantime.
Requests that follow each other on one connection are answered in order, each with its own key.
"""

import asyncio
import json
import os
from typing import Any

import pytest

from streamweir.core.verdict import Verdict
from support.answers import TEXTS, openai_stream, openai_whole
from support.gateway import KEY, chat_request, gateway_to, text_of
from support.raw_client import Reply
from support.script import Seen, Step, in_turn, stream, whole

START = b"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n"


def error_of(reply: Reply) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(reply.body)["error"]
    return error


# C13: heads.

HEAD_BOMBS = {
    "one long field": START + b"x-bomb: " + b"x" * 40_000 + b"\r\n\r\n",
    "one long name": START + b"x" * 40_000 + b": x\r\n\r\n",
    "a line without end": b"POST /" + b"x" * 100_000,
    "a field without end": START + b"x-bomb: " + b"x" * 1_000_000,
    "many fields": START + b"".join(b"x-%d: y\r\n" % number for number in range(200)) + b"\r\n",
    "fields without end": START + b"a: b\r\n" * 100_000,
    "the same field again": START + b"cookie: a\r\n" * 101 + b"\r\n",
}


@pytest.mark.parametrize("bomb", HEAD_BOMBS.values(), ids=HEAD_BOMBS)
async def test_a_head_that_is_too_large(bomb: bytes) -> None:
    async with gateway_to(in_turn()) as (gate, up), await gate.connect() as client:
        await client.send(bomb[:200_000])
        reply = await client.response()
        assert reply.status == 431
        assert reply.header("connection") == "close"
        assert error_of(reply)["code"] == "headers_too_large"
        assert await client.is_closed()
        (record,) = await gate.settled()
        assert (record.verdict, record.status, record.error) == (Verdict.REJECTED, 431, "headers_too_large")
        assert up.accepted == 0


async def test_the_limits_of_the_head_are_the_operators_and_what_fits_is_served() -> None:
    limits = "[server.limits]\nheader_bytes = 1024\nheader_fields = 8"
    async with gateway_to(whole(openai_whole()), limits) as (gate, _), await gate.connect() as client:
        few = tuple((f"x-{number}", "y") for number in range(4))
        await client.send(chat_request(model="up/m", headers=few))
        assert (await client.response()).status == 200
        await client.send(chat_request(model="up/m", headers=(*few, ("x-one-more", "y"))))
        assert (await client.response()).status == 431
        await gate.settled(2)


# C15, S20: bodies, while others are served.


def bombs() -> list[tuple[bytes, str]]:
    message = '"messages":[{"role":"user","content":"Hi"}],"model":"up/m"'
    few, many = (",".join(f'"k{number}":0' for number in range(count)) for count in (4_000, 100_000))
    return [
        (b"[" * 200_000, "json_too_deep"),
        (b'{"a":' * 200_000, "json_too_deep"),
        (b"[" * 8_000_000, "json_too_deep"),
        (b'"' + b"\\" * 8_000_000, "invalid_json"),
        (b"[" + b"{}," * 50_000, "invalid_json"),
        (b"[" + b"{}," * 500_000, "invalid_value"),
        (f"{{{message},{few},{few}}}".encode(), "duplicate_key"),
        (f"{{{message},{many},{many}}}".encode(), "invalid_value"),
        (f'{{{message},"temperature":{"9" * 4000}}}'.encode(), "invalid_value"),
        (f'{{"model":"up/m","messages":[{"{},".join([""] * 100_000)}{{}}]}}'.encode(), "invalid_value"),
    ]


async def test_bombs_are_refused_while_others_are_served() -> None:
    process = os.getpid()
    async with gateway_to(stream(openai_stream())) as (gate, up):
        replies = [asyncio.ensure_future(gate.ask(body=bomb)) for bomb, _ in bombs()]
        served = 0
        while served < 20 or not all(reply.done() for reply in replies):
            assert text_of((await gate.ask(model="up/m", stream=True)).body) == "".join(TEXTS)
            served += 1
        for (bomb, code), reply in zip(bombs(), await asyncio.gather(*replies), strict=True):
            assert (reply.status, error_of(reply)["code"]) == (400, code), bomb[:80]
        records = await gate.settled(served + len(replies))
        assert [each.verdict for each in records].count(Verdict.REJECTED) == len(replies)
        assert len(up.requests) == served
        assert os.getpid() == process


# C10: several requests on one connection, before the first is answered.

OTHER = "sk-other-0123456789abcdef"
TWO_KEYS = f"""
[[keys]]
name = "one"
key = "{KEY}"
models = ["up/one*"]
[[keys]]
name = "two"
key = "{OTHER}"
models = ["up/two*"]
dialect = "opentoken"
"""


def echo(request: Seen) -> list[Step]:
    """Answers with the model's name, and the first one last: its answer waits for a turn of the loop longer."""
    name, is_streamed = request.json["model"], request.json.get("stream")
    return stream(openai_stream([name]), pieces_of=20) if is_streamed else whole(openai_whole(name))


async def test_requests_in_a_row_are_answered_in_order_each_with_its_own_key() -> None:
    async with gateway_to(echo, TWO_KEYS) as (gate, up), await gate.connect() as client:
        asked = [
            (KEY, "one-a", True),
            (OTHER, "two-b", True),
            (OTHER, "one-c", False),  # not for this key
            (KEY, "one-d", False),
            (OTHER, "two-e", True),
        ]
        await client.send(b"".join(chat_request(key=k, model=f"up/{m}", stream=s) for k, m, s in asked))
        for key, model, is_streamed in asked:
            reply = await client.response()
            if model == "one-c":
                assert (reply.status, error_of(reply)["code"]) == (400, "model_not_found")  # opentoken's status
            elif is_streamed:
                assert text_of(reply.body) == model
                assert (b'"delta":{"role":"assistant"},' in reply.body) == (key == OTHER)
            else:
                assert json.loads(reply.body)["choices"][0]["message"]["content"] == model
        records = await gate.settled(len(asked))
        assert {(each.model, each.key) for each in records} == {
            (f"up/{model}", "one" if key == KEY else "two") for key, model, _ in asked
        }
        assert [request.json["model"] for request in up.requests] == ["one-a", "two-b", "one-d", "two-e"]


async def test_a_caller_that_leaves_takes_its_waiting_requests_with_it() -> None:
    async with gateway_to(echo, TWO_KEYS) as (gate, up):
        async with await gate.connect() as client:
            await client.send(b"".join(chat_request(model=f"up/one-{name}", stream=True) for name in "abc"))
            await client.read_until(b"one-a")
        await gate.gateway.drained()
        assert len(gate.records) == len(up.requests)
        assert len(up.requests) <= 2


async def test_a_bad_request_in_a_row_ends_the_connection_behind_the_answers_before_it() -> None:
    async with gateway_to(echo, TWO_KEYS) as (gate, up), await gate.connect() as client:
        good = chat_request(model="up/one", stream=True)
        await client.send(good + b"BROKEN\r\n\r\n" + good)
        assert text_of((await client.response()).body) == "one"
        reply = await client.response()
        assert (reply.status, error_of(reply)["code"]) == (400, "invalid_value")
        assert await client.is_closed()
        assert {record.status for record in await gate.settled(2)} == {200, 400}
        assert len(up.requests) == 1
