"""Several gateways with the same database, before one upstream.

    async with fleet(script, tmp_path, count=2, database="postgres", valkey=server) as nodes:
        secret = await nodes.new_key(budget_nano=39 * MILLI)
        reply = await nodes.gateways[1].ask(model="m", key=secret)

On SQLite they are workers on one file, in one folder; on PostgreSQL (or at a URL) nodes with a folder
each. When the block is left, nothing may be open or held, and every sum must be that of its rows:
those of Valkey too, where there is one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Connection, select

from streamweir.server.accounting.intervals import Intervals
from streamweir.server.accounting.shared_limiter import SharedLimiter
from streamweir.store.db.tables import accounts, open_requests
from streamweir.store.ledger.accounts import balance_of
from streamweir.store.ledger.check import check_sums
from streamweir.store.limits.shared import SharedLimits
from streamweir.store.requests.requests import RequestFilter, RequestRow, list_requests
from support.accounting_gateway import MODEL, AccountingSetup, with_wait
from support.deadlines import PROGRAM_TIMEOUT_S
from support.gateway import Gate, gateway, nothing_left, providers
from support.program_deadlines import LONG_INTERVALS
from support.script import Script
from support.scripted_upstream import ScriptedUpstream
from support.stores import DATABASES, migrated_url
from support.valkey import ValkeyServer

T = TypeVar("T")


class Fleet:
    def __init__(self, setups: list[AccountingSetup], up: ScriptedUpstream) -> None:
        self.setups = setups
        self.up = up

    @property
    def gateways(self) -> list[Gate]:
        return [setup.gate for setup in self.setups]

    async def look(self) -> None:
        """Everyone knows what has changed."""
        for setup in self.setups:
            await setup.maintenance.load_changes()

    async def count_peers(self) -> None:
        """Everyone knows how many they are."""
        for setup in self.setups:
            setup.maintenance._heartbeat_at = 0.0
            await setup.maintenance._send_heartbeat()
        assert {setup.storage.node.peers for setup in self.setups} == {len(self.setups)}

    async def new_key(self, name: str = "key", workspace_id: str = "default", **spec: Any) -> str:
        secret = await self.setups[0].new_key(name, workspace_id, **spec)
        await self.look()
        return secret

    async def new_workspace(self, name: str, credit: int) -> str:
        made = await self.setups[0].new_workspace(name, credit)
        await self.look()
        return made

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Of a database that has everything which any of them has written down."""
        for setup in self.setups:
            assert await setup.writer.flush(PROGRAM_TIMEOUT_S)
        return await self.setups[0].storage.store.read(work, timeout_s=PROGRAM_TIMEOUT_S)

    async def rows(self, key_id: str | None = None) -> list[RequestRow]:
        page = await self.read(lambda conn: list_requests(conn, RequestFilter(key_id=key_id), limit=1000))
        return list(reversed(page.rows))

    async def spent_and_held(self, workspace_id: str = "default") -> tuple[int, int]:
        sums = await self.read(lambda conn: balance_of(conn, workspace_id))
        return sums.spent, sums.held

    async def assert_sound(self) -> None:
        assert (await self.read(check_sums)).faults == []

    async def assert_balanced(self) -> None:
        await self.assert_sound()
        assert await self.read(lambda conn: list(conn.scalars(select(open_requests.c.request_id)))) == []
        found = await self.read(lambda conn: conn.execute(select(accounts)).all())
        assert [account.id for account in found if account.held] == []
        for setup in self.setups:
            assert setup.storage.accounting.open_count == 0
            assert setup.writer.batcher.quarantined == 0
            if isinstance(setup.limiter, SharedLimiter):
                assert setup.limiter._local_ids == set()
                assert all(key.streams == 0 for key in setup.limiter._local._keys.values())

    async def assert_shared_agrees(self) -> None:
        """Valkey says of every account what the database says, or nothing."""
        for setup in self.setups:
            await wait_until_shared(setup)
        found = await self.read(lambda conn: conn.execute(select(accounts)).all())
        shared = shared_of(self.setups[0])
        for account in found:
            known = await shared.used(account.id)
            assert known in (None, account.spent + account.held), (account, known)


def metric(gate: Gate, name: str) -> float:
    """The value of a metric."""
    for family in text_string_to_metric_families(gate.gateway.metrics_text().decode()):
        for sample in family.samples:
            if sample.name == f"streamweir_{name}":
                return sample.value
    raise AssertionError(f"no metric {name}")


def limiter_of(setup: AccountingSetup) -> SharedLimiter:
    limiter = setup.limiter
    assert isinstance(limiter, SharedLimiter)
    return limiter


def shared_of(setup: AccountingSetup) -> SharedLimits:
    shared = limiter_of(setup)._shared
    assert shared is not None
    return shared


async def wait_until_shared(setup: AccountingSetup) -> None:
    """Until Valkey has heard of all that this gateway had to tell it."""
    limiter = limiter_of(setup)
    async with asyncio.timeout(PROGRAM_TIMEOUT_S):
        while limiter._tasks:
            await asyncio.wait(set(limiter._tasks))


@asynccontextmanager
async def fleet(
    script: Script,
    folder: Path,
    *,
    count: int = 1,
    database: str = "sqlite",
    valkey: ValkeyServer | None = None,
    toml: str = MODEL,
    store: str = "",
    intervals: Intervals = LONG_INTERVALS,
    others: Sequence[str] = (),
    named: bool = False,
) -> AsyncIterator[Fleet]:
    """`database`: which kind, or the URL of one. `store` is more TOML for `[store]`: unless it says so, no request
    waits for money that others hold.

    `others`: URLs of the same database, each for a gateway more. `named`: each is a node of its own, also on SQLite.
    """
    url = await migrated_url(database, folder) if database in DATABASES else database
    are_workers = database == "sqlite"
    shared = "" if valkey is None else f'[shared]\nurl = "{valkey.url}"\n'
    async with nothing_left(), ScriptedUpstream(script) as up:
        async with AsyncExitStack() as stack:
            setups = []
            for number, each in enumerate([url] * count + list(others)):
                name = f'\n[server]\nnode = "node{number}"\n' if named else ""
                config = (
                    f'{providers(up=up.base_url)}\n[store]\nurl = "{each}"\n{with_wait(store)}\n{shared}{toml}{name}'
                )
                data_dir = folder if are_workers else folder / f"node{number}"
                data_dir.mkdir(exist_ok=True)
                is_worker = are_workers and count > 1
                gate = await stack.enter_async_context(
                    gateway(config, data_dir=data_dir, is_worker=is_worker, intervals=intervals)
                )
                setups.append(AccountingSetup(gate, up))
            nodes = Fleet(setups, up)
            yield nodes
            for gate in nodes.gateways:
                await gate.vacated()
            await nodes.assert_balanced()
        await up.idle()
