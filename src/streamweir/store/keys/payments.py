"""Payments: what was asked for, and what became of it. A payment gives credit once.

A payment is written before the payer can pay. A report of the payment provider (`policy.billing.payment`) finds it by
its id, which only the gateway makes. Event, credit, audit row and the state of the payment change in one transaction,
under the lock of the payment's row: so an event has an effect once, however often and wherever it arrives, and a
payment is credited once, whatever events there are about it. What contradicts the payment is refused, and recorded.
"""

from enum import StrEnum
from secrets import token_bytes
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, RowMapping, func, insert, select, tuple_, update

from streamweir.policy.billing.payment import CENT, EXPIRED, OPEN, PAID, Effect, PaymentReport
from streamweir.policy.secret import ID_BYTES, make_id
from streamweir.store.db.errors import Conflict, Invalid, NotFound, quoted
from streamweir.store.db.tables import payment_events, payments
from streamweir.store.journal.entries import plain
from streamweir.store.keys import audit
from streamweir.store.keys.credit import add_credit
from streamweir.store.keys.workspaces import find_workspace

ACTOR = "stripe"
MAX_OPEN = 1000
"""Payments of a workspace that were asked for and neither paid nor given up."""


class Result(StrEnum):
    CREDITED = "credited"
    EXPIRED = "expired"
    IGNORED = "ignored"
    """It has no effect: not one of ours, or the payment was credited by another event."""
    REFUSED = "refused"
    """It contradicts the payment, or is about a second one under the same id: the operator has to look at it."""


class Payment(Struct, frozen=True, kw_only=True):
    id: str
    workspace_id: str
    amount_nano: int
    status: str
    session_id: str | None
    created_ms: int
    paid_ms: int | None


class Applied(Struct, frozen=True, kw_only=True):
    result: Result
    payment_id: str | None = None
    reason: str = ""
    """Why it was refused."""
    is_repeated: bool = False
    """The event was known: nothing was changed."""


def create_payment(conn: Connection, workspace_id: str, amount_nano: int, *, actor: str, at_ms: int) -> Payment:
    """Raises `Invalid`, `NotFound` and `Conflict`."""
    if amount_nano <= 0 or amount_nano % CENT:
        raise Invalid("a payment is a positive number of whole cents", "amount_usd")
    workspace = find_workspace(conn, workspace_id)
    unpaid = (payments.c.workspace_id == workspace.id, payments.c.status == OPEN)
    if conn.execute(select(func.count()).select_from(payments).where(*unpaid)).scalar_one() >= MAX_OPEN:
        raise Conflict(f"the workspace has {MAX_OPEN} payments that are not paid yet")
    row: dict[str, Any] = {
        "id": make_id("pay", token_bytes(ID_BYTES)),
        "workspace_id": workspace.id,
        "amount": amount_nano,
        "status": OPEN,
        "session_id": None,
        "created_ms": at_ms,
        "paid_ms": None,
    }
    conn.execute(insert(payments).values(row))
    audit.append(conn, actor, "payment.create", row["id"], {"amount_nano": amount_nano}, workspace.id, at_ms)
    return _read(row)


def set_session(conn: Connection, payment_id: str, session_id: str) -> Payment:
    """The payment provider's id of what the payer gets. From now on only that session can pay."""
    conn.execute(update(payments).where(payments.c.id == payment_id).values(session_id=plain(session_id)))
    return find_payment(conn, payment_id)


def give_up(conn: Connection, payment_id: str) -> None:
    """The payer got nothing to pay with."""
    conn.execute(update(payments).where(payments.c.id == payment_id, payments.c.status == OPEN).values(status=EXPIRED))


def find_payment(conn: Connection, payment_id: str, workspace_id: str | None = None) -> Payment:
    """Within the workspace. None: within all."""
    statement = select(payments).where(payments.c.id == plain(payment_id))
    if workspace_id is not None:
        statement = statement.where(payments.c.workspace_id == plain(workspace_id))
    row = conn.execute(statement).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no payment {quoted(payment_id)}")
    return _read(row)


def list_payments(
    conn: Connection, workspace_id: str | None, *, after: str | None = None, limit: int = 50
) -> list[Payment]:
    """The newest first, starting after the payment `after`. None: of all workspaces."""
    columns = payments.c
    statement = select(payments).order_by(columns.created_ms.desc(), columns.id.desc()).limit(limit)
    if workspace_id is not None:
        statement = statement.where(columns.workspace_id == plain(workspace_id))
    if after is not None:
        last = find_payment(conn, after, workspace_id)
        statement = statement.where(tuple_(columns.created_ms, columns.id) < tuple_(last.created_ms, last.id))
    return [_read(row) for row in conn.execute(statement).mappings()]


def apply_report(conn: Connection, report: PaymentReport, at_ms: int) -> Applied:
    """Of a genuine report. Raises `Invalid` if the credit cannot be given; then nothing is changed."""
    if report.effect is Effect.NONE or not report.reference:
        return Applied(result=Result.IGNORED)
    locked = select(payments).where(payments.c.id == plain(report.reference)).with_for_update()
    row = conn.execute(locked).mappings().one_or_none()
    if row is None:
        return Applied(result=Result.IGNORED)
    payment, event_id = _read(row), plain(report.event_id)
    known = conn.execute(select(payment_events.c.result).where(payment_events.c.id == event_id)).scalar_one_or_none()
    if known is not None:
        return Applied(result=Result(known), payment_id=payment.id, is_repeated=True)
    applied = _apply(conn, payment, report, at_ms)
    event = {"id": event_id, "at_ms": at_ms, "kind": plain(report.kind), "payment_id": payment.id}
    conn.execute(insert(payment_events).values(**event, result=applied.result.value))
    return applied


def _apply(conn: Connection, payment: Payment, report: PaymentReport, at_ms: int) -> Applied:
    contradiction = report.contradiction(payment.amount_nano, payment.session_id)
    if payment.status == PAID and (report.effect is Effect.FAILED or report.session_id == payment.session_id):
        return Applied(result=Result.IGNORED, payment_id=payment.id)
    if report.effect is Effect.FAILED:
        if contradiction is not None and payment.session_id is not None:
            return Applied(result=Result.IGNORED, payment_id=payment.id)
        conn.execute(update(payments).where(payments.c.id == payment.id).values(status=EXPIRED))
        return Applied(result=Result.EXPIRED, payment_id=payment.id)
    detail: dict[str, Any] = {"event": report.event_id, "session": report.session_id}
    if contradiction is not None:
        shown = {**detail, "reason": contradiction, "cents": report.amount_cents, "currency": report.currency}
        audit.append(conn, ACTOR, "payment.refuse", payment.id, shown, payment.workspace_id, at_ms)
        return Applied(result=Result.REFUSED, payment_id=payment.id, reason=contradiction)
    values = {"status": PAID, "session_id": plain(report.session_id), "paid_ms": at_ms}
    conn.execute(update(payments).where(payments.c.id == payment.id).values(values))
    note = f"payment {payment.id}"
    add_credit(conn, payment.workspace_id, payment.amount_nano, note=note, actor=ACTOR, at_ms=at_ms)
    audit.append(conn, ACTOR, "payment.credit", payment.id, detail, payment.workspace_id, at_ms)
    return Applied(result=Result.CREDITED, payment_id=payment.id)


def _read(row: RowMapping | dict[str, Any]) -> Payment:
    return Payment(
        id=row["id"],
        workspace_id=row["workspace_id"],
        amount_nano=row["amount"],
        status=row["status"],
        session_id=row["session_id"],
        created_ms=row["created_ms"],
        paid_ms=row["paid_ms"],
    )
