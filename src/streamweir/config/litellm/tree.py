"""The old file's tree, taken apart piece by piece: whatever nobody took is told at the end.

Values are foreign: of any type, and perhaps secrets. So a note holds the path and our own words,
never a value. A tree whose aliases make it endless is refused before anything walks it.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from streamweir.config.error import entry, member

_MOST_NODES = 100_000
_DEEPEST = 40


class NotATree(Exception):
    """Why the file is no configuration of LiteLLM's."""


class Note(NamedTuple):
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


class Notes:
    def __init__(self) -> None:
        self.lost: list[Note] = []
        """What the new file has not."""
        self.due: list[Note] = []
        """What the operator has to do, or to know."""

    def lose(self, where: str, reason: str) -> None:
        self.lost.append(Note(where, f"not converted: {reason}"))

    def ask(self, where: str, text: str) -> None:
        self.due.append(Note(where, text))


class Branch:
    """A table of the tree. What is taken is gone from it."""

    def __init__(self, members: dict[str, Any], where: str, notes: Notes) -> None:
        self._members = members
        self._origins: dict[str, str] = {}
        self.where = where
        self.notes = notes

    def at(self, name: str) -> str:
        """Where it stands in the file."""
        return self._origins.get(name) or member(self.where, name)

    def peek(self, name: str) -> Any:
        return self._members.get(name)

    def take(self, name: str) -> Any:
        """None where it is absent, or nothing."""
        return self._members.pop(name, None)

    def take_text(self, name: str) -> str | None:
        """As YAML reads it, a version such as 2024-02-01 is a date, and a name such as 4 a number."""
        value = self.take(name)
        if value is None or isinstance(value, str):
            return value or None
        if isinstance(value, (int, float, date)) and not isinstance(value, bool):
            return str(value)
        self.notes.lose(self.at(name), "text was expected")
        return None

    def take_number(self, name: str) -> Decimal | None:
        """Exactly as it is written. YAML takes 1e-6 for a text."""
        value = self.take(name)
        if value is None:
            return None
        number = number_of(value)
        if number is None:
            self.notes.lose(self.at(name), "a number was expected")
        return number

    def branch(self, name: str) -> "Branch":
        """Empty where there is none."""
        value = self.take(name)
        if value is not None and not isinstance(value, dict):
            self.notes.lose(self.at(name), "a table was expected")
        return Branch(value if isinstance(value, dict) else {}, self.at(name), self.notes)

    def branches(self, name: str) -> Iterator["Branch"]:
        """Of a list of tables."""
        value = self.take(name)
        if value is not None and not isinstance(value, list):
            self.notes.lose(self.at(name), "a list was expected")
        for index, item in enumerate(value if isinstance(value, list) else ()):
            where = entry(self.at(name), index)
            if isinstance(item, dict):
                yield Branch(item, where, self.notes)
            elif item is not None:
                self.notes.lose(where, "a table was expected")

    def put_under(self, other: Mapping[str, Any], where: str) -> None:
        """What is absent here is as it is in `other`, which stands elsewhere in the file."""
        for name, value in other.items():
            if self._members.get(name) is None:
                self._members[name] = value
                self._origins[name] = member(where, name)

    def names(self) -> list[str]:
        return list(self._members)

    def drop(self, reason: str) -> None:
        """All of it at once."""
        self._members = {}
        self.notes.lose(self.where, reason)

    def leave(self, reasons: Mapping[str, str]) -> None:
        """What is still there is told, each with its reason."""
        for name, value in self._members.items():
            if value is not None and value not in ({}, [], ""):
                self.notes.lose(self.at(name), reasons.get(name, "there is no equivalent"))
        self._members = {}


def number_of(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def plain_tree(value: object) -> dict[str, Any]:
    """A copy of our own, without aliases and with texts for keys."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotATree("a LiteLLM configuration is a table with a model_list")
    nodes = 0

    def copy(node: object, depth: int) -> Any:
        nonlocal nodes
        nodes += 1
        if nodes > _MOST_NODES or depth > _DEEPEST:
            raise NotATree("it is larger or nested deeper than any configuration")
        if isinstance(node, dict):
            return {str(name): copy(item, depth + 1) for name, item in node.items()}
        if isinstance(node, (list, tuple, set)):
            return [copy(item, depth + 1) for item in node]
        return node

    tree: dict[str, Any] = copy(value, 0)
    return tree


def texts_of(value: object) -> Iterator[str]:
    """Every text anywhere in a plain tree."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif isinstance(value, str):
        yield value
