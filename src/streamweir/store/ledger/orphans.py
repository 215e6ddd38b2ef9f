"""Requests that were open when their process died: settled once, by whoever comes first.

What one costs is said by a function that the server gives. If its own process settles it after all,
or another node does so at the same time, the ledger has one settlement and the later changes nothing.
"""

from collections.abc import Callable, Collection

from sqlalchemy import Connection

from streamweir.store.journal.entries import Settle
from streamweir.store.ledger.posting import apply
from streamweir.store.requests.live import OpenRequest, opened_by

MOST_ORPHANS = 200


def settle_orphans(
    conn: Connection,
    instances: Collection[str],
    now_ms: int,
    settle: Callable[[OpenRequest, int], Settle],
    limit: int = MOST_ORPHANS,
) -> int:
    """How many it settled: with `limit` there may be more, with 0 there are none that another does not settle.

    With care: a process that dies while a refusal is being undone leaves a row of the log besides.
    """
    found = opened_by(conn, instances, limit) if instances else []
    return apply(conn, [settle(request, now_ms) for request in found], careful=True).settled
