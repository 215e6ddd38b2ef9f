"""C27: of two hundred requests at once on money for three, exactly three are admitted, whichever part decides.

One process decides in memory, several through Valkey and the database, or the database alone; if Valkey is flushed,
killed or frozen meanwhile, the database decides alone. See `support.race`.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from msgspec import structs
from sqlalchemy import Connection

from conftest import SOAKS
from streamweir.policy.limits.budget import dollars_of
from streamweir.server.accounting.intervals import DEFAULT_INTERVALS
from streamweir.store.db.clock import now_ms
from streamweir.store.db.engine import open_store
from streamweir.store.keys.credit import add_credit
from streamweir.store.keys.keys import create_key
from streamweir.store.keys.spec import KeySpec
from streamweir.store.keys.workspaces import WorkspaceSpec, create_workspace
from streamweir.store.ledger.check import check_sums
from streamweir.store.requests.requests import RequestFilter, list_requests
from support.accounting_gateway import MODEL
from support.fleet import fleet
from support.gateway import KEY, providers
from support.program_deadlines import LONG_INTERVALS
from support.race import (
    CALLERS,
    MONEY,
    Barrier,
    Line,
    assert_books,
    assert_settled,
    callers,
    money_for_three,
    race,
    race_of,
)
from support.raw_client import RawClient
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import Program, get, served
from support.soak import part_of
from support.valkey import ValkeyServer
from support.variants import fleet_of


@pytest.mark.diagonal
@pytest.mark.parametrize("code", ["budget_exceeded", "insufficient_quota"])
@pytest.mark.parametrize("variant", part_of(["alone", "workers", "nodes", "database alone"], 2))
async def test_c27_two_hundred_on_money_for_three(tmp_path: Path, variant: str, code: str) -> None:
    barrier, chance, times = Barrier(), Random(f"{variant} {code}"), 100 if SOAKS else 1
    async with fleet_of(variant, barrier.script, tmp_path) as nodes:
        for number in range(times):
            secret, workspace_id = await money_for_three(nodes, f"w{number}", code)
            await race_of(nodes, barrier, chance, secret, code)
            await assert_books(nodes, secret, workspace_id, code)


DISTURBANCES: dict[str, tuple[Callable[[ValkeyServer], object], ...]] = {
    "flushed": (ValkeyServer.flush,),
    "killed": (ValkeyServer.kill, ValkeyServer.start),
    "frozen": (ValkeyServer.pause, ValkeyServer.resume),
}


@asynccontextmanager
async def disturbed(valkey: ValkeyServer, disturbance: str) -> AsyncIterator[None]:
    """Again and again while the block lasts; in the end it is there."""
    is_over = asyncio.Event()

    async def disturb() -> None:
        while not is_over.is_set():
            for step in DISTURBANCES[disturbance]:
                await asyncio.to_thread(step, valkey)

    task = asyncio.create_task(disturb())
    try:
        yield
    finally:
        is_over.set()
        await task


@pytest.mark.parametrize("disturbance", part_of(list(DISTURBANCES), 3))
@pytest.mark.parametrize("times", [1, pytest.param(100, marks=pytest.mark.soak)])
async def test_c27_while_valkey_comes_and_goes(tmp_path: Path, disturbance: str, times: int) -> None:
    """Whatever it says, or does not say, the database lets in three."""
    barrier, chance, code = Barrier(), Random(f"{disturbance} {times}"), "budget_exceeded"
    intervals = structs.replace(LONG_INTERVALS, shared_timeout_s=DEFAULT_INTERVALS.shared_timeout_s, shared_pause_s=0.1)
    with ValkeyServer() as valkey:
        async with fleet(
            barrier.script, tmp_path, count=2, database="postgres", valkey=valkey, intervals=intervals
        ) as nodes:
            for number in range(times):
                secret, workspace_id = await money_for_three(nodes, f"w{number}", code)
                async with disturbed(valkey, disturbance):
                    await race_of(nodes, barrier, chance, secret, code)
                await assert_books(nodes, secret, workspace_id, code)


def furnish(conn: Connection) -> str:
    """A prepaid workspace, and the secret of its key."""
    made = create_workspace(conn, WorkspaceSpec(name="prepaid", prepaid=True), actor="test", at_ms=now_ms())
    add_credit(conn, made.id, MONEY, actor="test", at_ms=now_ms())
    return create_key(conn, made.id, KeySpec(name="paid"), actor="test", at_ms=now_ms()).secret


async def spread(stack: AsyncExitStack, program: Program, chance: Random, secret: str) -> list[Line]:
    """Connections of which each worker has a good part: who accepts is chance, and the log tells who it was."""

    async def open_one() -> tuple[RawClient, str | None]:
        client = await stack.enter_async_context(await program.connect())
        await client.send(get("/v1/models", secret))
        return client, (await client.response()).header("x-request-id")

    found: dict[int, list[RawClient]] = {0: [], 1: []}
    while sum(map(len, found.values())) < CALLERS:
        for client, id in await asyncio.gather(*(open_one() for _ in range(CALLERS // 2))):
            number = (await program.logged("request", id=id))["worker"]
            if len(found[number]) < CALLERS * 2 // 3:
                found[number].append(client)
    return list(zip([*found[0], *found[1]][:CALLERS], callers(chance, 1), strict=True))


async def test_c27_by_two_workers_of_the_real_program(tmp_path: Path) -> None:
    barrier, chance, data_dir = Barrier(), Random(27), tmp_path / "data"
    budget_secret = KEY
    store = await open_store("sqlite:///streamweir.db", data_dir)
    credit_secret = await store.write(furnish)
    await store.close()
    with ValkeyServer() as valkey:
        async with ScriptedUpstream(barrier.script) as up, AsyncExitStack() as stack:
            toml = f'''
[store]
budget_wait_s = 0
[shared]
url = "{valkey.url}"
[[keys]]
name = "file"
key = "{budget_secret}"
budget_usd = {dollars_of(MONEY)}
{MODEL}{providers(up=up.base_url)}'''
            program = await stack.enter_async_context(served(tmp_path, toml, "--workers", "2"))
            lines = await spread(stack, program, chance, credit_secret)
            await race(lines, up, barrier, budget_secret, "budget_exceeded")
            await race(lines, up, barrier, credit_secret, "insufficient_quota")
            program.signal(signal.SIGTERM)
            assert await program.status() == 0
    store = await open_store("sqlite:///streamweir.db", data_dir)
    try:
        assert (await store.read(check_sums)).faults == []
        page = await store.read(lambda conn: list_requests(conn, RequestFilter(), limit=1000))
        chats = [row for row in page.rows if row.model == "m"]
        assert_settled([row for row in chats if row.key_name == "file"], "budget_exceeded")
        assert_settled([row for row in chats if row.key_name == "paid"], "insufficient_quota")
        assert len(chats) == 2 * CALLERS
    finally:
        await store.close()
