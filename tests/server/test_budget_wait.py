"""A request waits for money that others hold, and an answer grows slice by slice; a wait ends with whoever waits.

A token costs a thousandth of a dollar, so amounts read as tokens.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamweir.policy.limits.limit_request import LimitRequest
from streamweir.server.accounting.limiter import MemoryLimiter
from streamweir.store.journal.entries import Extend
from support.accounting_gateway import MILLI, AccountingSetup, error_of, keeping, max_prompt
from support.answers import openai_frames, openai_stream, openai_whole
from support.gateway import chat_request, frames_of, until
from support.raw_client import RawClient
from support.script import End, Head, Seen, Send, Step, Wait, stream, whole

WAITS = "budget_wait_s = 600"
SLICED = f"hold_tokens = 64\n{WAITS}"
LARGE = f"hold_tokens = 512\n{WAITS}"
MEMBERS: dict[str, Any] = {"model": "m", "max_tokens": 20}
HELD = max_prompt(**MEMBERS) + 20
STREAM: dict[str, Any] = {"model": "m", "stream": True, "max_tokens": 5000}
WORD = " information"
"""One token."""


def line_of(setup: AccountingSetup) -> int:
    return setup.storage.accounting.budgets.line.waiting


def is_waiting(setup: AccountingSetup, count: int) -> bool:
    return line_of(setup) == count


class Gated:
    """An upstream that answers one request for each time it is told to."""

    def __init__(self) -> None:
        self.gates: list[asyncio.Event] = []

    def script(self, _: Seen) -> Sequence[Step]:
        self.gates.append(asyncio.Event())
        return [Wait(self.gates[-1]), *whole(openai_whole(usage=(7, 5)))]


async def waiting(setup: AccountingSetup, stack: AsyncExitStack, secret: str, count: int) -> list[RawClient]:
    """Requests that wait for the first of them."""
    clients = []
    for number in range(count):
        client = await stack.enter_async_context(await setup.gate.connect())
        await client.send(chat_request(key=secret, **MEMBERS))
        if number:
            await until(partial(is_waiting, setup, number))
        else:
            await setup.up.seen(1)
        clients.append(client)
    return clients


async def test_requests_are_served_in_order_of_arrival(tmp_path: Path) -> None:
    upstream = Gated()
    async with keeping(upstream.script, tmp_path, store=WAITS) as setup, AsyncExitStack() as stack:
        secret = await setup.new_key(budget_nano=(HELD + 2 * 12) * MILLI)
        clients = await waiting(setup, stack, secret, 4)
        for number in range(3):
            await setup.up.seen(number + 1)
            upstream.gates[number].set()
            assert (await clients[number].response()).status == 200
        refused = await clients[3].response()
        assert (refused.status, refused.header("retry-after"), line_of(setup)) == (429, None, 0)
        assert error_of(refused)["budget"]["spent_usd"] == 0.036
        assert len(setup.up.requests) == 3


async def test_a_caller_that_leaves_waits_no_longer(tmp_path: Path) -> None:
    upstream = Gated()
    async with keeping(upstream.script, tmp_path, store=WAITS) as setup, AsyncExitStack() as stack:
        secret = await setup.new_key(budget_nano=HELD * MILLI)
        clients = await waiting(setup, stack, secret, 2)
        clients[1].reset()
        row = await setup.row()
        assert (row.verdict, row.cost, line_of(setup)) == ("client_gone", None, 0)
        upstream.gates[0].set()
        assert (await clients[0].response()).status == 200


async def test_a_revoked_key_waits_no_longer(tmp_path: Path) -> None:
    upstream = Gated()
    async with keeping(upstream.script, tmp_path, store=WAITS) as setup, AsyncExitStack() as stack:
        credit = await setup.new_workspace("paid", HELD * MILLI)
        first, second = await setup.new_key("a", credit), await setup.new_key("b", credit)
        clients = await waiting(setup, stack, first, 1)
        client = await stack.enter_async_context(await setup.gate.connect())
        await client.send(chat_request(key=second, **MEMBERS))
        await until(lambda: line_of(setup) == 1)
        await setup.revoke(second)
        reply = await client.response()
        assert (reply.status, error_of(reply)["code"], line_of(setup)) == (401, "key_revoked", 0)
        upstream.gates[0].set()
        assert (await clients[0].response()).status == 200


async def test_the_end_of_the_process_ends_the_wait(tmp_path: Path) -> None:
    upstream = Gated()
    async with keeping(upstream.script, tmp_path, store=WAITS) as setup, AsyncExitStack() as stack:
        secret = await setup.new_key(budget_nano=HELD * MILLI)
        clients = await waiting(setup, stack, secret, 3)
        setup.gate.gateway.stop_admitting()
        for client in clients[1:]:
            reply = await client.response()
            assert (reply.status, reply.header("retry-after")) == (429, "1")
        upstream.gates[0].set()
        assert (await clients[0].response()).status == 200


async def test_a_budget_that_is_raised_ends_the_wait(tmp_path: Path) -> None:
    upstream = Gated()
    async with keeping(upstream.script, tmp_path, store=WAITS) as setup, AsyncExitStack() as stack:
        secret = await setup.new_key(budget_nano=HELD * MILLI)
        clients = await waiting(setup, stack, secret, 2)
        await setup.change(secret, budget_nano=2 * HELD * MILLI)
        await setup.up.seen(2)
        for gate, client in zip(upstream.gates, clients, strict=True):
            gate.set()
            assert (await client.response()).status == 200


# Slices.


def words(tokens: int, per_frame: int = 16) -> list[bytes]:
    """Frames with so many tokens, without their end."""
    texts = [WORD * min(per_frame, tokens - first) for first in range(0, tokens, per_frame)]
    return openai_frames(texts, (7, tokens), None, done=False)[:-1]


async def seen_once(setup: AccountingSetup, secret: str) -> None:
    """The model is known to show its answers, by those to another key. With a tokenizer, so counts are exact."""
    memory = setup.storage.accounting.budgets.memory
    for _ in range(32):
        memory.note("another", "m", 1024, 1024 * len(WORD), reasons=False)
    await asyncio.to_thread(setup.gate.gateway._requests._vocabularies.load, "o200k_base")
    assert (await setup.gate.ask(key=secret, **STREAM)).status == 200
    await setup.gate.settled(1)


async def test_a_stream_is_reserved_in_slices_that_double(tmp_path: Path) -> None:
    frames = [*words(1000), *openai_frames([], (7, 1000))[1:]]
    scripts: Iterator[Sequence[Step]] = iter(
        [stream(openai_stream([WORD] * 50, (7, 50))), [Head(), *map(Send, frames), End()]]
    )
    async with keeping(lambda _: next(scripts), tmp_path, store=SLICED) as setup:
        secret = await setup.new_key(budget_nano=100_000 * MILLI)
        await seen_once(setup, secret)
        reply = await setup.gate.ask(key=secret, **STREAM)
        assert b'finish_reason":"stop' in reply.body
        row = await setup.row(2)
        ledger = [(kind, -amount // MILLI) for kind, amount, _ in await setup.ledger(row.request_id)]
        prompt = max_prompt(**STREAM)
        assert ledger[0] == ("hold", prompt + 64)
        sizes = [size for kind, size in ledger[1:-1] if kind.startswith("extend.")]
        assert 2 <= len(sizes) == len(ledger) - 2 <= 6, "so few only if they grow"
        assert sizes[0] >= 2 * 64, "the last ones may be what came with its end"
        assert 1000 <= 64 + sum(sizes) <= 5000, "all of it was reserved"
        assert (row.price, row.flags) == (1007 * MILLI, [])
        assert setup.up.requests[1].json["max_completion_tokens"] == 5000


async def test_an_answer_that_comes_at_once_is_reserved_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end as well: nothing of it was seen before. A provider that does so cannot be cut in time."""
    scripts: Iterator[Sequence[Step]] = iter(
        [stream(openai_stream([WORD] * 50, (7, 50))), stream(openai_stream([WORD * 1000], (7, 1000)))]
    )
    sent: list[int] = []
    extend = MemoryLimiter.extend
    async with keeping(lambda _: next(scripts), tmp_path, store=SLICED) as setup:

        async def noted(limiter: MemoryLimiter, entry: Extend, request: LimitRequest) -> bool:
            (handler,) = setup.gate.gateway._requests._tasks
            assert handler._relay is not None
            sent.append(handler._relay._downstream.bytes_out)
            return await extend(limiter, entry, request)

        monkeypatch.setattr(MemoryLimiter, "extend", noted)
        secret = await setup.new_key(budget_nano=100_000 * MILLI)
        await seen_once(setup, secret)
        reply = await setup.gate.ask(key=secret, **STREAM)
        assert WORD * 1000 in reply.body.decode()
        row = await setup.row(2)
        assert (row.held, sent) == ((max_prompt(**STREAM) + 1000) * MILLI, [0])
        assert not setup.storage.accounting.budgets.memory.is_shown("m", reasons=False)


