"""The metrics about the state of a process: its accounting and its load, as they are when the metrics are read.

The parts that have this state give it as a reading; nothing is kept here.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct
from prometheus_client.metrics_core import Metric

from streamweir.server.telemetry.metric_families import Histogram, counter, gauge, histogram


class AccountingReading(Struct, frozen=True, kw_only=True):
    """The current state of accounting."""

    waiting: int
    """Journal entries that the database does not have yet."""
    lag_s: float
    """The age of the oldest of them."""
    journal_bytes: int
    refused: int
    content_dropped: int
    is_degraded: bool
    """Limits are counted without the other processes, because Valkey is unavailable."""


class OverloadReading(Protocol):
    """See `server.request.overload.Reading`."""

    @property
    def opening(self) -> int: ...

    @property
    def limit(self) -> float: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def refusals(self) -> Mapping[str, int]: ...

    @property
    def turns(self) -> Histogram: ...


def overload_families(reading: OverloadReading) -> Iterator[Metric]:
    refusals: dict[tuple[str, ...], float] = {(reason,): count for reason, count in reading.refusals.items()}
    yield counter("overload_refusals", "Requests refused with 503 overloaded, by reason.", ("reason",), refusals)
    about = "Requests admitted for which no upstream is called yet."
    yield gauge("opening_requests", about, (), [((), reading.opening)])
    about = "Limit of streamweir_opening_requests. +Inf: no limit at the moment."
    yield gauge("opening_limit", about, (), [((), reading.limit)])
    about = "Duration in seconds of one turn of the event loop."
    yield histogram("loop_turn_seconds", about, None, {"": reading.turns})


def accounting_families(accounting: AccountingReading) -> Iterator[Metric]:
    yield gauge("journal_entries_waiting", "Journal entries not yet in the database.", (), [((), accounting.waiting)])
    about = "Age in seconds of the oldest journal entry not yet in the database."
    yield gauge("journal_oldest_seconds", about, (), [((), accounting.lag_s)])
    yield gauge("journal_bytes", "Bytes of the journal not yet in the database.", (), [((), accounting.journal_bytes)])
    yield counter(
        "journal_entries_refused",
        "Accounting entries refused because the journal was full or could not be written.",
        (),
        {(): accounting.refused},
    )
    yield counter(
        "content_dropped",
        "Request contents not stored because too many were waiting for the database.",
        (),
        {(): accounting.content_dropped},
    )
    about = "1 if Valkey is unavailable and this process counts limits alone."
    yield gauge("shared_degraded", about, (), [((), int(accounting.is_degraded))])
