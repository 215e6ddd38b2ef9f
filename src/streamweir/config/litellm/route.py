"""Model groups of the old file as models of ours: whose targets, in which order, by which strategy, at which price.

LiteLLM shares a group's requests among its deployments and goes to other groups when all have failed.
A model of ours has one list of targets and one strategy: where there is something to fall back on,
the list is tried from the top, its own deployments first. A price holds for a whole model, so it is
only kept where all of its targets have the same.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from streamweir.config.litellm.tree import Notes
from streamweir.config.litellm.value import whole_weights

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
    """A target, and what the old file says of it; `at` gives the place of each of its values."""

    where: str
    at: Callable[[str], str]
    provider: str
    model: str
    weight: Decimal | None
    rpm: Decimal | None
    tpm: Decimal | None
    order: Decimal | None
    price: Mapping[str, Decimal] | None

    @property
    def target(self) -> tuple[str, str]:
        return self.provider, self.model


Groups = Mapping[str, Sequence[Deployment]]


def strategy_of(named: str | None, notes: Notes) -> str:
    """Of what the router's settings name; how the requests of a group are shared."""
    if named is not None and named not in _SAME:
        notes.lose("router_settings.routing_strategy", "targets are shared by their weights instead")
    return _STRATEGIES.get(named or "simple-shuffle", "weighted")


def put_in_order(deployments: Sequence[Deployment], notes: Notes) -> list[Deployment]:
    """A group's targets, each once, in the order that they ask for."""
    found: dict[tuple[str, str], Deployment] = {}
    for deployment in deployments:
        first = found.setdefault(deployment.target, deployment)
        if first is not deployment:
            notes.lose(deployment.where, f"it is the same target as {first.where}")
    return sorted(found.values(), key=lambda each: each.order if each.order is not None else Decimal("Infinity"))


def write_model(name: str, groups: Groups, fallbacks: Sequence[str], strategy: str, notes: Notes) -> dict[str, Any]:
    """The table of one model, of groups that are in order."""
    own = groups[name]
    others = [deployment for group in fallbacks for deployment in groups[group]]
    others = [deployment for deployment in others if deployment.target not in {each.target for each in own}]
    has_order = any(deployment.order is not None for deployment in own)
    if has_order or others or len(own) == 1:
        strategy = "priority"
    weights = _weights(own) if strategy == "weighted" else None
    _tell(name, own, bool(others), has_order, weights is not None, notes)
    targets: dict[tuple[str, str], dict[str, Any]] = {}
    for at, deployment in enumerate((*own, *others)):
        weight = {"weight": weights[at]} if weights is not None and weights[at] != 1 else {}
        target = {"provider": deployment.provider, "model": deployment.model.replace("$", "$$"), **weight}
        targets.setdefault(deployment.target, target)
    return {
        "id": name,
        "targets": list(targets.values()),
        "strategy": strategy if len(targets) > 1 else None,
        "price": _price(name, own, others, notes),
    }


def _weights(own: Sequence[Deployment]) -> list[int] | None:
    """By weight, else by requests, else by tokens per minute, as LiteLLM does."""
    for values in (
        [deployment.weight for deployment in own],
        [deployment.rpm for deployment in own],
        [deployment.tpm for deployment in own],
    ):
        known = [value for value in values if value is not None and value > 0]
        if known:
            return whole_weights([value if value is not None and value > 0 else min(known) for value in values])
    return None


def _tell(
    name: str, own: Sequence[Deployment], has_fallbacks: bool, has_order: bool, is_weighted: bool, notes: Notes
) -> None:
    for deployment in own:
        for limit, value in (("rpm", deployment.rpm), ("tpm", deployment.tpm)):
            if value is not None and is_weighted:
                notes.ask(deployment.at(limit), "kept as the target's share alone: limits are set on keys")
            elif value is not None:
                notes.lose(deployment.at(limit), "limits are set on keys, not on targets")
        if deployment.weight is not None and not is_weighted and len(own) > 1:
            notes.lose(deployment.at("weight"), f"the targets of {name} are tried in order")
    if has_fallbacks and len(own) > 1 and not has_order:
        notes.ask(own[0].where, f"the {len(own)} targets of {name} are tried in order, for others come after them")


def _price(
    name: str, own: Sequence[Deployment], others: Sequence[Deployment], notes: Notes
) -> Mapping[str, Decimal] | None:
    prices = [deployment.price for deployment in (*own, *others)]
    if all(price == prices[0] for price in prices):
        return prices[0]
    for deployment in own:
        if deployment.price is not None:
            reason = f"the targets of {name} have different prices, and a price holds for all"
            notes.lose(deployment.at("input_cost_per_token"), reason)
    return None
