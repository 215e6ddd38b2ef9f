"""When the pieces of an answer were sent, counted in time slots that widen as it lasts: about 250 bytes per stream.

Slots are 10 ms at first. When there is no slot for a piece, pairs of slots are merged until there is: however long an
answer takes, at least half of the slots are in use, and a pause that is longer than a slot is an empty slot. The width
of a slot is always 10 ms times a power of two, so that a piece falls into the same slot whenever slots are merged.
Pieces are counted where they are written (`server.relay.downstream`), for every chunk; everything else is rare, or
happens once, when the answer is over.
"""

from array import array

from msgspec import Struct

from streamweir.store.db.request_log import StripView

SLOTS = 64
SLOT_MS = 10
SLOTS_PER_S = 1000.0 / SLOT_MS
_SMALL, _LARGE = "H", "I"
"""The type of a slot: two bytes, or four if one has more than 65535 pieces."""
_MAX_SMALL = 0xFFFF
_NONE = array(_SMALL, bytes(2 * SLOTS))


class Timeline(Struct, gc=False, eq=False):
    start_s: float
    """When the first piece was sent, by the same clock as all others."""
    counts: "array[int]"
    """Updated for every chunk without a call: `counts[int((now - start_s) * SLOTS_PER_S) >> folds] += 1`. If that
    raises, call `add`."""
    folds: int = 0

    def add(self, now: float) -> None:
        """A piece that was sent, not before the first."""
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
