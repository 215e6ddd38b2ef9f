"""What is held before an upstream is called, and what happens to it, to the nano-dollar (C1 to C5, U14).

A token of the model `m` costs a thousandth of a dollar, so amounts read as tokens. A hold is written before the
upstream is called, durable before the caller gets a byte, and released to the last nano-dollar; an answer that exceeds
it holds more, while there is more.
"""

import asyncio
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from streamweir.policy.pricing.prices import Rates, decode_quote
from streamweir.store.journal.entries import Hold
from streamweir.store.journal.files import SegmentFile
from support.accounting_gateway import MILLI, MODEL, PROMPT, answers, each_form, error_of, keeping, max_prompt
from support.answers import TEXTS, error_body, openai_frames, openai_stream, openai_whole, responses_whole
from support.gateway import chat_request, frames_of, text_of, until
from support.journal_files import entries_of
from support.raw_client import RawClient
from support.responses import ask as ask_responses
from support.script import End, Fin, Hang, Head, Line, Send, Step, Wait, stream, whole

BUDGET = 1000 * MILLI
BEGUN = b"".join(openai_frames()[:3])
"""Two words of an answer."""
COUNTED = 10
"""Tokens of the question, by the tokenizer of the model."""
BILLS_ON = "cancel_stops_billing = false\n"


# The hold.


@each_form
async def test_the_hold_is_written_before_the_upstream_is_asked(is_streamed: bool, tmp_path: Path) -> None:
    """Into the journal, where it survives the process."""
    found: list[Hold] = []

    async def look(_: Line) -> None:
        found.extend(entry for entry in entries_of(tmp_path / "journal") if isinstance(entry, Hold))

    async with keeping([look, *answers(is_streamed)], tmp_path) as setup:
        secret = await setup.new_key("ci", budget_nano=BUDGET)
        reply = await setup.gate.ask(key=secret, model="m", stream=is_streamed, max_tokens=20)
        (hold,) = found
        assert hold.request_id == reply.header("x-request-id")
        assert hold.amount == (max_prompt(model="m", stream=is_streamed, max_tokens=20) + 20) * MILLI
        assert hold.account == f"key:{setup.key_id(secret)}:total"
        assert (hold.key_id, hold.workspace_id, hold.model) == (setup.key_id(secret), "default", "m")
        assert (hold.stream, hold.dialect, hold.prompt_tokens) == (is_streamed, "openai", PROMPT)
        assert decode_quote(hold.prices).sold == {"up/gpt-4o": Rates(input=10**12, output=10**12)}
        row = await setup.row()
        assert (row.held, row.price) == (hold.amount, 12 * MILLI)
        assert await setup.ledger() == [
            ("hold", -hold.amount, None),
            ("settle", hold.amount - 12 * MILLI, 12 * MILLI),
        ]
        assert await setup.spent_and_held() == (12 * MILLI, 0)


async def test_while_a_request_runs_it_is_open_and_its_hold_counts(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with keeping([Head(), Send(BEGUN), Wait(go_on), Send(openai_stream(TEXTS[2:])), End()], tmp_path) as setup:
        held = (max_prompt(model="m", stream=True, max_tokens=20) + 20) * MILLI
        secret = await setup.new_key(budget_nano=held)
        async with await setup.gate.connect() as client:
            await client.send(chat_request(key=secret, model="m", stream=True, max_tokens=20))
            await client.head()
            record = next(iter(setup.gate.gateway._requests._tasks)).record
            assert await setup.open_ids() == [record.id]
            assert await setup.spent_and_held() == (0, held)
            await setup.assert_sound()
            other = await setup.gate.ask(key=secret, model="m", max_tokens=1)
            assert (other.status, error_of(other)["code"]) == (429, "budget_exceeded")
            go_on.set()
            await client.read_until(b"[DONE]")
        assert (await setup.row(2)).error == "budget_exceeded"
        assert len(setup.up.requests) == 1


ASKED: dict[str, tuple[list[Any], int]] = {
    "by bytes, not by characters": ([{"role": "user", "content": "今天天气怎么样"}], 6),
    "every message": ([{"role": "system", "content": "x" * 40}, {"role": "user", "content": "y" * 40}], 20),
    "parts": ([{"role": "user", "content": [{"type": "text", "text": "x" * 40}, {"type": "text", "text": "y"}]}], 11),
    "a picture": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}]}],
        1024,
    ),
    "what tools were called with": (
        [
            {"role": "user", "content": "x" * 8},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "f", "arguments": json.dumps("x" * 38)},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "y" * 8},
        ],
        14,
    ),
}


async def test_a_question_is_held_for_by_its_size(tmp_path: Path) -> None:
    async with keeping(answers(is_streamed=False), tmp_path) as setup:
        for number, (case, (messages, tokens)) in enumerate(ASKED.items(), start=1):
            assert (await setup.gate.ask(model="m", max_tokens=20, messages=messages)).status == 200
            assert (await setup.row(number)).held == (tokens + 20) * MILLI, case


def is_silent(client: RawClient) -> bool:
    try:
        return not client.sock.recv(1)
    except BlockingIOError:
        return True


