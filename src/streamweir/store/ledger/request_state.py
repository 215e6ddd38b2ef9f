"""What the database knows of requests, found by their ids: open requests, requests in the ledger, requests in the log.

It is exact while the locks of the workspaces are held (`store.ledger.accounts`): a request is open if and only if it
has a reservation and no settlement.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, select
from sqlalchemy import Row as ResultRow

from streamweir.store.db.sql import LookupByIds
from streamweir.store.db.tables import ledger, open_requests, requests
from streamweir.store.journal.entries import Hold
from streamweir.store.ledger import rule_accounts


class RequestState(Struct):
    """One request. `held` is the sum of its reservation and its extensions."""

    workspace_id: str
    key_id: str | None
    at_ms: int
    held: int
    account: str | None = None
    idempotency: bytes | None = None
    hold: Hold | None = None
    """The reservation, if it is in the batch that is being applied and not yet in the database."""
    accounts: tuple[str, ...] = ()
    """Of rules, which hold its amount."""
    settlement: tuple[int, int | None] | None = None
    """When it was settled, and its price. None: it is open."""
    kinds: frozenset[str] = frozenset()
    """The kinds of its ledger rows, if they were looked up."""


_open = LookupByIds(
    lambda ids: select(
        open_requests.c.request_id,
        open_requests.c.workspace_id,
        open_requests.c.key_id,
        open_requests.c.at_ms,
        open_requests.c.held,
        open_requests.c.account,
        open_requests.c.idempotency,
        open_requests.c.accounts,
    ).where(open_requests.c.request_id.in_(ids))
)
_posted = LookupByIds(
    lambda ids: (
        select(
            ledger.c.request_id,
            ledger.c.kind,
            ledger.c.at_ms,
            ledger.c.workspace_id,
            ledger.c.key_id,
            ledger.c.amount,
            ledger.c.price,
        )
        .where(ledger.c.request_id.in_(ids))
        .order_by(ledger.c.seq)
    )
)
_logged = LookupByIds(lambda ids: select(requests.c.request_id).where(requests.c.request_id.in_(ids)))


def find_open(conn: Connection, request_ids: Iterable[str]) -> dict[str, RequestState]:
    return {
        id: RequestState(
            workspace_id, key_id, at_ms, held, account, idempotency, accounts=rule_accounts.accounts_in(of_rules)
        )
        for id, workspace_id, key_id, at_ms, held, account, idempotency, of_rules in _open.run(conn, request_ids)
    }


def find_posted(conn: Connection, request_ids: Iterable[str]) -> dict[str, RequestState]:
    """From the ledger, which has neither the account nor the Idempotency-Key."""
    found: dict[str, RequestState] = {}
    for row in _posted.run(conn, request_ids):
        state = found.get(row.request_id)
        if state is None:
            state = found[row.request_id] = RequestState(row.workspace_id, row.key_id, row.at_ms, 0)
        _post(state, row)
    return found


def find_logged(conn: Connection, request_ids: Iterable[str]) -> set[str]:
    return {row[0] for row in _logged.run(conn, request_ids)}


def _post(state: RequestState, row: ResultRow[*tuple[Any, ...]]) -> None:
    state.kinds |= {row.kind}
    if row.kind == "settle":
        state.settlement = (row.at_ms, row.price)
    else:
        state.held -= row.amount
