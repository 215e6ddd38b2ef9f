"""Values of the old file as texts of the new one: `os.environ/NAME` is `${NAME}`, and so is every secret.

A secret that stands in the file gets a variable of its own, the same for the same secret and never a
name that the file uses already; the operator is told which to set, and not what to.
"""

import re
from collections.abc import Iterable

from streamweir.config.litellm.tree import Notes

REFERENCE = "os.environ/"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILLERS = frozenset(
    {"none", "null", "empty", "dummy", "fake", "fake-key", "anything", "not-needed", "no-key", "na", "n/a", "xxx"}
)
"""What people write where a server wants no key."""


def is_filler(value: str) -> bool:
    return value.strip().lower() in _FILLERS


class Variables:
    def __init__(self, texts: Iterable[str], others: Iterable[str], notes: Notes) -> None:
        self._notes = notes
        self._taken = {*others, *(text.removeprefix(REFERENCE) for text in texts if text.startswith(REFERENCE))}
        self._of_secret: dict[str, str] = {}
        self.used: dict[str, None] = {}
        """In the order in which they first appear."""

    def named(self, name: str) -> str:
        """A variable by its name."""
        self.used.setdefault(name)
        return f"${{{name}}}"

    def plain(self, value: str, where: str) -> str:
        """Something that may be read by anyone."""
        if not value.startswith(REFERENCE):
            return value.replace("$", "$$")
        name = value.removeprefix(REFERENCE)
        if _NAME.fullmatch(name):
            return self.named(name)
        better = self._free(re.sub(r"[^A-Za-z0-9_]", "_", name) or "VALUE")
        self._notes.ask(where, f"the name of its variable cannot be used here: set {better} instead")
        return self.named(better)

    def secret(self, value: str, where: str, hint: str) -> str:
        """`hint`: what its variable may be called."""
        if value.startswith(REFERENCE):
            return self.plain(value, where)
        name = self._of_secret.get(value)
        if name is None:
            name = self._of_secret[value] = self._free(re.sub(r"[^A-Z0-9_]", "_", hint.upper()))
        self._notes.ask(where, f"a secret is in the file: put it into the environment as {name}")
        return self.named(name)

    def _free(self, hint: str) -> str:
        hint = hint if _NAME.fullmatch(hint) else f"_{hint}"
        names = (hint if number == 1 else f"{hint}_{number}" for number in range(1, 100_000))
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        return name
