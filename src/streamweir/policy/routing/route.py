"""The routes: which targets a model name stands for.

A name is an alias with its targets, or matches the pattern of an alias, or is `{provider}/{model}`, checked in this
order. If two patterns match, the one with more characters besides `*` counts, else the first. In which order the
targets are tried is decided in `policy.routing.router`.

A route names further routes, its fallbacks, and these name theirs. They are followed in the order in which they are
named, those that are named first before their own. Each route is followed once, so they may name each other.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from streamweir.policy.routing.health import TargetId

MAX_NAME_LENGTH = 256
"""The maximum length of a requested model name. No provider has a longer one."""

Strategy = Literal["priority", "weighted", "fastest", "least_busy", "cheapest"]

FALLBACKS = "fallbacks"
REFUSAL_FALLBACKS: Mapping[str, str] = {
    "context_length_exceeded": "context_fallbacks",
    "content_filter": "content_filter_fallbacks",
}
"""The lists of fallbacks that are used after a refusal of the prompt, by the code of the error."""


class RouteTarget(NamedTuple):
    target: TargetId
    weight: int = 1
    stage: int = 1


class Route(Struct, frozen=True):
    id: str
    """The requested name."""
    targets: tuple[RouteTarget, ...]
    """In a `RouteTable`: those of the lower stages first."""
    strategy: Strategy = "priority"
    """The order of the targets of a stage."""
    pattern: str | None = None
    """The pattern of the alias that the name matches, if the name itself is not an alias."""
    affinity: bool = True
    """The requests of one conversation go to one candidate."""
    fallbacks: tuple[str, ...] = ()
    """The names of the routes that follow if all targets fail."""
    context_fallbacks: tuple[str, ...] = ()
    content_filter_fallbacks: tuple[str, ...] = ()
    max_attempts: int | None = None
    """Of one request. None: as for all routes."""
    chain: tuple["Route", ...] = ()
    """The routes of `fallbacks`, of theirs, and so on, without targets that come earlier. Set by a `RouteTable`."""
    reachable: tuple["Route", ...] = ()
    """The same for all lists of fallbacks: with the route itself, all that can answer a request."""

    @property
    def groups(self) -> tuple["Route", ...]:
        """Itself and its chain: what is tried after failures, in this order."""
        return (self, *self.chain)

    def has_target(self, target: TargetId) -> bool:
        """It is one of its own targets."""
        return any(entry.target == target for entry in self.targets)

    @property
    def configured_id(self) -> str:
        """Its name in the operator's file. If that is a pattern, callers do not choose it."""
        return self.pattern or self.id


class RouteTable:
    def __init__(self, routes: Iterable[Route], provider_names: Collection[str]) -> None:
        self._providers = frozenset(provider_names)
        self._index(map(_by_stage, routes))
        self._index([self._linked(route) for route in self._routes.values()])

    def _index(self, routes: Iterable[Route]) -> None:
        self._routes = {route.id: route for route in routes}
        patterns = [route for route in self._routes.values() if is_pattern(route.id)]
        self._patterns = sorted(patterns, key=lambda route: route.id.count("*") - len(route.id))

    def resolve(self, model_name: str) -> Route | None:
        """None: no route has this name."""
        route = self._routes.get(model_name)
        if route is not None:
            return route
        if len(model_name) > MAX_NAME_LENGTH or not model_name.isprintable():
            return None
        for route in self._patterns:
            if matches_pattern(model_name, route.id):
                return structs.replace(route, id=model_name, pattern=route.id)
        provider, _, model = model_name.partition("/")
        if not model or provider not in self._providers:
            return None
        if not {".", ".."}.isdisjoint(model.split("/")):  # some providers have the model in the path
            return None
        return Route(model_name, (RouteTarget(TargetId(provider, model)),))

    def targets(self) -> Collection[TargetId]:
        """The targets that the operator has configured. Callers can name others."""
        routes = [each for route in self._routes.values() for each in (route, *route.reachable)]
        return dict.fromkeys(entry.target for route in routes for entry in route.targets)

    def _linked(self, route: Route) -> Route:
        """With the routes that its fallbacks name."""
        reachable = self._follow(route, (FALLBACKS, *REFUSAL_FALLBACKS.values()))
        if not reachable:
            return route
        return structs.replace(route, chain=self._follow(route, (FALLBACKS,)), reachable=reachable)

    def _follow(self, start: Route, lists: Collection[str]) -> tuple[Route, ...]:
        """`lists`: the attributes with the names to follow. A name that does not exist is left out. What is found
        has no links itself, so routes that name each other contain no cycle."""
        queue, seen, names = [start], {start.configured_id}, set[str]()
        for route in queue:
            for name in chain.from_iterable(getattr(route, each) for each in lists):
                if name in names:
                    continue
                names.add(name)
                found = self.resolve(name)
                if found is not None and found.configured_id not in seen:
                    seen.add(found.configured_id)
                    queue.append(found)
        known = {entry.target for entry in start.targets}
        followed = []
        for route in queue[1:]:
            targets = tuple(entry for entry in route.targets if entry.target not in known)
            known.update(entry.target for entry in targets)
            if targets:
                followed.append(route if targets == route.targets else structs.replace(route, targets=targets))
        return tuple(followed)


def _by_stage(route: Route) -> Route:
    targets = tuple(sorted(route.targets, key=lambda entry: entry.stage))
    return route if targets == route.targets else structs.replace(route, targets=targets)


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
