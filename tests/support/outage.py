"""What tests of outages have in common: an upstream in two parts, a request with a known price, what it gets then."""

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import structs

from support.accounting_gateway import MILLI, PROMPT, AccountingSetup, error_of, max_prompt
from support.answers import openai_stream
from support.gateway import KEY, Gate
from support.program_deadlines import LONG_INTERVALS
from support.raw_client import Reply
from support.script import End, Fields, Head, Seen, Send, Step, Wait, stream
from support.serve_process import BEGUN, REST

USED = (PROMPT, 5)
TOKENS = 7
HELD = (max_prompt(model="m", stream=True, max_tokens=TOKENS) + TOKENS) * MILLI
COST = sum(USED) * MILLI
ANSWER = stream(openai_stream(usage=USED))
BRISK = structs.replace(LONG_INTERVALS, tick_s=0.1)
SHORT_S = 1.0


def allow_database(setups: Iterable[AccountingSetup], seconds: float) -> None:
    """How long the database may take from now on: `SHORT_S` while it is hurt, so that this is noticed soon, and long
    while it is whole, because a busy machine is no outage."""
    for setup in setups:
        for part in (setup.storage.accounting, setup.limiter, setup.writer):
            assert hasattr(part, "_decision_s")
            part._decision_s = seconds
        setup.writer.batcher._timeout_s = seconds


class Stage:
    """The first request is answered in two parts, the others at once."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def script(self, seen: Seen) -> Sequence[Step]:
        return [Head(), Send(BEGUN), Wait(self.go_on), Send(REST), End()] if seen.number == 0 else ANSWER


async def ask(gate: Gate, secret: str = KEY, headers: Fields = ()) -> Reply:
    """Holds `HELD`, and costs `COST` where the answer is `ANSWER`."""
    return await gate.ask(key=secret, model="m", stream=True, max_tokens=TOKENS, headers=headers)


def assert_unavailable(reply: Reply) -> None:
    assert (reply.status, error_of(reply)["code"]) == (503, "ledger_unavailable")
    assert reply.header("retry-after") is not None
    assert reply.header("x-should-retry") == "true"
