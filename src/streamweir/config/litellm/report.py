"""What became of each setting of the old file: converted, converted with a note, or not converted with a reason.

A setting has exactly one of the three. Some tables are read for several deployments, such as a credential or default
parameters. If a setting of such a table is converted for some of them only, it is converted, and a note names the
others. A setting that nothing has read is not converted, so that none is lost without a word.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from streamweir.config.error import entry, member

_State = Literal["converted", "noted", "dropped"]
NOT_READ = "nothing reads it here"


class Unusable(Exception):
    """A deployment cannot be converted; the text says why."""


class Place(NamedTuple):
    """A setting, and the reader for which it is read."""

    path: str
    reader: str = ""


class Note(NamedTuple):
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


class Outcome(NamedTuple):
    converted: list[str]
    """Paths."""
    noted: list[Note]
    """Converted, and the operator has to do or to know something."""
    dropped: list[Note]
    """Not converted, with the reasons."""


class _Entry(NamedTuple):
    state: _State
    texts: tuple[str, ...] = ()


class Report:
    def __init__(self) -> None:
        self._entries: dict[str, dict[str, _Entry]] = {}
        self._paths: dict[str, set[str]] = {}  # by reader

    def convert(self, place: Place) -> None:
        self._set(place, self._get(place) or _Entry("converted"))

    def note(self, place: Place, text: str) -> None:
        """It is converted, unless it is dropped as well."""
        before = self._get(place) or _Entry("noted")
        if before.state != "dropped":
            self._set(place, _Entry("noted", _distinct((*before.texts, text))))

    def drop(self, place: Place, reason: str) -> None:
        self._set(place, _Entry("dropped", (reason,)))

    def forget(self, reader: str) -> None:
        """Removes what was reported for a reader."""
        for path in self._paths.pop(reader, ()):
            del self._entries[path][reader]
            if not self._entries[path]:
                del self._entries[path]

    def _get(self, place: Place) -> _Entry | None:
        return self._entries.get(place.path, {}).get(place.reader)

    def _set(self, place: Place, found: _Entry) -> None:
        self._entries.setdefault(place.path, {})[place.reader] = found
        self._paths.setdefault(place.reader, set()).add(place.path)

    def finish(self, tree: Mapping[str, object]) -> Outcome:
        """`tree`: the whole file. The notes are in its order."""
        order: dict[str, int] = {}
        for number, paths in enumerate(_leaves(tree)):
            for path in paths:
                order.setdefault(path, number)
            if not any(path in self._entries for path in paths):
                self.drop(Place(paths[-1]), NOT_READ)
        outcome = Outcome([], [], [])
        known = [path for path in self._entries if path in order]  # the others are of empty values
        for path in sorted(known, key=lambda path: order[path]):
            _add(outcome, path, self._entries[path])
        return outcome


def _add(outcome: Outcome, path: str, readers: Mapping[str, _Entry]) -> None:
    texts = [text for each in readers.values() if each.state == "noted" for text in each.texts]
    dropped = {reader: each.texts[0] for reader, each in readers.items() if each.state == "dropped"}
    if len(dropped) == len(readers):
        outcome.dropped.append(Note(path, "; ".join(_distinct(dropped.values()))))
        return
    for reason in _distinct(dropped.values()):
        others = ", ".join(reader for reader, each in dropped.items() if each == reason)
        texts.append(f"not for {others}: {reason}")
    if texts:
        outcome.noted.append(Note(path, "; ".join(_distinct(texts))))
    else:
        outcome.converted.append(path)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _leaves(value: object, paths: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each value that is not empty, as its path after the paths of the tables and lists that it is in."""
    where = paths[-1] if paths else ""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, (*paths, member(where, name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*paths, entry(where, index)))
    elif value is not None and value != "":
        yield paths


def merge_notes(notes: Sequence[Note]) -> list[Note]:
    """Notes with the same text about the same setting of several entries as one: `model_list[0-2].rpm`."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for where, text in notes:
        before, bracket, rest = where.partition("[")
        number, _, after = rest.partition("]")
        if bracket and number.isdecimal() and '"' not in before:
            groups.setdefault((f"{before}[", f"]{after}", text), []).append(int(number))
        else:
            groups.setdefault((where, "", text), [])
    return [
        Note(f"{before}{_ranges(numbers)}{after}" if numbers else before, text)
        for (before, after, text), numbers in groups.items()
    ]


def _ranges(numbers: Sequence[int]) -> str:
    """0, 1, 2 and 5 as 0-2,5."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, each)) for each in ranges)
