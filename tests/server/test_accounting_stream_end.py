"""Streams that the gateway ends: because of money (C24), a revoked key (C23), or an operator.

The caller gets an error at once, in the format of the dialect, and nothing more. An upstream that still bills is
drained for its usage; otherwise it is aborted, and what was delivered is counted. Either way there is one settlement,
and the target's health does not change.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from streamweir.store.db.clock import now_ms
from streamweir.store.requests.live import cancel
from streamweir.store.requests.requests import RequestRow
from support.accounting_gateway import (
    EACH_DIALECT,
    MILLI,
    MODEL,
    AccountingSetup,
    error_of,
    keeping,
    max_prompt,
    path_of,
)
from support.answers import TEXTS, anthropic_frames, openai_frames, openai_stream, openai_whole
from support.gateway import chat_request, frames_of, text_of, until
from support.program_deadlines import LONG_INTERVALS
from support.raw_client import RawClient
from support.script import End, Hang, Head, Script, Send, Step, Wait, stream, whole

each_dialect = pytest.mark.parametrize("dialect", EACH_DIALECT)
each_bill = pytest.mark.parametrize("bills_on", [True, False], ids=["bills on", "stops billing"])

LONG = [f" word{number:05}" for number in range(500)]
USED = (7, 1000)
HOLD = "hold_tokens = 10"
BUDGET = (max_prompt(model="m", stream=True) + 10) * MILLI
"""For the first hold, and not a token more."""
MOST_DELIVERED = 16 * 10 + 1024
"""Characters: as many as ten tokens can be, and as many as may pass between two looks."""


def billing(bills_on: bool) -> str:
    return f"cancel_stops_billing = {'false' if bills_on else 'true'}\n"


def assert_told(body: bytes, dialect: str, words: dict[str, Any]) -> str:
    """That it ends with this error, and in no other way. Gives the text before it."""
    documents = frames_of(body)
    if dialect != "bitseek":
        assert documents.pop() == "[DONE]"
    last = documents.pop()
    assert last["error"] == words
    assert list(last["error"]) == list(words)
    if dialect == "bitseek":
        assert list(last) == ["id", "object", "created", "model", "choices", "error"]
        assert (last["id"], last["choices"]) == (documents[0]["id"], [])
    else:
        assert list(last) == ["error"]
    assert all(choice["finish_reason"] is None for each in documents for choice in each["choices"])
    assert all(each.get("usage") is None for each in documents)
    return text_of(b"".join(block + b"\n\n" for block in body.split(b"\n\n")[: len(documents)]))


BROKE: dict[str, dict[str, Any]] = {
    "openai": {
        "message": "The spend limit is reached. The answer was cut.",
        "type": "insufficient_quota",
        "param": None,
        "code": "budget_exceeded",
    },
    "opentoken": {
        "message": "api key spend limit exceeded",
        "type": "invalid_request_error",
        "code": "spend_limit_exceeded",
    },
    "aivene": {"message": "api key spend limit exceeded", "type": "stream_error"},
    "bitseek": {
        "message": "The spend limit is reached. The answer was cut.",
        "type": "insufficient_quota",
        "code": "budget_exceeded",
    },
}


def piecewise(bills_on: bool) -> list[Step]:
    frames = openai_frames(LONG, usage=USED)
    if bills_on:
        return [Head(), *(Send(frame) for frame in frames), End()]
    return [Head(), *(Send(frame) for frame in frames[:-3]), Hang()]


async def assert_stopped(setup: AccountingSetup, row: RequestRow, code: str, status: int) -> None:
    assert (row.verdict, row.error, row.status) == ("stopped", code, status)
    assert [kind for kind, _, _ in await setup.ledger(row.request_id)] == ["hold", "settle"]
    assert row.attempts[0]["error"] is None, "the target has done nothing wrong"
    assert len(row.attempts) == 1


@each_dialect
@each_bill
async def test_an_answer_beyond_hold_and_balance_is_cut(dialect: str, bills_on: bool, tmp_path: Path) -> None:
    async with keeping(piecewise(bills_on), tmp_path, provider=billing(bills_on), store=HOLD) as setup:
        secret = await setup.new_key(budget_nano=BUDGET)
        reply = await setup.gate.ask(path=path_of(dialect), key=secret, model="m", stream=True)
        assert reply.status == 200
        text = assert_told(reply.body, dialect, BROKE[dialect])
        assert "".join(LONG).startswith(text)
        assert 0 < len(text) <= MOST_DELIVERED
        row = await setup.row()
        await assert_stopped(setup, row, "budget_exceeded", 200)
        if bills_on:
            assert (row.usage_source, row.prompt_tokens, row.completion_tokens) == ("provider", *USED)
            assert setup.up.aborts == []
        else:
            assert row.usage_source == "tokenizer"
            assert 0 < (row.completion_tokens or 0) <= len(text)
            await setup.up.aborted(1)
        assert row.price == ((row.prompt_tokens or 0) + (row.completion_tokens or 0)) * MILLI
        assert setup.up.requests[0].json["max_completion_tokens"] == 10, "it was told its limit, and did not keep it"
        assert row.flags == (["max_tokens_set", "over_reserved"] if bills_on else ["max_tokens_set"])
        if bills_on:
            refused = await setup.gate.ask(path=path_of(dialect), key=secret, model="m", max_tokens=1)
            assert refused.status == (402 if dialect == "aivene" else 429)
            assert len(setup.up.requests) == 1


async def test_an_upstream_that_does_not_keep_the_callers_limit_is_cut(tmp_path: Path) -> None:
    async with keeping(piecewise(bills_on=True), tmp_path, provider=billing(bills_on=True)) as setup:
        budget = (max_prompt(model="m", stream=True, max_tokens=10) + 10) * MILLI
        secret = await setup.new_key(budget_nano=budget)
        reply = await setup.gate.ask(key=secret, model="m", stream=True, max_tokens=10)
        assert len(assert_told(reply.body, "openai", BROKE["openai"])) <= MOST_DELIVERED
        row = await setup.row()
        await assert_stopped(setup, row, "budget_exceeded", 200)
        assert (row.held, row.price, row.flags) == (budget, sum(USED) * MILLI, ["over_reserved"])


@pytest.mark.parametrize("dialect", EACH_DIALECT)
async def test_a_whole_answer_that_is_billed_is_delivered(dialect: str, tmp_path: Path) -> None:
    """Though the provider did not keep the limit that it was told: nothing is saved by throwing it away."""
    answer = whole(openai_whole("".join(LONG), usage=USED))
    async with keeping(answer, tmp_path, store=HOLD) as setup:
        secret = await setup.new_key(budget_nano=BUDGET, rpm=5)
        reply = await setup.gate.ask(path=path_of(dialect), key=secret, model="m")
        assert reply.status == 200
        assert LONG[-1] in reply.body.decode()
        row = await setup.row()
        assert (row.verdict, row.usage_source, row.price) == ("completed", "provider", sum(USED) * MILLI)
        told = setup.up.requests[0].json["max_completion_tokens"]
        assert 10 <= told <= 20, "what the budget pays for"
        assert row.flags == ["max_tokens_set", "over_reserved"]
        assert (await setup.gate.ask(path=path_of(dialect), key=secret, model="m")).status in (402, 429)


async def test_a_whole_answer_that_comes_as_a_stream_is_cut_as_it_grows(tmp_path: Path) -> None:
    """Not asked for, and told long before its end that it is longer than what is paid for."""
    frames, sent = openai_frames(["word " * 50] * 400), list[int]()

    def count(number: int) -> Step:
        async def step(_: object) -> None:
            sent.append(number)

        return step

    steps = [step for number, frame in enumerate(frames) for step in (Send(frame), count(number))]
    async with keeping([Head(), *steps, End()], tmp_path) as setup:
        secret = await setup.new_key(budget_nano=2000 * MILLI)
        reply = await setup.gate.ask(key=secret, model="m", max_tokens=20)
        assert error_of(reply)["code"] == "budget_exceeded"
        (record,) = await setup.gate.settled()
        assert record.held is not None
        assert (record.price or 0) <= record.held <= 2000 * MILLI
        assert len(sent) < len(frames) // 4


SHORT = LONG[:20]
"""50 tokens, by the rule of thumb: few enough to be read at once."""


async def test_an_answer_that_comes_in_one_piece_is_delivered(tmp_path: Path) -> None:
    """All of it is there, and will be billed."""
    async with keeping(stream(openai_stream(SHORT, usage=USED)), tmp_path, store=HOLD) as setup:
        secret = await setup.new_key(budget_nano=BUDGET)
        reply = await setup.gate.ask(key=secret, model="m", stream=True)
        assert (reply.status, text_of(reply.body)) == (200, "".join(SHORT))
        row = await setup.row()
        assert (row.verdict, row.usage_source, row.price) == ("completed", "provider", sum(USED) * MILLI)


@each_dialect
async def test_so_is_an_end_that_comes_in_one_piece(dialect: str, tmp_path: Path) -> None:
    """The upstream was done in the same moment."""
    frames, go_on = openai_frames(SHORT, usage=USED), asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(frames[:3])), Wait(go_on), Send(b"".join(frames[3:])), End()]
    async with keeping(script, tmp_path, store=HOLD) as setup, await setup.gate.connect() as client:
        secret = await setup.new_key(budget_nano=BUDGET)
        await client.send(chat_request(path=path_of(dialect), key=secret, model="m", stream=True))
        body = await begun(client, SHORT[1])
        go_on.set()
        body += await client.rest()
        assert text_of(body) == "".join(SHORT)
        row = await setup.row()
        assert (row.verdict, row.usage_source, row.price) == ("completed", "provider", sum(USED) * MILLI)
        assert setup.up.aborts == []


async def test_what_was_cut_does_not_count_against_the_target(tmp_path: Path) -> None:
    """Five failures in a row would eject it."""
    async with keeping(piecewise(bills_on=False), tmp_path, provider=billing(bills_on=False), store=HOLD) as setup:
        for number in range(6):
            secret = await setup.new_key(f"key {number}", budget_nano=BUDGET)
            reply = await setup.gate.ask(key=secret, model="m", stream=True)
            assert reply.status == 200
        metrics = setup.gate.gateway.metrics_text().decode()
        assert 'outcome="stopped"' in metrics
        assert len(setup.up.requests) == 6


async def test_a_translated_stream_is_cut_as_well(tmp_path: Path) -> None:
    frames = anthropic_frames(LONG, usage=USED)
    script: list[Step] = [Head(), *(Send(frame) for frame in frames), End()]
    model = MODEL.replace("gpt-4o", "claude")
    async with keeping(script, tmp_path, model, kind="anthropic", provider=billing(bills_on=True), store=HOLD) as setup:
        secret = await setup.new_key(budget_nano=BUDGET)
        reply = await setup.gate.ask(key=secret, model="m", stream=True)
        assert len(assert_told(reply.body, "openai", BROKE["openai"])) <= MOST_DELIVERED
        row = await setup.row()
        assert (row.usage_source, row.price) == ("provider", sum(USED) * MILLI)


async def test_the_balance_of_a_workspace_cuts_too(tmp_path: Path) -> None:
    async with keeping(piecewise(bills_on=True), tmp_path, provider=billing(bills_on=True), store=HOLD) as setup:
        workspace = await setup.new_workspace("paid", BUDGET)
        secret = await setup.new_key("paid", workspace)
        reply = await setup.gate.ask(key=secret, model="m", stream=True)
        assert len(assert_told(reply.body, "openai", BROKE["openai"])) <= MOST_DELIVERED
        await setup.gate.settled()
        assert await setup.spent_and_held(workspace) == (sum(USED) * MILLI, 0)


# A revoked key, and an operator who wants a stream ended.

REVOKED: dict[str, dict[str, Any]] = {
    "openai": {
        "message": "The API key has been revoked.",
        "type": "invalid_request_error",
        "param": None,
        "code": "key_revoked",
    },
    "opentoken": {"message": "invalid api key", "type": "authentication_error", "code": "invalid_key"},
    "aivene": {"message": "The API key has been revoked.", "type": "stream_error"},
    "bitseek": {"message": "The API key has been revoked.", "type": "invalid_request_error", "code": "key_revoked"},
}
UNWANTED: dict[str, dict[str, Any]] = {
    "openai": {
        "message": "The request was stopped by the operator.",
        "type": "server_error",
        "param": None,
        "code": "stopped_by_operator",
    },
    "opentoken": {
        "message": "The request was stopped by the operator.",
        "type": "server_error",
        "code": "stopped_by_operator",
    },
    "aivene": {"message": "The request was stopped by the operator.", "type": "stream_error"},
    "bitseek": {
        "message": "The request was stopped by the operator.",
        "type": "server_error",
        "code": "stopped_by_operator",
    },
}
ENDINGS = {"key_revoked": REVOKED, "stopped_by_operator": UNWANTED}


async def end_it(setup: AccountingSetup, code: str, secret: str) -> None:
    """As another process does it; this one finds out by itself."""
    if code == "key_revoked":
        await setup.revoke(secret)
        return
    (request_id,) = await setup.open_ids()
    assert await setup.write(lambda conn: cancel(conn, request_id, None, now_ms()))


async def begun(client: RawClient, mark: str) -> bytes:
    """The body as far as this text."""
    await client.head()
    body = b""
    while mark.encode() not in body:
        body += await client.chunk()
    return body


def in_the_midst(go_on: asyncio.Event) -> list[Step]:
    frames = openai_frames()
    return [Head(), Send(b"".join(frames[:3])), Wait(go_on), Send(b"".join(frames[3:])), End()]


@pytest.mark.parametrize(
    ("dialect", "bills_on"),
    [("openai", True), ("openai", False), ("opentoken", False), ("aivene", True), ("bitseek", False)],
)
@pytest.mark.parametrize("code", ENDINGS)
@pytest.mark.diagonal
async def test_a_stream_that_is_ended(code: str, bills_on: bool, dialect: str, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with keeping(in_the_midst(go_on), tmp_path, provider=billing(bills_on)) as setup:
        secret, other = await setup.new_key("one", max_streams=1), await setup.new_key("other")
        clients = [await setup.gate.connect() for _ in range(2)]
        bodies = []
        for client, key in zip(clients, (secret, other), strict=True):
            await client.send(chat_request(path=path_of(dialect), key=key, model="m", stream=True))
            bodies.append(await begun(client, TEXTS[1]))
            if key == secret:
                await end_it(setup, code, secret)
        body = bodies[0] + await clients[0].rest()
        assert assert_told(body, dialect, ENDINGS[code][dialect]) == "".join(TEXTS[:2])
        go_on.set()
        bodies[1] += await clients[1].rest()
        assert text_of(bodies[1]) == "".join(TEXTS), "nobody else's"
        for client in clients:
            client.close()
        await setup.gate.settled(2)
        (row,) = [each for each in await setup.rows() if each.error is not None]
        await assert_stopped(setup, row, code, 200)
        if bills_on:
            assert (row.usage_source, row.prompt_tokens, row.completion_tokens) == ("provider", 7, 5)
        else:
            assert (row.usage_source, row.completion_tokens) == ("tokenizer", 2)
        assert row.price == ((row.prompt_tokens or 0) + (row.completion_tokens or 0)) * MILLI


@pytest.mark.parametrize(
    ("code", "is_streamed", "bills_on"),
    [
        ("key_revoked", True, True),
        ("key_revoked", False, False),
        ("key_revoked", False, True),
        ("stopped_by_operator", True, False),
        ("stopped_by_operator", False, True),
    ],
)
async def test_an_answer_that_has_not_begun_ends_with_an_error_status(
    code: str, is_streamed: bool, bills_on: bool, tmp_path: Path
) -> None:
    """The question was read, and is billed for."""
    go_on = asyncio.Event()
    body, kind = openai_whole(), "application/json"
    late: Script = [Hang()] if is_streamed else [Head(200, kind), Wait(go_on), Send(body), End()]
    async with keeping(late, tmp_path, provider=billing(bills_on)) as setup, await setup.gate.connect() as client:
        secret = await setup.new_key(rpm=10)
        await client.send(chat_request(key=secret, model="m", stream=is_streamed))
        await setup.up.seen(1)
        await until(lambda: _has_head(setup) or is_streamed)
        await end_it(setup, code, secret)
        reply = await client.response()
        assert error_of(reply) == ENDINGS[code]["openai"]
        assert reply.status == (401 if code == "key_revoked" else 503)
        go_on.set()
        row = await setup.row()
        await assert_stopped(setup, row, code, reply.status)
        if bills_on and not is_streamed:
            assert (row.usage_source, row.price) == ("provider", 12 * MILLI)
        else:
            assert (row.usage_source, row.completion_tokens) == ("tokenizer", 0)
            assert row.price == (row.prompt_tokens or 0) * MILLI > 0


def _has_head(setup: AccountingSetup) -> bool:
    (handler,) = setup.gate.gateway._requests._tasks
    return handler._relay is not None and handler._relay._upstream.status == 200


@pytest.mark.parametrize("code", ENDINGS)
async def test_it_is_noticed_without_a_notification(code: str, tmp_path: Path) -> None:
    """Nobody calls: the process looks by itself, every second, or here every few milliseconds."""
    intervals = structs.replace(LONG_INTERVALS, tick_s=0.01)
    async with (
        keeping(in_the_midst(asyncio.Event()), tmp_path, intervals=intervals) as setup,
        await setup.gate.connect() as client,
    ):
        secret = await setup.new_key()
        await client.send(chat_request(key=secret, model="m", stream=True))
        body = await begun(client, TEXTS[1])
        setup.looks = False
        await end_it(setup, code, secret)
        assert assert_told(body + await client.rest(), "openai", ENDINGS[code]["openai"]) == "".join(TEXTS[:2])
        assert (await setup.row()).verdict == "stopped"


async def test_an_expired_key_ends_nothing_that_runs(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with keeping(in_the_midst(go_on), tmp_path) as setup, await setup.gate.connect() as client:
        expires_ms = now_ms() + 200
        secret = await setup.new_key(expires_ms=expires_ms)
        await client.send(chat_request(key=secret, model="m", stream=True))
        body = await begun(client, TEXTS[1])
        await until(lambda: now_ms() > expires_ms)
        assert (await setup.gate.ask(key=secret, model="m")).status == 401
        go_on.set()
        assert text_of(body + await client.rest()) == "".join(TEXTS)
        await setup.gate.settled(2)


@each_bill
@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
async def test_a_caller_does_not_get_an_answer_for_less_by_its_own_timeout(
    is_streamed: bool, bills_on: bool, tmp_path: Path
) -> None:
    """The error comes at once. What the provider bills for the rest is read and paid, as after a disconnect."""
    frames, go_on = openai_frames(SHORT, usage=USED), asyncio.Event()
    script: list[Step] = [Head(), Send(b"".join(frames[:3])), Wait(go_on), Send(b"".join(frames[3:])), End()]
    if not is_streamed:
        script = [Wait(go_on), *whole(openai_whole("".join(SHORT), usage=USED))]
    async with keeping(script, tmp_path, provider=billing(bills_on)) as setup:
        secret = await setup.new_key()
        timeout = (("x-request-timeout", "0.5"),)
        async with await setup.gate.connect() as client:
            await client.send(chat_request(key=secret, headers=timeout, model="m", stream=is_streamed))
            reply = await client.response()
        assert b"stream_deadline_exceeded" in reply.body
        go_on.set()
        row = await setup.row()
        assert (row.verdict, row.error, row.status) == ("deadline", "stream_deadline_exceeded", reply.status)
        assert [attempt["error"] for attempt in row.attempts] == ["stream_deadline_exceeded"]
        if not setup.up.requests or (is_streamed and reply.status == 504):
            return  # on a very slow machine the time is over before the answer has begun
        assert reply.status == (200 if is_streamed else 504)
        if bills_on:
            assert (row.usage_source, row.prompt_tokens, row.completion_tokens) == ("provider", *USED)
            assert setup.up.aborts == []
        else:
            assert row.usage_source == "tokenizer"
            assert (row.completion_tokens or 0) < USED[1]
            await setup.up.aborted(1)
