"""Converts groups of deployments into models: their targets in stages, and the strategy.

LiteLLM shares the requests of a group among the deployments with the lowest `order`, and uses the next ones when these
fail: an order is a stage of ours. Deployments of a group that differ only in their key become one target, whose
provider has several keys.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from math import gcd
from typing import Any, NamedTuple

from streamweir.config.file.variable import quoted
from streamweir.config.litellm.deployment import LIMITS, MAX_LIMIT, Deployment
from streamweir.config.litellm.provider import Credential, Providers
from streamweir.config.litellm.report import Place, Report
from streamweir.config.litellm.value import MAX_WEIGHT, Number, integer_weights

STRATEGIES = {
    "simple-shuffle": "weighted",
    "latency-based-routing": "fastest",
    "least-busy": "least_busy",
    "usage-based-routing": "least_busy",
    "usage-based-routing-v2": "least_busy",
    "cost-based-routing": "cheapest",
}
_SHARES = ("weight", "rpm", "tpm")
"""What LiteLLM takes as the share of a deployment: the first that is set."""
_MAX_STAGE = 100


class Group(NamedTuple):
    name: str
    stages: list[list[list[Deployment]]]
    """Its targets by stage; a target has one deployment for each of its keys."""

    @property
    def deployments(self) -> Iterator[Deployment]:
        return (deployment for stage in self.stages for pool in stage for deployment in pool)


def groups_of(deployments: Iterable[Deployment], report: Report) -> dict[str, Group]:
    """By name. A wildcard is in none."""
    members: dict[str, list[Deployment]] = {}
    for deployment in deployments:
        if deployment.is_wildcard:
            continue
        members.setdefault(deployment.group, []).append(deployment)
    return {name: make_group(name, own, report) for name, own in members.items()}


def make_group(name: str, own: Sequence[Deployment], report: Report) -> Group:
    stages: dict[tuple[Decimal, bool], dict[str, list[Deployment]]] = {}
    seen: dict[str, tuple[Decimal, bool]] = {}
    kept: list[Deployment] = []
    for deployment in sorted(own, key=_order):
        target = repr((target_identity(deployment), deployment.key, deployment.limits))
        if seen.setdefault(target, _order(deployment)) != _order(deployment):
            report.forget(deployment.where)
            report.drop(Place(deployment.where, deployment.where), "the same target is in the group with a lower order")
            continue
        kept.append(deployment)
        pools = stages.setdefault(_order(deployment), {})
        pools.setdefault(target_identity(deployment), []).append(deployment)
    if len(stages) > 1:
        for deployment in kept:
            if deployment.weight == 0:
                report.note(deployment.places["weight"], "it is used when no other one is left")
    return Group(name, [list(pools.values()) for pools in stages.values()])


def _order(deployment: Deployment) -> tuple[Decimal, bool]:
    """Those without an order come last. LiteLLM uses one with the weight 0 only if no other is left."""
    order = deployment.order if deployment.order is not None else Decimal("Infinity")
    return order, deployment.weight == 0


def target_identity(deployment: Deployment) -> str:
    """Equal for deployments that are one target, whatever their keys are."""
    return repr((deployment.connection, deployment.model, deployment.settings, deployment.key is None))


def model_table(group: Group, strategy: str, providers: Providers, report: Report) -> dict[str, Any]:
    targets: list[dict[str, Any]] = []
    for number, stage in enumerate(group.stages, 1):
        weights = weights_of(stage, strategy, report)
        shares = _reduced([sum(weights[each.where] for each in pool) for pool in stage])
        for pool, share in zip(stage, shares, strict=True):
            target = _target(pool, weights, providers)
            if len(stage) > 1 and share > 1 and strategy in ("weighted", "least_busy"):
                target["weight"] = share
            if number > 1:
                target["stage"] = min(number, _MAX_STAGE)
            targets.append(_in_order(target))
            _report_pool(pool, report)
    return {
        "strategy": strategy if any(len(stage) > 1 for stage in group.stages) else None,
        "targets": targets,
    }


def _target(pool: Sequence[Deployment], weights: Mapping[str, int], providers: Providers) -> dict[str, Any]:
    first = pool[0]
    by_key: dict[str, list[Deployment]] = {}
    for deployment in pool:
        by_key.setdefault(deployment.key or "", []).append(deployment)
    settings = {**first.settings}
    credentials = [Credential(first.key, {})] if first.key is not None else []
    if len(by_key) > 1:
        shares = _reduced([sum(weights[each.where] for each in own) for own in by_key.values()])
        credentials = [credential(key, own, share) for (key, own), share in zip(by_key.items(), shares, strict=True)]
    else:
        settings |= limits_of(pool)
    provider = providers.of_target(first.connection, credentials, first.model, settings)
    return {"provider": provider, "model": quoted(first.model), **settings}


def credential(key: str, own: Sequence[Deployment], weight: int) -> Credential:
    return Credential(key, ({"weight": weight} if weight > 1 else {}) | limits_of(own))


def limits_of(own: Sequence[Deployment]) -> dict[str, Number]:
    """The limits of one key: those of several deployments with it add up."""
    found: dict[str, Number] = {}
    for name in LIMITS:
        values = [each.limits[name] for each in own if name in each.limits]
        if len(values) == len(own):
            numbers = [value for value in values if isinstance(value, int)]
            found[name] = min(sum(numbers), MAX_LIMIT) if len(numbers) == len(values) else values[0]
    return found


def weights_of(stage: Sequence[Sequence[Deployment]], strategy: str, report: Report) -> dict[str, int]:
    """The share of each deployment of a stage."""
    own = [deployment for pool in stage for deployment in pool]
    for name in _SHARES:
        values = [_share(each, name) for each in own]
        known = [value for value in values if value is not None]
        if known and strategy == "weighted":
            whole = integer_weights([value if value is not None else min(known) for value in values])
            return {each.where: weight for each, weight in zip(own, whole, strict=True)}
    if strategy != "weighted":
        for deployment in own:
            if deployment.weight:
                report.drop(deployment.places["weight"], "only simple-shuffle uses it, in LiteLLM as well")
    return {each.where: 1 for each in own}


def _reduced(weights: Sequence[int]) -> list[int]:
    common = gcd(*weights)
    return [min(weight // common, MAX_WEIGHT) for weight in weights]


def _share(deployment: Deployment, name: str) -> Decimal | None:
    value = deployment.weight if name == "weight" else deployment.limits.get(name)
    return Decimal(value) if isinstance(value, (int, Decimal)) and value > 0 else None


def _report_pool(pool: Sequence[Deployment], report: Report) -> None:
    by_key: dict[str | None, list[Deployment]] = {}
    for deployment in pool:
        by_key.setdefault(deployment.key, []).append(deployment)
    for first, *others in by_key.values():
        for other in others:
            report.note(other.places["model"], f"the same target as {first.where}: their shares and limits add up")
        used = limits_of([first, *others])
        for deployment in (first, *others):
            for name in deployment.limits.keys() & deployment.places.keys() - used.keys():
                report.drop(deployment.places[name], "the same target is in the group without a limit")


_ORDER = ("provider", "model", "stage", "weight")


def _in_order(target: Mapping[str, Any]) -> dict[str, Any]:
    return {name: target[name] for name in (*_ORDER, *target) if name in target}