async def test_an_answer_that_comes_at_once_and_cannot_be_reserved_is_delivered_and_marked(tmp_path: Path) -> None:
    """It is billed: nothing is saved by throwing it away."""
    scripts: Iterator[Sequence[Step]] = iter(
        [stream(openai_stream([WORD] * 50, (7, 50))), stream(openai_stream([WORD * 1000], (7, 1000)))]
    )
    async with keeping(lambda _: next(scripts), tmp_path, store=SLICED) as setup:
        secret = await setup.new_key(budget_nano=(57 + max_prompt(**STREAM) + 164) * MILLI)
        await seen_once(setup, secret)
        reply = await setup.gate.ask(key=secret, **STREAM)
        assert WORD * 1000 in reply.body.decode()
        row = await setup.row(2)
        assert setup.up.requests[1].json["max_completion_tokens"] == 164, "it was told what could be paid"
        assert (row.price, row.flags) == (1007 * MILLI, ["max_tokens_lowered", "over_reserved"])
        assert (await setup.gate.ask(key=secret, **STREAM)).status == 429


async def test_what_a_model_hides_is_reserved_whole(tmp_path: Path) -> None:
    """It cannot be cut in time: what it thinks is seen in the bill only."""
    async with keeping(stream(openai_stream(["42"], (7, 400))), tmp_path, store=SLICED) as setup:
        secret = await setup.new_key(budget_nano=100_000 * MILLI)
        for number in range(2):
            assert (await setup.gate.ask(key=secret, **STREAM)).status == 200
            assert (await setup.row(number + 1)).held == (max_prompt(**STREAM) + 5000) * MILLI


