"""A PostgreSQL that is slow, locked by others, or unreachable for one node only (G10, G11, G24).

No request waits for it without need, nothing is overspent by a node that cannot reach it, and transactions that the
server aborts because of a deadlock are silently repeated.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select, text

from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import accounts, contents, ledger
from support.accounting_gateway import MILLI, PROMPT, error_of, max_prompt
from support.answers import TEXTS, openai_stream
from support.deadlines import PROGRAM_TIMEOUT_S
from support.fleet import fleet, limiter_of, metric, shared_of, wait_until_shared
from support.gateway import text_of, until
from support.heartbeat import heartbeat
from support.outage import (
    ANSWER,
    BRISK,
    COST,
    HELD,
    SHORT_S,
    TOKENS,
    USED,
    Stage,
    allow_database,
    ask,
    assert_unavailable,
)
from support.postgres import shared_postgres
from support.postgres_proxy import PgProxy
from support.script import End, Head, Seen, Send, Step, Wait
from support.serve_process import BEGUN, begin
from support.stores import migrated_url
from support.valkey import ValkeyServer


@asynccontextmanager
async def proxied(folder: Path) -> AsyncIterator[tuple[PgProxy, str]]:
    """A way to a new database that can be hurt, and the database's own URL."""
    url = await migrated_url("postgres", folder)
    async with PgProxy(shared_postgres()) as proxy:
        yield proxy, url


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


async def test_g10_a_slow_database_delays_no_request(tmp_path: Path) -> None:
    stage = Stage()
    async with (
        proxied(tmp_path) as (proxy, url),
        fleet(stage.script, tmp_path, database=proxy.url(name_of(url)), intervals=BRISK) as nodes,
    ):
        (setup,) = nodes.setups
        gate = setup.gate
        secret = await nodes.new_key(budget_nano=100 * HELD)
        async with await gate.connect() as client:
            running = await begin(client, key=secret, model="m", max_tokens=TOKENS)
            allow_database(nodes.setups, SHORT_S)
            proxy.delay_s = 1.5 * SHORT_S
            async with heartbeat() as heart:
                assert_unavailable(await ask(gate, secret))
                assert heart.beats > 1, "the loop goes on while the request waits"
            for _ in range(10):
                assert (await ask(gate)).status == 200
            stage.go_on.set()
            assert text_of((await running.rest()).body) == "".join(TEXTS)
        proxy.delay_s = 0.0
        allow_database(nodes.setups, PROGRAM_TIMEOUT_S)
        async with asyncio.timeout(PROGRAM_TIMEOUT_S):
            while (reply := await ask(gate, secret)).status != 200:
                assert_unavailable(reply)
                await setup.writer.flush(0.1)
        await gate.vacated()
        rows = await nodes.rows()
        assert sorted(row.request_id for row in rows) == sorted(record.id for record in gate.records)


async def test_a_node_that_alone_cannot_reach_the_database_overspends_nothing(tmp_path: Path) -> None:
    """It goes by Valkey. Whoever reaches both must not put that right by a ledger that does not know of it yet."""
    go_on = asyncio.Event()

    def script(seen: Seen) -> Sequence[Step]:
        waits: list[Step] = [Wait(go_on)] if seen.number else []
        return [Head(), *waits, Send(openai_stream(usage=USED)), End()]

    with ValkeyServer() as valkey:
        async with proxied(tmp_path) as (proxy, url):
            lonely_url = proxy.url(name_of(url))
            async with fleet(
                script, tmp_path, database=url, others=[lonely_url], valkey=valkey, intervals=BRISK
            ) as nodes:
                central, lonely = nodes.setups
                secret = await nodes.new_key(budget_nano=COST + 3 * HELD)
                account = f"key:{central.key_id(secret)}:total"
                assert (await ask(central.gate, secret)).status == 200
                await central.gate.vacated()
                await wait_until_shared(central)
                allow_database([lonely], SHORT_S)
                proxy.cut()
                pending = [asyncio.create_task(ask(lonely.gate, secret)) for _ in range(3)]
                await nodes.up.seen(4)
                for _ in range(2):
                    valkey.execute("DEL", f"{{streamweir}}:t:{account}")  # as if a while had passed
                    await central.storage.accounting.correct()
                    assert await shared_of(central).used(account) == COST + 3 * HELD
                    for setup in (central, lonely):
                        assert error_of(await ask(setup.gate, secret))["code"] == "budget_exceeded"
                proxy.mend()
                allow_database([lonely], PROGRAM_TIMEOUT_S)
                go_on.set()
                assert [(await task).status for task in pending] == [200] * 3
                await lonely.gate.vacated()
                await wait_until_shared(lonely)
                await nodes.assert_sound()
                limiter_of(lonely).renew([])
                assert limiter_of(lonely)._pinned == {}
                valkey.execute("DEL", f"{{streamweir}}:t:{account}", f"{{streamweir}}:p:{account}")
                await central.storage.accounting.correct()
                await nodes.assert_shared_agrees()
                assert await nodes.spent_and_held() == (4 * COST, 0)


