"""Whether something that fails is asked at all: after too many failures in a row it is left alone for a while.

Then one asker is let through to find out; the others are turned away until he has. An asker who
never comes back costs one more such while, and no state. Time is handed in; what failed, and what
is done instead, is not known here.
"""


class Breaker:
    __slots__ = ("_failures", "_most_failures", "_open_s", "_until")

    def __init__(self, most_failures: int = 5, open_s: float = 60.0) -> None:
        self._most_failures = most_failures
        self._open_s = open_s
        self._failures = 0
        self._until = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._failures >= self._most_failures

    def may_pass(self, now: float) -> bool:
        """Once for every question: it may be the one that finds out."""
        if not self.is_open:
            return True
        if now < self._until:
            return False
        self._until = now + self._open_s
        return True

    def note_success(self) -> None:
        self._failures = 0

    def note_failure(self, now: float) -> None:
        self._failures += 1
        if self.is_open:
            self._until = now + self._open_s

    def trip(self, now: float) -> None:
        """Such a failure that one is enough."""
        self._failures = self._most_failures
        self._until = now + self._open_s