@each_form
async def test_the_hold_is_durable_before_the_first_byte(
    is_streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upstream is not kept waiting by the disk; the caller is. Here the disk hangs, and so does the database."""
    sync, syncs = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        syncs.set()
        assert sync.wait(10)

    async with keeping(answers(is_streamed), tmp_path) as setup, await setup.gate.connect() as client:
        locker = sqlite3.connect(tmp_path / "streamweir.db", isolation_level=None)
        try:
            locker.execute("BEGIN IMMEDIATE")
            monkeypatch.setattr("streamweir.store.journal.files.os.fdatasync", slow)
            await client.send(chat_request(model="m", stream=is_streamed))
            await setup.up.played(1)
            (handler,) = setup.gate.gateway._requests._tasks
            await until(lambda: handler._relay is not None and handler._relay.bytes_in > 0)
            await setup.gate.has_read()
            await until(syncs.is_set)
            assert is_silent(client)
            assert not handler._response.started
            sync.set()
            assert (await client.response()).status == 200
        finally:
            sync.set()
            locker.execute("ROLLBACK")
            locker.close()
        assert (await setup.row()).verdict == "completed"


# What becomes of it.


async def test_an_upstream_that_refuses_costs_nothing(tmp_path: Path) -> None:
    async with keeping(whole(error_body("context_length_exceeded"), 400), tmp_path) as setup:
        secret = await setup.new_key(budget_nano=BUDGET)
        assert (await setup.gate.ask(key=secret, model="m", max_tokens=20)).status == 400
        row = await setup.row()
        held = (max_prompt(model="m", max_tokens=20) + 20) * MILLI
        assert (row.verdict, row.price, row.usage, row.held) == ("rejected", 0, None, held)
        assert await setup.ledger() == [("hold", -held, None), ("settle", held, 0)]


async def test_a_caller_that_leaves_before_the_upstream_is_called_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1: here, while the hold is being written."""
    writes, go_on = threading.Event(), threading.Event()
    write = SegmentFile.write

    def slowly(file: SegmentFile, data: bytes) -> None:
        writes.set()
        assert go_on.wait(10)
        write(file, data)

    async with keeping(answers(is_streamed=True), tmp_path) as setup, await setup.gate.connect() as client:
        monkeypatch.setattr(SegmentFile, "write", slowly)
        await client.send(chat_request(model="m", stream=True, max_tokens=20))
        await until(writes.is_set)
        client.reset()
        await setup.gate.settled()
        go_on.set()
        row = await setup.row()
        assert (row.verdict, row.status, row.price, row.usage) == ("client_gone", 499, 0, None)
        held = (PROMPT + 20) * MILLI
        assert await setup.ledger() == [("hold", -held, None), ("settle", held, 0)]
        assert setup.up.accepted == 0


@each_form
async def test_a_caller_that_leaves_before_the_first_token_pays_for_the_prompt(
    is_streamed: bool, tmp_path: Path
) -> None:
    async with keeping([Hang()], tmp_path, MODEL) as setup, await setup.gate.connect() as client:
        await client.send(chat_request(model="m", stream=is_streamed, max_tokens=20))
        await setup.up.seen(1)
        client.reset()
        await setup.up.aborted(1)
        row = await setup.row()
        assert (row.verdict, row.status, row.completion_tokens, row.usage_source) == (
            "client_gone",
            499,
            0,
            "tokenizer",
        )
        assert row.prompt_tokens is not None
        assert row.prompt_tokens > 0
        assert (row.held, row.price) == ((PROMPT + 20) * MILLI, row.prompt_tokens * MILLI)


async def test_a_caller_that_leaves_in_the_middle_pays_for_what_it_got(tmp_path: Path) -> None:
    async with keeping([Head(), Send(BEGUN), Hang()], tmp_path) as setup, await setup.gate.connect() as client:
        await client.send(chat_request(model="m", stream=True, max_tokens=20))
        await client.read_until(TEXTS[1].encode())
        client.reset()
        await setup.up.aborted(1)
        row = await setup.row()
        assert (row.verdict, row.completion_tokens, row.usage_source) == ("client_gone", 2, "tokenizer")
        assert row.price == (COUNTED + 2) * MILLI


async def test_if_the_provider_still_bills_its_usage_is_waited_for(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(openai_stream(TEXTS[2:], usage=(7, 5))), End()]
    async with keeping(script, tmp_path, provider=BILLS_ON) as setup, await setup.gate.connect() as client:
        await client.send(chat_request(model="m", stream=True, max_tokens=20))
        await client.read_until(TEXTS[1].encode())
        client.reset()
        await until(lambda: setup.gate.gateway.abandoned == 1)
        assert await setup.spent_and_held() == (0, (PROMPT + 20) * MILLI)
        go_on.set()
        row = await setup.row()
        assert (row.verdict, row.usage_source, row.price) == ("client_gone", "provider", 12 * MILLI)


async def test_an_upstream_that_never_answers_has_read_the_question(tmp_path: Path) -> None:
    """U14: it may bill for it, and so do we."""
    timeouts = "[server.timeouts]\nfirst_event_s = 0.05\n"
    async with keeping([Hang()], tmp_path, MODEL + timeouts) as setup:
        asked = 0
        while not setup.up.requests:  # on a busy machine the time can be over before it is sent
            assert (await setup.gate.ask(model="m", stream=True)).status == 504
            asked += 1
        row = await setup.row(asked)
        assert (row.verdict, row.completion_tokens, row.usage_source) == ("first_token_timeout", 0, "tokenizer")
        assert row.price == COUNTED * MILLI


async def test_a_stream_that_breaks_off_is_counted(tmp_path: Path) -> None:
    async with keeping([Head(), Send(BEGUN), Fin()], tmp_path) as setup:
        secret = await setup.new_key(budget_nano=BUDGET)
        reply = await setup.gate.ask(key=secret, model="m", stream=True, max_tokens=20)
        *_, error, done = frames_of(reply.body)
        assert (error["error"]["code"], done) == ("upstream_stream_truncated", "[DONE]")
        row = await setup.row()
        assert (row.verdict, row.completion_tokens, row.usage_source) == ("truncated", 2, "tokenizer")
        assert row.price == (COUNTED + 2) * MILLI


async def test_items_that_only_a_native_provider_reads_are_reserved_for_too(tmp_path: Path) -> None:
    """If all bytes are beyond the budget, the prompt is counted: all of it that is sent."""
    unknown = {"type": "mcp_call", "name": "f", "arguments": "{}", "output": " information" * 1000}
    items = [{"role": "user", "content": "Hi"}, unknown]
    async with keeping(whole(responses_whole(usage=(1020, 5))), tmp_path, provider='wire = "responses"') as setup:
        for budget, status in ((900, 429), (2000, 200)):
            secret = await setup.new_key(str(budget), budget_nano=budget * MILLI)
            members = {"model": "m", "input": items, "max_output_tokens": 16}
            reply = await ask_responses(setup.gate, key=secret, stream=False, **members)
            assert reply.status == status
        assert len(setup.up.requests) == 1


# More than was held.

LONG = [f" word{number:04}" for number in range(90)]
"""270 tokens, by the tokenizer of the model."""


async def test_an_upstream_that_does_not_keep_its_limit_is_held_more_for(tmp_path: Path) -> None:
    go_on, frames = asyncio.Event(), openai_frames(LONG, usage=(7, 270))
    script: list[Step] = [Head(), *(Send(frame) for frame in frames[:-4]), Wait(go_on)]
    script += [Send(b"".join(frames[-4:])), End()]
    async with keeping(script, tmp_path, store="hold_tokens = 10") as setup, await setup.gate.connect() as client:
        secret = await setup.new_key(budget_nano=10_000 * MILLI)
        await client.send(chat_request(key=secret, model="m", stream=True, max_tokens=10))
        await client.read_until(LONG[-3].encode())
        go_on.set()
        assert LONG[-1].encode() in await client.read_until(b"[DONE]")
        row = await setup.row()
        kinds = await setup.ledger(row.request_id)
        extensions = [(kind, amount) for kind, amount, _ in kinds[1:-1]]
        first = (max_prompt(model="m", stream=True, max_tokens=10) + 10) * MILLI
        assert kinds[0] == ("hold", -first, None)
        assert [kind for kind, _ in extensions] == [f"extend.{number + 1}" for number in range(len(extensions))]
        assert extensions
        held = first - sum(amount for _, amount in extensions)
        assert kinds[-1] == ("settle", held - 277 * MILLI, 277 * MILLI)
        assert (row.held, row.price, row.verdict) == (held, 277 * MILLI, "completed")


async def test_without_a_limit_on_money_nothing_is_extended(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream(LONG, usage=(7, 80))), tmp_path, store="hold_tokens = 10") as setup:
        assert text_of((await setup.gate.ask(model="m", stream=True)).body) == "".join(LONG)
        row = await setup.row()
        assert [kind for kind, _, _ in await setup.ledger()] == ["hold", "settle"]
        assert (row.held, row.price, row.flags) == ((PROMPT + 10) * MILLI, 87 * MILLI, [])
        assert "max_completion_tokens" not in setup.up.requests[0].json


@each_form
async def test_an_answer_within_its_limit_is_never_cut_whatever_its_length(is_streamed: bool, tmp_path: Path) -> None:
    """Its tokens are three times as long as usual, and by the rule of thumb it would be beyond its limit."""
    texts = [" information"] * 30
    frames = openai_frames(texts, usage=(7, 30))
    script: list[Step] = [Head(), *(Send(frame) for frame in frames), End()]
    async with keeping(script if is_streamed else whole(openai_whole("".join(texts), (7, 30))), tmp_path) as setup:
        held = (max_prompt(model="m", stream=is_streamed, max_tokens=30) + 30) * MILLI
        secret = await setup.new_key(budget_nano=held)
        reply = await setup.gate.ask(key=secret, model="m", stream=is_streamed, max_tokens=30)
        row = await setup.row()
        assert (reply.status, row.verdict, row.price) == (200, "completed", 37 * MILLI)
        assert [kind for kind, _, _ in await setup.ledger(row.request_id)] == ["hold", "settle"]
