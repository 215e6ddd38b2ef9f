"""How much each key was used in the last thirty days, and when last.

Counts and prices are the sums by day (`usage_days`), which are kept longer than the requests. They are read by the
whole beginning of that table's key (day, workspace, key), so a page of keys costs the same with many others. The last
use is that of the newest request that runs or is in the log, or, if its requests were deleted, the hour that the sums
have. A request that still runs is in no sum yet.
"""

from collections.abc import Mapping

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, case, func, select

from streamweir.store.db.tables import open_requests, requests, usage_days, usage_hours
from streamweir.store.journal.entries import plain
from streamweir.store.requests.usage import DAY_MS, HOUR_MS, sums_of

DAYS = 30
"""Including today, by UTC."""


class KeyUse(Struct, frozen=True, kw_only=True):
    requests: int = 0
    price: int = 0
    used_ms: int | None = None
    """None: never, as far as is known."""


def uses_of(
    conn: Connection, workspaces: Mapping[str, str], at_ms: int, since_ms: Mapping[str, int] | None = None
) -> dict[str, KeyUse]:
    """By the ids of the keys. `workspaces`: the workspace of each key. `since_ms`: for keys whose earlier use is left
    out; the days after it count."""
    if not workspaces:
        return {}
    columns, today = usage_days.c, at_ms // DAY_MS
    ids = [plain(each) for each in workspaces]
    spaces = sorted({plain(each) for each in workspaces.values()})
    days = range(today - DAYS + 1, today + 1)
    within: list[ColumnElement[bool]] = [
        columns.day.in_(days),
        columns.workspace_id.in_(spaces),
        columns.key_id.in_(ids),
    ]
    first_days = {plain(id): -(-since // DAY_MS) for id, since in (since_ms or {}).items()}
    if first_days:
        within.append(columns.day >= case(first_days, value=columns.key_id, else_=0))
    summed = select(columns.key_id, *sums_of(columns, ("requests", "price"))).where(*within).group_by(columns.key_id)
    found = {row.key_id: (row.requests, row.price) for row in conn.execute(summed)}
    used: dict[str, KeyUse] = {}
    for id in ids:
        count, price = found.get(id, (0, 0))
        last = _last_use(conn, id)
        is_known = last is not None and last >= (since_ms or {}).get(id, 0)
        used[id] = KeyUse(requests=count, price=price, used_ms=last if is_known else None)
    return used


def _last_use(conn: Connection, key_id: str) -> int | None:
    """Each is one step into an index."""
    newest = select(func.max(requests.c.at_ms)).where(requests.c.key_id == key_id)
    running = select(func.max(open_requests.c.at_ms)).where(open_requests.c.key_id == key_id)
    known: list[int] = [at for at in (conn.scalar(newest), conn.scalar(running)) if at is not None]
    if known:
        return max(known)
    hour: int | None = conn.scalar(select(func.max(usage_hours.c.hour)).where(usage_hours.c.key_id == key_id))
    return hour * HOUR_MS if hour is not None else None
