"""The database decides about money: exactly, together with earlier entries, and no unused hold remains."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.journal.entries import Hold
from streamweir.store.ledger import admissions
from support.deadlines import WAIT_TIMEOUT_S
from support.entries import DAY, assert_sound, books_on, extend, hold, key_charge, ledger_rows, open_ids, settle
from support.flaky_store import FlakyStore
from support.stores import each_database
from support.writer_setup import WriterSetup, writer_setup_on


def budgeted(request_id: str, amount: int = 100) -> Hold:
    return hold(request_id, amount, account=DAY)


async def decided(setup: WriterSetup, *holds: Hold, limit: int) -> list[str | None]:
    return await asyncio.gather(*(setup.writer.decide(each, [key_charge(limit)]) for each in holds))


async def kinds_of(store: Store) -> list[tuple[str | None, str]]:
    await store.read(assert_sound)
    return [(request_id, kind) for request_id, kind, _, _ in await store.read(ledger_rows)]


async def until_settled(setup: WriterSetup, store: Store, request_id: str) -> None:
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while (request_id, "settle") not in await kinds_of(store):
            await setup.flush()
            await asyncio.sleep(0.01)


@each_database
async def test_of_many_at_once_exactly_those_that_fit_are_admitted(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store, writer_setup_on(store, tmp_path / "journal") as setup:
        verdicts = await decided(setup, *(budgeted(f"r{number:03}") for number in range(200)), limit=399)
        assert verdicts == [None] * 3 + ["budget_exceeded"] * 197
        assert await store.read(open_ids) == ["r000", "r001", "r002"]
        assert setup.writer.batcher.batches <= 2, "together, not one by one"
        await store.read(assert_sound)


@each_database
async def test_what_was_put_before_counts_before(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store:
        async with writer_setup_on(store, tmp_path / "journal", pause_s=60.0) as setup:
            setup.writer.put(budgeted("r1"))
            assert await decided(setup, budgeted("r2"), limit=150) == ["budget_exceeded"]
            setup.writer.put(settle("r1", 10, account=DAY), required=True)
            assert await decided(setup, budgeted("r3"), limit=150) == [None]
            assert setup.reported == []
        assert await kinds_of(store) == [("r1", "hold"), ("r1", "settle"), ("r3", "hold")]


@each_database
async def test_a_hold_is_extended_where_that_fits(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store, writer_setup_on(store, tmp_path / "journal") as setup:
        assert await decided(setup, budgeted("r1"), limit=200) == [None]
        answers = await asyncio.gather(
            setup.writer.extend(extend("r1", 1, 60), [key_charge(200)]),
            setup.writer.decide(budgeted("r2", 40), [key_charge(200)]),
            setup.writer.extend(extend("r1", 2, 60), [key_charge(200)]),
        )
        assert list(answers) == [None, None, "budget_exceeded"]
        assert ("r1", "extend.1") in await kinds_of(store)


@each_database
async def test_a_repeated_decision_is_the_same(database: str, tmp_path: Path) -> None:
    async with books_on(database, tmp_path) as store, writer_setup_on(store, tmp_path / "journal") as setup:
        for _ in range(2):
            assert await decided(setup, budgeted("r1"), limit=100) == [None]
        assert await kinds_of(store) == [("r1", "hold")]


@each_database
async def test_a_question_that_cannot_be_written_fails_alone(database: str, tmp_path: Path) -> None:
    async with (
        books_on(database, tmp_path) as store,
        writer_setup_on(store, tmp_path / "journal", pause_s=60.0) as setup,
    ):
        setup.writer.put(hold("before"))
        setup.writer.put(hold("poison.put", 2**63))
        answers = await asyncio.gather(
            setup.writer.decide(budgeted("r1"), [key_charge(1000)]),
            setup.writer.decide(budgeted("poison", 2**63), []),
            setup.writer.decide(budgeted("r2"), [key_charge(1000)]),
            return_exceptions=True,
        )
        assert answers[0] is None
        assert isinstance(answers[1], DBAPIError | OverflowError)
        assert answers[2] is None
        assert setup.reported == ["entry_quarantined"]
        assert not setup.writer.is_unavailable
        assert await kinds_of(store) == [("before", "hold"), ("r1", "hold"), ("r2", "hold")]


async def test_a_caller_that_leaves_before_its_turn_holds_nothing(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        flaky = FlakyStore(store)
        async with writer_setup_on(flaky, tmp_path / "journal") as setup:
            flaky.gate.clear()
            setup.writer.put(hold("r1"))
            await flaky.reached.wait()
            task = asyncio.create_task(setup.writer.decide(budgeted("r2"), []))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            flaky.gate.set()
        assert await kinds_of(store) == [("r1", "hold")]


@pytest.mark.parametrize("how", ["cancelled", "too late"])
async def test_a_caller_that_leaves_during_the_decision_has_its_hold_released(tmp_path: Path, how: str) -> None:
    async with books_on("sqlite", tmp_path) as store:
        flaky = FlakyStore(store)
        async with writer_setup_on(
            flaky, tmp_path / "journal", decision_s=WAIT_TIMEOUT_S if how == "cancelled" else 0.05
        ) as setup:
            flaky.gate.clear()
            task = asyncio.create_task(setup.writer.decide(budgeted("r1"), [key_charge(100)]))
            await flaky.reached.wait()
            if how == "cancelled":
                task.cancel()
                await asyncio.wait((task,))
            else:
                with pytest.raises(StoreUnavailable):
                    await task
            flaky.gate.set()
            await until_settled(setup, store, "r1")
            assert await store.read(open_ids) == []


async def test_a_request_that_continues_by_the_journal_keeps_its_hold(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        flaky = FlakyStore(store)
        async with writer_setup_on(flaky, tmp_path / "journal", decision_s=0.05) as setup:
            flaky.gate.clear()
            with pytest.raises(StoreUnavailable):
                await setup.writer.decide(budgeted("r1"), [key_charge(100)])
            setup.writer.put(budgeted("r1"))
            flaky.gate.set()
            await setup.flush()
            assert await kinds_of(store) == [("r1", "hold")]
            assert await store.read(open_ids) == ["r1"]


@each_database
@pytest.mark.parametrize("goes_on", [False, True])
async def test_a_decision_whose_commit_was_lost_is_looked_for(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    monkeypatch.setattr(admissions, "CHECK_INTERVAL_S", 0.0)
    async with books_on(database, tmp_path) as store:
        flaky = FlakyStore(store)
        async with writer_setup_on(flaky, tmp_path / "journal") as setup:
            flaky.lost_after = 1
            with pytest.raises(StoreUnavailable):
                await setup.writer.decide(budgeted("r1"), [key_charge(100)])
            if goes_on:
                setup.writer.put(budgeted("r1"))
            await setup.wait_for("database_back")
            if goes_on:
                await setup.flush()
                assert await store.read(open_ids) == ["r1"]
            else:
                await until_settled(setup, store, "r1")
                assert await store.read(open_ids) == []
            assert len(await kinds_of(store)) == (1 if goes_on else 2)


async def test_a_lost_decision_that_was_never_made_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admissions, "CHECK_INTERVAL_S", 0.0)
    monkeypatch.setattr(admissions, "UNCERTAIN_S", 0.0)
    async with books_on("sqlite", tmp_path) as store:
        flaky = FlakyStore(store)
        async with writer_setup_on(flaky, tmp_path / "journal") as setup:
            flaky.lost_before = 1
            with pytest.raises(StoreUnavailable):
                await setup.writer.decide(budgeted("r1"), [key_charge(100)])
            await setup.wait_for("database_back")
            assert await decided(setup, budgeted("r2"), limit=100) == [None]
        assert await kinds_of(store) == [("r2", "hold")]


async def test_while_the_database_is_unavailable_it_reports_that_at_once(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        flaky = FlakyStore(store)
        async with writer_setup_on(flaky, tmp_path / "journal") as setup:
            flaky.lost_before = 1
            setup.writer.put(hold("r1"))
            await setup.wait_for("database_away")
            assert setup.writer.is_unavailable
            flaky.gate.clear()
            with pytest.raises(StoreUnavailable, match="away"):
                await setup.writer.decide(budgeted("r2"), [key_charge(100)])
            flaky.gate.set()
            await setup.wait_for("database_back")
            assert await decided(setup, budgeted("r2"), limit=200) == [None]


async def test_waiters_get_an_error_when_it_ends(tmp_path: Path) -> None:
    async with books_on("sqlite", tmp_path) as store:
        flaky = FlakyStore(store)
        flaky.gate.clear()
        setup = WriterSetup(flaky, tmp_path / "journal", pause_s=0.0)
        setup.writer.start()
        first = asyncio.create_task(setup.writer.decide(budgeted("r1"), []))
        await flaky.reached.wait()
        second = asyncio.create_task(setup.writer.decide(budgeted("r2"), []))
        await asyncio.sleep(0)
        assert await setup.writer.close(0.01)
        for task in (first, second):
            with pytest.raises(StoreUnavailable, match="closed"):
                await task
        assert await setup.journal.close()
