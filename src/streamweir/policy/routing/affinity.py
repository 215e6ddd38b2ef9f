"""Affinity: the requests of one conversation go to one candidate, which has the beginning of their prompt in its cache.

Two rules, for candidates between which the operator has no preference (`policy.routing.strategy`, docs/decisions/0032):

- What has answered a conversation is tried first, the newest first, for `hold_s` after its last answer.
- Without such a memory, the conversation itself chooses: weighted rendezvous hashing. Each name gets a number from the
  conversation's digest and its own name, and the smallest number is the first. Processes and nodes agree without
  talking to each other. Over many conversations each name is first as often as its weight says, and if one is not
  available, only its own conversations move.

The memory is this process's own. It is bounded in entries and in time: callers choose what their conversations are.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from math import log
from typing import Generic, NamedTuple, TypeVar

from streamweir.policy.routing.health import Candidate, TargetId
from streamweir.policy.routing.route import RouteTarget

T = TypeVar("T")
C = TypeVar("C")
K = TypeVar("K")

MAX_CONVERSATIONS = 50_000
MAX_REMEMBERED = 3
"""Candidates of one conversation. After a failover the one before still has most of the prompt in its cache."""
_HASH_RANGE = 2.0**64


class Affinity(Generic[C]):
    """What has answered each conversation. `C` is a candidate. Time is an argument; a clock that was set back ends what
    is remembered from later."""

    def __init__(self, hold_s: float, max_conversations: int = MAX_CONVERSATIONS) -> None:
        self.hold_s = hold_s
        """0: nothing is remembered, and no conversation chooses."""
        self._max_conversations = max_conversations
        self._answered: OrderedDict[bytes, tuple[float, tuple[C, ...]]] = OrderedDict()
        """By the time of the last answer, the oldest first."""

    def __len__(self) -> int:
        return len(self._answered)

    def adopt(self, old: "Affinity[C]") -> None:
        """Takes over what `old` remembers. A shorter `hold_s` applies to it, too."""
        self._answered = old._answered

    def recent(self, conversation: bytes, now: float) -> tuple[C, ...]:
        """The candidates that have answered it, the newest first."""
        known = self._answered.get(conversation)
        return known[1] if known is not None and 0 <= now - known[0] < self.hold_s else ()

    def note(self, conversation: bytes, candidate: C, now: float) -> None:
        """The candidate has answered."""
        if not self.hold_s:
            return
        others = [each for each in self.recent(conversation, now) if each != candidate]
        self._answered[conversation] = (now, (candidate, *others[: MAX_REMEMBERED - 1]))
        self._answered.move_to_end(conversation)
        # One is added at most and two are removed, so what is over does not stay.
        for _ in range(2):
            at, _ = next(iter(self._answered.values()))
            if len(self._answered) <= self._max_conversations and now - at < self.hold_s:
                return
            self._answered.popitem(last=False)


def rendezvous(
    conversation: bytes, entries: Iterable[T], name_of: Callable[[T], str], weight_of: Callable[[T], float]
) -> list[T]:
    """The entries in the order in which this conversation tries them. Names are unique, weights are above 0."""

    def number_of(entry: T) -> float:
        hashed = blake2b(name_of(entry).encode(), digest_size=8, key=conversation).digest()
        # An exponential variable with the weight as its rate: the smallest of several is each with its share.
        return -log((int.from_bytes(hashed) + 1) / _HASH_RANGE) / weight_of(entry)

    return sorted(entries, key=number_of)


class Preference(NamedTuple):
    """What a conversation prefers, at one moment."""

    conversation: bytes
    recent: Sequence[Candidate] = ()
    """Those that have answered it and are available, the newest first."""

    def draw(self, entries: Sequence[RouteTarget]) -> list[RouteTarget]:
        """In place of a random order."""
        drawn = rendezvous(self.conversation, entries, _target_name, _weight)
        return self.remembered_first(drawn)

    def remembered_first(self, entries: list[RouteTarget]) -> list[RouteTarget]:
        return _recent_first(entries, [candidate.target for candidate in self.recent], _target_of)

    def arrange_credentials(
        self, candidates: Sequence[Candidate], weight_of: Callable[[Candidate], float]
    ) -> list[Candidate]:
        """The candidates of one target."""
        drawn = rendezvous(self.conversation, candidates, _candidate_name, weight_of)
        return _recent_first(drawn, self.recent, _itself)


def _recent_first(entries: list[T], recent: Sequence[K], key_of: Callable[[T], K]) -> list[T]:
    """Those in `recent` in its order, then the others as they are."""
    if not recent:
        return entries
    places = {key: -place for place, key in enumerate(reversed(recent), start=1)}
    return sorted(entries, key=lambda entry: places.get(key_of(entry), 0))


def _target_of(entry: RouteTarget) -> TargetId:
    return entry.target


def _itself(candidate: Candidate) -> Candidate:
    return candidate


def _target_name(entry: RouteTarget) -> str:
    return str(entry.target)


def _weight(entry: RouteTarget) -> int:
    return entry.weight


def _candidate_name(candidate: Candidate) -> str:
    return f"{candidate.target} {candidate.credential}"
