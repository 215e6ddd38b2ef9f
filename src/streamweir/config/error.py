"""What is wrong with a configuration, and where: the one exception of this package.

A place in the file is written as TOML would write it, with the entries of a list by their names
where they have any: `server.timeouts.idle_s`, `providers.openai.base_url`, `keys[2].key`. A reason
never holds a secret, nor anything that came out of the environment.
"""

import re
from collections.abc import Sequence
from json import dumps
from typing import NamedTuple

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Complaint(NamedTuple):
    where: str
    """Empty: the file as a whole."""
    reason: str


class ConfigError(Exception):
    """All that was found wrong in one reading; as text one line for each complaint."""

    def __init__(self, where: str, reason: str, *, file: str = "", more: Sequence[Complaint] = ()) -> None:
        super().__init__(where, reason)
        self.file = file
        self.complaints = (Complaint(where, reason), *more)

    @property
    def where(self) -> str:
        return self.complaints[0].where

    @property
    def reason(self) -> str:
        return self.complaints[0].reason

    def __str__(self) -> str:
        lines = [(self.file, complaint.where, complaint.reason) for complaint in self.complaints]
        return "\n".join(": ".join(part for part in line if part) for line in lines)


def raise_all(complaints: Sequence[Complaint], file: str = "") -> None:
    if complaints:
        first, *more = complaints
        raise ConfigError(first.where, first.reason, file=file, more=more)


def member(where: str, name: str) -> str:
    """The path of a key in the table at `where`."""
    shown = name if _BARE.fullmatch(name) else dumps(name[:80], ensure_ascii=True)
    return f"{where}.{shown}" if where else shown


def entry(where: str, index: int) -> str:
    return f"{where}[{index}]"
