"""A request waits for money that a request of another process holds, with a Valkey and with the database alone.

Other processes wake nobody, so it tries again by itself.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from streamweir.store.db.tables import accounts
from support.accounting_gateway import MILLI, max_prompt
from support.answers import openai_whole
from support.fleet import fleet, shared_of
from support.gateway import chat_request, until
from support.script import Seen, Step, Wait, whole
from support.valkey import ValkeyServer
from support.variants import fleet_of

MEMBERS: dict[str, Any] = {"model": "m", "max_tokens": 20}
HELD = max_prompt(**MEMBERS) + 20


class Gated:
    """The first answer comes when it may."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def script(self, seen: Seen) -> Sequence[Step]:
        answer = whole(openai_whole(usage=(7, 20)))
        return [Wait(self.go_on), *answer] if seen.number == 0 else answer


@pytest.mark.parametrize("variant", ["nodes", "database alone"])
async def test_it_begins_when_the_money_is_given_back_elsewhere(variant: str, tmp_path: Path) -> None:
    upstream = Gated()
    async with fleet_of(variant, upstream.script, tmp_path, store="budget_wait_s = 600") as nodes:
        first, second = nodes.setups
        secret = await nodes.new_key(budget_nano=(HELD + 27) * MILLI)
        line = second.storage.accounting.budgets.line
        running = asyncio.create_task(first.gate.ask(key=secret, **MEMBERS))
        await nodes.up.seen(1)
        async with await second.gate.connect() as leaving, await second.gate.connect() as staying:
            await leaving.send(chat_request(key=secret, **MEMBERS))
            await until(lambda: line.waiting == 1)
            await staying.send(chat_request(key=secret, **MEMBERS))
            await until(lambda: line.waiting == 2)
            leaving.reset()
            await until(lambda: line.waiting == 1)
            assert len(nodes.up.requests) == 1, "nothing is sent while it waits"
            assert (await nodes.spent_and_held())[1] == HELD * MILLI, "who waits holds nothing"
            upstream.go_on.set()
            assert (await running).status == 200
            assert (await staying.response()).status == 200
        assert (line.waiting, len(nodes.up.requests)) == (0, 2)
        for gate in nodes.gateways:
            await gate.vacated()
        assert await nodes.spent_and_held() == (2 * 27 * MILLI, 0)
        assert [row.verdict for row in await nodes.rows()].count("client_gone") == 1


async def test_what_valkey_counts_too_high_refuses_nobody(tmp_path: Path) -> None:
    """It is seeded with what a request holds that it does not count itself, for example, and misses its end."""
    answer = whole(openai_whole(usage=(7, 20)))
    with ValkeyServer() as valkey:
        async with fleet(answer, tmp_path, count=2, valkey=valkey) as nodes:
            secret = await nodes.new_key(budget_nano=(HELD + 27) * MILLI)
            assert (await nodes.gateways[0].ask(key=secret, **MEMBERS)).status == 200
            account = await nodes.read(
                lambda conn: conn.scalar(select(accounts.c.id).where(accounts.c.key_id.is_not(None)))
            )
            assert account is not None
            valkey.flush()
            await shared_of(nodes.setups[0]).seed(account, (HELD + 28) * MILLI)
            assert (await nodes.gateways[1].ask(key=secret, **MEMBERS)).status == 200
            assert (await nodes.gateways[1].ask(key=secret, **MEMBERS)).status == 429, "now it is used up"


@pytest.mark.soak
async def test_a_wait_that_began_with_valkey_goes_on_without_it(tmp_path: Path) -> None:
    upstream = Gated()
    with ValkeyServer() as valkey:
        store = "budget_wait_s = 600"
        async with fleet(upstream.script, tmp_path, count=2, database="postgres", valkey=valkey, store=store) as nodes:
            first, second = nodes.setups
            secret = await nodes.new_key(budget_nano=(HELD + 27) * MILLI)
            running = asyncio.create_task(first.gate.ask(key=secret, **MEMBERS))
            await nodes.up.seen(1)
            waiting = asyncio.create_task(second.gate.ask(key=secret, **MEMBERS))
            await until(lambda: second.storage.accounting.budgets.line.waiting == 1)
            valkey.kill()
            upstream.go_on.set()
            assert [(await each).status for each in (running, waiting)] == [200, 200]
