"""Timeouts and retries of the client. Pure: time and random values are arguments.

Time counts only while somebody waits for the server: a caller that takes an hour over one event has not used up a
second of the next one's. Comments (keep-alives) are no events. Another attempt is made only while no event has come;
its pause is drawn from the whole range (full jitter), after the time that the server asked for, if it did.
"""

from collections.abc import Callable

from msgspec import Struct

from streamweir.client.error import ClientError, RequestFailed


class Timeouts(Struct, frozen=True, kw_only=True):
    """In seconds; None waits for ever. There is none on an answer as a whole."""

    connect_s: float | None = 10.0
    first_event_s: float | None = 300.0
    """From the request to the first event that says something, or to the whole of an answer that is not streamed.
    Models may think long."""
    between_events_s: float | None = 120.0


class Retries(Struct, frozen=True, kw_only=True):
    most: int = 2
    """Attempts beyond the first."""
    base_s: float = 0.5
    """The longest pause before the first of them; it doubles with each."""
    cap_s: float = 8.0
    longest_wait_s: float = 60.0
    """A server that asks for more (`Retry-After`) is not waited for."""


PATIENT = Timeouts()
SOME = Retries()


class EventDeadline:
    """What is left of the time for the next event of one answer."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.limit_s = timeouts.first_event_s
        self._between_s = timeouts.between_events_s
        self._left_s = self.limit_s
        self._seen = 0

    def left_s(self, seen: int) -> float | None:
        """`seen`: how many events have come by now. More than before: the time begins anew."""
        if seen != self._seen:
            self._seen = seen
            self.limit_s = self._left_s = self._between_s
        return self._left_s

    def waited(self, seconds: float) -> None:
        if self._left_s is not None:
            self._left_s = max(0.0, self._left_s - seconds)


class Attempts:
    """Of one request. `chance` gives numbers from 0 up to 1."""

    def __init__(self, retries: Retries, chance: Callable[[], float]) -> None:
        self.count = 1
        """With the one that is under way."""
        self._retries = retries
        self._chance = chance

    def pause_after(self, error: ClientError) -> float | None:
        """How long to wait before the next attempt. None: there is none."""
        retries = self._retries
        asked_s = error.retry_after_s if isinstance(error, RequestFailed) else None
        if not error.may_retry or self.count > retries.most or (asked_s or 0.0) > retries.longest_wait_s:
            return None
        longest_s = min(retries.cap_s, retries.base_s * 2.0 ** min(self.count - 1, 30))
        self.count += 1
        return (asked_s or 0.0) + self._chance() * longest_s
