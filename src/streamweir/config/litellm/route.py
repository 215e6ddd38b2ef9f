"""Converts model groups of the old file into models: their targets, order, strategy and price.

LiteLLM distributes the requests of a group over its deployments, and uses other groups when all have failed. A model of
ours has one list of targets and one strategy. If there are fallbacks, the targets are tried in order, the group's own
deployments first. A price applies to a whole model, so it is kept only if all targets have the same price.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from streamweir.config.litellm.tree import Notes
from streamweir.config.litellm.value import integer_weights

_STRATEGIES = {
    "simple-shuffle": "weighted",
    "latency-based-routing": "fastest",
    "least-busy": "weighted",
    "usage-based-routing": "weighted",
    "usage-based-routing-v2": "weighted",
    "cost-based-routing": "weighted",
}
_SAME = ("simple-shuffle", "latency-based-routing")


class Deployment(NamedTuple):
    """A target, and its settings in the old file; `path_of` returns the path of each setting."""

    where: str
    path_of: Callable[[str], str]
    provider: str
    model: str
    weight: Decimal | None
    rpm: Decimal | None
    tpm: Decimal | None
    order: Decimal | None
    price: Mapping[str, Decimal] | None
    wire: str | None = None
    """The provider's API, where the old file chose it."""

    @property
    def target(self) -> tuple[str, str]:
        return self.provider, self.model


Groups = Mapping[str, Sequence[Deployment]]


def strategy_of(named: str | None, notes: Notes) -> str:
    """The strategy for the `routing_strategy` of the router's settings."""
    if named is not None and named not in _SAME:
        notes.add_dropped("router_settings.routing_strategy", "targets are shared by their weights instead")
    return _STRATEGIES.get(named or "simple-shuffle", "weighted")


def ordered_targets(deployments: Sequence[Deployment], notes: Notes) -> list[Deployment]:
    """A group's targets without duplicates, sorted by `order`."""
    found: dict[tuple[str, str], Deployment] = {}
    for deployment in deployments:
        first = found.setdefault(deployment.target, deployment)
        if first is not deployment:
            notes.add_dropped(deployment.where, f"it is the same target as {first.where}")
    return sorted(found.values(), key=lambda each: each.order if each.order is not None else Decimal("Infinity"))


def model_table(name: str, groups: Groups, fallbacks: Sequence[str], strategy: str, notes: Notes) -> dict[str, Any]:
    """The table of one model. The groups must be sorted."""
    own = groups[name]
    others = [deployment for group in fallbacks for deployment in groups[group]]
    others = [deployment for deployment in others if deployment.target not in {each.target for each in own}]
    has_order = any(deployment.order is not None for deployment in own)
    if has_order or others or len(own) == 1:
        strategy = "priority"
    weights = _weights(own) if strategy == "weighted" else None
    _report_ignored(name, own, bool(others), has_order, weights is not None, notes)
    targets: dict[tuple[str, str], dict[str, Any]] = {}
    for index, deployment in enumerate((*own, *others)):
        weight = {"weight": weights[index]} if weights is not None and weights[index] != 1 else {}
        target = {"provider": deployment.provider, "model": deployment.model.replace("$", "$$"), **weight}
        if deployment.wire is not None:
            target["wire"] = deployment.wire
        targets.setdefault(deployment.target, target)
    return {
        "id": name,
        "targets": list(targets.values()),
        "strategy": strategy if len(targets) > 1 else None,
        "price": _price(name, own, others, notes),
    }


def _weights(own: Sequence[Deployment]) -> list[int] | None:
    """From `weight`, else `rpm`, else `tpm`, as in LiteLLM."""
    for values in (
        [deployment.weight for deployment in own],
        [deployment.rpm for deployment in own],
        [deployment.tpm for deployment in own],
    ):
        known = [value for value in values if value is not None and value > 0]
        if known:
            return integer_weights([value if value is not None and value > 0 else min(known) for value in values])
    return None


def _report_ignored(
    name: str, own: Sequence[Deployment], has_fallbacks: bool, has_order: bool, is_weighted: bool, notes: Notes
) -> None:
    for deployment in own:
        for limit, value in (("rpm", deployment.rpm), ("tpm", deployment.tpm)):
            if value is not None and is_weighted:
                notes.add_action(deployment.path_of(limit), "kept as the target's share alone: limits are set on keys")
            elif value is not None:
                notes.add_dropped(deployment.path_of(limit), "limits are set on keys, not on targets")
        if deployment.weight is not None and not is_weighted and len(own) > 1:
            notes.add_dropped(deployment.path_of("weight"), f"the targets of {name} are tried in order")
    if has_fallbacks and len(own) > 1 and not has_order:
        notes.add_action(
            own[0].where, f"the {len(own)} targets of {name} are tried in order, for others come after them"
        )


def _price(
    name: str, own: Sequence[Deployment], others: Sequence[Deployment], notes: Notes
) -> Mapping[str, Decimal] | None:
    prices = [deployment.price for deployment in (*own, *others)]
    if all(price == prices[0] for price in prices):
        return prices[0]
    for deployment in own:
        if deployment.price is not None:
            reason = f"the targets of {name} have different prices, and a price holds for all"
            notes.add_dropped(deployment.path_of("input_cost_per_token"), reason)
    return None
