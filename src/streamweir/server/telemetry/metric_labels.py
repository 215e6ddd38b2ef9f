"""The names that can be labels of metrics: those of the configuration, and a bounded number of others.

Callers choose what model they ask for, so a name that is not configured becomes a label only when a provider has
answered for it. All others are `other`.
"""

from streamweir.server.telemetry.sanitize import clean

MAX_NAMES = 300
"""Names of one kind that can be added to the configured ones."""
OTHER = "other"


class LabelNames:
    """The names that can be labels."""

    def __init__(self) -> None:
        self.configured: frozenset[str] = frozenset()
        self._learned: set[str] = set()

    def label(self, name: str, has_answered: bool) -> str | None:
        if name in self.configured:
            return name
        name = clean(name)
        if name in self._learned:
            return name
        if has_answered and len(self._learned) < MAX_NAMES:
            self._learned.add(name)
            return name
        return None
