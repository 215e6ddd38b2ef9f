"""The arguments of a function call as JSON text: sent whole, or put together from pieces.

A piece names its place with a JSON path (`$.recipe.steps[1]`) and carries a value; a string may
come in several pieces for the same place. Which place the next piece names is not known before
it comes, so the JSON text can only be written when the call is complete. What cannot be read
raises `jsonio.InvalidJson`.
"""

import re
from itertools import pairwise
from typing import Any

import msgspec

from streamweir.wire import jsonio

MOST_STEPS = 64
MOST_ITEMS = 10_000

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_ESCAPED = re.compile(r"\\(.)")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class UnreadablePath(jsonio.InvalidJson):
    """A piece names a place that cannot be, or that another piece made a value of another kind."""


def whole_arguments(sent: bytes) -> str:
    """The text of `args`, compact; numbers and escapes stay as they were sent. Absent: no arguments."""
    if not sent or sent == b"null":
        return "{}"
    try:
        return msgspec.json.format(sent, indent=-1).decode()
    except msgspec.DecodeError:  # half of a surrogate pair
        return jsonio.encode(jsonio.decode(sent)).decode()


class PartialArguments:
    """One call's arguments while they arrive."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def replace(self, sent: bytes) -> None:
        """`args` beside the pieces: an object, whose members stand as they are."""
        if sent:
            whole = jsonio.decode(sent)
            if isinstance(whole, dict):
                self._root.update(whole)

    def add(self, piece: dict[str, Any]) -> None:
        kind = next((name for name in _VALUES if name in piece), None)
        if kind is None:
            return
        steps = _steps(piece.get("jsonPath"))
        place: Any = self._root
        for step, following in pairwise(steps):
            inner = _get(place, step)
            if inner is None:
                inner = [] if isinstance(following, int) else {}
                _set(place, step, inner)
            place = inner
        value = None if kind == "nullValue" else piece[kind]
        last = steps[-1]
        if kind == "stringValue":
            old = _get(place, last)
            value = (old if isinstance(old, str) else "") + str(value)
        _set(place, last, value)

    def text(self) -> str:
        return jsonio.encode(self._root).decode()


def _steps(path: object) -> list[str | int]:
    if not isinstance(path, str) or not path.startswith("$"):
        raise UnreadablePath
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or len(steps) == MOST_STEPS:
            raise UnreadablePath
        name, number, single, double = step.groups()
        if number is not None:
            steps.append(int(number))
        elif name is not None:
            steps.append(name)
        else:
            steps.append(_ESCAPED.sub(r"\1", single if single is not None else double))
        at = step.end()
    if not steps:
        raise UnreadablePath
    return steps


def _get(place: Any, step: str | int) -> Any:
    if isinstance(step, str) and isinstance(place, dict):
        return place.get(step)
    if isinstance(step, int) and isinstance(place, list):
        return place[step] if step < len(place) else None
    raise UnreadablePath


def _set(place: Any, step: str | int, value: Any) -> None:
    if isinstance(step, str) and isinstance(place, dict):
        place[step] = value
    elif isinstance(step, int) and isinstance(place, list) and step < MOST_ITEMS:
        place.extend([None] * (step + 1 - len(place)))
        place[step] = value
    else:
        raise UnreadablePath