class Growing:
    """A first answer of 300 tokens. Then one that outgrows its plan, in two parts, beside one that takes its time."""

    def __init__(self) -> None:
        self.go_on, self.end_other = asyncio.Event(), asyncio.Event()
        self.count = 0

    def script(self, seen: Seen) -> Sequence[Step]:
        self.count += 1
        if not seen.json.get("stream"):
            return [Wait(self.end_other), *whole(openai_whole(usage=(7, 5)))]
        if self.count == 1:
            return stream(openai_stream([WORD] * 300, (7, 300)))
        frames, rest = words(550, 10), words(700)[1:]
        return [
            Head(),
            *map(Send, frames),
            Wait(self.go_on),
            *map(Send, rest),
            *map(Send, openai_frames([], (7, 1250))[1:]),
            End(),
        ]


async def growing(setup: AccountingSetup, stack: AsyncExitStack) -> RawClient:
    """A stream that waits for more, because the other request holds the rest of the money."""
    budget = 307 + max_prompt(**STREAM) + 600 + max_prompt(model="m", max_tokens=2000) + 2000
    secret = await setup.new_key(budget_nano=budget * MILLI)
    await seen_once(setup, secret)
    client, other = [await stack.enter_async_context(await setup.gate.connect()) for _ in range(2)]
    await other.send(chat_request(key=secret, model="m", max_tokens=2000))
    await setup.up.seen(2)
    await client.send(chat_request(key=secret, **STREAM))
    await until(lambda: line_of(setup) == 1)
    return client


async def test_an_answer_that_outgrows_its_plan_waits_while_its_output_goes_on(tmp_path: Path) -> None:
    upstream = Growing()
    async with keeping(upstream.script, tmp_path, store=LARGE) as setup, AsyncExitStack() as stack:
        client = await growing(setup, stack)
        assert WORD.encode() in await client.read_until(WORD.encode())
        upstream.end_other.set()
        await until(lambda: line_of(setup) == 0)
        upstream.go_on.set()
        assert b'"finish_reason":"stop"' in await client.read_until(b"[DONE]")
        await setup.row(3)  # of requests of one millisecond any may be the last
        row = next(row for row in reversed(await setup.rows()) if row.stream)
        assert (row.verdict, row.price) == ("completed", 1250 * MILLI + 7 * MILLI)


async def test_an_answer_is_cut_if_nobody_gives_money_back(tmp_path: Path) -> None:
    upstream = Growing()
    async with keeping(upstream.script, tmp_path, store=LARGE) as setup, AsyncExitStack() as stack:
        client = await growing(setup, stack)
        upstream.go_on.set()
        *frames, error, done = frames_of((await client.response()).body)
        assert (error["error"]["code"], done) == ("budget_exceeded", "[DONE]")
        upstream.end_other.set()
        await setup.row(3)
        cut = next(each for each in await setup.rows() if each.error == "budget_exceeded")
        texts = [choice["delta"].get("content") or "" for each in frames for choice in each["choices"]]
        delivered = "".join(texts).count(WORD)
        assert delivered > 512, "more than its first slice: how much, depends on how the provider's bytes arrive"
        assert cut.price == ((cut.prompt_tokens or 0) + delivered) * MILLI <= (cut.held or 0)


async def test_tokens_per_minute_are_counted_as_the_answer_grows(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [
        Head(),
        *map(Send, words(400)),
        Wait(go_on),
        *map(Send, openai_frames([], (7, 400))[1:]),
        End(),
    ]
    async with keeping(script, tmp_path, store=SLICED) as setup, await setup.gate.connect() as client:
        secret = await setup.new_key(tpm=300)
        await client.send(chat_request(key=secret, **STREAM))
        limiter, key_id = setup.limiter, setup.key_id(secret)
        assert isinstance(limiter, MemoryLimiter)
        await until(lambda: limiter._limits.usage(key_id, time.monotonic())[1] >= 300)
        refused = await setup.gate.ask(key=secret, model="m", max_tokens=1)
        assert (refused.status, error_of(refused)["code"]) == (429, "rate_limit_exceeded")
        go_on.set()
        assert b'"finish_reason":"stop"' in await client.read_until(b"[DONE]"), "it is never cut for a rate"
        await setup.gate.settled(2)
        assert limiter._limits.usage(key_id, time.monotonic())[1] == 407
