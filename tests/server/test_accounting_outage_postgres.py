"""PostgreSQL stopped, killed or frozen under load, and available again (G9).

Running streams are not affected. Requests without a budget continue while the journal accepts their entries, those with
one while Valkey decides; otherwise they get a 503, soon. When the database is available again it gets everything, once,
without a restart. The event loop is never blocked.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec import structs

from streamweir.store.db.engine import open_store
from support.accounting_gateway import AccountingSetup, error_of
from support.answers import TEXTS
from support.deadlines import PROGRAM_TIMEOUT_S
from support.fleet import fleet, metric, wait_until_shared
from support.gateway import text_of
from support.heartbeat import heartbeat
from support.outage import ANSWER, BRISK, COST, HELD, SHORT_S, TOKENS, Stage, allow_database, ask, assert_unavailable
from support.postgres import PrivatePostgres
from support.serve_process import begin
from support.valkey import ValkeyServer

OUTAGES: dict[str, tuple[Callable[[PrivatePostgres], object], Callable[[PrivatePostgres], object]]] = {
    "stopped": (PrivatePostgres.stop, PrivatePostgres.start),
    "killed": (PrivatePostgres.kill, PrivatePostgres.start),
    "frozen": (PrivatePostgres.pause, PrivatePostgres.resume),
}


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    with PrivatePostgres() as running:
        yield running


@pytest.fixture(scope="module")
def template(server: PrivatePostgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database that is at the newest schema."""

    async def migrate(url: str) -> None:
        await (await open_store(url, tmp_path_factory.mktemp("migration"))).close()

    url = server.make_database()
    asyncio.run(migrate(url))
    return url.partition("?")[0].rpartition("/")[2]


async def is_unavailable(setup: AccountingSetup) -> None:
    """Until it knows."""
    async with asyncio.timeout(PROGRAM_TIMEOUT_S):
        while not setup.writer.is_unavailable:
            await ask(setup.gate)


@pytest.mark.parametrize(
    ("outage", "has_valkey"),
    [
        ("stopped", True),
        ("killed", False),
        ("frozen", True),
        pytest.param("stopped", False, marks=pytest.mark.soak),
        pytest.param("killed", True, marks=pytest.mark.soak),
        pytest.param("frozen", False, marks=pytest.mark.soak),
    ],
)
async def test_g9_the_database_becomes_unavailable_under_load(
    tmp_path: Path, server: PrivatePostgres, template: str, outage: str, has_valkey: bool
) -> None:
    hurt, heal = OUTAGES[outage]
    stage = Stage()
    with ExitStack() as stack:
        valkey = stack.enter_context(ValkeyServer()) if has_valkey else None
        url = server.make_database(template)
        async with fleet(stage.script, tmp_path, database=url, valkey=valkey, intervals=BRISK) as nodes:
            (setup,) = nodes.setups
            gate = setup.gate
            secret = await nodes.new_key(budget_nano=2 * HELD + 3 * COST)
            async with await gate.connect() as client:
                running = await begin(client, key=secret, model="m", max_tokens=TOKENS)
                assert (await ask(gate, secret)).status == 200
                allow_database(nodes.setups, SHORT_S)
                await asyncio.to_thread(hurt, server)
                async with heartbeat() as heart:
                    await is_unavailable(setup)
                    assert heart.beats > 1, "it is found out in a while, and nobody waits for it"
                for _ in range(10):
                    assert (await ask(gate)).status == 200
                served = await _ask_for_money(setup, secret, has_valkey)
                assert_unavailable(await ask(gate, headers=(("idempotency-key", "once"),)))
                assert metric(gate, "journal_entries_waiting") >= 20
                assert metric(gate, "journal_oldest_seconds") > 0
                stage.go_on.set()
                assert text_of((await running.rest()).body) == "".join(TEXTS)
            await gate.vacated()
            assert len(nodes.up.requests) == sum(bool(record.attempts) for record in gate.records)
            await asyncio.to_thread(heal, server)
            allow_database(nodes.setups, PROGRAM_TIMEOUT_S)
            rows = await nodes.rows()
            assert sorted(row.request_id for row in rows) == sorted(record.id for record in gate.records)
            assert [row.verdict for row in rows].count("completed") == len(nodes.up.requests)
            key_rows = [row for row in rows if row.key_id == setup.key_id(secret) and row.price]
            assert len(key_rows) == 2 + served
            assert metric(gate, "journal_entries_waiting") == metric(gate, "journal_oldest_seconds") == 0
            assert (await ask(gate)).status == 200
            assert (await ask(gate, secret)).status in (200, 429)


async def _ask_for_money(setup: AccountingSetup, secret: str, has_valkey: bool) -> int:
    """How many were let in: as many as there was money for, where somebody could tell."""
    if not has_valkey:
        assert_unavailable(await ask(setup.gate, secret))
        return 0
    served = 0
    while (reply := await ask(setup.gate, secret)).status == 200:
        served += 1
        await setup.gate.has_read()
        await wait_until_shared(setup)
    assert error_of(reply)["code"] == "budget_exceeded"
    assert served == 3
    return served


async def test_g9_without_space_in_the_journal_no_request_is_admitted(
    tmp_path: Path, server: PrivatePostgres, template: str
) -> None:
    stage = Stage()
    async with fleet(stage.script, tmp_path, database=server.make_database(template), intervals=BRISK) as nodes:
        (setup,) = nodes.setups
        gate = setup.gate
        setup.storage.journal._max_bytes = 20_000
        async with await gate.connect() as client:
            running = await begin(client, model="m", max_tokens=TOKENS)
            await asyncio.to_thread(server.stop)
            async with asyncio.timeout(PROGRAM_TIMEOUT_S):
                while (reply := await ask(gate)).status == 200:
                    pass
            assert_unavailable(reply)
            assert metric(gate, "journal_bytes") >= 20_000
            assert metric(gate, "journal_entries_refused_total") >= 1
            stage.go_on.set()
            assert text_of((await running.rest()).body) == "".join(TEXTS)
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(PROGRAM_TIMEOUT_S):
            while (reply := await ask(gate)).status != 200:
                assert_unavailable(reply)
                await setup.writer.flush(0.1)
        await gate.vacated()
        rows = await nodes.rows()
        settled = {row.request_id for row in rows if row.verdict == "completed"}
        assert settled == {record.id for record in gate.records if record.attempts}
        assert len(settled) == len(nodes.up.requests)
        assert metric(gate, "journal_bytes") == 0


async def test_g9_keys_of_the_store_are_good_for_a_while(
    tmp_path: Path, server: PrivatePostgres, template: str
) -> None:
    intervals = structs.replace(BRISK, key_max_age_s=1.0)
    async with fleet(ANSWER, tmp_path, database=server.make_database(template), intervals=intervals) as nodes:
        (setup,) = nodes.setups
        secret = await nodes.new_key()
        await asyncio.to_thread(server.stop)
        assert (await ask(setup.gate)).status == 200
        async with asyncio.timeout(PROGRAM_TIMEOUT_S):
            while (reply := await ask(setup.gate, secret)).status == 200:
                await asyncio.sleep(0.01)
        assert_unavailable(reply)
        assert (await ask(setup.gate)).status == 200, "the operator's file is here"
        unknown = await ask(setup.gate, "sk-sw-nobody-has-ever-seen-this-one")
        assert (unknown.status, error_of(unknown)["code"]) == (401, "invalid_api_key")
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(PROGRAM_TIMEOUT_S):
            while (reply := await ask(setup.gate, secret)).status != 200:
                assert_unavailable(reply)
                await asyncio.sleep(0.01)
