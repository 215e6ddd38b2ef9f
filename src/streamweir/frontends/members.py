"""Reads the members of a caller's body, for APIs that are translated: required texts, and what was left out."""

from collections.abc import Sequence
from typing import Any

from streamweir.core.errors import CallerError
from streamweir.core.validation import missing_parameter

_MAX_NAMED, _MAX_PATH = 16, 80
"""The maximum number of dropped members in a header, and of characters of each; the log has more. Callers choose their
names."""


class Drops:
    """JSON paths of members that the translation leaves out, in the order in which they were found."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}

    def add(self, path: str) -> None:
        self._paths[path] = None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._paths)


def text_in(value: Any, name: str, path: str) -> str:
    """A member that must be a string."""
    text = value.get(name)
    if text is None:
        raise missing_parameter(f"{path}.{name}")
    if not isinstance(text, str):
        raise CallerError("invalid_type", f"{path}.{name} must be a string.", param=f"{path}.{name}")
    return text


def dropped_header(dropped: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The header of an answer that names what was left out of the request."""
    if not dropped:
        return ()
    return (("x-streamweir-dropped", ", ".join(path[:_MAX_PATH] for path in dropped[:_MAX_NAMED])),)
