"""When the pieces of an answer went out, counted in slots of time that widen as it lasts: some 250 bytes per stream.

Slots are 10 ms at first. When there is no slot left for a piece they are folded, two into one, until
there is: however long an answer takes, half of them or more tell of it, and a pause longer than a
slot shows as one that is empty. A slot's width is always 10 ms times a power of two, so that a piece
falls into the same one whenever it is folded. Nobody knows here what a piece is. It is counted where it
is written (`server.relay.downstream`), for every chunk; all else happens seldom, or once, when the answer is over.
"""

from array import array

from msgspec import Struct

from streamweir.store.db.request_log import StripView

SLOTS = 64
SLOT_MS = 10
SLOTS_PER_S = 1000.0 / SLOT_MS
_SMALL, _LARGE = "H", "I"
"""What a slot takes: two bytes, and four where one has more than 65535 pieces."""
_MAX_SMALL = 0xFFFF
_NONE = array(_SMALL, bytes(2 * SLOTS))


class Timeline(Struct, gc=False, eq=False):
    start_s: float
    """When the first piece went out, by the clock that all of them are told by."""
    counts: "array[int]"
    """For every chunk, so without a call: `counts[int((now - start_s) * SLOTS_PER_S) >> folds] += 1`. Where that
    raises, `add` finds room."""
    folds: int = 0

    def add(self, now: float) -> None:
        """A piece that went out, not before the first."""
        slot = int((now - self.start_s) * SLOTS_PER_S) >> self.folds
        while slot >= SLOTS:
            self._fold()
            slot >>= 1
        if self.counts[slot] == _MAX_SMALL and self.counts.typecode == _SMALL:
            self.counts = array(_LARGE, self.counts)
        self.counts[slot] += 1

    def _fold(self) -> None:
        pairs = [first + second for first, second in zip(self.counts[::2], self.counts[1::2], strict=True)]
        kind = _SMALL if max(pairs) <= _MAX_SMALL else _LARGE
        self.counts = array(kind, pairs + [0] * (SLOTS // 2))
        self.folds += 1


def timeline_from(now: float) -> Timeline:
    """With the first piece."""
    counts = _NONE[:]
    counts[0] = 1
    return Timeline(now, counts)


def read_timeline(timeline: Timeline, arrived_s: float) -> StripView:
    counts, used = timeline.counts.tolist(), SLOTS
    while not counts[used - 1]:
        used -= 1
    return StripView(
        start_ms=max(0, round((timeline.start_s - arrived_s) * 1000)),
        slot_ms=SLOT_MS << timeline.folds,
        counts=counts[:used],
    )
