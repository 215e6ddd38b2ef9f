"""Every operation of the API in one table, and the routes that the control plane serves.

What is not in the table does not exist. Each operation declares who may use it; `server.control.api.authentication`
checks that.
"""

from functools import cache
from typing import Any

from streamweir.policy.permission import Permission
from streamweir.server.control.api import alert, audit, playground, settings
from streamweir.server.control.api.accounts import credit, key, payment, price, workspace
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.openapi import document
from streamweir.server.control.api.operation import Call, Nothing, Operation, route_of
from streamweir.server.control.api.people import login, member_keys, oidc, own, own_key, own_request, person, session
from streamweir.server.control.api.providers import model, node, provider, provider_probe
from streamweir.server.control.api.requests import export, live, overview, request, usage
from streamweir.server.control.routing import OpenRoute


async def show_openapi(call: Call[Nothing, Nothing]) -> dict[str, Any]:
    return _document(call.context.is_secure)


@cache
def _document(is_secure: bool) -> dict[str, Any]:
    return document(OPERATIONS, is_secure=is_secure)


OPERATIONS: tuple[Operation, ...] = (
    *session.OPERATIONS,
    *login.OPERATIONS,
    *oidc.OPERATIONS,
    *own.OPERATIONS,
    *own_key.OPERATIONS,
    *own_request.OPERATIONS,
    *person.OPERATIONS,
    *workspace.OPERATIONS,
    *member_keys.OPERATIONS,
    *key.OPERATIONS,
    *credit.OPERATIONS,
    *payment.OPERATIONS,
    *export.OPERATIONS,  # before `/api/requests/{id}`, which would match its path
    *request.OPERATIONS,
    *usage.OPERATIONS,
    *overview.OPERATIONS,
    *live.OPERATIONS,
    *playground.OPERATIONS,
    *provider.OPERATIONS,
    *provider_probe.OPERATIONS,
    *node.OPERATIONS,
    *model.OPERATIONS,
    *price.OPERATIONS,
    *audit.OPERATIONS,
    *alert.OPERATIONS,
    *settings.OPERATIONS,
    Operation(
        method="GET",
        path="/api/openapi.json",
        access=Permission.DOCUMENT,
        about="Get this API as an OpenAPI document",
        handler=show_openapi,
        answer=dict[str, Any],
    ),
)


def api_routes(context: Context) -> list[OpenRoute]:
    return [route_of(operation, context) for operation in OPERATIONS]
