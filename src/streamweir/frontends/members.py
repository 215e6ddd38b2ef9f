"""Reads the members of a caller's body, for APIs that are translated: required texts, and what was left out."""

from typing import Any

from streamweir.core.errors import CallerError
from streamweir.core.validation import missing_parameter


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
