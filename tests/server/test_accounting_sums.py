"""The ledger against the upstream's own count, over many requests of which most go wrong in some way.

Every answer is made of words of four letters, so that the rule of thumb counts them exactly: what the
gateway counts itself can be held to the word. Each request carries its number as `x-request-id`,
by which its row is found, whatever the caller saw of it.
"""

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamweir.core.usage import MAX_TOKEN_COUNT
from streamweir.store.ledger.check import check_sums
from streamweir.store.requests.requests import RequestFilter, RequestRow, list_requests
from support.answers import openai_frames
from support.deadlines import WAIT_TIMEOUT_S
from support.gateway import KEY, Gate, chat_request, gateway, nothing_left, providers
from support.raw_client import RawClient
from support.script import End, Fin, Head, Line, Rst, Script, Seen, Send, Step, whole
from support.scripted_upstream import ScriptedUpstream

IS_SOAK = os.environ.get("STREAMWEIR_SOAK") == "1"
REQUESTS = 10_000 if IS_SOAK else 400
AT_ONCE = 20
STEP = 100
"""After so many requests the sums are looked at."""
WORD = "word"
PROMPT_TOKENS = 11

TOML = f"""
[store]
url = "sqlite:///books.db"

[server.timeouts]
idle_s = {WAIT_TIMEOUT_S}
abandoned_s = 5

[[keys]]
name = "test"
key = "{KEY}"
budget_usd = 1000000
"""
MODELS = 50
"""Many, for one that fails five times in a row is left alone for a while."""
TOML += "".join(
    f"""
[[models]]
id = "{provider}{number}"
targets = [{{ provider = "{provider}", model = "some-model-{number}" }}]
price = {{ input = 3.0, output = 15.0 }}
"""
    for provider in ("up", "stalling")
    for number in range(MODELS)
)
BILLS_ON = "cancel_stops_billing = false\nmax_connections = 1000\n"
IDLE_SOON = "timeouts = { idle_s = 0.2 }\n"
"""For those that stall, and for no other: on a busy machine any answer may pause for as long."""

KINDS = (
    "told",
    "told",
    "told",
    "whole",
    "untold",
    "zero",
    "absurd",
    "fin",
    "rst",
    "error frame",
    "stall",
    "refused",
    "left",
    "left early",
)


@dataclass
class Account:
    """What the upstream, or the caller, knows of one request."""

    kind: str
    words: int
    stop_after: int
    sent: int = 0
    """Words that the upstream's kernel has taken."""
    told: tuple[int, int] | None = None
    """The usage, once all of its frame has been sent."""
    seen: int = 0
    """Words that the caller has."""


def frames_for(account: Account) -> list[bytes]:
    usage: tuple[int, int] | None = (PROMPT_TOKENS, account.words)
    if account.kind == "untold":
        usage = None
    elif account.kind == "zero":
        usage = (0, 0)
    elif account.kind == "absurd":
        usage = (PROMPT_TOKENS, MAX_TOKEN_COUNT + 1)
    return openai_frames([WORD] * account.words, usage)


def script_of(accounts: Sequence[Account]) -> Script:
    def steps(request: Seen) -> Sequence[Step]:
        account = accounts[int(request.json["user"])]
        if account.kind == "refused":
            return whole(b'{"error":{"message":"no","type":"invalid_request_error"}}', status=400)
        if account.kind == "whole":
            account.sent, account.told = account.words, (PROMPT_TOKENS, account.words)
            return whole(json.dumps(whole_answer(account)).encode())
        return [Head(), Player(account)]

    return steps


def whole_answer(account: Account) -> object:
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": account.words}
    message = {"role": "assistant", "content": WORD * account.words}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": usage}


class Player:
    """Sends an answer frame by frame, and keeps the account of it."""

    def __init__(self, account: Account) -> None:
        self._account = account

    async def __call__(self, line: Line, /) -> None:
        account = self._account
        for frame in frames_for(account):
            if account.kind in ("fin", "rst", "error frame", "stall") and account.sent >= account.stop_after:
                await self._break(line)
                return
            await line.send(frame)
            document = json.loads(frame[6:]) if frame != b"data: [DONE]\n\n" else {}
            if any(choice["delta"].get("content") for choice in document.get("choices", ())):
                account.sent += 1
            if document.get("usage") and account.kind not in ("absurd",):
                told = document["usage"]
                account.told = told["prompt_tokens"], told["completion_tokens"]
        await End()(line)

    async def _break(self, line: Line) -> None:
        kind = self._account.kind
        if kind == "error frame":
            await Send(b'data: {"error":{"message":"down","type":"server_error"}}\n\n')(line)
            await End()(line)
        elif kind == "stall":
            await line.hang()
        else:
            await (Fin() if kind == "fin" else Rst())(line)


