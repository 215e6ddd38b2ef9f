"""How many requests may be opened at once, decided by how long work waits in this process.

    turn_took(seconds, now)    the duration of an event loop turn: the time that everything that was ready had to wait
    may_open(key, now)         whether this key may open one more; then call `enter(key, now)`, and `leave()` when the
                               request was sent to an upstream, or is over
    may_reject_unknown(now)    whether a request with an unknown key may be answered with that error

Without a queue there is no limit: a request that waits for a slow provider does not wait for the gateway, and running
streams do not count. There is a queue if turns were too long during a whole `INTERVAL_S` (as in CoDel, Nichols and
Jacobson 2012: a burst alone does not count). Then the limit is the number of requests that were being opened. From
there it follows the measured turns: it is reduced by the factor by which turns are too long, grows by a tenth while
they are short, and is removed when no request is refused.

Keys share the limit evenly, by what each has opened lately. A key at its equal share may open requests up to the limit,
one above its share fewer, and one below its share more: a reserve beyond the limit, so that a key with few requests is
not refused because of busy ones. Pure: the time is an argument.
"""

from math import exp, inf

TARGET_S = 0.01
"""The maximum duration of a turn. A request takes about ten turns to its first byte, a health check two."""
INTERVAL_S = 0.1
_MIN_TURNS = 3
"""Measured turns that are needed to evaluate an interval."""
_MIN_LIMIT = 16.0
"""So few requests are no overload, however long turns take: then another program uses the processor."""
_LONG_TURN = 3
"""A turn of this many times the target sets a limit at once: the number of requests that are being opened, but at
least `_MIN_PROVISIONAL_LIMIT`. If each turn opens all requests that arrived in the one before, turns grow by the factor
of the overload."""
_MIN_PROVISIONAL_LIMIT = 64.0
_MAX_DECREASE, _MAX_INCREASE = 0.5, 1.1
_MAX_LIMIT = 10_000.0
"""A limit that has grown beyond this without refusing a request is removed."""
_DECAY_S = 1.0
"""The count of what a key has opened decays: by two thirds in this time."""
_INACTIVE_S = 2.0
_MAX_KEYS = 1000
"""Keys whose recent use is kept."""
UNKNOWN_KEYS_PER_S = 100
"""While there is a limit, so many requests with an unknown key get that error; the others are refused as overload.
Answering one takes about as long as opening a request, and must not delay requests with a valid key."""
_MIN_FACTOR, _MAX_FACTOR = 0.6, 1.9
"""The factors of the limit for a key far above its equal share, and for one that has opened next to nothing."""


class OpeningLimit:
    def __init__(self, target_s: float = TARGET_S) -> None:
        self.target_s = target_s
        self.limit = inf
        """`inf`: there is none."""
        self.opening = 0
        self._keys: dict[str, _RecentUse] = {}
        self._shortest_s = inf
        self._turns = 0
        self._began = -inf
        self._max_opening = 0
        self._has_refused = False
        self._unknown_keys_left = float(UNKNOWN_KEYS_PER_S)
        """How many of them may still be answered."""
        self._unknown_keys_at = 0.0
        self._share = 0.0
        """The equal share: what all active keys have opened lately, divided by their number."""

    @property
    def is_limited(self) -> bool:
        return self.limit < inf

    def turn_took(self, turn_s: float, now: float) -> None:
        if turn_s > _LONG_TURN * self.target_s and self.limit == inf:
            # The next turn may bring more requests than all before: their number is unknown, so it is bounded at once.
            self.limit = max(float(self.opening), _MIN_PROVISIONAL_LIMIT)
        self._shortest_s = min(self._shortest_s, turn_s)
        self._turns += 1
        if self._turns < _MIN_TURNS or now - self._began < INTERVAL_S:
            return
        self._adapt(self._shortest_s)
        self._update_share(now)
        self._shortest_s, self._turns, self._began = inf, 0, now
        self._max_opening, self._has_refused = self.opening, False

    def may_open(self, key: str, now: float) -> bool:
        if self.limit == inf or self.opening < self.limit * self._limit_factor(key, now):
            return True
        self._has_refused = True
        return False

    def may_reject_unknown(self, now: float) -> bool:
        """Whether a request with an unknown key may be answered so. All of them share one rate."""
        if self.limit == inf:
            return True
        gained = (now - self._unknown_keys_at) * UNKNOWN_KEYS_PER_S
        self._unknown_keys_left, self._unknown_keys_at = min(self._unknown_keys_left + gained, UNKNOWN_KEYS_PER_S), now
        if self._unknown_keys_left < 1:
            self._has_refused = True
            return False
        self._unknown_keys_left -= 1
        return True

    def enter(self, key: str, now: float) -> None:
        self.opening += 1
        if self.opening > self._max_opening:
            self._max_opening = self.opening
        if self.limit < inf and (use := self._keys.get(key)) is not None:
            use.add(now)

    def leave(self) -> None:
        self.opening -= 1

    def _limit_factor(self, key: str, now: float) -> float:
        """The factor of the limit up to which this key may open requests."""
        use = self._keys.get(key)
        if use is None:
            if len(self._keys) >= _MAX_KEYS:
                return 1.0
            use = self._keys[key] = _RecentUse(now)
        use.requested_at = now
        had = use.at(now)
        if not had:
            return _MAX_FACTOR
        if not self._share or len(self._keys) == 1:
            return 1.0
        return min(max(2 - had / self._share, _MIN_FACTOR), _MAX_FACTOR)

    def _adapt(self, turn_s: float) -> None:
        if turn_s > self.target_s:
            limit = min(self.limit, float(self._max_opening))
            self.limit = max(_MIN_LIMIT, limit * max(_MAX_DECREASE, self.target_s / turn_s))
        elif self._has_refused:
            self.limit *= min(_MAX_INCREASE, self.target_s / turn_s)
        elif self.limit < inf:
            self.limit *= 4
        if self.limit > _MAX_LIMIT:
            self.limit = inf

    def _update_share(self, now: float) -> None:
        """Once per interval, because there may be many keys."""
        self._keys = {key: use for key, use in self._keys.items() if now - use.requested_at < _INACTIVE_S}
        self._share = sum(use.at(now) for use in self._keys.values()) / max(len(self._keys), 1)


class _RecentUse:
    """What a key has opened lately."""

    __slots__ = ("_amount", "_at", "requested_at")

    def __init__(self, now: float) -> None:
        self._amount = 0.0
        self._at = self.requested_at = now

    def at(self, now: float) -> float:
        return self._amount * exp((self._at - now) / _DECAY_S)

    def add(self, now: float) -> None:
        self._amount = self.at(now) + 1
        self._at = now
