"""The control plane: console, API (if there is a database), probes and metrics.

Each of them has its own module; this one connects them.
"""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette

from streamweir.console.assets import Assets
from streamweir.core.errors import StreamweirError
from streamweir.server.control.api.authentication import actor_of, api_gates
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.table import api_routes
from streamweir.server.control.console import console_routes
from streamweir.server.control.payment_events import payment_routes
from streamweir.server.control.readiness import Readiness
from streamweir.server.control.routing import control_app
from streamweir.server.http.message import Request


def control_plane(
    context: Context | None,
    page: Assets,
    *,
    readiness: Readiness,
    metrics: Callable[[], Awaitable[bytes]],
    may_read_metrics: Callable[[Request], StreamweirError | None],
    is_trusted: Callable[[Request], bool],
    is_secure: bool,
) -> Starlette:
    """`context`: of the API; None without a database. `is_trusted`: a connection that may read all metrics."""
    return control_app(
        readiness=readiness,
        metrics=metrics,
        may_read_metrics=may_read_metrics,
        sees_cost=lambda request, scope: is_trusted(request) or actor_of(scope).sees_cost,
        routes=[
            *console_routes(page, has_database=context is not None),
            *((*api_routes(context), *payment_routes(context)) if context is not None else ()),
        ],
        gates=api_gates(context) if context is not None else {},
        is_secure=is_secure,
    )
