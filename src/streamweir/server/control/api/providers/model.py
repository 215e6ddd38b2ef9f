"""The models over the API: the targets of each, their health, and the price.

Aliases first, then the models that the providers list, and the default model. The health of a target is that of its
best credential, over the processes of all nodes. The price is the highest of a model's targets, or the operator's own.
"""

import asyncio

from msgspec import Struct

from streamweir.policy.permission import Permission
from streamweir.policy.routing.route import Route, RouteTarget, Strategy
from streamweir.server.control.api.accounts.price import Owner, RatesView, Source, price_group_of, price_of
from streamweir.server.control.api.operation import Call, Nothing, Operation
from streamweir.server.control.api.providers.node import WithHealth, health_of, nodes_of
from streamweir.server.control.api.providers.provider import WireName, credentials_of
from streamweir.server.nodes.health import Nodes
from streamweir.server.request.lookup.models import PER_TURN, model_ids
from streamweir.server.request.runtime.config import RuntimeConfig


class ModelTargetView(WithHealth, kw_only=True):
    provider: str
    model: str
    weight: int | None
    """Its share of the requests of its stage. None: the strategy does not use weights."""
    stage: int
    """Targets of lower stages are tried first."""
    wire: WireName
    """Through which API the next request goes. `chat`: the provider's own."""
    is_limited: bool
    """It is ejected only because it requested a pause."""
    ttft_s: float | None
    """The recent time to the first token: the mean of all processes."""


class ModelView(Struct, kw_only=True):
    id: str
    is_default: bool
    """It is used if a request names no model."""
    strategy: Strategy
    """The order of the targets of a stage."""
    targets: list[ModelTargetView]
    fallbacks: list[str]
    """The models that answer if all targets fail."""
    context_fallbacks: list[str]
    """The models that answer if the prompt is too long for this one."""
    content_filter_fallbacks: list[str]
    """The models that answer if the prompt is refused by a content filter."""
    source: Source
    """The source of the price."""
    owner: Owner
    """Whose price it is. `target`: the highest of its targets and fallbacks."""
    owners: list[str]
    """The price group, or the targets whose price it is."""
    rates: RatesView | None
    """None: no price is known."""


class Models(Struct, kw_only=True):
    data: list[ModelView]


async def list_models(call: Call[Nothing, Nothing]) -> Models:
    runtime, nodes = call.context.runtime(), await nodes_of(call.context)
    aliases = [alias.id for alias in runtime.config.models]  # including patterns, which callers do not see
    ids = dict.fromkeys([*aliases, *model_ids(runtime), *filter(None, [runtime.default_model])])
    group, data = price_group_of(call), []
    for id in ids:
        if (route := runtime.routes.resolve(id)) is not None:
            data.append(_view(runtime, route, call.at_ms, nodes, group))
        if len(data) % PER_TURN == 0:
            await asyncio.sleep(0)  # clouds list hundreds
    return Models(data=data)


def _view(runtime: RuntimeConfig, route: Route, at_ms: int, nodes: Nodes, group: str | None) -> ModelView:
    price = price_of(runtime, route, at_ms, group)
    is_weighted = route.strategy in ("weighted", "least_busy")
    targets = [_target(runtime, entry, is_weighted, nodes) for entry in route.targets]
    return ModelView(
        id=route.id,
        is_default=route.id == runtime.default_model,
        strategy=route.strategy,
        targets=targets,
        fallbacks=list(route.fallbacks),
        context_fallbacks=list(route.context_fallbacks),
        content_filter_fallbacks=list(route.content_filter_fallbacks),
        source=price.source,
        owner=price.owner,
        owners=price.owners,
        rates=price.rates,
    )


def _target(runtime: RuntimeConfig, entry: RouteTarget, is_weighted: bool, nodes: Nodes) -> ModelTargetView:
    target = entry.target
    health = nodes.target(target.provider, target.model, credentials_of(runtime, target))
    return ModelTargetView(
        provider=target.provider,
        model=target.model,
        weight=entry.weight if is_weighted else None,
        stage=entry.stage,
        wire=runtime.wires.wire_of(target).value,
        is_limited=health.is_limited,
        ttft_s=health.ttft_ms / 1000 if health.ttft_ms is not None else None,
        **health_of(health),
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/models",
        access=Permission.ROUTING_READ,
        about="List the models with targets and prices",
        handler=list_models,
        answer=Models,
    ),
)
