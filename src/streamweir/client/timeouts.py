"""Timeouts and retries of the client. Pure: time and random values are arguments.

Time counts only while the client waits for the server: the time that a caller spends on an event does not count for the
next one. Comments (keep-alives) are not events. A request is retried only before its first event. The pause before a
retry is a random value from the whole range (full jitter), plus the server's `Retry-After`, if any.
"""

from collections.abc import Callable

from msgspec import Struct

from streamweir.client.error import ClientError, RequestFailed


class Timeouts(Struct, frozen=True, kw_only=True):
    """In seconds; None means no limit. There is no limit on a whole answer."""

    connect_s: float | None = 10.0
    first_event_s: float | None = 300.0
    """From the request to the first event with content, or to the end of an answer that is not streamed. Long, because
    some models reason before they answer."""
    between_events_s: float | None = 120.0


class Retries(Struct, frozen=True, kw_only=True):
    most: int = 2
    """Maximum number of retries."""
    base_s: float = 0.5
    """The maximum pause before the first retry; it doubles with each retry."""
    cap_s: float = 8.0
    longest_wait_s: float = 60.0
    """If `Retry-After` is longer, the request is not retried."""


DEFAULT_TIMEOUTS = Timeouts()
DEFAULT_RETRIES = Retries()


class EventDeadline:
    """The remaining time for the next event of one answer."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.limit_s = timeouts.first_event_s
        self._between_s = timeouts.between_events_s
        self._remaining_s = self.limit_s
        self._seen = 0

    def remaining_s(self, seen: int) -> float | None:
        """`seen`: the number of events so far. If it has grown, the time starts again."""
        if seen != self._seen:
            self._seen = seen
            self.limit_s = self._remaining_s = self._between_s
        return self._remaining_s

    def elapse(self, seconds: float) -> None:
        if self._remaining_s is not None:
            self._remaining_s = max(0.0, self._remaining_s - seconds)


class Attempts:
    """The attempts of one request. `random` returns numbers from 0 to 1."""

    def __init__(self, retries: Retries, random: Callable[[], float]) -> None:
        self.count = 1
        """Including the current one."""
        self._retries = retries
        self._random = random

    def pause_after(self, error: ClientError) -> float | None:
        """How long to wait before the next attempt. None if there is no further attempt."""
        retries = self._retries
        retry_after_s = error.retry_after_s if isinstance(error, RequestFailed) else None
        if not error.may_retry or self.count > retries.most or (retry_after_s or 0.0) > retries.longest_wait_s:
            return None
        max_pause_s = min(retries.cap_s, retries.base_s * 2.0 ** min(self.count - 1, 30))
        self.count += 1
        return (retry_after_s or 0.0) + self._random() * max_pause_s
