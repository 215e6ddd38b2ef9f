"""Ways to spoil a right answer: one member put or dropped, a chunk sent again, bytes replaced."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamweir.conformance import Recording
from support.valid_answers import Documents, recorded, stream, text, written

Change = Callable[[Any], None]


@dataclass(frozen=True)
class Defect:
    rule: str
    dialect: str
    recording: Recording
    also: frozenset[str] = frozenset()


def _step(name: str) -> str | int:
    return int(name) if name.lstrip("-").isdigit() else name


def _reach(value: Any, path: str) -> tuple[Any, str | int]:
    *way, last = path.split(".")
    for name in way:
        value = value[_step(name)]
    return value, _step(last)


def put(path: str, new: Any) -> Change:
    def change(documents: Any) -> None:
        place, last = _reach(documents, path)
        place[last] = new

    return change


def drop(path: str) -> Change:
    def change(documents: Any) -> None:
        place, last = _reach(documents, path)
        del place[last]

    return change


def again(source: int, at: int, *changes: Change) -> Change:
    """A copy of one document, changed, put in before another."""

    def change(documents: Documents) -> None:
        twin = copy.deepcopy(documents[source])
        for each in changes:
            each(twin)
        documents.insert(at, twin)

    return change


def spoiled(
    rule: str, documents: Documents, *changes: Change, dialect: str = "openai", also: str = "", **known: Any
) -> Defect:
    for change in changes:
        change(documents)
    return Defect(rule, dialect, stream(documents, dialect, **known), frozenset(also.split()))


def in_bytes(
    rule: str, change: Callable[[bytes], bytes], *, dialect: str = "openai", also: str = "", **known: Any
) -> Defect:
    return Defect(rule, dialect, recorded(change(written(text(dialect), dialect)), **known), frozenset(also.split()))


def replaced(old: bytes, new: bytes, count: int = 1) -> Callable[[bytes], bytes]:
    def change(body: bytes) -> bytes:
        assert old in body
        return body.replace(old, new, count)

    return change
