"""The targets of a request, and the order in which they are tried.

A name is an alias with its targets, or matches the pattern of an alias, or is `{provider}/{model}`, checked in this
order. If two patterns match, the one with more characters besides `*` counts, else the first.

`order` returns the available targets, by the route's strategy; the first of them is taken by that call, every further
one must be taken with `take` before it is tried. Each target that was tried is reported once, with the same object:
`succeeded`, `failed` or `abandoned`. This module only decides; time and random values are arguments. Callers choose
model names, so what is kept about them is bounded.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.policy.health import Health, State, TargetId

MAX_NAME_LENGTH = 256
"""The maximum length of a requested model name. No provider has a longer one."""
EXPLORED_SHARE = 0.05
"""`fastest`: the share of requests that try another target first, to measure it."""

Strategy = Literal["priority", "weighted", "fastest"]


class WeightedTarget(NamedTuple):
    target: TargetId
    weight: int = 1


class Route(Struct, frozen=True):
    id: str
    """The requested name."""
    targets: tuple[WeightedTarget, ...]
    strategy: Strategy = "priority"
    pattern: str | None = None
    """The pattern of the alias that the name matches, if the name itself is not an alias."""

    @property
    def configured_id(self) -> str:
        """Its name in the operator's file. If that is a pattern, callers do not choose it."""
        return self.pattern or self.id


