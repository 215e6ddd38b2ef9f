"""Reads the three kinds of fallbacks, and converts them into lists of models.

`router_settings` override `litellm_settings`, as in LiteLLM. A list belongs to a model by its name, else by the name of
its group, else it is that of all models (`*`, or `default_fallbacks`). A fallback may also be the id of a deployment,
which becomes a model of its own.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from streamweir.config.error import entry, member
from streamweir.config.litellm.report import Place
from streamweir.config.litellm.tree import Branch, is_empty

_KINDS = {
    "fallbacks": "fallbacks",
    "context_fallbacks": "context_window_fallbacks",
    "content_filter_fallbacks": "content_policy_fallbacks",
}
ALL = "*"


class Named(NamedTuple):
    place: Place
    name: str


class Fallbacks:
    def __init__(self, router: Branch, litellm: Branch) -> None:
        self._report = router.report
        self._resolve: Callable[[str], str | None] = lambda name: name
        self._lists = {ours: self._read(*take_either(router, litellm, theirs)) for ours, theirs in _KINDS.items()}
        default = list(self._names(*take_either(router, litellm, "default_fallbacks")))
        if ALL in self._lists["fallbacks"]:
            for place, _ in default:
                self._report.drop(place, "fallbacks has a list for all models")
        elif default:
            self._lists["fallbacks"][ALL] = default

    def names(self) -> set[str]:
        """The names of all models that have fallbacks or are one."""
        lists = [each for lists in self._lists.values() for each in lists.items()]
        return {name for name, _ in lists if name != ALL} | {each.name for _, others in lists for each in others}

    def check(self, names: set[str], resolve: Callable[[str], str | None], wildcards: set[str]) -> None:
        """Removes fallbacks that there are not.

        `names`: the models. `resolve` finds what answers for a name. `wildcards`: names that are no models."""
        self._resolve = resolve
        for lists in self._lists.values():
            for owner, others in lists.items():
                if owner != ALL and owner not in names:
                    reason = "models that callers name as PROVIDER/MODEL have no fallbacks"
                    self._drop(others, others, reason if owner in wildcards else "there is no such model")
                elif owner == ALL and wildcards:
                    for place, _ in others:
                        self._report.note(place, "not for models that callers name as PROVIDER/MODEL")
                unknown = [each for each in others if resolve(each.name) is None]
                self._drop(others, unknown, "there is no such model")
                self._drop(others, [each for each in others if resolve(each.name) == owner], "it is the model itself")
                first = {each.name: each for each in reversed(others)}
                self._drop(others, [each for each in others if first[each.name] is not each], "it is listed twice")

    def of(self, name: str, group: str) -> dict[str, list[str]]:
        """The lists of the model `name` of a group."""
        found: dict[str, list[str]] = {}
        for kind, lists in self._lists.items():
            known = next((lists[each] for each in (name, group, ALL) if each in lists), [])
            others = [other for _, other in known if self._resolve(other) != name]
            if others:
                found[kind] = others
        return found

    def _drop(self, others: list[Named], which: list[Named], reason: str) -> None:
        for each in list(which):
            self._report.drop(each.place, reason)
            others.remove(each)

    def _read(self, value: Any, place: Place) -> dict[str, list[Named]]:
        found: dict[str, list[Named]] = {}
        for at, item in items_of(value, place):
            if not isinstance(item, dict):
                self._report.drop(at, "a table was expected")
                continue
            for name, others in item.items():
                path = at._replace(path=member(at.path, name))
                found.setdefault(name, []).extend(self._names(others, path))
        return found

    def _names(self, value: Any, place: Place) -> Iterator[Named]:
        """The model names in a list, whose items may also be tables with parameters."""
        for at, item in items_of(value, place):
            name = item.get("model") if isinstance(item, dict) else item
            if not isinstance(name, str):
                self._report.drop(at, "the name of a model was expected")
                continue
            if isinstance(item, dict):
                for other, parameter in item.items():
                    if other != "model" and not is_empty(parameter):
                        part = at._replace(path=member(at.path, other))
                        self._report.drop(part, "a fallback gets the request as it is")
                at = at._replace(path=member(at.path, "model"))
            self._report.convert(at)
            yield Named(at, name)


def take_either(first: Branch, second: Branch, name: str) -> tuple[Any, Place]:
    """The value in `first`, else in `second`, and its path."""
    ours, others = first.open(name), second.open(name)
    if ours is not None and others is not None:
        second.drop(name, f"{first.where}.{name} overrides it")
    return (ours, first.place(name)) if ours is not None else (others, second.place(name))


def items_of(value: object, place: Place) -> list[tuple[Place, Any]]:
    """The items of a list; a single value counts as a list of one."""
    if isinstance(value, list):
        return [(place._replace(path=entry(place.path, index)), item) for index, item in enumerate(value)]
    return [(place, value)] if value is not None else []
