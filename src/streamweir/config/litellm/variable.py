"""Converts references to environment variables: `os.environ/NAME` becomes `${NAME}`, and so does every secret.

A secret in the file gets a variable, one for each distinct secret, with a name that the file does not use yet. A note
tells the operator which variable to set, but does not contain the secret.
"""

import re
from collections.abc import Iterable

from streamweir.config.file.variable import quoted
from streamweir.config.litellm.report import Place, Report

REFERENCE = "os.environ/"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDERS = frozenset(
    {"none", "null", "empty", "dummy", "fake", "fake-key", "anything", "not-needed", "no-key", "na", "n/a", "xxx"}
)
"""Common placeholders for servers without keys."""


def is_placeholder(value: str) -> bool:
    return value.strip().lower() in _PLACEHOLDERS


class Variables:
    def __init__(self, texts: Iterable[str], others: Iterable[str], report: Report) -> None:
        self._report = report
        self._used_names = {*others, *(text.removeprefix(REFERENCE) for text in texts if text.startswith(REFERENCE))}
        self._names_by_value: dict[str, str] = {}
        self.used: dict[str, None] = {}
        """In the order of their first use."""

    def reference(self, name: str) -> str:
        """A reference to the variable `name`."""
        self.used.setdefault(name)
        return f"${{{name}}}"

    def text(self, value: str, place: Place) -> str:
        """A value that is not secret."""
        if not value.startswith(REFERENCE):
            return quoted(value)
        name = value.removeprefix(REFERENCE)
        if _NAME.fullmatch(name):
            return self.reference(name)
        better = self._names_by_value.get(value)
        if better is None:
            better = self._unused_name(re.sub(r"[^A-Za-z0-9_]", "_", name) or "VALUE")
            self._names_by_value[value] = better
        self._report.note(place, f"the name of its variable cannot be used here: set {better} instead")
        return self.reference(better)

    def secret(self, value: str, place: Place, hint: str) -> str:
        """A reference to the variable of a secret. `hint`: a name for it."""
        if value.startswith(REFERENCE):
            return self.text(value, place)
        name = self._names_by_value.get(value)
        if name is None:
            name = self._names_by_value[value] = self._unused_name(re.sub(r"[^A-Z0-9_]", "_", hint.upper()))
        self._report.note(place, f"a secret is in the file: put it into the environment as {name}")
        return self.reference(name)

    def _unused_name(self, hint: str) -> str:
        hint = hint if _NAME.fullmatch(hint) else f"_{hint}"
        names = (hint if number == 1 else f"{hint}_{number}" for number in range(1, 100_000))
        name = next(name for name in names if name not in self._used_names)
        self._used_names.add(name)
        return name
