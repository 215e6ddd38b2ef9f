"""Where in the text of a file a setting is: its line and column.

    text of the file -> positions of all paths;  the path of a problem -> the position of what is there

The standard library's parser gives no positions. The text was read by it before, so it is valid TOML, and this scanner
only follows its structure: keys, headers, strings, brackets. A test compares its paths with what the parser has read.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from json import loads
from typing import Any, NamedTuple

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_MULTILINE_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL)
_MULTILINE_LITERAL = re.compile(r"'''.*?'{3,5}", re.DOTALL)
_BASIC = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL = re.compile(r"'[^']*'")
_PLAIN = re.compile(r"[^,\]}#\n]*")
_SEGMENT = re.compile(r'\[(?P<index>\d+)\]|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<bare>[^.\["]+)')
_SHOWN = 80
"""Characters of a name in a path (`config.error.member`)."""
MOVED = "timeouts"
"""A timeout may also stand beside this table (`config.load`)."""

Path = tuple[str | int, ...]


class Position(NamedTuple):
    """From 1."""

    line: int
    column: int


def positions_of(text: str, paths: Iterable[str]) -> dict[str, Position]:
    """Of what the paths of problems name, or of the last part of them that is there. Empty paths are left out.

    `text` is valid TOML.
    """
    named = [where for where in paths if where]
    if not named:
        return {}
    text = text.replace("\r\n", "\n")
    tree, found = _Tree(tomllib.loads(text)), positions(text)
    return {where: at for where in named if (at := _nearest(tree.path_of(where), found)) is not None}


def _nearest(path: Path, found: Mapping[Path, Position]) -> Position | None:
    while path and path not in found:
        path = path[:-1]
    return found.get(path)


def positions(text: str) -> dict[Path, Position]:
    """Of every key, table and entry of a list. Lines end with a line feed alone."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.found


class _Tree:
    """Finds what paths name. A list is read once, for there may be many mistakes in many tables of it."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self._tree = tree
        self._numbers: dict[int, dict[str, list[int]]] = {}
        """By the identity of a list: the numbers of its tables by their names and ids."""

    def path_of(self, where: str) -> Path:
        """As far as it leads. Entries of lists are named by their names or ids."""
        return self._path(self._tree, [*_segments(where)])

    def _path(self, node: Any, segments: list[str | int]) -> Path:
        """Of several tables of one name, the first one in which it leads farthest."""
        if not segments:
            return ()
        first, *rest = segments
        if not (steps := self._steps(node, first)):
            return self._path(node, rest) if first == MOVED else ()
        return max(((step, *self._path(node[step], rest)) for step in steps), key=len)

    def _steps(self, node: Any, segment: str | int) -> Sequence[str | int]:
        """The key, or the indexes, of the segment. Empty: there is none."""
        if isinstance(node, dict):
            return [segment] if segment in node else [name for name in node if name[:_SHOWN] == segment][:1]
        if not isinstance(node, list):
            return []
        if isinstance(segment, int):
            return [segment] if segment < len(node) else []
        if id(node) not in self._numbers:
            self._numbers[id(node)] = _numbers_of(node)
        if segment in (numbers := self._numbers[id(node)]):
            return numbers[segment]
        # A key of a provider without a name is named by its number.
        return [int(segment) - 1] if segment.isdecimal() and 0 < int(segment) <= len(node) else []


def _numbers_of(entries: list[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, each in enumerate(entries):
        for name in (each.get("name"), each.get("id")) if isinstance(each, dict) else ():
            if isinstance(name, str):
                found.setdefault(name, []).append(number)
    return found


def _segments(where: str) -> Iterator[str | int]:
    for found in _SEGMENT.finditer(where):
        if found["index"] is not None:
            yield int(found["index"])
        else:
            yield loads(found["quoted"]) if found["quoted"] is not None else found["bare"]


class _Scanner:
    def __init__(self, text: str) -> None:
        self.found: dict[Path, Position] = {}
        self._text = text
        self._at = 0
        self._line = 1
        self._line_start = 0
        self._counts: dict[Path, int] = {}
        """Entries of lists of tables that were begun so far."""

    def scan(self) -> None:
        table: Path = ()
        while self._skip(_BLANK) and self._at < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._member(table)

    def _header(self) -> Path:
        here = self._here()
        is_list = self._text.startswith("[[", self._at)
        self._take(2 if is_list else 1)
        *outer, last = self._key()
        path: Path = ()
        for name in outer:
            path = self._inside((*path, name), here)
        path = (*path, last)
        if is_list:
            self.found.setdefault(path, here)
            self._counts[path] = self._counts.get(path, -1) + 1
            path = (*path, self._counts[path])
        self.found[path] = here
        self._skip(_SPACE)
        self._take(2 if is_list else 1)
        return path

    def _inside(self, path: Path, here: Position) -> Path:
        """The table of that name; the last one of a list of tables."""
        self.found.setdefault(path, here)
        return (*path, self._counts[path]) if path in self._counts else path

    def _member(self, table: Path) -> None:
        here = self._here()
        names = self._key()
        for count in range(1, len(names)):
            self.found.setdefault((*table, *names[:count]), here)
        path = (*table, *names)
        self.found[path] = here
        self._skip(_SPACE)
        self._take(1)  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: Path) -> None:
        match self._text[self._at]:
            case "[":
                self._take(1)
                index = 0
                while self._skip(_BLANK) and not self._text.startswith("]", self._at):
                    self.found[(*path, index)] = self._here()
                    self._value((*path, index))
                    index += 1
                    self._comma()
                self._take(1)
            case "{":
                self._take(1)
                while self._skip(_BLANK) and not self._text.startswith("}", self._at):
                    self._member(path)
                    self._comma()
                self._take(1)
            case '"' | "'":
                self._string()
            case _:
                self._skip(_PLAIN)

    def _comma(self) -> None:
        self._skip(_BLANK)
        if self._text.startswith(",", self._at):
            self._take(1)

    def _key(self) -> list[str]:
        names = []
        while True:
            self._skip(_SPACE)
            if self._text[self._at] in "\"'":
                names.append(tomllib.loads(f"key = {self._string()}")["key"])
            else:
                names.append(self._taken(_BARE))
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return names
            self._take(1)

    def _string(self) -> str:
        for begin, pattern in (('"""', _MULTILINE_BASIC), ("'''", _MULTILINE_LITERAL), ('"', _BASIC)):
            if self._text.startswith(begin, self._at):
                return self._taken(pattern)
        return self._taken(_LITERAL)

    def _here(self) -> Position:
        return Position(self._line, self._at - self._line_start + 1)

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        self._taken(pattern)
        return True

    def _taken(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None  # noqa: S101 (the parser has read this text)
        self._take(len(found[0]))
        return found[0]

    def _take(self, length: int) -> None:
        end = self._at + length
        lines = self._text.count("\n", self._at, end)
        if lines:
            self._line += lines
            self._line_start = self._text.rindex("\n", self._at, end) + 1
        self._at = end
