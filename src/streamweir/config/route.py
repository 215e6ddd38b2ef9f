"""The routes of a configuration: which targets each model name stands for, and which fallbacks follow. Pure."""

from streamweir.config.model import Config
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.route import Route, RouteTable, RouteTarget


def routes_of(config: Config) -> RouteTable:
    """Names that do not exist are left out: `config.check` reports them."""
    return RouteTable(
        [
            Route(
                id=model.id,
                targets=tuple(
                    RouteTarget(
                        target=TargetId(target.provider, target.model), weight=target.weight, stage=target.stage
                    )
                    for target in model.targets
                ),
                strategy=model.strategy,
                affinity=model.affinity,
                fallbacks=model.fallbacks,
                context_fallbacks=model.context_fallbacks,
                content_filter_fallbacks=model.content_filter_fallbacks,
                max_attempts=model.max_attempts,
            )
            for model in config.models
        ],
        [provider.name for provider in config.providers],
    )
