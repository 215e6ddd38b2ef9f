"""The exception for an invalid configuration, with the path and the reason of each problem.

A path is written as in TOML; entries of a list are identified by their names, if they have any:
`server.timeouts.idle_s`, `providers.openai.base_url`, `keys[2].key`. A reason never contains a secret or a value from
the environment.
"""

import re
from collections.abc import Sequence
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
        self.problems = (ConfigProblem(where, reason), *more)

    @property
    def where(self) -> str:
        return self.problems[0].where

    @property
    def reason(self) -> str:
        return self.problems[0].reason

    def __str__(self) -> str:
        lines = [(self.file, problem.where, problem.reason) for problem in self.problems]
        return "\n".join(": ".join(part for part in line if part) for line in lines)


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
