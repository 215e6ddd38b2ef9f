"""Several processes at once on the same money: each has a store of its own. Seeded; `make soak` repeats it longer."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from conftest import SOAKS
from streamweir.policy.limits.limit_request import BudgetCharge
from streamweir.store.db.base import Store
from streamweir.store.db.engine import open_store
from streamweir.store.journal.entries import Entry, Hold
from streamweir.store.ledger.accounts import credit
from streamweir.store.ledger.admissions import decide_holds, extend_if_fits
from streamweir.store.ledger.posting import ApplyResult, apply, lock_for
from streamweir.store.ledger.recovery import settle_orphans
from support.entries import (
    DAY,
    NOW_MS,
    account_sums,
    assert_sound,
    credit_charge,
    extend,
    hold,
    key_charge,
    ledger_rows,
    logged,
    open_ids,
    orphan,
    settle,
    sums,
)
from support.stores import each_database, migrated_url

T = TypeVar("T")

NODES = 4
RUNS = 100 if SOAKS else 10
REQUESTS = 200 if SOAKS else 30
WAIT_TIMEOUT_S = 60.0


@asynccontextmanager
async def nodes_on(database: str, folder: Path) -> AsyncIterator[Sequence[Store]]:
    url = await migrated_url(database, folder)
    async with AsyncExitStack() as stack:
        nodes: list[Store] = []
        for _ in range(NODES):
            nodes.append(await open_store(url, folder))
            stack.push_async_callback(nodes[-1].close)
        yield nodes


async def written(store: Store, work: Callable[[Connection], T]) -> T:
    return await store.write(work, timeout_s=WAIT_TIMEOUT_S)


async def together(*ways: Awaitable[T]) -> list[T]:
    return list(await asyncio.gather(*ways))


async def applied(store: Store, entries: Sequence[Entry]) -> ApplyResult:
    """As the writer does it."""
    try:
        return await written(store, partial(apply, entries=entries))
    except IntegrityError:
        return await written(store, partial(apply, entries=entries, check_existing=True))


def parted(
    chance: random.Random, holds: list[Hold], charges: Sequence[BudgetCharge]
) -> list[list[tuple[Hold, Sequence[BudgetCharge]]]]:
    batches = []
    while holds:
        size = chance.choice((1, 1, 2, 5))
        batches.append([(each, charges) for each in holds[:size]])
        holds = holds[size:]
    return batches


@each_database
@pytest.mark.parametrize("kind", ["budget", "credit"])
async def test_many_at_once_on_a_budget_for_three(database: str, tmp_path: Path, kind: str) -> None:
    chance = random.Random(4)
    async with nodes_on(database, tmp_path) as nodes:
        for run in range(RUNS):
            owner = f"w{run}"
            account = f"key:{owner}:total"
            charges = [key_charge(350, account)] if kind == "budget" else [credit_charge(owner)]
            if kind == "credit":
                await written(nodes[0], partial(credit, workspace_id=owner, amount=350, note="", at_ms=NOW_MS))
            holds = [
                hold(f"{run}.{number}", workspace_id=owner, key_id=owner, account=account) for number in range(REQUESTS)
            ]
            ways = [
                written(chance.choice(nodes), partial(decide_holds, holds=batch))
                for batch in parted(chance, holds, charges)
            ]
            codes = [code for batch in await together(*ways) for code in batch]
            assert len(codes) == REQUESTS
            assert codes.count(None) == 3
            assert set(codes) == {None, charges[0].code}
        assert len(await nodes[0].read(open_ids)) == 3 * RUNS
        await nodes[0].read(assert_sound)


@each_database
async def test_extensions_share_what_is_left(database: str, tmp_path: Path) -> None:
    async with nodes_on(database, tmp_path) as nodes:
        ids = [f"r{number}" for number in range(12)]
        await applied(nodes[0], [hold(id, 10, account=DAY) for id in ids])
        charges = [key_charge(120 + 5 * 7)]
        ways = [
            written(nodes[number % NODES], partial(extend_if_fits, entry=extend(id, 1, 7), charges=charges))
            for number, id in enumerate(ids)
        ]
        codes = await together(*ways)
        assert codes.count(None) == 5
        assert await nodes[1].read(sums) == (0, 0, 155)
        await nodes[0].read(assert_sound)


@each_database
async def test_a_request_is_settled_once_by_any_process(database: str, tmp_path: Path) -> None:
    """Its own process, taken for dead, and two nodes that bury it."""
    async with nodes_on(database, tmp_path) as nodes:
        ids = [f"r{number:02}" for number in range(20)]
        await applied(nodes[0], [hold(id, 10, instance="dead", account=DAY) for id in ids])
        burying = partial(settle_orphans, instances=["dead"], now_ms=NOW_MS + 5, settle=orphan, limit=7)

        async def settle_dead(store: Store) -> int:
            count = 0
            while settled := await written(store, burying):
                count += settled
            return count

        async def come_back(store: Store) -> int:
            found = [await applied(store, [settle(id, 40, account=DAY)]) for id in ids[::-1]]
            return sum(each.settled for each in found)

        counts = await together(settle_dead(nodes[0]), come_back(nodes[1]), settle_dead(nodes[2]))
        assert sum(counts) == 20
        assert await nodes[0].read(open_ids) == []
        costs = [cost or 0 for _, cost in (await nodes[0].read(logged)).values()]
        assert len(costs) == 20
        assert await nodes[0].read(sums) == (0, sum(costs), 0)
        await nodes[0].read(assert_sound)


@each_database
async def test_the_same_entries_from_two_processes(database: str, tmp_path: Path) -> None:
    """A journal that is replayed while nobody knows what of it was committed; the account is not there yet."""
    entries: list[Entry] = [hold("a", account=DAY), extend("a"), hold("b"), settle("a", 5, account=DAY), settle("c", 1)]
    async with nodes_on(database, tmp_path) as nodes:
        found = await together(*(applied(node, entries) for node in nodes))
        assert sum(each.settled for each in found) == 2
        assert all(each.late == [] for each in found)
        assert await nodes[0].read(sums) == (0, 6, 100)
        assert len(await nodes[0].read(ledger_rows)) == 6
        account = await nodes[0].read(account_sums)
        assert account is not None
        assert (account.spent, account.held) == (6, 100), "all that the key spends and holds on this day"
        await nodes[0].read(assert_sound)


@each_database
async def test_one_idempotency_key_at_once(database: str, tmp_path: Path) -> None:
    async with nodes_on(database, tmp_path) as nodes:
        holds = [hold(f"r{number}", idempotency=b"key", body_digest=b"body") for number in range(12)]
        ways = [
            written(nodes[number % NODES], partial(decide_holds, holds=[(each, ())]))
            for number, each in enumerate(holds)
        ]
        codes = [code for codes in await together(*ways) for code in codes]
        assert sorted(codes, key=str) == [None, *["idempotency_in_progress"] * 11]


@each_database
async def test_workspaces_in_any_order_cause_no_deadlock(database: str, tmp_path: Path) -> None:
    """Each node applies and decides for the same workspaces, shuffled, in one transaction."""
    chance = random.Random(7)
    owners = [f"w{number}" for number in range(6)]

    calls = 0

    def work(conn: Connection, batch: Sequence[Hold], asked: Sequence[Hold]) -> list[str | None]:
        nonlocal calls
        calls += 1
        lock_for(conn, [*batch, *asked])
        apply(conn, batch)
        return decide_holds(conn, [(each, [key_charge(10**6, each.account or "")]) for each in asked])

    async with nodes_on(database, tmp_path) as nodes:
        numbers = iter(range(10**6))

        def made(mixed: Sequence[str]) -> list[Hold]:
            return [
                hold(f"r{next(numbers)}", workspace_id=owner, key_id=owner, account=f"key:{owner}:total")
                for owner in mixed
            ]

        def mixed() -> list[Hold]:
            return made(chance.sample(owners, 4))

        async def busy(store: Store) -> list[str | None]:
            return [
                code
                for _ in range(50 if SOAKS else 8)
                for code in await written(store, partial(work, batch=mixed(), asked=mixed()))
            ]

        await applied(nodes[0], made(owners))
        codes = [code for codes in await together(*(busy(node) for node in nodes)) for code in codes]
        assert set(codes) == {None}
        assert calls == len(codes) // 4, "the database broke a circle, and the transaction was repeated"
        assert len(await nodes[0].read(open_ids)) == next(numbers)
        await nodes[0].read(assert_sound)
