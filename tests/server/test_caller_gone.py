"""Callers that leave: before the upstream is called, before the first token, in the midst, at the end (C1-C5, C7, C33).

Whenever it happens, the upstream is not called, or aborted, or read on for the usage at its end; the
request leaves exactly one record, `client_gone`, which says how its usage is known; and no socket,
task, timer or place is left (`gateway_to` looks). Upstreams that bill on are in `test_caller_drain`.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.server.telemetry.record import RequestRecord
from support.answers import TEXTS, USAGE, anthropic_frames, error_body, openai_frames, openai_whole
from support.gateway import chat_request, gateway_to, text_of, until
from support.outcome import path_of
from support.raw_client import RawClient
from support.script import End, Fin, Hang, Head, Send, Step, Wait, in_turn, whole
from support.scripted_upstream import black_hole

Leave = Callable[[RawClient], None]
WAYS: dict[str, Leave] = {"fin": RawClient.close, "rst": RawClient.reset, "half-close": RawClient.half_close}
every_way = pytest.mark.parametrize("leave", WAYS.values(), ids=WAYS)

PROMPT_TOKENS = 3
"""Of `support.gateway.MESSAGES`, by the rule of thumb."""


def assert_gone(record: RequestRecord, *, status: int) -> None:
    assert (record.verdict, record.status) == (Verdict.CLIENT_GONE, status)


def assert_free(record: RequestRecord) -> None:
    """Nothing was asked of the upstream, so nothing is charged."""
    assert (record.usage, record.usage_source) == (None, None)


def counted(record: RequestRecord) -> tuple[int, int]:
    assert record.usage is not None
    return record.usage.prompt_tokens, record.usage.completion_tokens


# C1: before the upstream is called.


async def test_a_reset_right_behind_the_request_costs_no_call() -> None:
    """It is read before a connection to the upstream can be there."""
    async with gateway_to(in_turn()) as (gate, up):
        async with await gate.connect() as client:
            client.sock.send(chat_request(model="up/m", stream=True))
            client.reset()
            (record,) = await gate.settled()
        assert_gone(record, status=499)
        assert_free(record)
        assert up.requests == []


@every_way
async def test_a_caller_that_leaves_while_its_body_is_parsed(leave: Leave) -> None:
    async with gateway_to(in_turn()) as (gate, up):
        is_free = threading.Event()
        for _ in range(2):  # both threads, so that the body cannot be read before its sender has left
            gate.gateway._parser.submit(is_free.wait, 10)
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m", stream=True, user="u" * 300_000))
            await until(lambda: gate.gateway.open_streams == 1)
            leave(client)
            (record,) = await gate.settled()
        is_free.set()
        assert_gone(record, status=499)
        assert_free(record)
        assert record.attempts == []
        assert up.accepted == 0


@every_way
async def test_a_caller_that_leaves_while_it_waits_for_a_connection(leave: Leave) -> None:
    finish = asyncio.Event()
    script: list[Step] = [
        Head(),
        Send(b"".join(openai_frames()[:2])),
        Wait(finish),
        Send(b"".join(openai_frames()[2:])),
    ]
    async with (
        gateway_to([*script, End()], provider="max_connections = 1") as (gate, up),
        await gate.connect() as first,
        await gate.connect() as second,
    ):
        await first.send(chat_request(model="up/m", stream=True))
        await up.seen(1)
        await second.send(chat_request(model="up/m", stream=True))
        await until(lambda: gate.gateway.runtime.providers["up"].upstream.waiting == 1)  # type: ignore[attr-defined]
        leave(second)
        (record,) = await gate.settled()
        assert_gone(record, status=499)
        assert_free(record)
        finish.set()
        assert text_of((await first.response()).body) == "".join(TEXTS)
        await gate.settled(2)
        assert len(up.requests) == 1


@every_way
async def test_a_caller_that_leaves_while_the_connection_is_made(leave: Leave) -> None:
    with black_hole() as port:
        hole = f'[[providers]]\nname = "hole"\nkind = "openai"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        async with gateway_to(in_turn(), hole) as (gate, _):
            upstream = gate.gateway.runtime.providers["hole"].upstream
            async with await gate.connect() as client:
                await client.send(chat_request(model="hole/m", stream=True))
                await until(lambda: upstream.in_use == 1)  # type: ignore[attr-defined]
                leave(client)
                (record,) = await gate.settled()
            assert_gone(record, status=499)
            assert_free(record)


@every_way
async def test_a_caller_that_leaves_between_two_attempts(leave: Leave) -> None:
    failed = whole(error_body("try later"), status=503, headers=[("retry-after", "2")])
    async with gateway_to(in_turn(failed), "[server.timeouts]\ncommit_s = 60") as (gate, up):
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m", stream=True))
            await up.played(1)
            await until(lambda: gate.gateway.runtime.providers["up"].upstream.in_use == 0)  # type: ignore[attr-defined]
            leave(client)
            (record,) = await gate.settled()
        assert_gone(record, status=499)
        assert_free(record)
        assert [attempt.error for attempt in record.attempts] == ["upstream_overloaded"]


@every_way
async def test_a_caller_that_leaves_in_the_middle_of_its_body(leave: Leave) -> None:
    async with gateway_to(in_turn()) as (gate, up):
        async with await gate.connect() as client:
            await client.send(chat_request(model="up/m", headers=(("expect", "100-continue"),)).partition(b"{")[0])
            assert (await client.response()).status == 100
            await client.send(b'{"model"')
            leave(client)
            (record,) = await gate.settled()
        assert_gone(record, status=499)
        assert_free(record)
        assert (record.key, record.path) == ("test", "/v1/chat/completions")
        assert up.accepted == 0


@every_way
@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat/comp", b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n"])
async def test_a_caller_that_leaves_before_its_head_is_whole_has_asked_for_nothing(leave: Leave, sent: bytes) -> None:
    async with gateway_to(in_turn()) as (gate, up):
        async with await gate.connect() as client:
            await client.send(sent)
            await until(lambda: gate.gateway.server.connections == 1)
            leave(client)
            await gate.gateway.server.emptied()
        assert gate.records == []
        assert up.accepted == 0


# C2: before the first token.


@every_way
@pytest.mark.parametrize(
    "script", [[Hang()], [Head(), Hang()], [Head(), Send(openai_frames()[0]), Hang()]], ids=["silent", "head", "role"]
)
@pytest.mark.parametrize("stops_billing", ["true", "false"])
async def test_a_caller_that_leaves_before_the_first_token(
    leave: Leave, script: list[Step], stops_billing: str
) -> None:
    billing = f"cancel_stops_billing = {stops_billing}"
    async with gateway_to(script, provider=billing) as (gate, up), await gate.connect() as client:
        await client.send(chat_request(model="up/m", stream=True))
        await up.seen(1)
        await until(lambda: up.body_sent == sum(len(step.data) for step in script if isinstance(step, Send)))
        leave(client)
        await up.aborted(1)
        (record,) = await gate.settled()
        assert_gone(record, status=499)
        assert (counted(record), record.usage_source) == ((PROMPT_TOKENS, 0), UsageSource.ESTIMATE)


@every_way
async def test_a_caller_that_leaves_with_more_behind_its_request_than_is_kept(leave: Leave) -> None:
    behind = b"GET /health HTTP/1.1\r\nhost: gateway\r\n\r\n" * 3000
    async with gateway_to([Hang()]) as (gate, up), await gate.connect() as client:
        await client.send(chat_request(model="up/m", stream=False) + behind)
        await up.seen(1)
        leave(client)
        await up.aborted(1)
        (record,) = await gate.settled()
        assert_gone(record, status=499)


async def test_an_upstream_that_refused_charges_nothing_to_a_caller_that_left() -> None:
    body = error_body("try later")
    script: list[Step] = [Head(503, "application/json", framing=len(body)), Send(body[:10]), Hang()]
    async with gateway_to(script) as (gate, up), await gate.connect() as client:
        await client.send(chat_request(model="up/m", stream=True))
        await until(lambda: up.body_sent == 10)
        await gate.has_read()
        client.close()
        await up.aborted(1)
        (record,) = await gate.settled()
        assert_gone(record, status=499)
        assert_free(record)


# C3: in the midst of the answer.


@every_way
@pytest.mark.parametrize("dialect", ["openai", "opentoken", "aivene", "bitseek", "messages", "responses"])
async def test_a_caller_that_leaves_in_the_middle(leave: Leave, dialect: str) -> None:
    script: list[Step] = [Head(), Send(b"".join(openai_frames()[:4])), Hang()]
    async with gateway_to(script) as (gate, up), await gate.connect() as client:
        await client.send(chat_request(path=path_of(dialect), model="up/m", stream=True))
        assert (await client.head()).status == 200
        await client.read_until(b" the")
        leave(client)
        await up.aborted(1)
        (record,) = await gate.settled()
        assert_gone(record, status=200)
        assert (counted(record), record.usage_source) == ((PROMPT_TOKENS, 4), UsageSource.ESTIMATE)
        assert record.error is None
        assert gate.gateway.runtime.providers["up"].upstream.idle == 0  # type: ignore[attr-defined]


async def test_a_report_from_the_beginning_of_an_answer_is_not_its_usage() -> None:
    """Anthropic says `output_tokens: 1` before it has said a word."""
    texts = ["0123456789ab"] * 10
    script: list[Step] = [Head(), Send(b"".join(anthropic_frames(texts)[:12])), Hang()]
    async with gateway_to(script, kind="anthropic") as (gate, up), await gate.connect() as client:
        await client.send(chat_request(model="up/m", stream=True))
        for _ in texts:
            await client.read_until(texts[0].encode())
        client.reset()
        await up.aborted(1)
        (record,) = await gate.settled()
        assert_gone(record, status=200)
        assert (counted(record), record.usage_source) == ((USAGE[0], 30), UsageSource.ESTIMATE)


# C4, C5: at its end.


@every_way
@pytest.mark.parametrize("dialect", ["openai", "aivene"], ids=["passed", "translated"])
@pytest.mark.parametrize("asks", [True, False], ids=["asks for usage", "does not"])
async def test_the_usage_is_waited_for_when_the_caller_leaves_before_it(leave: Leave, dialect: str, asks: bool) -> None:
    frames, send_usage = openai_frames(), asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(frames[:-2])), Wait(send_usage), Send(b"".join(frames[-2:])), End()]
    async with gateway_to(script) as (gate, up), await gate.connect() as client:
        options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asks else {}
        await client.send(chat_request(path=f"/{dialect}/v1/chat/completions", model="up/m", stream=True, **options))
        await client.read_until(b'"."')
        leave(client)
        await until(lambda: gate.gateway.abandoned == 1)
        send_usage.set()
        (record,) = await gate.settled()
        assert_gone(record, status=200)
        assert (counted(record), record.usage_source) == (USAGE, UsageSource.PROVIDER)
        assert up.aborts == []


@pytest.mark.parametrize("dialect", ["openai", "aivene"], ids=["passed", "translated"])
async def test_the_usage_is_not_waited_for_longer_than_the_grace(dialect: str) -> None:
    script: list[Step] = [Head(), Send(b"".join(openai_frames()[:-2])), Hang()]
    grace = "[server.timeouts]\nsilence_s = 0.05"
    async with gateway_to(script, grace) as (gate, up), await gate.connect() as client:
        await client.send(chat_request(path=f"/{dialect}/v1/chat/completions", model="up/m", stream=True))
        await client.read_until(b'"."')
        client.close()
        await up.aborted(1)
        (record,) = await gate.settled()
        assert_gone(record, status=200)
        assert (counted(record), record.usage_source) == ((PROMPT_TOKENS, 5), UsageSource.ESTIMATE)


@every_way
@pytest.mark.parametrize("dialect", ["openai", "aivene"], ids=["passed", "translated"])
async def test_a_caller_that_leaves_between_the_usage_and_the_end(leave: Leave, dialect: str) -> None:
    script: list[Step] = [Head(), Send(b"".join(openai_frames()[:-1])), Hang()]
    grace = "[server.timeouts]\nsilence_s = 0.2"
    async with gateway_to(script, grace) as (gate, up), await gate.connect() as client:
        await client.send(chat_request(path=f"/{dialect}/v1/chat/completions", model="up/m", stream=True))
        await client.read_until(b'"."')
        leave(client)
        await up.aborted(1)
        (record,) = await gate.settled()
        assert record.verdict is Verdict.CLIENT_GONE
        assert (counted(record), record.usage_source) == (USAGE, UsageSource.PROVIDER)


async def test_an_upstream_that_breaks_while_its_usage_is_waited_for() -> None:
    frames, broken = openai_frames(), asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(frames[:-1])), Wait(broken), Fin()]
    async with gateway_to(script) as (gate, _), await gate.connect() as client:
        await client.send(chat_request(model="up/m", stream=True))
        await client.read_until(b'"."')
        client.close()
        await until(lambda: gate.gateway.abandoned == 1)
        broken.set()
        (record,) = await gate.settled()
        assert_gone(record, status=200)
        assert (counted(record), record.usage_source) == (USAGE, UsageSource.PROVIDER)


# C7: the sending side alone, behind an answer that is already whole.


async def test_a_half_close_behind_the_answer_is_no_leaving() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _), await gate.connect() as client:
        await client.send(chat_request(model="up/m"))
        await gate.settled()
        client.half_close()
        assert (await client.response()).status == 200
        assert await client.is_closed()
        assert [record.verdict for record in gate.records] == [Verdict.COMPLETED]


# C33: a caller that asked for a whole answer.


@every_way
@pytest.mark.parametrize("sent", [0, 20], ids=["silent", "half of it"])
async def test_a_caller_of_a_whole_answer_that_leaves(leave: Leave, sent: int) -> None:
    body = openai_whole()
    begun: list[Step] = [Head(200, "application/json", framing=len(body)), Send(body[:sent])] if sent else []
    async with gateway_to([*begun, Hang()]) as (gate, up), await gate.connect() as client:
        await client.send(chat_request(model="up/m"))
        await up.seen(1)
        await until(lambda: up.body_sent == sent)
        leave(client)
        await up.aborted(1)
        (record,) = await gate.settled()
        assert_gone(record, status=499)
        assert (counted(record), record.usage_source) == ((PROMPT_TOKENS, 0), UsageSource.ESTIMATE)
