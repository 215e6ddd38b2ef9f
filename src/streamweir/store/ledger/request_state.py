"""What the database knows of requests: those that are open, those in the ledger, those in the log.

Look-ups by request id and nothing else. They are exact for whoever holds the locks of the workspaces
(`store.ledger.accounts`): every request that has a hold and no settlement is open, and no other.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Row, select

from streamweir.store.db.sql import LookupByIds
from streamweir.store.db.tables import ledger, open_requests, requests
from streamweir.store.journal.entries import Hold


class RequestState(Struct):
    """One request. `held` is the sum of its hold and its extensions."""

    workspace_id: str
    key_id: str | None
    at_ms: int
    held: int
    account: str | None = None
    idempotency: bytes | None = None
    hold: Hold | None = None
    """Of the batch that is being applied: it is not in the database yet."""
    ending: tuple[int, int | None] | None = None
    """When it was settled, and its cost. None: it is open."""
    kinds: frozenset[str] = frozenset()
    """What the ledger has of it, where that was looked up."""


_open = LookupByIds(
    lambda ids: select(
        open_requests.c.request_id,
        open_requests.c.workspace_id,
        open_requests.c.key_id,
        open_requests.c.at_ms,
        open_requests.c.held,
        open_requests.c.account,
        open_requests.c.idempotency,
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
            ledger.c.cost,
        )
        .where(ledger.c.request_id.in_(ids))
        .order_by(ledger.c.seq)
    )
)
_logged = LookupByIds(lambda ids: select(requests.c.request_id).where(requests.c.request_id.in_(ids)))


def find_open(conn: Connection, request_ids: Iterable[str]) -> dict[str, RequestState]:
    return {
        id: RequestState(workspace_id, key_id, at_ms, held, account, idempotency)
        for id, workspace_id, key_id, at_ms, held, account, idempotency in _open.run(conn, request_ids)
    }


def find_posted(conn: Connection, request_ids: Iterable[str]) -> dict[str, RequestState]:
    """By the ledger: it knows neither account nor Idempotency-Key."""
    found: dict[str, RequestState] = {}
    for row in _posted.run(conn, request_ids):
        case = found.get(row.request_id)
        if case is None:
            case = found[row.request_id] = RequestState(row.workspace_id, row.key_id, row.at_ms, 0)
        _post(case, row)
    return found


def find_logged(conn: Connection, request_ids: Iterable[str]) -> set[str]:
    return {row[0] for row in _logged.run(conn, request_ids)}


def _post(case: RequestState, row: Row[*tuple[Any, ...]]) -> None:
    case.kinds |= {row.kind}
    if row.kind == "settle":
        case.ending = (row.at_ms, row.cost)
    else:
        case.held -= row.amount
