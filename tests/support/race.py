"""Two hundred requests at once on money for three, and what must come of it.

    barrier = Barrier()
    async with fleet(barrier.script, tmp_path, count=2, ...) as nodes:
        secret, workspace_id = await money_for_three(nodes, "k", "budget_exceeded")
        await race_of(nodes, barrier, Random(1), secret, "budget_exceeded")
        await assert_books(nodes, secret, workspace_id, "budget_exceeded")

The upstream answers nobody before all the others are refused: so nothing of the three is given back
meanwhile. A request costs less than it held.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import NamedTuple

from streamweir.store.requests.requests import RequestRow
from support.accounting_gateway import EACH_DIALECT, MILLI, PROMPT, TEMPLATE, path_of
from support.answers import openai_stream, openai_whole
from support.fleet import Fleet
from support.gateway import MESSAGES, chat_request
from support.raw_client import RawClient, Reply
from support.script import End, Head, Seen, Send, Step, Wait
from support.scripted_upstream import ScriptedUpstream

CALLERS = 200
FITTING = 3
MAX_TOKENS = 7
BODY_BYTES = 128
"""Of every request, so that as much is held for each."""
HELD = (BODY_BYTES + TEMPLATE + MAX_TOKENS) * MILLI
USED = (PROMPT, 5)
COST = sum(USED) * MILLI
MONEY = FITTING * HELD + HELD - 1
"""For three, and one nano-dollar too little for a fourth."""

REFUSALS = {
    ("budget_exceeded", "openai"): (429, "insufficient_quota", "budget_exceeded"),
    ("budget_exceeded", "opentoken"): (429, "invalid_request_error", "spend_limit_exceeded"),
    ("budget_exceeded", "aivene"): (402, "billing_error", None),
    ("budget_exceeded", "bitseek"): (429, "insufficient_quota", "budget_exceeded"),
    ("insufficient_quota", "openai"): (429, "insufficient_quota", "insufficient_quota"),
    ("insufficient_quota", "opentoken"): (402, "invalid_request_error", "insufficient_credit"),
    ("insufficient_quota", "aivene"): (402, "insufficient_balance", None),
    ("insufficient_quota", "bitseek"): (429, "insufficient_quota", "insufficient_quota"),
}


class Barrier:
    """An upstream that answers when the test allows it."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def script(self, seen: Seen) -> Sequence[Step]:
        is_streamed = seen.json.get("stream", False)
        body = openai_stream(usage=USED) if is_streamed else openai_whole(usage=USED)
        head = Head() if is_streamed else Head(200, "application/json")
        return [head, Wait(self.go_on), Send(body), End()]


class Caller(NamedTuple):
    dialect: str
    is_streamed: bool
    place: int
    """Which of the gateways it asks."""


Line = tuple[RawClient, Caller]


def callers(chance: Random, places: int) -> list[Caller]:
    def one() -> Caller:
        return Caller(chance.choice(EACH_DIALECT), chance.random() < 0.5, chance.randrange(places))

    return [one() for _ in range(CALLERS)]


async def ask(client: RawClient, caller: Caller, secret: str) -> tuple[Caller, Reply]:
    path, is_streamed = path_of(caller.dialect), caller.is_streamed
    members = {"model": "m", "messages": MESSAGES, "stream": is_streamed, "max_tokens": MAX_TOKENS}
    await client.send(chat_request(path=path, key=secret, body=json.dumps(members).encode().ljust(BODY_BYTES)))
    return caller, await client.response()


def assert_refused(caller: Caller, reply: Reply, code: str) -> None:
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["type"], error.get("code")) == REFUSALS[code, caller.dialect]
    assert reply.header("x-should-retry") is None
    assert reply.header("retry-after") == "1", "the three have not spent it yet"


async def race(lines: Sequence[Line], up: ScriptedUpstream, barrier: Barrier, secret: str, code: str) -> None:
    """All of them at once; all but three are refused while the three wait."""
    before = len(up.requests)
    barrier.go_on.clear()
    pending = {asyncio.create_task(ask(*line, secret)) for line in lines}
    while len(pending) > FITTING:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            assert_refused(*task.result(), code)
    await up.seen(before + FITTING)
    barrier.go_on.set()
    for task in pending:
        _, reply = await task
        assert reply.status == 200
    assert len(up.requests) == before + FITTING


async def race_of(nodes: Fleet, barrier: Barrier, chance: Random, secret: str, code: str) -> None:
    wanted = callers(chance, len(nodes.gateways))
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await nodes.gateways[caller.place].connect()) for caller in wanted]
        await race(list(zip(clients, wanted, strict=True)), nodes.up, barrier, secret, code)


def assert_settled(rows: Sequence[RequestRow], code: str) -> None:
    """By the rows of a key, which are the upstream's own count."""
    served = [row for row in rows if row.verdict == "completed"]
    refused = [row for row in rows if row.verdict == "rejected"]
    assert (len(served), len(refused)) == (FITTING, CALLERS - FITTING)
    assert [(row.held, row.price, row.usage_source) for row in served] == [(HELD, COST, "provider")] * FITTING
    assert {(row.error, row.price, row.held) for row in refused} == {(code, None, None)}


async def money_for_three(nodes: Fleet, name: str, code: str) -> tuple[str, str]:
    """A new key in a new workspace of that name, whose money is its budget or its credit. Secret, and workspace."""
    credit, budget = (CALLERS * HELD, MONEY) if code == "budget_exceeded" else (MONEY, None)
    workspace_id = await nodes.new_workspace(name, credit)
    return await nodes.new_key(name, workspace_id, budget_nano=budget), workspace_id


async def assert_books(nodes: Fleet, secret: str, workspace_id: str, code: str) -> None:
    for gate in nodes.gateways:
        await gate.vacated()
    assert_settled(await nodes.rows(nodes.setups[0].key_id(secret)), code)
    assert await nodes.spent_and_held(workspace_id) == (FITTING * COST, 0)
    await nodes.assert_balanced()
