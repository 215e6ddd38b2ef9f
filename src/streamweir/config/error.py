"""The exception for an invalid configuration, with the path and the reason of each problem.

A path is written as in TOML; entries of a list are identified by their names, if they have any:
`server.timeouts.idle_s`, `providers.openai.base_url`, `keys[2].key`. A reason never contains a secret or a value from
the environment.
"""

import re
from collections.abc import Mapping, Sequence
from json import dumps
from typing import NamedTuple

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class ConfigProblem(NamedTuple):
    where: str
    """The path; empty for the whole file."""
    reason: str


class ConfigError(Exception):
    """All problems of a configuration; its text has one line for each."""

    def __init__(self, where: str, reason: str, *, file: str = "", more: Sequence[ConfigProblem] = ()) -> None:
        super().__init__(where, reason)
        self.file = file
        self.positions: Mapping[str, tuple[int, int]] = {}
        """The line and the column of paths, if they are known."""
        self.problems = (ConfigProblem(where, reason), *more)

    @property
    def where(self) -> str:
        return self.problems[0].where

    @property
    def reason(self) -> str:
        return self.problems[0].reason

    def __str__(self) -> str:
        lines = [(self._place(problem.where), problem.where, problem.reason) for problem in self.problems]
        return "\n".join(": ".join(part for part in line if part) for line in lines)

    def _place(self, where: str) -> str:
        """`FILE:LINE:COLUMN`, as editors and terminals know it."""
        at = self.positions.get(where)
        return f"{self.file}:{at[0]}:{at[1]}" if self.file and at is not None else self.file


def raise_all(problems: Sequence[ConfigProblem], file: str = "") -> None:
    if problems:
        first, *more = problems
        raise ConfigError(first.where, first.reason, file=file, more=more)


def member(where: str, name: str) -> str:
    """The path of a key in the table at `where`."""
    shown = name if _BARE.fullmatch(name) else dumps(name[:80], ensure_ascii=True)
    return f"{where}.{shown}" if where else shown


def entry(where: str, index: int) -> str:
    return f"{where}[{index}]"
