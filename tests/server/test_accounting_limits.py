"""Rate, token and concurrency limits: what is refused, and the headers about limits (C25).

A refusal has a time to retry, leaves one row and costs nothing. An admitted request gets what remains of its minute,
whether its answer is streamed, whole or an error.
"""

import asyncio
import re
from pathlib import Path

import pytest

from support.accounting_gateway import MILLI, PROMPT, AccountingSetup, answers, error_of, keeping, path_of
from support.answers import error_body, openai_frames, openai_stream, openai_whole
from support.gateway import Gate, chat_request
from support.raw_client import Reply
from support.script import End, Hang, Head, Send, Step, Wait, in_turn, whole

each_voice = pytest.mark.parametrize(
    ("dialect", "is_streamed"),
    [("openai", True), ("openai", False), ("opentoken", True), ("aivene", False), ("bitseek", True)],
)

Windows = dict[str, tuple[int, int]]


def windows(reply: Reply) -> Windows:
    """Limit and remainder of each window that the answer tells of. All of a minute is there again within one."""
    found: Windows = {}
    for what in ("requests", "tokens"):
        limit = reply.header(f"x-ratelimit-limit-{what}")
        remaining = reply.header(f"x-ratelimit-remaining-{what}")
        reset = reply.header(f"x-ratelimit-reset-{what}")
        assert (limit is None) == (remaining is None) == (reset is None)
        if limit is not None and remaining is not None and reset is not None:
            assert re.fullmatch(r"\d+\.\d{3}s", reset)
            assert 0 <= float(reset[:-1]) <= 61
            found[what] = int(limit), int(remaining)
    return found


def rate_words(dialect: str, code: str) -> dict[str, object]:
    kind = "rate_limit_error"
    members: dict[str, dict[str, object]] = {
        "openai": {"type": kind, "param": None, "code": code},
        "opentoken": {"type": kind, "code": code},
        "aivene": {"type": kind},
        "bitseek": {"type": kind, "code": code},
    }
    return members[dialect]


def assert_refused(
    reply: Reply,
    dialect: str,
    code: str,
    message: str,
    wait_s: range,
    tokens: tuple[int, ...] = (),
    requests: tuple[int, ...] = (),
) -> None:
    """`tokens`: the limit, what is used of it and, if that is known, what is needed. `requests`: the first two."""
    assert reply.status == 429
    assert reply.header("x-should-retry") is None, "429 is what clients wait for"
    retry_after = reply.header("retry-after")
    assert retry_after is not None
    assert int(retry_after) in wait_s
    error = error_of(reply)
    if tokens or requests:
        message += f" Try again in {retry_after} s."
        if dialect == "openai":
            names = ("limit_tokens", "used_tokens", "needed_tokens") if tokens else ("limit_requests", "used_requests")
            expected = dict(zip(names, tokens or requests, strict=False)) | {"retry_after_s": int(retry_after)}
            assert error.pop("rate_limit") == expected
    assert error == {"message": message, **rate_words(dialect, code)}
    assert next(iter(error)) == "message"


async def assert_one_row_each(setup: AccountingSetup, refused: int, code: str) -> None:
    """Nothing was charged for what was refused, and the upstream has not seen it."""
    rows = await setup.rows()
    assert [row.error for row in rows].count(code) == refused
    for row in rows:
        if row.error is not None:
            assert (row.verdict, row.status, row.price, row.attempts) == ("rejected", 429, None, [])
            assert await setup.ledger(row.request_id) == []
    assert len(setup.up.requests) == len(rows) - refused


@each_voice
async def test_requests_per_minute(dialect: str, is_streamed: bool, tmp_path: Path) -> None:
    async with keeping(answers(is_streamed), tmp_path) as setup:
        secret = await setup.new_key(rpm=2)
        for left in (1, 0):
            reply = await setup.gate.ask(path=path_of(dialect), key=secret, model="m", stream=is_streamed)
            assert (reply.status, windows(reply)) == (200, {"requests": (2, left)})
            assert reply.header("retry-after") is None
        for _ in range(2):
            reply = await setup.gate.ask(path=path_of(dialect), key=secret, model="m", stream=is_streamed)
            message = "Rate limit reached: 2 requests per minute. Used in the last minute: 2."
            assert_refused(reply, dialect, "rate_limit_exceeded", message, range(50, 62), requests=(2, 2))
            assert windows(reply) == {"requests": (2, 0)}
        await assert_one_row_each(setup, 2, "rate_limit_exceeded")


@each_voice
async def test_tokens_per_minute(dialect: str, is_streamed: bool, tmp_path: Path) -> None:
    """As estimated while it runs, as they were when it is over: 12, of which it may use 24."""
    async with keeping(answers(is_streamed), tmp_path) as setup:
        secret = await setup.new_key(tpm=24)
        path = path_of(dialect)
        first = await setup.gate.ask(path=path, key=secret, model="m", stream=is_streamed, max_tokens=20)
        assert (first.status, windows(first)) == (200, {"tokens": (24, 24 - PROMPT - 20)})
        await setup.gate.settled(1)
        refused = await setup.gate.ask(path=path, key=secret, model="m", stream=is_streamed, max_tokens=10)
        message = (
            "Rate limit reached: 24 tokens per minute. Used in the last minute: {}. This request needs at least {}."
        )
        assert_refused(refused, dialect, "rate_limit_exceeded", message.format(12, 13), range(50, 62), (24, 12, 13))
        assert windows(refused) == {"tokens": (24, 12)}
        second = await setup.gate.ask(path=path, key=secret, model="m", stream=is_streamed, max_tokens=9)
        assert (second.status, windows(second)) == (200, {"tokens": (24, 0)})
        await setup.gate.settled(3)
        refused = await setup.gate.ask(path=path, key=secret, model="m", stream=is_streamed, max_tokens=1)
        message = "Rate limit reached: 24 tokens per minute. Used in the last minute: 24."  # before its size is known
        assert_refused(refused, dialect, "rate_limit_exceeded", message, range(50, 62), (24, 24))
        await assert_one_row_each(setup, 2, "rate_limit_exceeded")


