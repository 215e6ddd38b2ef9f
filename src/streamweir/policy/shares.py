"""The share of a bounded resource that each key may hold, so that no key can take what others need.

A key may take one more while it holds fewer than `FACTOR` times what is free (dynamic thresholds, Choudhury and
Hahne 1998). So one busy key gets at most FACTOR / (FACTOR + 1) of the resource, n busy keys get equal parts, and
something is always left for a new key. It is not necessary to know which keys are active. The bound may change at any
time; what is held stays held. Pure. Limits that an operator sets for a key are in `policy.limits.local`.
"""

from math import inf

FACTOR = 4
"""One key alone gets four fifths, two get four ninths each."""


class Shares:
    __slots__ = ("_held", "bound", "total")

    def __init__(self, bound: float = inf) -> None:
        self.bound = bound
        self.total = 0
        """The sum over all keys."""
        self._held: dict[str, int] = {}

    def held(self, key: str) -> int:
        return self._held.get(key, 0)

    def may_take(self, key: str) -> bool:
        return self._held.get(key, 0) < FACTOR * (self.bound - self.total)

    def take(self, key: str) -> None:
        self._held[key] = self._held.get(key, 0) + 1
        self.total += 1

    def release(self, key: str) -> None:
        remaining = self._held[key] - 1
        self.total -= 1
        if remaining:
            self._held[key] = remaining
        else:
            del self._held[key]