class Router:
    """`max_unrouted` bounds what is kept about targets without a route. Providers in `scripted` fail on purpose: if
    they are requested by name, they are never ejected."""

    def __init__(
        self,
        routes: Iterable[Route],
        provider_names: Collection[str],
        *,
        scripted: Collection[str] = (),
        max_unrouted: int = 10_000,
    ) -> None:
        self._routes = {route.id: route for route in routes}
        patterns = [route for route in self._routes.values() if is_pattern(route.id)]
        self._patterns = sorted(patterns, key=lambda route: route.id.count("*") - len(route.id))
        self._providers = frozenset(provider_names)
        self._routed = {target: Health() for route in self._routes.values() for target, _ in route.targets}
        self._unrouted: OrderedDict[TargetId, Health] = OrderedDict()  # only those that have failed
        self._scripted = frozenset(scripted)
        self._max_unrouted = max_unrouted

    def adopt(self, old: "Router", changed: Collection[str] = ()) -> None:
        """Takes over the health of the targets of `old`. Targets of the `changed` providers start without."""
        for target, health in (*old._unrouted.items(), *old._routed.items()):
            if target.provider in changed:
                continue
            if target in self._routed:
                self._routed[target] = health
            elif target.provider in self._providers:
                self._keep(target, health)

    def resolve(self, model_name: str) -> Route | None:
        """None: no route has this name."""
        route = self._routes.get(model_name)
        if route is not None:
            return route
        if len(model_name) > MAX_NAME_LENGTH or not model_name.isprintable():
            return None
        for route in self._patterns:
            if matches_pattern(model_name, route.id):
                return Route(model_name, route.targets, route.strategy, route.id)
        provider, _, model = model_name.partition("/")
        if not model or provider not in self._providers:
            return None
        if not {".", ".."}.isdisjoint(model.split("/")):  # some providers have the model in the path
            return None
        return Route(model_name, (WeightedTarget(TargetId(provider, model)),))

    def order(self, route: Route, now: float, random: Callable[[], float]) -> list[TargetId]:
        """The targets to try, best first; empty: all are unavailable. `random` returns numbers from 0 up to 1."""
        if len(route.targets) == 1:
            taken = self.take(route.targets[0].target, now)
            return [taken] if taken is not None else []
        available = [entry for entry in route.targets if self._state(entry.target, now) is not State.UNAVAILABLE]
        if len(available) > 1:
            if route.strategy == "weighted":
                available = _shuffle(available, random)
            elif route.strategy == "fastest":
                available = self._rank(available, random)
        targets = [entry.target for entry in available]
        if targets:
            targets[0] = self.take(targets[0], now) or targets[0]
        return targets

    def take(self, target: TargetId, now: float) -> TargetId | None:
        """The target as it must be reported later; None: it is unavailable, or another request is probing it."""
        health = self._find(target)
        return health.begin(target, now) if health is not None else target

    def retry_after_s(self, route: Route, now: float) -> float:
        """The time until the first of the route's targets is available."""
        found = [self._find(entry.target) for entry in route.targets]
        return min((health.remaining_s(now) if health is not None else 0.0 for health in found), default=0.0)

    def unavailable(self, route: Route, now: float) -> UpstreamError:
        """The error for the caller if `order` is empty: all targets limit their rate, or none is available."""
        found = [self._find(entry.target) for entry in route.targets]
        wait_s = self.retry_after_s(route, now)
        if all(health is not None and health.is_limited(now) for health in found):
            return UpstreamError("upstream_rate_limited", "The provider's rate limit is reached.", retry_after_s=wait_s)
        message = "None of the model's targets is available at the moment."
        return UpstreamError("no_available_deployment", message, retry_after_s=wait_s)

    def answered(self, target: TargetId, now: float, ttft_s: float) -> None:
        """The first token has arrived. May be reported before the end: a probe need not finish to succeed."""
        health = self._find(target)
        if health is not None:
            health.answered(now, ttft_s)

    def succeeded(self, target: TargetId, now: float, ttft_s: float | None = None) -> None:
        """`ttft_s`: if it was not reported by `answered`."""
        health = self._find(target)
        if health is not None:
            health.succeeded(now, ttft_s)

    def failed(self, target: TargetId, now: float, error: StreamweirError) -> bool:
        """True: this failure ejects the target for a while."""
        health = self._find(target)
        if health is None:
            if target.provider in self._scripted:
                return False
            health = Health()
            self._keep(TargetId(*target), health)
        return health.failed(target, now, error)

    def abandoned(self, target: TargetId) -> None:
        """Neither success nor failure: the caller disconnected, or it was not tried. Releases the probe, if it was
        one."""
        health = self._find(target)
        if health is not None:
            health.abandoned(target)

    def known(self) -> Iterator[tuple[TargetId, Health, bool]]:
        """The known targets, and whether a route names them. Other names were made up by callers."""
        yield from ((target, health, True) for target, health in self._routed.items())
        yield from ((target, health, False) for target, health in self._unrouted.items())

    def health_of(self, target: TargetId) -> Health | None:
        """Without counting it as a use. None: nothing is known, so the target is healthy."""
        return self._routed.get(target) or self._unrouted.get(target)

    def is_unavailable(self, target: TargetId, now: float) -> bool:
        return self._state(target, now) is State.UNAVAILABLE

    def _state(self, target: TargetId, now: float) -> State:
        health = self._find(target)
        return health.state(now) if health is not None else State.HEALTHY

    def _find(self, target: TargetId) -> Health | None:
        health = self._routed.get(target)
        if health is None:
            health = self._unrouted.get(target)
            if health is not None:
                self._unrouted.move_to_end(target)
        return health

    def _keep(self, target: TargetId, health: Health) -> None:
        self._unrouted[target] = health
        self._unrouted.move_to_end(target)
        if len(self._unrouted) > self._max_unrouted:
            self._unrouted.popitem(last=False)

    def _rank(self, available: list[WeightedTarget], random: Callable[[], float]) -> list[WeightedTarget]:
        """The fastest first. A target without a measurement comes before all others, so that it is measured."""

        def time_of(entry: WeightedTarget) -> float:
            health = self._find(entry.target)
            return health.ttft_s if health is not None and health.ttft_s is not None else -1.0

        ranked = sorted(available, key=time_of)
        if random() < EXPLORED_SHARE:
            ranked.insert(0, ranked.pop(1 + int(random() * (len(ranked) - 1))))
        return ranked


def is_pattern(model_id: str) -> bool:
    return "*" in model_id


def matches_pattern(name: str, pattern: str) -> bool:
    """`*` matches any text without a slash, also the empty one. Fast for any name, because callers choose names."""
    parts, own = pattern.split("/"), name.split("/")
    return len(parts) == len(own) and all(map(_matches_part, own, parts))


def _matches_part(text: str, pattern: str) -> bool:
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    *between, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in between:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _shuffle(available: list[WeightedTarget], random: Callable[[], float]) -> list[WeightedTarget]:
    """Random order: each next target is drawn with the share of its weight in the remaining weights."""
    remaining, shuffled = list(available), []
    while len(remaining) > 1:
        point = random() * sum(entry.weight for entry in remaining)
        index = 0
        while index < len(remaining) - 1 and point >= remaining[index].weight:
            point -= remaining[index].weight
            index += 1
        shuffled.append(remaining.pop(index))
    return shuffled + remaining
