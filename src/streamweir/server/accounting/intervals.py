"""The intervals and timeouts of accounting, in one value.

An operator cannot change them: each number is a promise that is made elsewhere (a request waits two seconds for a
reservation, keys stay valid for a minute without the database, a dead process is noticed within one minute), and some
depend on each other. A test may use shorter or longer ones.

`ProgressInterval` decides how often the progress of open requests is written while the database is unavailable. Only
the latest progress of a request matters, but the journal keeps every entry until the database has it: one per second,
for a long outage, would fill the space that requests need. So the intervals grow while the first of the entries still
waits: their number grows with the logarithm of the outage. They never use the second half of the journal.
"""

from msgspec import Struct

from streamweir.policy.limits.local import LEASE_S
from streamweir.store.ledger.batch import APPLY_S
from streamweir.store.ledger.writer import DECISION_S, Writer
from streamweir.store.limits.shared import INSTANCE_S, PAUSE_S, TIMEOUT_S


class Intervals(Struct, frozen=True, kw_only=True):
    tick_s: float = 1.0
    """Between two loads of changed keys, and between other periodic steps."""
    heartbeat_s: float = 2.0
    """Between two heartbeats."""
    hidden_after_s: float = 6.0
    """Running requests of a process without a heartbeat for so long are not shown: most likely it is dead."""
    dead_after_s: float = 20.0
    """A process without a heartbeat for so long is dead."""
    decision_s: float = DECISION_S
    """How long a request waits for accounting."""
    apply_s: float = APPLY_S
    """How long a batch of entries waits for the database, before it is tried again."""
    flush_s: float = 5.0
    """How long a process that ends waits for the database; the journal has the rest."""
    key_max_age_s: float = 60.0
    """How long stored keys stay valid after the last load."""
    live_interval_s: float = 1.0
    """Between two updates of the live view."""
    live_check_s: float = 10.0
    """Between two checks whether a viewer is still authorized; a keep-alive comment is sent with it."""
    report_s: float = 2.0
    """Between two looks at the health of targets, which other processes are told of."""
    report_all_s: float = 10.0
    """They are told of new latencies and numbers of requests as often."""
    report_again_s: float = 60.0
    """They are told of what has not changed as often."""
    alert_check_s: float = 5.0
    """Between two looks for what operators are told."""
    alert_lease_s: float = 30.0
    """The process that finds and sends alerts is replaced if nothing was heard of it for so long."""
    alert_retry_s: float = 1.0
    """A factor: how long a delivery that failed waits, compared to `policy.alert.retry_s`."""
    budget_use_s: float = 15.0
    """Between two looks at how much of the budgets is spent, for the metrics."""
    purge_after_s: float = 10.0
    """From the start to the first deletion of what is old: a process that starts has other things to do."""
    lease_s: float = LEASE_S
    """A reservation in Valkey is released if it was not renewed for so long."""
    instance_s: float = INSTANCE_S
    """All reservations of a process are released if it sent no heartbeat for so long."""
    shared_timeout_s: float = TIMEOUT_S
    stream_lease_s: float = 5.0
    """The resumable streams of a process that has published nothing for so long are lost, for readers elsewhere."""
    stream_timeout_s: float = 1.0
    """How long a publication of frames, or a look for a stream of another node, waits for Valkey."""
    shared_pause_s: float = PAUSE_S
    """How long Valkey is not called after it has failed too often."""


DEFAULT_INTERVALS = Intervals()


SLOW_S = 10.0
"""Within this time a slow database has received the first of them; the intervals do not grow before."""
_WAIT_PARTS = 4
"""The next entry is written after this fraction of the time that the first of them has waited."""


class ProgressInterval:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._mark = 0
        self._first_at = self._last_at = 0.0

    def may_write(self, now: float) -> bool:
        if self._writer.has_applied(self._mark):
            return True
        if not self._writer.has_spare_capacity:
            return False
        waited_s = now - self._first_at
        return waited_s < SLOW_S or now - self._last_at >= waited_s / _WAIT_PARTS

    def note_written(self, now: float) -> None:
        """Call it after the entry was put."""
        if self._writer.has_applied(self._mark):
            self._first_at = now
        self._last_at = now
        self._mark = self._writer.mark
