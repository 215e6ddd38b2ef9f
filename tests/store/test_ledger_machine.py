"""The ledger against a model of it, step by step, on both databases: entries lost, doubled, shuffled and half done.

Entries wait in a journal, as they do in a process, and get into the database in batches: at once, or
after a crash, or never. After every step the books are sound by themselves (docs/spec/failures.md I1
to I4: one terminal row per request, balance = sum of the ledger, no charge without a hold, held = what is
open) and say what the model says.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import ClassVar, TypeVar

import pytest
import uvloop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from conftest import SOAKS
from streamweir.store.db.base import Store
from streamweir.store.db.engine import open_store
from streamweir.store.db.errors import Conflict
from streamweir.store.db.tables import idempotency
from streamweir.store.journal.entries import Entry, Extend, Hold, Settle
from streamweir.store.ledger.accounts import credit, delete_accounts, used_of
from streamweir.store.ledger.admissions import decide_holds
from streamweir.store.ledger.posting import apply
from streamweir.store.ledger.recovery import settle_orphans
from streamweir.store.requests.live import OpenRequest
from support.entries import (
    NOW_MS,
    assert_sound,
    credit_charge,
    empty,
    extend,
    hold,
    key_charge,
    logged,
    open_ids,
    progress,
    settle,
    sums,
)
from support.stores import DATABASES, migrated_url

T = TypeVar("T")
DAY_MS = 86_400_000
LIMIT = 150
"""Of the key `k`, whose requests are on one account, unless its budget is off at the moment; `l` has no budget."""
ACCOUNT = "key:k:total"
ORPHAN_COST = 13

ids = st.sampled_from([f"r{number}" for number in range(8)])
keys = st.sampled_from(["k", "l"])
amounts = st.integers(0, 60)
names = st.sampled_from([None, None, b"x", b"y"])
bodies = st.sampled_from([b"1", b"1", b"2"])
counts = st.integers(1, 6)


class Crash(Exception):
    pass


class Model:
    """What must be true, in a few lines."""

    def __init__(self) -> None:
        self.granted = 0
        self.held: dict[str, int] = {}
        self.cost: dict[str, int | None] = {}
        self.key: dict[str, str] = {}
        self.extensions: set[tuple[str, int]] = set()
        self.promises: dict[tuple[str, bytes], tuple[str, bytes, bool, int]] = {}

    def apply(self, entry: Entry) -> None:
        if isinstance(entry, Hold) and entry.request_id not in self.key:
            self.key[entry.request_id], self.held[entry.request_id] = entry.key_id, entry.amount
            name = (entry.key_id, entry.idempotency or b"")
            if name[1] and (name not in self.promises or self.promises[name][3] <= entry.at_ms):
                self.promises[name] = (entry.request_id, entry.body_digest or b"", False, entry.at_ms + DAY_MS)
        elif isinstance(entry, Extend) and entry.request_id in self.held:
            if (entry.request_id, entry.number) not in self.extensions:
                self.extensions.add((entry.request_id, entry.number))
                self.held[entry.request_id] += entry.amount
        elif isinstance(entry, Settle) and entry.row.request_id not in self.cost:
            self.settle(entry.row.request_id, entry.row.cost, entry.row.key_id or "", entry.frees_idempotency)

    def settle(self, id: str, cost: int | None, key: str, frees: bool) -> None:
        self.held.pop(id, None)
        self.cost[id] = cost
        self.key.setdefault(id, key)
        for name, (owner, body, _, until_ms) in list(self.promises.items()):
            if owner == id:
                self.promises[name] = (id, body, True, until_ms)
                if frees:
                    del self.promises[name]

    def used(self, key: str | None = None) -> int:
        mine = [id for id, owner in self.key.items() if key in (None, owner)]
        return sum(self.held.get(id, 0) + (self.cost.get(id) or 0) for id in mine)


class Ledger(RuleBasedStateMachine):
    loop: ClassVar[asyncio.Runner]
    store: ClassVar[Store]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.journal: list[Entry] = []
        self.batches: list[list[Entry]] = []
        self.keys: dict[str, str] = {}
        self.is_touched = False
        self.now_ms = NOW_MS
        self.has_budget = True

    @initialize()
    def begin(self) -> None:
        self.write(empty)

    @rule(id=ids, key=keys, amount=amounts, name=names, body=bodies)
    def hold(self, id: str, key: str, amount: int, name: bytes | None, body: bytes) -> None:
        self.journal.append(self._hold(id, key, amount, name, body))

    @rule(id=ids, number=st.integers(1, 2), amount=amounts)
    def extend(self, id: str, number: int, amount: int) -> None:
        self.journal.append(extend(id, number, amount))

    @rule(id=ids, tokens=amounts)
    def progress(self, id: str, tokens: int) -> None:
        self.journal.append(progress((id, "p/m", tokens), at_ms=self.now_ms))

    @rule(id=ids, key=keys, cost=st.none() | amounts, frees=st.booleans())
    def settle(self, id: str, key: str, cost: int | None, frees: bool) -> None:
        key = self._key_of(id, key)
        more = {"key_id": key, "account": self._account_of(key), "held": 50, "frees_idempotency": frees}
        self.journal.append(settle(id, cost, **more))

    @precondition(lambda self: self.journal)
    @rule(count=counts)
    def commit(self, count: int) -> None:
        batch, self.journal = self.journal[:count], self.journal[count:]
        self._apply(batch)

    @precondition(lambda self: self.journal)
    @rule(count=counts, check_existing=st.booleans())
    def crash(self, count: int, check_existing: bool) -> None:
        """Everything was written, and nothing committed."""

        def work(conn: Connection) -> None:
            apply(conn, self.journal[:count], check_existing=check_existing)
            raise Crash

        with pytest.raises((Crash, IntegrityError)):
            self.write(work)

    @precondition(lambda self: self.journal)
    @rule(count=counts)
    def lose(self, count: int) -> None:
        del self.journal[:count]

    @precondition(lambda self: self.journal)
    @rule(chance=st.randoms(use_true_random=False))
    def shuffle(self, chance: Random) -> None:
        chance.shuffle(self.journal)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """Nobody knew whether it was committed."""
        batch = data.draw(st.sampled_from(self.batches))
        found = self.write(lambda conn: apply(conn, batch, check_existing=True))
        assert (found.settled, found.lost) == (0, [])
        for entry in batch:
            self.model.apply(entry)

    @rule(id=ids, key=keys, amount=amounts, name=names, body=bodies, is_prepaid=st.booleans())
    def decide(self, id: str, key: str, amount: int, name: bytes | None, body: bytes, is_prepaid: bool) -> None:
        asked = self._hold(id, key, amount, name, body)
        charges = [
            *([credit_charge()] if is_prepaid else []),
            *([key_charge(LIMIT, ACCOUNT)] if asked.account is not None else []),
        ]
        (code,) = self.write(lambda conn: decide_holds(conn, [(asked, charges)]))
        assert code == self._expected(asked, is_prepaid)
        if code is None:
            self.model.apply(asked)

    @rule(limit=counts)
    def settle_dead(self, limit: int) -> None:
        """The process was taken for dead."""
        count = self.write(lambda conn: settle_orphans(conn, ["i"], self.now_ms, self._orphan, limit))
        found = sorted(self.model.held)[:limit]
        assert count == len(found)
        for id in found:
            self.model.settle(id, ORPHAN_COST, self.model.key[id], False)

    @rule(amount=st.integers(-80, 120).filter(bool))
    def credit(self, amount: int) -> None:
        if amount < 0 and self.model.granted + amount < self.model.used():
            with pytest.raises(Conflict):
                self.write(lambda conn: credit(conn, "one", amount, "", self.now_ms))
            return
        self.write(lambda conn: credit(conn, "one", amount, "", self.now_ms))
        self.model.granted += amount

    @rule()
    def switch(self) -> None:
        """The budget of `k` is taken away or given back, while entries from before are still on their way."""
        self.has_budget = not self.has_budget
        self.write(lambda conn: delete_accounts(conn, "k"))

    @rule()
    def expire(self) -> None:
        self.now_ms += DAY_MS

    @invariant()
    def is_sound(self) -> None:
        if self.is_touched:  # many steps only fill the journal
            self.is_touched = False
            self.read(self._compare)

    def _compare(self, conn: Connection) -> None:
        model = self.model
        assert_sound(conn)
        assert sums(conn) == (model.granted, sum(cost or 0 for cost in model.cost.values()), sum(model.held.values()))
        assert open_ids(conn) == sorted(model.held)
        assert {id: cost for id, (_, cost) in logged(conn).items()} == model.cost
        assert used_of(conn, [ACCOUNT]) == {ACCOUNT: model.used("k")}
        columns = idempotency.c
        promise = (columns.request_id, columns.body_digest, columns.is_over, columns.until_ms)
        rows = conn.execute(select(columns.key_id, columns.digest, *promise))
        assert {(row[0], row[1]): tuple(row[2:]) for row in rows} == model.promises

    def _apply(self, batch: list[Entry]) -> None:
        try:
            self.write(lambda conn: apply(conn, batch))
        except IntegrityError:
            self.write(lambda conn: apply(conn, batch, check_existing=True))
        for entry in batch:
            self.model.apply(entry)
        self.batches.append(batch)

    def _hold(self, id: str, key: str, amount: int, name: bytes | None, body: bytes) -> Hold:
        key = self._key_of(id, key)
        more = {"key_id": key, "idempotency": name, "body_digest": body, "at_ms": self.now_ms}
        more["account"] = self._account_of(key)
        return hold(id, amount, **more)

    def _key_of(self, id: str, key: str) -> str:
        """A request has one key, whoever speaks of it."""
        return self.keys.setdefault(id, key)

    def _account_of(self, key: str) -> str | None:
        return ACCOUNT if key == "k" and self.has_budget else None

    def _expected(self, asked: Hold, is_prepaid: bool) -> str | None:
        model = self.model
        if asked.request_id in model.key:
            return None
        promise = model.promises.get((asked.key_id, asked.idempotency or b""))
        if promise is not None and promise[3] > asked.at_ms:
            _, promised, is_over, _ = promise
            if promised != asked.body_digest:
                return "idempotency_key_reused"
            return "idempotency_completed" if is_over else "idempotency_in_progress"
        if is_prepaid and model.used() + asked.amount > model.granted:
            return "insufficient_quota"
        is_beyond = asked.account is not None and model.used("k") + asked.amount > LIMIT
        return "budget_exceeded" if is_beyond else None

    @staticmethod
    def _orphan(request: OpenRequest, now_ms: int) -> Settle:
        return settle(request.request_id, ORPHAN_COST, key_id=request.key_id, duration_ms=now_ms - request.at_ms)

    def write(self, work: Callable[[Connection], T]) -> T:
        self.is_touched = True
        return self.loop.run(self.store.write(work))

    def read(self, work: Callable[[Connection], T]) -> T:
        return self.loop.run(self.store.read(work))


@pytest.mark.parametrize("database", DATABASES)
def test_the_ledger_is_what_its_model_is(database: str, tmp_path: Path) -> None:
    examples = {"sqlite": 400, "postgres": 100} if SOAKS else {"sqlite": 15, "postgres": 5}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        url = loop.run(migrated_url(database, tmp_path))
        store = loop.run(open_store(url, tmp_path))
        try:
            machine = type("OneLedger", (Ledger,), {"loop": loop, "store": store})
            steps = 60 if SOAKS else 30
            run_state_machine_as_test(
                machine, settings=settings(max_examples=examples[database], stateful_step_count=steps)
            )
        finally:
            loop.run(store.close())
