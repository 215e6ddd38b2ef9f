"""The routes: which targets a model name stands for.

A name is an alias with its targets, or matches the pattern of an alias, or is `{provider}/{model}`, checked in this
order. If two patterns match, the one with more characters besides `*` counts, else the first. In which order the
targets are tried is decided in `policy.router`.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from streamweir.policy.health import TargetId

MAX_NAME_LENGTH = 256
"""The maximum length of a requested model name. No provider has a longer one."""

Strategy = Literal["priority", "weighted", "fastest"]


class RouteTarget(NamedTuple):
    target: TargetId
    weight: int = 1


class Route(Struct, frozen=True):
    id: str
    """The requested name."""
    targets: tuple[RouteTarget, ...]
    strategy: Strategy = "priority"
    pattern: str | None = None
    """The pattern of the alias that the name matches, if the name itself is not an alias."""
    affinity: bool = True
    """The requests of one conversation go to one candidate."""

    @property
    def configured_id(self) -> str:
        """Its name in the operator's file. If that is a pattern, callers do not choose it."""
        return self.pattern or self.id


class RouteTable:
    def __init__(self, routes: Iterable[Route], provider_names: Collection[str]) -> None:
        self._routes = {route.id: route for route in routes}
        patterns = [route for route in self._routes.values() if is_pattern(route.id)]
        self._patterns = sorted(patterns, key=lambda route: route.id.count("*") - len(route.id))
        self._providers = frozenset(provider_names)

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

    def targets(self) -> Iterator[TargetId]:
        """The targets that the operator has configured. Callers can name others."""
        for route in self._routes.values():
            yield from (each.target for each in route.targets)


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
