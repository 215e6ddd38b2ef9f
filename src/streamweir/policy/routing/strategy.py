"""The strategies: in which order the available targets of one stage are tried.

Pure: what is measured of a target and random values are arguments. `random` returns numbers from 0 up to 1. A
conversation's preference counts where the operator has none: in place of a random choice, and before a measurement of
time or load. A list by priority is the operator's own order, and so is the price: they are kept.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple, Protocol, TypeVar

from streamweir.policy.routing.affinity import Preference
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.route import RouteTarget, Strategy

EXPLORED_SHARE = 0.05
"""`fastest`: the share of requests that try another target first, to measure it."""

Random = Callable[[], float]
Measure = Callable[[TargetId], float | None]


class Weighted(Protocol):
    @property
    def weight(self) -> int: ...


T = TypeVar("T", bound=Weighted)


class Measures(NamedTuple):
    """What is known about a target. None: not known."""

    ttft_s: Measure
    """The recent time to the first token."""
    running: Callable[[TargetId], int]
    """The attempts that are running."""
    cost: Measure
    """The price of the request."""


def arrange(
    strategy: Strategy,
    available: Sequence[RouteTarget],
    random: Random,
    measures: Measures,
    preference: Preference | None = None,
) -> Sequence[RouteTarget]:
    """The targets, best first."""
    if len(available) < 2 or strategy == "priority":
        return available
    if strategy == "weighted":
        return shuffle(available, random) if preference is None else preference.draw(available)
    if strategy == "cheapest":
        drawn = available if preference is None else preference.draw(available)
        return sorted(drawn, key=lambda entry: _or_last(measures.cost(entry.target)))
    if strategy == "least_busy":  # by their weights, if they are equally busy
        drawn = shuffle(available, random) if preference is None else preference.draw(available)
        ranked = sorted(drawn, key=lambda entry: measures.running(entry.target) / entry.weight)
    else:
        ranked = _rank(available, random, measures.ttft_s)
    return ranked if preference is None else preference.remembered_first(ranked)


def _or_last(measured: float | None) -> float:
    return inf if measured is None else measured


def shuffle(available: Sequence[T], random: Random) -> list[T]:
    """Random order: each next one is drawn with the share of its weight in the remaining weights."""
    remaining: list[T] = list(available)
    shuffled: list[T] = []
    while len(remaining) > 1:
        point = random() * sum(entry.weight for entry in remaining)
        index = 0
        while index < len(remaining) - 1 and point >= remaining[index].weight:
            point -= remaining[index].weight
            index += 1
        shuffled.append(remaining.pop(index))
    return shuffled + remaining


def _rank(available: Sequence[RouteTarget], random: Random, ttft_s: Measure) -> list[RouteTarget]:
    """The fastest first. A target without a measurement comes before all others, so that it is measured."""

    def time_of(entry: RouteTarget) -> float:
        measured_s = ttft_s(entry.target)
        return measured_s if measured_s is not None else -1.0

    ranked = sorted(available, key=time_of)
    if random() < EXPLORED_SHARE:
        ranked.insert(0, ranked.pop(1 + int(random() * (len(ranked) - 1))))
    return ranked
