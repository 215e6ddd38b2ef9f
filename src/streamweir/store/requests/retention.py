"""Deletes old data, and the stored data of a key.

One process at a time purges, in small transactions with pauses between them, so that other writers wait for one of them
at most. Deleted are requests, their contents, expired idempotency keys, sessions, alerts, the names of processes, and
usage by the minute, by the quarter of an hour, by session, and (much later) by tag; and accounts of rules whose period
is over, which can be computed from the rest. Payments that nobody has paid expire. The ledger, other usage by the hour
and by the day, and the audit log are kept permanently. Erasing a key keeps its requests without personal data: the
caller, its address, what it says about requests, and the content. The sums of its end users are kept under their
digests.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate

from msgspec import Struct
from sqlalchemy import Column, ColumnElement, Connection, Table, delete, exists, func, select, tuple_, update

from streamweir.policy.billing.payment import EXPIRED, OPEN
from streamweir.policy.end_user import ANONYMOUS, PREFIX
from streamweir.store.db.base import Store, StoreUnavailable
from streamweir.store.db.counter import release_lease, take_lease
from streamweir.store.db.tables import (
    ATTRIBUTION,
    accounts,
    alert_conditions,
    alert_deliveries,
    alerts,
    attribution_days,
    contents,
    health_reports,
    idempotency,
    instances,
    open_requests,
    payments,
    provider_signs,
    requests,
    sessions,
    usage_minutes,
    usage_quarters,
)
from streamweir.store.journal.entries import plain
from streamweir.store.requests.attribution import ATTRIBUTED, add_attributed
from streamweir.store.requests.content import clear_content_flags, mark_erasure
from streamweir.store.requests.instances import now_of

DAY_MS = 86_400_000
FINE_USAGE_MS = 50 * 3_600_000
"""How long usage is kept by the minute and the quarter: a day, the day before for comparison, and the time between two
purges."""
ENDED_MS = 2 * DAY_MS
"""How long an account of a rule is kept after its period: a request that began in it may still run, and the clocks of
processes differ."""
TAG_DAYS = 400
"""How long usage is kept by tag: more than a year, but not for good, because each request may have another tag."""
MAX_ROWS = 500
MAX_CONTENT_BYTES = 4 << 20
"""In one transaction, which deletes at least one content."""
LEASE = "purge"
_LEASE_MS = 60_000
_START = (-(2**63) + 1, 0)


class Purged(Struct, frozen=True, kw_only=True):
    """The numbers of deleted rows."""

    requests: int = 0
    contents: int = 0
    idempotency: int = 0
    sessions: int = 0
    alerts: int = 0
    alert_conditions: int = 0
    provider_signs: int = 0
    health_reports: int = 0
    instances: int = 0
    usage_minutes: int = 0
    usage_quarters: int = 0
    usage_sessions: int = 0
    usage_tags: int = 0
    accounts: int = 0
    payments: int = 0
    """Expired, not deleted."""


class Erased(Struct, frozen=True, kw_only=True):
    requests: int = 0
    contents: int = 0


async def purge(
    store: Store, holder: str, clock_ms: Callable[[], int], *, days: float = 30.0, pause_s: float = 0.05
) -> Purged | None:
    """None: another process does it. Raises `StoreUnavailable`; the rest is deleted the next time."""
    counts: dict[str, int] = {}
    for name, step in _STEPS.items():
        counts[name] = 0
        while True:
            now_ms = clock_ms()
            batch = partial(_purge_some, step, holder, now_ms, now_ms - int(days * DAY_MS))
            deleted = await store.write_content(batch)
            if deleted is None:
                return None
            if deleted == 0:
                break
            counts[name] += deleted
            await asyncio.sleep(pause_s)
    await store.write_content(lambda conn: release_lease(conn, LEASE, holder))
    return Purged(**counts)


async def purge_regularly(
    store: Store, holder: str, clock_ms: Callable[[], int], *, days: float = 30.0, every_s: float = 3600.0
) -> None:
    """Runs as a task. If the database is unavailable, it tries again the next time."""
    while True:
        with suppress(StoreUnavailable):
            await purge(store, holder, clock_ms, days=days)
        await asyncio.sleep(every_s)


async def erase_key(store: Store, key_id: str, now_ms: int, *, pause_s: float = 0.02) -> Erased:
    """Everything about the key until now. Raises `StoreUnavailable`; a further call does the rest."""
    await store.write(lambda conn: mark_erasure(conn, key_id, now_ms))
    contents_deleted = rows_cleared = 0
    while deleted := await store.write(lambda conn: erase_contents(conn, key_id)):
        contents_deleted += deleted
        await asyncio.sleep(pause_s)
    after: tuple[int, int] | None = _START
    while after is not None:
        count, after = await store.write(partial(erase_requests, key_id=key_id, after=after))
        rows_cleared += count
        await asyncio.sleep(pause_s)
    for day in await store.read(attributed_days):
        await store.write(partial(erase_attribution, key_id=key_id, day=day))
        await asyncio.sleep(pause_s)
    return Erased(requests=rows_cleared, contents=contents_deleted)


def erase_contents(conn: Connection, key_id: str) -> int:
    """Some of them; returns their number. 0: none is left."""
    return _delete_contents(conn, contents.c.key_id == plain(key_id))


def erase_requests(conn: Connection, key_id: str, after: tuple[int, int]) -> tuple[int, tuple[int, int] | None]:
    """Clears some of its rows, from the last position on. Returns their number and the position; None: it is done."""
    position = tuple_(requests.c.at_ms, requests.c.seq)
    statement = select(requests.c.at_ms, requests.c.seq).where(
        requests.c.key_id == plain(key_id), position > tuple_(*after)
    )
    found = conn.execute(statement.order_by(requests.c.at_ms, requests.c.seq).limit(MAX_ROWS)).all()
    names = ("peer", "client", "client_id", "dropped", "end_user", "session", "tags")
    cleared = {**dict.fromkeys(names), "has_content": False}
    conn.execute(update(requests).where(requests.c.seq.in_([seq for _, seq in found])).values(**cleared))
    return len(found), (found[-1] if len(found) == MAX_ROWS else None)


def attributed_days(conn: Connection) -> list[int]:
    return list(conn.scalars(select(attribution_days.c.day).distinct().order_by(attribution_days.c.day)))


def erase_attribution(conn: Connection, key_id: str, day: int) -> None:
    """Of one day: sessions and tags are deleted, end users are replaced by their digests."""
    columns = attribution_days.c
    of_key = (columns.day == day, columns.key_id == plain(key_id))
    conn.execute(delete(attribution_days).where(*of_key, columns.kind.in_(("session", "tag"))))
    named = (columns.kind == "end_user", columns.digest != ANONYMOUS, columns.value != PREFIX + columns.digest)
    # In one statement: what another process adds to a row meanwhile must not be lost.
    deleted = delete(attribution_days).where(*of_key, *named).returning(*(columns[name] for name in ATTRIBUTED))
    found = conn.execute(deleted).all()
    # The digest may have a row already: `end_user` of the store was changed on that day.
    add_attributed.run(conn, sorted((*row[:4], PREFIX + row.digest, *row[5:]) for row in found))


def _purge_some(step: "_Step", holder: str, now_ms: int, before_ms: int, conn: Connection) -> int | None:
    """None: another process does it."""
    is_ours = take_lease(conn, LEASE, holder, now_of(conn, now_ms), _LEASE_MS)
    return step(conn, now_ms, before_ms) if is_ours else None


def _purge_requests(conn: Connection, _now_ms: int, before_ms: int) -> int:
    oldest = select(requests.c.seq).where(requests.c.at_ms < before_ms).order_by(requests.c.at_ms).limit(MAX_ROWS)
    return conn.execute(delete(requests).where(requests.c.seq.in_(oldest))).rowcount


def _purge_contents(conn: Connection, _now_ms: int, before_ms: int) -> int:
    return _delete_contents(conn, contents.c.at_ms < before_ms)


def _purge_idempotency(conn: Connection, now_ms: int, _before_ms: int) -> int:
    over = select(idempotency.c.key_id, idempotency.c.digest).where(idempotency.c.until_ms <= now_ms).limit(MAX_ROWS)
    key = tuple_(idempotency.c.key_id, idempotency.c.digest)
    return conn.execute(delete(idempotency).where(key.in_(over))).rowcount


def _purge_sessions(conn: Connection, _now_ms: int, before_ms: int) -> int:
    unused = select(sessions.c.digest).where(sessions.c.used_ms < before_ms).limit(MAX_ROWS)
    return conn.execute(delete(sessions).where(sessions.c.digest.in_(unused))).rowcount


def _purge_alerts(conn: Connection, _now_ms: int, before_ms: int) -> int:
    """With their deliveries, also those that wait for a webhook that is not configured any more."""
    statement = select(alerts.c.seq).where(alerts.c.at_ms < before_ms).order_by(alerts.c.seq).limit(MAX_ROWS)
    old = list(conn.scalars(statement))
    conn.execute(delete(alert_deliveries).where(alert_deliveries.c.alert_seq.in_(old)))
    return conn.execute(delete(alerts).where(alerts.c.seq.in_(old))).rowcount


def _purge_alert_conditions(conn: Connection, _now_ms: int, before_ms: int) -> int:
    """Of budget periods that are over. Others say what was reported, however long ago."""
    column = alert_conditions.c.subject
    old = select(column).where(alert_conditions.c.until_ms < before_ms).limit(MAX_ROWS)
    return conn.execute(delete(alert_conditions).where(column.in_(old))).rowcount


def _purge_of_process(conn: Connection, now_ms: int, _before_ms: int, table: Table) -> int:
    """What processes that have ended said about providers."""
    is_theirs = instances.c.id == table.c.instance
    is_alive = exists().where(is_theirs, instances.c.stopped_ms.is_(None), instances.c.seen_ms >= now_ms - DAY_MS)
    return conn.execute(delete(table).where(~is_alive)).rowcount


def _purge_instances(conn: Connection, _now_ms: int, before_ms: int) -> int:
    """Not one with open requests: they must be settled first."""
    is_old_instance = func.coalesce(instances.c.stopped_ms, instances.c.seen_ms) < before_ms
    has_none = ~exists().where(open_requests.c.instance == instances.c.id)
    deleted = select(instances.c.id).where(is_old_instance, has_none).limit(MAX_ROWS)
    return conn.execute(delete(instances).where(instances.c.id.in_(deleted))).rowcount


def _purge_usage(conn: Connection, now_ms: int, _before_ms: int, unit: Column[int], unit_ms: int) -> int:
    """Whole units, so that none is left in part: the last one may add more rows than usual."""
    is_old = unit < (now_ms - FINE_USAGE_MS) // unit_ms
    last = conn.scalar(select(unit).where(is_old).order_by(unit).offset(MAX_ROWS - 1).limit(1))
    return conn.execute(delete(unit.table).where(is_old if last is None else unit <= last)).rowcount


def _purge_attribution(conn: Connection, now_ms: int, before_ms: int, kind: str, days: int | None) -> int:
    """`days`: None: as long as requests."""
    columns = attribution_days.c
    last_ms = before_ms if days is None else now_ms - days * DAY_MS
    is_old = (columns.day < last_ms // DAY_MS, columns.kind == kind)
    key = [columns[name] for name in ("day", *ATTRIBUTION)]
    oldest = select(*key).where(*is_old).order_by(columns.day).limit(MAX_ROWS)
    return conn.execute(delete(attribution_days).where(tuple_(*key).in_(oldest))).rowcount


def _purge_accounts(conn: Connection, now_ms: int, _before_ms: int) -> int:
    """Of rules whose period has ended and that hold nothing. One that is needed again is computed from the rows."""
    is_over = (accounts.c.until_ms < now_ms - ENDED_MS, accounts.c.held == 0)
    chosen = select(accounts.c.id).where(*is_over).order_by(accounts.c.until_ms).limit(MAX_ROWS)
    ids = list(conn.scalars(chosen.with_for_update(skip_locked=True)))  # whoever has locked one may charge it
    return conn.execute(delete(accounts).where(accounts.c.id.in_(ids))).rowcount if ids else 0


def _expire_payments(conn: Connection, _now_ms: int, before_ms: int) -> int:
    """A workspace can have so many open ones. It gives credit all the same if it is paid later."""
    columns = payments.c
    old = select(columns.id).where(columns.status == OPEN, columns.created_ms < before_ms).limit(MAX_ROWS)
    unpaid = update(payments).where(columns.id.in_(old), columns.status == OPEN)
    return conn.execute(unpaid.values(status=EXPIRED)).rowcount


_Step = Callable[[Connection, int, int], int]
_STEPS: dict[str, _Step] = {
    "requests": _purge_requests,
    "contents": _purge_contents,
    "idempotency": _purge_idempotency,
    "sessions": _purge_sessions,
    "alerts": _purge_alerts,
    "alert_conditions": _purge_alert_conditions,
    "provider_signs": partial(_purge_of_process, table=provider_signs),
    "health_reports": partial(_purge_of_process, table=health_reports),
    "instances": _purge_instances,
    "usage_minutes": partial(_purge_usage, unit=usage_minutes.c.minute, unit_ms=60_000),
    "usage_quarters": partial(_purge_usage, unit=usage_quarters.c.quarter, unit_ms=900_000),
    "usage_sessions": partial(_purge_attribution, kind="session", days=None),
    "usage_tags": partial(_purge_attribution, kind="tag", days=TAG_DAYS),
    "accounts": _purge_accounts,
    "payments": _expire_payments,
}


def _delete_contents(conn: Connection, which: ColumnElement[bool]) -> int:
    """The oldest of them, as many as can be deleted quickly."""
    bodies = (contents.c.prompt, contents.c.answer, contents.c.upstream_frames, contents.c.caller_frames)
    size = sum((func.length(body) for body in bodies[1:]), start=func.length(bodies[0]))
    statement = select(contents.c.request_id, size).where(which).order_by(contents.c.at_ms).limit(MAX_ROWS)
    found = conn.execute(statement).all()
    chosen = _within([size for _, size in found])
    ids = [request_id for request_id, _ in found[:chosen]]
    if ids:
        conn.execute(delete(contents).where(contents.c.request_id.in_(ids)))
        clear_content_flags(conn, ids)
    return len(ids)


def _within(sizes: Sequence[int]) -> int:
    return max(1, sum(total <= MAX_CONTENT_BYTES for total in accumulate(sizes)))
