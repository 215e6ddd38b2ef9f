"""The arguments of a function call as JSON text: sent whole, or assembled from pieces.

A piece names its position with a JSON path (`$.recipe.steps[1]`) and has a value; a string can come in several pieces
for the same position. The position of the next piece is not known in advance, so the JSON text can be written only when
the call is complete. Invalid input raises `jsonio.InvalidJson`.
"""

import re
from itertools import pairwise
from typing import Any

import msgspec

from streamweir.core.completion import join_text
from streamweir.wire import jsonio

MAX_STEPS = 64
MAX_GAPS = 10_000
"""Array items that pieces have skipped, in total: a short path must not cause a large allocation."""

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_ESCAPED = re.compile(r"\\(.)")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class UnreadablePath(jsonio.InvalidJson):
    """A piece names an impossible position, or one where another piece has put a value of a different type."""


def whole_arguments(sent: bytes) -> str:
    """The text of `args`, compact; numbers and escapes are not changed. Absent: no arguments."""
    if not sent or sent == b"null":
        return "{}"
    try:
        return msgspec.json.format(sent, indent=-1).decode()
    except msgspec.DecodeError:  # half of a surrogate pair
        return jsonio.encode(jsonio.decode(sent)).decode()


class _Text:
    """A string that comes in pieces; they are joined once, at the end."""

    __slots__ = ("container", "pieces", "step")

    def __init__(self, container: Any, step: str | int, begun: str) -> None:
        self.container = container
        self.step = step
        self.pieces = [begun]


class PartialArguments:
    """The arguments of one call while they arrive."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._texts: list[_Text] = []
        self._gaps = 0

    def replace(self, sent: bytes) -> None:
        """`args` beside the pieces: an object, whose members are kept as they are."""
        if sent:
            whole = jsonio.decode(sent)
            if isinstance(whole, dict):
                self._root.update(whole)

    def add(self, piece: dict[str, Any]) -> None:
        kind = next((name for name in _VALUES if name in piece), None)
        if kind is None:
            return
        steps = _steps(piece.get("jsonPath"))
        container: Any = self._root
        for step, following in pairwise(steps):
            inner = _get(container, step)
            if inner is None:
                inner = [] if isinstance(following, int) else {}
                self._set(container, step, inner)
            container = inner
        value = None if kind == "nullValue" else piece[kind]
        if kind == "stringValue":
            value = self._grown(container, steps[-1], str(value))
        self._set(container, steps[-1], value)

    def text(self) -> str:
        """The complete text. Nothing is added after this."""
        for text in self._texts:
            if text.container[text.step] is text:
                text.container[text.step] = join_text(text.pieces)
        return jsonio.encode(self._root).decode()

    def _set(self, container: Any, step: str | int, value: Any) -> None:
        if isinstance(step, str) and isinstance(container, dict):
            container[step] = value
        elif isinstance(step, int) and isinstance(container, list):
            gap = step - len(container)
            if gap >= 0:
                self._gaps += gap
                if self._gaps >= MAX_GAPS:
                    raise UnreadablePath
                container.extend([None] * (gap + 1))
            container[step] = value
        else:
            raise UnreadablePath

    def _grown(self, container: Any, step: str | int, piece: str) -> _Text:
        text = _get(container, step)
        if not isinstance(text, _Text):
            text = _Text(container, step, text if isinstance(text, str) else "")
            self._texts.append(text)
        text.pieces.append(piece)
        return text


def _steps(path: object) -> list[str | int]:
    if not isinstance(path, str) or not path.startswith("$"):
        raise UnreadablePath
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None or len(steps) == MAX_STEPS:
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


def _get(container: Any, step: str | int) -> Any:
    if isinstance(step, str) and isinstance(container, dict):
        return container.get(step)
    if isinstance(step, int) and isinstance(container, list):
        return container[step] if step < len(container) else None
    raise UnreadablePath
