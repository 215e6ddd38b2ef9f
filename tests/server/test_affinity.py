"""Prompt-cache affinity on real sockets: what the provider's caches make of conversations, with and without it.

Two gateways that share nothing stand for two workers or two nodes. The turns of each conversation go to them in turn,
so neither remembers all of it.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.gateway import Gate, chat_request, gateway
from support.prefix_cache import BROKEN, LIMITED, PrefixCache, interleaved
from support.raw_client import RawClient
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import served, spread
from support.soak import SOAKS

CONVERSATIONS, TURNS = (60, 10) if SOAKS else (10, 6)
TOTAL = CONVERSATIONS * TURNS
SEEDS = range(5) if SOAKS else [18]

KEYS = """
[[providers]]
name = "up"
kind = "openai"
base_url = "{url}"
api_keys = ["sk-account-one", "sk-account-two"]

[[models]]
id = "pool"
targets = [{{ provider = "up", model = "m" }}]
"""
TARGETS = """
[[providers]]
name = "one"
kind = "openai"
base_url = "{url}"
api_key = "sk-account-one"

[[providers]]
name = "two"
kind = "openai"
base_url = "{url}"
api_key = "sk-account-two"

[[models]]
id = "pool"
strategy = "weighted"
targets = [{{ provider = "one", model = "m" }}, {{ provider = "two", model = "m" }}]
"""


@asynccontextmanager
async def pool(cache: PrefixCache, toml: str) -> AsyncIterator[list[Gate]]:
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream(cache))
        made = toml.format(url=upstream.base_url)
        yield [await stack.enter_async_context(gateway(made)) for _ in range(2)]


async def direct_share(seed: int) -> float:
    """The same calls without a gateway, with one account."""
    cache = PrefixCache()
    async with ScriptedUpstream(cache) as upstream, await RawClient.open(("127.0.0.1", upstream.port)) as client:
        for body in interleaved(CONVERSATIONS, TURNS, Random(seed)):
            await client.send(chat_request(model="m", **body))
            assert (await client.response()).status == 200
    return cache.share


async def share_of(cache: PrefixCache, toml: str, seed: int) -> float:
    async with pool(cache, toml) as gateways:
        turn = cycle(gateways)
        for body in interleaved(CONVERSATIONS, TURNS, Random(seed)):
            reply = await next(turn).ask(model="pool", **body)
            assert reply.status == 200, reply.body
        records = [record for gate in gateways for record in await gate.settled(len(gate.records))]
        assert len(records) == TOTAL
        usages = [record.usage for record in records if record.usage is not None]
        assert sum(usage.cache_read or 0 for usage in usages) == cache.cached_tokens
        assert sum(usage.prompt_tokens for usage in usages) == cache.prompt_tokens
    return cache.share


POOLS = {"two credentials": KEYS, "two targets": TARGETS} if SOAKS else {"two credentials": KEYS}
OFF = "affinity = false\n"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("toml", POOLS.values(), ids=POOLS)
async def test_caches_are_read_as_without_a_gateway(
    toml: str, seed: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two accounts and two gateways, at least 95 % of what one account without a gateway reads."""
    monkeypatch.setattr("streamweir.server.request.request.random", Random(seed).random)
    direct = await direct_share(seed)
    cache = PrefixCache()
    share = await share_of(cache, toml, seed)
    without = await share_of(PrefixCache(), toml + OFF, seed)
    for name, found in (("direct", direct), ("affinity", share), ("no affinity", without)):
        request.node.user_properties.append((name, f"{found:.1%}"))
    assert share >= 0.95 * direct
    assert {count >= TOTAL / 5 for count in Counter(cache.accounts).values()} == {True}, "each account has its part"
    assert len(set(cache.accounts)) == 2
    assert without < 0.9 * direct, "else this test shows nothing"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("toml", POOLS.values(), ids=POOLS)
async def test_an_account_that_fails_costs_each_of_its_conversations_one_prompt(
    toml: str, seed: int, request: pytest.FixtureRequest
) -> None:
    """From a third of the requests on, one account refuses all."""
    asked = 0

    def is_down(account: str) -> bool:
        nonlocal asked
        asked += 1
        return asked > TOTAL / 3 and account.endswith("one")

    direct = await direct_share(seed)
    cache = PrefixCache(is_down)
    share = await share_of(cache, toml, seed)
    request.node.user_properties.append(("direct", f"{direct:.1%}"))
    request.node.user_properties.append(("affinity", f"{share:.1%}"))
    assert share >= 0.8 * direct
    assert len(cache.accounts) == TOTAL, "everyone is answered"