TOO_LITTLE = (max_prompt(model="m", stream=True) + 24) * MILLI


@pytest.mark.parametrize("budget", [1000 * MILLI, TOO_LITTLE], ids=["enough", "too little"])
async def test_what_outgrows_its_hold_without_the_database_goes_by_valkey(tmp_path: Path, budget: int) -> None:
    go_on = asyncio.Event()
    long = openai_stream([f" word{number}" for number in range(60)], usage=(PROMPT, 62))
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(long, pieces_of=1000), End()]
    with ValkeyServer() as valkey:
        async with (
            proxied(tmp_path) as (proxy, url),
            fleet(
                script,
                tmp_path,
                database=proxy.url(name_of(url)),
                valkey=valkey,
                intervals=BRISK,
                store="hold_tokens = 10",
            ) as nodes,
        ):
            (setup,) = nodes.setups
            secret = await nodes.new_key(budget_nano=budget)
            async with await setup.gate.connect() as client:
                running = await begin(client, key=secret, model="m")
                allow_database(nodes.setups, SHORT_S)
                proxy.cut()
                go_on.set()
                body = (await running.rest()).body
            assert (b"budget_exceeded" in body) == (budget == TOO_LITTLE)
            proxy.mend()
            allow_database(nodes.setups, PROGRAM_TIMEOUT_S)
            await setup.gate.vacated()
            (row,) = await nodes.rows()
            assert row.verdict == ("stopped" if budget == TOO_LITTLE else "completed")
            assert row.held is not None
            assert 13 * MILLI < row.held <= budget, "more than it began with, and no more than there is"
            kinds = await nodes.read(lambda conn: list(conn.scalars(select(ledger.c.kind).order_by(ledger.c.seq))))
            assert kinds[0] == "hold"
            assert kinds[-1] == "settle"
            assert any(kind.startswith("extend.") for kind in kinds) or budget == TOO_LITTLE


class OtherTransaction:
    """Another's transaction: it has one lock, and takes the second when it is told to."""

    def __init__(self, first: str, second: str) -> None:
        self.has_first, self.wants_second = asyncio.Event(), asyncio.Event()
        self._places = (first, second)
        self._loop = asyncio.get_running_loop()

    def work(self, conn: Connection) -> None:
        conn.execute(text("SET LOCAL deadlock_timeout = '60s'"))  # so that it is not the one who gives way
        self._lock(conn, self._places[0])
        self._loop.call_soon(self.has_first.set)
        while not self.wants_second.is_set():
            conn.execute(text("SELECT 1"))
        self._lock(conn, self._places[1])

    def _lock(self, conn: Connection, workspace_id: str) -> None:
        conn.execute(select(accounts.c.id).where(accounts.c.id == f"ws:{workspace_id}").with_for_update())


def deadlocks() -> int:
    return shared_postgres().log_path.read_text().count("deadlock detected")


