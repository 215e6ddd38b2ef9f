"""The operator's changes to a request body: members that are dropped, filled in, or always set.

They apply to the body as the provider's own code wrote it, so their names are those of the provider's API. The order is
drop, defaults, override. Tables are merged member by member; every other value is replaced as a whole. The members keep
their order, and new ones are last: a provider's prompt cache depends on it. The limit of the answer is not among them,
but apart: it is an upper bound (`server.request.attempt.attempt_setup.limit_for`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from streamweir.pipeline.body_members import Path, is_limit, leaves
from streamweir.pipeline.output_limit import limited
from streamweir.wire import jsonio

_LIMITS = ("max_completion_tokens", "max_tokens")
_COUNTED = ("cache_control", "context_management", "output_config", "thinking")
"""Members that also a request for the number of tokens of a prompt can have."""


class BodyRules(Struct, frozen=True, kw_only=True):
    drop: tuple[Path, ...] = ()
    defaults: Mapping[str, Any] = {}
    override: Mapping[str, Any] = {}
    default_limit: int | None = None
    """Of the tokens of an answer, if the caller has set none."""
    max_limit: int | None = None

    def limit_for(self, sent: int | None) -> int | None:
        """The upper bound of an answer's tokens. `sent`: the caller's own limit. None: no other than that."""
        limits = (self.max_limit, self.default_limit if sent is None else None)
        return min([limit for limit in limits if limit is not None], default=None)

    @property
    def for_counting(self) -> "BodyRules":
        """For a request that asks only for the number of tokens of a prompt."""

        def counted(table: Mapping[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in table.items() if name in _COUNTED}

        return BodyRules(drop=self.drop, defaults=counted(self.defaults), override=counted(self.override))


def rules_of(drop: Iterable[str], defaults: Mapping[str, Any], override: Mapping[str, Any]) -> BodyRules | None:
    """From the configuration. None: nothing is changed."""
    paths = tuple(path_of(name) for name in drop)
    if not paths and not defaults and not override:
        return None
    return BodyRules(
        drop=paths,
        defaults=_without_limits(defaults),
        override=_without_limits(override),
        default_limit=_limit_in(defaults),
        max_limit=_limit_in(override),
    )


def path_of(name: str) -> Path:
    return tuple(name.split("."))


def apply_rules(body: bytes, rules: BodyRules) -> tuple[bytes, list[Path]]:
    """The body with the changes, and the paths that were dropped from it."""
    document = jsonio.decode(body)
    if not isinstance(document, dict):
        return body, []
    dropped = [path for path in rules.drop if _remove(document, path)]
    _set_tables(document, rules.override)
    _fill(document, rules.defaults)
    _set(document, rules.override)
    limits = [value for name in _LIMITS if isinstance(value := document.get(name), int)]
    if limits:
        document = limited(document, min(limits))  # a thinking budget beyond it would be refused
    _limit_fields(document)
    return jsonio.encode(document), dropped


def _limit_fields(document: dict[str, Any]) -> None:
    """The same in the body of Converse, which has the vendors' own members apart."""
    inference, fields = document.get("inferenceConfig"), document.get("additionalModelRequestFields")
    if isinstance(inference, dict) and isinstance(fields, dict) and isinstance(inference.get("maxTokens"), int):
        document["additionalModelRequestFields"] = limited(fields, inference["maxTokens"])


def merged(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the members of `over`; tables in both are merged."""
    result = dict(table)
    _set(result, over)
    return result


def without(table: Mapping[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """A copy of the table without these members."""
    result = _copy(table)
    for path in paths:
        _remove(result, path)
    return result


def _remove(document: dict[str, Any], path: Path) -> bool:
    *outer, name = path
    inside: Any = document
    for each in outer:
        inside = inside.get(each) if isinstance(inside, dict) else None
    if not isinstance(inside, dict) or name not in inside:
        return False
    del inside[name]
    return True


def _fill(document: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    for name, value in defaults.items():
        own = document.get(name)
        if own is None:
            document[name] = value
        elif isinstance(own, dict) and isinstance(value, Mapping):
            _fill(own, value)


def _set_tables(document: dict[str, Any], override: Mapping[str, Any]) -> None:
    """A value that is replaced by a table is replaced first: so the defaults in it do not depend on what was sent."""
    for name, value in override.items():
        if name in document and isinstance(value, Mapping):
            own = document[name]
            if isinstance(own, dict):
                _set_tables(own, value)
            else:
                document[name] = {}


def _set(document: dict[str, Any], override: Mapping[str, Any]) -> None:
    for name, value in override.items():
        own = document.get(name)
        if isinstance(own, Mapping) and isinstance(value, Mapping):
            document[name] = merged(own, value)
        else:
            document[name] = value


def _limit_in(table: Mapping[str, Any]) -> int | None:
    return min([value for path, value in leaves(table) if is_limit(path) and isinstance(value, int)], default=None)


def _without_limits(table: Mapping[str, Any]) -> dict[str, Any]:
    kept = without(table, [path for path, _ in leaves(table) if is_limit(path)])
    return {name: value for name, value in kept.items() if value != {} or table[name] == {}}


def _copy(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copy(value) if isinstance(value, Mapping) else value for name, value in table.items()}