@pytest.mark.soak
async def test_two_workers_read_caches_as_without_a_gateway(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The program with two workers, over connections to each of them."""
    cache, direct = PrefixCache(), await direct_share(1)
    async with ScriptedUpstream(cache) as upstream, AsyncExitStack() as stack:
        toml = KEYS.format(url=upstream.base_url)
        program = await stack.enter_async_context(served(tmp_path, toml, "--workers", "2"))
        clients = await spread(stack, program, 1)
        turn = cycle([clients[number][0] for number in (0, 1)])
        for body in interleaved(CONVERSATIONS, TURNS, Random(1)):
            client = next(turn)
            await client.send(chat_request(model="pool", **body))
            assert (await client.response()).status == 200
    request.node.user_properties.append(("direct", f"{direct:.1%}"))
    request.node.user_properties.append(("affinity", f"{cache.share:.1%}"))
    assert cache.share >= 0.95 * direct
    assert len(set(cache.accounts)) == 2


# Which requests go together.


@pytest.mark.parametrize(
    ("path", "header", "member"),
    [
        ("/v1/chat/completions", "", "messages"),
        ("/v1/chat/completions", "", "prompt_cache_key"),
        ("/v1/chat/completions", "x-session-affinity", ""),
        ("/v1/messages", "x-claude-code-session-id", ""),
        ("/v1/responses", "session-id", ""),
        ("/v1/responses", "Session_ID", ""),
        ("/v1/completions", "", "prompt"),
    ],
    ids=["first message", "prompt_cache_key", "opencode", "Claude Code", "Codex", "Codex before", "completions"],
)
async def test_the_requests_of_a_conversation_go_to_one_account(path: str, header: str, member: str) -> None:
    """Twelve conversations of two requests each, one through each gateway. All else is the same."""
    cache = PrefixCache()
    async with pool(cache, TARGETS) as gateways:
        for gate in gateways:
            for name in map(str, range(12)):
                named: Any = [{"role": "user", "content": name}] if member == "messages" else name
                headers = ((header, name),) if header else ()
                reply = await gate.ask(path=path, model="pool", headers=headers, **({member: named} if member else {}))
                assert reply.status == 200, reply.body
    assert cache.accounts[:12] == cache.accounts[12:]
    assert len(set(cache.accounts)) == 2


async def test_affinity_can_be_off_for_a_model() -> None:
    async with pool(PrefixCache(), TARGETS + OFF) as (gate, _):
        assert await accounts_of(gate, 40) == {"one", "two"}


async def test_affinity_can_be_off_for_all_models() -> None:
    async with pool(PrefixCache(), "[routing]\naffinity_s = 0\n" + TARGETS) as (gate, _):
        assert await accounts_of(gate, 40) == {"one", "two"}


async def accounts_of(gate: Gate, count: int) -> set[str]:
    """The providers that have answered so many equal requests."""
    before = len(gate.records)
    for number in range(count):
        assert (await gate.ask(model="pool")).status == 200
        await gate.settled(before + number + 1)
    return {str(record.target).partition("/")[0] for record in gate.records[before:]}


async def test_after_a_failover_a_conversation_stays_where_it_is() -> None:
    down: set[str] = set()
    cache = PrefixCache(lambda account: account.rpartition("-")[2] in down, BROKEN)
    async with pool(cache, TARGETS) as (gate, _):
        (first,) = await accounts_of(gate, 3)
        down.add(first)
        (second,) = await accounts_of(gate, 3)
        assert second != first
        assert [len(record.attempts) for record in gate.records] == [1, 1, 1, 2, 1, 1]
        down.clear()
        assert await accounts_of(gate, 2) == {second}
        gate.gateway.reload(gate.gateway.runtime.config)
        assert await accounts_of(gate, 2) == {second}


async def test_after_a_failover_a_conversation_stays_with_its_credential() -> None:
    down: set[str] = set()
    cache = PrefixCache(lambda account: account in down, LIMITED)
    async with pool(cache, KEYS) as (gate, _):
        await accounts_of(gate, 3)
        (first,) = set(cache.accounts)
        down.add(first)
        await accounts_of(gate, 3)
        assert [len(record.attempts) for record in gate.records] == [1, 1, 1, 2, 1, 1]
        assert {first, *cache.accounts[3:]} == set(cache.accounts)
        assert len(set(cache.accounts[3:])) == 1


async def test_a_conversation_whose_account_is_at_its_limit_goes_to_another_one() -> None:
    keys = ", ".join(f'{{{{ key = "sk-account-{name}", rpm = 3 }}}}' for name in ("one", "two"))
    cache = PrefixCache()
    async with pool(cache, KEYS.replace('"sk-account-one", "sk-account-two"', keys)) as (gate, _):
        await accounts_of(gate, 6)
        assert [len(set(part)) for part in (cache.accounts[:3], cache.accounts[3:], cache.accounts)] == [1, 1, 2]
        assert {len(record.attempts) for record in gate.records} == {1}
        assert (await gate.ask(model="pool")).status == 429
        await gate.settled(7)


async def test_a_list_by_priority_is_followed_again_as_soon_as_it_can_be() -> None:
    down: set[str] = set()
    cache = PrefixCache(lambda account: account.rpartition("-")[2] in down, BROKEN)
    async with pool(cache, TARGETS.replace("weighted", "priority")) as (gate, _):
        assert await accounts_of(gate, 2) == {"one"}
        down.add("one")
        assert await accounts_of(gate, 2) == {"two"}
        down.clear()
        assert await accounts_of(gate, 2) == {"one"}
