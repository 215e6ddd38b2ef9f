"""How often a key may ask: requests per minute, over a sliding window.

A key with `rpm = n` gets at most n requests in any 60 seconds: the n may come in one burst, and no
more come until the first of them is a minute old (to half a second; never early). A request that
is refused does not count. Knows keys by name alone, and nothing of tokens or money.
"""

from collections import OrderedDict

from msgspec import Struct

from streamweir.policy.window import SlidingCount

WINDOW_S = 60.0
_TICK_S = 0.5


class Admission(Struct, frozen=True, kw_only=True):
    allowed: bool
    limit: int
    remaining: int
    reset_s: float
    """Until all of the limit is there again."""
    retry_after_s: float = 0.0
    """Until one more request will be let in; 0 where this one was."""


class RateLimiter:
    """`most_keys` bounds the memory: beyond it the key that was used least recently is forgotten."""

    def __init__(self, most_keys: int = 10_000) -> None:
        self._most_keys = most_keys
        self._counts: OrderedDict[str, SlidingCount] = OrderedDict()

    def admit(self, key_name: str, rpm: int, now: float) -> Admission:
        """`now` is a clock that does not jump; one that is set back holds nobody up and lets nobody in."""
        count = self._counts.get(key_name)
        if count is None:
            count = self._counts[key_name] = SlidingCount(WINDOW_S, _TICK_S)
            if len(self._counts) > self._most_keys:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(key_name)
        used = count.count(now)
        if used >= rpm:  # more only after a reload that lowered it
            return Admission(
                allowed=False,
                limit=rpm,
                remaining=0,
                reset_s=count.until_none_s(now),
                retry_after_s=count.until_fewer_s(now),
            )
        count.add(now)
        return Admission(allowed=True, limit=rpm, remaining=rpm - used - 1, reset_s=count.until_none_s(now))
