"""An incremental JSON parser that gives access to the value of an incomplete document.

`feed` takes the next characters; `value` is the value so far. Later characters only add to it: a string grows at its
end, a list and an object gain members, and nothing changes or disappears. So a number or a literal (`true`) appears
when it is complete, an escape or a surrogate pair when both halves have arrived, and a member when its value has begun.
(The exception is a key that occurs twice in one object: its last value counts.)

The work is linear in the length of the document, however it is split. There is no recursion, and the depth is limited.
A syntax error ends the parsing: `is_invalid` is set, and the value stays as it was. Nothing is ever repaired.
"""

import re
from enum import Enum, auto
from typing import Any, Final

from streamweir.wire import jsonio

MAX_DEPTH = jsonio.MAX_DOCUMENT_DEPTH

_BLANK = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_SCALAR = re.compile(r"[-+.0-9A-Za-z]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}


class _Nothing:
    """A value that is not known yet; `None` is JSON's null."""

    def __repr__(self) -> str:
        return "NOTHING"

    def __bool__(self) -> bool:
        return False


NOTHING: Final = _Nothing()


class _Step(Enum):
    """What is expected next, in the innermost open container."""

    VALUE = auto()
    FIRST_ITEM = auto()
    """A value, or the end of the list."""
    KEY = auto()
    FIRST_KEY = auto()
    COLON = auto()
    AFTER = auto()
    """A comma, or the end of the open container."""
    TEXT = auto()
    SCALAR = auto()
    END = auto()


class PartialJson:
    """One document. Call `finish` at its end."""

    def __init__(self) -> None:
        self.is_invalid = False
        self._root: Any = NOTHING
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str] = []  # for each open object, the key of the current member
        self._step = _Step.VALUE
        self._pieces: list[str] = []  # of the current string, number or literal
        self._is_key = False
        self._partial_escape = ""  # half of an escape
        self._high_surrogate = ""  # the first half of a surrogate pair
        self._has_unjoined_text = False  # pieces of a string that are not part of `value` yet

    @property
    def is_complete(self) -> bool:
        """The document is complete, and only whitespace follows it."""
        return self._step is _Step.END and not self.is_invalid

    @property
    def value(self) -> Any:
        """The value so far; `NOTHING` before there is one. The same objects grow."""
        if self._has_unjoined_text:
            text = "".join(self._pieces)
            self._pieces = [text]
            self._replace(text)
            self._has_unjoined_text = False
        return self._root

    def feed(self, text: str, /) -> None:
        position = 0
        if self._partial_escape:
            text, self._partial_escape = self._partial_escape + text, ""
        while position < len(text) and not self.is_invalid:
            position = self._read_text(text, position) if self._step is _Step.TEXT else self._read(text, position)

    def finish(self) -> None:
        if self._step is _Step.SCALAR:
            self._end_scalar()

    def _read(self, text: str, position: int) -> int:
        """Reads one token outside of strings. Returns the position after it."""
        if self._step is _Step.SCALAR:
            found = _SCALAR.match(text, position)
            if found is None:
                self._end_scalar()
                return position
            self._pieces.append(found[0])
            return found.end()
        position = _BLANK.match(text, position).end()  # type: ignore[union-attr]  # it also matches the empty string
        if position == len(text):
            return position
        char = text[position]
        step = self._step
        if step in (_Step.VALUE, _Step.FIRST_ITEM):
            if char == "]" and step is _Step.FIRST_ITEM:
                self._close()
                return position + 1
            return self._begin_value(text, position, char)
        if step in (_Step.KEY, _Step.FIRST_KEY):
            if char == '"':
                self._begin_text(is_key=True)
            elif char == "}" and step is _Step.FIRST_KEY:
                self._close()
            else:
                self.is_invalid = True
        elif step is _Step.COLON and char == ":":
            self._step = _Step.VALUE
        elif step is _Step.AFTER:
            self._after_value(char)
        else:
            self.is_invalid = True
        return position + 1

    def _begin_value(self, text: str, position: int, char: str) -> int:
        if char == '"':
            self._insert("")
            self._begin_text(is_key=False)
            return position + 1
        if char in "{[":
            self._begin_container(char)
            return position + 1
        found = _SCALAR.match(text, position)
        if found is None:
            self.is_invalid = True
            return position
        self._pieces = [found[0]]
        self._step = _Step.SCALAR
        return found.end()

    def _begin_container(self, char: str) -> None:
        if len(self._open) >= MAX_DEPTH:
            self.is_invalid = True
            return
        inner: dict[str, Any] | list[Any] = {} if char == "{" else []
        self._insert(inner)
        self._open.append(inner)
        if isinstance(inner, dict):
            self._keys.append("")
            self._step = _Step.FIRST_KEY
        else:
            self._step = _Step.FIRST_ITEM

    def _begin_text(self, *, is_key: bool) -> None:
        self._is_key = is_key
        self._pieces = []
        self._step = _Step.TEXT

    def _after_value(self, char: str) -> None:
        """After a value: a comma, or the end of its container."""
        is_list = isinstance(self._open[-1], list)
        if char == ("]" if is_list else "}"):
            self._close()
        elif char == ",":
            self._step = _Step.VALUE if is_list else _Step.KEY
        else:
            self.is_invalid = True

    def _close(self) -> None:
        if isinstance(self._open.pop(), dict):
            self._keys.pop()
        self._end_value()

    def _end_value(self) -> None:
        self._step = _Step.AFTER if self._open else _Step.END

    def _insert(self, value: Any) -> None:
        """Adds a new value to the open container."""
        if self._open and isinstance(self._open[-1], list):
            self._open[-1].append(value)
        else:
            self._replace(value)

    def _replace(self, value: Any) -> None:
        """Replaces the last inserted value by a longer one."""
        if not self._open:
            self._root = value
            return
        inner = self._open[-1]
        if isinstance(inner, dict):
            inner[self._keys[-1]] = value
        else:
            inner[-1] = value

    def _read_text(self, text: str, position: int) -> int:
        found = _PLAIN.match(text, position)
        if found is not None:
            self._add(found[0])
            return found.end()
        if text[position] == '"':
            self._end_text()
            return position + 1
        escape = _ESCAPE.match(text, position)
        if escape is not None:
            self._add(_unescape(escape[0]))
            return escape.end()
        half = _HALF_ESCAPE.match(text, position)
        if half is not None and half.end() == len(text):
            self._partial_escape = half[0]
            return len(text)
        self.is_invalid = True
        return position

    def _add(self, piece: str) -> None:
        if self._high_surrogate:
            piece, self._high_surrogate = _joined(self._high_surrogate + piece), ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._high_surrogate = piece[:-1], piece[-1]
        if piece:
            self._pieces.append(piece)
            self._has_unjoined_text = not self._is_key

    def _end_text(self) -> None:
        if self._high_surrogate:  # a lone surrogate
            self._pieces.append(self._high_surrogate)
            self._high_surrogate = ""
        text = "".join(self._pieces)
        if self._is_key:
            self._keys[-1] = text
            self._step = _Step.COLON
            return
        self._replace(text)
        self._has_unjoined_text = False
        self._end_value()

    def _end_scalar(self) -> None:
        scalar = "".join(self._pieces)
        if scalar in _LITERALS:
            self._insert(_LITERALS[scalar])
        elif (number := _number(scalar)) is not None:
            self._insert(number)
        else:
            self.is_invalid = True
            return
        self._end_value()


def _number(scalar: str) -> int | float | None:
    """None if it is not a number, or one that cannot be represented (`1e999`, thousands of digits)."""
    try:
        value = jsonio.decode(scalar.encode()) if _NUMBER.fullmatch(scalar) else None
    except jsonio.InvalidJson:
        return None
    return value if isinstance(value, int | float) else None


def _unescape(escape: str) -> str:
    return chr(int(escape[2:], 16)) if escape[1] == "u" else _ESCAPED[escape[1]]


def _joined(text: str) -> str:
    """Combines a surrogate pair at the beginning into one character."""
    if len(text) > 1 and "\udc00" <= text[1] <= "\udfff":
        return chr(0x10000 + (ord(text[0]) - 0xD800) * 0x400 + ord(text[1]) - 0xDC00) + text[2:]
    return text