def waiters(name: str) -> int:
    """How many wait for a lock in that database."""
    statement = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname ="
    return int(shared_postgres().execute(f"{statement} '{name}'"))


async def test_g11_a_deadlock_is_nobodys_business(tmp_path: Path) -> None:
    """Another takes the same locks the other way round; the server breaks it up, and no request notices."""
    url = await migrated_url("postgres", tmp_path)
    shared_postgres().execute(f"ALTER DATABASE {name_of(url)} SET deadlock_timeout = '500ms'")
    async with fleet(ANSWER, tmp_path, database=url) as nodes:
        (setup,) = nodes.setups
        places = sorted([await nodes.new_workspace(f"w{number}", 100 * HELD) for number in range(3)])
        secrets = [await nodes.new_key(f"k{place}", place) for place in places]
        before = deadlocks()
        other = await open_store(url, tmp_path)
        try:
            busy, crossing = OtherTransaction(places[2], places[2]), OtherTransaction(places[0], places[1])
            tasks = [
                asyncio.create_task(other.write(each.work, timeout_s=PROGRAM_TIMEOUT_S)) for each in (busy, crossing)
            ]
            await busy.has_first.wait()
            await crossing.has_first.wait()
            # While the writer waits with one of them, the other two come together, and are decided together.
            replies = [asyncio.create_task(ask(setup.gate, secrets[2]))]
            await until(lambda: waiters(name_of(url)) == 1)
            replies += [asyncio.create_task(ask(setup.gate, secret)) for secret in secrets[:2]]
            await until(lambda: len(setup.writer._admission_queue._waiting) == 2)
            busy.wants_second.set()
            await tasks[0]
            assert (await replies[0]).status == 200  # so that it is not the one that is seen waiting below
            await until(lambda: waiters(name_of(url)) == 1)
            crossing.wants_second.set()
            await tasks[1]
            assert [(await reply).status for reply in replies] == [200] * 3
        finally:
            await other.close()
        assert deadlocks() > before  # not always one: the repeated statement may be faster than the one that waited
        await setup.gate.vacated()


async def test_g24_contents_that_cannot_be_kept_are_dropped_and_counted(tmp_path: Path) -> None:
    """Their table is locked, and their queue is full: the ledger goes on, and what there was room for is kept."""
    url = await migrated_url("postgres", tmp_path)
    async with fleet(ANSWER, tmp_path, database=url) as nodes:
        (setup,) = nodes.setups
        secret = await nodes.new_key(log_content=True, budget_nano=100 * HELD)
        assert (await ask(setup.gate, secret)).status == 200
        await setup.gate.vacated()
        await until(lambda: not setup.storage.contents._waiting)
        size = setup.storage.contents._max_bytes = 20_000
        other, is_locked, may_end = await open_store(url, tmp_path), asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def lock(conn: Connection) -> None:
            conn.execute(text("LOCK TABLE contents IN ACCESS EXCLUSIVE MODE"))
            loop.call_soon(is_locked.set)
            while not may_end.is_set():
                conn.execute(text("SELECT 1"))

        try:
            locking = asyncio.create_task(other.write(lock, timeout_s=PROGRAM_TIMEOUT_S))
            await is_locked.wait()
            for _ in range(20):
                assert (await ask(setup.gate, secret)).status == 200
            await setup.gate.vacated()
            assert setup.storage.contents._bytes <= size
            dropped = metric(setup.gate, "content_dropped_total")
            assert 0 < dropped < 20
            rows = await nodes.rows()
            assert [row.verdict for row in rows] == ["completed"] * 21, "the ledger has all of them"
            assert await nodes.spent_and_held() == (21 * COST, 0)
            may_end.set()
            await locking
        finally:
            may_end.set()
            await other.close()
        await until(lambda: not setup.storage.contents._waiting)
        kept = await nodes.read(lambda conn: conn.execute(select(func.count()).select_from(contents)).scalar_one())
        assert kept == 21 - dropped
