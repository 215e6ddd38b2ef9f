"""The tree of the old file. Settings are removed when they are converted; the remaining ones are reported at the end.

Values are untrusted: they may have any type and may be secrets. So a report contains paths and reasons, never a value.
A tree that is endless because of YAML aliases is refused first.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from streamweir.config.error import entry, member
from streamweir.config.litellm.report import Place, Report

_MAX_NODES = 100_000
_MAX_DEPTH = 40


class NotAConfiguration(Exception):
    """The file is not a configuration of LiteLLM; the text says why."""


class Branch:
    """A table of the tree. `take` removes a value from it, which is converted then, unless it is dropped later.

    `reader`: the deployment for which it is read, see `report`."""

    def __init__(self, members: dict[str, Any], where: str, report: Report, reader: str = "") -> None:
        self._members = members
        self._origins: dict[str, str] = {}
        self.where = where
        self.report = report
        self.reader = reader

    def path_of(self, name: str) -> str:
        """The path of a value in the file."""
        return self._origins.get(name) or member(self.where, name)

    def place(self, name: str) -> Place:
        return Place(self.path_of(name), self.reader)

    def drop(self, name: str, reason: str) -> None:
        self.report.drop(self.place(name), reason)

    def note(self, name: str, text: str) -> None:
        self.report.note(self.place(name), text)

    def get(self, name: str) -> Any:
        return self._members.get(name)

    def open(self, name: str) -> Any:
        """Removes a value whose parts are reported one by one."""
        return self._members.pop(name, None)

    def take(self, name: str) -> Any:
        """None if it is absent or null."""
        value = self.open(name)
        if not is_empty(value):
            self.report.convert(self.place(name))
        return value

    def take_text(self, name: str) -> str | None:
        """Accepts dates and numbers: YAML parses a version 2024-02-01 as a date, and a name 4 as a number."""
        value = self.take(name)
        if value is None or isinstance(value, str):
            return value or None
        if isinstance(value, (int, float, date)) and not isinstance(value, bool):
            return str(value)
        self.drop(name, "text was expected")
        return None

    def take_number(self, name: str) -> Decimal | None:
        """Exactly as written. Accepts text: YAML parses 1e-6 as text."""
        value = self.take(name)
        if value is None:
            return None
        number = number_of(value)
        if number is None:
            self.drop(name, "a number was expected")
        return number

    def branch(self, name: str, reader: str | None = None) -> "Branch":
        """Empty if it is absent."""
        value = self.open(name)
        if value is not None and not isinstance(value, dict):
            self.drop(name, "a table was expected")
        members = value if isinstance(value, dict) else {}
        return Branch(members, self.path_of(name), self.report, self.reader if reader is None else reader)

    def branches(self, name: str) -> Iterator["Branch"]:
        """The items of a list of tables. Each is a reader of its own."""
        value = self.open(name)
        if value is not None and not isinstance(value, list):
            self.drop(name, "a list was expected")
        for index, item in enumerate(value if isinstance(value, list) else ()):
            where = entry(self.path_of(name), index)
            if isinstance(item, dict):
                yield Branch(item, where, self.report, where)
            elif item is not None:
                self.report.drop(Place(where), "a table was expected")

    def set_defaults(self, other: Mapping[str, Any], where: str) -> None:
        """Adds the members of `other`, a table at another path, that are absent here."""
        for name, value in other.items():
            if self._members.get(name) is None:
                self._members[name] = value
                self._origins[name] = member(where, name)

    def names(self) -> list[str]:
        return list(self._members)

    def discard(self, reason: str) -> None:
        """Nothing of this reader is converted, for one reason."""
        self._members = {}
        self.report.forget(self.reader)
        self.report.drop(Place(self.where, self.reader), reason)

    def report_remaining(self, reasons: Mapping[str, str]) -> None:
        """Drops each remaining member, with its reason."""
        for name, value in self._members.items():
            if not is_empty(value):
                self.drop(name, reasons.get(name, "there is no equivalent"))
        self._members = {}


def is_empty(value: object) -> bool:
    return value is None or value in ({}, [], "")


def number_of(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def copy_tree(value: object) -> dict[str, Any]:
    """A copy without aliases and with strings as keys."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotAConfiguration("a LiteLLM configuration is a table with a model_list")
    nodes = 0

    def copy(node: object, depth: int) -> Any:
        nonlocal nodes
        nodes += 1
        if nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise NotAConfiguration("it is larger or nested deeper than any configuration")
        if isinstance(node, dict):
            return {str(name): copy(item, depth + 1) for name, item in node.items()}
        if isinstance(node, (list, tuple, set)):
            return [copy(item, depth + 1) for item in node]
        return node

    tree: dict[str, Any] = copy(value, 0)
    return tree


def strings_in(value: object) -> Iterator[str]:
    """Every string in a copied tree."""
    if isinstance(value, dict):
        for item in value.values():
            yield from strings_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item)
    elif isinstance(value, str):
        yield value
