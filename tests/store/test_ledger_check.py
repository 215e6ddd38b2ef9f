"""An inconsistent ledger is detected, whichever of its numbers was changed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, update

from streamweir.store.db.base import Store
from streamweir.store.db.tables import accounts, ledger, open_requests, requests, usage_days, usage_hours
from streamweir.store.journal.entries import Entry, Refused
from streamweir.store.keys.credit import add_credit
from streamweir.store.ledger.check import Fault, check_sums
from streamweir.store.ledger.posting import apply
from support.common_entries import hold, settle
from support.key_store import NOW, new_key
from support.stores import each_database, store_on

BUDGET = "key:key_1:total"
ENTRIES: tuple[Entry, ...] = (
    *(hold(f"req_{number}", 10) for number in range(3)),
    hold("req_3", 10, account=BUDGET),
    *(settle(f"req_{number}", cost) for number, cost in enumerate((0, 7, None))),
    Refused(row=settle("req_4", None).row),
)
"""`req_3` stays open, and `req_4` was never held."""


async def fill(store: Store) -> None:
    await new_key(store)
    await store.write(partial(add_credit, workspace_id="default", amount_nano=100, actor="admin", at_ms=NOW))
    await store.write(lambda conn: apply(conn, ENTRIES))


class Undone(Exception):
    """Ends a transaction, so that the next case finds the books as they were."""


def _fault(object: str, what: str, kept: int | None, found: int | None) -> Fault:
    return Fault(object=object, what=what, kept=kept, found=found)


_held = ledger.c.kind == "hold"
_settled = ledger.c.kind == "settle"
CASES: dict[str, tuple[Callable[[Connection], object], list[Fault]]] = {
    "nothing": (lambda _: None, []),
    "granted": (
        lambda conn: conn.execute(update(accounts).values(granted=101)),
        [_fault("default", "granted", 101, 100), _fault("default", "balance", 84, 83)],
    ),
    "spent and held, so that the balance is right": (
        lambda conn: conn.execute(update(accounts).where(accounts.c.key_id.is_(None)).values(spent=8, held=9)),
        [_fault("default", "spent", 8, 7), _fault("default", "held", 9, 10)],
    ),
    "an open request is gone": (
        lambda conn: conn.execute(delete(open_requests)),
        [
            _fault("default", "held", 10, 0),
            _fault(BUDGET, "held", 10, 0),
            _fault("req_3", "reserved, but neither open nor settled", 10, None),
        ],
    ),
    "a row of the ledger": (
        lambda conn: conn.execute(update(ledger).where(_settled, ledger.c.request_id == "req_0").values(amount=11)),
        [_fault("default", "balance", 83, 84)],
    ),
    "a hold of one that is open": (
        lambda conn: conn.execute(update(ledger).where(_held, ledger.c.request_id == "req_3").values(amount=-9)),
        [_fault("default", "balance", 83, 84), _fault("req_3", "reserved while it is open", 10, 9)],
    ),
    "a hold is gone": (
        lambda conn: conn.execute(delete(ledger).where(_held, ledger.c.request_id == "req_1")),
        [_fault("default", "balance", 83, 93), _fault("req_1", "settled without a reservation", 3, None)],
    ),
    "the usage": (
        lambda conn: conn.execute(update(usage_hours).values(price=usage_hours.c.price + 1)),
        [_fault("default", "usage", 8, 7), _fault(BUDGET, "spent", 7, 8)],
    ),
    "the usage of a day": (
        lambda conn: conn.execute(delete(usage_days)),
        [_fault("default", "usage by day", 0, 7)],
    ),
    "what a key has spent": (
        lambda conn: conn.execute(update(accounts).where(accounts.c.key_id.is_not(None)).values(spent=5)),
        [_fault(BUDGET, "spent", 5, 7)],
    ),
    "the account of a budget": (
        lambda conn: conn.execute(update(accounts).where(accounts.c.key_id.is_not(None)).values(held=11)),
        [_fault(BUDGET, "held", 11, 10)],
    ),
    "a price that was never settled": (
        lambda conn: conn.execute(update(requests).where(requests.c.request_id == "req_4").values(price=5)),
        [_fault("req_4", "price without a settlement", 5, None)],
    ),
    "a price in the log": (
        lambda conn: conn.execute(update(requests).where(requests.c.request_id == "req_1").values(price=6)),
        [_fault("req_1", "price", 6, 7)],
    ),
    "no price became a price": (
        lambda conn: conn.execute(update(requests).where(requests.c.request_id == "req_2").values(price=0)),
        [_fault("req_2", "price", 0, None)],
    ),
    "rows of the log that were purged": (lambda conn: conn.execute(delete(requests)), []),
    "an account is gone": (
        lambda conn: conn.execute(delete(accounts)),
        [
            _fault("default", "granted", 0, 100),
            _fault("default", "spent", 0, 7),
            _fault("default", "held", 0, 10),
            _fault("default", "balance", 0, 83),
        ],
    ),
}


@each_database
async def test_what_was_touched_is_found(database: str, tmp_path: Path) -> None:
    found: dict[str, list[Fault]] = {}

    def work(conn: Connection, name: str) -> None:
        CASES[name][0](conn)
        found[name] = check_sums(conn).faults
        raise Undone

    async with store_on(database, tmp_path) as store:
        assert (await store.read(check_sums)).faults == [], "empty books agree"
        await fill(store)
        report = await store.read(check_sums)
        assert (report.workspaces, report.rows) == (1, 8)
        for name in CASES:
            with pytest.raises(Undone):
                await store.write(partial(work, name=name))
    assert found == {name: faults for name, (_, faults) in CASES.items()}
