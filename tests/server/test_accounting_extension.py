"""An answer that outgrows its hold on an account that is overspent already: it is refused more, and that ends.

Another answer of the same key has cost more than its hold. Whatever falls into the same turn of the
event loop, the extension is decided in a few steps, and the request is settled.
"""

import asyncio
from pathlib import Path

import pytest

from streamweir.policy.limits.limit_request import LimitRequest
from streamweir.server.accounting.limiter import MemoryLimiter
from streamweir.server.accounting.shared_limiter import SharedLimiter
from streamweir.store.journal.entries import Extend
from support.accounting_gateway import MILLI
from support.answers import openai_frames, openai_stream
from support.deadlines import WAIT_TIMEOUT_S
from support.fleet import fleet
from support.gateway import chat_request, until
from support.raw_client import RawClient
from support.script import Hang, Head, Send, in_turn, stream
from support.stores import each_database

BEGUN = b"".join(openai_frames()[:3])
MORE = b"".join(openai_frames(["word " * 400] * 10)[1:-3])
"""5,000 tokens, by the rule of thumb."""


@pytest.fixture
def extensions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The amounts that arbiters were asked to extend by. A loop that never ends fails here instead of hanging."""
    amounts: list[int] = []
    for kind in (MemoryLimiter, SharedLimiter):
        extend = kind.extend

        async def counted(limiter: MemoryLimiter, entry: Extend, limit_request: LimitRequest, extend=extend) -> bool:  # type: ignore[no-untyped-def]
            amounts.append(entry.amount)
            assert len(amounts) < 100, "it asks for ever"
            found: bool = await extend(limiter, entry, limit_request)
            return found

        monkeypatch.setattr(kind, "extend", counted)
    return amounts


ANSWERS = in_turn([Head(), Send(BEGUN), Hang()], stream(openai_stream(usage=(60_000, 5))))
"""The beginning of one and no more, then one that costs more than its hold."""


@each_database
@pytest.mark.parametrize("leaves", [True, False], ids=["its caller leaves in that moment", "its caller stays"])
async def test_an_answer_outgrows_its_hold_on_an_overspent_account(
    leaves: bool, database: str, tmp_path: Path, extensions: list[int]
) -> None:
    async with fleet(ANSWERS, tmp_path, database=database) as nodes:
        (setup,) = nodes.setups
        secret = await nodes.new_key(budget_nano=10_000 * MILLI)
        client: RawClient = await setup.gate.connect()
        await client.send(chat_request(key=secret, model="m", stream=True, max_tokens=1024))
        await client.read_until(b"data: ")
        (handler,) = setup.gate.gateway._requests._tasks
        relay = handler._relay
        assert relay is not None
        await until(lambda: relay.first_token_at is not None)
        await setup.gate.ask(key=secret, model="m", stream=True, max_tokens=1024)
        await setup.gate.settled(1)
        relay.body_received(MORE)  # both within one turn
        if leaves:
            relay.caller_gone()
        async with asyncio.timeout(WAIT_TIMEOUT_S):
            await setup.gate.settled(2)
        client.close()
        rows = {row.verdict: row for row in await nodes.rows()}
        assert sorted(rows) == sorted(["completed", "client_gone" if leaves else "stopped"])
        assert len(extensions) <= 10
        assert (await nodes.spent_and_held())[1] == 0
