"""A JSON document that is still being written, read as far as it has come.

`feed` takes the next characters, `value` is what they say so far, and whatever comes later only adds to it: a text
grows at its end, a list and an object gain members, and nothing that was shown changes or goes away. So a number or a
word (`true`) is shown when it is over, half of an escape or of a surrogate pair when the other half has come, a member
when its value has begun. (A key that stands twice in one object is the exception: its last value counts.)

The work is linear in the length of the document, whatever the pieces; there is no recursion, and a bound on depth.
What breaks the grammar ends the reading: `is_broken`, and the value stays what it was. Nothing is ever repaired.
"""

import re
from enum import Enum, auto
from typing import Any, Final

from streamweir.wire import jsonio

DEEPEST = jsonio.DEEPEST_DOCUMENT

_BLANK = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_SCALAR = re.compile(r"[-+.0-9A-Za-z]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}


class _Nothing:
    """Stands for a value of which nothing can be said yet; `None` is JSON's null."""

    def __repr__(self) -> str:
        return "NOTHING"

    def __bool__(self) -> bool:
        return False


NOTHING: Final = _Nothing()


class _Step(Enum):
    """What is expected next, at the depth that is open."""

    VALUE = auto()
    FIRST_ITEM = auto()
    """A value, or the end of the list."""
    KEY = auto()
    FIRST_KEY = auto()
    COLON = auto()
    AFTER = auto()
    """A comma, or the end of what is open."""
    TEXT = auto()
    SCALAR = auto()
    END = auto()


class PartialJson:
    """One document. `finish` says that no more comes."""

    def __init__(self) -> None:
        self.is_broken = False
        self._root: Any = NOTHING
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str] = []  # of the objects among those, the member that is being written
        self._step = _Step.VALUE
        self._pieces: list[str] = []  # of the text, number or word that is being written
        self._is_key = False
        self._held = ""  # half of an escape
        self._high = ""  # the first half of a surrogate pair
        self._has_unshown = False  # pieces of a text that `value` does not show yet

    @property
    def is_complete(self) -> bool:
        """The document is whole, and nothing but blanks follows it."""
        return self._step is _Step.END and not self.is_broken

    @property
    def value(self) -> Any:
        """As far as it is known; `NOTHING` before anything is. The same objects grow with what comes."""
        if self._has_unshown:
            text = "".join(self._pieces)
            self._pieces = [text]
            self._replace(text)
            self._has_unshown = False
        return self._root

    def feed(self, text: str, /) -> None:
        at = 0
        if self._held:
            text, self._held = self._held + text, ""
        while at < len(text) and not self.is_broken:
            at = self._read_text(text, at) if self._step is _Step.TEXT else self._read(text, at)

    def finish(self) -> None:
        if self._step is _Step.SCALAR:
            self._end_scalar()

    def _read(self, text: str, at: int) -> int:
        """One token outside of texts. Gives where the next begins."""
        if self._step is _Step.SCALAR:
            found = _SCALAR.match(text, at)
            if found is None:
                self._end_scalar()
                return at
            self._pieces.append(found[0])
            return found.end()
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing as well
        if at == len(text):
            return at
        sign = text[at]
        step = self._step
        if step in (_Step.VALUE, _Step.FIRST_ITEM):
            if sign == "]" and step is _Step.FIRST_ITEM:
                self._close()
                return at + 1
            return self._begin_value(text, at, sign)
        if step in (_Step.KEY, _Step.FIRST_KEY):
            if sign == '"':
                self._begin_text(is_key=True)
            elif sign == "}" and step is _Step.FIRST_KEY:
                self._close()
            else:
                self.is_broken = True
        elif step is _Step.COLON and sign == ":":
            self._step = _Step.VALUE
        elif step is _Step.AFTER:
            self._go_on(sign)
        else:
            self.is_broken = True
        return at + 1

    def _begin_value(self, text: str, at: int, sign: str) -> int:
        if sign == '"':
            self._place("")
            self._begin_text(is_key=False)
            return at + 1
        if sign in "{[":
            self._begin_container(sign)
            return at + 1
        found = _SCALAR.match(text, at)
        if found is None:
            self.is_broken = True
            return at
        self._pieces = [found[0]]
        self._step = _Step.SCALAR
        return found.end()

    def _begin_container(self, sign: str) -> None:
        if len(self._open) >= DEEPEST:
            self.is_broken = True
            return
        inner: dict[str, Any] | list[Any] = {} if sign == "{" else []
        self._place(inner)
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

    def _go_on(self, sign: str) -> None:
        """Behind a member: another, or the end of what it is in."""
        is_list = isinstance(self._open[-1], list)
        if sign == ("]" if is_list else "}"):
            self._close()
        elif sign == ",":
            self._step = _Step.VALUE if is_list else _Step.KEY
        else:
            self.is_broken = True

    def _close(self) -> None:
        if isinstance(self._open.pop(), dict):
            self._keys.pop()
        self._end_value()

    def _end_value(self) -> None:
        self._step = _Step.AFTER if self._open else _Step.END

    def _place(self, value: Any) -> None:
        """A value that begins, where it belongs."""
        if self._open and isinstance(self._open[-1], list):
            self._open[-1].append(value)
        else:
            self._replace(value)

    def _replace(self, value: Any) -> None:
        """The value that was placed last, with more of it."""
        if not self._open:
            self._root = value
            return
        inner = self._open[-1]
        if isinstance(inner, dict):
            inner[self._keys[-1]] = value
        else:
            inner[-1] = value

    def _read_text(self, text: str, at: int) -> int:
        found = _PLAIN.match(text, at)
        if found is not None:
            self._add(found[0])
            return found.end()
        if text[at] == '"':
            self._end_text()
            return at + 1
        escape = _ESCAPE.match(text, at)
        if escape is not None:
            self._add(_unescape(escape[0]))
            return escape.end()
        half = _HALF_ESCAPE.match(text, at)
        if half is not None and half.end() == len(text):
            self._held = half[0]
            return len(text)
        self.is_broken = True
        return at

    def _add(self, piece: str) -> None:
        if self._high:
            piece, self._high = _joined(self._high + piece), ""
        if "\ud800" <= piece[-1] <= "\udbff":
            piece, self._high = piece[:-1], piece[-1]
        if piece:
            self._pieces.append(piece)
            self._has_unshown = not self._is_key

    def _end_text(self) -> None:
        if self._high:  # the other half never came: it stands alone
            self._pieces.append(self._high)
            self._high = ""
        text = "".join(self._pieces)
        if self._is_key:
            self._keys[-1] = text
            self._step = _Step.COLON
            return
        self._replace(text)
        self._has_unshown = False
        self._end_value()

    def _end_scalar(self) -> None:
        word = "".join(self._pieces)
        if word in _WORDS:
            self._place(_WORDS[word])
        elif (number := _number(word)) is not None:
            self._place(number)
        else:
            self.is_broken = True
            return
        self._end_value()


def _number(word: str) -> int | float | None:
    """None: it is none, or one that cannot be held (`1e999`, thousands of digits), which is not guessed."""
    try:
        value = jsonio.decode(word.encode()) if _NUMBER.fullmatch(word) else None
    except jsonio.InvalidJson:
        return None
    return value if isinstance(value, int | float) else None


def _unescape(escape: str) -> str:
    return chr(int(escape[2:], 16)) if escape[1] == "u" else _ESCAPED[escape[1]]


def _joined(text: str) -> str:
    """With a surrogate pair at its beginning as the character that it is."""
    if len(text) > 1 and "\udc00" <= text[1] <= "\udfff":
        return chr(0x10000 + (ord(text[0]) - 0xD800) * 0x400 + ord(text[1]) - 0xDC00) + text[2:]
    return text
