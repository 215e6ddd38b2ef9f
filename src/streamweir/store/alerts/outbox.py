"""The outbox: alerts, and for each webhook that wants one a delivery, written in one transaction with the alert.

A delivery waits until it is delivered or given up. A webhook gets its alerts in the order of their numbers: only the
first that waits can be claimed. An attempt is counted when it is claimed, before anything is sent, and the delivery is
due again after a while: so if the process dies while it sends, another one sends the alert again, with the same id.
Numbers are given out under a lock, so that a smaller number is never seen later than a larger one.
"""

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Update, and_, func, insert, or_, select, update

from streamweir.policy.alert import Alert, is_subscribed
from streamweir.store.db.counter import ALERTS, advance, take_lease
from streamweir.store.db.tables import alert_deliveries as deliveries
from streamweir.store.db.tables import alerts, workspaces
from streamweir.store.journal.entries import plain

LEASE = "alerts"
"""Held by the process that finds and sends."""
MAX_ERROR_LENGTH = 300


class Subscription(Struct, frozen=True, kw_only=True):
    """Which alerts a webhook gets."""

    name: str
    events: tuple[str, ...] = ()
    """Groups of kinds. Empty: all."""
    workspace: str | None = None
    """The name or the id of the only workspace that it is told about."""


class Delivery(Struct, frozen=True, kw_only=True):
    """An attempt that was claimed."""

    webhook: str
    seq: int
    id: str
    at_ms: int
    body: str
    attempts: int
    """Including this one."""


class AlertRow(Struct, frozen=True, kw_only=True):
    seq: int
    id: str
    at_ms: int
    kind: str
    workspace_id: str | None
    body: str


class DeliveryRow(Struct, frozen=True, kw_only=True):
    webhook: str
    alert_seq: int
    attempts: int
    next_ms: int
    delivered_ms: int | None
    given_up_ms: int | None
    error: str | None


class Backlog(Struct, frozen=True, kw_only=True):
    webhook: str
    waiting: int
    oldest_ms: int
    """When the oldest of them happened."""
    next_ms: int
    """When the first is due."""


def append(
    conn: Connection, found: Sequence[Alert], subscriptions: Sequence[Subscription], delivered: Collection[str] = ()
) -> list[Alert]:
    """Writes those that are new. `delivered`: webhooks that have got them already, without the outbox."""
    if not found:
        return []
    first = advance(conn, ALERTS)  # the lock
    ids = [alert.id for alert in found]
    known = set(conn.scalars(select(alerts.c.id).where(alerts.c.id.in_(ids))))
    allowed = {each.name: _workspace_id(conn, each.workspace) for each in subscriptions}
    new = [alert for alert in found if alert.id not in known]
    for number, alert in enumerate(new):
        seq = first if number == 0 else advance(conn, ALERTS)
        conn.execute(
            insert(alerts).values(
                seq=seq,
                id=alert.id,
                at_ms=alert.at_ms,
                kind=alert.kind,
                workspace_id=alert.workspace_id,
                body=plain(alert.body),
            )
        )
        rows = [
            {
                "webhook": plain(each.name),
                "alert_seq": seq,
                "attempts": int(each.name in delivered),
                "next_ms": 0,
                "delivered_ms": alert.at_ms if each.name in delivered else None,
            }
            for each in subscriptions
            if is_subscribed(alert.kind, alert.workspace_id, each.events, allowed[each.name])
        ]
        if rows:
            conn.execute(insert(deliveries), rows)
    return new


def claim(conn: Connection, webhook: str, holder: str, now_ms: int, *, lease_ms: int, again_ms: int) -> Delivery | None:
    """The first alert that waits for the webhook, if it is due. None: it is not, or another process has the lease.

    `again_ms`: after this time it is due again, if nothing is heard of the attempt.
    """
    if not take_lease(conn, LEASE, holder, now_ms, lease_ms):
        return None
    first = (
        select(deliveries.c.alert_seq, deliveries.c.next_ms, deliveries.c.attempts)
        .where(deliveries.c.webhook == plain(webhook), _is_waiting())
        .order_by(deliveries.c.alert_seq)
        .limit(1)
    )
    found = conn.execute(first).one_or_none()
    if found is None or found.next_ms > now_ms:
        return None
    row = conn.execute(select(alerts).where(alerts.c.seq == found.alert_seq)).mappings().one()
    attempts = found.attempts + 1
    conn.execute(_one(webhook, row["seq"]).values(attempts=attempts, next_ms=now_ms + again_ms))
    return Delivery(
        webhook=webhook, seq=row["seq"], id=row["id"], at_ms=row["at_ms"], body=row["body"], attempts=attempts
    )


