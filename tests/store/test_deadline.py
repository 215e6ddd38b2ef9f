"""A limit does not end because the event loop was blocked: what arrived in the meantime is processed first."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from streamweir.store.db.base import StoreUnavailable
from streamweir.store.db.clock import Deadline, time_limit
from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import accounts
from streamweir.store.journal.journal import Journal
from streamweir.store.ledger.admissions import AdmissionQueue
from support.entries import hold
from support.stalled_loop import run_on_it, the_loop
from support.stores import each_database, migrated_url

HOUR_S = 3600.0
TURNS = 8
"""Of the event loop, for one who is answered over several."""


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def answer_after_a_standstill(answer: Callable[[], object]) -> None:
    the_loop().stand_still(2 * HOUR_S)
    await turns(TURNS)
    answer()


def test_a_standstill_takes_one_part_of_a_limit() -> None:
    async def main() -> tuple[int, int]:
        calls: list[None] = []
        Deadline(the_loop(), HOUR_S, lambda: calls.append(None))
        the_loop().stand_still(24 * HOUR_S)
        await turns(TURNS)
        before = len(calls)
        for _ in range(100):
            the_loop().stand_still(HOUR_S)
            await turns(1)
        return before, len(calls)

    assert run_on_it(main) == (0, 1)


def test_a_cancelled_limit_is_never_over() -> None:
    async def main() -> list[None]:
        calls: list[None] = []
        deadline = Deadline(the_loop(), HOUR_S, lambda: calls.append(None))
        the_loop().stand_still(HOUR_S)
        await turns(2)
        deadline.cancel()
        for _ in range(100):
            the_loop().stand_still(HOUR_S)
            await turns(1)
        return calls

    assert run_on_it(main) == []


def test_what_never_comes_is_not_waited_for() -> None:
    async def main() -> None:
        async with time_limit(0.01):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        run_on_it(main)


async def _with(work: Awaitable[object], other: Awaitable[object]) -> object:
    found, _ = await asyncio.gather(work, other)
    return found


def test_an_answer_that_arrived_while_the_loop_was_blocked_is_read() -> None:
    async def main() -> object:
        answer = the_loop().create_future()

        async def waits() -> object:
            async with time_limit(HOUR_S):
                return await answer

        return await _with(waits(), answer_after_a_standstill(lambda: answer.set_result("here")))

    assert run_on_it(main) == "here"


def test_a_decision_that_came_during_a_standstill_counts() -> None:
    async def main() -> object:
        admission_queue = AdmissionQueue(lambda: None, lambda _: None)

        def decide() -> None:
            for question in list(admission_queue.take()):
                admission_queue.resolve(question, None)

        return await _with(admission_queue.decide(hold("r1"), (), HOUR_S), answer_after_a_standstill(decide))

    assert run_on_it(main) is None


def test_a_hold_that_is_written_after_a_standstill_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """The loop stood still before it gave the entry to the thread that writes."""

    async def main() -> None:
        journal = Journal(tmp_path, "i")
        journal.open()
        handle = journal.append(hold("r1"))
        the_loop().call_soon(the_loop().stand_still, 2 * HOUR_S)
        await handle.written(HOUR_S)
        await journal.close(HOUR_S)

    run_on_it(main)


@each_database
def test_a_transaction_during_a_blocked_loop_is_not_abandoned(database: str, tmp_path: Path) -> None:
    def work(conn: Connection) -> str:
        return str(conn.execute(select(accounts.c.id)).scalar_one_or_none())

    async def main() -> object:
        store = await open_store(await migrated_url(database, tmp_path), tmp_path)
        try:
            assert await store.read(work) == "None"  # it is connected

            async def stand_still() -> None:
                await turns(3)
                the_loop().stand_still(2 * HOUR_S)

            return await _with(store.read(work, timeout_s=HOUR_S), stand_still())
        finally:
            await store.close()

    try:
        assert run_on_it(main) == "None"
    except StoreUnavailable as fault:
        pytest.fail(str(fault))
