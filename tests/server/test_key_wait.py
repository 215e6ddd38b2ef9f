"""A key that was made on another node a moment ago: looked for once, without reading the body, within bounds."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from streamweir.core.errors import GatewayFault
from streamweir.policy.access import Key, KeyRing, digest_of
from streamweir.policy.secret import make_key
from streamweir.server.accounting.intervals import Intervals
from streamweir.server.accounting.key_lookup import MAX_UNKNOWN, KeyLookup
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.store.db.base import StoreUnavailable
from streamweir.store.db.clock import now_ms
from streamweir.store.keys.changes import Changes, KeyState
from streamweir.store.keys.keys import create_key
from streamweir.store.keys.spec import KeySpec
from support.accounting_gateway import MODEL, answers
from support.deadlines import PROGRAM_TIMEOUT_S
from support.fleet import Fleet, fleet
from support.gateway import chat_request, until
from support.serve_process import get

WAIT_TIMEOUT_S = 30.0
NEVER_S = 3600.0
STILL = Intervals(
    tick_s=NEVER_S,
    decision_s=PROGRAM_TIMEOUT_S,
    apply_s=PROGRAM_TIMEOUT_S,
    shared_timeout_s=PROGRAM_TIMEOUT_S,
    dead_after_s=NEVER_S,
    hidden_after_s=NEVER_S,
)
"""Nobody looks by himself at what has changed."""


def secret_of(number: int) -> str:
    return make_key(number.to_bytes(32))


class Database:
    """Keys that some other process makes; who looks is counted, and held up while `gate` is closed."""

    def __init__(self) -> None:
        self.directory = KeyDirectory(KeyRing([]))
        self.refreshes = 0
        self.fault: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self._keys: list[KeyState] = []

    def make(self, secret: str) -> None:
        key = Key(name="new", id=f"key_{len(self._keys)}", digest=digest_of(secret))
        self._keys.append(KeyState(key=key, digests={key.digest: None}))

    async def refresh(self) -> None:
        self.refreshes += 1
        read = tuple(self._keys)
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.directory.apply(Changes(version=len(read), keys=read))


async def found(lookup: KeyLookup, database: Database, secret: str) -> bool:
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        await lookup.find(secret)
    return database.directory.find(secret) is not None


async def test_it_is_found_and_what_is_not_there_is_looked_for_once() -> None:
    database = Database()
    lookup = KeyLookup(database.directory, database.refresh, min_interval_s=0.0)
    database.make(secret_of(1))
    assert await found(lookup, database, secret_of(1))
    assert not await found(lookup, database, secret_of(2))
    refreshes = database.refreshes
    for _ in range(3):
        assert await found(lookup, database, secret_of(1))
        assert not await found(lookup, database, secret_of(2))
    assert database.refreshes == refreshes
    await lookup.close()


@pytest.mark.parametrize(
    "secret", ["", "sk-stranger", secret_of(3)[:-1] + "!", secret_of(3).replace("sk-sw-", "sk-xx-"), secret_of(3) + "0"]
)
async def test_secrets_of_another_format_never_reach_the_database(secret: str) -> None:
    database = Database()
    lookup = KeyLookup(database.directory, database.refresh)
    assert not lookup.may_find(secret)
    await lookup.find(secret)
    assert database.refreshes == 0


async def test_waiting_callers_share_one_refresh_and_later_ones_wait_for_the_next() -> None:
    database = Database()
    lookup = KeyLookup(database.directory, database.refresh, min_interval_s=0.0)
    database.gate.clear()
    early = [asyncio.create_task(found(lookup, database, secret_of(number))) for number in range(50)]
    await until(lambda: database.refreshes == 1)
    database.make(secret_of(100))  # after the look has read
    late = [asyncio.create_task(found(lookup, database, secret_of(100 + number))) for number in range(50)]
    for task in late:
        await asyncio.sleep(0)
        assert not task.done()
    database.gate.set()
    assert not any(await asyncio.gather(*early))
    assert await asyncio.gather(*late) == [True] + [False] * 49
    assert database.refreshes == 2
    await lookup.close()


async def test_the_number_of_refreshes_and_of_waiting_callers_is_limited() -> None:
    database = Database()
    lookup = KeyLookup(database.directory, database.refresh, min_interval_s=NEVER_S, max_waiting=3)
    assert not await found(lookup, database, secret_of(0))
    waiting = [asyncio.create_task(lookup.find(secret_of(number))) for number in range(1, 4)]
    await asyncio.sleep(0)
    with pytest.raises(GatewayFault) as refused:
        await lookup.find(secret_of(4))
    assert refused.value.code == "ledger_unavailable"
    assert database.refreshes == 1
    waiting.pop().cancel()  # who leaves makes room
    await asyncio.wait(waiting, timeout=0)
    await asyncio.sleep(0)
    more = asyncio.create_task(lookup.find(secret_of(5)))
    await asyncio.sleep(0)
    assert not more.done()
    await lookup.close()
    for task in [*waiting, more]:
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("fault", [StoreUnavailable("away"), TimeoutError(), LookupError("a bug")])
async def test_without_a_decision_it_may_be_retried(fault: Exception) -> None:
    database = Database()
    reported: list[BaseException] = []
    lookup = KeyLookup(
        database.directory, database.refresh, fault=lambda reason, _: reported.append(reason), min_interval_s=0.0
    )
    database.make(secret_of(1))
    database.fault = fault
    with pytest.raises(GatewayFault):
        await found(lookup, database, secret_of(1))
    assert reported == ([fault] if isinstance(fault, LookupError) else []), "a bug is counted"
    database.fault = None
    assert await found(lookup, database, secret_of(1))
    await lookup.close()


async def test_the_cache_of_unknown_secrets_is_bounded() -> None:
    database = Database()
    lookup = KeyLookup(database.directory, database.refresh, min_interval_s=0.0, max_waiting=MAX_UNKNOWN + 1)
    await asyncio.gather(*(lookup.find(secret_of(number)) for number in range(MAX_UNKNOWN + 1)))
    assert len(lookup._unknown) == MAX_UNKNOWN
    await lookup.close()


# At a gateway.


async def made_elsewhere(nodes: Fleet, **spec: object) -> str:
    """By the first node; the second has not looked since."""
    wanted = KeySpec(name="new", **spec)  # type: ignore[arg-type]
    made = await nodes.setups[0].storage.store.write(
        lambda conn: create_key(conn, "default", wanted, actor="test", at_ms=now_ms())
    )
    return made.secret


Asking = Callable[[Fleet, str], Awaitable[int]]


async def chat(nodes: Fleet, secret: str) -> int:
    return (await nodes.gateways[1].ask(model="m", key=secret)).status


async def chat_in_two_parts(nodes: Fleet, secret: str) -> int:
    """The body is not asked for before the key is known."""
    request = chat_request(model="m", key=secret, headers=(("expect", "100-continue"),))
    head, _, body = request.partition(b"\r\n\r\n")
    async with await nodes.gateways[1].connect() as client:
        await client.send(head + b"\r\n\r\n")
        first = await client.head()
        if first.status != 100:
            return first.status
        assert nodes.gateways[1].gateway.accounting.directory.find(secret) is not None
        await client.send(body)
        return (await client.response()).status


async def chat_in_chunks(nodes: Fleet, secret: str) -> int:
    request = chat_request(model="m", key=secret)
    head, _, body = request.partition(b"\r\n\r\n")
    head = b"\r\n".join(line for line in head.split(b"\r\n") if not line.startswith(b"content-length"))
    framed = b"".join(b"%x\r\n%b\r\n" % (len(body[at : at + 9]), body[at : at + 9]) for at in range(0, len(body), 9))
    async with await nodes.gateways[1].connect() as client:
        await client.send(head + b"\r\ntransfer-encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n")
        return (await client.response()).status


async def models(nodes: Fleet, secret: str) -> int:
    async with await nodes.gateways[1].connect() as client:
        await client.send(get("/v1/models", secret))
        return (await client.response()).status


async def api(nodes: Fleet, secret: str) -> int:
    async with await nodes.gateways[1].connect() as client:
        await client.send(get("/api/requests", secret))
        return (await client.response()).status


@pytest.mark.parametrize("ask", [chat, chat_in_two_parts, chat_in_chunks, models, api])
async def test_it_is_good_on_every_node_at_once(ask: Asking, tmp_path: Path) -> None:
    async with fleet(answers(False), tmp_path, count=2, database="postgres", toml=MODEL, intervals=STILL) as nodes:
        secret = await made_elsewhere(nodes, scopes=("chat", "models", "admin"))
        assert nodes.gateways[1].gateway.accounting.directory.find(secret) is None
        assert await ask(nodes, secret) == 200
        assert await ask(nodes, secret_of(7)) == 401


async def test_a_caller_that_leaves_while_its_key_is_looked_for_leaves_nothing(tmp_path: Path) -> None:
    async with fleet(answers(False), tmp_path, count=2, database="postgres", toml=MODEL, intervals=STILL) as nodes:
        gate, setup = nodes.gateways[1], nodes.setups[1]
        async with setup.maintenance._loading:  # somebody else looks, and takes his time
            async with await gate.connect() as client:
                await client.send(get("/v1/models", secret_of(1)))
                await until(lambda: bool(gate.gateway._late_keys._tasks))
            await gate.settled()
        assert [record.status for record in gate.records] == [499]
