"""How often the progress of open requests is written down while the database does not take it.

Of a request only the latest progress matters, but the journal keeps every entry until the database has
it: one a second, for as long as the database is away, would fill the room that requests need. So the
entries come further and further apart while the first of them still waits: their number grows as the
logarithm of the outage. Of the room of the journal they never take the last half.
"""

from streamweir.store.ledger.writer import Writer

SLOW_S = 10.0
"""A database that is only slow has taken the first of them by then; nothing changes before."""
_PART = 4
"""Of the time that the first of them has waited: so long after the last one the next is written."""


class ProgressInterval:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._mark = 0
        self._first_at = self._last_at = 0.0

    def may_write(self, now: float) -> bool:
        if self._writer.has_applied(self._mark):
            return True
        if not self._writer.has_room_to_spare:
            return False
        waited_s = now - self._first_at
        return waited_s < SLOW_S or now - self._last_at >= waited_s / _PART

    def note_written(self, now: float) -> None:
        """After it was put."""
        if self._writer.has_applied(self._mark):
            self._first_at = now
        self._last_at = now
        self._mark = self._writer.mark
