"""Who pays when a request goes wrong: every case with every rule, on both databases.

A token of the model `m` is sold for a thousandth of a dollar, and costs what the price list says. There is a price
group for each rule. The row has the cost in any case, and the case and the rule by which it was charged.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from streamweir.core.usage import Usage
from streamweir.policy.pricing.charge_rule import Case, Rule
from streamweir.policy.pricing.prices import cost_of
from streamweir.server.accounting.token_count import vocabulary_of
from streamweir.server.request.runtime.config import built_in_prices
from streamweir.store.db.clock import now_ms
from streamweir.store.requests.live import cancel
from streamweir.store.requests.requests import RequestRow
from support.accounting_gateway import MILLI, AccountingSetup, keeping
from support.answers import TEXTS, openai_frames
from support.gateway import chat_request
from support.raw_client import RawClient
from support.script import End, Hang, Head, Seen, Send, Step, Wait
from support.stores import one_database

RULES: tuple[str, ...] = get_args(Rule)
CASES: tuple[Case, ...] = get_args(Case)
GROUPS = "".join(
    f"""
[[price_groups]]
name = "{rule}"
prices = [{{ model = "m", input = 1000.0, output = 1000.0 }}]
charge = {{ {", ".join(f'{case} = "{rule}"' for case in CASES)} }}
"""
    for rule in RULES
)
MODEL = '\n[[models]]\nid = "m"\ntargets = [{ provider = "up", model = "gpt-4o" }]\n'
BILLS_ON = "cancel_stops_billing = false\n"
HASTE = "\n[server.timeouts]\nfirst_event_s = 0.4\n"
SENT, ALL = len("".join(TEXTS[:2])), len("".join(TEXTS))
USED = (7, 50)
FAILURE = b'data: {"error":{"message":"out of memory","type":"server_error","code":null}}\n\n'


def begun(*steps: Step) -> list[Step]:
    return [Head(), Send(b"".join(openai_frames()[:3])), *steps]


async def leave(_: AccountingSetup, client: RawClient) -> None:
    client.close()


async def stop(setup: AccountingSetup, client: RawClient) -> None:
    (request_id,) = await setup.open_ids()
    assert await setup.write(lambda conn: cancel(conn, request_id, None, now_ms()))
    assert b"stopped_by_operator" in await client.rest()


class Trouble(NamedTuple):
    verdict: str
    steps: Callable[[asyncio.Event], Sequence[Step]]
    act: Callable[[AccountingSetup, RawClient], Awaitable[None]] | None = None
    """After the second word of the answer. The upstream then sends the rest, with the usage of all of it."""
    toml: str = ""


def rest(go_on: asyncio.Event) -> Sequence[Step]:
    return begun(Wait(go_on), Send(b"".join(openai_frames(usage=USED)[3:])), End())


TROUBLES: dict[Case, Trouble] = {
    "failed_before": Trouble("first_token_timeout", lambda _: [Hang()], toml=HASTE),
    "failed_after": Trouble("upstream_error", lambda _: begun(Send(FAILURE), End())),
    "truncated": Trouble("truncated", lambda _: begun(End())),
    "cut": Trouble("stopped", rest, stop),
    "caller_left": Trouble("client_gone", rest, leave),
}


def expected_price(rule: str, case: Case, row: RequestRow) -> int | None:
    prompt, completion = row.prompt_tokens or 0, row.completion_tokens or 0
    if TROUBLES[case].act is not None:
        assert (row.usage_source, prompt, completion) == ("provider", *USED)
    delivered = completion * SENT // ALL if TROUBLES[case].act is not None else completion
    prices = {
        "nothing": 0,
        "delivered": (prompt + delivered) * MILLI,
        "used": (prompt + completion) * MILLI,
        "cost": row.cost,
    }
    return prices[rule]


@one_database
@pytest.mark.parametrize("case", CASES)
async def test_a_rule_says_what_is_charged(case: Case, database: str, tmp_path: Path) -> None:
    trouble, go_on = TROUBLES[case], [asyncio.Event() for _ in RULES]

    def script(_: Seen) -> Sequence[Step]:
        return trouble.steps(go_on[len(setup.up.requests) - 1])

    list_rates = built_in_prices().table.find("openai", "gpt-4o", now_ms())
    assert list_rates is not None
    async with keeping(script, tmp_path, MODEL + GROUPS + trouble.toml, provider=BILLS_ON, database=database) as setup:
        # Loading it stops the event loop for a while: the first request would time out before it is sent.
        setup.gate.gateway._requests._vocabularies.load(vocabulary_of("gpt-4o").vocabulary)
        workspace = await setup.new_workspace("paid", 10**15)
        charged = 0
        for number, rule in enumerate(RULES, start=1):
            secret = await setup.new_key(rule, workspace, price_group=rule)
            if trouble.act is None:
                await setup.gate.ask(key=secret, model="m", stream=True)
            else:
                async with await setup.gate.connect() as client:
                    await client.send(chat_request(key=secret, model="m", stream=True))
                    await client.head()
                    while TEXTS[1].encode() not in await client.chunk():
                        pass
                    await trouble.act(setup, client)
                    go_on[number - 1].set()
            row = await setup.row(number)
            assert (row.verdict, row.charge_rule) == (trouble.verdict, f"{case}:{rule}")
            usage = Usage(input_uncached=row.prompt_tokens or 0, output=row.completion_tokens or 0)
            assert row.cost == cost_of(usage, list_rates) > 0
            assert row.price == expected_price(rule, case, row), rule
            charged += row.price or 0
            *_, settled = await setup.ledger(row.request_id)
            assert settled == ("settle", (row.held or 0) - (row.price or 0), row.price)
        assert await setup.spent_and_held(workspace) == (charged, 0)
