"""A circuit breaker: after too many failures in a row, something is not called for a while.

Then one call is let through as a probe; others are refused until it has ended. A probe that never ends costs one more
such pause. The time is an argument. This module does not depend on what is called.
"""


class Breaker:
    __slots__ = ("_failures", "_max_failures", "_open_s", "_until")

    def __init__(self, max_failures: int = 5, open_s: float = 60.0) -> None:
        self._max_failures = max_failures
        self._open_s = open_s
        self._failures = 0
        self._until = float("-inf")

    @property
    def is_open(self) -> bool:
        return self._failures >= self._max_failures

    def may_pass(self, now: float) -> bool:
        """Called once per call: the call may be the probe."""
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
        """Opens at once, after one failure of a severe kind."""
        self._failures = self._max_failures
        self._until = now + self._open_s