async def ask(gate: Gate, number: int, account: Account) -> None:
    body: dict[str, Any] = {
        "model": f"{'stalling' if account.kind == 'stall' else 'up'}{number % MODELS}",
        "stream": account.kind != "whole",
        "user": str(number),
        "max_tokens": 1000,
    }
    request = chat_request(headers=(("x-request-id", f"n{number}"),), **body)
    async with await gate.connect() as client:
        await client.send(request)
        if account.kind == "left early":
            return
        if account.kind == "left":
            await read_words(client, account)
            return
        reply = await client.response()
        account.seen = reply.body.count(WORD.encode())


async def read_words(client: RawClient, account: Account) -> None:
    """Until some have come, or all of it."""
    if (await client.head()).status != 200:
        return
    while account.seen < account.stop_after:
        chunk = await client.chunk()
        if not chunk:
            return
        account.seen += chunk.count(f'"{WORD}"'.encode())


@pytest.mark.parametrize("seed", [20261115])
async def test_the_ledger_agrees_with_the_upstream(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    accounts = [
        Account(kind=random.choice(KINDS), words=(words := random.randint(1, 30)), stop_after=random.randint(1, words))
        for _ in range(REQUESTS)
    ]
    async with (
        nothing_left(),
        ScriptedUpstream(script_of(accounts)) as upstream,
        gateway(configuration(upstream.base_url), data_dir=tmp_path) as gate,
    ):
        for first in range(0, REQUESTS, STEP):
            numbers = range(first, min(first + STEP, REQUESTS))
            await play(gate, accounts, numbers)
            await gate.settled(numbers.stop)
            await assert_sums(gate)
        rows = await rows_of(gate)
        await gate.vacated()
        await upstream.idle()
    assert len(rows) == REQUESTS
    for number, account in enumerate(accounts):
        assert_agrees(rows[f"n{number}"], account)


def configuration(base_url: str) -> str:
    up, stalling = providers(up=base_url), providers(stalling=base_url)
    return f"{up}{BILLS_ON}{stalling}{BILLS_ON}{IDLE_SOON}{TOML}"


async def play(gate: Gate, accounts: Sequence[Account], numbers: range) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with places:
            await ask(gate, number, accounts[number])

    await asyncio.gather(*(one(number) for number in numbers))


async def assert_sums(gate: Gate) -> None:
    storage = gate.gateway.storage
    assert storage is not None
    assert storage.accounting.writer is not None
    assert await storage.accounting.writer.flush(WAIT_TIMEOUT_S)
    assert (await storage.store.read(check_sums)).faults == []


async def rows_of(gate: Gate) -> dict[str, RequestRow]:
    storage = gate.gateway.storage
    assert storage is not None
    rows: dict[str, RequestRow] = {}
    cursor = None
    while True:
        at = cursor
        page = await storage.store.read(lambda conn: list_requests(conn, RequestFilter(), cursor=at, limit=500))  # noqa: B023
        for row in page.rows:
            assert row.client_id is not None
            assert row.client_id not in rows, "two rows of one request"
            rows[row.client_id] = row
        cursor = page.next
        if cursor is None:
            return rows


def assert_agrees(row: RequestRow, account: Account) -> None:
    counted = (row.prompt_tokens, row.completion_tokens)
    where = f"{account} {row}"
    if row.usage_source is None:
        assert counted == (None, None), where
        assert row.price == (None if row.held is None else 0), where
        assert account.kind in ("refused", "left early") or row.error == "no_available_deployment", where
        return
    assert row.price == row.prompt_tokens * 3000 + row.completion_tokens * 15000, where  # type: ignore[operator]
    if row.usage_source == "provider":
        assert counted == account.told, where
        return
    # Nobody told: the row says so, and is right within what was on its way.
    assert row.usage_source == "estimate", where
    assert account.told is None or account.kind in ("left", "left early"), where
    assert account.seen <= counted[1] <= account.sent, where  # type: ignore[operator]
    if account.kind in ("untold", "absurd"):
        assert counted[1] == account.words, where
    assert ("usage_anomaly" in row.flags) == (account.kind == "absurd"), where
