"""What became of the last reloads of a process: taken or refused, and what differed. In memory, and bounded."""

from collections import deque
from typing import Literal

from msgspec import Struct

from streamweir.config.display.difference import Change, Difference
from streamweir.config.error import ConfigError
from streamweir.core.text import cut

MAX_RELOADS = 20
_MAX_PROBLEMS = 20
_MAX_LENGTH = 400

Cause = Literal["request", "secret"]
"""`request`: a reload was asked for. `secret`: a secret that is elsewhere had changed."""


class Reload(Struct, frozen=True, kw_only=True):
    at_ms: int
    cause: Cause
    is_taken: bool
    """False: the previous configuration stayed in use."""
    problems: list[str]
    """Why it was refused."""
    changes: list[Change]
    more_changes: int
    """Changes that are left out because there are too many."""


class ReloadLog:
    def __init__(self) -> None:
        self._reloads: deque[Reload] = deque(maxlen=MAX_RELOADS)

    @property
    def reloads(self) -> list[Reload]:
        """The newest first."""
        return list(self._reloads)

    def taken(self, at_ms: int, cause: Cause, found: Difference) -> None:
        self._add(at_ms, cause, found, [])

    def refused(self, at_ms: int, cause: Cause, error: ConfigError) -> None:
        lines = str(error).splitlines()
        problems = [cut(line, _MAX_LENGTH) for line in lines]
        if len(problems) > _MAX_PROBLEMS:
            problems[_MAX_PROBLEMS:] = [f"and {len(problems) - _MAX_PROBLEMS} more"]
        self._add(at_ms, cause, None, problems)

    def _add(self, at_ms: int, cause: Cause, found: Difference | None, problems: list[str]) -> None:
        self._reloads.appendleft(
            Reload(
                at_ms=at_ms,
                cause=cause,
                is_taken=found is not None,
                problems=problems,
                changes=found.changes if found is not None else [],
                more_changes=found.more if found is not None else 0,
            )
        )