async def test_a_request_that_asks_for_more_than_a_minute_has_may_have_all_of_it(tmp_path: Path) -> None:
    async with keeping(answers(is_streamed=False), tmp_path) as setup:
        secret = await setup.new_key(tpm=24, rpm=10)
        reply = await setup.gate.ask(key=secret, model="m", max_tokens=1000)
        assert (reply.status, windows(reply)) == (200, {"requests": (10, 9), "tokens": (24, 0)})


@each_voice
async def test_parallel_streams(dialect: str, is_streamed: bool, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    body = openai_stream() if is_streamed else openai_whole()
    head = Head() if is_streamed else Head(200, "application/json")
    async with keeping([head, Wait(go_on), Send(body), End()], tmp_path) as setup:
        secret = await setup.new_key(max_streams=2, rpm=100)
        request = chat_request(path=path_of(dialect), key=secret, model="m", stream=is_streamed)
        clients = [await setup.gate.connect() for _ in range(2)]
        for client in clients:
            await client.send(request)
        await setup.up.seen(2)
        for _ in range(2):
            refused = await setup.gate.ask(path=path_of(dialect), key=secret, model="m", stream=is_streamed)
            message = "Concurrency limit reached: 2 requests at the same time."
            assert_refused(refused, dialect, "concurrency_limit_exceeded", message, range(1, 2))
            assert windows(refused) == {"requests": (100, 98)}
        other = await setup.new_key("other", max_streams=1)
        third = await setup.gate.connect()
        await third.send(chat_request(path=path_of(dialect), key=other, model="m", stream=is_streamed))
        await setup.up.seen(3)
        go_on.set()
        for client in (*clients, third):
            assert (await client.response()).status == 200
            client.close()
        await setup.gate.settled(5)
        assert (await setup.gate.ask(path=path_of(dialect), key=secret, model="m", stream=is_streamed)).status == 200
        await assert_one_row_each(setup, 2, "concurrency_limit_exceeded")


async def test_a_slot_is_free_again_for_any_end_of_a_request(tmp_path: Path) -> None:
    begun: list[Step] = [Head(), Send(b"".join(openai_frames()[:3])), Hang()]
    scripts = in_turn(whole(error_body("no"), 400), begun, whole(openai_whole()))
    async with keeping(scripts, tmp_path) as setup:
        secret = await setup.new_key(max_streams=1)
        assert (await setup.gate.ask(key=secret, model="m")).status == 400
        async with await setup.gate.connect() as client:
            await client.send(chat_request(key=secret, model="m", stream=True))
            await client.head()
            client.reset()
        await setup.gate.settled(2)
        assert (await setup.gate.ask(key=secret, model="m")).status == 200


async def test_the_rest_is_returned_with_an_error_too(tmp_path: Path) -> None:
    async with keeping(whole(error_body("no such thing"), 400), tmp_path) as setup:
        secret = await setup.new_key(rpm=5, tpm=1000, budget_nano=1000 * MILLI)
        reply = await setup.gate.ask(key=secret, model="m", max_tokens=10)
        assert (reply.status, windows(reply)) == (400, {"requests": (5, 4), "tokens": (1000, 1000 - PROMPT - 10)})
        await setup.change(secret, budget_nano=0)
        reply = await setup.gate.ask(key=secret, model="m", max_tokens=10)
        assert (reply.status, windows(reply)) == (429, {"requests": (5, 4), "tokens": (1000, 1000)})
        assert reply.header("retry-after") is None, "no time helps"


async def test_without_limits_there_are_no_headers(tmp_path: Path) -> None:
    async with keeping(answers(is_streamed=True), tmp_path) as setup:
        assert windows(await setup.gate.ask(model="m", stream=True)) == {}


async def test_a_limit_is_seen_by_the_head_alone(tmp_path: Path) -> None:
    """So the body of what cannot be let in is never read, nor asked for."""
    async with keeping(answers(is_streamed=False), tmp_path) as setup:
        secret = await setup.new_key(rpm=1)
        assert (await setup.gate.ask(key=secret, model="m")).status == 200
        reply = await _head_only(setup.gate, secret)
        message = "Rate limit reached: 1 requests per minute. Used in the last minute: 1."
        assert_refused(reply, "openai", "rate_limit_exceeded", message, range(62), requests=(1, 1))
        await assert_one_row_each(setup, 1, "rate_limit_exceeded")


async def _head_only(gate: Gate, secret: str) -> Reply:
    head = chat_request(key=secret, model="m", headers=(("expect", "100-continue"),)).partition(b"\r\n\r\n")[0]
    async with await gate.connect() as client:
        await client.send(head + b"\r\n\r\n")
        return await client.response()
