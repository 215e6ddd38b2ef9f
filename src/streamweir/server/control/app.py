"""The control plane: console, API (if there is a database), probes and metrics.

Each of them has its own module; this one connects them.
"""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette

from streamweir.console.assets import Assets
from streamweir.server.control.api.authentication import actor_of, api_gates
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.table import api_routes
from streamweir.server.control.console import console_routes
from streamweir.server.control.identity_return import return_routes
from streamweir.server.control.metrics_access import MetricsAccess
from streamweir.server.control.payment_events import payment_routes
from streamweir.server.control.readiness import Readiness
from streamweir.server.control.routing import control_app


def control_plane(
    context: Context | None,
    page: Assets,
    *,
    readiness: Readiness,
    metrics: Callable[[], Awaitable[bytes]],
    metrics_access: MetricsAccess,
    is_secure: bool,
) -> Starlette:
    """`context`: of the API; None without a database."""
    return control_app(
        readiness=readiness,
        metrics=metrics,
        may_read_metrics=metrics_access.error_of,
        sees_cost=lambda request, scope: metrics_access.sees_money(request) or actor_of(scope).sees_cost,
        routes=[
            *console_routes(page, has_database=context is not None),
            *((*api_routes(context), *payment_routes(context), *return_routes(context)) if context is not None else ()),
        ],
        gates=api_gates(context) if context is not None else {},
        is_secure=is_secure,
    )
