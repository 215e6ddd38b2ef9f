"""Payments over the API: ask for one, and see what became of them.

An admin of a workspace can top it up; it gets a page of the payment provider, or the id to pay under. Credit is given
when the payment provider reports the payment (`server.control.payment_events`), not before.
"""

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.config.model import Payments
from streamweir.core.errors import CallerError, StreamweirError
from streamweir.policy.limits.budget import nano_of
from streamweir.policy.permission import Permission
from streamweir.server.control.api.fields import PAGE, Cursor, Dollars, Limit, WorkspaceName, nano
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, page_of
from streamweir.server.control.api.view import usd
from streamweir.server.control.checkout import open_session
from streamweir.store.keys import payments
from streamweir.store.keys.payments import Payment
from streamweir.store.keys.workspaces import Workspace, find_workspace


class PaymentQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE


class NewPayment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName
    amount_usd: Dollars
    """Whole cents."""


class PaymentView(Struct, frozen=True, kw_only=True):
    id: str
    """The `client_reference_id` to pay under, if the gateway has not opened a session itself."""
    workspace: str
    amount_usd: str
    status: str
    """`open`, `paid` or `expired`."""
    session_id: str | None
    created_ms: int
    paid_ms: int | None


class NewPaymentView(PaymentView, frozen=True, kw_only=True):
    url: str | None
    """Where to pay. Null: the gateway has no secret key of the payment provider."""


async def create_payment(call: Call[Nothing, NewPayment]) -> NewPaymentView:
    actor, at_ms, context = call.actor, call.at_ms, call.context
    settings = context.runtime().config.payments
    if settings is None:
        raise CallerError("conflict", "Payments are not configured: there is no [payments] in the file.")
    amount = _amount(call.body, settings)

    def work(conn: Connection) -> tuple[Payment, Workspace]:
        workspace = find_workspace(conn, actor.find_allowed_workspace(conn, call.body.workspace))
        return payments.create_payment(conn, workspace.id, amount, actor=actor.name, at_ms=at_ms), workspace

    payment, workspace = await context.write(work)
    if not settings.secret_key:
        return _view_new(payment, None)
    try:
        session = await open_session(settings, payment, f"Credit for {workspace.name}")
    except StreamweirError:
        await context.write(lambda conn: payments.give_up(conn, payment.id))
        raise
    payment = await context.write(lambda conn: payments.set_session(conn, payment.id, session.id))
    return _view_new(payment, session.url)


async def list_payments(call: Call[PaymentQuery, Nothing]) -> Page[PaymentView]:
    query, actor = call.query, call.actor

    def work(conn: Connection) -> list[Payment]:
        wanted = actor.workspace_filter(conn, query.workspace)
        return payments.list_payments(conn, wanted, after=query.cursor, limit=query.limit + 1)

    return page_of(await call.context.read(work), query.limit, _view, lambda last: last.id)


def _amount(body: NewPayment, settings: Payments) -> int:
    amount = nano(body.amount_usd, "amount_usd")
    if not nano_of(settings.min_usd) <= amount <= nano_of(settings.max_usd):
        message = f"A payment must be between ${settings.min_usd:g} and ${settings.max_usd:g}."
        raise CallerError("invalid_value", message, param="amount_usd")
    return amount


def _view(payment: Payment) -> PaymentView:
    return PaymentView(
        id=payment.id,
        workspace=payment.workspace_id,
        amount_usd=usd(payment.amount_nano),
        status=payment.status,
        session_id=payment.session_id,
        created_ms=payment.created_ms,
        paid_ms=payment.paid_ms,
    )


def _view_new(payment: Payment, url: str | None) -> NewPaymentView:
    shown = _view(payment)
    return NewPaymentView(**{name: getattr(shown, name) for name in shown.__struct_fields__}, url=url)


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/payments",
        access=Permission.CREDIT_READ,
        about="List the payments, newest first",
        handler=list_payments,
        query=PaymentQuery,
        answer=Page[PaymentView],
    ),
    Operation(
        method="POST",
        path="/api/payments",
        access=Permission.PAYMENTS_OPEN,
        about="Ask for a payment, which gives credit to a workspace when it is reported as paid",
        handler=create_payment,
        body=NewPayment,
        answer=NewPaymentView,
        status=201,
    ),
)
