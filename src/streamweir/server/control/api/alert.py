"""Alerts over the API, with what became of their deliveries.

The admin of a workspace sees its alerts, and the deliveries to its own webhooks: other webhooks are the operator's.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct
from sqlalchemy import Connection

from streamweir.policy.alert import KINDS
from streamweir.policy.permission import Permission
from streamweir.server.control.api.fields import PAGE, Limit, Seq, WorkspaceName
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page, page_of
from streamweir.store.alerts.outbox import AlertRow, DeliveryRow, deliveries_of, list_alerts
from streamweir.store.keys.workspaces import find_workspace

Kind = Literal[KINDS]  # type: ignore[valid-type]  # (the names are declared once)
DeliveryState = Literal["waiting", "delivered", "given_up"]


class AlertQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workspace: WorkspaceName | None = None
    kind: Kind | None = None
    before: Seq | None = None
    limit: Limit = PAGE


class DeliveryView(Struct, kw_only=True):
    webhook: str
    state: DeliveryState
    attempts: int
    next_ms: int | None
    """Not before this time it is sent again. Only while it waits."""
    delivered_ms: int | None
    error: str | None
    """Of the last attempt that failed."""


class AlertView(Struct, kw_only=True):
    seq: int
    id: str
    """The `webhook-id` of every delivery."""
    at_ms: int
    kind: str
    workspace: str | None
    """Its id. None: the alert is about the whole gateway."""
    data: dict[str, Any]
    """As it is sent."""
    deliveries: list[DeliveryView]


class _Found(Struct):
    row: AlertRow
    deliveries: list[DeliveryRow]


async def show_alerts(call: Call[AlertQuery, Nothing]) -> Page[AlertView]:
    query, actor, webhooks = call.query, call.actor, call.context.runtime().config.webhooks

    def work(conn: Connection) -> list[_Found]:
        within = actor.workspace_filter(conn, query.workspace)
        rows = list_alerts(conn, workspace_id=within, kind=query.kind, before=query.before, limit=query.limit + 1)
        found = deliveries_of(conn, [row.seq for row in rows])
        if actor.allowed_workspace is not None:
            own = find_workspace(conn, actor.allowed_workspace)
            shown = {each.name for each in webhooks if each.workspace in (own.id, own.name)}
            found = {seq: [each for each in every if each.webhook in shown] for seq, every in found.items()}
        return [_Found(row, found[row.seq]) for row in rows]

    return page_of(await call.context.read(work), query.limit, _view, lambda last: last.row.seq)


def _view(found: _Found) -> AlertView:
    row = found.row
    return AlertView(
        seq=row.seq,
        id=row.id,
        at_ms=row.at_ms,
        kind=row.kind,
        workspace=row.workspace_id,
        data=msgspec.json.decode(row.body)["data"],
        deliveries=[_view_delivery(each) for each in found.deliveries],
    )


def _view_delivery(row: DeliveryRow) -> DeliveryView:
    state: DeliveryState = "waiting"
    if row.delivered_ms is not None:
        state = "delivered"
    elif row.given_up_ms is not None:
        state = "given_up"
    return DeliveryView(
        webhook=row.webhook,
        state=state,
        attempts=row.attempts,
        next_ms=row.next_ms if state == "waiting" and row.attempts else None,
        delivered_ms=row.delivered_ms,
        error=row.error,
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/alerts",
        access=Permission.ALERTS_READ,
        about="List alerts with their deliveries, newest first",
        handler=show_alerts,
        query=AlertQuery,
        answer=Page[AlertView],
    ),
)