def mark_delivered(conn: Connection, delivery: Delivery, now_ms: int) -> None:
    """Also after another process has given it up."""
    statement = _one(delivery.webhook, delivery.seq).where(deliveries.c.delivered_ms.is_(None))
    conn.execute(statement.values(delivered_ms=now_ms, given_up_ms=None, error=None))


def mark_failed(conn: Connection, delivery: Delivery, error: str, *, next_ms: int, given_up_ms: int | None) -> None:
    """No effect if another process has delivered it meanwhile."""
    values = {"error": plain(error[:MAX_ERROR_LENGTH]), "next_ms": next_ms, "given_up_ms": given_up_ms}
    conn.execute(_one(delivery.webhook, delivery.seq).where(_is_waiting()).values(**values))


def backlogs(conn: Connection) -> list[Backlog]:
    """Of each webhook for which alerts wait."""
    first = (
        select(deliveries.c.webhook, func.min(deliveries.c.alert_seq).label("seq"), func.count().label("waiting"))
        .where(_is_waiting())
        .group_by(deliveries.c.webhook)
        .subquery()
    )
    statement = (
        select(first.c.webhook, first.c.waiting, alerts.c.at_ms, deliveries.c.next_ms)
        .join(alerts, alerts.c.seq == first.c.seq)
        .join(deliveries, and_(deliveries.c.webhook == first.c.webhook, deliveries.c.alert_seq == first.c.seq))
    )
    return [
        Backlog(webhook=row.webhook, waiting=row.waiting, oldest_ms=row.at_ms, next_ms=row.next_ms)
        for row in conn.execute(statement)
    ]


def list_alerts(
    conn: Connection,
    *,
    workspace_id: str | None = None,
    kind: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[AlertRow]:
    """The newest first, starting before the number `before`. `workspace_id` None: all."""
    statement = select(alerts).order_by(alerts.c.seq.desc()).limit(limit)
    if workspace_id is not None:
        statement = statement.where(alerts.c.workspace_id == plain(workspace_id))
    if kind is not None:
        statement = statement.where(alerts.c.kind == kind)
    if before is not None:
        statement = statement.where(alerts.c.seq < before)
    return [AlertRow(**row) for row in conn.execute(statement).mappings()]


def deliveries_of(conn: Connection, seqs: Iterable[int]) -> dict[int, list[DeliveryRow]]:
    """By the numbers of alerts, and by the names of webhooks."""
    found: dict[int, list[DeliveryRow]] = {seq: [] for seq in seqs}
    if not found:
        return found
    statement = select(deliveries).where(deliveries.c.alert_seq.between(min(found), max(found)))
    for row in conn.execute(statement.order_by(deliveries.c.alert_seq, deliveries.c.webhook)).mappings():
        if row["alert_seq"] in found:
            found[row["alert_seq"]].append(DeliveryRow(**row))
    return found


def unknown_workspaces(conn: Connection, subscriptions: Iterable[Subscription]) -> list[str]:
    """Names of webhooks whose workspace does not exist."""
    return [each.name for each in subscriptions if _workspace_id(conn, each.workspace) == _NO_WORKSPACE]


_NO_WORKSPACE = ""


def _workspace_id(conn: Connection, workspace: str | None) -> str | None:
    if workspace is None:
        return None
    wanted = plain(workspace)
    statement = select(workspaces.c.id).where(or_(workspaces.c.id == wanted, workspaces.c.name == wanted))
    found: str | None = conn.scalar(statement.order_by(workspaces.c.id != wanted).limit(1))
    return found if found is not None else _NO_WORKSPACE


def _is_waiting() -> ColumnElement[bool]:
    return and_(deliveries.c.delivered_ms.is_(None), deliveries.c.given_up_ms.is_(None))


def _one(webhook: str, seq: int) -> Update:
    return update(deliveries).where(deliveries.c.webhook == plain(webhook), deliveries.c.alert_seq == seq)
