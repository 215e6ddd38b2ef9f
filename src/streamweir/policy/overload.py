"""How many requests may be opened at once, judged by how long work waits in this process.

    turn_took(seconds, now)    how long a turn of the event loop took: what anything that is ready had to wait
    may_open(key, now)         whether this key may open one more; then `opened(key, now)`, and `left()` when the
                               request was handed to an upstream, or is over
    may_tell(now)              whether one whose key is not known is told so

Without a queue there is no limit: whatever waits for a slow provider does not wait for us, and running streams do
not count. A queue that stands is one that was there in every turn for `INTERVAL_S` (as in CoDel, Nichols and Jacobson
2012: a burst alone is none). Then the limit is what was being opened, and from there it follows the measured turn:
smaller by the factor by which turns are too long, larger by a tenth while they are short, gone when nobody is refused.

Keys share it evenly: the less of an equal share a key has had lately, the further it gets. Who has had just that gets
as far as the limit, who has had more not so far, and who has had less into a reserve beyond it, so that a quiet key is
not refused for busy ones. Pure: time is handed in.
"""

from math import exp, inf

TARGET_S = 0.01
"""What a turn may take. A request takes about ten turns to its first byte, a health check two."""
INTERVAL_S = 0.1
_FEWEST_TURNS = 3
"""Measured, before anything is said of an interval."""
_LEAST = 16.0
"""So few are no overload, however long turns take: somebody else has the processor then."""
_LONG = 3
"""So many times the target, and one turn alone is enough for a limit: one that lets in what is there, and no less
than `_LEAST_IN_DOUBT`. Turns in which all is opened that came in the one before grow by the factor of the overload."""
_LEAST_IN_DOUBT = 64.0
_QUICKEST_FALL, _QUICKEST_RISE = 0.5, 1.1
_NO_LIMIT = 10_000.0
"""A limit that has grown beyond this without refusing anybody is none."""
_MEMORY_S = 1.0
"""How fast it is forgotten what a key has opened: by two thirds in that time."""
_INACTIVE_S = 2.0
_MOST_KEYS = 1000
"""Whose past is remembered."""
WITHOUT_KEY_PER_S = 100
"""Of requests with a key that nobody has: so many are told so, while there is a limit. To tell one takes about as long
as to open a request, and who has no key must not keep those waiting who have one."""
_LEAST_FAR, _FURTHEST = 0.6, 1.9
"""How much of the limit is for who has had much more than an equal share, and for who has had next to nothing."""


class OpeningLimit:
    def __init__(self, target_s: float = TARGET_S) -> None:
        self.target_s = target_s
        self.limit = inf
        """`inf`: there is none."""
        self.opening = 0
        self._keys: dict[str, _Use] = {}
        self._shortest_s = inf
        self._turns = 0
        self._began = -inf
        self._most_opening = 0
        self._has_refused = False
        self._without_key = float(WITHOUT_KEY_PER_S)
        """How many of them may still be told."""
        self._without_key_at = 0.0
        self._share = 0.0
        """What each of the active keys would have opened lately, were all equal."""

    @property
    def is_limited(self) -> bool:
        return self.limit < inf

    def turn_took(self, turn_s: float, now: float) -> None:
        if turn_s > _LONG * self.target_s and self.limit == inf:
            # More may come in the next one than in all before: nothing is known of it yet, but it must not grow.
            self.limit = max(float(self.opening), _LEAST_IN_DOUBT)
        self._shortest_s = min(self._shortest_s, turn_s)
        self._turns += 1
        if self._turns < _FEWEST_TURNS or now - self._began < INTERVAL_S:
            return
        self._adapt(self._shortest_s)
        self._weigh_keys(now)
        self._shortest_s, self._turns, self._began = inf, 0, now
        self._most_opening, self._has_refused = self.opening, False

    def may_open(self, key: str, now: float) -> bool:
        if self.limit == inf or self.opening < self.limit * self._reach(key, now):
            return True
        self._has_refused = True
        return False

    def may_tell(self, now: float) -> bool:
        """Whether one with a key that nobody has is told so; all of them together are one."""
        if self.limit == inf:
            return True
        gained = (now - self._without_key_at) * WITHOUT_KEY_PER_S
        self._without_key, self._without_key_at = min(self._without_key + gained, WITHOUT_KEY_PER_S), now
        if self._without_key < 1:
            self._has_refused = True
            return False
        self._without_key -= 1
        return True

    def opened(self, key: str, now: float) -> None:
        self.opening += 1
        if self.opening > self._most_opening:
            self._most_opening = self.opening
        if self.limit < inf and (use := self._keys.get(key)) is not None:
            use.add(now)

    def left(self) -> None:
        self.opening -= 1

    def _reach(self, key: str, now: float) -> float:
        """How far into the limit, or beyond it, this key gets."""
        use = self._keys.get(key)
        if use is None:
            if len(self._keys) >= _MOST_KEYS:
                return 1.0
            use = self._keys[key] = _Use(now)
        use.asked_at = now
        had = use.at(now)
        if not had:
            return _FURTHEST
        if not self._share or len(self._keys) == 1:
            return 1.0
        return min(max(2 - had / self._share, _LEAST_FAR), _FURTHEST)

    def _adapt(self, turn_s: float) -> None:
        if turn_s > self.target_s:
            limit = min(self.limit, float(self._most_opening))
            self.limit = max(_LEAST, limit * max(_QUICKEST_FALL, self.target_s / turn_s))
        elif self._has_refused:
            self.limit *= min(_QUICKEST_RISE, self.target_s / turn_s)
        elif self.limit < inf:
            self.limit *= 4
        if self.limit > _NO_LIMIT:
            self.limit = inf

    def _weigh_keys(self, now: float) -> None:
        """Once in an interval, for there may be many."""
        self._keys = {key: use for key, use in self._keys.items() if now - use.asked_at < _INACTIVE_S}
        self._share = sum(use.at(now) for use in self._keys.values()) / max(len(self._keys), 1)


class _Use:
    """What a key has opened lately."""

    __slots__ = ("_amount", "_at", "asked_at")

    def __init__(self, now: float) -> None:
        self._amount = 0.0
        self._at = self.asked_at = now

    def at(self, now: float) -> float:
        return self._amount * exp((self._at - now) / _MEMORY_S)

    def add(self, now: float) -> None:
        self._amount = self.at(now) + 1
        self._at = now
